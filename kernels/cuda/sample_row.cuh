/*
 * sample_row.cuh - one row of logits, worked on by the blocks of a cluster: each reads its slice,
 * and all come to the same maxima, sums and histograms. What is said of threads holds for all
 * threads of all the row's blocks, unless a rank is named.
 */
#ifndef KERNELS_CUDA_SAMPLE_ROW_CUH
#define KERNELS_CUDA_SAMPLE_ROW_CUH

#include "kernels/cuda/cluster.cuh"

enum {
    THREADS = 512,
    WARPS = THREADS / WARP,
    BINS = 32,
    BINS_PER_TEMPERATURE = 2,              /* how fine: weights fall by e^0.5 from bin to bin */
    LAST_BATCH = 31,                       /* see for_each_logit */
    LIST_SIZE = 4096,                      /* a power of two */
    LIST_PER_THREAD = LIST_SIZE / THREADS, /* side by side, for running sums */
    SHARED_BYTES = BINS * THREADS * 4,     /* the histogram; then the list */
};

static_assert(SHARED_BYTES >= LIST_SIZE * 8, "the list takes the histogram's place");

/* A ruler over logits: BINS bins from top downwards, each divided into BINS finer ones. */
struct ruler {
    float inverse_width; /* of a finest division */
    float offset;        /* top * inverse_width */
};

/* Where the blocks of a row meet, in the shared memory of each. */
struct meeting {
    uint64_t values[2][BINS]; /* used in turn, so that one barrier a meeting is enough */
    int list_len;             /* of rank 0's list */
};

/* What a row is asked for. */
struct row_params {
    float temperature, top_p, min_p;
    int top_k;      /* 0: off */
    bool is_greedy; /* the largest logit, whatever else is asked */
    float u;
};

struct row {
    const float *logits;
    int vocab_size;
    int rank, num_ranks;
    float max, inverse_temperature;
    uint64_t top; /* no key is larger */
    struct ruler ruler;
    struct meeting *meeting;
    int turn;
};

/* Of the block's SHARED_BYTES: a column of bins for each thread; later, in rank 0, the list. */
static __device__ __forceinline__ float (*shared_columns())[THREADS]
{
    extern __shared__ __align__(16) unsigned char shared[];

    return (float(*)[THREADS])shared;
}

static __device__ __forceinline__ uint64_t *shared_list()
{
    return (uint64_t *)shared_columns();
}

/* Larger for larger logits; of equal ones for lower ids. */
static __device__ __forceinline__ uint64_t key_of(float logit, int id)
{
    uint32_t bits = __float_as_uint(logit + 0.0f); /* -0 becomes 0 */

    bits ^= bits >> 31 ? ~0u : 1u << 31;
    return (uint64_t)bits << 32 | (uint32_t)~id;
}

static __device__ __forceinline__ int key_id(uint64_t key)
{
    return (int)~(uint32_t)key;
}

static __device__ __forceinline__ float key_logit(uint64_t key)
{
    uint32_t bits = (uint32_t)(key >> 32);

    return __uint_as_float(bits >> 31 ? bits ^ 1u << 31 : ~bits);
}

/* The token's weight: its probability but for a factor common to all. The largest has 1. */
static __device__ __forceinline__ float row_weight(const struct row *row, float logit)
{
    return logit == row->max ? 1 : __expf((logit - row->max) * row->inverse_temperature);
}

static __device__ __forceinline__ struct ruler ruler_of(float top, float inverse_width)
{
    struct ruler ruler = {inverse_width, top * inverse_width};

    return ruler;
}

/*
 * The finest division of a logit; whatever lies beyond an end is in the last one there. Adding 2^23
 * rounds to an integer and leaves it in the mantissa, which is cheaper than a conversion.
 */
static __device__ __forceinline__ int division_of(struct ruler ruler, float logit)
{
    float at = fmaf(-logit, ruler.inverse_width, ruler.offset);

    at = fminf(fmaxf(at, 0), BINS * BINS - 1);
    return __float_as_int(at + 8388608.0f) & (BINS * BINS - 1);
}

static __device__ __forceinline__ int bin_of(struct ruler ruler, float logit)
{
    return division_of(ruler, logit) / BINS;
}

