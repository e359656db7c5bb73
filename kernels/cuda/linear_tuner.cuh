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

struct linear_tuner {
    struct algo_entry entries[TUNER_SIZE]; /* a hash table with open addressing, never full */
    int num_entries;
    int num_saved;            /* of them, when the file was last written or read */
    bool is_good[TUNER_SIZE]; /* of an entry: timed here, or asked for once */
    int version;              /* of cuBLASLt */
    bool is_untimed;          /* for sanitizers: the first algorithm that the heuristic offers */
    /* For tests: the number of a kernel of our own, all of whose layers go there, or SPLIT_FIRST +
     * n for the n-th way of linear_split.cu; or 0. */
    int forced;
    char card[256];
};

/* The entry of this key, or the free one where it belongs. */
struct algo_entry *linear_tuner_find(struct linear_tuner *tuner, const struct algo_entry *key);

/* is_good: it was timed here, and need not be checked. */
void linear_tuner_put(struct linear_tuner *tuner, const struct algo_entry *entry, bool is_good);

#endif
