/*
 * algo_cache.h - which algorithm serves which linear layer, kept in a file from one start to the
 * next. Plain C, so that it is tested without a card.
 *
 *   $XDG_CACHE_HOME/minisgl/linear-NVIDIA-H200-130100.txt      (without it: ~/.cache/minisgl/...)
 *
 *   minisgl linear algorithms 7
 *   NVIDIA H200 cuBLAS 130100
 *   2048 1024 64 256 1 1 1 0 0 0 0000000000000042 ...      a line for each entry: fields in order
 *   end 1
 *
 * A file of another version, card or library, one that is cut off or damaged, or none at all are
 * the same: no entries. Nothing here is ever an error, since all of it can be timed anew.
 */
#ifndef KERNELS_CUDA_ALGO_CACHE_H
#define KERNELS_CUDA_ALGO_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ALGO_WORDS = 8 };

struct algo_entry {
    int32_t n, k, bucket, alignment; /* bucket: of token counts; 0 in an entry that is free */
    int32_t dtype, y_dtype;
    int32_t accumulate, has_bias, is_gated; /* is_gated: gate_up of ops.h, all of it */
    int32_t own;                            /* a kernel of our own, by its number, or 0 */
    uint64_t algo[ALGO_WORDS]; /* cuBLASLt's, which may be stored for the same version */
};

/* What the file holds for this card and library: at most max entries; returns how many. */
int algo_cache_load(const char *card, int version, struct algo_entry *out, int max);

/* Puts a new file in the place of the old one, in one step. false: it could not. */
bool algo_cache_save(const char *card, int version, const struct algo_entry *entries, int num);

#endif
