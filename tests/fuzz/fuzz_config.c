/*
 * fuzz_config.c - any bytes as config.json. Checked: what is accepted is a model that can be built.
 */
#include <math.h>
#include <stdlib.h>

#include "scheduler_proc/config.h"
#include "scheduler_proc/rope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_config config;
    float table[2 * 1024];

    if (model_config_parse(&config, (const char *)data, size, 0).code)
        return 0;
    if (config.num_kv_heads < 1 || config.num_qo_heads % config.num_kv_heads != 0 ||
        config.head_dim < 2 || config.head_dim > 1024 || config.head_dim % 2 != 0 ||
        config.num_layers < 1 || config.num_layers > MODEL_MAX_LAYERS || config.vocab_size < 1 ||
        config.num_experts_per_tok > config.num_experts)
        abort();
    rope_fill(&config.rope, config.head_dim, 2, table);
    for (int32_t i = 0; i < 2 * config.head_dim; i++)
        if (!isfinite(table[i]))
            abort();
    return 0;
}
