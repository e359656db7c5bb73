/*
 * attention_decode.cu - attention of few rows of one token, in bfloat16: up to four pairs of a row
 * and a kv head for each multiprocessor. More go on to attention_decode_stream.cu.
 *
 * Grid: one block per (kv head, split, row); kv heads are the fastest, so that neighbours read
 * neighbouring memory. A row's positions are cut by its own length, read on the device, into at
 * most as many splits as the grid has; the split that ends last merges them all. The warps of a
 * block take 16 positions at a time each, and merge in shared memory. K and V go from memory
 * straight into the tensor cores' registers, without passing shared memory.
 *
 * Before it waits for the kernel that makes q and the newest K and V, a block reads its row's
 * length and pages and loads its first K and V; where the newest are among them, or few blocks run,
 * it has them fetched into the second-level cache instead. The step's tables are older than that
 * kernel's wait, so they are in memory by then, and so are the K and V of the steps before.
 */
#include "kernels/cuda/attention_decode.cuh"

enum {
    MAX_ITEMS_PER_SM = 4, /* pairs of a row and a kv head */
    MAX_SPLITS = 64,
    MIN_SPLIT = 64,    /* positions, where the splits fill the card */
    LONG_SPLIT = 1024, /* where the rows fill it, and splits only break long ones up */
};

struct decode_args {
    struct attention_args a;
    int page_shift;
    int max_splits, min_len; /* a row is cut in one for each min_len, but at most max_splits */
    int32_t *counters;       /* [num_rows * num_kv_heads], zero */
};

/* The positions of one split: as many as of any other, but for the last. */
struct split {
    int num, begin, end;
};

static __device__ struct split split_of(int kv_len, const struct decode_args *args, int index)
{
    struct split split;
    int num, len;

    kv_len = max(kv_len, 1); /* an empty row has none, and goes when its tokens are looked at */
    num = min((kv_len + args->min_len - 1) / args->min_len, args->max_splits);
    len = ((kv_len + num - 1) / num + STEP - 1) / STEP * STEP;
    split.num = (kv_len + len - 1) / len;
    split.begin = index * len;
    split.end = min(kv_len, split.begin + len);
    return split;
}

/* What a block leaves for the merge. */
static __device__ float *partial_of(const struct decode_args *args, size_t item, int split)
{
    int group = args->a.num_qo_heads / args->a.num_kv_heads;

    return (float *)args->a.workspace +
           (item * (size_t)args->max_splits + (size_t)split) * piece_len(group, args->a.head_dim);
}

/* K and V of a warp's step on their way to the second-level cache; lanes hold the slots. */
static __device__ __forceinline__ void prefetch_step(const __nv_bfloat16 *k_cache,
                                                     const __nv_bfloat16 *v_cache, int slot,
                                                     size_t slot_stride, int head_dim)
{
    size_t at = (size_t)slot * slot_stride;

    for (int e = (int)threadIdx.x % WARP / STEP * 64; e < head_dim; e += 128) {
        prefetch_l2(k_cache + at + e);
        prefetch_l2(v_cache + at + e);
    }
}

/* K and V of the step under way, or of the next. */
template <int DIM> struct loaded {
    uint4 k[2][DIM / 32], v[DIM / 64][4];
};

template <int DIM>
static __device__ __forceinline__ void load_k(struct loaded<DIM> *kv, const __nv_bfloat16 *k_cache,
                                              int slot, size_t slot_stride, int head_dim)
{
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        size_t at = (size_t)__shfl_sync(~0u, slot, g + 8 * i) * slot_stride + (size_t)(t * 8);

#pragma unroll
        for (int c = 0; c < DIM / 32; c++) {
            kv->k[i][c] = make_uint4(0, 0, 0, 0);
            if (c * 32 + t * 8 < head_dim)
                kv->k[i][c] = load_once(k_cache + at + c * 32);
        }
    }
}

