/*
 * sample.cu - chooses each row's token from its logits and ends the step.
 *
 * Tokens stand in one order: falling logit, then rising id; a 64-bit key holds both. Every filter
 * and the draw itself is a prefix of that order: the shortest whose count, or whose sum of weights
 * exp((logit - max) / temperature), reaches a target. So one block per row
 *   1. reads the logits once: the largest, NaN, and for rows that draw a histogram over BINS equal
 *      ranges of the logit, down from about the largest: of counts where top_k is on, of weights
 *      otherwise. Each thread has a column of its own: no atomics, and sums in a fixed order;
 *   2. reads them again and lists the tokens of the bins that can matter: a few hundred as a rule;
 *   3. sorts the list and applies the filters and the draw to running sums.
 * A flat distribution has too many tokens in those bins. Then each prefix is found by itself: the
 * bin where it ends, a finer histogram of that bin, a sorted list of one of its divisions; and
 * where even that is too full (many equal logits), a binary search over keys, a read for each bit.
 * A greedy row ends after step 1.
 */
#include "kernels/cuda/cuda_util.cuh"

enum {
    THREADS = 512,
    WARPS = THREADS / WARP,
    BINS = 32,
    BINS_PER_TEMPERATURE = 2,              /* how fine: weights fall by e^0.5 from bin to bin */
    LIST_SIZE = 4096,                      /* a power of two */
    LIST_PER_THREAD = LIST_SIZE / THREADS, /* side by side, for running sums */
    SHARED_BYTES = BINS * THREADS * 4,     /* the histogram; then the list */
};

static_assert(SHARED_BYTES >= LIST_SIZE * 8, "the list takes the histogram's place");

/* What one row is asked for. */
struct row_params {
    float temperature, top_p, min_p;
    int top_k; /* 0: off */
    float u;
};

struct row_stats {
    float max;
    int id; /* of max, the lowest; RESULT_NAN where there is nothing to choose from */
};

