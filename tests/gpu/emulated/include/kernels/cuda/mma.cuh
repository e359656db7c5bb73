/*
 * mma.cuh - stands in for kernels/cuda/mma.cuh.
 */
#ifndef KERNELS_CUDA_MMA_CUH
#define KERNELS_CUDA_MMA_CUH

#include "kernels/cuda/cuda_util.cuh"

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
    const struct emulated_words *all = emulated_exchange(own, 6);
    int lane = (int)threadIdx.x % WARP;

    for (int e = 0; e < 4; e++) {
        int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;

        for (int k = 0; k < 16; k++) {
            uint32_t a = all[row % 8 * 4 + k % 8 / 2].v[row / 8 + k / 8 * 2];
            uint32_t b = all[column * 4 + k % 8 / 2].v[4 + k / 8];

            c[e] += element_of(a, k % 2) * element_of(b, k % 2);
        }
    }
    emulated_warp_sync();
}

static inline uint32_t transpose_8x8(uint32_t x)
{
    const struct emulated_words *rows = emulated_exchange(&x, 1);
    int row = (int)threadIdx.x % WARP / 4, column = (int)threadIdx.x % WARP % 4 * 2;
    uint32_t y = 0;

    for (int i = 0; i < 2; i++)
        y |= (rows[(column + i) * 4 + row / 2].v[0] >> row % 2 * 16 & 0xFFFF) << i * 16;
    emulated_warp_sync();
    return y;
}

static inline uint32_t lows(uint32_t x, uint32_t y)
{
    return (x & 0xFFFF) | y << 16;
}

static inline uint32_t highs(uint32_t x, uint32_t y)
{
    return x >> 16 | (y & 0xFFFF0000);
}

static inline float fast_exp2(float x)
{
    return exp2f(x);
}

static inline void load_fragments(uint32_t *r, uint32_t address)
{
    const struct emulated_words *rows = emulated_exchange(&address, 1);
    int lane = (int)threadIdx.x % WARP;

    for (int i = 0; i < 4; i++)
        memcpy(&r[i], emulated_shared(rows[i * 8 + lane / 4].v[0], 16) + lane % 4 * 4,
               sizeof(r[i]));
    emulated_warp_sync();
}

#endif
