/*
 * cluster.cuh - blocks of one cluster (compute capability 9.0 and later): their barrier, and each
 * other's shared memory. Elsewhere a cluster is one block, and all of this is that block's own.
 */
#ifndef KERNELS_CUDA_CLUSTER_CUH
#define KERNELS_CUDA_CLUSTER_CUH

#include "kernels/cuda/cuda_util.cuh"

static __device__ __forceinline__ int cluster_rank()
{
    uint32_t rank = 0;

#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return (int)rank;
}

static __device__ __forceinline__ int cluster_size()
{
    uint32_t size = 1;

#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
#endif
    return (int)size;
}

/* All threads of all blocks; what was written to any shared memory before it is seen after it. */
static __device__ __forceinline__ void cluster_sync()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#else
    __syncthreads();
#endif
}

/*
 * All threads of all blocks, and no more: what was written need not be seen, and loads from another
 * block whose values nobody has used yet, and stores and arrivals there, may still be under way. To
 * leave no trace of these takes cluster_sync(), which waits for all writes to memory, too.
 */
static __device__ __forceinline__ void cluster_meet()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"
                 "barrier.cluster.wait.aligned;" ::
                     : "memory");
#else
    __syncthreads();
#endif
}

/* The same place of shared memory in the block of that rank, for the functions below. */
static __device__ __forceinline__ uint32_t cluster_map(uint32_t address, int rank)
{
#if __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
#else
    (void)rank;
#endif
    return address;
}

static __device__ __forceinline__ uint32_t cluster_address(const void *shared, int rank)
{
    return cluster_map((uint32_t)__cvta_generic_to_shared(shared), rank);
}

#if __CUDA_ARCH__ >= 900
#define CLUSTER_SPACE "shared::cluster"
#else
#define CLUSTER_SPACE "shared"
#endif

static __device__ __forceinline__ uint64_t cluster_load(uint32_t address)
{
    uint64_t value;

    asm volatile("ld." CLUSTER_SPACE ".u64 %0, [%1];" : "=l"(value) : "r"(address) : "memory");
    return value;
}

static __device__ __forceinline__ float4 cluster_load_float4(uint32_t address)
{
    float4 v;

    asm volatile("ld." CLUSTER_SPACE ".v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

static __device__ __forceinline__ int cluster_load_int(uint32_t address)
{
    int value;

    asm volatile("ld." CLUSTER_SPACE ".u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

static __device__ __forceinline__ void cluster_store(uint32_t address, uint64_t value)
{
    asm volatile("st." CLUSTER_SPACE ".u64 [%0], %1;" ::"r"(address), "l"(value) : "memory");
}

/* Adds to an int32 and returns what it was. */
static __device__ __forceinline__ int cluster_add(uint32_t address, int value)
{
    int old;

    asm volatile("atom." CLUSTER_SPACE ".add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "r"(address), "r"(value)
                 : "memory");
    return old;
}

#endif
