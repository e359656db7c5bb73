/*
 * attention_decode.cuh - what a warp does with STEP positions of a row of one token, in bfloat16,
 * and with the sums that it keeps of them: out = softmax(scale q K^T) V.
 *
 * The tensor cores get K and V as 16 bytes a lane. All q heads of the group (up to 8 in one tile)
 * share them:
 *     S^T [16 positions, 8 heads] = K Q^T     lane (g, t) holds K[g][8 t ..] of each 32 elements;
 *                                             the order of the inner index is the same in Q
 *     O^T [16 elements, 8 heads] += V^T P^T   lane (g, t) holds V[2 t, 2 t + 1, ..][8 g ..] of each
 *                                             64 elements and pairs positions by byte permutes
 * with g = lane / 4, t = lane % 4. A lane's columns of S^T and O^T are the same heads, so that the
 * running maximum rescales in place. Source: Dao et al., Flash-Decoding (2023); the online softmax
 * of attention_any.cu.
 */
#ifndef KERNELS_CUDA_ATTENTION_DECODE_CUH
#define KERNELS_CUDA_ATTENTION_DECODE_CUH

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/mma.cuh"

enum {
    STEP = 16, /* positions that a warp takes at a time */
    HEADS = 8, /* q heads of a tile */
};

/* DIM: head_dim rounded up to 64, 128 or 256. TILES: of 8 q heads. */
template <int DIM, int TILES> struct decode_sums {
    float out[TILES][DIM / 16][4];      /* O^T, not yet divided by sum */
    float max[TILES][2], sum[TILES][2]; /* of heads 2 t and 2 t + 1; sums are this lane's own until
                                           sums_join() */
};

template <int DIM, int TILES>
static __device__ __forceinline__ void sums_clear(struct decode_sums<DIM, TILES> *w)
{
#pragma unroll
    for (int h = 0; h < TILES; h++) {
#pragma unroll
        for (int m = 0; m < DIM / 16; m++)
            w->out[h][m][0] = w->out[h][m][1] = w->out[h][m][2] = w->out[h][m][3] = 0;
        w->max[h][0] = w->max[h][1] = -1e30f; /* finite, so that differences are no NaN */
        w->sum[h][0] = w->sum[h][1] = 0;
    }
}

/* The lane's 16 bytes of Q^T: of 32 elements from e on, of the tile whose first head is head. Zeros
 * beyond the group and head_dim. */
static __device__ __forceinline__ uint4 load_q(const __nv_bfloat16 *q, int head, int group, int e,
                                               int head_dim)
{
    int lane = (int)threadIdx.x % WARP;

    head += lane / 4;
    e += lane % 4 * 8;
    return head < group && e < head_dim ? *(const uint4 *)(q + head * head_dim + e)
                                        : make_uint4(0, 0, 0, 0);
}

/* s += K Q^T over 32 elements: k0 of position g, k1 of position g + 8. */
static __device__ __forceinline__ void score(float *s, uint4 k0, uint4 k1, uint4 q)
{
    mma_bf16(s, k0.x, k1.x, k0.y, k1.y, q.x, q.y);
    mma_bf16(s, k0.z, k1.z, k0.w, k1.w, q.z, q.w);
}

/* Scores of num positions become weights; what is kept of the heads of tile h is brought up to
 * date. */
template <int DIM, int TILES>
static __device__ __forceinline__ void rescale(struct decode_sums<DIM, TILES> *w, int h, float *s,
                                               int num, float scale_log2)
{
    int g = (int)threadIdx.x % WARP / 4;

#pragma unroll
    for (int i = 0; i < 4; i++) /* s[0], s[1] of position g, s[2], s[3] of g + 8 */
        s[i] = g + i / 2 * 8 < num ? s[i] * scale_log2 : -INFINITY;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float larger = fmaxf(s[i], s[2 + i]), shrink;

        larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 4));
        larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 8));
        larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 16));
        larger = fmaxf(larger, w->max[h][i]);
        shrink = fast_exp2(w->max[h][i] - larger);
        w->max[h][i] = larger;
        s[i] = fast_exp2(s[i] - larger);
        s[2 + i] = fast_exp2(s[2 + i] - larger);
        w->sum[h][i] = w->sum[h][i] * shrink + s[i] + s[2 + i];
#pragma unroll
        for (int m = 0; m < DIM / 16; m++) {
            w->out[h][m][i] *= shrink;
            w->out[h][m][2 + i] *= shrink;
        }
    }
}

/* The weights as the right operand, of positions 0-7 and 8-15. */
struct weights {
    uint32_t low, high;
};

static __device__ __forceinline__ struct weights weights_of(const float *s)
{
    struct weights p = {transpose_8x8(pack_bf16(s[0], s[1])), transpose_8x8(pack_bf16(s[2], s[3]))};

    return p;
}

/* O^T += V^T P^T over 64 elements: v of positions 2 t, 2 t + 1, 2 t + 8 and 2 t + 9. */
static __device__ __forceinline__ void add_values(float (*out)[4], const uint4 *v, struct weights p)
{
    const uint32_t *v0 = &v[0].x, *v1 = &v[1].x, *v2 = &v[2].x, *v3 = &v[3].x;

#pragma unroll
    for (int j = 0; j < 4; j++)
        mma_bf16(out[j], lows(v0[j], v1[j]), highs(v0[j], v1[j]), lows(v2[j], v3[j]),
                 highs(v2[j], v3[j]), p.low, p.high);
}

/* Sums become those of all lanes that share their heads. */
template <int DIM, int TILES>
static __device__ __forceinline__ void sums_join(struct decode_sums<DIM, TILES> *w)
{
#pragma unroll
    for (int h = 0; h < TILES; h++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            for (int j = 4; j < WARP; j *= 2)
                w->sum[h][i] += __shfl_xor_sync(~0u, w->sum[h][i], j);
        }
    }
}

/* Floats of a row of which a part of the positions is summed up: out [group, head_dim], max and sum
 * [group] each, and room for as many more, so that the next begins at 16 bytes. */
static __host__ __device__ inline size_t piece_len(int group, int head_dim)
{
    return (size_t)group * ((size_t)head_dim + 4);
}

/* The group of q heads of a token, and where its out goes. */
static __device__ __forceinline__ const __nv_bfloat16 *q_of(const struct attention_args *a,
                                                            int token, int kv_head)
{
    int group = a->num_qo_heads / a->num_kv_heads;

    return (const __nv_bfloat16 *)a->qkv +
           ((size_t)token * (size_t)(a->num_qo_heads + 2 * a->num_kv_heads) +
            (size_t)(kv_head * group)) *
               (size_t)a->head_dim;
}

static __device__ __forceinline__ __nv_bfloat16 *out_of(const struct attention_args *a, int token,
                                                        int kv_head)
{
    int group = a->num_qo_heads / a->num_kv_heads;

    return (__nv_bfloat16 *)a->out +
           ((size_t)token * (size_t)a->num_qo_heads + (size_t)(kv_head * group)) *
               (size_t)a->head_dim;
}

/* attention_decode_stream.cu: where the rows are enough to keep all warps at work. */
struct status attention_decode_stream_launch(struct stream *stream,
                                             const struct attention_args *args);

#endif
