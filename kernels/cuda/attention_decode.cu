/*
 * attention_decode.cu - attention of rows of one token, in bfloat16: out = softmax(scale q K^T) V,
 * bound by the one read of K and V.
 *
 * Grid: one block per (kv head, split, row); kv heads are the fastest, so that neighbours read
 * neighbouring memory. A row's positions are cut by its own length, read on the device, into at
 * most as many splits as the grid has; the split that ends last merges them all. The WARPS warps of
 * a block take 16 positions at a time each, and merge in shared memory.
 *
 * K and V go from memory straight into the tensor cores' registers, 16 bytes a lane, without
 * passing shared memory. All q heads of the group (up to 8 in one tile) share the loads:
 *     S^T [16 positions, 8 heads] = K Q^T     lane (g, t) loads K[g][8 t ..] of each 32 elements;
 *                                             the order of the inner index is the same in Q
 *     O^T [16 elements, 8 heads] += V^T P^T   lane (g, t) loads V[2 t, 2 t + 1, ..][8 g ..] of each
 *                                             64 elements and pairs positions by byte permutes
 * with g = lane / 4, t = lane % 4. A lane's columns of S^T and O^T are the same heads, so that the
 * running maximum rescales in place.
 * Source: Dao et al., Flash-Decoding (2023); the online softmax of attention_any.cu.
 */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/mma.cuh"

enum {
    WARPS = 4,
    STEP = 16,        /* positions that a warp takes at a time */
    HEADS = 8,        /* q heads of a tile */
    MAX_ITEMS = 8192, /* blocks of a grid that splits */
    WANTED_BLOCKS_PER_SM = 8,
    MIN_SPLIT = WARPS * STEP, /* positions */
};

struct decode_args {
    struct attention_args a;
    int page_shift;
    int max_splits;
    int32_t *counters; /* [num_rows * num_kv_heads], zero */
};

/* The positions of one split: those that the row's length gives it. */
struct split {
    int num, begin, end;
};

static __device__ struct split split_of(int kv_len, int max_splits, int index)
{
    struct split split;
    int len = (kv_len + max_splits - 1) / max_splits;

    len = (len + MIN_SPLIT - 1) / MIN_SPLIT * MIN_SPLIT;
    split.num = (kv_len + len - 1) / len;
    split.begin = index * len;
    split.end = min(kv_len, split.begin + len);
    return split;
}

/* What a block leaves for the merge: [group] sums of exponentials' maxima and sums, then
 * [group, head_dim] of unnormalised output. */
static __device__ float *partial_of(const struct decode_args *args, size_t item, int split)
{
    size_t group = (size_t)(args->a.num_qo_heads / args->a.num_kv_heads);

    return (float *)args->a.workspace + (item * (size_t)args->max_splits + (size_t)split) * group *
                                            ((size_t)args->a.head_dim + 2);
}

/* DIM: head_dim rounded up to 64, 128 or 256. TILES: of 8 q heads. */
template <int DIM, int TILES> struct warp_state {
    uint4 q[TILES][DIM / 32];
    float out[TILES][DIM / 16][4];
    float max[TILES][2], sum[TILES][2]; /* of heads 2 t and 2 t + 1; sums are this lane's own */
};

template <int DIM, int TILES>
static __device__ __forceinline__ void
attend(struct warp_state<DIM, TILES> *w, const __nv_bfloat16 *k_cache, const __nv_bfloat16 *v_cache,
       int slot, int num, size_t slot_stride, int head_dim, float scale_log2)
{
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    uint4 k[2][DIM / 32], v[4][DIM / 64];
    size_t at[4];

#pragma unroll
    for (int i = 0; i < 2; i++)
        at[i] = (size_t)__shfl_sync(~0u, slot, g + 8 * i) * slot_stride;
#pragma unroll
    for (int c = 0; c < DIM / 32; c++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            k[i][c] = make_uint4(0, 0, 0, 0);
            if (c * 32 + t * 8 < head_dim)
                k[i][c] = load_stream(k_cache + at[i] + c * 32 + t * 8);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        at[i] = (size_t)__shfl_sync(~0u, slot, 2 * t + i % 2 + i / 2 * 8) * slot_stride;
#pragma unroll
    for (int c = 0; c < DIM / 64; c++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i][c] = make_uint4(0, 0, 0, 0);
            if (c * 64 + g * 8 < head_dim)
                v[i][c] = load_stream(v_cache + at[i] + c * 64 + g * 8);
        }
    }
