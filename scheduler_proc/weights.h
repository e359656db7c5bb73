/*
 * weights.h - the tensors of a model's directory by name, or random ones in their stead.
 *
 * With model.safetensors.index.json the index decides which file holds which tensor; else
 * model.safetensors holds all. What a directory has besides is ignored, and said in `warning`.
 */
#ifndef SCHEDULER_PROC_WEIGHTS_H
#define SCHEDULER_PROC_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/ops.h"
#include "scheduler_proc/safetensors.h"
#include "scheduler_proc/weights_dummy.h"

struct weight_entry {
    const struct tensor *tensor; /* borrowed from one of the files */
    bool is_used;                /* weights_get has found it */
};

struct weights {
    struct safetensors *files; /* owned, [num_files] */
    size_t num_files;
    struct weight_entry *entries; /* owned, [num_entries], by name */
    size_t num_entries;
    struct weights_dummy dummy; /* owned: empty unless they are dummies */
    char warning[124];          /* what was ignored, or "" */
};

/* A tensor's values in host memory, row-major. */
struct weight_view {
    const void *data; /* borrowed from the weights; a file may have it unaligned */
    enum dtype dtype;
    size_t count; /* elements */
};

/* Missing files, damaged ones and tensors that stand in no file are errors that name them. */
MUST_CHECK struct status weights_open(struct weights *weights, const char *dir);

/* Dummies (weights_dummy.h) of at most max_count elements: to be copied, not borrowed. */
MUST_CHECK struct status weights_open_dummy(struct weights *weights, enum dtype dtype,
                                            size_t max_count);
void weights_close(struct weights *weights);

/* cols 0: a vector of rows elements. A missing tensor, another shape or type are errors that name
 * it. */
MUST_CHECK struct status weights_get(struct weights *weights, const char *name, int64_t rows,
                                     int64_t cols, struct weight_view *out);

/* How many tensors nothing has asked for; *out_first is one of them. */
size_t weights_num_unused(const struct weights *weights, const char **out_first);

/* Gives the memory of the mapped files back. What is borrowed of them comes back from the page
 * cache when it is next touched. */
void weights_drop_pages(const struct weights *weights);

/* Bytes of all files. */
size_t weights_size(const struct weights *weights);

#endif
