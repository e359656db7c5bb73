/*
 * linear_tuner.cu - the table of which way serves which layer, and its file.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/linear_tuner.cuh"

/* The entry of this key, or the free one where it belongs. */
struct algo_entry *linear_tuner_find(struct linear_tuner *tuner, const struct algo_entry *key)
{
    uint32_t hash = (uint32_t)key->n * 2654435761u ^ (uint32_t)key->k * 2246822519u ^
                    (uint32_t)key->bucket * 3266489917u ^ (uint32_t)key->accumulate ^
                    (uint32_t)key->is_gated;

    for (uint32_t i = hash;; i++) {
        struct algo_entry *e = &tuner->entries[i % TUNER_SIZE];

        if (!e->bucket || (e->n == key->n && e->k == key->k && e->bucket == key->bucket &&
                           e->alignment == key->alignment && e->dtype == key->dtype &&
                           e->y_dtype == key->y_dtype && e->accumulate == key->accumulate &&
                           e->has_bias == key->has_bias && e->is_gated == key->is_gated))
            return e;
    }
}

void linear_tuner_put(struct linear_tuner *tuner, const struct algo_entry *entry,
                      enum algo_origin origin)
{
    struct algo_entry *place = linear_tuner_find(tuner, entry);

    if (place->bucket)
        tuner->num_saved = -1; /* what was stored did not serve */
    else if (tuner->num_entries == TUNER_SIZE / 2)
        return;
    else
        tuner->num_entries++;
    *place = *entry;
    tuner->origins[place - tuner->entries] = origin;
}

static void tuner_load(struct linear_tuner *tuner)
{
    struct algo_entry *entries = (struct algo_entry *)calloc(TUNER_SIZE / 2, sizeof(*entries));
    int num = 0;

    if (entries)
        num = algo_cache_load(tuner->card, tuner->version, entries, TUNER_SIZE / 2);
    for (int i = 0; i < num; i++)
        linear_tuner_put(tuner, &entries[i], ALGO_STORED);
    tuner->num_saved = tuner->num_entries;
    free(entries);
}

/* MINISGL_CUDA_LINEAR_PLAN: skinny-1, skinny-2, stream, many, or n. */
static int forced_of(const char *value)
{
    char *end;
    long n;

    if (value == NULL)
        return 0;
    if (strcmp(value, "stream") == 0)
        return LINEAR_STREAM;
    if (strcmp(value, "many") == 0)
        return GATE_UP_MANY;
    if (strncmp(value, "skinny-", 7) == 0 && value[7] > '0' && value[7] <= '0' + SKINNY_NUM)
        return value[7] - '0';
    n = strtol(value, &end, 10);
    return *value && *end == 0 && n >= 0 && n < 1000 ? SPLIT_FIRST + (int)n : 0;
}

struct status linear_tuner_create(int ordinal, struct linear_tuner **out)
{
    cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);

    if (error)
        return cuda_status(error, "device info");
    *out = (struct linear_tuner *)calloc(1, sizeof(**out));
    if (*out == NULL)
        return status_error(STATUS_NO_MEMORY, "linear: out of memory");
    memcpy((*out)->card, properties.name, sizeof((*out)->card) - 1);
    (*out)->version = (int)cublasLtGetVersion();
    (*out)->is_untimed = getenv("MINISGL_CUDA_NO_TIMING") != NULL;
    (*out)->forced = forced_of(getenv("MINISGL_CUDA_LINEAR_PLAN"));
    if (!(*out)->forced)
        tuner_load(*out);
    return status_ok();
}

void linear_tuner_save(struct linear_tuner *tuner)
{
    struct algo_entry *entries;
    int num = 0;

    if (tuner->num_entries == tuner->num_saved || tuner->forced)
        return;
    entries = (struct algo_entry *)calloc((size_t)tuner->num_entries, sizeof(*entries));
    if (entries == NULL)
        return;
    for (int i = 0; i < TUNER_SIZE; i++) {
        if (tuner->entries[i].bucket && tuner->origins[i] != ALGO_GUESSED)
            entries[num++] = tuner->entries[i];
    }
    algo_cache_save(tuner->card, tuner->version, entries, num); /* where it cannot: timed again */
    tuner->num_saved = tuner->num_entries;
    free(entries);
}

void linear_tuner_destroy(struct linear_tuner **tuner)
{
    if (*tuner)
        linear_tuner_save(*tuner);
    free(*tuner);
    *tuner = NULL;
}
