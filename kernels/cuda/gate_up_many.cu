/*
 * gate_up_many.cu - gate_up in bfloat16 on Hopper for many tokens: both products and silu_mul in
 * one kernel, so that what lies between them never goes to memory:
 *     gate = W[j] x[t] + bias[j], up = W[inner_size + j] x[t] + bias[inner_size + j]
 *     y[t, j] = silu(gate) up, of both rounded to bfloat16 as a layer's results are
 *
 * Grid: as many clusters of two blocks as there is room for; each takes tile after tile of 256
 * tokens and F features of y. Each block has half of the tokens and all 2 F rows of W: F gates, and
 * the F ups that belong to them. One block fetches the gates, the other the ups, each for both
 * (multicast). One thread asks the copy engine, W first, before x is there; the stages go round in
 * a ring, and it is with the next tile of y while two warpgroups finish this one. Each of these
 * multiplies 64 tokens, and a thread holds the gate and the up of the same element.
 *
 * A stage is full with this block's part of W, the other block's and x; it is empty when the warps
 * of both blocks have read theirs, since each fills both.
 *
 * Tiles are taken down bands of BAND rows, column by column: those at work at the same time read
 * little that the second-level cache does not hold.
 */
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tma.cuh"
#include "kernels/cuda/wgmma.cuh"

enum {
    WARPGROUPS = 2, /* of a block, with 64 tokens each */
    BLOCK_TOKENS = WARPGROUPS * 64,
    CLUSTER = 2, /* blocks */
    CLUSTER_TOKENS = CLUSTER * BLOCK_TOKENS,
    BAND = 8, /* rows of tiles: 4 was as fast over 8192 tokens, 16 and 32 up to 4 % slower */
    NUM_STAGES = 4,
    X_BYTES = BLOCK_TOKENS * TILE_ROW_BYTES,
    NUM_THREADS = WARPGROUPS * WARPGROUP + WARP,
    TILE_COST = 4, /* of beginning and ending a tile: what so many features take */
    /* always, from so many tokens and so long rows on */
    ALWAYS_TOKENS = 512,
    ALWAYS_K = 1024,
};

/* F: one of them fills whole rounds of the card's clusters, or nearly. The widest is the last. */
static const int widths[] = {96, 112, 128, 136};

enum { NUM_WIDTHS = sizeof(widths) / sizeof(widths[0]) };

struct many_args {
    CUtensorMap weight, x; /* tiles of F rows; of a block's tokens */
    const __nv_bfloat16 *bias;
    __nv_bfloat16 *y;
    int inner_size, num_tokens;
    int num_chunks; /* of k */
    int tile_rows, tile_columns;
};

static int num_tile_columns(const struct layer_args *a, int width)
{
    return ceil_div(a->weight->n / 2, width);
}

static int num_rounds(const struct device *device, const struct layer_args *a, int num_tokens,
                      int width)
{
    int64_t rows = ceil_div(num_tokens, CLUSTER_TOKENS);

    return ceil_div(rows * num_tile_columns(a, width), device->num_sms / CLUSTER);
}

/* The one whose rounds take the least time. */
static int width_of(const struct device *device, const struct layer_args *a, int num_tokens)
{
    int best = 0, best_cost = 0;

    for (int i = 0; i < NUM_WIDTHS; i++) {
        int cost = num_rounds(device, a, num_tokens, widths[i]) * (widths[i] + TILE_COST);

        if (best == 0 || cost < best_cost) {
            best = widths[i];
            best_cost = cost;
        }
    }
    return best;
}

static size_t shared_bytes(int width)
{
    return (size_t)(NUM_STAGES * (X_BYTES + 2 * width * TILE_ROW_BYTES) + TILE_ALIGNMENT);
}

bool gate_up_many_can(const struct device *device, const struct layer_args *a)
{
    return a->wide && device->encode_tiled && device->has_wgmma && device->num_sms >= CLUSTER &&
           a->weight->dtype == DTYPE_BF16 && a->weight->k % 8 == 0 && a->weight->n % 16 == 0 &&
           (size_t)a->x % 16 == 0 && (size_t)a->y % 16 == 0 &&
           a->num_tokens > GATE_UP_MANY_TOKENS &&
           shared_bytes(widths[NUM_WIDTHS - 1]) + STATIC_SHARED <= (size_t)device->max_shared_bytes;
}

