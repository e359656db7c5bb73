/*
 * safetensors.c - see safetensors.h.
 *
 *   bytes 0..7      header size, little-endian
 *   header          JSON: {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...}
 *   data            tensors one behind the other; offsets count from here
 */
#include "scheduler_proc/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"

enum { HEADER_MAX_BYTES = 100 << 20 };

struct type_name {
    const char *name;
    size_t size;
    bool is_float;
    enum dtype dtype;
};

static const struct type_name type_names[] = {
    {"F32", 4, true, DTYPE_F32},      {"BF16", 2, true, DTYPE_BF16},
    {"F16", 2, true, DTYPE_F16},      {"F64", 8, false, DTYPE_F32},
    {"I64", 8, false, DTYPE_F32},     {"U64", 8, false, DTYPE_F32},
    {"I32", 4, false, DTYPE_F32},     {"U32", 4, false, DTYPE_F32},
    {"I16", 2, false, DTYPE_F32},     {"U16", 2, false, DTYPE_F32},
    {"I8", 1, false, DTYPE_F32},      {"U8", 1, false, DTYPE_F32},
    {"BOOL", 1, false, DTYPE_F32},    {"F8_E4M3", 1, false, DTYPE_F32},
    {"F8_E5M2", 1, false, DTYPE_F32},
};

/* One entry being read. */
struct entry {
    const struct type_name *type; /* NULL: none that is known */
    bool has_type, has_shape, has_offsets;
    uint64_t begin, end;
    struct tensor tensor;
};

static bool read_shape(struct json_reader *reader, struct tensor *tensor)
{
    if (!json_enter_array(reader))
        return false;
    while (json_next_item(reader)) {
        int64_t dim = 0;
        if (!json_read_int(reader, &dim) || dim < 0 || tensor->num_dims == TENSOR_MAX_DIMS)
            return false;
        tensor->shape[tensor->num_dims++] = dim;
    }
    return true;
}

static bool read_offsets(struct json_reader *reader, struct entry *entry)
{
    int64_t values[2] = {0};
    size_t count = 0;

    if (!json_enter_array(reader))
        return false;
    while (json_next_item(reader)) {
        int64_t value = 0;
        if (!json_read_int(reader, &value) || value < 0 || count == 2)
            return false;
        values[count++] = value;
    }
    entry->begin = (uint64_t)values[0];
    entry->end = (uint64_t)values[1];
    return count == 2 && entry->begin <= entry->end;
}

/* Types that came later than this table are taken as they are: nobody may want that tensor. */
static bool read_type(struct json_reader *reader, struct entry *entry, struct arena *arena)
{
    struct json_text text;

    if (!json_read_string(reader, &text) || text.size == 0)
        return false;
    entry->has_type = true;
    for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++)
        if (json_text_is(text, type_names[i].name))
            entry->type = &type_names[i];
    entry->tensor.type = entry->type ? entry->type->name : arena_copy(arena, text.data, text.size);
    return entry->tensor.type != NULL;
}

/* The entry's members; false when one is missing or not what it must be. */
static bool read_entry(struct json_reader *reader, struct entry *entry, struct arena *arena)
{
    struct json_text key;

    if (json_peek(reader) != JSON_OBJECT || !json_enter_object(reader))
        return false;
    while (json_next_key(reader, &key)) {
        bool is_good = true;
        if (json_text_is(key, "dtype"))
            is_good = json_peek(reader) == JSON_STRING && read_type(reader, entry, arena);
        else if (json_text_is(key, "shape"))
            entry->has_shape = is_good =
                json_peek(reader) == JSON_ARRAY && read_shape(reader, &entry->tensor);
        else if (json_text_is(key, "data_offsets"))
            entry->has_offsets = is_good =
                json_peek(reader) == JSON_ARRAY && read_offsets(reader, entry);
        else
            json_skip(reader);
        if (!is_good)
            return false;
    }
    return entry->has_type && entry->has_shape && entry->has_offsets;
}

/* Bytes that the shape takes; false when they overflow. */
static bool shape_bytes(const struct entry *entry, uint64_t *out)
{
    uint64_t size = entry->type->size;

    for (int32_t i = 0; i < entry->tensor.num_dims; i++)
        if (__builtin_mul_overflow(size, (uint64_t)entry->tensor.shape[i], &size))
            return false;
    *out = size;
    return true;
}

static struct status check_entry(const struct entry *entry, const char *name, size_t data_size)
{
    uint64_t size = 0;

    if (entry->end > data_size)
        return status_error(STATUS_FORMAT,
                            "tensor %s ends at byte %llu of %zu: is the file cut off?", name,
                            (unsigned long long)entry->end, data_size);
    if (entry->type && (!shape_bytes(entry, &size) || size != entry->end - entry->begin))
        return status_error(STATUS_FORMAT, "tensor %s: %llu bytes are not what its shape takes",
                            name, (unsigned long long)(entry->end - entry->begin));
    return status_ok();
}

static int compare_offset(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size); /* empty ones first */
}

