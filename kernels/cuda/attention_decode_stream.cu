/*
 * attention_decode_stream.cu - attention of many rows of one token, in bfloat16, bound by the one
 * read of K and V: the card's warps have equal shares of it, whatever the rows' lengths.
 *
 * All rows' positions are cut into as many parts as there are warps for a kv head
 * (attention_steps.cuh); the warps of a block have neighbouring kv heads, so that a block reads
 * whole slots. A warp fetches its part into a ring of its own in shared memory, STAGES steps ahead
 * of the one that it computes, across the rows' ends. Nobody waits for anybody: where a row is cut,
 * each warp leaves its piece of it in memory, and the one that is done last adds them up.
 *
 * Before it waits for the kernel that makes q and the newest K and V, a warp finds its part and
 * fetches what is older: the step's tables are in memory by then.
 */
#include "kernels/cuda/attention_steps.cuh"
#include "kernels/cuda/copy_async.cuh"

enum { MAX_WARPS = 8 /* of a block; one block a multiprocessor */ };

struct stream_args {
    struct attention_args a;
    int page_shift;
    int32_t *counters; /* [warps], zero: pieces of the row that is cut at a part's end which are in
                          memory */
};

/*
 * Steps of a ring, and its bytes: K [STEP, DIM], V [STEP, DIM] each. No more than two of 128: what
 * multiprocessors ask for waits in the memory's queue, and the longer that is, the less evenly they
 * are served. With three, 256 rows took a tenth longer than half of the blocks did; with two, a
 * twentieth.
 */
template <int DIM> struct ring {
    enum { STAGES = DIM == 64 ? 4 : 2, BYTES = STAGES * 2 * STEP * DIM * 2 };
};

/* The slot of a lane's position of a step: of position lane % STEP, or of the row's last. */
static __device__ __forceinline__ int slot_at(const struct stream_args *args,
                                              const struct place *at)
{
    const struct attention_args *a = &args->a;
    const int32_t *pages = a->page_table + (size_t)a->row_table_idx[at->row] * a->page_table_stride;
    int p = position_of(at) + (int)threadIdx.x % STEP;

    return slot_of(pages, min(p, a->kv_lens[at->row] - 1), a->page_size, args->page_shift);
}

/* In a stage of 16-byte pieces, [2, STEP, DIM / 8], a piece stands where the eight that a quarter
 * of a warp reads at a time are in different banks. */
template <int DIM> static __device__ __forceinline__ int k_piece(int position, int piece)
{
    return position * (DIM / 8) + (piece ^ position % 2 * 4);
}

template <int DIM> static __device__ __forceinline__ int v_piece(int position, int piece)
{
    return (STEP + position) * (DIM / 8) + (piece ^ position / 2 % 4 * 2);
}

/* num positions of K and V, and zeros behind them; lanes hold the slots. */
template <int DIM>
static __device__ __forceinline__ void fetch(uint32_t stage, const __nv_bfloat16 *k_cache,
                                             const __nv_bfloat16 *v_cache, int slot, int num,
                                             const struct attention_args *a)
{
    int lane = (int)threadIdx.x % WARP, piece = lane % (DIM / 8);
    size_t slot_stride = (size_t)a->num_kv_heads * (size_t)a->head_dim;

#pragma unroll
    for (int i = 0; i < STEP * DIM / 8; i += WARP) {
        int position = (i + lane) / (DIM / 8);
        bool is_there = position < num && piece * 8 < a->head_dim;
        size_t at = (size_t)__shfl_sync(~0u, slot, position) * slot_stride + (size_t)(piece * 8);

        at = is_there ? at : 0;
        copy_async(stage + (uint32_t)k_piece<DIM>(position, piece) * 16, k_cache + at, is_there);
        copy_async(stage + (uint32_t)v_piece<DIM>(position, piece) * 16, v_cache + at, is_there);
    }
}

/* Of the group of q heads. */
static __device__ __forceinline__ __nv_bfloat16 *out_of(const struct attention_args *a, int row,
                                                        int kv_head)
{
    size_t group = (size_t)(a->num_qo_heads / a->num_kv_heads), d = (size_t)a->head_dim;

    return (__nv_bfloat16 *)a->out +
           ((size_t)a->cu_seqlens_q[row] * (size_t)a->num_qo_heads + (size_t)kv_head * group) * d;
}

static __device__ __forceinline__ const __nv_bfloat16 *q_of(const struct attention_args *a, int row,
                                                            int kv_head)
{
    size_t group = (size_t)(a->num_qo_heads / a->num_kv_heads), d = (size_t)a->head_dim;
    size_t heads = (size_t)(a->num_qo_heads + 2 * a->num_kv_heads);

    return (const __nv_bfloat16 *)a->qkv +
           ((size_t)a->cu_seqlens_q[row] * heads + (size_t)kv_head * group) * d;
}

/* What a warp fetches, and where it stands in that. */
struct fetcher {
    const __nv_bfloat16 *k_cache, *v_cache; /* of its kv head */
    struct place next;
    int end;  /* step */
    int slot; /* of the lane's position in the next step */
};

