/*
 * linear.cu - y = x W^T + bias, or y += x W^T + bias, or gate_up: by cuBLASLt (and silu_mul.cu), or
 * by kernels of our own (skinny.cu for up to 16 tokens, linear_split.cu for up to 256), whichever
 * is the fastest. At the first use of a shape outside a captured graph all are timed
 * (linear_tune.cu), and the fastest stays: in a file, see algo_cache.h.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/linear_product.cuh"

extern "C" {
#include "kernels/cuda/algo_cache.h"
}

enum { TUNER_SIZE = 4096 };

static_assert(sizeof(cublasLtMatmulAlgo_t) == ALGO_WORDS * sizeof(uint64_t), "algo_cache.h");

struct linear_tuner {
    struct algo_entry entries[TUNER_SIZE]; /* a hash table with open addressing, never full */
    int num_entries;
    int num_saved;            /* of them, when the file was last written or read */
    bool is_good[TUNER_SIZE]; /* of an entry: timed here, or asked for once */
    int version;              /* of cuBLASLt */
    bool is_untimed;          /* for sanitizers: the first algorithm that the heuristic offers */
    int forced_plan; /* for tests: what linear_split.cu can do goes its way of that place; or -1 */
    char card[256];
};

/* The entry of this key, or the free one where it belongs. */
static struct algo_entry *tuner_find(struct linear_tuner *tuner, const struct algo_entry *key)
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

static void tuner_put(struct linear_tuner *tuner, const struct algo_entry *entry, bool is_good)
{
    struct algo_entry *place = tuner_find(tuner, entry);

    if (place->bucket)
        tuner->num_saved = -1; /* what was stored did not serve */
    else if (tuner->num_entries == TUNER_SIZE / 2)
        return;
    else
        tuner->num_entries++;
    *place = *entry;
    tuner->is_good[place - tuner->entries] = is_good;
}

static void tuner_load(struct linear_tuner *tuner)
{
    struct algo_entry *entries = (struct algo_entry *)calloc(TUNER_SIZE / 2, sizeof(*entries));
    int num = 0;

    if (entries)
        num = algo_cache_load(tuner->card, tuner->version, entries, TUNER_SIZE / 2);
    for (int i = 0; i < num; i++)
        tuner_put(tuner, &entries[i], false);
    tuner->num_saved = tuner->num_entries;
    free(entries);
}

struct status linear_tuner_create(int ordinal, struct linear_tuner **out)
{
    const char *forced = getenv("MINISGL_CUDA_LINEAR_PLAN");
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
    (*out)->forced_plan = forced ? atoi(forced) : -1;
    if (!forced)
        tuner_load(*out);
    return status_ok();
}

void linear_tuner_save(struct linear_tuner *tuner)
{
    struct algo_entry *entries;
    int num = 0;

    if (tuner->num_entries == tuner->num_saved || tuner->forced_plan >= 0)
        return;
    entries = (struct algo_entry *)calloc((size_t)tuner->num_entries, sizeof(*entries));
    if (entries == NULL)
        return;
    for (int i = 0; i < TUNER_SIZE; i++) {
        if (tuner->entries[i].bucket)
            entries[num++] = tuner->entries[i];
    }
    algo_cache_save(tuner->card, tuner->version, entries, num); /* where it cannot: timed again */
    tuner->num_saved = num;
    free(entries);
}

void linear_tuner_destroy(struct linear_tuner **tuner)
{
    if (*tuner)
        linear_tuner_save(*tuner);
    free(*tuner);
    *tuner = NULL;
}

/* Exact up to 256 tokens, then in quarters of an octave: 320, 384, 448, 512, 640 ... */
static int32_t bucket_of(int32_t num_tokens)
{
    int32_t step = num_tokens > 256 ? 64 : 1;

    while (step > 1 && num_tokens > step * 8)
        step *= 2;
    return (num_tokens + step - 1) / step * step;
}

