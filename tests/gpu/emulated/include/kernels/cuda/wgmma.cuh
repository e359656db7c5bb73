/*
 * wgmma.cuh - stands in for kernels/cuda/wgmma.cuh.
 */
#ifndef KERNELS_CUDA_WGMMA_CUH
#define KERNELS_CUDA_WGMMA_CUH

#include "kernels/cuda/cuda_util.cuh"

enum { WARPGROUP = 4 * WARP };

/* In pieces of 16 bytes, as on a card. */
static inline uint64_t wgmma_matrix(uint32_t address)
{
    return (address & 0x3FFFF) >> 4;
}

template <int N> static inline void wgmma(float *c, uint64_t a, uint64_t b)
{
    static_assert(N % 8 == 0 && N <= 256, "");
    emulated_wgmma(c, a, b, N);
}

static inline void wgmma_begin()
{
    emulated_warp_sync();
}

static inline void wgmma_commit()
{
    emulated_wgmma_commit();
}

template <int LEFT> static inline void wgmma_wait()
{
    emulated_wgmma_wait(LEFT);
}

template <int N> static inline void wgmma_settle(float *)
{
}

#endif
