/*
 * attention_prefill.cu - attention of rows of several tokens, in bfloat16, behind whatever prefix
 * the cache holds: causal, tile by tile, with the softmax kept running.
 *
 * Grid: one block per kv head and tile of queries, see attention_prefill.cuh.
 *
 * A block walks its keys KEYS at a time. K and V come by asynchronous copies, two tiles in flight,
 * into shared memory whose 16-byte pieces are swapped about by row (piece ^ row % 8), so that the
 * tensor cores' loads meet no bank twice. Each warp owns 16 * M_TILES rows of queries.
 * Source: Dao, FlashAttention-2, arXiv 2307.08691.
 */
#include "kernels/cuda/attention_prefill.cuh"
#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/mma.cuh"

enum { KEYS = 64, MAX_GRID_Y = 65535 };

/* Where the 16-byte piece of a row of DIM elements lies in a tile. */
template <int DIM> static __device__ __forceinline__ uint32_t place(int row, int piece)
{
    return (uint32_t)(row * DIM * 2 + (piece ^ row % 8) * 16);
}

/*
 * The address of a lane's row, with its piece swapped; the pieces 2 c of the same row are at
 * address ^ 32 c, since row % 8 is the same in every tile of rows.
 */
template <int DIM>
static __device__ __forceinline__ uint32_t lane_address(uint32_t tile, int row, int piece)
{
    return tile + place<DIM>(row, piece);
}

/* KEYS rows of K and of V, each at its slot. */
template <int DIM, int THREADS>
static __device__ __forceinline__ void
copy_tiles(uint32_t k_tile, uint32_t v_tile, const __nv_bfloat16 *k_cache,
           const __nv_bfloat16 *v_cache, const int *slots, size_t slot_stride, int head_dim)
{
    enum { PIECES = DIM / 8, ROWS_AT_ONCE = THREADS / PIECES };
    int piece = (int)threadIdx.x % PIECES, first = (int)threadIdx.x / PIECES;

#pragma unroll
    for (int i = 0; i < KEYS / ROWS_AT_ONCE; i++) {
        int row = first + i * ROWS_AT_ONCE;
        size_t from = (size_t)slots[row] * slot_stride + (size_t)(piece * 8);

        uint32_t to = place<DIM>(row, piece);

        copy_async(k_tile + to, k_cache + from, piece * 8 < head_dim);
        copy_async(v_tile + to, v_cache + from, piece * 8 < head_dim);
    }
}

/* What a warp holds of its rows g and g + 8 of each 16 (g = lane / 4). */
template <int DIM, int M_TILES> struct rows_state {
    float out[M_TILES][DIM / 8][4];
    float max[M_TILES][2], sum[M_TILES][2];
    int position[M_TILES][2];
};

/* S = Q K^T */
template <int DIM, int M_TILES>
static __device__ __forceinline__ void scores(float (*s)[KEYS / 8][4], uint32_t q_tile,
                                              uint32_t k_tile, int first_row)
{
    int lane = (int)threadIdx.x % WARP;
    uint32_t q_lane = lane_address<DIM>(q_tile, first_row + lane % 16, lane / 16);
    uint32_t k_lane = lane_address<DIM>(k_tile, lane % 8 + lane / 16 * 8, lane / 8 % 2);

#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
            s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0;
    }
#pragma unroll
    for (int c = 0; c < DIM / 16; c++) {
        uint32_t q[M_TILES][4];

#pragma unroll
        for (int m = 0; m < M_TILES; m++)
            load_fragments(q[m], (q_lane ^ c * 32) + m * 16 * DIM * 2);
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
            uint32_t k[4];

            load_fragments(k, (k_lane ^ c * 32) + n * 16 * DIM * 2);
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                mma_bf16(s[m][2 * n], q[m][0], q[m][1], q[m][2], q[m][3], k[0], k[1]);
                mma_bf16(s[m][2 * n + 1], q[m][0], q[m][1], q[m][2], q[m][3], k[2], k[3]);
            }
        }
    }
}

/* Scores become weights; the running maximum and sum, and out with them, are brought up to date. */
template <int DIM, int M_TILES>
static __device__ __forceinline__ void softmax(struct rows_state<DIM, M_TILES> *w,
                                               float (*s)[KEYS / 8][4], int first_key, bool masked,
                                               float scale_log2)
{
    int t = (int)threadIdx.x % 4;

#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
        if (masked) {
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    if (first_key + n * 8 + 2 * t + e % 2 > w->position[m][e / 2])
                        s[m][n][e] = -INFINITY;
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float larger = w->max[m][i], shrink, base, sum = 0;

#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
                larger = fmaxf(larger, fmaxf(s[m][n][2 * i], s[m][n][2 * i + 1]));
            larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 1));
            larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 2));
            shrink = fast_exp2((w->max[m][i] - larger) * scale_log2);
            base = larger * scale_log2;
            w->max[m][i] = larger;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                s[m][n][2 * i] = fast_exp2(s[m][n][2 * i] * scale_log2 - base);
                s[m][n][2 * i + 1] = fast_exp2(s[m][n][2 * i + 1] * scale_log2 - base);
                sum += s[m][n][2 * i] + s[m][n][2 * i + 1];
            }
            w->sum[m][i] = w->sum[m][i] * shrink + sum;
