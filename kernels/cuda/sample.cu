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
 * A flat distribution has too many tokens in those bins; then a binary search over keys, a read
 * for each bit, finds each prefix exactly. A greedy row ends after step 1.
 */
#include "kernels/cuda/cuda_util.cuh"

enum {
    THREADS = 512,
    WARPS = THREADS / WARP,
    BINS = 32,
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
template <typename F>
static __device__ __forceinline__ void for_each_logit(const float *logits, int vocab_size, F visit)
{
    enum { AHEAD = 4 };
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

        for_each_logit(logits, vocab_size, [&](float logit, int i) {
            (void)i;
            own |= isfinite(logit);
        });
        has_finite = __syncthreads_or(own);
    }
    if (__syncthreads_or(has_nan) || !has_finite)
        stats.id = RESULT_NAN;
    return stats;
}

static __device__ __forceinline__ int bin_of(float logit, float top, float inverse_width)
{
    float bin = (top - logit) * inverse_width;

    return bin < 0 ? 0 : bin < BINS - 1 ? (int)bin : BINS - 1;
}

/* The weights, or the number, of all tokens whose key is at least least. */
static __device__ double prefix_sum(const float *logits, int vocab_size, uint64_t least, float max,
                                    float temperature, bool count)
{
    double sum = 0;

    for_each_logit(logits, vocab_size, [&](float logit, int id) {
        if (key_of(logit, id) >= least)
            sum += count ? 1 : weight_of(logit, max, temperature);
    });
    return block_sum_double(sum);
}

