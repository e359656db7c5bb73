/*
 * rope_kv.cu - RMSNorm of q and k heads, rotary embedding, and the write of K and V to the cache,
 * in one pass over qkv:
 *     (a, b) at (i, i + head_dim / 2)  ->  (a cos - b sin, b cos + a sin)
 *
 * In bfloat16, LANES lanes share a head and each moves 8 pairs: 16 bytes from either half. Other
 * heads get a warp each, whose lanes hold the pairs i = lane, lane + 32, ... Either way a head
 * stays in registers between the norm and the rotation. Source: Su et al., RoFormer, arXiv
 * 2104.09864, in the layout of halves.
 */
#include "kernels/cuda/cuda_util.cuh"

enum { WARPS = 4 };

/* Where a head lies, and where it goes. */
struct head_place {
    size_t t;
    bool is_q, is_v;
    size_t at, cache_at; /* elements of qkv and of a cache */
};

static __device__ __forceinline__ struct head_place place_of(const struct rope_kv_args *a,
                                                             size_t item)
{
    size_t heads = (size_t)(a->num_qo_heads + 2 * a->num_kv_heads), dim = (size_t)a->head_dim;
    struct head_place place;
    int head = (int)(item % heads), kv_head;

    place.t = item / heads;
    place.is_q = head < a->num_qo_heads;
    place.is_v = head >= a->num_qo_heads + a->num_kv_heads;
    place.at = item * dim;
    kv_head = place.is_q ? 0 : head - a->num_qo_heads - (place.is_v ? a->num_kv_heads : 0);
    place.cache_at =
        ((size_t)a->out_loc[place.t] * (size_t)a->num_kv_heads + (size_t)kv_head) * dim;
    return place;
}

template <int LANES>
static __global__ void __launch_bounds__(WARPS *WARP) rope_kv_vec_kernel(struct rope_kv_args a)
{
    typedef __nv_bfloat16 bf16;
    typedef vec16<bf16> vec;
    int heads = a.num_qo_heads + 2 * a.num_kv_heads, half = a.head_dim / 2;
    size_t item = (blockIdx.x * (size_t)(WARPS * WARP) + threadIdx.x) / LANES;
    int i = (int)threadIdx.x % LANES * 8;
    bool is_there = item < (size_t)a.num_tokens * (size_t)heads && i < half;
    struct head_place place = {};
    const bf16 *norm;
    bf16 *x, *cache;
    vec low = {}, high = {}, scales[2];
    float sum = 0, turn[2][8];

    pdl_wait();
    pdl_launch();
    if (is_there) {
        place = place_of(&a, item);
        low = *(const vec *)((const bf16 *)a.qkv + place.at + i);
        high = *(const vec *)((const bf16 *)a.qkv + place.at + half + i);
    }
    norm = (const bf16 *)(place.is_v ? NULL : place.is_q ? a.q_norm : a.k_norm);
    if (is_there && !place.is_v) {
        const float *cos_sin = a.cos_sin + (size_t)a.positions[place.t] * (size_t)a.head_dim + i;

        for (int j = 0; j < 2; j++) {
            *(float4 *)&turn[j][0] = *(const float4 *)(cos_sin + j * half);
            *(float4 *)&turn[j][4] = *(const float4 *)(cos_sin + j * half + 4);
            if (norm)
                scales[j] = *(const vec *)(norm + i + j * half);
        }
    }
    for (int e = 0; e < 8; e++)
        sum += to_float(low.v[e]) * to_float(low.v[e]) + to_float(high.v[e]) * to_float(high.v[e]);
    for (int j = 1; j < LANES; j *= 2)
        sum += __shfl_xor_sync(~0u, sum, j);
    sum = rsqrtf(sum / (float)a.head_dim + a.eps);
    if (!is_there)
        return;
    x = (bf16 *)a.qkv + place.at + i;
    if (!place.is_v) {
        for (int e = 0; e < 8; e++) {
            float u = to_float(low.v[e]), w = to_float(high.v[e]);

            if (norm) {
                u *= sum * to_float(scales[0].v[e]);
                w *= sum * to_float(scales[1].v[e]);
            }
            store_float(&low.v[e], u * turn[0][e] - w * turn[1][e]);
            store_float(&high.v[e], w * turn[0][e] + u * turn[1][e]);
        }
        *(vec *)x = low;
        *(vec *)(x + half) = high;
    }
    if (!place.is_q) {
        cache = (bf16 *)(place.is_v ? a.v_cache : a.k_cache) + place.cache_at + i;
        *(vec *)cache = low;
        *(vec *)(cache + half) = high;
    }
}

