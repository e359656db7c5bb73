/*
 * plain_attention.c - softmax(q k^T * scale) v over the positions that a token sees, head by head.
 *
 * Three passes over the positions: scores and their maximum, exponentials and their sum, output.
 */
#include <math.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/element.h"
#include "kernels/ops.h"

/* First element of position p's head in the cache. */
static size_t cache_at(const struct attention_args *a, int32_t row, int32_t p, int32_t kv_head)
{
    size_t table = (size_t)a->row_table_idx[row] * (size_t)a->page_table_stride;
    size_t page = (size_t)a->page_table[table + (size_t)(p / a->page_size)];
    size_t slot = page * (size_t)a->page_size + (size_t)(p % a->page_size);

    return (slot * (size_t)a->num_kv_heads + (size_t)kv_head) * (size_t)a->head_dim;
}

static void attend(const struct attention_args *a, int32_t row, int32_t token, int32_t head,
                   int32_t num_positions)
{
    int32_t kv_head = head / (a->num_qo_heads / a->num_kv_heads);
    size_t head_dim = (size_t)a->head_dim;
    size_t token_heads = (size_t)(a->num_qo_heads + 2 * a->num_kv_heads);
    size_t q = ((size_t)token * token_heads + (size_t)head) * head_dim;
    size_t out = ((size_t)token * (size_t)a->num_qo_heads + (size_t)head) * head_dim;
    float *p = a->workspace;
    float max = -INFINITY, sum = 0;

    for (int32_t i = 0; i < num_positions; i++) {
        size_t k = cache_at(a, row, i, kv_head);
        float score = 0;
        for (size_t d = 0; d < head_dim; d++)
            score +=
                element_load(a->qkv, a->dtype, q + d) * element_load(a->k_cache, a->dtype, k + d);
        p[i] = score * a->scale;
        max = fmaxf(max, p[i]);
    }
    for (int32_t i = 0; i < num_positions; i++) {
        p[i] = expf(p[i] - max);
        sum += p[i];
    }
    for (size_t d = 0; d < head_dim; d++) {
        float value = 0;
        for (int32_t i = 0; i < num_positions; i++)
            value += p[i] * element_load(a->v_cache, a->dtype, cache_at(a, row, i, kv_head) + d);
        element_store(a->out, a->dtype, out + d, value / sum);
    }
}

void plain_attention(struct stream *stream, const void *args)
{
    const struct attention_args *a = args;

    (void)stream;
    for (int32_t row = 0; row < a->num_rows; row++) {
        int32_t first = a->cu_seqlens_q[row], end = a->cu_seqlens_q[row + 1];
        for (int32_t token = first; token < end; token++) {
            int32_t num_positions = a->kv_lens[row] - (end - token) + 1;
            for (int32_t head = 0; head < a->num_qo_heads; head++)
                attend(a, row, token, head, num_positions);
        }
    }
}
