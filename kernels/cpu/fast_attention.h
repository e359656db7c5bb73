/* fast_attention.h - sizes that the fast attention and its workspace share. */
#ifndef KERNELS_CPU_FAST_ATTENTION_H
#define KERNELS_CPU_FAST_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

enum {
    ATTENTION_BLOCK = 128,        /* positions */
    ATTENTION_MAX_HEAD_DIM = 256, /* what the scratch of a thread holds */
};

/* Up to so many heads times tokens, blocks are computed apart and merged afterwards. */
static inline size_t attention_split_units(int32_t num_threads, int32_t num_qo_heads,
                                           int32_t num_kv_heads)
{
    size_t heads = (size_t)num_qo_heads;
    size_t units = 4 * (size_t)num_threads * (heads / (size_t)num_kv_heads);

    return units > heads ? units : heads;
}

#endif
