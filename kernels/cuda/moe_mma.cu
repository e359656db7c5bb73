/*
 * moe_mma.cu - the products of a grouped mixture of experts, on any card's tensor cores.
 *
 * Grid: one block per tile and 2 * HALF rows of the weight, see moe_product.cuh. The block's four
 * warps share the tile: with 16 rows they stand side by side, else two by two; a warp owns the same
 * columns of both halves. Copies run STAGES - 1 steps ahead. Small tiles serve steps that are bound
 * by the one read of the weights: there several blocks on a multiprocessor keep loads under way.
 */
#include "kernels/cuda/moe_product.cuh"

enum { HALF = 64, THREADS = 4 * WARP };

/* sums += x w^T, of one stage; addresses of the lane's rows. */
template <int M_TILES, int N_TILES>
static __device__ __forceinline__ void multiply(float (*sums)[N_TILES][4], uint32_t x_lane,
                                                uint32_t w_lane)
{
#pragma unroll
    for (int c = 0; c < STEP / 16; c++) {
        uint32_t x[M_TILES][4];

#pragma unroll
        for (int m = 0; m < M_TILES; m++)
            load_fragments(x[m], (x_lane ^ c * 32) + m * 16 * ROW_BYTES);
#pragma unroll
        for (int n = 0; n < N_TILES / 2; n++) {
            int row = n / (N_TILES / 4) * HALF + n % (N_TILES / 4) * 16;
            uint32_t w[4];

            load_fragments(w, (w_lane ^ c * 32) + row * ROW_BYTES);
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                mma_bf16(sums[m][2 * n], x[m][0], x[m][1], x[m][2], x[m][3], w[0], w[1]);
                mma_bf16(sums[m][2 * n + 1], x[m][0], x[m][1], x[m][2], x[m][3], w[2], w[3]);
            }
        }
    }
}

template <int ROWS, int STAGES, int BLOCKS_PER_SM, bool GATED>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    moe_mma_kernel(struct moe_product p)
{
    enum {
        M_WARPS = ROWS == 16 ? 1 : 2,
        N_WARPS = THREADS / WARP / M_WARPS,
        M_TILES = ROWS / 16 / M_WARPS,
        N_TILES = 2 * HALF / 8 / N_WARPS, /* the first half of them of the first half */
        STAGE_BYTES = (ROWS + 2 * HALF) * ROW_BYTES,
    };
    extern __shared__ __align__(1024) unsigned char shared[];
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    int first_row = warp % M_WARPS * (ROWS / M_WARPS);
    int first_column = warp / M_WARPS * (HALF / N_WARPS); /* of each half */
    int num_steps = (p.k + STEP - 1) / STEP;
    uint32_t stages = shared_address(shared);
    uint32_t x_lane = stages + place(first_row + lane % 16, lane / 16);
    uint32_t w_lane =
        stages + ROWS * ROW_BYTES + place(first_column + lane % 8 + lane / 16 * 8, lane / 8 % 2);
    float sums[M_TILES][N_TILES][4];
    struct feed<ROWS, HALF, THREADS> feed;
    struct product_part part;

    if (!begin_part<STAGES - 1, GATED>(&p, stages, &part, &feed))
        return;
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
            sums[m][n][0] = sums[m][n][1] = sums[m][n][2] = sums[m][n][3] = 0;
    }
    for (int i = 0, stage = 0, next = STAGES - 1; i < num_steps; i++) {
        copies_wait<STAGES - 2>();
        __syncthreads(); /* this stage is there, and the one before has been read */
        if (i + STAGES - 1 < num_steps)
            feed_copy(&feed, stages + next * STAGE_BYTES, i + STAGES - 1);
        copies_commit();
        multiply<M_TILES, N_TILES>(sums, x_lane + stage * STAGE_BYTES,
                                   w_lane + stage * STAGE_BYTES);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        next = next + 1 < STAGES ? next + 1 : 0;
    }
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int row = first_row + m * 16 + i * 8 + lane / 4;
            __nv_bfloat16 *y;

            if (row >= part.tile.num_rows)
                continue;
            y = row_of<GATED>(&p, &part, row);
#pragma unroll
            for (int n = 0; n < N_TILES / 2; n++)
                put_sums<HALF, GATED>(y, first_column + n * 8 + lane % 4 * 2,
                                      p.n - part.first_column, &sums[m][n][2 * i],
                                      &sums[m][N_TILES / 2 + n][2 * i]);
        }
    }
}

template <int ROWS, int STAGES, int BLOCKS_PER_SM, bool GATED>
static cudaError_t multiply_tiles(struct stream *stream, const struct moe_product *p)
{
    enum { SHARED_BYTES = STAGES * (ROWS + 2 * HALF) * ROW_BYTES };
    cudaError_t error =
        cudaFuncSetAttribute(moe_mma_kernel<ROWS, STAGES, BLOCKS_PER_SM, GATED>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);

    if (!error)
        error = launch(stream, moe_mma_kernel<ROWS, STAGES, BLOCKS_PER_SM, GATED>,
                       product_grid<HALF, GATED>(p), THREADS, SHARED_BYTES, *p);
    return error;
}

template <bool GATED>
static cudaError_t multiply_any(struct stream *stream, const struct moe_product *p, int tile_rows)
{
    switch (tile_rows) {
    case 16:
        return multiply_tiles<16, 4, 3, GATED>(stream, p);
    case 64:
        return multiply_tiles<64, 3, 3, GATED>(stream, p);
    default:
        return multiply_tiles<128, 3, 2, GATED>(stream, p);
    }
}

cudaError_t moe_mma_launch(struct stream *stream, const struct moe_product *product, int tile_rows,
                           bool gated)
{
    return gated ? multiply_any<true>(stream, product, tile_rows)
                 : multiply_any<false>(stream, product, tile_rows);
}
