/*
 * order.h - the order in which sampling looks at tokens: descending logit, then ascending id.
 *
 * A key packs both into a number that ascends in that order.
 */
#ifndef KERNELS_CPU_ORDER_H
#define KERNELS_CPU_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/element.h"

static inline uint64_t order_key(float logit, int32_t id)
{
    uint32_t bits = float_bits(logit + 0.0f); /* -0 becomes 0: they are equal */
    uint32_t ascending = bits & 0x80000000 ? ~bits : bits | 0x80000000;

    return (uint64_t)~ascending << 32 | (uint32_t)id;
}

static inline int32_t order_id(uint64_t key)
{
    return (int32_t)(uint32_t)key;
}

/* Sorts ascending, in place, in n log n. */
void order_sort(uint64_t *keys, size_t n);

#endif
