/*
 * cuda_util.cuh - stands in for kernels/cuda/cuda_util.cuh: CUDA's words, and what the kernels
 * need of it.
 */
#ifndef KERNELS_CUDA_CUDA_UTIL_CUH
#define KERNELS_CUDA_CUDA_UTIL_CUH

#include <math.h>
#include <string.h>

#include <algorithm>

extern "C" {
#include "kernels/cuda/cuda_ops.h"
}
#include "tests/gpu/emulated/gpu.h"

using std::max;
using std::min;

#define __CUDA_ARCH__             900
#define __CUDA_ARCH_FEAT_SM90_ALL 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __align__(n)    __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__    thread_local /* a block is a thread of the host */
#define __syncthreads emulated_block_sync
#define __syncwarp    emulated_warp_sync

struct uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct __nv_bfloat16 {
    uint16_t bits;
};

static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}

static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

static inline float __uint_as_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Of four bytes each: what lane from has, or this one where there is no such lane. */
template <typename T> static inline T lane_value(T x, int from)
{
    const struct emulated_words *all;
    int lane = (int)threadIdx.x % WARP;
    uint32_t word;

    static_assert(sizeof(x) == sizeof(word), "");
    memcpy(&word, &x, sizeof(word));
    all = emulated_exchange(&word, 1);
    memcpy(&x, &all[from < 0 || from >= WARP ? lane : from].v[0], sizeof(x));
    emulated_warp_sync();
    return x;
}

template <typename T> static inline T __shfl_sync(unsigned, T x, int from)
{
    return lane_value(x, from % WARP);
}

template <typename T> static inline T __shfl_xor_sync(unsigned, T x, int mask)
{
    return lane_value(x, (int)threadIdx.x % WARP ^ mask);
}

template <typename T> static inline T __shfl_up_sync(unsigned, T x, int by)
{
    return lane_value(x, (int)threadIdx.x % WARP - by);
}

static inline unsigned __ballot_sync(unsigned, bool x)
{
    const uint32_t own = x;
    const struct emulated_words *all = emulated_exchange(&own, 1);
    unsigned ballot = 0;

    for (int i = 0; i < WARP; i++)
        ballot |= all[i].v[0] << i;
    emulated_warp_sync();
    return ballot;
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

template <typename T> static inline T __ldcg(const T *p)
{
    return *p;
}

typedef int cudaError_t;
enum { cudaSuccess, cudaErrorInvalidValue, cudaFuncAttributeMaxDynamicSharedMemorySize };

struct device {
    int num_sms, architecture, max_shared_bytes;
    bool has_wgmma;
    void *encode_tiled;
};

struct stream {
    struct device *device;
    int32_t *counters;
};

template <typename Kernel> static cudaError_t cudaFuncSetAttribute(Kernel, int, int)
{
    return cudaSuccess;
}

static inline struct status cuda_launched(struct stream *, cudaError_t error, const char *what)
{
    return error ? status_error(STATUS_DEVICE, "%s: not a launch that a card takes", what)
                 : status_ok();
}

template <typename... Params, typename... Args>
static cudaError_t launch_cluster(struct stream *stream, void (*kernel)(Params...), dim3 grid,
                                  int cluster, int threads, size_t shared_bytes, Args... args)
{
    if (grid.x % (unsigned)cluster || cluster > 8 || threads > 1024 || threads % WARP ||
        (int)shared_bytes > stream->device->max_shared_bytes - 1024)
        return cudaErrorInvalidValue;
    emulated_launch(grid.x, cluster, threads, shared_bytes, [=] { kernel(Params(args)...); });
    return cudaSuccess;
}

template <typename... Params, typename... Args>
static cudaError_t launch(struct stream *stream, void (*kernel)(Params...), dim3 grid, int threads,
                          size_t shared_bytes, Args... args)
{
    return launch_cluster(stream, kernel, grid, 1, threads, shared_bytes, args...);
}

static inline int ceil_div(int64_t a, int64_t b)
{
    return (int)((a + b - 1) / b);
}

static inline void pdl_wait()
{
    emulated_pdl_wait();
}

static inline void pdl_launch()
{
}

static inline void threads_sync(int num_threads)
{
    emulated_threads_sync(num_threads);
}

/* Blocks run one after another, and so do threads between their meetings. */
static inline int32_t count_up(int32_t *counter)
{
    return (*counter)++;
}

static inline float to_float(__nv_bfloat16 x)
{
    return __uint_as_float((uint32_t)x.bits << 16);
}

static inline uint32_t bits_of_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return x != x ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

static inline void store_float(__nv_bfloat16 *y, float x)
{
    y->bits = (uint16_t)bits_of_bf16(x);
}

static inline float round_bf16(float x)
{
    return __uint_as_float(bits_of_bf16(x) << 16);
}

static inline float silu_mul(float gate, float up)
{
    return gate / (1 + expf(-gate)) * up;
}

#endif