/*
 * Where tiles are nine tenths full. Timing would not tell: a burst runs at the card's highest
 * clocks, where cuBLAS wins now and then; many tokens in every step bring a card to its power
 * limit, and there it is the slower one by what silu_mul and the way through memory take.
 */
bool gate_up_many_always(const struct device *device, const struct layer_args *a, int num_tokens)
{
    int width, rounds;
    int64_t room; /* elements of y */

    if (!gate_up_many_can(device, a) || num_tokens < ALWAYS_TOKENS || a->weight->k < ALWAYS_K)
        return false;
    width = width_of(device, a, num_tokens);
    rounds = num_rounds(device, a, num_tokens, width);
    room = (int64_t)rounds * (device->num_sms / CLUSTER) * CLUSTER_TOKENS * width;
    return (int64_t)num_tokens * (a->weight->n / 2) * 10 >= room * 9;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Where a tile of y begins, for this block. */
struct place {
    int token, feature;
};

template <int F>
static __device__ __forceinline__ struct place place_of(const struct many_args *a, int tile)
{
    int band = tile / (BAND * a->tile_columns), rest = tile % (BAND * a->tile_columns);
    int rows = min((int)BAND, a->tile_rows - band * BAND);
    int row = band * BAND + rest % rows;

    return {row * CLUSTER_TOKENS + cluster_rank() * BLOCK_TOKENS, rest / rows * F};
}

/* A stage is a tile of x, then the gates, then the ups. All that comes into this block's stage is
 * expected here: this block's part of W, which goes to both, the other's part, and x. */
template <int F>
static __device__ __forceinline__ void ask_for_weight(const struct many_args *a,
                                                      const struct place *at,
                                                      const struct ring *ring, int stage, int chunk)
{
    int rank = cluster_rank();
    uint32_t full = ring->full + stage * 8;

    barrier_expect(full, ring->bytes);
    tile_load_for(ring_stage(ring, stage) + (uint32_t)(X_BYTES + rank * F * TILE_ROW_BYTES),
                  &a->weight, rank * a->inner_size + at->feature, chunk * TILE_K, full,
                  (1 << CLUSTER) - 1);
}

static __device__ __forceinline__ void ask_for_x(const struct many_args *a, const struct place *at,
                                                 const struct ring *ring, int stage, int chunk)
{
    tile_load(ring_stage(ring, stage), &a->x, at->token, chunk * TILE_K, ring->full + stage * 8);
}

/* One thread; the last to leave, when nobody writes or arrives here any more. */
template <int F> static __device__ void produce(const struct many_args *a, const struct ring *ring)
{
    int stage = 0, parity = 1, num_clusters = (int)gridDim.x / CLUSTER;
    int first = (int)blockIdx.x / CLUSTER, num_first = min((int)NUM_STAGES, a->num_chunks);
    struct place at = place_of<F>(a, first);

    for (int i = 0; i < num_first; i++)
        ask_for_weight<F>(a, &at, ring, i, i);
    pdl_wait();
    for (int tile = first; tile < a->tile_rows * a->tile_columns; tile += num_clusters) {
        at = place_of<F>(a, tile);
        for (int chunk = 0; chunk < a->num_chunks; chunk++) {
            if (tile != first || chunk >= num_first) {
                barrier_wait(ring->empty + stage * 8, parity);
                ask_for_weight<F>(a, &at, ring, stage, chunk);
            }
            ask_for_x(a, &at, ring, stage, chunk);
            ring_next(NUM_STAGES, &stage, &parity);
        }
    }
    for (int i = 0; i < NUM_STAGES; i++) {
        barrier_wait(ring->empty + stage * 8, parity); /* at once where it was never filled */
        ring_next(NUM_STAGES, &stage, &parity);
    }
}

/* A stage has been read by this warp. */
static __device__ __forceinline__ void stage_is_read(const struct ring *ring, int stage)
{
    int lane = (int)threadIdx.x % WARP;

    if (lane < CLUSTER)
        barrier_arrive_at(cluster_map(ring->empty + stage * 8, lane));
}

/* sums: F / 2 of gates, then as many of ups. F of 128 is one instruction, of the most columns that
 * there are, for both. */
template <int F>
static __device__ __forceinline__ void multiply(float *sums, uint64_t x, uint64_t w)
{
#pragma unroll
    for (int j = 0; j < TILE_K / 16; j++) {
        uint64_t step = (uint64_t)(j * 32 >> 4), ups = (uint64_t)(F * TILE_ROW_BYTES >> 4);

        if constexpr (F == 128) {
            wgmma<2 * F>(sums, x + step, w + step);
        } else {
            wgmma<F>(sums, x + step, w + step);
            wgmma<F>(sums + F / 2, x + step, w + ups + step);
        }
    }
}

/* Which feature is in which sum: see wgmma.cuh. */
template <int F>
static __device__ __forceinline__ void add_bias(const struct many_args *a, int feature, float *sums)
{
    feature += (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < F; i++) {
        int column = i % (F / 2) / 4 * 8 + i % 2, half = i / (F / 2);

        if (feature + column < a->inner_size)
            sums[i] += to_float(a->bias[half * a->inner_size + feature + column]);
    }
}

/* Every lane of four has a word of each of four pieces: lane q gets all of piece q. */
static __device__ __forceinline__ uint4 quad_transpose(const uint32_t *words)
{
    int q = (int)threadIdx.x % 4;
    bool odd = q & 1, upper = q & 2;
    uint32_t a = __shfl_xor_sync(~0u, odd ? words[0] : words[1], 1);
    uint32_t b = __shfl_xor_sync(~0u, odd ? words[2] : words[3], 1);
    uint2 low = odd ? make_uint2(a, words[1]) : make_uint2(words[0], a);
    uint2 high = odd ? make_uint2(b, words[3]) : make_uint2(words[2], b);
    uint32_t c = __shfl_xor_sync(~0u, upper ? low.x : high.x, 2);
    uint32_t d = __shfl_xor_sync(~0u, upper ? low.y : high.y, 2);

    return upper ? make_uint4(c, d, high.x, high.y) : make_uint4(low.x, low.y, c, d);
}

/* Two neighbours of y, from the j-th 8 features of the sums, of the i-th token. */
template <int F> static __device__ __forceinline__ uint32_t two_of(const float *sums, int i, int j)
{
    const float *gate = sums + 4 * j + 2 * i, *up = gate + F / 2;

    return pack_bf16(silu_mul(round_bf16(gate[0]), round_bf16(up[0])),
                     silu_mul(round_bf16(gate[1]), round_bf16(up[1])));
}

template <int F>
static __device__ __forceinline__ void write_tile(const struct many_args *a, const struct place *at,
                                                  const float *sums)
{
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        int token = at->token + warp * 16 + i * 8 + lane / 4;
        __nv_bfloat16 *row = a->y + (size_t)token * (size_t)a->inner_size;
        bool is_there = token < a->num_tokens;

#pragma unroll
        for (int j = 0; j + 4 <= F / 8; j += 4) {
            uint32_t words[4] = {two_of<F>(sums, i, j), two_of<F>(sums, i, j + 1),
                                 two_of<F>(sums, i, j + 2), two_of<F>(sums, i, j + 3)};
            uint4 piece = quad_transpose(words);
            int feature = at->feature + (j + lane % 4) * 8;

            if (is_there && feature < a->inner_size)
                *(uint4 *)(row + feature) = piece;
        }
#pragma unroll
        for (int j = F / 32 * 4; j < F / 8; j++) {
            uint32_t word = two_of<F>(sums, i, j);
            int feature = at->feature + j * 8 + lane % 4 * 2;

            if (is_there && feature < a->inner_size)
                *(uint32_t *)(row + feature) = word;
        }
    }
}

