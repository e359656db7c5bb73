/* weights_dummy.c - see weights_dummy.h. */
#include "scheduler_proc/weights_dummy.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/split.h"
#include "kernels/element.h"

enum {
    NUM_LEVELS = 65536,     /* different values */
    NOISE_BLOCK = 1 << 18,  /* elements of one seed */
    RANDOM_SLACK = 1 << 20, /* elements: tensors start at various places within it */
    ONES_COUNT = 1 << 20,
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* What is filled with random values, in blocks that each have a seed of their own. */
struct noise {
    void *out;
    size_t count;
    const float *values;
    const uint16_t *halves;
    enum dtype dtype;
};

static void fill_noise(void *arg, size_t begin, size_t end)
{
    const struct noise *noise = arg;

    for (size_t block = begin; block < end; block++) {
        uint64_t state = sample_mix(sample_mix(1) + block) | 1;
        size_t first = block * NOISE_BLOCK, last = first + NOISE_BLOCK;

        last = last < noise->count ? last : noise->count;
        for (size_t i = first; i < last; i += 4) {
            uint64_t bits = next_random(&state);
            for (size_t j = i; j < i + 4 && j < last; j++, bits >>= 16) {
                if (noise->dtype == DTYPE_F32)
                    ((float *)noise->out)[j] = noise->values[bits & 0xFFFF];
                else
                    ((uint16_t *)noise->out)[j] = noise->halves[bits & 0xFFFF];
            }
        }
    }
}

static void fill_ones(void *out, enum dtype dtype)
{
    for (size_t i = 0; i < ONES_COUNT; i++)
        element_store(out, dtype, i, 1);
}

struct status weights_dummy_init(struct weights_dummy *dummy, enum dtype dtype, size_t max_count)
{
    enum dtype stored = dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
    struct weights_dummy result = {.dtype = stored, .random_count = max_count + RANDOM_SLACK};
    float *values = malloc(NUM_LEVELS * sizeof(*values));
    uint16_t *halves = malloc(NUM_LEVELS * sizeof(*halves)); /* the same in bfloat16 */
    struct status status = status_ok();

    result.random = malloc(result.random_count * dtype_size(stored) + 8);
    result.ones = malloc(ONES_COUNT * dtype_size(stored));
    if (!values || !halves || !result.random || !result.ones) {
        status =
            status_error(STATUS_NO_MEMORY, "dummy weights: no memory for %zu values", max_count);
        goto out;
    }
    fill_ones(result.ones, stored);
    for (int i = 0; i < NUM_LEVELS; i++)
        values[i] = ((float)i - 32767.5f) / 32768 * 0.02f * 1.7320508f;
    element_convert(halves, DTYPE_BF16, values, DTYPE_F32, NUM_LEVELS);
    struct noise noise = {result.random, result.random_count, values, halves, stored};
    split_run(fill_noise, &noise, (result.random_count + NOISE_BLOCK - 1) / NOISE_BLOCK);
    *dummy = result;
    result = (struct weights_dummy){0};
out:
    free(values);
    free(halves);
    weights_dummy_deinit(&result);
    return status;
}

void weights_dummy_deinit(struct weights_dummy *dummy)
{
    free(dummy->random);
    free(dummy->ones);
    *dummy = (struct weights_dummy){0};
}

static bool is_norm(const char *name)
{
    static const char norm[] = "norm.weight";
    size_t length = strlen(name), end = sizeof(norm) - 1;

    return length >= end && strcmp(name + length - end, norm) == 0;
}

/* A place in the random buffer that differs from name to name. */
struct status weights_dummy_get(const struct weights_dummy *dummy, const char *name, size_t count,
                                const void **out)
{
    uint64_t hash = hash_bytes(hash_start, name, strlen(name));
    size_t offset = is_norm(name) ? 0 : (size_t)(hash >> 20) % RANDOM_SLACK / 64 * 64;
    size_t limit = is_norm(name) ? ONES_COUNT : dummy->random_count - offset;
    const char *data = is_norm(name) ? dummy->ones : dummy->random;

    if (count > limit)
        return status_error(STATUS_UNSUPPORTED, "%s: %zu values of a dummy are too many", name,
                            count);
    *out = data + offset * dtype_size(dummy->dtype);
    return status_ok();
}
