/* fast_rope_kv.c - norms of q and k heads, rotary embedding, K and V to their slots. */
#include "kernels/cpu/fast.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/simd.h"
#include "kernels/ops.h"

/* dtype is a constant where these are called. */
SIMD_INLINE float norm_scale(const struct rope_kv_args *a, const enum dtype dtype, size_t head)
{
    size_t size = (size_t)a->head_dim;
    vf sum = vf_set1(0);

    for (size_t i = 0; i < size; i += VF_LANES) {
        vf value = vf_load_row(a->qkv, dtype, head + i, size - i);
        sum = vf_fma(value, value, sum);
    }
    return 1 / sqrtf(vf_sum(sum) / (float)size + a->eps);
}

SIMD_INLINE void rotate(const struct rope_kv_args *a, const enum dtype dtype, size_t head,
                        const void *norm, const float *cos_sin)
{
    size_t half = (size_t)a->head_dim / 2;
    vf scale = vf_set1(norm ? norm_scale(a, dtype, head) : 1);

    for (size_t i = 0; i < half; i += VF_LANES) {
        size_t rest = half - i;
        vf x0 = vf_load_row(a->qkv, dtype, head + i, rest);
        vf x1 = vf_load_row(a->qkv, dtype, head + half + i, rest);
        if (norm) {
            x0 = x0 * scale * vf_load_row(norm, dtype, i, rest);
            x1 = x1 * scale * vf_load_row(norm, dtype, half + i, rest);
        }
        vf cosine = vf_load_row(cos_sin, DTYPE_F32, i, rest);
        vf sine = vf_load_row(cos_sin, DTYPE_F32, half + i, rest);
        vf_store_row(a->qkv, dtype, head + i, rest, x0 * cosine - x1 * sine);
        vf_store_row(a->qkv, dtype, head + half + i, rest, x1 * cosine + x0 * sine);
    }
}

static void run_range(const void *args, int32_t first, int32_t end)
{
    const struct rope_kv_args *a = args;
    size_t head_dim = (size_t)a->head_dim, size = dtype_size(a->dtype);
    size_t num_qo_heads = (size_t)a->num_qo_heads, num_kv_heads = (size_t)a->num_kv_heads;
    size_t width = (num_qo_heads + 2 * num_kv_heads) * head_dim;
    size_t kv_bytes = num_kv_heads * head_dim * size;

    for (size_t t = (size_t)first; t < (size_t)end; t++) {
        const float *cos_sin = a->cos_sin + (size_t)a->positions[t] * head_dim;
        for (size_t i = 0; i < num_qo_heads + num_kv_heads; i++) {
            size_t head = t * width + i * head_dim;
            const void *norm = i < num_qo_heads ? a->q_norm : a->k_norm;
            if (a->dtype == DTYPE_F32)
                rotate(a, DTYPE_F32, head, norm, cos_sin);
            else
                rotate(a, DTYPE_BF16, head, norm, cos_sin);
        }
        const char *k = (const char *)a->qkv + (t * width + num_qo_heads * head_dim) * size;
        size_t slot = (size_t)a->out_loc[t];
        memcpy((char *)a->k_cache + slot * kv_bytes, k, kv_bytes);
        memcpy((char *)a->v_cache + slot * kv_bytes, k + kv_bytes, kv_bytes);
    }
}

void SIMD_NAME(rope_kv)(struct stream *stream, const void *args)
{
    const struct rope_kv_args *a = args;
    size_t num_heads = (size_t)(a->num_qo_heads + 2 * a->num_kv_heads);

    pool_split(cpu_stream_pool(stream), a->num_tokens, num_heads * (size_t)a->head_dim * 8,
               run_range, a);
}
