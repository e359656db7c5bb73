/*
 * rope_kv.cu - RMSNorm of q and k heads, rotary embedding, and the write of K and V to the cache,
 * in one pass over qkv:
 *     (a, b) at (i, i + head_dim / 2)  ->  (a cos - b sin, b cos + a sin)
 *
 * Grid: one warp per token and head; a lane holds the pairs i = lane, lane + 32, ... (two at a time
 * in bfloat16, so that accesses are 4 bytes). Up to head_dim 256 a head stays in registers between
 * the norm and the rotation.
 * Source: Su et al., RoFormer, arXiv 2104.09864, in the layout of halves.
 */
#include "kernels/cuda/cuda_util.cuh"

enum { WARPS = 4 };

/* One lane's load: P elements side by side. */
template <typename T, int P> struct alignas(sizeof(T) * P) pair_of {
    T v[P];
};

/* STEPS: loads that cover half a head with 32 lanes. */
template <typename T, int P, int STEPS>
static __global__ void __launch_bounds__(WARPS *WARP) rope_kv_kernel(struct rope_kv_args a)
{
    typedef pair_of<T, P> part;
    int heads = a.num_qo_heads + 2 * a.num_kv_heads, half = a.head_dim / 2;
    size_t item = blockIdx.x * (size_t)WARPS + threadIdx.x / WARP;
    size_t t = item / (size_t)heads;
    int head = (int)(item % (size_t)heads), lane = (int)threadIdx.x % WARP;
    bool is_q = head < a.num_qo_heads, is_v = head >= a.num_qo_heads + a.num_kv_heads;
    const T *norm = (const T *)(is_v ? NULL : is_q ? a.q_norm : a.k_norm);
    const float *cos_sin;
    part low[STEPS], high[STEPS];
    T *x, *cache = NULL;
    float sum = 0, scale = 1;

    pdl_wait();
    pdl_launch();
    if (t >= (size_t)a.num_tokens)
        return;
    x = (T *)a.qkv + item * (size_t)a.head_dim;
    cos_sin = a.cos_sin + (size_t)a.positions[t] * (size_t)a.head_dim;
    if (!is_q) {
        int kv_head = head - a.num_qo_heads - (is_v ? a.num_kv_heads : 0);

        cache =
            (T *)(is_v ? a.v_cache : a.k_cache) +
            ((size_t)a.out_loc[t] * (size_t)a.num_kv_heads + (size_t)kv_head) * (size_t)a.head_dim;
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        int i = (s * WARP + lane) * P;

        if (i >= half)
            continue;
        low[s] = *(const part *)(x + i);
        high[s] = *(const part *)(x + half + i);
        if (norm == NULL)
            continue;
        for (int p = 0; p < P; p++)
            sum += to_float(low[s].v[p]) * to_float(low[s].v[p]) +
                   to_float(high[s].v[p]) * to_float(high[s].v[p]);
    }
    if (norm)
        scale = rsqrtf(warp_sum(sum) / (float)a.head_dim + a.eps);
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        int i = (s * WARP + lane) * P;

        if (i >= half)
            continue;
        if (!is_v) {
            for (int p = 0; p < P; p++) {
                float u = to_float(low[s].v[p]), w = to_float(high[s].v[p]);
                float c = cos_sin[i + p], d = cos_sin[half + i + p];

                if (norm) {
                    u *= scale * to_float(norm[i + p]);
                    w *= scale * to_float(norm[half + i + p]);
                }
                store_float(&low[s].v[p], u * c - w * d);
                store_float(&high[s].v[p], w * c + u * d);
            }
            *(part *)(x + i) = low[s];
            *(part *)(x + half + i) = high[s];
        }
        if (cache) {
            *(part *)(cache + i) = low[s];
            *(part *)(cache + half + i) = high[s];
        }
    }
}

template <typename T, int P>
static cudaError_t rope_kv_launch(struct stream *stream, const struct rope_kv_args *a)
{
    int64_t heads = (int64_t)a->num_tokens * (a->num_qo_heads + 2 * a->num_kv_heads);
    int steps = ceil_div(a->head_dim / 2, WARP * P);
    dim3 grid((unsigned)ceil_div(heads, WARPS));

    if (steps == 1)
        return launch(stream, rope_kv_kernel<T, P, 1>, grid, WARPS * WARP, 0, *a);
    if (steps == 2)
        return launch(stream, rope_kv_kernel<T, P, 2>, grid, WARPS * WARP, 0, *a);
    if (steps <= 4)
        return launch(stream, rope_kv_kernel<T, P, 4>, grid, WARPS * WARP, 0, *a);
    return launch(stream, rope_kv_kernel<T, P, 16>, grid, WARPS * WARP, 0, *a);
}

extern "C" struct status rope_kv_cuda(struct stream *stream, const struct rope_kv_args *a)
{
    cudaError_t error;

    if (a->num_tokens == 0)
        return status_ok();
    if (a->head_dim > 1024 || a->head_dim % 2)
        return status_error(STATUS_UNSUPPORTED, "rope: head_dim %d", a->head_dim);
    if (a->dtype == DTYPE_F32)
        error = rope_kv_launch<float, 1>(stream, a);
    else if (a->head_dim % 4 == 0)
        error = rope_kv_launch<__nv_bfloat16, 2>(stream, a);
    else
        error = rope_kv_launch<__nv_bfloat16, 1>(stream, a);
    return cuda_launched(stream, error, "rope_kv");
}
