/*
 * moe_grouped.cu - a mixture of experts with the pairs grouped by expert, in bfloat16: each expert
 * multiplies all its tokens at once, on the tensor cores.
 *
 *     sort       the pairs by expert, then by token, and the tiles that they are cut into
 *     products   inner = silu(gate(x)) * up(x), rounded to bfloat16; out = down(inner), too
 *     combine    y[t] += sum over the choices of weight * out, in their order, with one rounding
 *
 * No shape depends on what was chosen. Pairs of expert e begin at some place first[e] of the order,
 * its tiles at number first[e] / rows + e: room enough for their last, partly empty ones without
 * counting those of other experts. Tiles behind an expert's last have no rows. Every sum is taken
 * by one thread in one order, and a product's sums do not depend on the tile that a token is in: so
 * the same tokens give the same results, every time.
 */
#include "kernels/cuda/moe.cuh"

enum { SORT_WARPS = 32, COMBINE_THREADS = 256, MIN_TILE_ROWS = 16, MAX_TILE_ROWS = 128 };

/* The workspace, part by part. */
struct groups {
    int32_t *order;         /* [T * top_k]: the pair at each place */
    struct moe_tile *tiles; /* [num_tiles] */
    __nv_bfloat16 *inner;   /* [T * top_k, inner_size], by place */
    __nv_bfloat16 *out;     /* [T * top_k, hidden_size], by pair */
};

static int num_tiles_of(int64_t num_pairs, int num_experts, int tile_rows)
{
    return (int)(num_pairs / tile_rows) + num_experts;
}

/* Returns the size of all of it. */
static size_t groups_init(struct groups *g, void *space, int64_t num_pairs, int num_experts,
                          int hidden_size, int inner_size)
{
    size_t pairs = (size_t)num_pairs, at = device_align(pairs * sizeof(int32_t));
    char *base = (char *)space;

    g->order = (int32_t *)space;
    g->tiles = (struct moe_tile *)(base + at);
    at += device_align((size_t)num_tiles_of(num_pairs, num_experts, MIN_TILE_ROWS) *
                       sizeof(struct moe_tile));
    g->inner = (__nv_bfloat16 *)(base + at);
    at += device_align(pairs * (size_t)inner_size * sizeof(__nv_bfloat16));
    g->out = (__nv_bfloat16 *)(base + at);
    return at + device_align(pairs * (size_t)hidden_size * sizeof(__nv_bfloat16));
}

size_t moe_grouped_workspace(const struct ops_limits *limits)
{
    struct groups ignored;

    return groups_init(&ignored, NULL, (int64_t)limits->max_tokens * limits->moe_top_k,
                       limits->num_experts, limits->hidden_size, limits->moe_inner_size);
}

/*
 * One block per expert looks at all choices: its warps count their shares, then each writes its own
 * in order. The last expert's last tile is the last of all.
 */
static __global__ void __launch_bounds__(SORT_WARPS *WARP)
    sort_kernel(struct groups g, const int32_t *experts, int num_pairs, int tile_rows)
{
    __shared__ int counts[SORT_WARPS][2];
    int expert = (int)blockIdx.x, warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    int share = (num_pairs + SORT_WARPS * WARP - 1) / (SORT_WARPS * WARP) * WARP;
    int begin = warp * share, end = min(begin + share, num_pairs);
    int before = 0, equal = 0, first = 0, at = 0, num_slots;

    pdl_launch();
    pdl_wait();
#pragma unroll 8
    for (int i = begin + lane; i < end; i += WARP) {
        int chosen = experts[i];

        before += chosen < expert;
        equal += chosen == expert;
    }
    before = __reduce_add_sync(~0u, before);
    equal = __reduce_add_sync(~0u, equal);
    if (lane == 0) {
        counts[warp][0] = before;
        counts[warp][1] = equal;
    }
    __syncthreads();
    equal = 0;
    for (int w = 0; w < SORT_WARPS; w++) {
        first += counts[w][0];
        at += w < warp ? counts[w][1] : 0;
        equal += counts[w][1];
    }
    at += first;
#pragma unroll 8
    for (int i = begin; i < end; i += WARP) {
        bool is_mine = i + lane < end && experts[i + lane] == expert;
        unsigned found = __ballot_sync(~0u, is_mine);

        if (is_mine)
            g.order[at + __popc(found & ((1u << lane) - 1))] = i + lane;
        at += __popc(found);
    }
    num_slots = (first + equal) / tile_rows - first / tile_rows + 1;
    for (int i = (int)threadIdx.x; i < num_slots; i += SORT_WARPS * WARP)
        g.tiles[first / tile_rows + expert + i] = {expert, first + i * tile_rows,
                                                   max(min(equal - i * tile_rows, tile_rows), 0)};
}

