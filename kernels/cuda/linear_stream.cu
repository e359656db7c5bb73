/*
 * linear_stream.cu - y = x W^T + bias (or y += ...) for up to 32 tokens in bfloat16 from 9.0 on:
 * one read of a W that fits no cache, by blocks that all have as much of it to read.
 *
 * Grid: a block for each multiprocessor. It takes every gridDim.x-th tile of R rows of W, and all
 * of k. One thread asks the copy engine for stages of C chunks of 64 elements of k, W's and x's,
 * which go round in a ring; eight warps multiply on the tensor cores, R C / 8 rows each, all at the
 * same chunk of the stage. Sums of the C chunks meet in shared memory, in order.
 *
 * The ring, nearly all of a multiprocessor's shared memory, is filled with W before the kernel
 * waits for the one that makes x (programmatic dependent launch): weights never change, and small
 * kernels leave the memory idle. A stage is two requests: the thread that makes them spends a
 * hundred clocks on each.
 *
 * Of a gated layer (gate_up of ops.h) half of a tile's rows are gates, the others the ups that
 * belong to them.
 */
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tma.cuh"

enum {
    MAX_TOKENS = 32,
    NUM_WARPS = 8, /* that multiply */
    NUM_THREADS = NUM_WARPS * WARP,
    MAX_ROWS = 256,        /* R */
    MAX_GATED_ROWS = 320,  /* the same, half of them gates */
    STAGE_ROWS = 320,      /* C grows while R C stays within */
    MANY_STAGE_ROWS = 192, /* the same, for more than FEW_TOKENS */
    ROW_TILES = 5,         /* of 8 rows: a warp's, at most */
    MIN_STAGES = 3,
    MAX_STAGES = 16,
    ROUND = 16,    /* tokens whose sums meet at a time */
    PITCH_PAD = 8, /* floats */
    OLDS = 3,      /* so many of y's old values a thread fetches before it needs them */
};

struct stream_args {
    CUtensorMap weight, x; /* tiles of R rows, or of R / 2 if gated; tiles of TOKENS */
    const __nv_bfloat16 *bias;
    void *y;
    int n, num_tokens; /* n: features of y */
    int rows, chunks;  /* R, C */
    int outputs;       /* of a tile: R, or R / 2 if gated */
    int stage_bytes;
    int num_tiles, num_steps, num_stages; /* steps: stages of a tile */
    bool accumulate, y_is_float, is_gated;
};

#if __CUDA_ARCH__ >= 900

/* Where a block's next stage is. */
struct place {
    int row;  /* of y: the tile's first */
    int step; /* stage of the tile */
};

static __device__ __forceinline__ void advance(const struct stream_args *a, struct place *at)
{
    if (++at->step == a->num_steps) {
        at->step = 0;
        at->row += (int)gridDim.x * a->outputs;
    }
}

/* A stage is [C] tiles of x, then [C] of W. */
template <int TOKENS>
static __device__ __forceinline__ void ask_for_weight(const struct stream_args *a,
                                                      const struct ring *ring, int stage,
                                                      const struct place *at)
{
    uint32_t full = ring->full + stage * 8;

    barrier_expect(full, ring->bytes);
    tiles_load(ring_stage(ring, stage) + (uint32_t)(a->chunks * TOKENS * TILE_ROW_BYTES),
               &a->weight, at->row, at->step * a->chunks, full);
}

static __device__ __forceinline__ void ask_for_x(const struct stream_args *a,
                                                 const struct ring *ring, int stage, int step)
{
    tiles_load(ring_stage(ring, stage), &a->x, 0, step * a->chunks, ring->full + stage * 8);
}

/* One thread keeps the ring full: num stages go through it. */
template <int TOKENS>
static __device__ void produce(const struct stream_args *a, const struct ring *ring, int num)
{
    struct place at = {(int)blockIdx.x * a->outputs, 0};
    int num_first = min(num, a->num_stages), stage = 0, parity = 0;

    for (int i = 0; i < num_first; i++) {
        ask_for_weight<TOKENS>(a, ring, i, &at);
        advance(a, &at);
    }
    tile_map_prefetch(&a->x);
    pdl_wait();
    for (int i = 0, step = 0; i < num_first; i++) {
        ask_for_x(a, ring, i, step);
        step = step + 1 == a->num_steps ? 0 : step + 1;
    }
    for (int i = num_first; i < num; i++) {
        barrier_wait(ring->empty + stage * 8, parity);
        ask_for_weight<TOKENS>(a, ring, stage, &at);
        ask_for_x(a, ring, stage, at.step);
        advance(a, &at);
        ring_next(a->num_stages, &stage, &parity);
    }
}