template <int DIM>
static __device__ __forceinline__ void load_v(struct loaded<DIM> *kv, const __nv_bfloat16 *v_cache,
                                              int slot, size_t slot_stride, int head_dim)
{
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        size_t at = (size_t)__shfl_sync(~0u, slot, 2 * t + i % 2 + i / 2 * 8) * slot_stride +
                    (size_t)(g * 8);

#pragma unroll
        for (int c = 0; c < DIM / 64; c++) {
            kv->v[c][i] = make_uint4(0, 0, 0, 0);
            if (c * 64 + g * 8 < head_dim)
                kv->v[c][i] = load_once(v_cache + at + c * 64);
        }
    }
}

/*
 * The last block of a row and kv head joins all splits: first a factor for each split and head,
 * then the weighted sums, several loads at a time. shared: [2 * num * group] floats.
 */
template <int WARPS>
static __device__ void merge_splits(const struct decode_args *args, size_t item, int num,
                                    float *shared, __nv_bfloat16 *out)
{
    int group = args->a.num_qo_heads / args->a.num_kv_heads, d = args->a.head_dim;
    int lane = (int)threadIdx.x % WARP;
    float *factors = shared, *sums = shared + num * group;

    for (int i = (int)threadIdx.x; i < num * group; i += WARPS * WARP) {
        const float *partial = partial_of(args, item, i / group) + group * d;

        factors[i] = __ldcg(partial + i % group);
        sums[i] = __ldcg(partial + group + i % group);
    }
    __syncthreads();
    for (int head = (int)threadIdx.x / WARP; head < group; head += WARPS) {
        float max = -INFINITY, sum = 0;

        for (int s = lane; s < num; s += WARP)
            max = fmaxf(max, factors[s * group + head]);
        max = warp_max(max);
        for (int s = lane; s < num; s += WARP)
            sum += fast_exp2(factors[s * group + head] - max) * sums[s * group + head];
        sum = warp_sum(sum);
        for (int s = lane; s < num; s += WARP)
            factors[s * group + head] = fast_exp2(factors[s * group + head] - max) / sum;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x * 4; i < group * d; i += WARPS * WARP * 4) {
        float4 y = make_float4(0, 0, 0, 0);

#pragma unroll 8
        for (int s = 0; s < num; s++) {
            float4 part = __ldcg((const float4 *)(partial_of(args, item, s) + i));
            float factor = factors[s * group + i / d];

            y.x += factor * part.x;
            y.y += factor * part.y;
            y.z += factor * part.z;
            y.w += factor * part.w;
        }
        *(uint2 *)(out + i) = make_uint2(pack_bf16(y.x, y.y), pack_bf16(y.z, y.w));
    }
}

