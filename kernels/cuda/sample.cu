/*
 * sample.cu - chooses each row's token from its logits and ends the step.
 *
 * Tokens stand in one order: falling logit, then rising id; a 64-bit key holds both. Every filter
 * and the draw itself is a prefix of that order: the shortest whose count, or whose sum of weights
 * exp((logit - max) / temperature), reaches a target. So the blocks of a cluster take a row and
 *   1. read the logits once: the largest, NaN, and for rows that draw a histogram over BINS equal
 *      ranges of the logit, down from about the largest: of counts where top_k is on, of weights
 *      otherwise. Each thread has a column of its own: no atomics, and sums in a fixed order;
 *   2. read them again, as a rule only the one batch in six in which step 1 saw large ones, and
 * list the tokens of the bins that can matter: a few hundred;
 *   3. sort the list and apply the filters and the draw to running sums.
 * A flat distribution has too many tokens in those bins. Then each prefix is found by itself: the
 * bin where it ends, a finer histogram of that bin, a sorted list of one of its divisions; and
 * where even that is too full (many equal logits), a binary search over keys, a read for each bit.
 * Greedy rows, and those without filters, need no order and are sample_direct.cu's.
 *
 * A cluster has as many blocks, up to 8, as leave all rows under way
 * at once: the fewer the rows, the sooner each is done.
 */
#include "kernels/cuda/sample_row.cuh"

/* The bin at whose end the running sum reaches target, or the last; *sum becomes that before it. */
static __device__ int bin_reached(const double *bins, double target, double *sum)
{
    int b = 0;

    for (; b < BINS - 1 && *sum + bins[b] < target; b++)
        *sum += bins[b];
    return b;
}

/*
 * The first place of the row's list [0, n) at which the running sum of the weights reaches target,
 * or n - 1, and the sum to there.
 */