/* A warp's part of a stage: of a chunk, every stride-th row tile from row_tile on. */
struct share {
    int chunk, row_tile, stride;
};

static __device__ __forceinline__ int row_of(const struct share *share, int i)
{
    return (share->row_tile + i * share->stride) * 8;
}

/* A row tile's or x's four fragments of 32 elements of k, from a swapped tile. */
static __device__ __forceinline__ void load_rows(uint32_t *r, uint32_t tile, int half)
{
    int lane = (int)threadIdx.x % WARP, row = lane % 8;

    load_fragments(r, tile + (uint32_t)(row * TILE_ROW_BYTES + ((half * 4 + lane / 8) ^ row) * 16));
}

static __host__ __device__ constexpr int parts_of(int tokens)
{
    return (tokens + ROUND - 1) / ROUND;
}

/* Adds a chunk's products, of this warp's row tiles, to sums: [row tile][part], each [16 tokens, 8
 * rows] as mma.cuh has it. */
template <int TOKENS>
static __device__ __forceinline__ void multiply(const struct stream_args *a,
                                                const struct share *share, uint32_t x_tile,
                                                uint32_t w_tile, float (*sums)[parts_of(TOKENS)][4])
{
    enum { PARTS = parts_of(TOKENS) };
    uint32_t x[2][PARTS][2][4] = {}, w[2][ROW_TILES][4];

#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            load_rows(x[half][p][0], x_tile + p * 16 * TILE_ROW_BYTES, half);
            if (TOKENS > 8)
                load_rows(x[half][p][1], x_tile + (p * 16 + 8) * TILE_ROW_BYTES, half);
        }
#pragma unroll
        for (int j = 0; j < ROW_TILES; j++) {
            if (row_of(share, j) < a->rows)
                load_rows(w[half][j], w_tile + (uint32_t)(row_of(share, j) * TILE_ROW_BYTES), half);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) { /* 16 elements of k */
        int half = i / 2, at = i % 2 * 2;

#pragma unroll
        for (int j = 0; j < ROW_TILES; j++) {
            if (row_of(share, j) >= a->rows)
                break;
#pragma unroll
            for (int p = 0; p < PARTS; p++)
                mma_bf16(sums[j][p], x[half][p][0][at], x[half][p][1][at], x[half][p][0][at + 1],
                         x[half][p][1][at + 1], w[half][j][at], w[half][j][at + 1]);
        }
    }
}

/* A thread's i-th of the values that a round writes, of tokens from first_token on. */
struct output {
    int token, j, row; /* token: of the round; j: of the tile's rows; row: of y */
    bool is_there;
    size_t at; /* in y */
};

static __device__ __forceinline__ struct output output_of(const struct stream_args *a, int tile,
                                                          int first_token, int i)
{
    int number = (int)threadIdx.x + i * NUM_THREADS;
    struct output out;

    out.token = number / a->outputs;
    out.j = number - out.token * a->outputs;
    out.row = tile * a->outputs + out.j;
    out.is_there = out.token < ROUND && first_token + out.token < a->num_tokens && out.row < a->n;
    out.at = (size_t)(first_token + out.token) * (size_t)a->n + (size_t)out.row;
    return out;
}

static __device__ __forceinline__ void fetch_old(const struct stream_args *a, int tile,
                                                 int first_token, float *old)
{
#pragma unroll
    for (int i = 0; i < OLDS; i++) {
        struct output out = output_of(a, tile, first_token, i);

        if (a->accumulate && out.is_there)
            old[i] = to_float(((const __nv_bfloat16 *)a->y)[out.at]);
    }
}

/* Sums in shared memory: [C, ROUND, R + PITCH_PAD]. */
template <int PARTS>
static __device__ __forceinline__ void put_sums(const struct stream_args *a,
                                                const struct share *share, float *shared, int part,
                                                const float (*sums)[PARTS][4])
{
    int lane = (int)threadIdx.x % WARP, pitch = a->rows + PITCH_PAD;

#pragma unroll
    for (int j = 0; j < ROW_TILES; j++) {
        int row = row_of(share, j);
        float *to = shared + (share->chunk * ROUND + lane / 4) * pitch + row + lane % 4 * 2;

        if (row >= a->rows)
            break;
        *(float2 *)to = make_float2(sums[j][part][0], sums[j][part][1]);
        *(float2 *)(to + 8 * pitch) = make_float2(sums[j][part][2], sums[j][part][3]);
    }
}

