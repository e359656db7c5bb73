/*
 * cuda.h - of the CUDA driver's header what kernels/cuda/tma.cuh needs, so that it compiles
 * without.
 */
#ifndef TESTS_GPU_EMULATED_INCLUDE_CUDA_H
#define TESTS_GPU_EMULATED_INCLUDE_CUDA_H

#include <stdint.h>

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef int CUresult;
enum { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE };

/* A matrix of up to four dimensions, the first without gaps, and the box that a copy takes of it.
 */
struct CUtensorMap {
    const unsigned char *base;
    cuuint64_t sizes[4], strides[4]; /* strides: in bytes */
    cuuint32_t box[4];
};

enum {
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    CU_TENSOR_MAP_INTERLEAVE_NONE,
    CU_TENSOR_MAP_SWIZZLE_128B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
};

#endif
