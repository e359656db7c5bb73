/*
 * linear_split.cu - y = x W^T + bias (or y += ...) for up to 512 tokens in bfloat16 on Hopper: one
 * read of W from memory, by blocks that are all at work at once, with k split over the blocks of a
 * cluster.
 *
 * Grid: the tokens are cut into P spans; cluster c has span c % P and block c / P of the features,
 * so that those who read the same W are neighbours. Its rank r sums chunks r * C / S to (r + 1) * C
 * / S of the C chunks of 64 elements of k (S ranks). In a block two warps ask the copy engine for
 * tiles of W and of x, which go round in a ring of stages; the others stand in warpgroups, one for
 * each 64 tokens and each F features, and multiply on the tensor cores. At the end the ranks deal
 * out the tokens, token t to rank t % S: each adds up its tokens' sums, which it reads from every
 * rank's shared memory, in the order of ranks. So no sum passes through memory, nothing follows but
 * the next layer, and the result is the same every time.
 *
 * The first tiles of W are asked for before the kernel waits for the one that makes x (programmatic
 * dependent launch): weights never change. For layers of a few MB these are all of W, and what the
 * step waits for is x, a few us of latency and nothing else.
 *
 * Of a gated layer (gate_up of ops.h) half of a block's features are gates, and the others the ups
 * that belong to them; y has half as many.
 *
 * A shape can be split in several ways. With more ranks, or more spans and more features for each,
 * a block has less of x to read, but more sums to send, or more of W to read. linear_plan.cu lists
 * the likeliest; linear_trial.cu times them.
 */
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/linear_split.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/wgmma.cuh"

