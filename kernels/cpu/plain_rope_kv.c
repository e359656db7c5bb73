/*
 * plain_rope_kv.c - norms of q and k heads, rotary embedding, K and V to their slots.
 *
 * Each head is rounded to its dtype once, behind the rotation.
 * Source: Su et al., RoFormer, arXiv 2104.09864, in the form that turns i with i + head_dim / 2.
 */
#include <math.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/element.h"
#include "kernels/ops.h"

/* 1, or what RMSNorm multiplies this head by. */
static float norm_scale(const struct rope_kv_args *a, size_t head, const void *norm)
{
    float sum = 0;

    if (!norm)
        return 1;
    for (size_t i = 0; i < (size_t)a->head_dim; i++) {
        float value = element_load(a->qkv, a->dtype, head + i);
        sum += value * value;
    }
    return 1 / sqrtf(sum / (float)a->head_dim + a->eps);
}

static float load(const struct rope_kv_args *a, size_t head, const void *norm, float scale,
                  size_t i)
{
    float value = element_load(a->qkv, a->dtype, head + i);

    return norm ? value * scale * element_load(norm, a->dtype, i) : value;
}

static void rotate(const struct rope_kv_args *a, size_t head, const void *norm,
                   const float *cos_sin)
{
    size_t half = (size_t)a->head_dim / 2;
    float scale = norm_scale(a, head, norm);

    for (size_t i = 0; i < half; i++) {
        float x0 = load(a, head, norm, scale, i);
        float x1 = load(a, head, norm, scale, half + i);
        float cosine = cos_sin[i], sine = cos_sin[half + i];
        element_store(a->qkv, a->dtype, head + i, x0 * cosine - x1 * sine);
        element_store(a->qkv, a->dtype, head + half + i, x1 * cosine + x0 * sine);
    }
}

void plain_rope_kv(struct stream *stream, const void *args)
{
    const struct rope_kv_args *a = args;
    size_t head_dim = (size_t)a->head_dim;
    size_t num_qo_heads = (size_t)a->num_qo_heads, num_kv_heads = (size_t)a->num_kv_heads;
    size_t num_heads = num_qo_heads + 2 * num_kv_heads;
    size_t kv_bytes = num_kv_heads * head_dim * dtype_size(a->dtype);

    (void)stream;
    for (size_t t = 0; t < (size_t)a->num_tokens; t++) {
        const float *cos_sin = a->cos_sin + (size_t)a->positions[t] * head_dim;
        size_t first = t * num_heads * head_dim;
        for (size_t head = 0; head < num_qo_heads + num_kv_heads; head++)
            rotate(a, first + head * head_dim, head < num_qo_heads ? a->q_norm : a->k_norm,
                   cos_sin);
        const char *k =
            (const char *)a->qkv + (first + num_qo_heads * head_dim) * dtype_size(a->dtype);
        size_t slot = (size_t)a->out_loc[t];
        memcpy((char *)a->k_cache + slot * kv_bytes, k, kv_bytes);
        memcpy((char *)a->v_cache + slot * kv_bytes, k + kv_bytes, kv_bytes);
    }
}