static __device__ int find_reached(const struct row *row, int n, double target, double *out_sum)
{
    __shared__ double warp_sums[WARPS], found_sum;
    __shared__ int found;
    const uint64_t *list = shared_list();
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

/* The key at which the prefix reaches target; coarse: the coarse histogram. */
static __device__ uint64_t find_prefix(struct row *row, const double *coarse, double target,
                                       bool count, double *out_sum)
{
    __shared__ double fine[BINS];
    const uint64_t *list = shared_list();
    double sum = 0;
    int bin = bin_reached(coarse, target, &sum), division, len, place;
    uint64_t key;

    histogram(row, bin, count, fine);
    division = bin * BINS + bin_reached(fine, target, &sum);
    len = list_divisions(row, division, division, ~0u);
    if (len == 0 || len > LIST_SIZE)
        return search_prefix(row, fmax(target, 1e-300), count, out_sum);
    if (row->rank == 0) {
        double reached;

        if (count) {
            place = min(len, (int)(target - sum)) - 1;
            reached = place + 1;
        } else {
            place = find_reached(row, len, target - sum, &reached);
        }
        if (threadIdx.x == 0) {
            row->meeting->values[row->turn][0] = list[place];
            row->meeting->values[row->turn][1] = (uint64_t)__double_as_longlong(sum + reached);
        }
    }
    cluster_sync();
    key = brought(row, 0, 0);
    *out_sum = __longlong_as_double((int64_t)brought(row, 0, 1));
    row->turn ^= 1;
    return key;
}

/* The least key that a token may have with min_p. */
static __device__ uint64_t least_weight_key(struct row *row, float min_p)
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
static __device__ int draw_by_prefixes(struct row *row, double *coarse, const struct row_params *p)
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
static __device__ int draw_from_list(struct row *row, int n, double total,
                                     const struct row_params *p)
{
    const uint64_t *list = shared_list();
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
static __device__ int last_bin(const struct row *row, const double *coarse, double total, float top,
                               const struct row_params *p)
{
    double sum = 0, number = 0;
    int last;

    if (p->top_k > 0) {
        last = bin_reached(coarse, p->top_k, &sum);
        return sum + coarse[last] > LIST_SIZE ? BINS : last;
    }
    if (p->min_p > 0 && p->top_p >= 1) /* its total needs all that it keeps */
        last = min(bin_of(row->ruler, row->max + logf(p->min_p) * p->temperature) + 1, BINS - 1);
    else /* with a margin for sums in another order */
        last = bin_reached(coarse, (p->top_p < 1 ? p->top_p : p->u) * total * 1.00001, &sum);
    for (int b = 1; b <= last; b++) /* no token of a bin weighs more than at its upper end */
        number += coarse[b] / __expf((top - row->max) * row->inverse_temperature -
                                     (float)b / BINS_PER_TEMPERATURE);
    return number > 2 * LIST_SIZE ? BINS : last;
}

/*
 * Step 1 of a row that draws: the largest logit's key but for its id, and the columns. *out_high
 * are this thread's batches with a logit from floor upwards.
 */
template <bool COUNT>
static __device__ uint64_t first_pass(struct row *row, float top, float floor, uint32_t *out_high)
{
    float(*columns)[THREADS] = shared_columns();
    float inverse = row->inverse_temperature, max = -INFINITY;
    struct ruler ruler = row->ruler;
    uint32_t largest_bits = 0; /* of all but the sign, shifted out: a NaN's are beyond infinity's */
    uint32_t high = 0;

    for (int b = 0; b < BINS; b++)
        columns[b][threadIdx.x] = 0;
    for_each_logit<4>(row, ~0u, [&](float logit, int, int batch) {
        largest_bits = umax(largest_bits, __float_as_uint(logit) << 1);
        max = fmaxf(max, logit);
        if (logit >= floor)
            high |= 1u << batch;
        columns[bin_of(ruler, logit)][threadIdx.x] += COUNT ? 1 : __expf((logit - top) * inverse);
    });
    *out_high = high;
    return join_best(row, key_of(max, 0), largest_bits > 0xFF000000u);
}

/* Steps 1 to 3 for a row that draws. Of rank 0; the others may return anything. */
static __device__ int draw(struct row *row, const struct row_params *p, bool *out_alone)
{
    __shared__ double coarse[BINS];
    bool count = p->top_k > 0;
    float top, floor, inverse = 1 / p->temperature;
    uint32_t high = 0;
    int last, len;
    double total = 0;

    row->inverse_temperature = inverse;
    look(row, &top, &floor);
    row->ruler = ruler_of(top, BINS_PER_TEMPERATURE * BINS * inverse);
    row->top = count ? first_pass<true>(row, top, floor, &high)
                     : first_pass<false>(row, top, floor, &high);
    if (row->top == 0)
        return RESULT_NAN;
    row->max = key_logit(row->top);
    if (row->max - top < 20 * p->temperature) {
        sum_columns(row, coarse);
        if (!count && threadIdx.x < BINS) /* relative to the largest from here on */
            coarse[threadIdx.x] *= exp((double)(top - row->max) * (double)inverse);
        __syncthreads();
    } else { /* the first part said nothing about the rest */
        top = row->max;
        row->ruler = ruler_of(top, BINS_PER_TEMPERATURE * BINS * inverse);
        histogram(row, -1, count, coarse);
    }
    for (int b = 0; b < BINS; b++)
        total += coarse[b];
    last = last_bin(row, coarse, total, top, p);
    if (last == BINS)
        return draw_by_prefixes(row, coarse, p);
    last = last * BINS + BINS - 1;
    if (division_of(row->ruler, floor) <= last) /* the list reaches below the floor */
        high = ~0u;
    len = list_divisions(row, 0, last, high);
    if (len > LIST_SIZE)
        return draw_by_prefixes(row, coarse, p);
    *out_alone = true;
    return row->rank == 0 ? draw_from_list(row, len, total, p) : RESULT_NAN;
}

static __global__ void __launch_bounds__(THREADS, 2) sample_kernel(struct sample_args a)
{
    __shared__ struct meeting meeting;
    struct row_params p;
    struct row row;
    bool alone = false; /* rank 0 needs the others no more */
    int id;

    pdl_launch();
    pdl_wait();
    if (blockIdx.x == 0 && threadIdx.x == 0)
        ++*a.step_counter;
    if (a.num_rows == 0) /* no row draws, but the step ends */
        return;
    p = params_of(&a);
    if (p.is_greedy || is_unfiltered(&p))
        return;
    row = row_of(&a, &meeting);
    if (threadIdx.x == 0)
        meeting.list_len = 0;
    id = draw(&row, &p, &alone);
    if (row.rank == 0 && threadIdx.x == 0)
        write_result(&a, id);
    if (!alone)
        cluster_sync(); /* no block goes while another may still read its shared memory */
}

extern "C" size_t sample_cuda_workspace(const struct ops_limits *limits)
{
    (void)limits;
    return 0;
}

extern "C" struct status sample_cuda(struct stream *stream, const struct sample_args *a)
{
    int num_rows = a->num_rows ? a->num_rows : 1, cluster = 8;
    cudaError_t error;
    dim3 grid;

    while (cluster > 1 && num_rows * cluster > 2 * stream->device->num_sms) /* two blocks an SM */
        cluster /= 2;
    if (stream->device->architecture < 90)
        cluster = 1;
    grid = dim3((unsigned)(num_rows * cluster));
    error = sample_direct_launch(stream, a, grid, cluster);
    if (!error)
        error = cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     SHARED_BYTES);
    if (!error)
        error = launch_cluster(stream, sample_kernel, grid, cluster, THREADS, SHARED_BYTES, *a);
    return cuda_launched(stream, error, "sample");
}
