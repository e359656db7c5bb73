/*
 * cluster.cuh - stands in for kernels/cuda/cluster.cuh.
 */
#ifndef KERNELS_CUDA_CLUSTER_CUH
#define KERNELS_CUDA_CLUSTER_CUH

#include "kernels/cuda/cuda_util.cuh"

static inline int cluster_rank()
{
    return emulated_rank();
}

static inline int cluster_size()
{
    return emulated_cluster_size();
}

static inline void cluster_sync()
{
    emulated_cluster_sync();
}

static inline void cluster_meet()
{
    emulated_cluster_meet();
}

static inline uint32_t cluster_map(uint32_t address, int rank)
{
    return address | (uint32_t)(rank + 1) << 24;
}

static inline float4 cluster_load_float4(uint32_t address)
{
    float4 v;

    memcpy(&v, emulated_shared(address, sizeof(v)), sizeof(v));
    return v;
}

#endif
