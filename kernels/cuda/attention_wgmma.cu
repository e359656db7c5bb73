/*
 * attention_wgmma.cu - attention of rows of several tokens on Hopper's tensor cores: what
 * attention_prefill.cu does, with operands that stay in shared memory.
 *
 * Grid: as attention_prefill.cuh deals queries out. The block's two warpgroups own 64 rows of
 * queries each and share the keys, KEYS at a time, whose K and V come by asynchronous copies, a
 * turn ahead.
 *
 * A turn of a warpgroup, for tile j of the keys, begins two products on the tensor cores, one
 * behind the other: S = Q K[j + 1]^T and O = O + P V[j]. While the second is still being worked on,
 * it takes the softmax of S; when it is done, O is rescaled and S becomes the next P. So the
 * exponentials cost next to no time of the tensor cores, and each barrier of the block serves a
 * whole turn.
 *
 * Source: Shah et al., FlashAttention-3, arXiv 2407.08608; the online softmax of attention_any.cu.
 */
#include "kernels/cuda/attention_prefill.cuh"
#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/wgmma.cuh"

enum {
    KEYS = 128,
    THREADS = 2 * WARPGROUP,
    ROW_BYTES = 128,  /* of a tile of 64 elements of head_dim */
    SLOT_TILES = 4,   /* whose slots are known at a time */
    ALIGNMENT = 1024, /* of tiles */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Where the piece-th 16 bytes of a row lie: tiles [rows, 64] side by side, pieces swapped. */
static __device__ __forceinline__ uint32_t place(int row, int piece, int rows)
{
    return (uint32_t)((piece / 8 * rows + row) * ROW_BYTES + (piece % 8 ^ row % 8) * 16);
}

/* The K or V of the keys at those slots. */
template <int DIM>
static __device__ __forceinline__ void copy_keys(uint32_t to, const __nv_bfloat16 *cache,
                                                 const int *slots, size_t slot_stride)
{
    enum { PIECES = DIM / 8, ROWS_AT_ONCE = THREADS / PIECES };
    int piece = (int)threadIdx.x % PIECES, first = (int)threadIdx.x / PIECES;

#pragma unroll
    for (int i = 0; i < KEYS / ROWS_AT_ONCE; i++) {
        int row = first + i * ROWS_AT_ONCE;

        copy_async(to + place(row, piece, KEYS),
                   cache + (size_t)slots[row] * slot_stride + (size_t)(piece * 8), true);
    }
}

/* What a thread holds of its rows g and g + 8 (g = lane / 4) of the warp's 16. */
template <int DIM> struct rows_state {
    float out[DIM / 2];
    float scores[KEYS / 2];
    uint32_t weights[KEYS / 4]; /* bfloat16, as the tensor cores take them */
    float max[2], sum[2], shrink[2];
    int position[2];
};

/* The scores become weights, still float32; shrink is what out has to be multiplied by. */
template <int DIM>
static __device__ __forceinline__ void softmax(struct rows_state<DIM> *w, int first_key,
                                               bool masked, float scale_log2)
{
    int t = (int)threadIdx.x % 4;
    float *s = w->scores;

    if (masked) {
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
            if (first_key + i / 4 * 8 + 2 * t + i % 2 > w->position[i / 2 % 2])
                s[i] = -INFINITY;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float larger = w->max[h], base, sum = 0;

#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
            larger = fmaxf(larger, fmaxf(s[4 * n + 2 * h], s[4 * n + 2 * h + 1]));
        larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 1));
        larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 2));
        w->shrink[h] = fast_exp2((w->max[h] - larger) * scale_log2);
        base = larger * scale_log2;
        w->max[h] = larger;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
            s[4 * n + 2 * h] = fast_exp2(s[4 * n + 2 * h] * scale_log2 - base);
            s[4 * n + 2 * h + 1] = fast_exp2(s[4 * n + 2 * h + 1] * scale_log2 - base);
            sum += s[4 * n + 2 * h] + s[4 * n + 2 * h + 1];
        }
        w->sum[h] = w->sum[h] * w->shrink[h] + sum;
    }
}

