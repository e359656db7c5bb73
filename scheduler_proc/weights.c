/* weights.c - see weights.h. */
#include "scheduler_proc/weights.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/json.h"

static const char index_name[] = "model.safetensors.index.json";
static const char single_name[] = "model.safetensors";

enum {
    INDEX_MAX_BYTES = 256 << 20,
    MAX_FILES = 4096,
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

/* Whether the directory has a file of such an ending. */
static bool has_file(const char *dir, const char *ending)
{
    DIR *handle = opendir(dir);
    size_t end = strlen(ending);
    const struct dirent *item;
    bool found = false;

    while (handle && !found && (item = readdir(handle)) != NULL) {
        size_t length = strlen(item->d_name);
        found = length > end && strcmp(item->d_name + length - end, ending) == 0;
    }
    if (handle)
        closedir(handle);
    return found;
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
    if (status.code == STATUS_NOT_FOUND && (has_file(dir, ".bin") || has_file(dir, ".pth")))
        return status_error(STATUS_UNSUPPORTED,
                            "%.60s: its weights are pickled (.bin, .pth): convert them to %s", dir,
                            single_name);
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
    *weights = result;
out:
    arena_deinit(&arena);
    return status;
}

struct status weights_open_dummy(struct weights *weights, enum dtype dtype, size_t max_count)
{
    struct weights result = {0};
    struct status status = weights_dummy_init(&result.dummy, dtype, max_count);

    if (status.code == STATUS_OK)
        *weights = result;
    return status;
}

void weights_close(struct weights *weights)
{
    for (size_t i = 0; i < weights->num_files; i++)
        safetensors_close(&weights->files[i]);
    free(weights->files);
    free(weights->entries);
    weights_dummy_deinit(&weights->dummy);
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

    if (weights->dummy.random_count > 0) {
        *out = (struct weight_view){.dtype = weights->dummy.dtype, .count = count};
        return weights_dummy_get(&weights->dummy, name, count, &out->data);
    }
    entry = find(weights, name);
    if (!entry)
        return status_error(STATUS_NOT_FOUND, "tensor %s is missing", name);
    const struct tensor *tensor = entry->tensor;
    if (!tensor->is_float)
        return status_error(STATUS_UNSUPPORTED,
                            "tensor %s: its type %.20s is none of F32, BF16, F16", name,
                            tensor->type);
    if (tensor->num_dims != (cols ? 2 : 1) || tensor->shape[0] != rows ||
        (cols && tensor->shape[1] != cols))
        return wrong_shape(tensor, name, rows, cols);
    entry->is_used = true;
    *out = (struct weight_view){.data = tensor->data, .dtype = tensor->dtype, .count = count};
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