#pragma unroll
            for (int n = 0; n < DIM / 8; n++) {
                w->out[m][n][2 * i] *= shrink;
                w->out[m][n][2 * i + 1] *= shrink;
            }
        }
    }
}

/* out += P V */
template <int DIM, int M_TILES>
static __device__ __forceinline__ void add_values(struct rows_state<DIM, M_TILES> *w,
                                                  float (*s)[KEYS / 8][4], uint32_t v_tile)
{
    int lane = (int)threadIdx.x % WARP;
    uint32_t v_lane = lane_address<DIM>(v_tile, lane % 16, lane / 16);

#pragma unroll
    for (int c = 0; c < KEYS / 16; c++) {
        uint32_t p[M_TILES][4];

#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            p[m][0] = pack_bf16(s[m][2 * c][0], s[m][2 * c][1]);
            p[m][1] = pack_bf16(s[m][2 * c][2], s[m][2 * c][3]);
            p[m][2] = pack_bf16(s[m][2 * c + 1][0], s[m][2 * c + 1][1]);
            p[m][3] = pack_bf16(s[m][2 * c + 1][2], s[m][2 * c + 1][3]);
        }
#pragma unroll
        for (int n = 0; n < DIM / 16; n++) {
            uint32_t v[4];

            load_fragments_transposed(v, (v_lane ^ n * 32) + c * 16 * DIM * 2);
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                mma_bf16(w->out[m][2 * n], p[m][0], p[m][1], p[m][2], p[m][3], v[0], v[1]);
                mma_bf16(w->out[m][2 * n + 1], p[m][0], p[m][1], p[m][2], p[m][3], v[2], v[3]);
            }
        }
    }
}

template <int DIM, int M_TILES, int BLOCKS_PER_SM>
static __global__ void __launch_bounds__(M / (16 * M_TILES) * WARP, BLOCKS_PER_SM)
    attention_prefill_kernel(struct prefill_args args)
{
    enum { THREADS = M / (16 * M_TILES) * WARP, PIECES = DIM / 8, TILE_BYTES = KEYS * DIM * 2 };
    typedef __nv_bfloat16 bf16;
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ int slots[2][KEYS];
    const struct attention_args *a = &args.a;
    int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    int first_row = (int)threadIdx.x / WARP * 16 * M_TILES, d = a->head_dim, group = args.group;
    int kv_head = (int)blockIdx.x, num_key_tiles;
    uint32_t q_tile = shared_address(shared), k_tiles = q_tile + M * DIM * 2;
    uint32_t v_tiles = k_tiles + 2 * TILE_BYTES;
    size_t slot_stride = (size_t)a->num_kv_heads * (size_t)d;
    const bf16 *k_cache = (const bf16 *)a->k_cache + (size_t)kv_head * (size_t)d;
    const bf16 *v_cache = (const bf16 *)a->v_cache + (size_t)kv_head * (size_t)d;
    float scale_log2 = a->scale * LOG2_E;
    struct query_tile tile;
    struct rows_state<DIM, M_TILES> w;
    const int32_t *pages;

    pdl_launch();
    pdl_wait();
    tile = find_query_tile(&args);
    if (tile.num_rows == 0)
        return;
    num_key_tiles = (tile.num_keys + KEYS - 1) / KEYS;
    pages = a->page_table + (size_t)a->row_table_idx[tile.row] * (size_t)a->page_table_stride;

    for (int i = (int)threadIdx.x; i < M * PIECES; i += THREADS) {
        int r = i / PIECES, piece = i % PIECES;
        int at = tile.first + min(r, tile.num_rows - 1); /* beyond the end: zeros of a valid row */

        copy_async(q_tile + place<DIM>(r, piece),
                   (const bf16 *)a->qkv +
                       ((size_t)(tile.first_token + at / group) *
                            (size_t)(a->num_qo_heads + 2 * a->num_kv_heads) +
                        (size_t)(kv_head * group + at % group)) *
                           (size_t)d +
                       piece * 8,
                   r < tile.num_rows && piece * 8 < d);
    }
    for (int i = (int)threadIdx.x; i < 2 * KEYS; i += THREADS)
        slots[i / KEYS][i % KEYS] =
            slot_of(pages, min(i, tile.num_keys - 1), a->page_size, args.page_shift);
    __syncthreads();
    copy_tiles<DIM, THREADS>(k_tiles, v_tiles, k_cache, v_cache, slots[0], slot_stride, d);
    copies_commit();
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            w.max[m][i] = -1e30f; /* finite, so that differences are no NaN */
            w.sum[m][i] = 0;
            w.position[m][i] = tile.prefix + (tile.first + first_row + m * 16 + i * 8 + g) / group;
        }
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
            w.out[m][n][0] = w.out[m][n][1] = w.out[m][n][2] = w.out[m][n][3] = 0;
    }
    for (int j = 0; j < num_key_tiles; j++) {
        float s[M_TILES][KEYS / 8][4];
        int slot = 0, ahead = (j + 2) * KEYS + (int)threadIdx.x;

        if (j + 1 < num_key_tiles)
            copy_tiles<DIM, THREADS>(k_tiles + (j + 1) % 2 * TILE_BYTES,
                                     v_tiles + (j + 1) % 2 * TILE_BYTES, k_cache, v_cache,
                                     slots[(j + 1) % 2], slot_stride, d);
        copies_commit();
        if (threadIdx.x < KEYS)
            slot = slot_of(pages, min(ahead, tile.num_keys - 1), a->page_size, args.page_shift);
        copies_wait<1>();
        __syncthreads();
        if (threadIdx.x < KEYS)
            slots[j % 2][threadIdx.x] = slot;
        scores<DIM, M_TILES>(s, q_tile, k_tiles + j % 2 * TILE_BYTES, first_row);
        softmax<DIM, M_TILES>(&w, s, j * KEYS,
                              (j + 1) * KEYS - 1 > tile.prefix + tile.first / group, scale_log2);
        add_values<DIM, M_TILES>(&w, s, v_tiles + j % 2 * TILE_BYTES);
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int r = first_row + m * 16 + i * 8 + g, at = tile.first + r;
            float sum = w.sum[m][i];
            bf16 *out = (bf16 *)a->out +
                        ((size_t)(tile.first_token + at / group) * (size_t)a->num_qo_heads +
                         (size_t)(kv_head * group + at % group)) *
                            (size_t)d;

            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if (r >= tile.num_rows)
                continue;
#pragma unroll
            for (int n = 0; n < DIM / 8; n++) {
                if (n * 8 < d)
                    *(uint32_t *)(out + n * 8 + 2 * t) =
                        pack_bf16(w.out[m][n][2 * i] / sum, w.out[m][n][2 * i + 1] / sum);
            }
        }
    }
}

