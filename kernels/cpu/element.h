/*
 * element.h - single numbers of the three dtypes: to float32 and back, to nearest even.
 */
#ifndef KERNELS_CPU_ELEMENT_H
#define KERNELS_CPU_ELEMENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/ops.h"

static inline uint32_t float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float bits_float(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float bf16_to_f32(uint16_t value)
{
    return bits_float((uint32_t)value << 16);
}

/* NaN stays NaN: a mantissa that would round to zero keeps its quiet bit. */
static inline uint16_t f32_to_bf16(float value)
{
    uint32_t bits = float_bits(value);

    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline float f16_to_f32(uint16_t value)
{
    uint32_t sign = (uint32_t)(value & 0x8000) << 16;
    uint32_t magnitude = value & 0x7FFF;

    if (magnitude >= 0x7C00) /* infinity, NaN */
        return bits_float(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
    if (magnitude < 0x400) /* subnormal: a multiple of 2^-24 */
        return bits_float(float_bits((float)magnitude * 0x1.0p-24f) | sign);
    return bits_float(sign | ((magnitude << 13) + ((127 - 15) << 23)));
}

/* Element i of an array of any dtype. */
static inline float element_load(const void *data, enum dtype dtype, size_t i)
{
    switch (dtype) {
    case DTYPE_F32:
        return ((const float *)data)[i];
    case DTYPE_BF16:
        return bf16_to_f32(((const uint16_t *)data)[i]);
    case DTYPE_F16:
        return f16_to_f32(((const uint16_t *)data)[i]);
    }
    return 0;
}

/* Only to DTYPE_F32 and DTYPE_BF16. */
static inline void element_store(void *data, enum dtype dtype, size_t i, float value)
{
    if (dtype == DTYPE_F32)
        ((float *)data)[i] = value;
    else
        ((uint16_t *)data)[i] = f32_to_bf16(value);
}

#endif
