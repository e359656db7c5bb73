/*
 * plain_sample.c - chooses a token for each row as ops.h defines it: all tokens are sorted, and
 * each filter shortens the list. Without filters nothing is sorted.
 */
#include <math.h>
#include <stdbool.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/order.h"
#include "kernels/ops.h"

/* The id of the largest logit, or RESULT_NAN where there is a NaN or nothing finite. */
static int32_t find_largest(const float *logits, int32_t vocab_size)
{
    int32_t best = 0;
    bool has_finite = false;

    for (int32_t i = 0; i < vocab_size; i++) {
        if (isnan(logits[i]))
            return RESULT_NAN;
        has_finite |= isfinite(logits[i]) != 0;
        if (logits[i] > logits[best])
            best = i;
    }
    return has_finite ? best : RESULT_NAN;
}

/* The token's weight: its probability but for a factor common to all. The largest has 1. */
static double weight_of(float logit, float max, float temperature)
{
    return logit == max ? 1 : (double)expf((logit - max) / temperature);
}

static double sum_of(const float *logits, const uint64_t *keys, int32_t n, float max,
                     float temperature)
{
    double sum = 0;

    for (int32_t i = 0; i < n; i++)
        sum += weight_of(logits[order_id(keys[i])], max, temperature);
    return sum;
}

/* The first of n keys at which the running sum reaches target, or the last. */
static int32_t find_reached(const float *logits, const uint64_t *keys, int32_t n, float max,
                            float temperature, double target)
{
    double sum = 0;

    for (int32_t i = 0; i < n; i++) {
        sum += weight_of(logits[order_id(keys[i])], max, temperature);
        if (sum >= target)
            return i;
    }
    return n - 1;
}

/* The first id at which the running sum exceeds u times the total: a draw without filters. */
static int32_t draw_by_id(const float *logits, int32_t vocab_size, float max, float temperature,
                          double u)
{
    double total = 0, sum = 0;
    int32_t last = 0;

    for (int32_t i = 0; i < vocab_size; i++)
        total += weight_of(logits[i], max, temperature);
    for (int32_t i = 0; i < vocab_size && !(sum > u * total); i++) {
        double weight = weight_of(logits[i], max, temperature);
        sum += weight;
        last = weight > 0 ? i : last;
    }
    return last;
}

static int32_t draw(const struct sample_args *a, size_t row, int32_t largest)
{
    const struct step_inputs *inputs = &a->inputs;
    const float *logits = a->logits + row * (size_t)a->vocab_size;
    uint64_t *keys = a->workspace;
    float temperature = inputs->temperature[row], max = logits[largest];
    double u = (double)sample_uniform(inputs->seed[row], inputs->sample_pos[row]);
    int32_t n = a->vocab_size;

    if (sample_is_unfiltered(inputs, row, n))
        return draw_by_id(logits, n, max, temperature, u);
    for (int32_t i = 0; i < n; i++)
        keys[i] = order_key(logits[i], i);
    order_sort(keys, (size_t)n);
    if (inputs->top_k[row] > 0 && inputs->top_k[row] < n)
        n = inputs->top_k[row];
    if (inputs->top_p[row] < 1) {
        double target = (double)inputs->top_p[row] * sum_of(logits, keys, n, max, temperature);
        n = find_reached(logits, keys, n, max, temperature, target) + 1;
    }
    while (n > 1 &&
           weight_of(logits[order_id(keys[n - 1])], max, temperature) < (double)inputs->min_p[row])
        n--;
    double target = u * sum_of(logits, keys, n, max, temperature);
    return order_id(keys[find_reached(logits, keys, n, max, temperature, target)]);
}

void plain_sample(struct stream *stream, const void *args)
{
    const struct sample_args *a = args;
    const struct step_inputs *inputs = &a->inputs;

    (void)stream;
    for (size_t row = 0; row < (size_t)a->num_rows; row++) {
        int32_t id = find_largest(a->logits + row * (size_t)a->vocab_size, a->vocab_size);
        a->results[row] = id;
        if (id != RESULT_NAN && inputs->temperature[row] > 0 && inputs->top_k[row] != 1)
            a->results[row] = draw(a, row, id);
        size_t table = (size_t)inputs->sample_table_idx[row] * (size_t)a->token_pool_stride;
        a->token_pool[table + (size_t)inputs->sample_pos[row]] =
            id == RESULT_NAN ? 0 : a->results[row];
    }
    ++*a->step_counter;
}
