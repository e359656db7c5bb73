/*
 * attention_any.cu - attention for every dtype and head_dim, in the plainest way:
 *     out = sum_p softmax_p(scale q . k_p) v_p
 *
 * Grid: one block per token and q head; its WARPS warps take the positions in turn, each with a
 * running maximum and sum, and merge at the end. Lanes split the head. This is the definition that
 * the fast kernels are tested against, and what float32 runs on; it does not aim at a ceiling.
 * Source: Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867.
 */
#include "kernels/cuda/attention.cuh"

enum { WARPS = 4 };

/* STEPS: elements of a head that each lane holds. */
template <typename T, int STEPS>
static __global__ void __launch_bounds__(WARPS *WARP)
    attention_any_kernel(struct attention_args a, int page_shift)
{
    __shared__ float maxima[WARPS], sums[WARPS], parts[WARPS][STEPS * WARP];
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    int t = (int)blockIdx.x, head = (int)blockIdx.y, d = a.head_dim;
    int group = a.num_qo_heads / a.num_kv_heads, kv_head = head / group;
    int q_stride = (a.num_qo_heads + 2 * a.num_kv_heads) * d;
    float q[STEPS], acc[STEPS], maximum = -INFINITY, sum = 0;
    const int32_t *pages;
    int row, num_keys;

    pdl_wait();
    pdl_launch();
    if (t >= a.cu_seqlens_q[a.num_rows]) /* padding */
        return;
    row = row_of_token(a.cu_seqlens_q, a.num_rows, t);
    num_keys = a.kv_lens[row] - (a.cu_seqlens_q[row + 1] - 1 - t);
    pages = a.page_table + (size_t)a.row_table_idx[row] * (size_t)a.page_table_stride;
    for (int s = 0; s < STEPS; s++) {
        int i = s * WARP + lane;

        acc[s] = 0;
        q[s] =
            i < d
                ? a.scale *
                      to_float(
                          ((const T *)a.qkv)[(size_t)t * (size_t)q_stride + (size_t)(head * d + i)])
                : 0;
    }
    for (int p = warp; p < num_keys; p += WARPS) {
        size_t at = ((size_t)slot_of(pages, p, a.page_size, page_shift) * (size_t)a.num_kv_heads +
                     (size_t)kv_head) *
                    (size_t)d;
        const T *k = (const T *)a.k_cache + at, *v = (const T *)a.v_cache + at;
        float score = 0, larger, shrink, weight;

        for (int s = 0; s < STEPS; s++) {
            int i = s * WARP + lane;

            if (i < d)
                score += q[s] * to_float(k[i]);
        }
        score = warp_sum(score);
        larger = fmaxf(maximum, score);
        shrink = expf(maximum - larger);
        weight = expf(score - larger);
        maximum = larger;
        sum = sum * shrink + weight;
        for (int s = 0; s < STEPS; s++) {
            int i = s * WARP + lane;

            if (i < d)
                acc[s] = acc[s] * shrink + weight * to_float(v[i]);
        }
    }
    for (int s = 0; s < STEPS; s++)
        parts[warp][s * WARP + lane] = acc[s];
    if (lane == 0) {
        maxima[warp] = maximum;
        sums[warp] = sum;
    }
    __syncthreads();
    maximum = maxima[0]; /* warp 0 has at least one key */
    for (int w = 1; w < WARPS; w++)
        maximum = fmaxf(maximum, maxima[w]);
    sum = 0;
    for (int w = 0; w < WARPS; w++)
        sum += sums[w] * expf(maxima[w] - maximum);
    for (int i = (int)threadIdx.x; i < d; i += WARPS * WARP) {
        float y = 0;

        for (int w = 0; w < WARPS; w++)
            y += parts[w][i] * expf(maxima[w] - maximum);
        store_float((T *)a.out + ((size_t)t * (size_t)a.num_qo_heads + (size_t)head) * (size_t)d +
                        (size_t)i,
                    num_keys > 0 ? y / sum : 0);
    }
}

template <typename T>
static cudaError_t attention_any(struct stream *stream, const struct attention_args *a)
{
    dim3 grid((unsigned)a->num_tokens, (unsigned)a->num_qo_heads);
    int shift = page_shift_of(a->page_size);

    if (a->head_dim <= 64)
        return launch(stream, attention_any_kernel<T, 2>, grid, WARPS * WARP, 0, *a, shift);
    if (a->head_dim <= 128)
        return launch(stream, attention_any_kernel<T, 4>, grid, WARPS * WARP, 0, *a, shift);
    return launch(stream, attention_any_kernel<T, 8>, grid, WARPS * WARP, 0, *a, shift);
}

struct status attention_any_launch(struct stream *stream, const struct attention_args *a)
{
    cudaError_t error;

    if (a->head_dim > ATTENTION_MAX_HEAD_DIM)
        return status_error(STATUS_UNSUPPORTED, "attention: head_dim %d, %d is the most",
                            a->head_dim, (int)ATTENTION_MAX_HEAD_DIM);
    if (a->dtype == DTYPE_BF16)
        error = attention_any<__nv_bfloat16>(stream, a);
    else
        error = attention_any<float>(stream, a);
    return cuda_launched(stream, error, "attention");
}
