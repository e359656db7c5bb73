/*
 * barrier.cuh - stands in for kernels/cuda/barrier.cuh.
 */
#ifndef KERNELS_CUDA_BARRIER_CUH
#define KERNELS_CUDA_BARRIER_CUH

#include "kernels/cuda/cuda_util.cuh"

static inline void barrier_init(uint32_t barrier, int count)
{
    emulated_barrier_init(barrier, count);
}

static inline void barrier_arrive(uint32_t barrier)
{
    emulated_barrier_arrive(barrier);
}

static inline void barrier_arrive_at(uint32_t barrier)
{
    emulated_barrier_arrive(barrier);
}

static inline void barrier_expect(uint32_t barrier, int bytes)
{
    emulated_barrier_expect(barrier, bytes);
}

static inline void barrier_wait(uint32_t barrier, int parity)
{
    emulated_barrier_wait(barrier, parity);
}

static inline void barriers_made()
{
}

static inline void tile_map_prefetch(const CUtensorMap *)
{
}

static inline void tile_load(uint32_t to, const CUtensorMap *map, int row, int column,
                             uint32_t barrier)
{
    const int at[4] = {column, row, 0, 0};

    emulated_copy(to, map, at, barrier, 0);
}

static inline void tile_load_for(uint32_t to, const CUtensorMap *map, int row, int column,
                                 uint32_t barrier, uint32_t blocks)
{
    const int at[4] = {column, row, 0, 0};

    emulated_copy(to, map, at, barrier, blocks);
}

static inline void tiles_load(uint32_t to, const CUtensorMap *map, int row, int chunk,
                              uint32_t barrier)
{
    const int at[4] = {0, row, 0, chunk};

    emulated_copy(to, map, at, barrier, 0);
}

#endif