static __device__ __forceinline__ uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* sample_uniform of ops.h */
static __device__ float uniform(uint64_t seed, int position)
{
    uint64_t z = mix(seed) + 0x9E3779B97F4A7C15u * ((uint64_t)(uint32_t)position + 1);

    return (float)(mix(z) >> 40) * 0x1.0p-24f;
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

static __device__ __forceinline__ float weight_of(float logit, float max, float temperature)
{
    return logit == max ? 1 : __expf((logit - max) / temperature);
}

/* Calls visit(logit, id) for all tokens of the row, from all threads, some loads ahead. */
template <int AHEAD, typename F>
static __device__ __forceinline__ void for_each_logit(const float *logits, int vocab_size, F visit)
{
    int head = (int)(-(intptr_t)logits / 4 & 3), i;
    const float4 *body;

    head = head < vocab_size ? head : vocab_size;
    body = (const float4 *)(logits + head);
    if ((int)threadIdx.x < head)
        visit(logits[threadIdx.x], (int)threadIdx.x);
    for (i = (int)threadIdx.x; i + (AHEAD - 1) * THREADS < (vocab_size - head) / 4;
         i += AHEAD * THREADS) {
        float4 v[AHEAD];

#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = __ldg(body + i + j * THREADS);
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            int id = head + 4 * (i + j * THREADS);

            visit(v[j].x, id);
            visit(v[j].y, id + 1);
            visit(v[j].z, id + 2);
            visit(v[j].w, id + 3);
        }
    }
    for (; i < (vocab_size - head) / 4; i += THREADS) {
        float4 v = __ldg(body + i);
        int id = head + 4 * i;

        visit(v.x, id);
        visit(v.y, id + 1);
        visit(v.z, id + 2);
        visit(v.w, id + 3);
    }
    for (i = head + (vocab_size - head) / 4 * 4 + (int)threadIdx.x; i < vocab_size; i += THREADS)
        visit(logits[i], i);
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

/* From each thread's best to the row's. Where the best is infinite, another look says whether
 * anything is finite. */
static __device__ struct row_stats join_stats(const float *logits, int vocab_size, float max,
                                              int id, bool has_nan)
{
    struct row_stats stats;
    uint64_t best = block_max_key(id < 0 ? 0 : key_of(max, id));
    bool has_finite = true;

    stats.max = key_logit(best);
    stats.id = key_id(best);
    if (isinf(stats.max)) {
        bool own = false;

        for_each_logit<4>(logits, vocab_size, [&](float logit, int i) {
            (void)i;
            own |= isfinite(logit);
        });
        has_finite = __syncthreads_or(own);
    }
    if (__syncthreads_or(has_nan) || !has_finite)
        stats.id = RESULT_NAN;
    return stats;
}

/* A ruler over logits: BINS bins from top downwards, each divided into BINS finer ones. */
struct ruler {
    float top, inverse_width; /* of a finest division */
};

/* The finest division of a logit; whatever lies beyond an end is in the last one there. */
static __device__ __forceinline__ int division_of(struct ruler ruler, float logit)
{
    float at = (ruler.top - logit) * ruler.inverse_width;

    return at < 0 ? 0 : at < BINS * BINS - 1 ? (int)at : BINS * BINS - 1;
}

static __device__ __forceinline__ int bin_of(struct ruler ruler, float logit)
{
    return division_of(ruler, logit) / BINS;
}

/* One row under way. */
struct row {
    const float *logits;
    int vocab_size;
    float max, temperature;
    uint64_t top; /* the key of max */
    struct ruler ruler;
    unsigned char *shared; /* SHARED_BYTES for columns or a list */
};

static __device__ __forceinline__ float row_weight(const struct row *row, float logit)
{
    return weight_of(logit, row->max, row->temperature);
}

/* The weights, or the number, of all tokens whose key is at least least. */
static __device__ double prefix_sum(const struct row *row, uint64_t least, bool count)
{
    double sum = 0;

    for_each_logit<4>(row->logits, row->vocab_size, [&](float logit, int id) {
        if (key_of(logit, id) >= least)
            sum += count ? 1 : row_weight(row, logit);
    });
    return block_sum_double(sum);
}

/* The largest key whose prefix reaches target, by binary search; the last of all if none does. */
static __device__ uint64_t search_prefix(const struct row *row, double target, bool count,
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

/* Adds up the threads' columns, in order. */
static __device__ void sum_columns(const struct row *row, double *bins)
{
    const float(*columns)[THREADS] = (const float(*)[THREADS])row->shared;

    __syncthreads();
    for (int b = (int)threadIdx.x / WARP; b < BINS; b += WARPS) {
        double own = 0;

        for (int i = (int)threadIdx.x % WARP; i < THREADS; i += WARP)
            own += columns[b][i];
        for (int i = WARP / 2; i > 0; i /= 2)
            own += __shfl_xor_sync(~0u, own, i);
        if (threadIdx.x % WARP == 0)
            bins[b] = own;
    }
    __syncthreads();
}

/* bins: weights, or numbers, of the coarse bins (coarse < 0) or of the divisions of one. */
static __device__ void histogram(const struct row *row, int coarse, bool count, double *bins)
{
    float(*columns)[THREADS] = (float(*)[THREADS])row->shared;

    __syncthreads();
    for (int b = 0; b < BINS; b++)
        columns[b][threadIdx.x] = 0;
    for_each_logit<4>(row->logits, row->vocab_size, [&](float logit, int id) {
        int division = division_of(row->ruler, logit), bin = division / BINS;

        (void)id;
        if (coarse < 0 || bin == coarse)
            columns[coarse < 0 ? bin : division % BINS][threadIdx.x] +=
                count ? 1 : row_weight(row, logit);
    });
    sum_columns(row, bins);
}

/* The bin at whose end the running sum reaches target, or the last; *sum becomes that before it. */
static __device__ int bin_reached(const double *bins, double target, double *sum)
{
    int b = 0;

    for (; b < BINS - 1 && *sum + bins[b] < target; b++)
        *sum += bins[b];
    return b;
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

/*
 * The first place of the row's list [0, n) at which the running sum of the weights reaches target,
 * or n - 1, and the sum to there.
 */
static __device__ int find_reached(const struct row *row, int n, double target, double *out_sum)
{
    __shared__ double warp_sums[WARPS], found_sum;
    __shared__ int found;
    const uint64_t *list = (const uint64_t *)row->shared;
    int first = (int)threadIdx.x * LIST_PER_THREAD, lane = (int)threadIdx.x % WARP;
    double own = 0, before;
    int at = n - 1;

    for (int i = first; i < first + LIST_PER_THREAD && i < n; i++)
        own += row_weight(row, key_logit(list[i]));
    before = own;
    for (int i = 1; i < WARP; i *= 2) {
        double other = __shfl_up_sync(~0u, before, i);
        before += lane >= i ? other : 0;
    }
    __syncthreads();
    if (lane == WARP - 1)
        warp_sums[threadIdx.x / WARP] = before;
    if (threadIdx.x == 0)
        found = n - 1;
    __syncthreads();
    before -= own;
    for (int w = 0; w < (int)threadIdx.x / WARP; w++)
        before += warp_sums[w];
    for (int i = first; i < first + LIST_PER_THREAD && i < n; i++) {
        before += row_weight(row, key_logit(list[i]));
        if (before >= target) {
            at = i;
            break;
        }
    }
    atomicMin(&found, at);
    __syncthreads();
    if (found / LIST_PER_THREAD == (int)threadIdx.x)
        found_sum = before;
    __syncthreads();
    *out_sum = found_sum;
    return found;
}

/*
 * Lists the tokens of the divisions first to last and sorts them. Their number, which may be more
 * than LIST_SIZE: then there is no list.
 */
static __device__ int list_divisions(const struct row *row, int first, int last)
{
    __shared__ int len;
    uint64_t *list = (uint64_t *)row->shared;
    int n = 1;

    __syncthreads();
    if (threadIdx.x == 0)
        len = 0;
    __syncthreads();
    for_each_logit<4>(row->logits, row->vocab_size, [&](float logit, int id) {
        int division = division_of(row->ruler, logit);

        if (division >= first && division <= last) {
            int at = atomicAdd(&len, 1);

            if (at < LIST_SIZE)
                list[at] = key_of(logit, id);
        }
    });
    __syncthreads();
    if (len > LIST_SIZE)
        return len;
    while (n < len)
        n *= 2;
    for (int i = len + (int)threadIdx.x; i < n; i += THREADS)
        list[i] = 0;
    sort_list(list, n);
    return len;
}

/* The key at which the prefix reaches target; coarse: the coarse histogram. */
static __device__ uint64_t find_prefix(const struct row *row, const double *coarse, double target,
                                       bool count, double *out_sum)
{
    __shared__ double fine[BINS];
    const uint64_t *list = (const uint64_t *)row->shared;
    double sum = 0;
    int bin = bin_reached(coarse, target, &sum), division, len, place;

    histogram(row, bin, count, fine);
    division = bin * BINS + bin_reached(fine, target, &sum);
    len = list_divisions(row, division, division);
    if (len == 0 || len > LIST_SIZE)
        return search_prefix(row, target, count, out_sum);
    if (count) {
        place = min(len, (int)(target - sum)) - 1;
        *out_sum = sum + place + 1;
    } else {
        place = find_reached(row, len, target - sum, out_sum);
        *out_sum += sum;
    }
    return list[place];
}

/* The least key that a token may have with min_p. */
static __device__ uint64_t least_weight_key(const struct row *row, float min_p)
{
    uint64_t low = 0, high = row->top;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (row_weight(row, key_logit(middle)) < min_p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Any distribution, prefix by prefix. coarse: counts where top_k is on, else weights. */
static __device__ int draw_by_prefixes(const struct row *row, double *coarse,
                                       const struct row_params *p)
{
    uint64_t least = 0, key;
    double total = 0;

    if (p->top_k > 0) {
        least = find_prefix(row, coarse, p->top_k, true, &total);
        total = prefix_sum(row, least, false);
        histogram(row, -1, false, coarse);
    } else {
        for (int b = 0; b < BINS; b++)
            total += coarse[b];
    }
    if (p->top_p < 1) {
        key = find_prefix(row, coarse, (double)p->top_p * total, false, &total);
        least = key > least ? key : least;
    }
    if (p->min_p > 0) {
        key = least_weight_key(row, p->min_p);
        if (key > least) {
            least = key;
            total = prefix_sum(row, least, false);
        }
    }
    key = find_prefix(row, coarse, (double)p->u * total, false, &total);
    return key_id(key > least ? key : least);
}

/* Of a sorted list that holds all that can be drawn. total: of all weights, where top_k is off. */
static __device__ int draw_from_list(const struct row *row, int n, double total,
                                     const struct row_params *p)
{
    const uint64_t *list = (const uint64_t *)row->shared;
    double ignored;

    if (p->top_k > 0) {
        n = p->top_k < n ? p->top_k : n;
        find_reached(row, n, INFINITY, &total);
    }
    if (p->top_p < 1)
        n = 1 + find_reached(row, n, (double)p->top_p * total, &total);
    if (p->min_p > 0) {
        int kept = 0;

        for (int i = (int)threadIdx.x; i < n; i += THREADS)
            kept += row_weight(row, key_logit(list[i])) >= p->min_p;
        kept = (int)block_sum_double(kept);
        n = kept > 1 ? kept : 1;
        find_reached(row, n, INFINITY, &total);
    }
    return key_id(list[find_reached(row, n, (double)p->u * total, &ignored)]);
}

/* The last coarse bin that a list needs, or BINS where a list would surely be too long. */
static __device__ int last_bin(const struct row *row, const double *coarse, double total,
                               const struct row_params *p)
{
    double sum = 0, number = 0;
    int last;

    if (p->top_k > 0) {
        last = bin_reached(coarse, p->top_k, &sum);
        return sum + coarse[last] > LIST_SIZE ? BINS : last;
    }
    if (p->min_p > 0 && p->top_p >= 1) /* its total needs all that it keeps */
        last = min(bin_of(row->ruler, row->max + logf(p->min_p) * row->temperature) + 1, BINS - 1);
    else /* with a margin for sums in another order */
        last = bin_reached(coarse, (p->top_p < 1 ? p->top_p : p->u) * total * 1.00001, &sum);
    for (int b = 1; b <= last; b++) /* no token of a bin weighs more than at its upper end */
        number += coarse[b] / exp((row->ruler.top - row->max) / row->temperature -
                                  (float)b / BINS_PER_TEMPERATURE);
    return number > 2 * LIST_SIZE ? BINS : last;
}

/* Steps 1 to 3 for a row that draws. */
static __device__ int draw(struct row *row, const struct row_params *p)
{
    __shared__ double coarse[BINS];
    float(*columns)[THREADS] = (float(*)[THREADS])row->shared;
    bool count = p->top_k > 0, has_nan = false;
    float top = -INFINITY, max = -INFINITY, temperature = p->temperature;
    int id = -1, last, len;
    struct row_stats stats;
    double total = 0;

    /* about the largest: of a first part of the row */
#pragma unroll 16
    for (int i = 0; i < 16; i++)
        top = fmaxf(top, row->logits[min(i * THREADS + (int)threadIdx.x, row->vocab_size - 1)]);
    top = key_logit(block_max_key(key_of(top, 0)));
    row->temperature = temperature;
    row->ruler = {top, BINS_PER_TEMPERATURE * BINS / temperature};
    for (int b = 0; b < BINS; b++)
        columns[b][threadIdx.x] = 0;
    for_each_logit<4>(row->logits, row->vocab_size, [&](float logit, int i) {
        has_nan |= isnan(logit);
        if (logit > max || id < 0) {
            max = logit;
            id = i;
        }
        columns[bin_of(row->ruler, logit)][threadIdx.x] +=
            count ? 1 : __expf((logit - top) / temperature);
    });
    stats = join_stats(row->logits, row->vocab_size, max, id, has_nan);
    if (stats.id == RESULT_NAN)
        return RESULT_NAN;
    row->max = stats.max;
    row->top = key_of(stats.max, stats.id);
    if (stats.max - top < 20 * temperature) {
        sum_columns(row, coarse);
        if (!count && threadIdx.x < BINS) /* relative to the largest from here on */
            coarse[threadIdx.x] *= exp((double)(top - stats.max) / (double)temperature);
        __syncthreads();
    } else { /* the first part said nothing about the rest */
        row->ruler.top = stats.max;
        histogram(row, -1, count, coarse);
    }
    for (int b = 0; b < BINS; b++)
        total += coarse[b];
    last = last_bin(row, coarse, total, p);
    len = last < BINS ? list_divisions(row, 0, last * BINS + BINS - 1) : 0;
    if (last == BINS || len > LIST_SIZE)
        return draw_by_prefixes(row, coarse, p);
    return draw_from_list(row, len, total, p);
}

static __device__ int largest(const float *logits, int vocab_size)
{
    float max = -INFINITY;
    bool has_nan = false;
    int id = -1;

    for_each_logit<8>(logits, vocab_size, [&](float logit, int i) {
        has_nan |= isnan(logit);
        if (logit > max || id < 0) {
            max = logit;
            id = i;
        }
    });
    return join_stats(logits, vocab_size, max, id, has_nan).id;
}

static __global__ void __launch_bounds__(THREADS, 2) sample_kernel(struct sample_args a)
{
    extern __shared__ __align__(16) unsigned char shared[];
    const struct step_inputs *in = &a.inputs;
    size_t row = blockIdx.x;
    const float *logits = a.logits + row * (size_t)a.vocab_size;
    struct row_params p;
    int id;

    pdl_launch();
    pdl_wait();
    if (a.num_rows == 0) { /* no row draws, but the step ends */
        if (threadIdx.x == 0)
            ++*a.step_counter;
        return;
    }
    p.temperature = in->temperature[row];
    p.top_p = in->top_p[row];
    p.min_p = in->min_p[row];
    p.top_k = in->top_k[row] < a.vocab_size ? in->top_k[row] : 0;
    if (p.temperature > 0 && in->top_k[row] != 1) {
        p.u = uniform(in->seed[row], in->sample_pos[row]);
        struct row r = {logits, a.vocab_size, 0, 0, 0, {0, 0}, shared};

        id = draw(&r, &p);
    } else {
        id = largest(logits, a.vocab_size);
    }
    if (threadIdx.x != 0)
        return;
    a.results[row] = id;
    a.token_pool[(size_t)in->sample_table_idx[row] * (size_t)a.token_pool_stride +
                 (size_t)in->sample_pos[row]] = id == RESULT_NAN ? 0 : id;
    if (row == 0)
        ++*a.step_counter;
}

extern "C" size_t sample_cuda_workspace(const struct ops_limits *limits)
{
    (void)limits;
    return 0;
}

extern "C" struct status sample_cuda(struct stream *stream, const struct sample_args *a)
{
    cudaError_t error;

    error = cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 SHARED_BYTES);
    if (!error)
        error = launch(stream, sample_kernel, dim3((unsigned)(a->num_rows ? a->num_rows : 1)),
                       THREADS, SHARED_BYTES, *a);
    return cuda_launched(stream, error, "sample");
}
