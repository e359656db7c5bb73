/*
 * simd.h - float vectors of the instruction set that this file is compiled for.
 *
 * VF_LANES is 16 with AVX-512, 8 with AVX2, 4 elsewhere. Sums over lanes have one fixed order. The
 * names vf, vi and vu are typedefs because a vector type cannot be written out otherwise.
 */
#ifndef KERNELS_CPU_SIMD_H
#define KERNELS_CPU_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/element.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SIMD_INLINE static inline __attribute__((always_inline, unused))

#if defined(__AVX512F__)
#define VF_LANES 16
#elif defined(__AVX2__)
#define VF_LANES 8
#else
#define VF_LANES 4
#endif

typedef float vf __attribute__((vector_size(VF_LANES * 4)));
typedef int32_t vi __attribute__((vector_size(VF_LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(VF_LANES * 4)));

SIMD_INLINE vf vf_set1(float x)
{
#if defined(__AVX512F__)
    return _mm512_set1_ps(x);
#elif defined(__AVX2__)
    return _mm256_set1_ps(x);
#else
    return (vf){x, x, x, x};
#endif
}

SIMD_INLINE vi vi_set1(int32_t x)
{
#if defined(__AVX512F__)
    return (vi)_mm512_set1_epi32(x);
#elif defined(__AVX2__)
    return (vi)_mm256_set1_epi32(x);
#else
    return (vi){x, x, x, x};
#endif
}

SIMD_INLINE vf vf_load(const void *data)
{
    vf x;

    memcpy(&x, data, sizeof(x));
    return x;
}

SIMD_INLINE void vf_store(void *data, vf x)
{
    memcpy(data, &x, sizeof(x));
}

/* a * b + c, rounded once where the CPU can. */
SIMD_INLINE vf vf_fma(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

/* yes where mask is all ones, no where it is zero. */
SIMD_INLINE vf vf_select(vi mask, vf yes, vf no)
{
    return (vf)(((vi)yes & mask) | ((vi)no & ~mask));
}

/* Bit i is set where lane i of a mask is. */
SIMD_INLINE uint32_t vi_bits(vi mask)
{
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps((__m256)mask);
#else
    uint32_t bits = 0;

    for (int i = 0; i < VF_LANES; i++)
        bits |= mask[i] ? 1u << i : 0;
    return bits;
#endif
}

/* Of numbers; b where one is NaN. */
SIMD_INLINE vf vf_max(vf a, vf b)
{
#if defined(__AVX512F__)
    return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
    return _mm256_max_ps(a, b);
#else
    return vf_select((vi)(a > b), a, b);
#endif
}

/* The sum of all lanes, halves upon halves. */
SIMD_INLINE float vf_sum(vf x)
{
    float lanes[VF_LANES];

    vf_store(lanes, x);
    for (int width = VF_LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lanes[i] += lanes[i + width];
    return lanes[0];
}

SIMD_INLINE float vf_largest(vf x)
{
    float lanes[VF_LANES];

    vf_store(lanes, x);
    for (int width = VF_LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
    return lanes[0];
}

/* e^x within 2 roundings; 0 below -87.3, infinity above 88.7, NaN for NaN. */
SIMD_INLINE vf vf_exp(vf x)
{
    const vf magic = vf_set1(0x1.8p23f); /* puts a small integer into the lowest bits */
    const vf lowest = vf_set1(-87.33654f), highest = vf_set1(88.72283f);
    vf shifted = vf_fma(x, vf_set1(0x1.715476p+0f), magic);
    vf n = shifted - magic;
    vf r = vf_fma(n, vf_set1(-0x1.62e4p-1f), x); /* ln 2 in two parts */
    r = vf_fma(n, vf_set1(-0x1.7f7d1cp-20f), r);
    vf p = vf_set1(0x1.6d7c4p-10f); /* the series, fitted on |r| <= ln 2 / 2 */
    p = vf_fma(p, r, vf_set1(0x1.1276b6p-7f));
    p = vf_fma(p, r, vf_set1(0x1.5554a6p-5f));
    p = vf_fma(p, r, vf_set1(0x1.5553f6p-3f));
    p = vf_fma(p, r, vf_set1(0x1p-1f));
    p = vf_fma(p, r, vf_set1(1));
    p = vf_fma(p, r, vf_set1(1));
    /* 2^n in two factors: n reaches 128 */
    vu whole = (vu)shifted - (vu)magic;
    vu half = (vu)((vi)whole >> 1);
    vf result = p * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
    result = vf_select((vi)(x < lowest), vf_set1(0), result);
    return vf_select((vi)(x > highest), vf_set1(INFINITY), result);
}

/* VF_LANES numbers of bfloat16. */
SIMD_INLINE vf vf_load_bf16(const uint16_t *data)
{
#if defined(__AVX512F__)
    __m256i half = _mm256_loadu_si256((const void *)data);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
#elif defined(__AVX2__)
    __m128i half = _mm_loadu_si128((const void *)data);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
#else
    vf x = {bf16_to_f32(data[0]), bf16_to_f32(data[1]), bf16_to_f32(data[2]), bf16_to_f32(data[3])};
    return x;
#endif
}

/* To nearest even; NaN stays NaN. */
SIMD_INLINE void vf_store_bf16(uint16_t *data, vf x)
{
    vu bits = (vu)x;
    vu rounded = bits + 0x7FFF + ((bits >> 16) & 1);
    vu is_nan = (vu)(x != x);
    vu result = (rounded & ~is_nan) | ((bits | 0x400000) & is_nan);
#if defined(__AVX512F__)
    __m512i high = _mm512_srli_epi32((__m512i)result, 16);
    _mm256_storeu_si256((void *)data, _mm512_cvtepi32_epi16(high));
#else
    for (int i = 0; i < VF_LANES; i++)
        data[i] = (uint16_t)(result[i] >> 16);
#endif
}

/* Of words of two bfloat16, the lower ones and the upper ones. */
SIMD_INLINE vf vf_lower_half(vf words)
{
    return (vf)((vi)words << 16);
}

SIMD_INLINE vf vf_upper_half(vf words)
{
    return (vf)((vi)words & (int32_t)0xFFFF0000);
}

/* Elements i .. of an array; n < VF_LANES fills the rest with zeros. */
SIMD_INLINE vf vf_load_row(const void *data, enum dtype dtype, size_t i, size_t n)
{
    if (n >= VF_LANES)
        return dtype == DTYPE_F32 ? vf_load((const float *)data + i)
                                  : vf_load_bf16((const uint16_t *)data + i);
    float lanes[VF_LANES] = {0};
    for (size_t lane = 0; lane < n; lane++)
        lanes[lane] = element_load(data, dtype, i + lane);
    return vf_load(lanes);
}

SIMD_INLINE void vf_store_row(void *data, enum dtype dtype, size_t i, size_t n, vf x)
{
    if (n >= VF_LANES) {
        if (dtype == DTYPE_F32)
            vf_store((float *)data + i, x);
        else
            vf_store_bf16((uint16_t *)data + i, x);
        return;
    }
    float lanes[VF_LANES];
    vf_store(lanes, x);
    for (size_t lane = 0; lane < n; lane++)
        element_store(data, dtype, i + lane, lanes[lane]);
}

#endif
