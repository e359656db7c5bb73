/*
 * element.h - numbers of the three dtypes: to float32 and back, to nearest even. They are read from
 * and written to any address: what stands in a mapped file need not be aligned.
 */
#ifndef KERNELS_ELEMENT_H
#define KERNELS_ELEMENT_H

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

static inline uint16_t load_half(const void *data, size_t i)
{
    uint16_t half;

    memcpy(&half, (const char *)data + i * sizeof(half), sizeof(half));
    return half;
}

/* Element i of an array of any dtype. */
static inline float element_load(const void *data, enum dtype dtype, size_t i)
{
    float value = 0;

    switch (dtype) {
    case DTYPE_F32:
        memcpy(&value, (const char *)data + i * sizeof(value), sizeof(value));
        break;
    case DTYPE_BF16:
        value = bf16_to_f32(load_half(data, i));
        break;
    case DTYPE_F16:
        value = f16_to_f32(load_half(data, i));
        break;
    }
    return value;
}

/* Only to DTYPE_F32 and DTYPE_BF16. */
static inline void element_store(void *data, enum dtype dtype, size_t i, float value)
{
    uint16_t half = f32_to_bf16(value);

    if (dtype == DTYPE_F32)
        memcpy((char *)data + i * sizeof(value), &value, sizeof(value));
    else
        memcpy((char *)data + i * sizeof(half), &half, sizeof(half));
}

/* count values from one dtype to another, only to DTYPE_F32 and DTYPE_BF16 unless it is the same.
 */
static inline void element_convert(void *dst, enum dtype dst_dtype, const void *src,
                                   enum dtype src_dtype, size_t count)
{
    if (dst_dtype == src_dtype) {
        memcpy(dst, src, count * dtype_size(dst_dtype));
        return;
    }
    for (size_t i = 0; i < count; i++)
        element_store(dst, dst_dtype, i, element_load(src, src_dtype, i));
}

#endif
