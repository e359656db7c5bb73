/*
 * linear_tuner.cuh - what linear.cu knows of the ways to do a layer: which was the fastest.
 */
#ifndef KERNELS_CUDA_LINEAR_TUNER_CUH
#define KERNELS_CUDA_LINEAR_TUNER_CUH

#include "kernels/cuda/linear.cuh"

extern "C" {
#include "kernels/cuda/algo_cache.h"
}

enum { TUNER_SIZE = 4096 };

enum algo_origin {
    ALGO_STORED,  /* from the file, and not asked for yet */
    ALGO_GOOD,    /* timed here, or found to serve */
    ALGO_GUESSED, /* could not be timed: not for the file */
};

struct linear_tuner {
    struct algo_entry entries[TUNER_SIZE]; /* a hash table with open addressing, never full */
    int num_entries;
    int num_saved; /* of them, when the file was last written or read */
    enum algo_origin origins[TUNER_SIZE];
    int version;     /* of cuBLASLt */
    bool is_untimed; /* for sanitizers: the first algorithm that the heuristic offers */
    /* For tests: the number of a kernel of our own, which gets all layers that it can do, or
     * SPLIT_FIRST + n for the n-th way of linear_split.cu; or 0. */
    int forced;
    char card[256];
};

/* The entry of this key, or the free one where it belongs. */
struct algo_entry *linear_tuner_find(struct linear_tuner *tuner, const struct algo_entry *key);

void linear_tuner_put(struct linear_tuner *tuner, const struct algo_entry *entry,
                      enum algo_origin origin);

#endif