/*
 * Calls visit(logit, id, batch) for all tokens of the row, from all threads. A thread takes its
 * part of the slice in batches of AHEAD loads; those that are not in wanted are passed over. What
 * does not fill a batch, or comes late, counts as batch LAST_BATCH.
 */
template <int AHEAD, typename F>
static __device__ __forceinline__ void for_each_logit(const struct row *row, uint32_t wanted,
                                                      F visit)
{
    const float *logits = row->logits;
    int vocab_size = row->vocab_size, head = min((int)(-(intptr_t)logits / 4 & 3), vocab_size);
    const float4 *body = (const float4 *)(logits + head);
    int num = (vocab_size - head) / 4, tail = head + num * 4, i, batch = 0;
    int end = (int)((int64_t)num * (row->rank + 1) / row->num_ranks);

    if (row->rank == 0 && (int)threadIdx.x < head)
        visit(logits[threadIdx.x], (int)threadIdx.x, (int)LAST_BATCH);
    for (i = (int)((int64_t)num * row->rank / row->num_ranks) + (int)threadIdx.x;
         i + (AHEAD - 1) * THREADS < end; i += AHEAD * THREADS) {
        float4 v[AHEAD];
        int b = min(batch++, (int)LAST_BATCH);

        if (!(wanted >> b & 1))
            continue;
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = __ldg(body + i + j * THREADS);
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            int id = head + 4 * (i + j * THREADS);

            visit(v[j].x, id, b);
            visit(v[j].y, id + 1, b);
            visit(v[j].z, id + 2, b);
            visit(v[j].w, id + 3, b);
        }
    }
    for (; i < end; i += THREADS) {
        float4 v = __ldg(body + i);
        int id = head + 4 * i;

        visit(v.x, id, (int)LAST_BATCH);
        visit(v.y, id + 1, (int)LAST_BATCH);
        visit(v.z, id + 2, (int)LAST_BATCH);
        visit(v.w, id + 3, (int)LAST_BATCH);
    }
    i = tail + (int)threadIdx.x;
    if (row->rank == row->num_ranks - 1 && i < vocab_size)
        visit(logits[i], i, (int)LAST_BATCH);
}

static __device__ double block_sum_double(double x)
{
    __shared__ double shared[WARPS];
    double sum = 0;

    for (int i = WARP / 2; i > 0; i /= 2)
        x += __shfl_xor_sync(~0u, x, i);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int i = 0; i < WARPS; i++)
        sum += shared[i];
    return sum;
}

static __device__ uint64_t block_max_key(uint64_t x)
{
    __shared__ uint64_t shared[WARPS];
    uint64_t max = 0;

    for (int i = WARP / 2; i > 0; i /= 2) {
        uint64_t other = __shfl_xor_sync(~0u, x, i);
        x = other > x ? other : x;
    }
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int i = 0; i < WARPS; i++)
        max = shared[i] > max ? shared[i] : max;
    return max;
}

/* What the block of that rank brought to the meeting under way as its value i. */
static __device__ __forceinline__ uint64_t brought(const struct row *row, int rank, int i)
{
    return cluster_load(cluster_address(&row->meeting->values[row->turn][i], rank));
}

static __device__ uint64_t row_max_key(struct row *row, uint64_t key)
{
    uint64_t max = 0;

    key = block_max_key(key);
    if (threadIdx.x == 0)
        row->meeting->values[row->turn][0] = key;
    cluster_sync();
    for (int r = 0; r < row->num_ranks; r++) {
        uint64_t other = brought(row, r, 0);
        max = other > max ? other : max;
    }
    row->turn ^= 1;
    return max;
}

static __device__ double row_sum(struct row *row, double x)
{
    double sum = 0;

    x = block_sum_double(x);
    if (threadIdx.x == 0)
        row->meeting->values[row->turn][0] = (uint64_t)__double_as_longlong(x);
    cluster_sync();
    for (int r = 0; r < row->num_ranks; r++)
        sum += __longlong_as_double((int64_t)brought(row, r, 0));
    row->turn ^= 1;
    return sum;
}

/*
 * From each thread's best key to the row's, or RESULT_NAN's: 0, where there is a NaN or nothing
 * finite. Where the best is infinite, another look says whether anything is finite.
 */
