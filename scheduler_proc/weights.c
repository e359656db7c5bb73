/* weights.c - see weights.h. */
#include "scheduler_proc/weights.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/hash.h"
#include "common/json.h"
#include "common/split.h"

static const char index_name[] = "model.safetensors.index.json";
static const char single_name[] = "model.safetensors";

enum {
    INDEX_MAX_BYTES = 256 << 20,
    MAX_FILES = 4096,
    NOISE_BLOCK = 1 << 18,  /* elements of dummies of one seed */
    RANDOM_SLACK = 1 << 20, /* elements: dummies start at various places within it */
    ONES_COUNT = 1 << 20,
};

static int compare_entry(const void *a, const void *b)
{
    const struct weight_entry *x = a, *y = b;

    return strcmp(x->tensor->name, y->tensor->name);
}

static struct status out_of_memory(void)
{
    return status_error(STATUS_NO_MEMORY, "weights: no memory");
}

static struct status open_single(struct weights *weights, const char *dir)
{
    char path[4096];
    struct status status = path_join(dir, single_name, path, sizeof(path));

    if (status.code)
        return status;
    weights->files = calloc(1, sizeof(struct safetensors));
    if (!weights->files)
        return out_of_memory();
    status = safetensors_open(&weights->files[0], path);
    if (status.code == STATUS_NOT_FOUND)
        return status_error(STATUS_NOT_FOUND, "%.60s: neither %s nor %s is there", dir, single_name,
                            index_name);
    if (status.code)
        return status;
    weights->num_files = 1;
    weights->num_entries = weights->files[0].num_tensors;
    weights->entries = calloc(weights->num_entries, sizeof(struct weight_entry));
    if (!weights->entries)
        return out_of_memory();
    for (size_t i = 0; i < weights->num_entries; i++)
        weights->entries[i].tensor = &weights->files[0].tensors[i];
    return status_ok();
}

/* Which of the files opened so far has that name; opens it when none has. */
static struct status open_shard(struct weights *weights, const char *dir, const char **names,
                                const struct json_value *name, const struct safetensors **out)
{
    char path[4096];

    for (size_t i = 0; i < weights->num_files; i++)
        if (json_is(name, names[i])) {
            *out = &weights->files[i];
            return status_ok();
        }
    if (name->type != JSON_STRING || name->text.size == 0 || strlen(name->text.data) == 0 ||
        strchr(name->text.data, '/') || strlen(name->text.data) != name->text.size)
        return status_error(STATUS_FORMAT, "%s: a file's name is wrong", index_name);
    if (weights->num_files == MAX_FILES)
        return status_error(STATUS_UNSUPPORTED, "%s: more than %d files", index_name, MAX_FILES);
    struct status status = path_join(dir, name->text.data, path, sizeof(path));
    if (status.code)
        return status;
    status = safetensors_open(&weights->files[weights->num_files], path);
    if (status.code == STATUS_NOT_FOUND)
        return status_error(STATUS_NOT_FOUND, "%s, which %s names, is missing", name->text.data,
                            index_name);
    if (status.code)
        return status;
    names[weights->num_files] = name->text.data;
    *out = &weights->files[weights->num_files++];
    return status_ok();
}

static struct status open_sharded(struct weights *weights, const char *dir,
                                  const struct json_value *map)
{
    const char **names = NULL;
    struct status status = status_ok();

    if (!map || map->type != JSON_OBJECT || map->num_items == 0)
        return status_error(STATUS_FORMAT, "%s: no weight_map", index_name);
    names = calloc(MAX_FILES, sizeof(*names));
    weights->files = calloc(MAX_FILES, sizeof(struct safetensors));
    weights->entries = calloc(map->num_items, sizeof(struct weight_entry));
    if (!names || !weights->files || !weights->entries) {
        status = out_of_memory();
        goto out;
    }
    for (size_t i = 0; i < map->num_items; i++) {
        const struct safetensors *file = NULL;
        status = open_shard(weights, dir, names, &map->items[i], &file);
        if (status.code)
            goto out;
        const struct tensor *tensor = safetensors_find(file, map->keys[i].data);
        if (!tensor) {
            status = status_error(STATUS_FORMAT, "%s: %s is not in %s", index_name,
                                  map->keys[i].data, map->items[i].text.data);
            goto out;
        }
        weights->entries[weights->num_entries++].tensor = tensor;
    }
    qsort(weights->entries, weights->num_entries, sizeof(struct weight_entry), compare_entry);
    for (size_t i = 1; i < weights->num_entries; i++)
        if (compare_entry(&weights->entries[i - 1], &weights->entries[i]) == 0) {
            status = status_error(STATUS_FORMAT, "%s: %s stands twice", index_name,
                                  weights->entries[i].tensor->name);
            goto out;
        }
out:
    free(names);
    return status;
}