/* The sum of all chunks, in order, and the bias. */
static __device__ __forceinline__ float add_up(const struct stream_args *a, const float *shared,
                                               int token, int j, int row)
{
    float sum = 0;

    for (int c = 0; c < a->chunks; c++)
        sum += shared[(c * ROUND + token) * (a->rows + PITCH_PAD) + j];
    return a->bias ? sum + to_float(a->bias[row]) : sum;
}

static __device__ __forceinline__ void write(const struct stream_args *a, const float *shared,
                                             int tile, int first_token, const float *old)
{
#pragma unroll 1
    for (int i = 0; i * NUM_THREADS < ROUND * a->outputs; i++) {
        struct output out = output_of(a, tile, first_token, i);
        __nv_bfloat16 *y = (__nv_bfloat16 *)a->y + out.at;
        float sum;

        if (!out.is_there)
            continue;
        sum = add_up(a, shared, out.token, out.j, out.row);
        if (a->is_gated)
            sum = silu_mul(round_bf16(sum), round_bf16(add_up(a, shared, out.token,
                                                              a->outputs + out.j, a->n + out.row)));
        if (a->accumulate)
            sum += i == 0 ? old[0] : i == 1 ? old[1] : i == 2 ? old[2] : to_float(*y);
        if (a->y_is_float)
            ((float *)a->y)[out.at] = sum;
        else
            store_float(y, sum);
    }
}

template <int TOKENS>
static __device__ void consume(const struct stream_args *a, const struct ring *ring, float *shared)
{
    enum { PARTS = parts_of(TOKENS) };
    int warp = (int)threadIdx.x / WARP, stage = 0, parity = 0;
    struct share share = {warp % a->chunks, warp / a->chunks, NUM_WARPS / a->chunks};
    int x = share.chunk * TOKENS * TILE_ROW_BYTES; /* in a stage */
    int w = (a->chunks * TOKENS + share.chunk * a->rows) * TILE_ROW_BYTES;

    pdl_wait();
    for (int tile = (int)blockIdx.x; tile < a->num_tiles; tile += (int)gridDim.x) {
        float sums[ROW_TILES][PARTS][4] = {}, old[OLDS] = {};

        fetch_old(a, tile, 0, old);
        for (int i = 0; i < a->num_steps; i++) {
            barrier_wait(ring->full + stage * 8, parity);
            multiply<TOKENS>(a, &share, ring_stage(ring, stage) + (uint32_t)x,
                             ring_stage(ring, stage) + (uint32_t)w, sums);
            __syncwarp();
            if (threadIdx.x % WARP == 0)
                barrier_arrive(ring->empty + stage * 8);
            ring_next(a->num_stages, &stage, &parity);
        }
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            threads_sync(NUM_THREADS); /* what was there has been read */
            put_sums<PARTS>(a, &share, shared, p, sums);
            if (p > 0)
                fetch_old(a, tile, p * ROUND, old);
            threads_sync(NUM_THREADS);
            write(a, shared, tile, p * ROUND, old);
        }
    }
}

#endif

