/*
 * cuda_util.cuh - what the CUDA files share: the device and its streams, statuses, launches, and a
 * few lines of device code for conversions, vector loads and reductions.
 *
 * Kernels are launched with programmatic dependent launch where the card has it (9.0 and later): a
 * kernel may start while the one before it ends. So each kernel calls pdl_wait() before it touches
 * anything that an earlier kernel wrote or still reads; what it may do before that is to read
 * weights. pdl_launch() lets the next kernel start; it orders nothing. rope_kv waits first and lets
 * the next start afterwards, which is what allows decode attention to read the step's tables, and
 * the K and V of earlier steps, before its own wait: also in a mixed step, where the prefill kernel
 * stands between, which starts behind rope_kv's wait.
 */
#ifndef KERNELS_CUDA_CUDA_UTIL_CUH
#define KERNELS_CUDA_CUDA_UTIL_CUH

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

extern "C" {
#include "kernels/cuda/cuda_ops.h"
}

enum {
    WARP = 32,
    NUM_COUNTERS = 1 << 16,       /* of a stream: blocks or warps that share a sum meet at them */
    RING_SLOTS = 2,               /* pinned buffers through which weights are loaded */
    RING_SLOT_SIZE = 16 << 20,    /* bytes */
    LT_WORKSPACE_SIZE = 64 << 20, /* bytes of cuBLAS's scratch memory */
    BLOCK_RESERVE = 1024,         /* bytes of shared memory that a block takes besides its own */
    SMALL_SHARED = 80 << 10,      /* of a multiprocessor's: see prefer_cache() */
};

struct linear_tuner; /* linear_tuner.cuh: which way serves which layer */

struct device {
    int ordinal;
    int num_sms;
    int architecture;     /* that the code in use was compiled for: 90 for 9.0 */
    int max_shared_bytes; /* of a block that asks for it */
    bool has_pdl;         /* a kernel may start while the one before it ends */
    bool has_wgmma;       /* the code in use is sm_90a's */
    void *encode_tiled;   /* the driver's cuTensorMapEncodeTiled, or NULL */
    cublasLtHandle_t lt;
    void *lt_workspace;         /* owned, device: linear layers run in one stream at a time */
    struct linear_tuner *tuner; /* owned */
    cudaStream_t clock_stream;  /* where the base event is recorded */
    cudaEvent_t base_event;
    int64_t base_ns; /* when base_event was done, on the host's clock */
    struct {
        void *host;       /* owned, pinned, made at the first use */
        void *dev;        /* owned: where parts of another dtype wait for their conversion */
        cudaEvent_t idle; /* the slot's last copy is done */
    } ring[RING_SLOTS];
};

struct stream {
    struct device *device;
    cudaStream_t cuda;
    int32_t *counters; /* owned, device, [NUM_COUNTERS], zero between kernels */
    bool has_guessed;  /* an operator of the capture under way did not know its fastest way */
};

/* STATUS_OK, or STATUS_DEVICE (STATUS_NO_MEMORY) that names what failed. */
static inline struct status cuda_status(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return status_ok();
    return status_error(error == cudaErrorMemoryAllocation ? STATUS_NO_MEMORY : STATUS_DEVICE,
                        "%s: %s", what, cudaGetErrorString(error));
}

/* Ends a launcher. With -Dkernel_sync=true the fault of a kernel shows here, under its own name. */
static inline struct status cuda_launched(struct stream *stream, cudaError_t error,
                                          const char *what)
{
#ifdef KERNEL_SYNC
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;

    if (error == cudaSuccess)
        error = cudaStreamIsCapturing(stream->cuda, &capture);
    if (error == cudaSuccess && capture == cudaStreamCaptureStatusNone)
        error = cudaStreamSynchronize(stream->cuda);
#else
    (void)stream;
#endif
    if (error != cudaSuccess)
        cudaGetLastError(); /* launch errors are reported once, here */
    return cuda_status(error, what);
}

/*
 * Launches on the caller's stream, overlapping the end of the kernel before where the card can;
 * cluster blocks together where it is more than 1 (compute capability 9.0).
 */