template <int DIM> static __device__ __forceinline__ void pack_weights(struct rows_state<DIM> *w)
{
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++)
        w->weights[i] = pack_bf16(w->scores[2 * i], w->scores[2 * i + 1]);
}

/* S = Q K^T, begun. */
template <int DIM>
static __device__ __forceinline__ void begin_scores(struct rows_state<DIM> *w, uint32_t q_tile,
                                                    uint32_t k_tile)
{
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++)
        w->scores[i] = 0;
    wgmma_begin();
#pragma unroll
    for (int c = 0; c < DIM / 16; c++)
        wgmma<KEYS>(w->scores, wgmma_matrix(q_tile + c / 4 * (M * ROW_BYTES) + c % 4 * 32),
                    wgmma_matrix(k_tile + c / 4 * (KEYS * ROW_BYTES) + c % 4 * 32));
    wgmma_commit();
}

/* O += P V, begun. */
template <int DIM>
static __device__ __forceinline__ void begin_values(struct rows_state<DIM> *w, uint32_t v_tile)
{
    wgmma_begin();
#pragma unroll
    for (int c = 0; c < KEYS / 16; c++)
        wgmma_rows_of<DIM>(w->out, w->weights + 4 * c,
                           wgmma_rows(v_tile + c * 16 * ROW_BYTES, KEYS * ROW_BYTES));
    wgmma_commit();
}

#endif

template <int DIM>
static __global__ void __launch_bounds__(THREADS, 1)
    attention_wgmma_kernel(struct prefill_args args)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    enum { PIECES = DIM / 8, TILE_BYTES = KEYS * DIM * 2 };
    typedef __nv_bfloat16 bf16;
    extern __shared__ unsigned char shared[];
    __shared__ int slots[SLOT_TILES][KEYS];
    const struct attention_args *a = &args.a;
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4, group = args.group, num_tiles;
    int first_row = (int)threadIdx.x / WARP * 16; /* of the warp */
    uint32_t q_tile = (shared_address(shared) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint32_t k_tiles = q_tile + M * DIM * 2, v_tiles = k_tiles + 2 * TILE_BYTES;
    uint32_t own_q = q_tile + threadIdx.x / WARPGROUP * (64 * ROW_BYTES);
    size_t slot_stride = (size_t)a->num_kv_heads * DIM;
    const bf16 *k_cache = (const bf16 *)a->k_cache + blockIdx.x * DIM;
    const bf16 *v_cache = (const bf16 *)a->v_cache + blockIdx.x * DIM;
    float scale_log2 = a->scale * LOG2_E;
    struct rows_state<DIM> w;
    struct query_tile tile;
    const int32_t *pages;
    int unmasked; /* keys that all of the block's queries see */

    pdl_launch();
    pdl_wait();
    tile = find_query_tile(&args);
    if (tile.num_rows == 0)
        return;
    num_tiles = (tile.num_keys + KEYS - 1) / KEYS;
    unmasked = tile.prefix + tile.first / group + 1;
    pages = a->page_table + (size_t)a->row_table_idx[tile.row] * (size_t)a->page_table_stride;
    for (int i = (int)threadIdx.x; i < M * PIECES; i += THREADS) {
        int r = i / PIECES, piece = i % PIECES;
        int at = tile.first + min(r, tile.num_rows - 1);

        copy_async(q_tile + place(r, piece, M),
                   (const bf16 *)a->qkv +
                       ((size_t)(tile.first_token + at / group) *
                            (size_t)(a->num_qo_heads + 2 * a->num_kv_heads) +
                        (size_t)(tile.kv_head * group + at % group)) *
                           DIM +
                       piece * 8,
                   true);
    }
    for (int i = (int)threadIdx.x; i < 3 * KEYS; i += THREADS)
        slots[i / KEYS][i % KEYS] =
            slot_of(pages, min(i, tile.num_keys - 1), a->page_size, args.page_shift);
    __syncthreads();
    copy_keys<DIM>(k_tiles, k_cache, slots[0], slot_stride);
    copies_commit();
    if (num_tiles > 1)
        copy_keys<DIM>(k_tiles + TILE_BYTES, k_cache, slots[1], slot_stride);
    copy_keys<DIM>(v_tiles, v_cache, slots[0], slot_stride);
    copies_commit();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        w.max[i] = -1e30f; /* finite, so that differences are no NaN */
        w.sum[i] = 0;
        w.position[i] = tile.prefix + (tile.first + first_row + i * 8 + g) / group;
    }
