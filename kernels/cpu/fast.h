/*
 * fast.h - the operators that are compiled once for each instruction set; SIMD_SET is its name.
 */
#ifndef KERNELS_CPU_FAST_H
#define KERNELS_CPU_FAST_H

#include "kernels/cpu/cpu_kernels.h"

#define SIMD_JOIN2(set, name) set##_##name
#define SIMD_JOIN(set, name)  SIMD_JOIN2(set, name)
#define SIMD_NAME(name)       SIMD_JOIN(SIMD_SET, name)

void SIMD_NAME(embed)(struct stream *stream, const void *args);
void SIMD_NAME(rmsnorm)(struct stream *stream, const void *args);
void SIMD_NAME(linear)(struct stream *stream, const void *args);
void SIMD_NAME(rope_kv)(struct stream *stream, const void *args);
void SIMD_NAME(attention)(struct stream *stream, const void *args);
void SIMD_NAME(silu_mul)(struct stream *stream, const void *args);
void SIMD_NAME(moe)(struct stream *stream, const void *args);
void SIMD_NAME(sample)(struct stream *stream, const void *args);

extern const struct cpu_kernels SIMD_NAME(kernels);

#endif