/* One group of copies; it is empty where nothing is left. */
template <int DIM>
static __device__ __forceinline__ void fetch_next(struct fetcher *f, uint32_t stage,
                                                  const struct stream_args *args)
{
    const struct attention_args *a = &args->a;

    if (f->next.step < f->end) {
        fetch<DIM>(stage, f->k_cache, f->v_cache, f->slot,
                   a->kv_lens[f->next.row] - position_of(&f->next), a);
        next_step(&f->next, a, f->end);
        if (f->next.step < f->end)
            f->slot = slot_at(args, &f->next);
    }
    copies_commit();
}

/* What a warp leaves of a row that is cut: sums.out as [group, head_dim], then max [group] and
 * sum [group]. A part has two such rows at most: one begins before it, one ends behind it. */
static __device__ __forceinline__ float *piece_of(const struct attention_args *a, int part,
                                                  int kv_head, bool begins_before)
{
    size_t index = ((size_t)part * (size_t)a->num_kv_heads + (size_t)kv_head) * 2 + begins_before;
    int group = a->num_qo_heads / a->num_kv_heads;

    return (float *)a->workspace + index * (size_t)(group * (a->head_dim + 4));
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

/* w += what another warp has left. All is loaded first, from places that exist. */
template <int DIM, int TILES>
static __device__ __forceinline__ void add_piece(struct decode_sums<DIM, TILES> *w,
                                                 const float *piece, int group, int d)
{
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    float max[TILES * 2], sum[TILES * 2];
    float4 part[TILES * 2][DIM / 32];

#pragma unroll
    for (int i = 0; i < TILES * 2; i++) {
        int head = min(i / 2 * HEADS + 2 * t + i % 2, group - 1);

        max[i] = __ldcg(piece + group * d + head);
        sum[i] = __ldcg(piece + group * (d + 1) + head);
#pragma unroll
        for (int c = 0; c < DIM / 32; c++) /* the halves of the lane's 8 elements of each 64 */
            part[i][c] = __ldcg(
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

            o[0][i % 2] = o[0][i % 2] * shrink + factor * part[i][c].x;
            o[0][2 + i % 2] = o[0][2 + i % 2] * shrink + factor * part[i][c].y;
            o[1][i % 2] = o[1][i % 2] * shrink + factor * part[i][c].z;
            o[1][2 + i % 2] = o[1][2 + i % 2] * shrink + factor * part[i][c].w;
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

    __syncwarp();
    if (row >= 0) {
        before = count_up(counter);
        if (before == last - first)
            *counter = 0;
    }
    return __ballot_sync(~0u, row >= 0 && before == last - first);
}

template <int DIM, int TILES>
static __global__ void __launch_bounds__(MAX_WARPS *WARP, 1)
    attention_decode_stream_kernel(struct stream_args args)
{
    typedef __nv_bfloat16 bf16;
    enum { STAGES = ring<DIM>::STAGES, STAGE = ring<DIM>::BYTES / STAGES };
    extern __shared__ __align__(16) unsigned char rings[];
    const struct attention_args *a = &args.a;
    int warps = (int)blockDim.x / WARP, index = (int)blockIdx.x * warps + (int)threadIdx.x / WARP;
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4, d = a->head_dim;
    int kv_head = index % a->num_kv_heads, part = index / a->num_kv_heads, stage = 0;
    int group = a->num_qo_heads / a->num_kv_heads;
    unsigned char *stages = rings + (size_t)(threadIdx.x / WARP) * ring<DIM>::BYTES;
    float scale_log2 = a->scale * 1.4426950408889634f;
    struct decode_sums<DIM, TILES> w;
    uint4 q[TILES][DIM / 32];
    struct fetcher f = {(const bf16 *)a->k_cache + (size_t)(kv_head * d),
                        (const bf16 *)a->v_cache + (size_t)(kv_head * d)};
    struct cut_row head = {-1}, tail = {-1}; /* that begins before this part; that ends behind it */
    bool has_waited = false, begins = true;
    unsigned complete;
    struct cut cut = cut_steps(a, (int)gridDim.x * warps / a->num_kv_heads, part, &f.next);
    struct place at = f.next; /* what is computed */

    if (part >= cut.num || cut.total == 0) {
        pdl_wait(); /* where no row is for this kernel, its end is still behind the one before */
        return;
    }
    f.end = first_step(&cut, part + 1);
    f.slot = slot_at(&args, &at);
#pragma unroll 1
    for (int i = 0; i < STAGES; i++) {
        bool is_newest = a->kv_lens[f.next.row] - position_of(&f.next) <= STEP; /* has the newest */

        if (!has_waited && f.next.step < f.end && is_newest) {
            pdl_wait();
            has_waited = true;
        }
        fetch_next<DIM>(&f, shared_address(stages + i * STAGE), &args);
    }
    if (!has_waited)
        pdl_wait();
    pdl_launch();
    while (at.step < f.end) {
        const uint4 *kv = (const uint4 *)(stages + stage * STAGE);
        int num = a->kv_lens[at.row] - position_of(&at);
        float s[TILES][4];
        struct weights weights[TILES];

        if (begins) {
            const bf16 *row_q = q_of(a, at.row, kv_head);

#pragma unroll
            for (int i = 0; i < TILES * DIM / 32; i++)
                q[i / (DIM / 32)][i % (DIM / 32)] =
                    load_q(row_q, i / (DIM / 32) * HEADS, group, i % (DIM / 32) * 32, d);
            sums_clear(&w);
        }
        copies_wait<STAGES - 1>();
        __syncwarp();
#pragma unroll
        for (int h = 0; h < TILES; h++)
            s[h][0] = s[h][1] = s[h][2] = s[h][3] = 0;
#pragma unroll
        for (int c = 0; c < DIM / 32; c++) {
            uint4 k0 = kv[k_piece<DIM>(g, c * 4 + t)], k1 = kv[k_piece<DIM>(g + 8, c * 4 + t)];

#pragma unroll
            for (int h = 0; h < TILES; h++)
                score(s[h], k0, k1, q[h][c]);
        }
#pragma unroll
        for (int h = 0; h < TILES; h++) {
            rescale(&w, h, s[h], num, scale_log2);
            weights[h] = weights_of(s[h]);
        }
#pragma unroll
        for (int c = 0; c < DIM / 64; c++) {
            uint4 v[4];

#pragma unroll
            for (int i = 0; i < 4; i++)
                v[i] = kv[v_piece<DIM>(2 * t + i % 2 + i / 2 * 8, c * 8 + g)];
#pragma unroll
            for (int h = 0; h < TILES; h++)
                add_values(&w.out[h][c * 4], v, weights[h]);
        }
        __syncwarp();
        fetch_next<DIM>(&f, shared_address(kv), &args);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        begins = at.step + 1 == at.row_end;
        if (begins || at.step + 1 == f.end) {
            struct cut_row row = {at.row, part_of(&cut, at.row_begin),
                                  part_of(&cut, at.row_end - 1)};

            sums_join(&w);
            if (row.first == row.last)
                store(&w, out_of(a, at.row, kv_head), group, d);
            else
                leave(&w, piece_of(a, part, kv_head, row.first < part), group, d);
            if (row.first < part)
                head = row;
            else if (row.last > part)
                tail = row;
        }
        next_step(&at, a, f.end);
    }
    if (head.row < 0 && tail.row < 0)
        return;
    /* Only now: a warp that orders its writes waits for the copies under way as well. */
    complete = count_pieces(&args, &head, &tail, kv_head);
    for (; complete; complete &= complete - 1) {
        struct cut_row row = complete & 1 ? head : tail;

        sums_clear(&w);
#pragma unroll(DIM *TILES <= 128 ? 2 : 1)
        for (int p = row.first; p <= row.last; p++)
            add_piece(&w, piece_of(a, p, kv_head, p > row.first), group, d);
        store(&w, out_of(a, row.row, kv_head), group, d);
    }
}

template <int DIM, int TILES>
static cudaError_t decode_stream(struct stream *stream, const struct stream_args *args)
{
    int warps = min((int)MAX_WARPS, stream->device->max_shared_bytes / ring<DIM>::BYTES);
    int shared_bytes = warps * ring<DIM>::BYTES;
    cudaError_t error =
        cudaFuncSetAttribute(attention_decode_stream_kernel<DIM, TILES>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);

    if (error != cudaSuccess)
        return error;
    return launch(stream, attention_decode_stream_kernel<DIM, TILES>,
                  dim3((unsigned)stream->device->num_sms), warps * WARP, (size_t)shared_bytes,
                  *args);
}

struct status attention_decode_stream_launch(struct stream *stream, const struct attention_args *a)
{
    struct stream_args args = {*a, page_shift_of(a->page_size), stream->counters};
    bool one_tile = a->num_qo_heads / a->num_kv_heads <= HEADS;
    cudaError_t error;

    if (a->head_dim <= 64)
        error =
            one_tile ? decode_stream<64, 1>(stream, &args) : decode_stream<64, 2>(stream, &args);
    else if (a->head_dim <= 128)
        error =
            one_tile ? decode_stream<128, 1>(stream, &args) : decode_stream<128, 2>(stream, &args);
    else
        error =
            one_tile ? decode_stream<256, 1>(stream, &args) : decode_stream<256, 2>(stream, &args);
    return cuda_launched(stream, error, "attention (decode of many rows)");
}

size_t attention_decode_stream_workspace(const struct device *device,
                                         const struct ops_limits *limits)
{
    size_t group = (size_t)(limits->num_qo_heads / limits->num_kv_heads);

    return (size_t)device->num_sms * MAX_WARPS * 2 * group * ((size_t)limits->head_dim + 4) *
           sizeof(float);
}