#pragma unroll
    for (int i = 0; i < DIM / 2; i++)
        w.out[i] = 0;
    copies_wait<1>();
    shared_written();
    __syncthreads();
    begin_scores(&w, own_q, k_tiles);
    wgmma_wait<0>();
    wgmma_settle<KEYS>(w.scores);
    softmax(&w, 0, KEYS > unmasked, scale_log2);
    pack_weights(&w);
    for (int j = 0; j + 1 < num_tiles; j++) {
        int slot = 0;

        copies_wait<0>(); /* K of j + 1 and V of j are there, and those before are done with */
        shared_written();
        __syncthreads();
        if (j + 2 < num_tiles)
            copy_keys<DIM>(k_tiles + j % 2 * TILE_BYTES, k_cache, slots[(j + 2) % SLOT_TILES],
                           slot_stride);
        copy_keys<DIM>(v_tiles + (j + 1) % 2 * TILE_BYTES, v_cache, slots[(j + 1) % SLOT_TILES],
                       slot_stride);
        copies_commit();
        if (threadIdx.x < KEYS)
            slot = slot_of(pages, min((j + 3) * KEYS + (int)threadIdx.x, tile.num_keys - 1),
                           a->page_size, args.page_shift);
        begin_scores(&w, own_q, k_tiles + (j + 1) % 2 * TILE_BYTES);
        begin_values(&w, v_tiles + j % 2 * TILE_BYTES);
        wgmma_wait<1>();
        wgmma_settle<KEYS>(w.scores);
        softmax(&w, (j + 1) * KEYS, (j + 2) * KEYS > unmasked, scale_log2);
        wgmma_wait<0>();
        wgmma_settle<DIM>(w.out);
        wgmma_settle_inputs<KEYS / 4>(w.weights);
#pragma unroll
        for (int i = 0; i < DIM / 2; i++)
            w.out[i] *= w.shrink[i / 2 % 2];
        pack_weights(&w);
        if (threadIdx.x < KEYS)
            slots[(j + 3) % SLOT_TILES][threadIdx.x] = slot;
    }
    copies_wait<0>();
    shared_written();
    __syncthreads();
    begin_values(&w, v_tiles + (num_tiles - 1) % 2 * TILE_BYTES);
    wgmma_wait<0>();
    wgmma_settle<DIM>(w.out);
    wgmma_settle_inputs<KEYS / 4>(w.weights);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int r = first_row + i * 8 + g, at = tile.first + r;
        float sum = w.sum[i];
        bf16 *out =
            (bf16 *)a->out + ((size_t)(tile.first_token + at / group) * (size_t)a->num_qo_heads +
                              (size_t)(tile.kv_head * group + at % group)) *
                                 DIM;

        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if (r >= tile.num_rows)
            continue;
        sum = 1 / sum;
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
            *(uint32_t *)(out + n * 8 + 2 * t) =
                pack_bf16(w.out[4 * n + 2 * i] * sum, w.out[4 * n + 2 * i + 1] * sum);
    }
#endif
}

bool attention_wgmma_can(const struct device *device, const struct attention_args *a)
{
    return device->has_wgmma && (a->head_dim == 64 || a->head_dim == 128);
}

template <int DIM> static cudaError_t attend(struct stream *stream, const struct prefill_args *args)
{
    enum { SHARED_BYTES = M * DIM * 2 + 4 * KEYS * DIM * 2 + ALIGNMENT };
    dim3 grid((unsigned)args->a.num_kv_heads, (unsigned)args->num_tiles);
    cudaError_t error = cudaFuncSetAttribute(
        attention_wgmma_kernel<DIM>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);

    if (!error)
        error = launch(stream, attention_wgmma_kernel<DIM>, grid, THREADS, SHARED_BYTES, *args);
    return error;
}

cudaError_t attention_wgmma_launch(struct stream *stream, const struct prefill_args *args)
{
    return args->a.head_dim == 64 ? attend<64>(stream, args) : attend<128>(stream, args);
}