struct split_args {
    CUtensorMap weight, x; /* tiles of half a block's features; tiles of a span's tokens */
    const __nv_bfloat16 *bias;
    void *y;
    int n, num_tokens; /* n: features of y */
    bool accumulate, y_is_float, is_gated;
    struct split split;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* A block's part. */
struct part {
    int rank, ranks;
    int first_token, first_feature; /* of y */
    int begin, end;                 /* chunks of k */
};

/* A stage is a tile of x, then two of W: a block's gates and ups, or its features' halves. */
static __device__ __forceinline__ void ask_for_weight(const struct split_args *a,
                                                      const struct part *part,
                                                      const struct ring *ring, int stage, int chunk)
{
    int half = a->split.features / 2;
    uint32_t to = ring_stage(ring, stage), full = ring->full + stage * 8;

    to += (uint32_t)(a->split.token_tiles * TOKENS * TILE_ROW_BYTES);
    barrier_expect(full, ring->bytes);
    tile_load(to, &a->weight, part->first_feature, chunk * TILE_K, full);
    tile_load(to + (uint32_t)(half * TILE_ROW_BYTES), &a->weight,
              part->first_feature + (a->is_gated ? a->n : half), chunk * TILE_K, full);
}

static __device__ __forceinline__ void ask_for_x(const struct split_args *a,
                                                 const struct part *part, const struct ring *ring,
                                                 int stage, int chunk)
{
    tile_load(ring_stage(ring, stage), &a->x, part->first_token, chunk * TILE_K,
              ring->full + stage * 8);
}

/* Two threads fill the ring for the first time, one with W, the other with x when it is there; the
 * first keeps it full to the end. */
static __device__ void produce(const struct split_args *a, const struct part *part,
                               const struct ring *ring)
{
    int stage = 0, parity = 0;

    for (int i = 0; i < min(part->end - part->begin, a->split.num_stages); i++)
        ask_for_weight(a, part, ring, i, part->begin + i);
    pdl_wait();
    for (int chunk = part->begin + a->split.num_stages; chunk < part->end; chunk++) {
        barrier_wait(ring->empty + stage * 8, parity);
        ask_for_weight(a, part, ring, stage, chunk);
        ask_for_x(a, part, ring, stage, chunk);
        ring_next(a->split.num_stages, &stage, &parity);
    }
}

static __device__ void produce_first_x(const struct split_args *a, const struct part *part,
                                       const struct ring *ring)
{
    tile_map_prefetch(&a->x);
    pdl_wait();
    for (int i = 0; i < min(part->end - part->begin, a->split.num_stages); i++)
        ask_for_x(a, part, ring, i, part->begin + i);
}

/* The sums of one warpgroup, the turn-th of depth; x and w: where its rows begin in a stage. */
template <int F>
static __device__ __forceinline__ void consume(const struct split *split, const struct part *part,
                                               const struct ring *ring, int turn, int x, int w,
                                               float *sums)
{
    int stage = turn, parity = 0, before = -1;
    bool refills = part->end - part->begin > split->num_stages;

#pragma unroll
    for (int i = 0; i < F / 2; i++)
        sums[i] = 0;
    for (int chunk = part->begin + turn; chunk < part->end; chunk += split->depth) {
        uint32_t tiles = ring_stage(ring, stage);
        uint64_t x_matrix = wgmma_matrix(tiles + (uint32_t)x);
        uint64_t w_matrix = wgmma_matrix(tiles + (uint32_t)w);

        barrier_wait(ring->full + stage * 8, parity);
        wgmma_begin();
#pragma unroll
        for (int j = 0; j < TILE_K / 16; j++)
            wgmma<F>(sums, x_matrix + (uint64_t)(j * 32 >> 4), w_matrix + (uint64_t)(j * 32 >> 4));
        wgmma_commit();
        if (refills) {
            wgmma_wait<1>(); /* the stage before has been read */
            if (before >= 0 && threadIdx.x % WARP == 0)
                barrier_arrive(ring->empty + before * 8);
            before = stage;
        }
        stage += split->depth;
        if (stage >= split->num_stages) {
            stage -= split->num_stages;
            parity ^= 1;
        }
    }
    wgmma_wait<0>();
    wgmma_settle<F>(sums);
}

/* The first warpgroup of each depth gets the others' sums, through shared memory: [groups, depth -
 * 1, F / 8, WARPGROUP] pieces of 16 bytes. */
template <int F>
static __device__ __forceinline__ void fold_depth(const struct split *split, float4 *shared,
                                                  int num_threads, int group, int turn, float *sums)
{
    float4 *own = shared + (size_t)(group * (split->depth - 1)) * (F / 8 * WARPGROUP) +
                  threadIdx.x % WARPGROUP;

    if (turn > 0) {
#pragma unroll
        for (int i = 0; i < F / 8; i++)
            own[((turn - 1) * (F / 8) + i) * WARPGROUP] =
                make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
    }
    threads_sync(num_threads);
    for (int t = 1; t < split->depth && turn == 0; t++) {
#pragma unroll
        for (int i = 0; i < F / 8; i++) {
            float4 other = own[((t - 1) * (F / 8) + i) * WARPGROUP];

            sums[4 * i] += other.x;
            sums[4 * i + 1] += other.y;
            sums[4 * i + 2] += other.z;
            sums[4 * i + 3] += other.w;
        }
    }
    threads_sync(num_threads);
}

/* A warpgroup's sums, of the tile-th 64 tokens and of features from feature on, to their places. */
template <int F>
static __device__ __forceinline__ void put_sums(const struct split *split, int ranks, float *out,
                                                int tile, int feature, const float *sums)
{
    int lane = (int)threadIdx.x % WARP;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        int token = tile * TOKENS + (int)threadIdx.x / WARP % 4 * 16 + i * 8 + lane / 4;
        float *to = out + token % ranks * rank_pitch_of(split, ranks) +
                    token / ranks * pitch_of(split) + feature + lane % 4 * 2;

#pragma unroll
        for (int j = 0; j < F / 8; j++)
            *(float2 *)(to + j * 8) = make_float2(sums[4 * j + 2 * i], sums[4 * j + 2 * i + 1]);
    }
}

/* What a thread writes of y: four features of every step-th of this rank's tokens. */
struct column {
    int first, step, num; /* of the rank's tokens */
    int feature;          /* of the block's; its up, if gated, is half of them on */
    size_t at, stride;    /* in y: of the first token, and to the next */
};

static __device__ __forceinline__ struct column column_of(const struct split_args *a,
                                                          const struct part *part, int num_threads)
{
    int quads = a->split.features / (a->is_gated ? 8 : 4);
    int num_tokens = min(a->split.token_tiles * TOKENS, a->num_tokens - part->first_token);
    struct column c;

    c.feature = (int)threadIdx.x % quads * 4;
    c.first = (int)threadIdx.x / quads;
    c.step = num_threads / quads;
    c.num = (num_tokens - part->rank + part->ranks - 1) / part->ranks;
    if (c.first >= c.step || part->first_feature + c.feature >= a->n)
        c.num = 0;
    c.at = (size_t)(part->first_token + c.first * part->ranks + part->rank) * (size_t)a->n +
           (size_t)(part->first_feature + c.feature);
    c.stride = (size_t)(c.step * part->ranks) * (size_t)a->n;
    return c;
}