/* Counts the weight files that the index does not name, and tensors in its files that it does not.
 */
static void note_ignored(struct weights *weights, const char *dir)
{
    DIR *handle = opendir(dir);
    size_t num_files = 0, num_tensors = 0;
    const struct dirent *item;

    while (handle && (item = readdir(handle)) != NULL) {
        size_t length = strlen(item->d_name);
        num_files += length > 12 && strcmp(item->d_name + length - 12, ".safetensors") == 0;
    }
    if (handle)
        closedir(handle);
    for (size_t i = 0; i < weights->num_files; i++)
        num_tensors += weights->files[i].num_tensors;
    if (num_files > weights->num_files || num_tensors > weights->num_entries)
        snprintf(weights->warning, sizeof(weights->warning),
                 "ignored: %zu weight files that are not in use, %zu tensors that the index does "
                 "not name",
                 num_files - weights->num_files, num_tensors - weights->num_entries);
}

struct status weights_open(struct weights *weights, const char *dir)
{
    struct weights result = {0};
    struct arena arena;
    struct json_value *index = NULL;
    struct status status;

    arena_init(&arena, 0, 0);
    status = json_parse_file(dir, index_name, INDEX_MAX_BYTES, &arena, &index);
    if (status.code == STATUS_NOT_FOUND)
        status = open_single(&result, dir);
    else if (status.code == STATUS_OK)
        status = open_sharded(&result, dir, json_get(index, "weight_map"));
    if (status.code) {
        weights_close(&result);
        goto out;
    }
    note_ignored(&result, dir);
    arena_init(&result.copies, 0, 0);
    *weights = result;
out:
    arena_deinit(&arena);
    return status;
}

/* ---- dummies ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* What weights_open_dummy fills, in blocks that each have a seed of their own. */
struct noise {
    void *out;
    size_t count;
    uint64_t seed;
    const float *values;
    const uint16_t *halves;
    enum dtype dtype;
};

