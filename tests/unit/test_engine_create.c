/* test_engine_create.c - the start of an engine: what is refused before weights are read, what is
 * settled from the memory there is, of configs that no file stands behind. */
#include <stdio.h>
#include <string.h>

#include "scheduler_proc/engine_internal.h"
#include "tests/unit/check_main.h"
#include "tests/unit/check_status.h"

#define LLAMA                                                                                      \
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 64, \"hidden_size\": 64, "        \
    "\"intermediate_size\": 96, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "            \
    "\"max_position_embeddings\": 128"

/* Dummy weights of that config, on the cpu. */
static struct status create(const char *json, struct engine_config *config, struct engine **out)
{
    static struct model_config model;

    ck_assert_ok(model_config_parse(&model, json, strlen(json), 0));
    config->device = ENGINE_CPU;
    config->model = &model;
    config->dummy_weights = true;
    config->num_threads = 1;
    config->max_running_reqs = 2;
    config->max_prefill_tokens = 16;
    config->page_size = 16;
    return engine_create(config, out);
}

START_TEST(what_the_operators_lack_is_refused_by_name)
{
    struct engine_config config = {0};
    struct engine *engine = NULL;

    ck_assert_fails(create(LLAMA ", \"head_dim\": 320}", &config, &engine), STATUS_UNSUPPORTED,
                    "head_dim 320: the cpu's attention serves at most 256");
    ck_assert_ok(create(LLAMA ", \"head_dim\": 256}", &config, &engine));
    engine_destroy(&engine);
}
END_TEST

/* Whichever of its matrices is the largest. */
START_TEST(dummies_are_large_enough)
{
    static const char *const sizes[] = {
        "\"vocab_size\": 64, \"intermediate_size\": 96, \"moe_intermediate_size\": 40000, "
        "\"num_experts\": 2",
        "\"vocab_size\": 64, \"intermediate_size\": 40000, \"moe_intermediate_size\": 16, "
        "\"num_experts\": 2, \"mlp_only_layers\": [0]",
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char json[1024];
        struct engine_config config = {0};
        struct engine *engine = NULL;
        snprintf(json, sizeof(json),
                 "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"hidden_size\": 64, "
                 "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"head_dim\": 32, "
                 "\"num_experts_per_tok\": 2, \"max_position_embeddings\": 128, %s}",
                 sizes[i]);
        ck_assert_ok(create(json, &config, &engine));
        engine_destroy(&engine);
    }
}
END_TEST

static struct status one_mebibyte(struct device *device, struct device_info *out)
{
    (void)device;
    *out = (struct device_info){.free_bytes = 1 << 20};
    return status_ok();
}

/* A quarter of what is free when the weights are loaded, not of what was. */
START_TEST(the_cache_takes_of_what_the_weights_leave)
{
    struct engine_config config = {.num_pages = 2};
    struct engine *engine = NULL;

    ck_assert_ok(create(LLAMA "}", &config, &engine));
    const struct device_ops *device = engine->backend.device;
    struct device_ops short_of_memory = *device;
    short_of_memory.info = one_mebibyte;
    device->free(engine->device, engine->kv_cache);
    engine->kv_cache = NULL;
    engine->backend.device = &short_of_memory;
    engine->config.num_pages = 0;
    ck_assert_ok(engine_make_cache(engine, (size_t)1 << 40));
    ck_assert_int_eq(engine->info.num_pages, (1 << 20) / 4 / (16 * 2 * 2 * 32 * 4));
    engine->backend.device = device;
    engine_destroy(&engine);
}
END_TEST

CHECK_MAIN("engine_create", what_the_operators_lack_is_refused_by_name, dummies_are_large_enough,
           the_cache_takes_of_what_the_weights_leave)
