/* rope.c - see rope.h. */
#include "scheduler_proc/rope.h"

#include <math.h>

#include "common/split.h"

static const double pi = 3.14159265358979323846;

static float llama3(const struct rope_config *rope, float inv_freq)
{
    double n = rope->original_max_position;
    double low = rope->low_freq_factor, high = rope->high_freq_factor;
    double wavelength = 2 * pi / (double)inv_freq;

    if (wavelength < n / high)
        return inv_freq;
    if (wavelength > n / low || high <= low)
        return (float)((double)inv_freq / rope->factor);
    double smooth = (n / wavelength - low) / (high - low);
    return (float)((1 - smooth) * (double)inv_freq / rope->factor + smooth * (double)inv_freq);
}

/* The dimension whose wavelength makes `turns` turns within the original length. */
static double yarn_dim(const struct rope_config *rope, int32_t head_dim, double turns)
{
    return head_dim * log(rope->original_max_position / (turns * 2 * pi)) / (2 * log(rope->theta));
}

static float yarn(const struct rope_config *rope, int32_t head_dim, int32_t i, float inv_freq)
{
    double low = yarn_dim(rope, head_dim, rope->beta_fast);
    double high = yarn_dim(rope, head_dim, rope->beta_slow);

    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, head_dim - 1);
    if (low == high)
        high += 0.001; /* no division by zero */
    double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
    return (float)((double)inv_freq / rope->factor * ramp + (double)inv_freq * (1 - ramp));
}

void rope_inv_freq(const struct rope_config *rope, int32_t head_dim, float *out)
{
    for (int32_t i = 0; i < head_dim / 2; i++) {
        float inv_freq = (float)(1 / pow(rope->theta, 2.0 * i / head_dim));
        switch (rope->type) {
        case ROPE_DEFAULT:
            break;
        case ROPE_LLAMA3:
            inv_freq = llama3(rope, inv_freq);
            break;
        case ROPE_YARN:
            inv_freq = yarn(rope, head_dim, i, inv_freq);
            break;
        }
        out[i] = inv_freq;
    }
}

/* What rope_fill fills, by rows. */
struct table {
    float *out;
    int32_t head_dim;
    double factor;
    float inv_freq[512]; /* head_dim is at most 1024 */
};

static void fill_rows(void *arg, size_t begin, size_t end)
{
    const struct table *table = arg;
    int32_t half = table->head_dim / 2;

    for (size_t position = begin; position < end; position++) {
        float *row = table->out + position * (size_t)table->head_dim;
        for (int32_t i = 0; i < half; i++) {
            float angle = (float)position * table->inv_freq[i];
            row[i] = (float)(cos((double)angle) * table->factor);
            row[half + i] = (float)(sin((double)angle) * table->factor);
        }
    }
}

void rope_fill(const struct rope_config *rope, int32_t head_dim, int32_t max_position, float *out)
{
    struct table table = {.out = out, .head_dim = head_dim, .factor = rope->attention_factor};

    rope_inv_freq(rope, head_dim, table.inv_freq);
    split_run(fill_rows, &table, (size_t)max_position);
}