static void fill_noise(void *arg, size_t begin, size_t end)
{
    const struct noise *noise = arg;

    for (size_t block = begin; block < end; block++) {
        uint64_t state = sample_mix(sample_mix(noise->seed + 1) + block) | 1;
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

struct status weights_open_dummy(struct weights *weights, enum dtype dtype, size_t max_count,
                                 uint64_t seed)
{
    enum dtype stored = dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
    struct weights result = {.dtype = stored, .random_count = max_count + RANDOM_SLACK};
    float *values = malloc(65536 * sizeof(float));      /* uniform, of standard deviation 0.02 */
    uint16_t *halves = malloc(65536 * sizeof(*halves)); /* the same in bfloat16 */

    result.random = malloc(result.random_count * dtype_size(stored) + 8);
    result.ones = malloc(ONES_COUNT * dtype_size(stored));
    if (!values || !halves || !result.random || !result.ones) {
        free(values);
        free(halves);
        weights_close(&result);
        return status_error(STATUS_NO_MEMORY, "dummy weights: no memory for %zu values", max_count);
    }
    for (int i = 0; i < 65536; i++)
        values[i] = 1;
    for (size_t i = 0; i < ONES_COUNT; i += 65536)
        weights_convert((char *)result.ones + i * dtype_size(stored), stored, values, DTYPE_F32,
                        65536);
    for (int i = 0; i < 65536; i++)
        values[i] = ((float)i - 32767.5f) / 32768 * 0.02f * 1.7320508f;
    weights_convert(halves, DTYPE_BF16, values, DTYPE_F32, 65536);
    struct noise noise = {result.random, result.random_count, seed, values, halves, stored};
    split_run(fill_noise, &noise, (result.random_count + NOISE_BLOCK - 1) / NOISE_BLOCK);
    free(values);
    free(halves);
    *weights = result;
    return status_ok();
}

/* A place in the random buffer that differs from name to name. */
static struct status get_dummy(const struct weights *weights, const char *name, size_t count,
                               struct weight_view *out)
{
    static const char norm[] = "norm.weight";
    size_t length = strlen(name);
    bool is_norm =
        length >= sizeof(norm) - 1 && strcmp(name + length - (sizeof(norm) - 1), norm) == 0;
    uint64_t hash = hash_bytes(hash_start, name, length);

    size_t offset = is_norm ? 0 : (size_t)(hash >> 20) % RANDOM_SLACK / 64 * 64;
    if (count > (is_norm ? ONES_COUNT : weights->random_count - offset))
        return status_error(STATUS_UNSUPPORTED, "%s: %zu values of a dummy are too many", name,
                            count);
    *out = (struct weight_view){.data = (const char *)(is_norm ? weights->ones : weights->random) +
                                        offset * dtype_size(weights->dtype),
                                .dtype = weights->dtype,
                                .count = count};
    return status_ok();
}

void weights_close(struct weights *weights)
{
    for (size_t i = 0; i < weights->num_files; i++)
        safetensors_close(&weights->files[i]);
    free(weights->files);
    free(weights->entries);
    free(weights->random);
    free(weights->ones);
    arena_deinit(&weights->copies);
    *weights = (struct weights){0};
}

/* ---- lookups ---- */

static struct weight_entry *find(const struct weights *weights, const char *name)
{
    struct tensor tensor = {.name = name};
    struct weight_entry key = {.tensor = &tensor};

    return weights->num_entries ? bsearch(&key, weights->entries, weights->num_entries,
                                          sizeof(struct weight_entry), compare_entry)
                                : NULL;
}

/* [3] or [3, 4]; out holds 64 bytes. */
static const char *shape_text(int num_dims, const int64_t *shape, char *out)
{
    size_t used = 1;

    memcpy(out, "[", 2);
    for (int i = 0; i < num_dims && used < 40; i++)
        used +=
            (size_t)snprintf(out + used, 64 - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(out + used, 64 - used, "]");
    return out;
}

static struct status wrong_shape(const struct tensor *tensor, const char *name, int64_t rows,
                                 int64_t cols)
{
    const int64_t wanted[2] = {rows, cols};
    char is[64], should_be[64];

    return status_error(STATUS_INVALID, "tensor %s: shape is %s, not %s as the config says", name,
                        shape_text(tensor->num_dims, tensor->shape, is),
                        shape_text(cols ? 2 : 1, wanted, should_be));
}

struct status weights_get(struct weights *weights, const char *name, int64_t rows, int64_t cols,
                          struct weight_view *out)
{
    size_t count = (size_t)rows * (size_t)(cols ? cols : 1);
    struct weight_entry *entry;

    if (weights->random)
        return get_dummy(weights, name, count, out);
    entry = find(weights, name);
    if (!entry)
        return status_error(STATUS_NOT_FOUND, "tensor %s is missing", name);
    const struct tensor *tensor = entry->tensor;
    if (!tensor->is_float)
        return status_error(STATUS_UNSUPPORTED, "tensor %s: its type is none of F32, BF16, F16",
                            name);
    if (tensor->num_dims != (cols ? 2 : 1) || tensor->shape[0] != rows ||
        (cols && tensor->shape[1] != cols))
        return wrong_shape(tensor, name, rows, cols);
    const void *data = tensor->data;
    if ((uintptr_t)data % dtype_size(tensor->dtype) != 0) {
        data = arena_copy(&weights->copies, tensor->data, tensor->size);
        if (!data)
            return out_of_memory();
    }
    entry->is_used = true;
    *out = (struct weight_view){.data = data, .dtype = tensor->dtype, .count = count};
    return status_ok();
}

size_t weights_num_unused(const struct weights *weights, const char **out_first)
{
    size_t count = 0;

    *out_first = "";
    for (size_t i = 0; i < weights->num_entries; i++)
        if (!weights->entries[i].is_used && count++ == 0)
            *out_first = weights->entries[i].tensor->name;
    return count;
}

void weights_drop_pages(const struct weights *weights)
{
    for (size_t i = 0; i < weights->num_files; i++) {
        const struct file_map *map = &weights->files[i].map;
        if (map->data)
            (void)madvise((void *)(uintptr_t)map->data, map->size, MADV_DONTNEED);
    }
}

size_t weights_size(const struct weights *weights)
{
    size_t size = 0;

    for (size_t i = 0; i < weights->num_files; i++)
        size += weights->files[i].map.size;
    return size;
}

/* ---- number formats ---- */

static float from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1F, mantissa = half & 0x3FF;

    if (exponent == 0) { /* zero, or a multiple of 2^-24 */
        float value = (float)mantissa * 0x1.0p-24f;
        return sign ? -value : value;
    }
    if (exponent == 31)
        return from_bits(sign | 0x7F800000 | mantissa << 13);
    return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

static uint16_t to_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Sources come out of a mapped file: no alignment is taken for granted. */
static float load(const void *src, enum dtype dtype, size_t i)
{
    uint32_t word;
    uint16_t half;

    if (dtype == DTYPE_F32) {
        memcpy(&word, (const char *)src + i * 4, 4);
        return from_bits(word);
    }
    memcpy(&half, (const char *)src + i * 2, 2);
    return dtype == DTYPE_BF16 ? from_bits((uint32_t)half << 16) : from_f16(half);
}

void weights_convert(void *dst, enum dtype dst_dtype, const void *src, enum dtype src_dtype,
                     size_t count)
{
    if (dst_dtype == src_dtype) {
        memcpy(dst, src, count * dtype_size(dst_dtype));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        float value = load(src, src_dtype, i);
        if (dst_dtype == DTYPE_F32)
            ((float *)dst)[i] = value;
        else
            ((uint16_t *)dst)[i] = to_bf16(value);
    }
}
