/*
 * mma.cuh - the tensor cores' instructions on bfloat16, and the moves that feed them.
 *
 * A fragment of an 8x8 matrix is one register a lane: lane l holds row l / 4, columns 2 (l % 4) and
 * 2 (l % 4) + 1. A [16, 16] is four of them (rows 0-7 and 8-15 of columns 0-7, then of columns
 * 8-15), B [16, 8] two, by column; C [16, 8] holds float32 in the same places.
 */
#ifndef KERNELS_CUDA_MMA_CUH
#define KERNELS_CUDA_MMA_CUH

#include "kernels/cuda/cuda_util.cuh"

/* c += a b */
static __device__ __forceinline__ void mma_bf16(float *c, uint32_t a0, uint32_t a1, uint32_t a2,
                                                uint32_t a3, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
    uint32_t packed;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/* Four fragments from shared memory: lanes 8 i to 8 i + 7 give the addresses of the i-th one's
 * rows, 16 bytes each. */
static __device__ __forceinline__ void load_fragments(uint32_t *r, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

/* The same, each transposed. */
static __device__ __forceinline__ void load_fragments_transposed(uint32_t *r, uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

/* A fragment's transpose. */
static __device__ __forceinline__ uint32_t transpose_8x8(uint32_t x)
{
    uint32_t y;

    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

/* Of two pairs (x low, x high), (y low, y high): the lows side by side, the highs side by side. */
static __device__ __forceinline__ uint32_t lows(uint32_t x, uint32_t y)
{
    return __byte_perm(x, y, 0x5410);
}

static __device__ __forceinline__ uint32_t highs(uint32_t x, uint32_t y)
{
    return __byte_perm(x, y, 0x7632);
}

static __device__ __forceinline__ float fast_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