/* STEPS: loads that cover half a head with a warp. */
template <typename T, int STEPS>
static __global__ void __launch_bounds__(WARPS *WARP) rope_kv_any_kernel(struct rope_kv_args a)
{
    int heads = a.num_qo_heads + 2 * a.num_kv_heads, half = a.head_dim / 2;
    size_t item = blockIdx.x * (size_t)WARPS + threadIdx.x / WARP;
    int lane = (int)threadIdx.x % WARP;
    struct head_place place;
    const float *cos_sin;
    const T *norm;
    T *x, *cache = NULL;
    float low[STEPS], high[STEPS], sum = 0, scale = 1;

    pdl_wait();
    pdl_launch();
    if (item >= (size_t)a.num_tokens * (size_t)heads)
        return;
    place = place_of(&a, item);
    norm = (const T *)(place.is_v ? NULL : place.is_q ? a.q_norm : a.k_norm);
    x = (T *)a.qkv + place.at;
    cos_sin = a.cos_sin + (size_t)a.positions[place.t] * (size_t)a.head_dim;
    if (!place.is_q)
        cache = (T *)(place.is_v ? a.v_cache : a.k_cache) + place.cache_at;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        int i = s * WARP + lane;

        low[s] = i < half ? to_float(x[i]) : 0;
        high[s] = i < half ? to_float(x[half + i]) : 0;
        sum += low[s] * low[s] + high[s] * high[s];
    }
    if (norm)
        scale = rsqrtf(warp_sum(sum) / (float)a.head_dim + a.eps);
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        int i = s * WARP + lane;

        if (i >= half)
            continue;
        if (!place.is_v) {
            float u = low[s] * scale, w = high[s] * scale;

            if (norm) {
                u *= to_float(norm[i]);
                w *= to_float(norm[half + i]);
            }
            low[s] = u * cos_sin[i] - w * cos_sin[half + i];
            high[s] = w * cos_sin[i] + u * cos_sin[half + i];
            store_float(&x[i], low[s]);
            store_float(&x[half + i], high[s]);
        }
        if (cache) {
            store_float(&cache[i], low[s]);
            store_float(&cache[half + i], high[s]);
        }
    }
}

template <typename T>
static cudaError_t rope_kv_any(struct stream *stream, const struct rope_kv_args *a)
{
    int64_t heads = (int64_t)a->num_tokens * (a->num_qo_heads + 2 * a->num_kv_heads);
    dim3 grid((unsigned)ceil_div(heads, WARPS));

    if (a->head_dim <= 4 * WARP)
        return launch(stream, rope_kv_any_kernel<T, 2>, grid, WARPS * WARP, 0, *a);
    return launch(stream, rope_kv_any_kernel<T, 16>, grid, WARPS * WARP, 0, *a);
}

template <int LANES>
static cudaError_t rope_kv_vec(struct stream *stream, const struct rope_kv_args *a)
{
    int64_t heads = (int64_t)a->num_tokens * (a->num_qo_heads + 2 * a->num_kv_heads);
    dim3 grid((unsigned)ceil_div(heads * LANES, WARPS * WARP));
    cudaError_t error = prefer_cache(stream, (const void *)rope_kv_vec_kernel<LANES>);

    return error ? error : launch(stream, rope_kv_vec_kernel<LANES>, grid, WARPS * WARP, 0, *a);
}

extern "C" struct status rope_kv_cuda(struct stream *stream, const struct rope_kv_args *a)
{
    cudaError_t error;

    if (a->num_tokens == 0)
        return status_ok();
    if (a->head_dim > 1024 || a->head_dim % 2)
        return status_error(STATUS_UNSUPPORTED, "rope: head_dim %d", a->head_dim);
    if (a->dtype == DTYPE_F32)
        error = rope_kv_any<float>(stream, a);
    else if (a->head_dim % 16 || a->head_dim > 256)
        error = rope_kv_any<__nv_bfloat16>(stream, a);
    else if (a->head_dim <= 128)
        error = rope_kv_vec<8>(stream, a);
    else
        error = rope_kv_vec<16>(stream, a);
    return cuda_launched(stream, error, "rope_kv");
}