/* A thread for each 16 bytes of y. */
static __global__ void __launch_bounds__(COMBINE_THREADS)
    combine_kernel(__nv_bfloat16 *y, const __nv_bfloat16 *out, const float *weights, int row_vecs,
                   int top_k, size_t num_vecs)
{
    typedef vec16<__nv_bfloat16> vec;
    size_t i = blockIdx.x * (size_t)COMBINE_THREADS + threadIdx.x, token = i / (size_t)row_vecs;
    const vec *in = (const vec *)out + token * (size_t)(top_k - 1) * (size_t)row_vecs + i;
    float sums[vec::N] = {};
    vec v;

    pdl_launch();
    pdl_wait();
    if (i >= num_vecs)
        return;
#pragma unroll 4
    for (int choice = 0; choice < top_k; choice++) {
        float weight = weights[token * (size_t)top_k + (size_t)choice];

        v = in[(size_t)choice * (size_t)row_vecs];
        for (int e = 0; e < vec::N; e++)
            sums[e] += weight * to_float(v.v[e]);
    }
    v = ((vec *)y)[i];
    for (int e = 0; e < vec::N; e++)
        store_float(&v.v[e], to_float(v.v[e]) + sums[e]);
    ((vec *)y)[i] = v;
}

/*
 * From a quarter of a pair per expert on: about then a step's pairs begin to meet at the same
 * experts, and what grouping costs, a few us, is little beside the weights of so many.
 */
bool moe_grouped_can(const struct moe_args *a)
{
    const struct experts_weight *w = a->experts;

    return w->dtype == DTYPE_BF16 && w->hidden_size % 8 == 0 && w->inner_size % 8 == 0 &&
           (int64_t)a->num_tokens * a->top_k >= w->num_experts / 4;
}

/* The smallest that most experts' pairs fit into, or nearly so: a tile reads its weights anew. */
static int tile_rows_of(int num_pairs, int num_experts)
{
    int mean = num_pairs / num_experts;

    return mean < 8 ? MIN_TILE_ROWS : mean < 48 ? 64 : MAX_TILE_ROWS;
}

static cudaError_t multiply(struct stream *stream, const struct moe_product *product, int tile_rows,
                            bool gated)
{
    if (moe_wgmma_can(stream->device, tile_rows))
        return moe_wgmma_launch(stream, product, gated);
    return moe_mma_launch(stream, product, tile_rows, gated);
}

cudaError_t moe_grouped_launch(struct stream *stream, const struct moe_args *a,
                               const struct moe_choices *choices, void *space)
{
    const struct experts_weight *w = a->experts;
    int num_pairs = a->num_tokens * a->top_k, row_vecs = w->hidden_size / 8;
    int tile_rows = tile_rows_of(num_pairs, w->num_experts);
    size_t num_vecs = (size_t)a->num_tokens * (size_t)row_vecs;
    struct moe_product inner = {}, outer;
    struct groups g;
    cudaError_t error;

    groups_init(&g, space, num_pairs, w->num_experts, w->hidden_size, w->inner_size);
    inner.x = (const __nv_bfloat16 *)a->x;
    inner.weight = (const __nv_bfloat16 *)w->gate_up;
    inner.y = g.inner;
    inner.tiles = g.tiles;
    inner.order = g.order;
    inner.n = w->inner_size;
    inner.k = w->hidden_size;
    inner.top_k = a->top_k;
    inner.num_tiles = num_tiles_of(num_pairs, w->num_experts, tile_rows);
    outer = inner;
    outer.x = g.inner;
    outer.weight = (const __nv_bfloat16 *)w->down;
    outer.y = g.out;
    outer.n = w->hidden_size;
    outer.k = w->inner_size;
    error = launch(stream, sort_kernel, dim3((unsigned)w->num_experts), SORT_WARPS * WARP, 0, g,
                   choices->experts, num_pairs, tile_rows);
    if (!error)
        error = multiply(stream, &inner, tile_rows, true);
    if (!error)
        error = multiply(stream, &outer, tile_rows, false);
    if (!error)
        error =
            launch(stream, combine_kernel,
                   dim3((unsigned)ceil_div((int64_t)num_vecs, COMBINE_THREADS)), COMBINE_THREADS, 0,
                   (__nv_bfloat16 *)a->y, g.out, choices->weights, row_vecs, a->top_k, num_vecs);
    return error;
}
