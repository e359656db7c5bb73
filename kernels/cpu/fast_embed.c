/* fast_embed.c - y[t] = weight[token of t]: a copy, or a walk through a panel of a tied table. */
#include "kernels/cpu/fast.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/weight.h"
#include "kernels/ops.h"

#include <string.h>

/* Row n of a packed weight. Each word is a cache line of its own, but the distance is constant. */
static void unpack_row(const struct linear_weight *weight, int32_t n, char *y)
{
    const char *panel = weight->data + (size_t)(n / WEIGHT_PANEL) * weight->panel_size;
    const char *word = panel + (size_t)(n % WEIGHT_PANEL) * 4;
    size_t size = (size_t)weight->k * dtype_size(weight->dtype);

    for (size_t i = 0; i < size; i += 4, word += (size_t)WEIGHT_PANEL * 4)
        memcpy(y + i, word, size - i < 4 ? size - i : 4);
}

static void run_range(const void *args, int32_t first, int32_t end)
{
    const struct embed_args *a = args;
    size_t row_size = (size_t)a->hidden_size * dtype_size(a->dtype);

    for (int32_t t = first; t < end; t++) {
        size_t row = (size_t)a->token_table_idx[t] * (size_t)a->token_pool_stride;
        int32_t token = a->token_pool[row + (size_t)a->positions[t]];
        char *y = (char *)a->y + (size_t)t * row_size;
        if (a->table)
            unpack_row(a->table, token, y);
        else
            memcpy(y, (const char *)a->weight + (size_t)token * row_size, row_size);
    }
}

void SIMD_NAME(embed)(struct stream *stream, const void *args)
{
    const struct embed_args *a = args;

    /* a word of a tied table costs as much as a cache line */
    pool_split(cpu_stream_pool(stream), a->num_tokens, (size_t)a->hidden_size * (a->table ? 16 : 4),
               run_range, a);
}