template <int DIM, int TILES, int WARPS, int BLOCKS_PER_SM, bool AHEAD>
static __global__ void __launch_bounds__(WARPS *WARP, BLOCKS_PER_SM)
    attention_decode_kernel(struct decode_args args)
{
    typedef __nv_bfloat16 bf16;
    __shared__ uint4 q_parts[TILES][DIM / 32 * WARP];
    __shared__ __align__(16) float outs[WARPS][HEADS][DIM], maxima[WARPS][HEADS],
        sums[WARPS][HEADS];
    __shared__ bool is_last;
    const struct attention_args *a = &args.a;
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    int row = (int)blockIdx.z, kv_head = (int)blockIdx.x, d = a->head_dim;
    int group = a->num_qo_heads / a->num_kv_heads, token;
    size_t item = (size_t)row * (size_t)a->num_kv_heads + (size_t)kv_head;
    size_t slot_stride = (size_t)a->num_kv_heads * (size_t)d;
    const bf16 *k_cache = (const bf16 *)a->k_cache + (size_t)kv_head * (size_t)d;
    const bf16 *v_cache = (const bf16 *)a->v_cache + (size_t)kv_head * (size_t)d;
    float scale_log2 = a->scale * LOG2_E;
    struct decode_sums<DIM, TILES> w;
    struct loaded<DIM> kv;
    struct split split;
    const int32_t *pages;
    const bf16 *q;
    bf16 *out;
    float *partial;
    int slot, next, first;
    bool is_loaded = false; /* this warp's K and V of the step under way */

    token = a->cu_seqlens_q[row];
    split = split_of(a->kv_lens[row], &args, (int)blockIdx.y);
    if ((int)blockIdx.y >= split.num)
        return;
    if (a->cu_seqlens_q[row + 1] - token != 1) {
        pdl_wait(); /* where all rows are such, the end of this kernel is still behind the one
                       before */
        return;
    }
    pages = a->page_table + (size_t)a->row_table_idx[row] * (size_t)a->page_table_stride;
    q = q_of(a, token, kv_head);
    out = out_of(a, token, kv_head);
    first = split.begin + warp * STEP;
    slot = slot_of(pages, min(first + lane % STEP, split.end - 1), a->page_size, args.page_shift);
    if (!AHEAD && first < split.end && first + STEP < a->kv_lens[row]) {
        load_k(&kv, k_cache, slot, slot_stride, d);
        load_v(&kv, v_cache, slot, slot_stride, d);
        is_loaded = true;
    } else if (first < split.end) {
        prefetch_step(k_cache, v_cache, slot, slot_stride, d);
    }
    pdl_wait();
    pdl_launch();
    for (int i = warp; i < TILES * DIM / 32; i += WARPS)
        q_parts[0][i * WARP + lane] =
            load_q(q, i / (DIM / 32) * HEADS, group, i % (DIM / 32) * 32, d);
    sums_clear(&w);
    if (AHEAD && first < split.end) {
        load_k(&kv, k_cache, slot, slot_stride, d);
        load_v(&kv, v_cache, slot, slot_stride, d);
    }
    next = slot_of(pages, min(first + WARPS * STEP + lane % STEP, split.end - 1), a->page_size,
                   args.page_shift);
    __syncthreads();
    for (int p = first; p < split.end; p += WARPS * STEP) {
        float s[TILES][4];
        bool more = p + WARPS * STEP < split.end;

        if (!AHEAD && !is_loaded) {
            load_k(&kv, k_cache, slot, slot_stride, d);
            load_v(&kv, v_cache, slot, slot_stride, d);
        }
        is_loaded = false;
        slot = next;
        next = slot_of(pages, min(p + 2 * WARPS * STEP + lane % STEP, split.end - 1), a->page_size,
                       args.page_shift);
#pragma unroll
        for (int h = 0; h < TILES; h++) {
            s[h][0] = s[h][1] = s[h][2] = s[h][3] = 0;
#pragma unroll
            for (int c = 0; c < DIM / 32; c++)
                score(s[h], kv.k[0][c], kv.k[1][c], q_parts[h][c * WARP + lane]);
        }
        if (AHEAD && more) /* each load as soon as its registers are free */
            load_k(&kv, k_cache, slot, slot_stride, d);
#pragma unroll
        for (int h = 0; h < TILES; h++) {
            struct weights weights;

            rescale(&w, h, s[h], split.end - p, scale_log2);
            weights = weights_of(s[h]);
#pragma unroll
            for (int c = 0; c < DIM / 64; c++)
                add_values(&w.out[h][c * 4], kv.v[c], weights);
        }
        if (AHEAD && more)
            load_v(&kv, v_cache, slot, slot_stride, d);
    }

    partial = partial_of(&args, item, (int)blockIdx.y);
    sums_join(&w);
#pragma unroll
    for (int h = 0; h < TILES; h++) {
        int heads = min(group - h * HEADS, (int)HEADS);

#pragma unroll
        for (int i = 0; i < 2; i++) {
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
            partial[h * HEADS * d + i] = y;
            if (e == 0) {
                partial[group * d + h * HEADS + head] = max;
                partial[group * (d + 1) + h * HEADS + head] = sum;
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
    merge_splits<WARPS>(&args, item, split.num, &outs[0][0][0], out);
}

bool attention_decode_can(const struct device *device, const struct attention_args *a)
{
    return a->dtype == DTYPE_BF16 && a->head_dim % 8 == 0 && a->head_dim <= 256 &&
           a->num_qo_heads / a->num_kv_heads <= 2 * HEADS &&
           a->num_kv_heads <= device->num_sms; /* each has a warp */
}

/*
 * As many splits as fill the card once. Where the rows do so, two, for long rows: more would start
 * blocks by the thousand that find nothing to do, since a captured step allows for any length.
 */
static void choose_splits(const struct device *device, struct decode_args *args, int blocks_per_sm)
{
    const struct attention_args *a = &args->a;
    int64_t items = (int64_t)a->num_rows * a->num_kv_heads;
    int64_t splits = (int64_t)device->num_sms * blocks_per_sm / items;

    args->min_len = splits > 1 ? MIN_SPLIT : LONG_SPLIT;
    if (splits <= 1)
        splits = 2;
    if (splits > ceil_div(a->max_kv_len, args->min_len))
        splits = ceil_div(a->max_kv_len, args->min_len);
    if (splits > MAX_SPLITS)
        splits = MAX_SPLITS;
    args->max_splits = (int)splits;
}

template <int DIM, int TILES, int WARPS, int BLOCKS_PER_SM, bool AHEAD>
static cudaError_t decode(struct stream *stream, struct decode_args *args)
{
    void (*kernel)(struct decode_args) =
        attention_decode_kernel<DIM, TILES, WARPS, BLOCKS_PER_SM, AHEAD>;
    cudaError_t error = prefer_cache(stream, (const void *)kernel);
    dim3 grid;

    static_assert(BLOCKS_PER_SM * (WARPS * HEADS * (DIM + 2) * sizeof(float) +
                                   TILES * DIM / 32 * WARP * sizeof(uint4) + 16 + BLOCK_RESERVE) <=
                      SMALL_SHARED,
                  "all blocks of a multiprocessor at once");
    choose_splits(stream->device, args, BLOCKS_PER_SM);
    grid = dim3((unsigned)args->a.num_kv_heads, (unsigned)args->max_splits,
                (unsigned)args->a.num_rows);
    return error ? error : launch(stream, kernel, grid, WARPS * WARP, 0, *args);
}

struct status attention_decode_launch(struct stream *stream, const struct attention_args *a)
{
    struct decode_args args = {*a, page_shift_of(a->page_size), 0, 0, stream->counters};
    bool one_tile = a->num_qo_heads / a->num_kv_heads <= HEADS;
    int64_t items = (int64_t)a->num_rows * a->num_kv_heads, sms = stream->device->num_sms;
    /* with few rows more warps share one, so that fewer splits are needed */
    bool few = items <= sms;
    /* three blocks an SM have registers for more loads under way, where all are at work at once */
    bool three = items > 2 * sms && items <= 3 * sms;
    cudaError_t error;

    if (items > MAX_ITEMS_PER_SM * sms)
        return attention_decode_stream_launch(stream, a);
    if (a->head_dim <= 64 && one_tile)
        error = few ? decode<64, 1, 8, 2, true>(stream, &args)
                    : decode<64, 1, 4, 5, false>(stream, &args);
    else if (a->head_dim <= 64)
        error = decode<64, 2, 4, 3, false>(stream, &args);
    else if (a->head_dim <= 128 && one_tile)
        error = few     ? decode<128, 1, 8, 1, true>(stream, &args)
                : three ? decode<128, 1, 4, 3, false>(stream, &args)
                        : decode<128, 1, 4, 4, false>(stream, &args);
    else if (a->head_dim <= 128)
        error = decode<128, 2, 4, 2, false>(stream, &args);
    else
        error = one_tile ? decode<256, 1, 4, 2, false>(stream, &args)
                         : decode<256, 2, 4, 1, false>(stream, &args);
    return cuda_launched(stream, error, "attention (decode)");
}