static __device__ __forceinline__ void add_bf16(float4 *sum, uint2 x)
{
    sum->x += __uint_as_float(x.x << 16);
    sum->y += __uint_as_float(x.x & 0xFFFF0000);
    sum->z += __uint_as_float(x.y << 16);
    sum->w += __uint_as_float(x.y & 0xFFFF0000);
}

enum { OLDS = 2 }; /* so many of y's old values a thread fetches before it needs them */

/* The sums of four features, from all ranks' shared memory, and what is added to them. */
template <int RANKS>
static __device__ __forceinline__ float4 sum_of(const uint32_t *from, uint32_t offset, uint2 bias)
{
    float4 sum = make_float4(0, 0, 0, 0), parts[RANKS];

#pragma unroll
    for (int r = 0; r < RANKS; r++)
        parts[r] = cluster_load_float4(from[r] + offset);
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
        sum.x += parts[r].x;
        sum.y += parts[r].y;
        sum.z += parts[r].z;
        sum.w += parts[r].w;
    }
    add_bf16(&sum, bias);
    return sum;
}

static __device__ __forceinline__ float4 silu_mul4(float4 gate, float4 up)
{
    return make_float4(silu_mul(round_bf16(gate.x), round_bf16(up.x)),
                       silu_mul(round_bf16(gate.y), round_bf16(up.y)),
                       silu_mul(round_bf16(gate.z), round_bf16(up.z)),
                       silu_mul(round_bf16(gate.w), round_bf16(up.w)));
}

/* y, from the sums in all ranks' shared memory, at that place of it. old: what y held. */
template <int RANKS>
static __device__ __forceinline__ void add_up(const struct split_args *a, const struct part *part,
                                              const struct column *c, uint32_t sums,
                                              const uint2 *old)
{
    int pitch = pitch_of(&a->split);
    uint2 bias = make_uint2(0, 0), up_bias = bias;
    uint32_t from[RANKS], up = (uint32_t)(a->split.features / 2) * (uint32_t)sizeof(float);
    size_t at = c->at;

    sums +=
        (uint32_t)(part->rank * rank_pitch_of(&a->split, RANKS) + c->first * pitch + c->feature) *
        (uint32_t)sizeof(float);
#pragma unroll
    for (int r = 0; r < RANKS; r++)
        from[r] = cluster_map(sums, r);
    if (a->bias && c->num > 0)
        bias = *(const uint2 *)(a->bias + part->first_feature + c->feature);
    if (a->bias && a->is_gated && c->num > 0)
        up_bias = *(const uint2 *)(a->bias + a->n + part->first_feature + c->feature);
#pragma unroll 2
    for (int i = c->first, j = 0; i < c->num; i += c->step, j++) {
        float4 sum = sum_of<RANKS>(from, 0, bias);

        if (a->is_gated)
            sum = silu_mul4(sum, sum_of<RANKS>(from, up, up_bias));
        if (a->accumulate)
            add_bf16(&sum, j == 0   ? old[0]
                           : j == 1 ? old[1]
                                    : *(const uint2 *)((const __nv_bfloat16 *)a->y + at));
        if (a->y_is_float)
            *(float4 *)((float *)a->y + at) = sum;
        else
            *(uint2 *)((__nv_bfloat16 *)a->y + at) =
                make_uint2(pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w));
        at += c->stride;
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            from[r] += (uint32_t)(c->step * pitch) * (uint32_t)sizeof(float);
    }
}

static __device__ __forceinline__ void add_up_any(const struct split_args *a,
                                                  const struct part *part, const struct column *c,
                                                  uint32_t sums, const uint2 *old)
{
    switch (part->ranks) {
    case 1:
        return add_up<1>(a, part, c, sums, old);
    case 2:
        return add_up<2>(a, part, c, sums, old);
    case 4:
        return add_up<4>(a, part, c, sums, old);
    default:
        return add_up<8>(a, part, c, sums, old);
    }
}

#endif

