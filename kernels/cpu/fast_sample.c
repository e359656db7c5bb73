/*
 * fast_sample.c - chooses a token for each row, without sorting more than is looked at.
 *
 * All filters of ops.h keep a first part of one order: descending logit, ascending id. So a row is
 * cut into buckets by how far a logit lies below the largest, d = (max - logit) / temperature:
 *
 *     bucket 0: d < 1/32    1: d < 2/32    ...    NUM_BUCKETS - 1: all with d >= TAIL
 *
 * of which only the number of tokens and the sum of weights e^-d is known. A walk in that order,
 * until a sum or a number is reached, takes whole buckets and sorts only the one it ends in. Tokens
 * of the tail are counted and summed by vectors and looked at one by one only when a walk ends
 * there.
 *
 * Without filters the order is by id: the sums of segments say in which of them the draw ends.
 */
#include "kernels/cpu/fast_sample.h"
#include "kernels/cpu/fast.h"
#include "kernels/cpu/order.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/simd.h"
#include "kernels/ops.h"

enum {
    TAIL = 16,
    BUCKETS_PER_UNIT = 32,
    NUM_BUCKETS = TAIL * BUCKETS_PER_UNIT + 1,
    NO_BUCKET = -1,
    SEGMENT = 32 * VF_LANES, /* tokens */
};

struct candidate {
    int32_t id;
    float d;
};

struct row {
    const float *logits;
    int32_t vocab_size;
    int32_t largest; /* the first token of the order */
    float max, temperature;
    struct candidate *candidates; /* [vocab_size]: all tokens with d < TAIL, ascending id */
    int32_t num_candidates;
    uint64_t *keys; /* [vocab_size]: the sorted bucket */
    int32_t sorted_bucket;
    int32_t counts[NUM_BUCKETS];
    double sums[NUM_BUCKETS];
};

_Static_assert(sizeof(struct candidate) + sizeof(uint64_t) == SAMPLE_TOKEN_SIZE, "workspace");

/* Where a walk ended: so many tokens, their sum, the last of them. */
struct place {
    int32_t count;
    double sum;
    int32_t id;
};

SIMD_INLINE vf load_logits(const float *logits, int32_t i, int32_t vocab_size)
{
    vf x = vf_set1(-INFINITY);
    int32_t rest = vocab_size - i;

    if (rest >= VF_LANES)
        return vf_load(logits + i);
    for (int32_t lane = 0; lane < rest; lane++)
        x[lane] = logits[i + lane];
    return x;
}

/* The lowest id of the largest logit, or RESULT_NAN where there is a NaN or nothing finite. */
static int32_t find_largest(const float *logits, int32_t vocab_size)
{
    vf max = vf_set1(-INFINITY);
    vi is_nan = vi_set1(0), is_finite = vi_set1(0);

    for (int32_t i = 0; i < vocab_size; i += VF_LANES) {
        vf x = load_logits(logits, i, vocab_size);
        is_nan |= (vi)(x != x);
        is_finite |= (vi)(x - x == vf_set1(0));
        max = vf_max(x, max);
    }
    if (vi_bits(is_nan) || !vi_bits(is_finite))
        return RESULT_NAN;
    float largest = vf_largest(max);
    for (int32_t i = 0;; i += VF_LANES) {
        uint32_t bits = vi_bits((vi)(load_logits(logits, i, vocab_size) == vf_set1(largest)));
        if (bits)
            return i + __builtin_ctz(bits);
    }
}

SIMD_INLINE vf distance(const struct row *row, vf logits)
{
    vf d = (vf_set1(row->max) - logits) / vf_set1(row->temperature);

    return vf_select((vi)(logits == vf_set1(row->max)), vf_set1(0), d); /* infinite ones too */
}

static float distance_of(const struct row *row, float logit)
{
    return distance(row, vf_set1(logit))[0];
}

