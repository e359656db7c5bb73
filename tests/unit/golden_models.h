/* golden_models.h - the models of tests/data and tools/ that have golden answers, by number. */
#ifndef TESTS_UNIT_GOLDEN_MODELS_H
#define TESTS_UNIT_GOLDEN_MODELS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { GOLDEN_QWEN3 = 3, GOLDEN_NUM_TINY = 6, GOLDEN_DEMO = GOLDEN_NUM_TINY, GOLDEN_NUM_MODELS };

static inline const char *golden_model_name(int model)
{
    static const char *const names[GOLDEN_NUM_MODELS] = {
        "llama", "mistral", "qwen2", "qwen3", "qwen3_yarn", "qwen3_moe", "demo"};

    return names[model];
}

/* The directory of that model, into out. */
static inline void golden_model_dir(int model, char *out, size_t size)
{
    const char *data = getenv("MINISGL_TEST_DATA");

    ck_assert_ptr_nonnull(data);
    if (model == GOLDEN_DEMO)
        snprintf(out, size, "%s/../../tools/demo_model", data);
    else
        snprintf(out, size, "%s/tiny_models/%s", data, golden_model_name(model));
}

#endif