template <int F>
static __global__ void __launch_bounds__(MAX_GROUPS *WARPGROUP + 2 * WARP, 1)
    linear_split_kernel(const __grid_constant__ struct split_args a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ unsigned char dynamic[];
    __shared__ uint64_t barriers[2 * MAX_STAGES];
    const struct split *split = &a.split;
    int num_threads = (int)blockDim.x - 2 * WARP, group = (int)threadIdx.x / WARPGROUP;
    int groups = num_threads / WARPGROUP / split->depth, turn = group / groups;
    int tile = group % groups % split->token_tiles, feature = group % groups / split->token_tiles;
    struct ring ring = ring_make(dynamic, barriers, MAX_STAGES, split->num_stages,
                                 stage_bytes(split), groups * WARPGROUP / WARP);
    struct part part = {cluster_rank(), cluster_size()};
    int cluster = (int)blockIdx.x / part.ranks;
    float *shared = (float *)(dynamic + (ring.stages - shared_address(dynamic))), sums[F / 2];
    uint2 old[OLDS] = {};
    struct column column;

    part.first_token = cluster % split->token_spans * split->token_tiles * TOKENS;
    part.first_feature = cluster / split->token_spans * split->features / (a.is_gated ? 2 : 1);
    part.begin = split->num_chunks * part.rank / part.ranks;
    part.end = split->num_chunks * (part.rank + 1) / part.ranks;
    __syncthreads();
    pdl_launch();
    if ((int)threadIdx.x >= num_threads) {
        if ((int)threadIdx.x == num_threads)
            produce(&a, &part, &ring);
        if ((int)threadIdx.x == num_threads + WARP)
            produce_first_x(&a, &part, &ring);
        __syncwarp();
        cluster_sync();
        cluster_meet();
        return;
    }
    column = column_of(&a, &part, num_threads);
    pdl_wait();
#pragma unroll
    for (int i = 0; i < OLDS; i++) {
        if (a.accumulate && column.first + i * column.step < column.num)
            old[i] = *(const uint2 *)((const __nv_bfloat16 *)a.y + column.at +
                                      (size_t)i * column.stride);
    }
    consume<F>(split, &part, &ring, turn, tile * TOKENS * TILE_ROW_BYTES,
               (split->token_tiles * TOKENS + feature * F) * TILE_ROW_BYTES, sums);
    threads_sync(num_threads); /* the ring has been read, and serves for sums */
    if (split->depth > 1)
        fold_depth<F>(split, (float4 *)shared, num_threads, group % groups, turn, sums);
    if (turn == 0)
        put_sums<F>(split, part.ranks, shared, tile, feature * F, sums);
    cluster_sync();
    add_up_any(&a, &part, &column, ring.stages, old);
    cluster_meet(); /* nobody leaves while another may still read its sums */
#endif
}

template <int F>
static cudaError_t launch_split(struct stream *stream, const struct split_args *args,
                                const struct plan *plan)
{
    int features = args->split.features / (args->is_gated ? 2 : 1); /* of y */
    int blocks = ceil_div(args->n, features) * args->split.token_spans * plan->ranks;
    cudaError_t error =
        cudaFuncSetAttribute(linear_split_kernel<F>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             stream->device->max_shared_bytes - STATIC_SHARED);

    if (!error)
        error = launch_cluster(stream, linear_split_kernel<F>, dim3((unsigned)blocks), plan->ranks,
                               plan->num_groups * WARPGROUP + 2 * WARP, (size_t)plan->shared_bytes,
                               *args);
    return error;
}

struct status linear_split_launch(struct stream *stream, const struct layer_args *a, int number)
{
    const struct linear_weight *w = a->weight;
    struct split_args args = {};
    bool is_gated = a->wide != NULL;
    struct status status;
    struct plan plan;
    cudaError_t error;

    if (!linear_split_plan(stream->device, a, number, &plan))
        return status_error(STATUS_DEVICE, "linear: no way number %d", number);
    status =
        tile_map_init(stream->device, w->data, w->n, w->k, plan.split.features / 2, &args.weight);
    if (!status.code)
        status = tile_map_init(stream->device, a->x, a->num_tokens, w->k,
                               plan.split.token_tiles * TOKENS, &args.x);
    if (status.code)
        return status;
    args.bias = (const __nv_bfloat16 *)w->bias;
    args.y = a->y;
    args.n = is_gated ? w->n / 2 : w->n;
    args.is_gated = is_gated;
    args.num_tokens = a->num_tokens;
    args.accumulate = a->accumulate;
    args.y_is_float = a->y_dtype == DTYPE_F32;
    args.split = plan.split;
    switch (plan.width) {
    case 32:
        error = launch_split<32>(stream, &args, &plan);
        break;
    case 64:
        error = launch_split<64>(stream, &args, &plan);
        break;
    case 80:
        error = launch_split<80>(stream, &args, &plan);
        break;
    case 96:
        error = launch_split<96>(stream, &args, &plan);
        break;
    case 112:
        error = launch_split<112>(stream, &args, &plan);
        break;
    case 128:
        error = launch_split<128>(stream, &args, &plan);
        break;
    case 136:
        error = launch_split<136>(stream, &args, &plan);
        break;
    default:
        error = cudaErrorInvalidValue; /* widths[] of linear_plan.cu has one that is not here */
    }
    return cuda_launched(stream, error, "linear");
}