static float weight_of(float d)
{
    return vf_exp(vf_set1(-d))[0];
}

static int32_t bucket_of(float d)
{
    return d < TAIL ? (int32_t)(d * BUCKETS_PER_UNIT) : NUM_BUCKETS - 1;
}

/* Counts and sums the buckets, and collects the candidates. */
static void fill_buckets(struct row *row)
{
    vf tail = vf_set1(0);

    memset(row->counts, 0, sizeof(row->counts));
    memset(row->sums, 0, sizeof(row->sums));
    row->num_candidates = 0;
    row->sorted_bucket = NO_BUCKET;
    for (int32_t i = 0; i < row->vocab_size; i += VF_LANES) {
        vf d = distance(row, load_logits(row->logits, i, row->vocab_size));
        vf weights = vf_exp(-d);
        vi is_near = (vi)(d < vf_set1(TAIL));
        uint32_t bits = vi_bits(is_near);
        tail += vf_select(is_near, vf_set1(0), weights);
        for (; bits; bits &= bits - 1) {
            int lane = __builtin_ctz(bits);
            int32_t bucket = bucket_of(d[lane]);
            row->candidates[row->num_candidates++] =
                (struct candidate){.id = i + lane, .d = d[lane]};
            row->counts[bucket]++;
            row->sums[bucket] += (double)weights[lane];
        }
    }
    row->counts[NUM_BUCKETS - 1] = row->vocab_size - row->num_candidates;
    row->sums[NUM_BUCKETS - 1] = (double)vf_sum(tail);
}

static void sort_bucket(struct row *row, int32_t bucket)
{
    size_t n = 0;

    if (row->sorted_bucket == bucket)
        return;
    row->sorted_bucket = bucket;
    for (int32_t i = 0; i < row->num_candidates && bucket < NUM_BUCKETS - 1; i++) {
        int32_t id = row->candidates[i].id;
        if (bucket_of(row->candidates[i].d) == bucket)
            row->keys[n++] = order_key(row->logits[id], id);
    }
    for (int32_t id = 0; id < row->vocab_size && bucket == NUM_BUCKETS - 1; id++) {
        if (!(distance_of(row, row->logits[id]) < TAIL))
            row->keys[n++] = order_key(row->logits[id], id);
    }
    order_sort(row->keys, n);
}

/* The first place in the order where the sum reaches target, or where limit tokens are passed. The
 * token is known only where the sum is reached. */
static struct place walk(struct row *row, int32_t limit, double target)
{
    struct place place = {.id = row->largest};

    for (int32_t bucket = 0; bucket < NUM_BUCKETS && place.count < limit; bucket++) {
        double end_sum = place.sum + row->sums[bucket];
        if (row->counts[bucket] == 0)
            continue;
        if (end_sum < target && place.count + row->counts[bucket] <= limit) {
            place.count += row->counts[bucket];
            place.sum = end_sum;
            continue;
        }
        sort_bucket(row, bucket);
        for (int32_t i = 0; i < row->counts[bucket]; i++) {
            place.id = order_id(row->keys[i]);
            place.sum += (double)weight_of(distance_of(row, row->logits[place.id]));
            place.count++;
            if (place.sum >= target || place.count == limit)
                return place;
        }
        place.sum = end_sum; /* the same but for rounding */
    }
    return place;
}

/* How many tokens have at least that weight; the largest has 1. */
static int32_t count_at_least(struct row *row, float weight)
{
    int32_t count = 0;

    for (int32_t i = 0; i < row->num_candidates; i++)
        count += weight_of(row->candidates[i].d) >= weight;
    if (weight_of(TAIL) < weight)
        return count;
    for (int32_t id = 0; id < row->vocab_size; id++) {
        float d = distance_of(row, row->logits[id]);
        count += !(d < TAIL) && weight_of(d) >= weight;
    }
    return count;
}