/* The largest key >= floor whose prefix reaches target: by binary search. */
static __device__ uint64_t search_prefix(const float *logits, int vocab_size, uint64_t floor,
                                         uint64_t top, double target, float max, float temperature,
                                         bool count)
{
    uint64_t low = floor, high = top; /* low reaches it, or is all there is */

    while (low < high) {
        uint64_t middle = low + (high - low) / 2 + (high - low) % 2;

        if (prefix_sum(logits, vocab_size, middle, max, temperature, count) >= target)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Any distribution: exact, and slow. */
static __device__ int draw_by_search(const float *logits, int vocab_size, struct row_stats stats,
                                     const struct row_params *p)
{
    uint64_t top = key_of(stats.max, stats.id), least = 0;
    float max = stats.max, temperature = p->temperature;
    double total;

    if (p->top_k > 0)
        least = search_prefix(logits, vocab_size, 0, top, p->top_k, max, temperature, true);
    if (p->top_p < 1) {
        total = prefix_sum(logits, vocab_size, least, max, temperature, false);
        least = search_prefix(logits, vocab_size, least, top, (double)p->top_p * total, max,
                              temperature, false);
    }
    if (p->min_p > 0) { /* a prefix by weight: the least key that is not below */
        uint64_t high = top;

        while (least < high) {
            uint64_t middle = least + (high - least) / 2;

            if (weight_of(key_logit(middle), max, temperature) < p->min_p)
                least = middle + 1;
            else
                high = middle;
        }
    }
    total = prefix_sum(logits, vocab_size, least, max, temperature, false);
    return key_id(search_prefix(logits, vocab_size, least, top, (double)p->u * total, max,
                                temperature, false));
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
 * The first place of list[0..n) at which the running sum of the weights reaches target, or n - 1,
 * and the sum to there.
 */
static __device__ int find_reached(const uint64_t *list, int n, double target, float max,
                                   float temperature, double *out_sum)
{
    __shared__ double warp_sums[WARPS], found_sum;
    __shared__ int found;
    int first = (int)threadIdx.x * LIST_PER_THREAD, lane = (int)threadIdx.x % WARP;
    double own = 0, before;
    int at = n - 1;

    for (int i = first; i < first + LIST_PER_THREAD && i < n; i++)
        own += weight_of(key_logit(list[i]), max, temperature);
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
        before += weight_of(key_logit(list[i]), max, temperature);
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

/* Of a sorted list that holds all that can be drawn. total: of all weights, where top_k is off. */
static __device__ int draw_from_list(const uint64_t *list, int n, double total, float max,
                                     const struct row_params *p)
{
    double ignored;

    if (p->top_k > 0) {
        n = p->top_k < n ? p->top_k : n;
        find_reached(list, n, INFINITY, max, p->temperature, &total);
    }
    if (p->top_p < 1)
        n = 1 + find_reached(list, n, (double)p->top_p * total, max, p->temperature, &total);
    if (p->min_p > 0) {
        int kept = 0;

        for (int i = (int)threadIdx.x; i < n; i += THREADS)
            kept += weight_of(key_logit(list[i]), max, p->temperature) >= p->min_p;
        kept = (int)block_sum_double(kept);
        if (kept < n) {
            n = kept > 1 ? kept : 1;
            find_reached(list, n, INFINITY, max, p->temperature, &total);
        }
    }
    return key_id(list[find_reached(list, n, (double)p->u * total, max, p->temperature, &ignored)]);
}

/* Steps 1 to 3 for a row that draws. */
static __device__ int draw(const float *logits, int vocab_size, const struct row_params *p,
                           unsigned char *shared)
{
    __shared__ double bins[BINS];
    __shared__ int list_len;
    float(*columns)[THREADS] = (float(*)[THREADS])shared;
    uint64_t *list = (uint64_t *)shared;
    bool count = p->top_k > 0;
    float temperature = p->temperature, inverse_width = 2 / temperature, top = -INFINITY;
    float max = -INFINITY;
    bool has_nan = false;
    int id = -1, last = 0, n = 1;
    struct row_stats stats;
    double total = 0, target, sum;

    /* about the largest: of a first part of the row */
    for (int i = (int)threadIdx.x; i < vocab_size && i < 16 * THREADS; i += THREADS)
        top = fmaxf(top, logits[i]);
    top = key_logit(block_max_key(key_of(top, 0)));
    for (int b = 0; b < BINS; b++)
        columns[b][threadIdx.x] = 0;
    for_each_logit(logits, vocab_size, [&](float logit, int i) {
        has_nan |= isnan(logit);
        if (logit > max || id < 0) {
            max = logit;
            id = i;
        }
        columns[bin_of(logit, top, inverse_width)][threadIdx.x] +=
            count ? 1 : __expf((logit - top) / temperature);
    });
    stats = join_stats(logits, vocab_size, max, id, has_nan);
    if (stats.id == RESULT_NAN)
        return RESULT_NAN;
    for (int b = (int)threadIdx.x / WARP; b < BINS; b += WARPS) {
        double own = 0;

        for (int i = (int)threadIdx.x % WARP; i < THREADS; i += WARP)
            own += columns[b][i];
        for (int i = WARP / 2; i > 0; i /= 2)
            own += __shfl_xor_sync(~0u, own, i);
        if (threadIdx.x % WARP == 0)
            bins[b] = own;
    }
    if (threadIdx.x == 0)
        list_len = 0;
    __syncthreads();
    for (int b = 0; b < BINS; b++)
        total += bins[b];
    /* The bins that reach what is wanted, with a margin for sums in another order. */
    target = count ? p->top_k : (p->top_p < 1 ? (double)p->top_p : (double)p->u) * total * 1.00001;
    for (last = 0, sum = bins[0]; last < BINS - 1 && sum < target; last++)
        sum += bins[last + 1];
    if (p->min_p > 0 && !count && p->top_p >= 1) { /* its total needs all that it keeps */
        int least = bin_of(stats.max + logf(p->min_p) * temperature, top, inverse_width);

        last = least + 1 < BINS - 1 ? least + 1 : BINS - 1;
    }
    if (!(stats.max - top < 20 * temperature)) /* weights relative to top say nothing */
        return draw_by_search(logits, vocab_size, stats, p);
    for_each_logit(logits, vocab_size, [&](float logit, int i) {
        if (bin_of(logit, top, inverse_width) <= last) {
            int place = atomicAdd(&list_len, 1);

            if (place < LIST_SIZE)
                list[place] = key_of(logit, i);
        }
    });
    __syncthreads();
    if (list_len > LIST_SIZE || (last == BINS - 1 && list_len < vocab_size))
        return draw_by_search(logits, vocab_size, stats, p);
    while (n < list_len)
        n *= 2;
    for (int i = list_len + (int)threadIdx.x; i < n; i += THREADS)
        list[i] = 0;
    sort_list(list, n);
    /* from weights relative to top to weights relative to the largest */
    total *= exp((double)(top - stats.max) / (double)temperature);
    return draw_from_list(list, list_len, total, stats.max, p);
}

static __device__ int largest(const float *logits, int vocab_size)
{
    float max = -INFINITY;
    bool has_nan = false;
    int id = -1;

    for_each_logit(logits, vocab_size, [&](float logit, int i) {
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

    pdl_wait();
    pdl_launch();
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
        id = draw(logits, a.vocab_size, &p, shared);
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