static __device__ uint64_t join_best(struct row *row, uint64_t best, bool has_nan)
{
    best = row_max_key(row, __syncthreads_or(has_nan) ? ~(uint64_t)0 : best);
    if (best == ~(uint64_t)0)
        return 0;
    if (isinf(key_logit(best))) {
        bool has_finite = false;

        for_each_logit<4>(row, ~0u, [&](float logit, int, int) { has_finite |= isfinite(logit); });
        if (row_max_key(row, has_finite) == 0)
            return 0;
    }
    return best;
}

/*
 * Looks at a first part of each slice: *out_top is about the largest, *out_floor the least of what
 * each warp has as its largest, which about one token in a hundred reaches.
 */
static __device__ void look(struct row *row, float *out_top, float *out_floor)
{
    int at = (int)((int64_t)row->vocab_size * row->rank / row->num_ranks);
    float top = -INFINITY;
    uint64_t lowest;

#pragma unroll
    for (int i = 0; i < 8; i++)
        top =
            fmaxf(top, row->logits[min(at + i * THREADS + (int)threadIdx.x, row->vocab_size - 1)]);
    lowest = ~key_of(warp_max(top), 0);
    *out_top = key_logit(row_max_key(row, key_of(top, 0)));
    *out_floor = key_logit(~row_max_key(row, lowest));
}

/* Adds up all threads' columns, in order, into bins (shared memory, in each block). */
static __device__ void sum_columns(struct row *row, double *bins)
{
    float(*columns)[THREADS] = shared_columns();
    double sum = 0;

    __syncthreads();
    for (int b = (int)threadIdx.x / WARP; b < BINS; b += WARPS) {
        double own = 0;

        for (int i = (int)threadIdx.x % WARP; i < THREADS; i += WARP)
            own += columns[b][i];
        for (int i = WARP / 2; i > 0; i /= 2)
            own += __shfl_xor_sync(~0u, own, i);
        if (threadIdx.x % WARP == 0)
            row->meeting->values[row->turn][b] = (uint64_t)__double_as_longlong(own);
    }
    cluster_sync();
    if (threadIdx.x < BINS) {
        for (int r = 0; r < row->num_ranks; r++)
            sum += __longlong_as_double((int64_t)brought(row, r, (int)threadIdx.x));
        bins[threadIdx.x] = sum;
    }
    row->turn ^= 1;
    __syncthreads();
}

/* bins: weights, or numbers, of the coarse bins (coarse < 0) or of the divisions of one. */
static __device__ void histogram(struct row *row, int coarse, bool count, double *bins)
{
    float(*columns)[THREADS] = shared_columns();
    struct ruler ruler = row->ruler;

    __syncthreads();
    for (int b = 0; b < BINS; b++)
        columns[b][threadIdx.x] = 0;
    for_each_logit<4>(row, ~0u, [&](float logit, int id, int) {
        int division = division_of(ruler, logit), bin = division / BINS;

        (void)id;
        if (coarse < 0 || bin == coarse)
            columns[coarse < 0 ? bin : division % BINS][threadIdx.x] +=
                count ? 1 : row_weight(row, logit);
    });
    sum_columns(row, bins);
}

/* The weights, or the number, of all tokens whose key is at least least. */
static __device__ double prefix_sum(struct row *row, uint64_t least, bool count)
{
    double sum = 0;

    for_each_logit<4>(row, ~0u, [&](float logit, int id, int) {
        if (key_of(logit, id) >= least)
            sum += count ? 1 : row_weight(row, logit);
    });
    return row_sum(row, sum);
}

/*
 * The largest key whose prefix reaches target (more than 0), by binary search; the last of all if
 * none does.
 */
static __device__ uint64_t search_prefix(struct row *row, double target, bool count,
                                         double *out_sum)
{
    uint64_t low = 0, high = row->top;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2 + (high - low) % 2;

        if (prefix_sum(row, middle, count) >= target)
            low = middle;
        else
            high = middle - 1;
    }
    *out_sum = prefix_sum(row, low, count);
    return low;
}

