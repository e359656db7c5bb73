/* plain_embed.c - y[t] = weight[token of t]. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/element.h"
#include "kernels/cpu/weight.h"
#include "kernels/ops.h"

void plain_embed(struct stream *stream, const void *args)
{
    const struct embed_args *a = args;
    size_t hidden_size = (size_t)a->hidden_size;

    (void)stream;
    for (int32_t t = 0; t < a->num_tokens; t++) {
        size_t row = (size_t)a->token_table_idx[t] * (size_t)a->token_pool_stride;
        int32_t token = a->token_pool[row + (size_t)a->positions[t]];
        for (size_t i = 0; i < hidden_size; i++) {
            float value = a->table
                              ? weight_at(a->table, token, (int32_t)i)
                              : element_load(a->weight, a->dtype, (size_t)token * hidden_size + i);
            element_store(a->y, a->dtype, (size_t)t * hidden_size + i, value);
        }
    }
}