bool attention_prefill_can(const struct attention_args *a)
{
    return a->dtype == DTYPE_BF16 && a->head_dim % 8 == 0 && a->head_dim <= 256;
}

template <int DIM, int M_TILES, int BLOCKS_PER_SM>
static cudaError_t prefill(struct stream *stream, const struct prefill_args *args)
{
    enum { SHARED_BYTES = M * DIM * 2 + 4 * KEYS * DIM * 2 };
    dim3 grid((unsigned)args->a.num_kv_heads, (unsigned)args->num_tiles);
    cudaError_t error;

    error = cudaFuncSetAttribute(attention_prefill_kernel<DIM, M_TILES, BLOCKS_PER_SM>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (!error)
        error = launch(stream, attention_prefill_kernel<DIM, M_TILES, BLOCKS_PER_SM>, grid,
                       M / (16 * M_TILES) * WARP, SHARED_BYTES, *args);
    return error;
}

static int64_t tiles_of(int32_t num_tokens, int32_t num_rows, int32_t group)
{
    return (int64_t)num_tokens * group / M + num_rows;
}

bool attention_prefill_fits(int32_t num_tokens, int32_t num_rows, int32_t group)
{
    return tiles_of(num_tokens, num_rows, group) <= MAX_GRID_Y;
}

struct status attention_prefill_launch(struct stream *stream, const struct attention_args *a,
                                       bool skip_decode)
{
    int group = a->num_qo_heads / a->num_kv_heads;
    int max_rows = skip_decode && a->max_extend_rows ? a->max_extend_rows : a->num_rows;
    struct prefill_args args = {*a, page_shift_of(a->page_size), group,
                                (int)tiles_of(a->num_tokens, max_rows, group), skip_decode};
    cudaError_t error;

    if (!attention_prefill_fits(a->num_tokens, max_rows, group))
        return status_error(STATUS_UNSUPPORTED, "attention: %d tokens in a step are too many",
                            a->num_tokens);
    if (attention_wgmma_can(stream->device, a))
        error = attention_wgmma_launch(stream, &args);
    else if (a->head_dim <= 64)
        error = prefill<64, 2, 2>(stream, &args);
    else if (a->head_dim <= 128)
        error = prefill<128, 2, 2>(stream, &args);
    else
        error = prefill<256, 1, 1>(stream, &args);
    return cuda_launched(stream, error, "attention (prefill)");
}