/* y may be written when x is there: what read y before has ended then, too. */
template <int F>
static __device__ __forceinline__ void consume(const struct many_args *a, const struct ring *ring)
{
    int stage = 0, parity = 0, before = 0, num_clusters = (int)gridDim.x / CLUSTER;
    uint32_t x_rows = (uint32_t)((int)threadIdx.x / WARPGROUP * 64 * TILE_ROW_BYTES);
    float sums[F];

    for (int tile = (int)blockIdx.x / CLUSTER; tile < a->tile_rows * a->tile_columns;
         tile += num_clusters) {
        struct place at = place_of<F>(a, tile);

#pragma unroll
        for (int i = 0; i < F; i++)
            sums[i] = 0;
        for (int chunk = 0; chunk < a->num_chunks; chunk++) {
            uint32_t tiles = ring_stage(ring, stage);

            barrier_wait(ring->full + stage * 8, parity);
            wgmma_begin();
            multiply<F>(sums, wgmma_matrix(tiles + x_rows), wgmma_matrix(tiles + X_BYTES));
            wgmma_commit();
            wgmma_wait<1>(); /* the stage before has been read */
            if (chunk > 0)
                stage_is_read(ring, before);
            before = stage;
            ring_next(NUM_STAGES, &stage, &parity);
        }
        wgmma_wait<0>();
        wgmma_settle<2 * F>(sums);
        stage_is_read(ring, before);
        if (a->bias)
            add_bias<F>(a, at.feature, sums);
        write_tile<F>(a, &at, sums);
    }
}

