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

static inline void copy_async(uint32_t to, const void *from, bool is_there)
{
    emulated_piece(to, is_there ? from : NULL);
}

static inline void copies_commit()
{
    emulated_pieces_commit();
}

template <int LEFT> static inline void copies_wait()
{
    emulated_pieces_wait(LEFT);
}

#endif
