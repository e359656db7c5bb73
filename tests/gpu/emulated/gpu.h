/*
 * gpu.h - a Hopper card for the host's compiler: kernels of kernels/cuda run as they are written,
 * where there is no card.
 *
 * It is included ahead of a .cu file by the compiler's command line, and stands in for
 * cuda_util.cuh, copy_async.cuh, barrier.cuh, cluster.cuh, mma.cuh and wgmma.cuh, where the card's
 * instructions are (it takes their include guards); all else is the real text.
 *
 * A block is a thread of the host. Its own threads take turns there, each on a stack of its own,
 * warps in an order that is never the same; blocks of a cluster run side by side, clusters one
 * after another. With emulated_late what a card does in the background, copies and wgmma, is done
 * as late as a card may do it: who looks without having waited sees something else.
 *
 * Not emulated: time, memory's weak order, and kernels that overlap (pdl_wait() returns at once).
 */
#ifndef TESTS_GPU_EMULATED_GPU_H
#define TESTS_GPU_EMULATED_GPU_H

#define KERNELS_CUDA_CUDA_UTIL_CUH
#define KERNELS_CUDA_COPY_ASYNC_CUH
#define KERNELS_CUDA_BARRIER_CUH
#define KERNELS_CUDA_CLUSTER_CUH
#define KERNELS_CUDA_MMA_CUH
#define KERNELS_CUDA_WGMMA_CUH

#include <cuda.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <functional>

extern "C" {
#include "kernels/cuda/cuda_ops.h"
}

using std::max;
using std::min;

/* The language. */
#define __CUDA_ARCH__             900
#define __CUDA_ARCH_FEAT_SM90_ALL 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__    thread_local /* a block is a thread of the host */
#define __syncthreads emulated_block_sync
#define __syncwarp    emulated_warp_sync

struct dim3 {
    unsigned x, y, z;

    dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
        : x(x_size), y(y_size), z(z_size)
    {
    }
};
struct uint2 {
    unsigned x, y;
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

extern thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
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

/* The machine: gpu.cpp. Addresses of shared memory are a card's: an offset, and in the upper eight
 * bits 0 for the own block or the rank + 1 of another one of the cluster. */
extern bool emulated_late;

void emulated_block_sync();
void emulated_warp_sync();
void emulated_cluster_sync();
int emulated_rank();
int emulated_cluster_size();
/* size bytes of shared memory; ends the program where they are beyond the launch's. */
unsigned char *emulated_shared(uint32_t address, size_t size);
/* Every lane of the warp gives num words, and gets all that were given: [WARP][8]. */
typedef uint32_t emulated_words[8];
const emulated_words *emulated_exchange(const uint32_t *words, int num);
/* In the background: c [64, n] += a [64, 16] b [n, 16]^T, as wgmma.cuh has it. */
void emulated_wgmma(float *c, uint64_t a, uint64_t b, int n);
/* Copies the box of map that begins at at[4]. */
void emulated_copy(uint32_t to, const CUtensorMap *map, const int *at, uint32_t barrier);
void emulated_launch(unsigned num_blocks, int cluster, int num_threads, size_t shared_bytes,
                     const std::function<void()> &kernel);
/* As the driver's cuTensorMapEncodeTiled. */
CUresult emulated_encode(CUtensorMap *out, int type, cuuint32_t rank, void *base,
                         const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                         const cuuint32_t *steps, int interleave, int swizzle, int promotion,
                         int fill);

/* cuda_util.cuh */
enum { WARP = 32 };

typedef int cudaError_t;
enum { cudaSuccess, cudaErrorInvalidValue, cudaFuncAttributeMaxDynamicSharedMemorySize };

struct device {
    int num_sms, architecture, max_shared_bytes;
    bool has_wgmma;
    void *encode_tiled;
};

struct stream {
    struct device *device;
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
    if (grid.x % (unsigned)cluster || threads > 1024 || threads % WARP ||
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
}

static inline void pdl_launch()
{
}

void threads_sync(int num_threads);

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

/* copy_async.cuh */
uint32_t shared_address(const void *p);

/* barrier.cuh */
void barrier_init(uint32_t barrier, int count);
void barrier_arrive(uint32_t barrier);
void barrier_expect(uint32_t barrier, int bytes);
void barrier_wait(uint32_t barrier, int parity);

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

    emulated_copy(to, map, at, barrier);
}

static inline void tiles_load(uint32_t to, const CUtensorMap *map, int row, int chunk,
                              uint32_t barrier)
{
    const int at[4] = {0, row, 0, chunk};

    emulated_copy(to, map, at, barrier);
}

/* cluster.cuh */
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

/* mma.cuh */
static inline uint32_t pack_bf16(float low, float high)
{
    return bits_of_bf16(low) | bits_of_bf16(high) << 16;
}

static inline float element_of(uint32_t pair, int i)
{
    return __uint_as_float(i ? pair & 0xFFFF0000 : pair << 16);
}

static inline void mma_bf16(float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                            uint32_t b0, uint32_t b1)
{
    const uint32_t own[6] = {a0, a1, a2, a3, b0, b1};
    const emulated_words *all = emulated_exchange(own, 6);
    int lane = (int)threadIdx.x % WARP;

    for (int e = 0; e < 4; e++) {
        int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;

        for (int k = 0; k < 16; k++) {
            uint32_t a = all[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
            uint32_t b = all[column * 4 + k % 8 / 2][4 + k / 8];

            c[e] += element_of(a, k % 2) * element_of(b, k % 2);
        }
    }
    emulated_warp_sync();
}

static inline void load_fragments(uint32_t *r, uint32_t address)
{
    const emulated_words *rows = emulated_exchange(&address, 1);
    int lane = (int)threadIdx.x % WARP;

    for (int i = 0; i < 4; i++)
        memcpy(&r[i], emulated_shared(rows[i * 8 + lane / 4][0], 16) + lane % 4 * 4, sizeof(r[i]));
    emulated_warp_sync();
}

/* wgmma.cuh */
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

void wgmma_commit();
void emulated_wgmma_wait(int left);

template <int LEFT> static inline void wgmma_wait()
{
    emulated_wgmma_wait(LEFT);
}

template <int N> static inline void wgmma_settle(float *)
{
}

#endif