template <typename... Params, typename... Args>
static cudaError_t launch_cluster(struct stream *stream, void (*kernel)(Params...), dim3 grid,
                                  int cluster, int threads, size_t shared_bytes, Args... args)
{
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    unsigned num = 0;

    if (stream->device->has_pdl) {
        attributes[num].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[num++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        attributes[num].id = cudaLaunchAttributeClusterDimension;
        attributes[num].val.clusterDim.x = (unsigned)cluster;
        attributes[num].val.clusterDim.y = attributes[num].val.clusterDim.z = 1;
        num++;
    }
    config.gridDim = grid;
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream->cuda;
    config.attrs = attributes;
    config.numAttrs = num;
    return cudaLaunchKernelEx(&config, kernel, Params(args)...);
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

/*
 * For kernels that lean on the first-level cache: it gets a multiprocessor's memory but for
 * SMALL_SHARED, or what the card has next (100 KB on an H200). By default a kernel makes do with
 * what the one before has left, which is little behind a layer that fills the shared memory (decode
 * attention of 64 rows: 46 us instead of 38). The kernel before them asks for the same, so that
 * they may start while it runs: a multiprocessor divides its memory anew only when it has nothing
 * to run. Cards where SMALL_SHARED is the larger part are left to themselves.
 */
static inline cudaError_t prefer_cache(const struct stream *stream, const void *kernel)
{
    int all = stream->device->max_shared_bytes + BLOCK_RESERVE;

    if (2 * SMALL_SHARED > all)
        return cudaSuccess;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                ceil_div(100 * SMALL_SHARED, all));
}

static __device__ __forceinline__ void pdl_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static __device__ __forceinline__ void pdl_launch()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* The first num_threads of a block (a multiple of 32) wait for each other. */
static __device__ __forceinline__ void threads_sync(int num_threads)
{
    asm volatile("bar.sync 1, %0;" ::"r"(num_threads) : "memory");
}

static __device__ __forceinline__ float to_float(float x)
{
    return x;
}

static __device__ __forceinline__ float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

static __device__ __forceinline__ float to_float(__half x)
{
    return __half2float(x);
}

static __device__ __forceinline__ void store_float(float *y, float x)
{
    *y = x;
}

static __device__ __forceinline__ void store_float(__nv_bfloat16 *y, float x)
{
    *y = __float2bfloat16_rn(x);
}

static __device__ __forceinline__ float round_bf16(float x)
{
    return __bfloat162float(__float2bfloat16_rn(x));
}

/* Where the exponential is beyond 2^126 __fdividef() gives 0, which is as near as 1e-36. */
static __device__ __forceinline__ float silu_mul(float gate, float up)
{
    return __fdividef(gate, 1 + __expf(-gate)) * up;
}

/* 16 bytes of T, moved as one access. */
template <typename T> struct alignas(16) vec16 {
    enum { N = 16 / sizeof(T) };
    T v[N];
};

/* Read once and never written while the kernel runs: past the first-level cache. */
static __device__ __forceinline__ uint4 load_stream(const void *p)
{
    uint4 v;

    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

/* The same for what the kernel before may have written. */
static __device__ __forceinline__ uint4 load_once(const void *p)
{
    uint4 v;

    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

static __device__ __forceinline__ void prefetch_l2(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

/* Adds 1, and says what there was. What this thread wrote before, or knew of by a __syncwarp(), is
 * there for whoever counts behind it, and what others wrote before they counted is there for it. */
static __device__ __forceinline__ int32_t count_up(int32_t *counter)
{
    int32_t before;

    asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(counter)
                 : "memory");
    return before;
}

static __device__ __forceinline__ float warp_sum(float x)
{
    for (int i = WARP / 2; i > 0; i /= 2)
        x += __shfl_xor_sync(~0u, x, i);
    return x;
}

static __device__ __forceinline__ float warp_max(float x)
{
    for (int i = WARP / 2; i > 0; i /= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
    return x;
}

/* The sum over a block, in all its threads; shared holds a float for each warp. Every thread calls
 * it. */
static __device__ __forceinline__ float block_sum(float x, float *shared)
{
    int num_warps = (int)blockDim.x / WARP;
    float sum = 0;

    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int i = 0; i < num_warps; i++)
        sum += shared[i];
    return sum;
}

#endif