#pragma unroll
    for (int h = 0; h < TILES; h++) {
        float s[4] = {0, 0, 0, 0};
        uint32_t p[2];

#pragma unroll
        for (int c = 0; c < DIM / 32; c++) {
            mma_bf16(s, k[0][c].x, k[1][c].x, k[0][c].y, k[1][c].y, w->q[h][c].x, w->q[h][c].y);
            mma_bf16(s, k[0][c].z, k[1][c].z, k[0][c].w, k[1][c].w, w->q[h][c].z, w->q[h][c].w);
        }
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
        p[0] = transpose_8x8(pack_bf16(s[0], s[1]));
        p[1] = transpose_8x8(pack_bf16(s[2], s[3]));
#pragma unroll
        for (int c = 0; c < DIM / 64; c++) {
            const uint32_t *v0 = &v[0][c].x, *v1 = &v[1][c].x, *v2 = &v[2][c].x, *v3 = &v[3][c].x;

#pragma unroll
            for (int j = 0; j < 4; j++)
                mma_bf16(w->out[h][c * 4 + j], lows(v0[j], v1[j]), highs(v0[j], v1[j]),
                         lows(v2[j], v3[j]), highs(v2[j], v3[j]), p[0], p[1]);
        }
    }
}

/* The last block of a row and kv head joins all splits. */
static __device__ void merge_splits(const struct decode_args *args, size_t item, int num,
                                    __nv_bfloat16 *out)
{
    int group = args->a.num_qo_heads / args->a.num_kv_heads, d = args->a.head_dim;

    for (int i = (int)threadIdx.x; i < group * d; i += WARPS * WARP) {
        int head = i / d;
        float max = -INFINITY, sum = 0, y = 0;

        for (int s = 0; s < num; s++)
            max = fmaxf(max, __ldcg(partial_of(args, item, s) + head));
        for (int s = 0; s < num; s++) {
            const float *partial = partial_of(args, item, s);
            float factor = fast_exp2(__ldcg(partial + head) - max);

            sum += factor * __ldcg(partial + group + head);
            y += factor * __ldcg(partial + 2 * group + i);
        }
        out[i] = __float2bfloat16_rn(y / sum);
    }
}

template <int DIM, int TILES, int BLOCKS_PER_SM>
static __global__ void __launch_bounds__(WARPS *WARP, BLOCKS_PER_SM)
    attention_decode_kernel(struct decode_args args)
{
    typedef __nv_bfloat16 bf16;
    __shared__ float outs[WARPS][HEADS][DIM], maxima[WARPS][HEADS], sums[WARPS][HEADS];
    __shared__ bool is_last;
    const struct attention_args *a = &args.a;
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    int row = (int)blockIdx.z, kv_head = (int)blockIdx.x, d = a->head_dim;
    int group = a->num_qo_heads / a->num_kv_heads, token;
    size_t item = (size_t)row * (size_t)a->num_kv_heads + (size_t)kv_head;
    size_t slot_stride = (size_t)a->num_kv_heads * (size_t)d;
    const bf16 *k_cache = (const bf16 *)a->k_cache + (size_t)kv_head * (size_t)d;
    const bf16 *v_cache = (const bf16 *)a->v_cache + (size_t)kv_head * (size_t)d;
    float scale_log2 = a->scale * 1.4426950408889634f;
    struct warp_state<DIM, TILES> w;
    struct split split;
    const int32_t *pages;
    const bf16 *q;
    bf16 *out;
    float *partial;
    int slot, next;

    pdl_wait();
    pdl_launch();
    token = a->cu_seqlens_q[row];
    split = split_of(a->kv_lens[row], args.max_splits, (int)blockIdx.y);
    if ((int)blockIdx.y >= split.num || a->cu_seqlens_q[row + 1] - token != 1)
        return;
    pages = a->page_table + (size_t)a->row_table_idx[row] * (size_t)a->page_table_stride;
    q = (const bf16 *)a->qkv + ((size_t)token * (size_t)(a->num_qo_heads + 2 * a->num_kv_heads) +
                                (size_t)(kv_head * group)) *
                                   (size_t)d;
    out = (bf16 *)a->out +
          ((size_t)token * (size_t)a->num_qo_heads + (size_t)(kv_head * group)) * (size_t)d;
#pragma unroll
    for (int h = 0; h < TILES; h++) {
#pragma unroll
        for (int c = 0; c < DIM / 32; c++) {
            w.q[h][c] = make_uint4(0, 0, 0, 0);
            if (h * HEADS + g < group && c * 32 + t * 8 < d)
                w.q[h][c] = *(const uint4 *)(q + (h * HEADS + g) * d + c * 32 + t * 8);
        }
#pragma unroll
        for (int m = 0; m < DIM / 16; m++)
            w.out[h][m][0] = w.out[h][m][1] = w.out[h][m][2] = w.out[h][m][3] = 0;
        w.max[h][0] = w.max[h][1] = -1e30f; /* finite, so that differences are no NaN */
        w.sum[h][0] = w.sum[h][1] = 0;
    }
    slot = slot_of(pages, min(split.begin + warp * STEP + lane % STEP, split.end - 1), a->page_size,
                   args.page_shift);
    for (int p = split.begin + warp * STEP; p < split.end; p += WARPS * STEP) {
        next = slot_of(pages, min(p + WARPS * STEP + lane % STEP, split.end - 1), a->page_size,
                       args.page_shift);
        attend(&w, k_cache, v_cache, slot, split.end - p, slot_stride, d, scale_log2);
        slot = next;
    }

    partial = partial_of(&args, item, (int)blockIdx.y);
#pragma unroll
    for (int h = 0; h < TILES; h++) {
        int heads = min(group - h * HEADS, (int)HEADS);

#pragma unroll
        for (int i = 0; i < 2; i++) {
            for (int j = 4; j < WARP; j *= 2)
                w.sum[h][i] += __shfl_xor_sync(~0u, w.sum[h][i], j);
            if (g == 0) {
                maxima[warp][2 * t + i] = w.max[h][i];
                sums[warp][2 * t + i] = w.sum[h][i];
            }
#pragma unroll
            for (int m = 0; m < DIM / 16; m++) {
                int at = m / 4 * 64 + g * 8 + m % 4 * 2;

                outs[warp][2 * t + i][at] = w.out[h][m][i];
                outs[warp][2 * t + i][at + 1] = w.out[h][m][2 + i];
            }
        }
        __syncthreads();
        for (int i = (int)threadIdx.x; i < heads * d; i += WARPS * WARP) {
            int head = i / d, e = i % d;
            float max = maxima[0][head], sum = 0, y = 0;

            for (int j = 1; j < WARPS; j++)
                max = fmaxf(max, maxima[j][head]);
            for (int j = 0; j < WARPS; j++) {
                float factor = fast_exp2(maxima[j][head] - max);

                sum += factor * sums[j][head];
                y += factor * outs[j][head][e];
            }
            if (split.num == 1) {
                out[h * HEADS * d + i] = __float2bfloat16_rn(y / sum);
                continue;
            }
            partial[2 * group + h * HEADS * d + i] = y;
            if (e == 0) {
                partial[h * HEADS + head] = max;
                partial[group + h * HEADS + head] = sum;
            }
        }
        __syncthreads();
    }
    if (split.num == 1)
        return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(&args.counters[item], 1) == split.num - 1;
        if (is_last)
            args.counters[item] = 0;
    }
    __syncthreads();
    if (!is_last)
        return;
    __threadfence();
    merge_splits(&args, item, split.num, out);
}