#endif

template <int F>
static __global__ void __launch_bounds__(NUM_THREADS, 1)
    gate_up_many_kernel(const __grid_constant__ struct many_args a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ unsigned char dynamic[];
    __shared__ uint64_t barriers[2 * NUM_STAGES];
    struct ring ring =
        ring_make(dynamic, barriers, NUM_STAGES, NUM_STAGES, X_BYTES + 2 * F * TILE_ROW_BYTES,
                  CLUSTER * WARPGROUPS * WARPGROUP / WARP);

    pdl_launch();
    cluster_meet(); /* both have their barriers */
    if ((int)threadIdx.x < WARPGROUPS * WARPGROUP)
        consume<F>(&a, &ring);
    else if ((int)threadIdx.x == WARPGROUPS * WARPGROUP)
        produce<F>(&a, &ring);
#endif
}

template <int F> static cudaError_t launch_many(struct stream *stream, const struct many_args *args)
{
    int clusters = min(args->tile_rows * args->tile_columns, stream->device->num_sms / CLUSTER);
    cudaError_t error = cudaFuncSetAttribute(
        gate_up_many_kernel<F>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes(F));

    if (!error)
        error = launch_cluster(stream, gate_up_many_kernel<F>, dim3((unsigned)(clusters * CLUSTER)),
                               CLUSTER, NUM_THREADS, shared_bytes(F), *args);
    return error;
}

struct status gate_up_many_launch(struct stream *stream, const struct layer_args *a)
{
    const struct linear_weight *w = a->weight;
    int width = width_of(stream->device, a, a->num_tokens);
    struct many_args args = {};
    struct status status = tile_map_init(stream->device, w->data, w->n, w->k, width, &args.weight);
    cudaError_t error;

    if (!status.code)
        status = tile_map_init(stream->device, a->x, a->num_tokens, w->k, BLOCK_TOKENS, &args.x);
    if (status.code)
        return status;
    args.bias = (const __nv_bfloat16 *)w->bias;
    args.y = (__nv_bfloat16 *)a->y;
    args.inner_size = w->n / 2;
    args.num_tokens = a->num_tokens;
    args.num_chunks = ceil_div(w->k, TILE_K);
    args.tile_rows = ceil_div(a->num_tokens, CLUSTER_TOKENS);
    args.tile_columns = num_tile_columns(a, width);
    switch (width) {
    case 96:
        error = launch_many<96>(stream, &args);
        break;
    case 112:
        error = launch_many<112>(stream, &args);
        break;
    case 128:
        error = launch_many<128>(stream, &args);
        break;
    default:
        error = launch_many<136>(stream, &args);
    }
    return cuda_launched(stream, error, "gate_up");
}
