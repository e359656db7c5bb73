/*
 * wgmma.cuh - Hopper's tensor cores (sm_90a): four warps in a row multiply matrices that lie in
 * shared memory, in the background.
 *
 *     c [64, N] += a [64, 16] b [N, 16]^T
 *
 * a and b are pieces of tiles as tma.cuh brings them. Warp w of the four holds rows 16 w to 16 w +
 * 15 of c: c[4 j + 2 i + e] is row lane / 4 + 8 i, column 8 j + 2 (lane % 4) + e. Between
 * wgmma_begin() and wgmma_wait() nobody may touch c.
 */
#ifndef KERNELS_CUDA_WGMMA_CUH
#define KERNELS_CUDA_WGMMA_CUH

#include "kernels/cuda/cuda_util.cuh"

enum { WARPGROUP = 4 * WARP };

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Of a tile, or of 16 columns of one: add 32 bytes for the next 16. 8 rows are 1024 bytes. */
static __device__ __forceinline__ uint64_t wgmma_matrix(uint32_t address)
{
    const uint64_t swapped_128 = (uint64_t)1 << 62, bytes_of_8_rows = (uint64_t)(1024 >> 4) << 32;

    return swapped_128 | bytes_of_8_rows | (uint64_t)1 << 16 | (address & 0x3FFFF) >> 4;
}

/* Rows of tiles that stand side by side, tile_bytes apart: add 2048 bytes for the next 16 rows. */
static __device__ __forceinline__ uint64_t wgmma_rows(uint32_t address, int tile_bytes)
{
    const uint64_t swapped_128 = (uint64_t)1 << 62, bytes_of_8_rows = (uint64_t)(1024 >> 4) << 32;

    return swapped_128 | bytes_of_8_rows | (uint64_t)(tile_bytes >> 4) << 16 |
           (address & 0x3FFFF) >> 4;
}

static __device__ __forceinline__ void wgmma_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* All but the last LEFT groups that were committed are done. */
template <int LEFT> static __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* The first n registers of c, in the text of an instruction and in the list behind it. */
#define WGMMA_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_32                                                                                   \
    WGMMA_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_40 WGMMA_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_48 WGMMA_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_56 WGMMA_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_64 WGMMA_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_68 WGMMA_64 ", %64, %65, %66, %67"
#define WGMMA_96                                                                                   \
    WGMMA_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "  \
             "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_128                                                                                  \
    WGMMA_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "  \
             "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "      \
             "%123, %124, %125, %126, %127"
#define WGMMA_C4(c, i) "+f"((c)[i]), "+f"((c)[i + 1]), "+f"((c)[i + 2]), "+f"((c)[i + 3])
#define WGMMA_C8(c, i) WGMMA_C4(c, i), WGMMA_C4(c, i + 4)
#define WGMMA_C16(c)   WGMMA_C8(c, 0), WGMMA_C8(c, 8)
#define WGMMA_C32(c)   WGMMA_C16(c), WGMMA_C8(c, 16), WGMMA_C8(c, 24)
#define WGMMA_C40(c)   WGMMA_C32(c), WGMMA_C8(c, 32)
#define WGMMA_C48(c)   WGMMA_C40(c), WGMMA_C8(c, 40)
#define WGMMA_C56(c)   WGMMA_C48(c), WGMMA_C8(c, 48)
#define WGMMA_C64(c)   WGMMA_C56(c), WGMMA_C8(c, 56)
#define WGMMA_C68(c)   WGMMA_C64(c), WGMMA_C4(c, 64)
#define WGMMA_C128(c)  WGMMA_C64(c), WGMMA_C64(c + 64)
/* shape: m64nN; inputs: how a, b and the rest of the operands are named. */
#define WGMMA(shape, registers, inputs)                                                            \
    "wgmma.mma_async.sync.aligned." shape "k16.f32.bf16.bf16 {" registers "}, " inputs ";"

template <int N> static __device__ __forceinline__ void wgmma(float *c, uint64_t a, uint64_t b)
{
    static_assert(N == 32 || N == 64 || N == 80 || N == 96 || N == 112 || N == 128 || N == 136 ||
                      N == 256,
                  "");
    if (N == 32)
        asm volatile(WGMMA("m64n32", WGMMA_16, "%16, %17, 1, 1, 1, 0, 0")
                     : WGMMA_C16(c)
                     : "l"(a), "l"(b));
    else if (N == 64)
        asm volatile(WGMMA("m64n64", WGMMA_32, "%32, %33, 1, 1, 1, 0, 0")
                     : WGMMA_C32(c)
                     : "l"(a), "l"(b));
    else if (N == 80)
        asm volatile(WGMMA("m64n80", WGMMA_40, "%40, %41, 1, 1, 1, 0, 0")
                     : WGMMA_C40(c)
                     : "l"(a), "l"(b));
    else if (N == 96)
        asm volatile(WGMMA("m64n96", WGMMA_48, "%48, %49, 1, 1, 1, 0, 0")
                     : WGMMA_C48(c)
                     : "l"(a), "l"(b));
    else if (N == 112)
        asm volatile(WGMMA("m64n112", WGMMA_56, "%56, %57, 1, 1, 1, 0, 0")
                     : WGMMA_C56(c)
                     : "l"(a), "l"(b));
    else if (N == 128)
        asm volatile(WGMMA("m64n128", WGMMA_64, "%64, %65, 1, 1, 1, 0, 0")
                     : WGMMA_C64(c)
                     : "l"(a), "l"(b));
    else if (N == 136)
        asm volatile(WGMMA("m64n136", WGMMA_68, "%68, %69, 1, 1, 1, 0, 0")
                     : WGMMA_C68(c)
                     : "l"(a), "l"(b));
    else
        asm volatile(WGMMA("m64n256", WGMMA_128, "%128, %129, 1, 1, 1, 0, 0")
                     : WGMMA_C128(c)
                     : "l"(a), "l"(b));
}

/*
 * c [64, N] += a [64, 16] b [16, N], with a in registers: a[i + 2 j] holds rows lane / 4 + 8 i,
 * columns 8 j + 2 (lane % 4) and the next, which are the places of c. b: 16 rows of tiles, see
 * wgmma_rows().
 */
template <int N>
static __device__ __forceinline__ void wgmma_rows_of(float *c, const uint32_t *a, uint64_t b)
{
    static_assert(N == 64 || N == 128, "");
    if (N == 64)
        asm volatile(WGMMA("m64n64", WGMMA_32, "{%32, %33, %34, %35}, %36, 1, 1, 1, 1")
                     : WGMMA_C32(c)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else
        asm volatile(WGMMA("m64n128", WGMMA_64, "{%64, %65, %66, %67}, %68, 1, 1, 1, 1")
                     : WGMMA_C64(c)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* To be called between the wait and the first look at c. */
template <int N> static __device__ __forceinline__ void wgmma_settle(float *c)
{
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        asm volatile("" : "+f"(c[i])::"memory");
}

/* The same for what a was, N registers. */
template <int N> static __device__ __forceinline__ void wgmma_settle_inputs(uint32_t *a)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(a[i])::"memory");
}

#endif
#endif
