/*
 * safetensors.h - one safetensors file, mapped: names, types, shapes and where the bytes are.
 *
 * The header is checked before anything in it is believed: offsets within the file, sizes that
 * follow from shapes (of a known type), no gap and no overlap, each name once. Tensors of types
 * that the decoder has no use for are listed too; only asking for one is an error.
 *
 * Source: the format's README, github.com/huggingface/safetensors.
 */
#ifndef SCHEDULER_PROC_SAFETENSORS_H
#define SCHEDULER_PROC_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/file.h"
#include "common/status.h"
#include "kernels/ops.h"

enum { TENSOR_MAX_DIMS = 8 };

struct tensor {
    const char *name; /* borrowed from the file's arena */
    const char *type; /* as the file has it: "F32", or one that nobody here knows */
    bool is_float;    /* one of enum dtype */
    enum dtype dtype; /* when is_float */
    int32_t num_dims;
    int64_t shape[TENSOR_MAX_DIMS];
    const void *data; /* borrowed from the map; need not be aligned */
    size_t offset, size;
};

struct safetensors {
    struct file_map map;
    struct arena arena;
    struct tensor *tensors; /* [num_tensors], by name; borrowed from the arena */
    size_t num_tensors;
};

/* Errors name the file. A Git LFS pointer is recognised and said so. */
MUST_CHECK struct status safetensors_open(struct safetensors *file, const char *path);
/* A zero is closed already. */
void safetensors_close(struct safetensors *file);

/* The same checks on bytes that the caller keeps. */
MUST_CHECK struct status safetensors_parse(struct safetensors *file, const void *data, size_t size);

/* NULL when there is none of that name. */
const struct tensor *safetensors_find(const struct safetensors *file, const char *name);

#endif