static int compare_name(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Sorts by name in the end. */
static struct status check_layout(struct safetensors *file, size_t data_size)
{
    size_t end = 0;

    if (file->num_tensors == 0)
        return status_error(STATUS_FORMAT, "no tensor in it");
    qsort(file->tensors, file->num_tensors, sizeof(struct tensor), compare_offset);
    for (size_t i = 0; i < file->num_tensors; i++) {
        const struct tensor *tensor = &file->tensors[i];
        if (tensor->offset != end)
            return status_error(STATUS_FORMAT, "tensor %s %s", tensor->name,
                                tensor->offset < end ? "overlaps another" : "stands behind a gap");
        end += tensor->size;
    }
    if (end != data_size)
        return status_error(STATUS_FORMAT, "%zu bytes behind the last tensor", data_size - end);
    qsort(file->tensors, file->num_tensors, sizeof(struct tensor), compare_name);
    for (size_t i = 1; i < file->num_tensors; i++)
        if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
            return status_error(STATUS_FORMAT, "tensor %s stands twice", file->tensors[i].name);
    return status_ok();
}

/* Appends to tensors; the array doubles in the arena. */
static struct tensor *append(struct safetensors *file, size_t *capacity)
{
    if (file->num_tensors == *capacity) {
        size_t larger = *capacity ? *capacity * 2 : 64;
        struct tensor *tensors = arena_calloc(&file->arena, larger, sizeof(struct tensor));
        if (!tensors)
            return NULL;
        if (file->num_tensors)
            memcpy(tensors, file->tensors, file->num_tensors * sizeof(struct tensor));
        file->tensors = tensors;
        *capacity = larger;
    }
    return &file->tensors[file->num_tensors++];
}

static struct status read_header(struct safetensors *file, const char *header, size_t header_size,
                                 const uint8_t *data, size_t data_size)
{
    struct json_reader reader;
    struct json_text key;
    size_t capacity = 0;
    struct status status = status_ok();

    json_reader_init(&reader, header, header_size);
    if (json_peek(&reader) != JSON_OBJECT && json_reader_status(&reader).code == STATUS_OK) {
        status = status_error(STATUS_FORMAT, "header is no object");
        goto out;
    }
    json_enter_object(&reader);
    while (json_next_key(&reader, &key)) {
        struct entry entry = {0};
        if (json_text_is(key, "__metadata__")) {
            json_skip(&reader);
            continue;
        }
        const char *name = arena_copy(&file->arena, key.data, key.size);
        if (!name) {
            status = status_error(STATUS_NO_MEMORY, "no memory for the header");
            goto out;
        }
        if (!read_entry(&reader, &entry, &file->arena)) {
            status = status_context(json_reader_status(&reader), "header");
            if (status.code == STATUS_OK)
                status = status_error(STATUS_FORMAT,
                                      "tensor %s: dtype, shape or data_offsets is wrong", name);
            goto out;
        }
        status = check_entry(&entry, name, data_size);
        if (status.code)
            goto out;
        struct tensor *tensor = append(file, &capacity);
        if (!tensor) {
            status = status_error(STATUS_NO_MEMORY, "no memory for the header");
            goto out;
        }
        *tensor = entry.tensor;
        tensor->name = name;
        tensor->is_float = entry.type && entry.type->is_float;
        tensor->dtype = tensor->is_float ? entry.type->dtype : DTYPE_F32;
        tensor->offset = (size_t)entry.begin;
        tensor->size = (size_t)(entry.end - entry.begin);
        tensor->data = data + entry.begin;
    }
    json_end(&reader);
    status = status_context(json_reader_status(&reader), "header");
    if (status.code == STATUS_OK)
        status = check_layout(file, data_size);
out:
    json_reader_deinit(&reader);
    return status;
}

struct status safetensors_parse(struct safetensors *file, const void *data, size_t size)
{
    static const char lfs[] = "version https://git-lfs";
    struct safetensors result = {0};
    const uint8_t *bytes = data;
    uint64_t header_size = 0;
    struct status status;

    if (size >= sizeof(lfs) - 1 && memcmp(data, lfs, sizeof(lfs) - 1) == 0)
        return status_error(STATUS_FORMAT,
                            "a Git LFS pointer, not the weights: fetch them with `git lfs pull`");
    if (size < 8)
        return status_error(STATUS_FORMAT, "header cut at %zu bytes", size);
    for (int i = 7; i >= 0; i--)
        header_size = header_size << 8 | bytes[i];
    if (header_size > HEADER_MAX_BYTES || header_size > size - 8)
        return status_error(STATUS_FORMAT, "header of %llu bytes in a file of %zu",
                            (unsigned long long)header_size, size);
    arena_init(&result.arena, 0, 0);
    status = read_header(&result, (const char *)bytes + 8, (size_t)header_size,
                         bytes + 8 + header_size, size - 8 - (size_t)header_size);
    if (status.code) {
        arena_deinit(&result.arena);
        return status;
    }
    *file = result;
    return status_ok();
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

struct status safetensors_open(struct safetensors *file, const char *path)
{
    struct file_map map = {0};
    struct safetensors result = {0};
    struct status status = file_map_open(&map, path);

    if (status.code)
        return status;
    status = status_context(safetensors_parse(&result, map.data ? map.data : "", map.size),
                            base_name(path));
    if (status.code) {
        file_map_close(&map);
        return status;
    }
    result.map = map;
    *file = result;
    return status_ok();
}

void safetensors_close(struct safetensors *file)
{
    arena_deinit(&file->arena);
    file_map_close(&file->map);
    *file = (struct safetensors){0};
}

const struct tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    struct tensor key = {.name = name};

    return file->num_tensors ? bsearch(&key, file->tensors, file->num_tensors,
                                       sizeof(struct tensor), compare_name)
                             : NULL;
}
