/*
 * barrier.cuh - barriers in shared memory that count bytes (cards from 9.0 on), and the tiles whose
 * bytes they count: one thread asks the copy engine for them, by a map of tma.cuh.
 */
#ifndef KERNELS_CUDA_BARRIER_CUH
#define KERNELS_CUDA_BARRIER_CUH

#include <cuda.h>

#include "kernels/cuda/cuda_util.cuh"

#if __CUDA_ARCH__ >= 900

/* A barrier of 8 bytes in shared memory: a phase ends with the last of count arrivals and of the
 * bytes that were expected. Phases are told apart by their parity, the first is 0. */
static __device__ __forceinline__ void barrier_init(uint32_t barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/* To be called by who has made barriers, before others learn of them. */
static __device__ __forceinline__ void barriers_made()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/*
 * The same at a barrier of another block of the cluster (an address from cluster_map()). It says
 * that a stage has been read and orders nothing written: .release.cluster would put a fence of all
 * memory before every arrival, which made gate_up_many.cu a fifth to two fifths slower.
 */
static __device__ __forceinline__ void barrier_arrive_at(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

static __device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void barrier_wait(uint32_t barrier, int parity)
{
    uint32_t is_done;

    do {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(is_done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!is_done);
}

/* The tile that begins at (row, column), to be counted by barrier. */
static __device__ __forceinline__ void tile_load(uint32_t to, const CUtensorMap *map, int row,
                                                 int column, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

/* The same for several blocks of the cluster, a bit each: to the same place in each, counted by the
 * barrier in the same place. */
static __device__ __forceinline__ void tile_load_for(uint32_t to, const CUtensorMap *map, int row,
                                                     int column, uint32_t barrier, uint32_t blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes."
                 "multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier), "h"((uint16_t)blocks)
                 : "memory");
}

/* The tiles that begin at row and at chunk, of a map by tiles_map_init(). */
static __device__ __forceinline__ void tiles_load(uint32_t to, const CUtensorMap *map, int row,
                                                  int chunk, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %2, %4}], [%5];" ::"r"(to),
                 "l"(map), "r"(0), "r"(row), "r"(chunk), "r"(barrier)
                 : "memory");
}

static __device__ __forceinline__ void tile_map_prefetch(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

#endif
#endif