static int32_t alignment_of(const struct layer_args *a)
{
    size_t bits = (size_t)a->x | (size_t)a->y | (size_t)a->wide;

    return bits % 256 == 0 ? 256 : bits % 16 == 0 ? 16 : 2;
}

static struct algo_entry entry_of(const struct layer_args *a)
{
    struct algo_entry key = {};

    key.n = a->weight->n;
    key.k = a->weight->k;
    key.bucket = bucket_of(a->num_tokens);
    key.alignment = alignment_of(a);
    key.dtype = (int32_t)a->weight->dtype;
    key.y_dtype = (int32_t)a->y_dtype;
    key.accumulate = a->accumulate;
    key.has_bias = a->weight->bias != NULL;
    key.is_gated = a->wide != NULL;
    return key;
}

/* How to do the product: as tuned, tuning now where that is allowed. */
static struct status find_way(struct stream *stream, struct product *p, const struct layer_args *a,
                              struct way *out)
{
    struct linear_tuner *tuner = stream->device->tuner;
    struct algo_entry key = entry_of(a), *entry = tuner_find(tuner, &key);
    struct way ways[MAX_WAYS];
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    struct status status;
    int num, num_split;
    bool *is_good = &tuner->is_good[entry - tuner->entries];

    out->own = entry->own;
    memcpy(&out->algo, entry->algo, sizeof(out->algo));
    if (!tuner->is_untimed && entry->bucket && (*is_good || product_can(stream, p, a, out))) {
        *is_good = true;
        return status_ok();
    }
    status = product_ways(stream, p, a, (uint32_t)key.alignment, ways, &num, &num_split);
    if (status.code)
        return status;
    *out = ways[0];
    if (tuner->forced_plan >= 0 && num_split > 0)
        *out = ways[num - num_split + tuner->forced_plan % num_split];
    if (tuner->is_untimed || tuner->forced_plan >= 0)
        return status_ok();
    if (cudaStreamIsCapturing(stream->cuda, &capture) || capture != cudaStreamCaptureStatusNone) {
        stream->has_guessed = true;
        return status_ok();
    }
    *out = ways[product_fastest(stream, p, a, ways, num)];
    key.own = out->own;
    memcpy(key.algo, &out->algo, sizeof(key.algo));
    tuner_put(tuner, &key, true);
    return status_ok();
}

static struct status layer(struct stream *stream, const struct layer_args *a)
{
    struct status status;
    struct product product;
    struct way way, ways[MAX_WAYS];
    int num, num_split;

    if (a->num_tokens == 0)
        return status_ok();
    if (skinny_can(a) && skinny_always(a) && stream->device->tuner->forced_plan < 0)
        return skinny_launch(stream, a, SKINNY_SMALL);
    status = product_init(&product, a);
    if (!status.code)
        status = find_way(stream, &product, a, &way);
    if (status.code)
        return status;
    status = product_run(stream, &product, a, &way);
    if (status.code && !way.own) { /* tuned for a neighbour in the bucket, not good for this one */
        status =
            product_ways(stream, &product, a, (uint32_t)alignment_of(a), ways, &num, &num_split);
        if (!status.code)
            status = product_run(stream, &product, a, &ways[0]);
    }
    return status;
}

extern "C" struct status linear_cuda(struct stream *stream, const struct linear_args *args)
{
    struct layer_args a = {*args, NULL};

    if (a.y_dtype != a.weight->dtype && (a.accumulate || a.weight->bias))
        return status_error(STATUS_UNSUPPORTED,
                            "linear: y of another dtype than the weight's takes no bias or sum");
    return layer(stream, &a);
}

extern "C" struct status gate_up_cuda(struct stream *stream, const struct gate_up_args *args)
{
    struct layer_args a = {};

    a.weight = args->weight;
    a.y = args->y;
    a.wide = args->wide;
    a.x = args->x;
    a.y_dtype = args->weight->dtype;
    a.num_tokens = args->num_tokens;
    return layer(stream, &a);
}
