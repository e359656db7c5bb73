/*
 * attention_pieces.cuh - what becomes of a row's sums in attention_decode_stream.cu: they are
 * stored, or, where the row is cut, left in memory as a piece, and put together by who counts the
 * last one.
 */
#ifndef KERNELS_CUDA_ATTENTION_PIECES_CUH
#define KERNELS_CUDA_ATTENTION_PIECES_CUH

#include "kernels/cuda/attention_decode.cuh"

struct stream_args {
    struct attention_args a;
    int page_shift;
    /* [parts, num_kv_heads], zero: at the part in which a row begins, how many of its pieces are in
     * memory. */
    int32_t *counters;
};

/* A part has two pieces at most: of a row that begins before it, and of one that ends behind it. */
static __device__ __forceinline__ float *piece_of(const struct attention_args *a, int part,
                                                  int kv_head, bool begins_before)
{
    size_t index = ((size_t)part * (size_t)a->num_kv_heads + (size_t)kv_head) * 2 + begins_before;
    int group = a->num_qo_heads / a->num_kv_heads;

    return (float *)a->workspace + index * piece_len(group, a->head_dim);
}

template <int DIM, int TILES>
static __device__ __forceinline__ void leave(const struct decode_sums<DIM, TILES> *w, float *piece,
                                             int group, int d)
{
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;

#pragma unroll
    for (int i = 0; i < TILES * 2; i++) {
        int head = i / 2 * HEADS + 2 * t + i % 2;

        if (head >= group)
            continue;
#pragma unroll
        for (int c = 0; c < DIM / 64; c++) {
            const float(*o)[4] = &w->out[i / 2][c * 4];
            float4 *to = (float4 *)(piece + head * d + c * 64 + g * 8);

            if (c * 64 + g * 8 >= d)
                continue;
            to[0] = make_float4(o[0][i % 2], o[0][2 + i % 2], o[1][i % 2], o[1][2 + i % 2]);
            to[1] = make_float4(o[2][i % 2], o[2][2 + i % 2], o[3][i % 2], o[3][2 + i % 2]);
        }
        if (g == 0) {
            piece[group * d + head] = w->max[i / 2][i % 2];
            piece[group * (d + 1) + head] = w->sum[i / 2][i % 2];
        }
    }
}

/* w += what another warp has left. All is loaded first, from places that exist (what has no room in
 * registers, of head_dim 256 and two tiles, goes through memory). */
template <int DIM, int TILES>
static __device__ __forceinline__ void add_piece(struct decode_sums<DIM, TILES> *w,
                                                 const float *piece, int group, int d)
{
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    float max[TILES * 2], sum[TILES * 2];
    float4 out[TILES * 2][DIM / 32];

#pragma unroll
    for (int i = 0; i < TILES * 2; i++) {
        int head = min(i / 2 * HEADS + 2 * t + i % 2, group - 1);

        max[i] = __ldcg(piece + group * d + head);
        sum[i] = __ldcg(piece + group * (d + 1) + head);
#pragma unroll
        for (int c = 0; c < DIM / 32; c++) /* the halves of the lane's 8 elements of each 64 */
            out[i][c] = __ldcg(
                (const float4 *)(piece + head * d + min(c / 2 * 64 + g * 8, d - 8) + c % 2 * 4));
    }
#pragma unroll
    for (int i = 0; i < TILES * 2; i++) {
        float *w_max = &w->max[i / 2][i % 2], *w_sum = &w->sum[i / 2][i % 2];
        float larger = fmaxf(max[i], *w_max);
        float shrink = fast_exp2(*w_max - larger), factor = fast_exp2(max[i] - larger);

        *w_max = larger;
        *w_sum = *w_sum * shrink + factor * sum[i];
#pragma unroll
        for (int c = 0; c < DIM / 32; c++) {
            float(*o)[4] = &w->out[i / 2][c * 2];

            o[0][i % 2] = o[0][i % 2] * shrink + factor * out[i][c].x;
            o[0][2 + i % 2] = o[0][2 + i % 2] * shrink + factor * out[i][c].y;
            o[1][i % 2] = o[1][i % 2] * shrink + factor * out[i][c].z;
            o[1][2 + i % 2] = o[1][2 + i % 2] * shrink + factor * out[i][c].w;
        }
    }
}

template <int DIM, int TILES>
static __device__ __forceinline__ void store(const struct decode_sums<DIM, TILES> *w,
                                             __nv_bfloat16 *out, int group, int d)
{
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;

#pragma unroll
    for (int i = 0; i < TILES * 2; i++) {
        int head = i / 2 * HEADS + 2 * t + i % 2;
        float scale = 1 / w->sum[i / 2][i % 2];

#pragma unroll
        for (int c = 0; c < DIM / 64; c++) {
            const float(*o)[4] = &w->out[i / 2][c * 4];
            uint32_t y[4];

#pragma unroll
            for (int j = 0; j < 4; j++)
                y[j] = pack_bf16(o[j][i % 2] * scale, o[j][2 + i % 2] * scale);
            if (head < group && c * 64 + g * 8 < d)
                *(uint4 *)(out + head * d + c * 64 + g * 8) = make_uint4(y[0], y[1], y[2], y[3]);
        }
    }
}

/* A row that is cut, of which this warp has left a piece; the first and the last part that has one.
 * row -1: none. */
struct cut_row {
    int row, first, last;
};

/* Counts this warp's pieces; which of these rows are complete now: 1 for a, 2 for b. What others
 * have counted before is seen from here on. */
static __device__ __forceinline__ unsigned count_pieces(const struct stream_args *args,
                                                        const struct cut_row *a,
                                                        const struct cut_row *b, int kv_head)
{
    int lane = (int)threadIdx.x % WARP;
    int row = lane == 0 ? a->row : lane == 1 ? b->row : -1, before = 0;
    int first = lane == 0 ? a->first : b->first, last = lane == 0 ? a->last : b->last;
    int32_t *counter = &args->counters[first * args->a.num_kv_heads + kv_head];
    unsigned complete;

    __syncwarp();
    if (row >= 0) {
        before = count_up(counter);
        if (before == last - first)
            *counter = 0;
    }
    complete = __ballot_sync(~0u, row >= 0 && before == last - first);
    __syncwarp(); /* what lanes 0 and 1 see, all do */
    return complete;
}

#endif
