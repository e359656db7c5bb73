/*
 * copy_async.cuh - stands in for kernels/cuda/copy_async.cuh.
 */
#ifndef KERNELS_CUDA_COPY_ASYNC_CUH
#define KERNELS_CUDA_COPY_ASYNC_CUH

#include "kernels/cuda/cuda_util.cuh"

static inline uint32_t shared_address(const void *p)
{
    return emulated_address(p);
}

#endif