template <int TOKENS>
static __global__ void __launch_bounds__(NUM_THREADS + WARP)
    linear_stream_kernel(const __grid_constant__ struct stream_args a)
{
#if __CUDA_ARCH__ >= 900
    extern __shared__ unsigned char dynamic[];
    __shared__ uint64_t barriers[2 * MAX_STAGES];
    struct ring ring =
        ring_make(dynamic, barriers, MAX_STAGES, a.num_stages, a.stage_bytes, NUM_WARPS);
    unsigned char *sums = dynamic + (ring.stages - shared_address(dynamic));
    int num_tiles = (a.num_tiles - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;

    __syncthreads();
    pdl_launch();
    if (threadIdx.x == NUM_THREADS)
        produce<TOKENS>(&a, &ring, num_tiles * a.num_steps);
    if (threadIdx.x < NUM_THREADS)
        consume<TOKENS>(&a, &ring, (float *)(sums + a.num_stages * a.stage_bytes));
#endif
}

/* R: the most rows with which the busiest block has hardly more to read than it must. */
static int rows_of(const struct device *device, int n, bool is_gated)
{
    int unit = is_gated ? 16 : 8, most = is_gated ? MAX_GATED_ROWS : MAX_ROWS, best = unit;
    int64_t least = INT64_MAX / 102;

    for (int rows = unit; rows <= most; rows += unit) {
        int64_t busiest = (int64_t)ceil_div(ceil_div(n, rows), device->num_sms) * rows;

        if (busiest * 100 <= least * 102)
            best = rows;
        least = busiest < least ? busiest : least;
    }
    return best;
}

static int tokens_of(const struct layer_args *a)
{
    return a->num_tokens <= 8 ? 8 : a->num_tokens <= 16 ? 16 : 32;
}

static int sums_bytes(int chunks, int rows)
{
    return chunks * ROUND * (rows + PITCH_PAD) * (int)sizeof(float);
}

/* So many stages a ring has. */
static int stages_of(const struct device *device, int tokens, int chunks, int rows)
{
    int room = device->max_shared_bytes - STATIC_SHARED - TILE_ALIGNMENT;

    return (room - sums_bytes(chunks, rows)) / (chunks * (tokens + rows) * TILE_ROW_BYTES);
}

/* How the layer is cut. false: the ring would be too short. */
static bool plan(const struct device *device, const struct layer_args *a, struct stream_args *out)
{
    int most = a->num_tokens > FEW_TOKENS ? MANY_STAGE_ROWS : STAGE_ROWS, tokens = tokens_of(a);
    int rows = rows_of(device, a->weight->n, a->wide != NULL), chunks = 1;

    while (chunks < NUM_WARPS && chunks * 2 * rows <= most &&
           stages_of(device, tokens, chunks * 2, rows) >= MIN_STAGES)
        chunks *= 2;
    out->is_gated = a->wide != NULL;
    out->n = out->is_gated ? a->weight->n / 2 : a->weight->n;
    out->rows = rows;
    out->outputs = out->is_gated ? rows / 2 : rows;
    out->chunks = chunks;
    out->num_tiles = ceil_div(a->weight->n, rows);
    out->num_steps = ceil_div(a->weight->k, TILE_K * chunks);
    out->stage_bytes = chunks * (tokens + rows) * TILE_ROW_BYTES;
    out->num_stages = stages_of(device, tokens, chunks, rows);
    out->num_stages = out->num_stages < MAX_STAGES ? out->num_stages : (int)MAX_STAGES;
    return out->num_stages >= MIN_STAGES;
}

bool linear_stream_can(const struct device *device, const struct layer_args *a)
{
    struct stream_args args;

    return device->encode_tiled && device->architecture >= 90 && a->weight->dtype == DTYPE_BF16 &&
           a->weight->k % TILE_K == 0 && (size_t)a->x % 16 == 0 && a->num_tokens <= MAX_TOKENS &&
           plan(device, a, &args);
}

/*
 * Untimed: alone other ways are sometimes as fast, but this one has most of the next layer's W
 * under way while small kernels run. A step of the 14B shape by the ways that were the fastest
 * alone: 7.9 ms, by this one 7.5.
 */
bool linear_stream_always(const struct device *device, const struct layer_args *a)
{
    return a->num_tokens <= FEW_TOKENS && a->weight->n >= 16 * device->num_sms &&
           (int64_t)a->weight->n * a->weight->k >= LARGE_WEIGHT && linear_stream_can(device, a);
}

template <int TOKENS>
static cudaError_t launch_stream(struct stream *stream, const struct stream_args *args)
{
    int num_sms = stream->device->num_sms;
    int blocks = args->num_tiles < num_sms ? args->num_tiles : num_sms;
    int shared = args->num_stages * args->stage_bytes + sums_bytes(args->chunks, args->rows) +
                 TILE_ALIGNMENT;
    cudaError_t error = cudaFuncSetAttribute(linear_stream_kernel<TOKENS>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             stream->device->max_shared_bytes - STATIC_SHARED);

    if (!error)
        error = launch(stream, linear_stream_kernel<TOKENS>, dim3((unsigned)blocks),
                       NUM_THREADS + WARP, (size_t)shared, *args);
    return error;
}

struct status linear_stream_launch(struct stream *stream, const struct layer_args *a)
{
    const struct linear_weight *w = a->weight;
    struct stream_args args = {};
    int tokens = tokens_of(a);
    struct status status;
    cudaError_t error;

    plan(stream->device, a, &args);
    status = tiles_map_init(stream->device, w->data, args.n, args.is_gated ? 2 : 1, w->k,
                            args.outputs, args.chunks, &args.weight);
    if (!status.code)
        status = tiles_map_init(stream->device, a->x, a->num_tokens, 1, w->k, tokens, args.chunks,
                                &args.x);
    if (status.code)
        return status;
    args.bias = (const __nv_bfloat16 *)w->bias;
    args.y = a->y;
    args.num_tokens = a->num_tokens;
    args.accumulate = a->accumulate;
    args.y_is_float = a->y_dtype == DTYPE_F32;
    switch (tokens) {
    case 8:
        error = launch_stream<8>(stream, &args);
        break;
    case 16:
        error = launch_stream<16>(stream, &args);
        break;
    default:
        error = launch_stream<32>(stream, &args);
    }
    return cuda_launched(stream, error, "linear");
}
