/*
 * attention_decode_stream.cu - attention of many rows of one token, in bfloat16, bound by the one
 * read of K and V: the card's warps have equal shares of it, whatever the rows' lengths.
 *
 * All rows' positions are cut into as many parts as there are warps for a kv head
 * (attention_steps.cuh); neighbouring warps have neighbouring kv heads, so that
 * they read neighbouring memory. A warp fetches its part into a ring of its own in shared memory,
 * STAGES steps ahead of the one that it computes, across the rows' ends. Nobody waits for anybody:
 * where a row is cut, each warp leaves its piece of it in memory, and the one that is done last
 * adds them up.
 *
 * Before it waits for the kernel that makes q and the newest K and V, a warp finds its part and
 * fetches what is older: the step's tables are in memory by then.
 */
#include "kernels/cuda/attention_pieces.cuh"
#include "kernels/cuda/attention_steps.cuh"
#include "kernels/cuda/copy_async.cuh"

enum { MAX_WARPS = 8 /* of a block; one block a multiprocessor */ };

/*
 * Steps of a ring, and its bytes: K [STEP, DIM], V [STEP, DIM] each. No more than two of 128: what
 * multiprocessors ask for waits in the memory's queue, and the longer that is, the less evenly they
 * are served. With three, the last block ended a tenth behind the median one; with two, a
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

template <int DIM, int TILES>
static __global__ void __launch_bounds__(MAX_WARPS *WARP, 1)
    attention_decode_stream_kernel(struct stream_args args)
{
    typedef __nv_bfloat16 bf16;
    enum { STAGES = ring<DIM>::STAGES, STAGE_BYTES = ring<DIM>::BYTES / STAGES };
    extern __shared__ __align__(16) unsigned char rings[];
    const struct attention_args *a = &args.a;
    int warps = (int)blockDim.x / WARP, index = (int)blockIdx.x * warps + (int)threadIdx.x / WARP;
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4, d = a->head_dim;
    int kv_head = index % a->num_kv_heads, part = index / a->num_kv_heads, stage = 0;
    int group = a->num_qo_heads / a->num_kv_heads;
    unsigned char *stages = rings + (size_t)(threadIdx.x / WARP) * ring<DIM>::BYTES;
    float scale_log2 = a->scale * LOG2_E;
    struct decode_sums<DIM, TILES> w;
    uint4 q[TILES][DIM / 32];
    struct fetcher f = {(const bf16 *)a->k_cache + (size_t)(kv_head * d),
                        (const bf16 *)a->v_cache + (size_t)(kv_head * d)};
    struct cut_row begun = {-1}, unfinished = {-1}; /* before this part; behind it */
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
        bool has_newest = a->kv_lens[f.next.row] - position_of(&f.next) <= STEP;

        if (!has_waited && f.next.step < f.end && has_newest) {
            pdl_wait();
            has_waited = true;
        }
        fetch_next<DIM>(&f, shared_address(stages + i * STAGE_BYTES), &args);
    }
    if (!has_waited)
        pdl_wait();
    pdl_launch();
    while (at.step < f.end) {
        const uint4 *kv = (const uint4 *)(stages + stage * STAGE_BYTES);
        int num = a->kv_lens[at.row] - position_of(&at);
        float s[TILES][4];
        struct weights weights[TILES];

        if (begins) {
            const bf16 *row_q = q_of(a, a->cu_seqlens_q[at.row], kv_head);

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
                store(&w, out_of(a, a->cu_seqlens_q[at.row], kv_head), group, d);
            else
                leave(&w, piece_of(a, part, kv_head, row.first < part), group, d);
            if (row.first < part)
                begun = row;
            else if (row.last > part)
                unfinished = row;
        }
        next_step(&at, a, f.end);
    }
    if (begun.row < 0 && unfinished.row < 0)
        return;
    /* Once: a fence behind every piece, while copies are under way, took 1 us more (64 x 512). */
    complete = count_pieces(&args, &begun, &unfinished, kv_head);
    for (; complete; complete &= complete - 1) {
        struct cut_row row = complete & 1 ? begun : unfinished;

        sums_clear(&w);
#pragma unroll(DIM *TILES <= 128 ? 2 : 1)
        for (int p = row.first; p <= row.last; p++)
            add_piece(&w, piece_of(a, p, kv_head, p > row.first), group, d);
        store(&w, out_of(a, a->cu_seqlens_q[row.row], kv_head), group, d);
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

/* For a piece of each of two rows a warp. Few rows leave as much for each split, of which there are
 * at most 8 for a multiprocessor: two of each of 4 pairs, or one for each of 5 blocks. */
size_t attention_decode_workspace(const struct device *device, const struct ops_limits *limits)
{
    int group = limits->num_qo_heads / limits->num_kv_heads;

    return (size_t)device->num_sms * MAX_WARPS * 2 * piece_len(group, limits->head_dim) *
           sizeof(float);
}