/* The sums of all segments, and of all of them. */
static double sum_segments(const struct row *row, double *sums)
{
    double total = 0;

    for (int32_t first = 0; first < row->vocab_size; first += SEGMENT) {
        vf sum = vf_set1(0);

        for (int32_t i = first; i < first + SEGMENT && i < row->vocab_size; i += VF_LANES)
            sum += vf_exp(-distance(row, load_logits(row->logits, i, row->vocab_size)));
        sums[first / SEGMENT] = (double)vf_sum(sum);
        total += sums[first / SEGMENT];
    }
    return total;
}

/* The first id at which the running sum exceeds u times the total: a draw without filters. */
static int32_t draw_by_id(struct row *row, double u)
{
    double *sums = (double *)row->keys;
    double target = u * sum_segments(row, sums), sum = 0;
    int32_t first = 0, last = row->largest, end;

    while (first + SEGMENT < row->vocab_size && !(sum + sums[first / SEGMENT] > target)) {
        sum += sums[first / SEGMENT];
        first += SEGMENT;
    }
    end = first + SEGMENT < row->vocab_size ? first + SEGMENT : row->vocab_size;
    for (int32_t id = first; id < end && !(sum > target); id++) {
        float weight = weight_of(distance_of(row, row->logits[id]));
        sum += (double)weight;
        last = weight > 0 ? id : last;
    }
    return last;
}

static int32_t draw(const struct step_inputs *inputs, size_t index, struct row *row)
{
    float top_p = inputs->top_p[index], min_p = inputs->min_p[index];
    int32_t top_k = inputs->top_k[index], n = row->vocab_size;
    double u = (double)sample_uniform(inputs->seed[index], inputs->sample_pos[index]);

    if (sample_is_unfiltered(inputs, index, n))
        return draw_by_id(row, u);
    fill_buckets(row);
    if (top_k > 0 && top_k < n)
        n = top_k;
    if (top_p < 1)
        n = walk(row, n, (double)top_p * walk(row, n, (double)INFINITY).sum).count;
    if (min_p > 0) {
        int32_t count = count_at_least(row, min_p);
        n = count < 1 ? 1 : count < n ? count : n;
    }
    return walk(row, n, u * walk(row, n, (double)INFINITY).sum).id;
}

struct job {
    const struct sample_args *args;
};

static void run_row(void *arg, int32_t index, int32_t thread)
{
    const struct sample_args *a = ((const struct job *)arg)->args;
    const struct step_inputs *inputs = &a->inputs;
    size_t vocab_size = (size_t)a->vocab_size, i = (size_t)index;
    const float *logits = a->logits + i * vocab_size;
    char *work = (char *)a->workspace + (size_t)thread * vocab_size * SAMPLE_TOKEN_SIZE;
    int32_t id = find_largest(logits, a->vocab_size);

    if (id != RESULT_NAN && inputs->temperature[i] > 0 && inputs->top_k[i] != 1) {
        struct row row = {.logits = logits,
                          .vocab_size = a->vocab_size,
                          .largest = id,
                          .max = logits[id],
                          .temperature = inputs->temperature[i],
                          .keys = (void *)work,
                          .candidates = (void *)(work + vocab_size * sizeof(uint64_t))};
        id = draw(inputs, i, &row);
    }
    a->results[i] = id;
}

void SIMD_NAME(sample)(struct stream *stream, const void *args)
{
    const struct sample_args *a = args;
    struct job job = {.args = a};

    pool_run(cpu_stream_pool(stream), a->num_rows, run_row, &job);
    for (size_t i = 0; i < (size_t)a->num_rows; i++) { /* rows may share the dummy's place */
        size_t table = (size_t)a->inputs.sample_table_idx[i] * (size_t)a->token_pool_stride;
        a->token_pool[table + (size_t)a->inputs.sample_pos[i]] =
            a->results[i] == RESULT_NAN ? 0 : a->results[i];
    }
    ++*a->step_counter;
}
