/*
 * sample_direct.cu - the rows whose tokens need no order: greedy ones, and draws without filters.
 *
 * A draw takes the first id at which the running sum of weights exceeds u times the total: one read
 * of the row, and another of the one segment where it ends. Segments are SEGMENT tokens in a row, a
 * warp's loads of one turn; each leaves its sum in shared memory. Weights are relative to about the
 * largest logit, which a look at the row's first tokens gives; where that was far off, or infinite,
 * the row is read again.
 *
 * Grid: a cluster for each row, as in sample.cu. A kernel of its own, because it is the common case
 * and needs few registers and little shared memory, while sample.cu's rows need all of both.
 */
#include "kernels/cuda/sample_row.cuh"

enum {
    LOADS = 4, /* of 16 bytes, by each lane for a segment */
    SEGMENT = LOADS * 4 * WARP,
};

static __device__ __forceinline__ float *shared_sums()
{
    extern __shared__ float shared_floats[];

    return shared_floats;
}

/* Segments begin where memory is aligned, before the row's first token. Four tokens from there. */
static __device__ __forceinline__ float4 load_four(const struct row *row, int id)
{
    const float *logits = row->logits;
    int n = row->vocab_size;

    if (id >= 0 && id + 4 <= n)
        return __ldg((const float4 *)(logits + id));
    return make_float4(id >= 0 && id < n ? logits[id] : -INFINITY,
                       id + 1 >= 0 && id + 1 < n ? logits[id + 1] : -INFINITY,
                       id + 2 >= 0 && id + 2 < n ? logits[id + 2] : -INFINITY,
                       id + 3 >= 0 && id + 3 < n ? logits[id + 3] : -INFINITY);
}

/* The weight relative to top, which may be infinite. */
static __device__ __forceinline__ float weight_from(float logit, float top, float inverse)
{
    return logit == top ? 1 : __expf((logit - top) * inverse);
}

/* Sums of segments [begin, end), into sums; the largest key but for its id, or 0: RESULT_NAN. */
static __device__ uint64_t sum_segments(struct row *row, int first_id, int begin, int end,
                                        float top, float *sums)
{
    int lane = (int)threadIdx.x % WARP;
    float inverse = row->inverse_temperature, max = -INFINITY;
    uint32_t largest_bits = 0; /* as in first_pass of sample.cu */

    for (int s = begin + (int)threadIdx.x / WARP; s < end; s += WARPS) {
        float4 v[LOADS];
        float sum = 0;

#pragma unroll
        for (int j = 0; j < LOADS; j++)
            v[j] = load_four(row, first_id + s * SEGMENT + (j * WARP + lane) * 4);
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            const float four[4] = {v[j].x, v[j].y, v[j].z, v[j].w};

#pragma unroll
            for (int e = 0; e < 4; e++) {
                max = fmaxf(max, four[e]);
                largest_bits = umax(largest_bits, __float_as_uint(four[e]) << 1);
                sum += weight_from(four[e], top, inverse);
            }
        }
        sum = warp_sum(sum);
        if (lane == 0)
            sums[s - begin] = sum;
    }
    return join_best(row, key_of(max, 0), largest_bits > 0xFF000000u);
}

/* Over a warp: the sum of x of all lanes before this one. */
static __device__ __forceinline__ double sum_before(double x)
{
    double sum = x;

    for (int i = 1; i < WARP; i *= 2) {
        double other = __shfl_up_sync(~0u, sum, i);
        sum += (int)threadIdx.x % WARP >= i ? other : 0;
    }
    return sum - x;
}

/*
 * A draw ends at the last value that is not 0 and has at most target before it: with exact sums the
 * first at which the running sum exceeds target. By one warp, over a block's segments: *before is
 * what comes before them, then before the one that is found.
 */
static __device__ __forceinline__ int find_segment(const float *sums, int n, double target,
                                                   double *before)
{
    int len = (n + WARP - 1) / WARP, first = min((int)threadIdx.x % WARP * len, n);
    int last = min(first + len, n), at = -1, lane;
    double own = 0, running, found = 0;

    for (int i = first; i < last; i++)
        own += sums[i];
    running = *before + sum_before(own);
    for (int i = first; i < last; i++) {
        if (sums[i] > 0 && running <= target) {
            at = i;
            found = running;
        }
        running += sums[i];
    }
    lane = 31 - __clz((int)__ballot_sync(~0u, at >= 0));
    *before = __shfl_sync(~0u, found, lane);
    return __shfl_sync(~0u, at, lane);
}