bool attention_decode_can(const struct attention_args *a)
{
    return a->dtype == DTYPE_BF16 && a->head_dim % 8 == 0 && a->head_dim <= 256 &&
           a->num_qo_heads / a->num_kv_heads <= 2 * HEADS && a->num_rows <= 65535;
}

static int max_splits_of(const struct device *device, int num_rows, int num_kv_heads,
                         int max_kv_len)
{
    int64_t items = (int64_t)num_rows * num_kv_heads;
    int64_t splits = ceil_div((int64_t)device->num_sms * WANTED_BLOCKS_PER_SM, items);

    if (splits > ceil_div(max_kv_len, MIN_SPLIT))
        splits = ceil_div(max_kv_len, MIN_SPLIT);
    if (splits * items > MAX_ITEMS)
        splits = MAX_ITEMS / items;
    return splits > 1 && items <= NUM_COUNTERS ? (int)splits : 1;
}

size_t attention_decode_workspace(const struct device *device, const struct ops_limits *limits)
{
    size_t items = (size_t)limits->max_rows * (size_t)limits->num_kv_heads;
    size_t group = (size_t)(limits->num_qo_heads / limits->num_kv_heads);

    (void)device;
    if (items < MAX_ITEMS)
        items = MAX_ITEMS;
    return items * group * ((size_t)limits->head_dim + 2) * sizeof(float);
}

template <int DIM, int TILES, int BLOCKS_PER_SM>
static cudaError_t decode(struct stream *stream, const struct decode_args *args)
{
    dim3 grid((unsigned)args->a.num_kv_heads, (unsigned)args->max_splits,
              (unsigned)args->a.num_rows);

    return launch(stream, attention_decode_kernel<DIM, TILES, BLOCKS_PER_SM>, grid, WARPS * WARP, 0,
                  *args);
}

struct status attention_decode_launch(struct stream *stream, const struct attention_args *a)
{
    struct decode_args args = {
        *a, page_shift_of(a->page_size),
        max_splits_of(stream->device, a->num_rows, a->num_kv_heads, a->max_kv_len),
        stream->counters};
    bool one_tile = a->num_qo_heads / a->num_kv_heads <= HEADS;
    cudaError_t error;

    if (a->head_dim <= 64)
        error = one_tile ? decode<64, 1, 5>(stream, &args) : decode<64, 2, 3>(stream, &args);
    else if (a->head_dim <= 128)
        error = one_tile ? decode<128, 1, 3>(stream, &args) : decode<128, 2, 2>(stream, &args);
    else
        error = one_tile ? decode<256, 1, 2>(stream, &args) : decode<256, 2, 1>(stream, &args);
    return cuda_launched(stream, error, "attention (decode)");
}