/* Descending, n a power of two. */
static __device__ void sort_list(uint64_t *list, int n)
{
    for (int run = 2; run <= n; run *= 2) {
        for (int step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int i = (int)threadIdx.x; i < n / 2; i += THREADS) {
                int low = 2 * step * (i / step) + i % step, high = low + step;
                uint64_t a = list[low], b = list[high];

                if ((a < b) == ((low & run) == 0)) {
                    list[low] = b;
                    list[high] = a;
                }
            }
        }
    }
    __syncthreads();
}

/* A place for each of the lanes that are here, from a counter that they raise together. */
static __device__ __forceinline__ int take_places(uint32_t counter)
{
    unsigned lanes = __activemask(), lane = threadIdx.x % WARP;
    int first = __ffs((int)lanes) - 1, base = 0;

    if ((int)lane == first)
        base = cluster_add(counter, __popc(lanes));
    return __shfl_sync(lanes, base, first) + __popc(lanes & ((1u << lane) - 1));
}

/*
 * Lists the tokens of the divisions first to last, which are all in this thread's batches wanted,
 * in rank 0's shared memory, sorted, and returns their number, which may be more than LIST_SIZE:
 * then there is no list.
 */
static __device__ int list_divisions(struct row *row, int first, int last, uint32_t wanted)
{
    uint64_t *list = shared_list();
    uint32_t len_address = cluster_address(&row->meeting->list_len, 0);
    uint32_t list_address = cluster_address(list, 0);
    struct ruler ruler = row->ruler;
    int n = 1, len;

    for_each_logit<4>(row, wanted, [&](float logit, int id, int) {
        int division = division_of(ruler, logit);

        if (division >= first && division <= last) {
            int at = take_places(len_address);

            if (at < LIST_SIZE)
                cluster_store(list_address + (uint32_t)at * 8, key_of(logit, id));
        }
    });
    cluster_sync();
    len = cluster_load_int(len_address);
    cluster_sync(); /* every rank has read it */
    if (row->rank != 0)
        return len;
    if (threadIdx.x == 0)
        row->meeting->list_len = 0; /* the next list is at least one meeting away */
    if (len > LIST_SIZE)
        return len;
    while (n < len)
        n *= 2;
    for (int i = len + (int)threadIdx.x; i < n; i += THREADS)
        list[i] = 0;
    sort_list(list, n);
    return len;
}

/* The row of this block's cluster. */
static __device__ __forceinline__ struct row row_of(const struct sample_args *a,
                                                    struct meeting *meeting)
{
    struct row row = {};

    row.logits = a->logits + blockIdx.x / cluster_size() * (size_t)a->vocab_size;
    row.vocab_size = a->vocab_size;
    row.rank = cluster_rank();
    row.num_ranks = cluster_size();
    row.meeting = meeting;
    return row;
}

static __device__ __forceinline__ struct row_params params_of(const struct sample_args *a)
{
    const struct step_inputs *in = &a->inputs;
    size_t r = blockIdx.x / cluster_size();
    struct row_params p;

    p.temperature = in->temperature[r];
    p.top_p = in->top_p[r];
    p.min_p = in->min_p[r];
    p.top_k = in->top_k[r] < a->vocab_size ? max(in->top_k[r], 0) : 0;
    p.is_greedy = !(p.temperature > 0) || in->top_k[r] == 1;
    p.u = sample_uniform(in->seed[r], in->sample_pos[r]);
    return p;
}

/* sample_is_unfiltered of ops.h */
static __device__ __forceinline__ bool is_unfiltered(const struct row_params *p)
{
    return p->top_k == 0 && p->top_p >= 1 && p->min_p <= 0;
}

/* One thread's word for all. */
static __device__ __forceinline__ void write_result(const struct sample_args *a, int id)
{
    size_t r = blockIdx.x / cluster_size();

    a->results[r] = id;
    a->token_pool[(size_t)a->inputs.sample_table_idx[r] * (size_t)a->token_pool_stride +
                  (size_t)a->inputs.sample_pos[r]] = id == RESULT_NAN ? 0 : id;
}

/* sample_direct.cu: the rows that need no order of their tokens. */
cudaError_t sample_direct_launch(struct stream *stream, const struct sample_args *args, dim3 grid,
                                 int cluster);

#endif