/* The same over the tokens of a segment, which begins at first_id. */
static __device__ __forceinline__ int find_token(const struct row *row, int first_id, float top,
                                                 double target, double before)
{
    int id = first_id + (int)threadIdx.x % WARP * (SEGMENT / WARP), token = -1;
    float weights[SEGMENT / WARP];
    double own = 0, running;

#pragma unroll
    for (int j = 0; j < LOADS; j++) {
        float4 v = load_four(row, id + j * 4);

        weights[4 * j] = weight_from(v.x, top, row->inverse_temperature);
        weights[4 * j + 1] = weight_from(v.y, top, row->inverse_temperature);
        weights[4 * j + 2] = weight_from(v.z, top, row->inverse_temperature);
        weights[4 * j + 3] = weight_from(v.w, top, row->inverse_temperature);
    }
#pragma unroll
    for (int i = 0; i < SEGMENT / WARP; i++)
        own += weights[i];
    running = before + sum_before(own);
#pragma unroll
    for (int i = 0; i < SEGMENT / WARP; i++) {
        if (weights[i] > 0 && running <= target)
            token = id + i;
        running += weights[i];
    }
    return __shfl_sync(~0u, token, 31 - __clz((int)__ballot_sync(~0u, token >= 0)));
}

static __device__ int draw_by_id(struct row *row, float u, float temperature)
{
    int shift = (int)((intptr_t)row->logits / 4 & 3), owner = 0, token;
    int num = (row->vocab_size + shift + SEGMENT - 1) / SEGMENT;
    int begin = num * row->rank / row->num_ranks, end = num * (row->rank + 1) / row->num_ranks;
    float *sums = shared_sums(), top = -INFINITY;
    double own = 0, before = 0, running = 0, total = 0;

#pragma unroll
    for (int i = 0; i < 2; i++)
        top = fmaxf(top, row->logits[min(i * THREADS + (int)threadIdx.x, row->vocab_size - 1)]);
    top = key_logit(row_max_key(row, key_of(top, 0)));
    for (bool again = false;; again = true) {
        uint64_t best = sum_segments(row, -shift, begin, end, top, sums);

        if (best == 0)
            return RESULT_NAN;
        if (again || key_logit(best) - top < 20 * temperature)
            break;
        top = key_logit(best); /* the first part said nothing about the rest */
    }
    for (int i = (int)threadIdx.x; i < end - begin; i += THREADS)
        own += sums[i];
    own = block_sum_double(own);
    if (threadIdx.x == 0)
        row->meeting->values[row->turn][0] = (uint64_t)__double_as_longlong(own);
    cluster_sync();
    for (int r = 0; r < row->num_ranks; r++)
        total += __longlong_as_double((int64_t)brought(row, r, 0));
    for (int r = 0; r < row->num_ranks; r++) {
        double sum = __longlong_as_double((int64_t)brought(row, r, 0));

        if (sum > 0 && running <= u * total) {
            owner = r;
            before = running;
        }
        running += sum;
    }
    row->turn ^= 1;
    if (row->rank == owner && threadIdx.x < WARP) {
        int segment = find_segment(sums, end - begin, u * total, &before);

        token = find_token(row, (begin + segment) * SEGMENT - shift, top, u * total, before);
        if (threadIdx.x == 0)
            row->meeting->values[row->turn][0] = (uint64_t)token;
    }
    cluster_sync();
    token = (int)brought(row, owner, 0);
    row->turn ^= 1;
    return token;
}

static __device__ int largest(struct row *row)
{
    float max = -INFINITY;
    bool has_nan = false;
    int id = -1;
    uint64_t best;

    for_each_logit<4>(row, ~0u, [&](float logit, int i, int) {
        has_nan |= isnan(logit);
        if (logit > max || id < 0) {
            max = logit;
            id = i;
        }
    });
    best = join_best(row, id < 0 ? 0 : key_of(max, id), has_nan);
    return best == 0 ? RESULT_NAN : key_id(best);
}

static __global__ void __launch_bounds__(THREADS, 2) sample_direct_kernel(struct sample_args a)
{
    __shared__ struct meeting meeting;
    struct row_params p;
    struct row row;
    int id;

    pdl_launch();
    pdl_wait();
    if (a.num_rows == 0)
        return;
    p = params_of(&a);
    if (!p.is_greedy && !is_unfiltered(&p))
        return;
    row = row_of(&a, &meeting);
    row.inverse_temperature = 1 / p.temperature;
    id = p.is_greedy ? largest(&row) : draw_by_id(&row, p.u, p.temperature);
    if (row.rank == 0 && threadIdx.x == 0)
        write_result(&a, id);
    cluster_sync(); /* no block goes while another may still read its shared memory */
}

cudaError_t sample_direct_launch(struct stream *stream, const struct sample_args *args, dim3 grid,
                                 int cluster)
{
    size_t shared_bytes = ((size_t)args->vocab_size / SEGMENT + 2) * sizeof(float);
    cudaError_t error = cudaSuccess;

    if (shared_bytes > 32 << 10)
        error = cudaFuncSetAttribute(
            sample_direct_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (!error)
        error = launch_cluster(stream, sample_direct_kernel, grid, cluster, THREADS, shared_bytes,
                               *args);
    return error;
}
