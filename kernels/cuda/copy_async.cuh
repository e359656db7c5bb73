/*
 * copy_async.cuh - copies from memory to shared memory that pass no registers, and whom they serve.
 */
#ifndef KERNELS_CUDA_COPY_ASYNC_CUH
#define KERNELS_CUDA_COPY_ASYNC_CUH

#include "kernels/cuda/cuda_util.cuh"

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* 16 bytes of global memory, or zeros. */
static __device__ __forceinline__ void copy_async(uint32_t to, const void *from, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_there ? 16 : 0));
}

static __device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;");
}

template <int LEFT> static __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
}

/* What this thread has stored in shared memory may be read by the copy engine, and by wgmma, from
 * here on. */
static __device__ __forceinline__ void shared_written()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#endif
