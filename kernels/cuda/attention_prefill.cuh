/*
 * attention_prefill.cuh - how the queries of a prefill step are dealt out: one block per kv head
 * and tile of M rows of queries. A row of queries is a token and a q head of the group: heads that
 * share K and V stand in one tile, so a few tokens fill it. Tiles are numbered over all requests
 * without a prefix sum: request r begins at tile cu_seqlens_q[r] * group / M + i, with i requests
 * before it that have tiles, which leaves room enough; tiles behind a request's end have nothing to
 * do. The last tiles, which see most keys, start first. A captured step has tiles for as many rows
 * as it allows.
 */
#ifndef KERNELS_CUDA_ATTENTION_PREFILL_CUH
#define KERNELS_CUDA_ATTENTION_PREFILL_CUH

#include "kernels/cuda/attention.cuh"

enum { M = 128 };

struct prefill_args {
    struct attention_args a;
    int page_shift, group, num_tiles;
    bool skip_decode;
};

/*
 * The request of a tile, and that request's first tile, by that numbering; -1: of none. A warp
 * looks at 32 requests at a time.
 */
static __device__ __forceinline__ int request_of_tile(const struct prefill_args *args, int tile,
                                                      int *out_first)
{
    const int32_t *cu = args->a.cu_seqlens_q;
    int lane = (int)threadIdx.x % WARP, num_rows = args->a.num_rows;
    int least = args->skip_decode ? 2 : 1, num_before = 0, found = -1;

    for (int base = 0; base < num_rows; base += WARP) {
        int r = base + lane, begin = cu[min(r, num_rows)];
        bool counts = r < num_rows && cu[min(r, num_rows - 1) + 1] - begin >= least;
        unsigned counted = __ballot_sync(~0u, counts);
        int first = (int)((int64_t)begin * args->group / M) + num_before +
                    __popc(counted & ((1u << lane) - 1));
        unsigned begun = __ballot_sync(~0u, counts && first <= tile);

        if (begun) {
            int last = WARP - 1 - __clz((int)begun);

            found = base + last;
            *out_first = __shfl_sync(~0u, first, last);
        }
        num_before += __popc(counted);
    }
    return found;
}

/* A block's tile. */
struct query_tile {
    int kv_head, row; /* row: the request */
    int first_token, prefix;
    int first, num_rows; /* rows of queries, counted within the request */
    int num_keys;        /* that the last of them sees */
};

/* num_rows 0: nothing to do. By all threads, behind pdl_wait(). */
static __device__ __forceinline__ struct query_tile find_query_tile(const struct prefill_args *args)
{
    const struct attention_args *a = &args->a;
    int index = args->num_tiles - 1 - (int)blockIdx.y, first = 0, extend;
    struct query_tile tile = {};

    tile.kv_head = (int)blockIdx.x;
    tile.row = request_of_tile(args, index, &first);
    if (tile.row < 0)
        return tile;
    tile.first_token = a->cu_seqlens_q[tile.row];
    extend = a->cu_seqlens_q[tile.row + 1] - tile.first_token;
    tile.first = (index - first) * M;
    tile.num_rows = max(min(extend * args->group - tile.first, (int)M), 0);
    tile.prefix = a->kv_lens[tile.row] - extend;
    tile.num_keys = tile.prefix + (tile.first + tile.num_rows - 1) / args->group + 1;
    return tile;
}

/* attention_wgmma.cu: Hopper, head_dim 64 and 128. */
bool attention_wgmma_can(const struct device *device, const struct attention_args *args);
cudaError_t attention_wgmma_launch(struct stream *stream, const struct prefill_args *args);

#endif
