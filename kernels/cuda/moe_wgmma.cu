/*
 * moe_wgmma.cu - the products of a grouped mixture of experts on Hopper's tensor cores: what
 * moe_mma.cu does, with operands that stay in shared memory.
 *
 * Grid: one block per tile of ROWS rows and 2 * HALF rows of the weight, see moe_product.cuh. The
 * block's two warpgroups own 64 rows each and share the weight. Copies run STAGES - 2 steps ahead:
 * while a step's products begin, those of the step before may still be under way, and read their
 * stage; the one before that is free.
 */
#include "kernels/cuda/moe_product.cuh"
#include "kernels/cuda/wgmma.cuh"

enum {
    ROWS = 128,
    HALF = 128,
    STAGES = 4,
    THREADS = ROWS / 64 * WARPGROUP,
    STAGE_BYTES = (ROWS + 2 * HALF) * ROW_BYTES,
    ALIGNMENT = 1024, /* of tiles */
    SHARED_BYTES = STAGES * STAGE_BYTES + ALIGNMENT,
};

template <bool GATED>
static __global__ void __launch_bounds__(THREADS, 1) moe_wgmma_kernel(struct moe_product p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ unsigned char shared[];
    int lane = (int)threadIdx.x % WARP, first_row = (int)threadIdx.x / WARP * 16; /* of the warp */
    int num_steps = (p.k + STEP - 1) / STEP;
    uint32_t stages = (shared_address(shared) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint32_t own_x = threadIdx.x / WARPGROUP * (64 * ROW_BYTES);
    float sums[2][HALF / 2];
    struct feed<ROWS, HALF, THREADS> feed;
    struct product_part part;

    if (!begin_part<STAGES - 2, GATED>(&p, stages, &part, &feed))
        return;
#pragma unroll
    for (int i = 0; i < HALF / 2; i++)
        sums[0][i] = sums[1][i] = 0;
    for (int i = 0; i < num_steps; i++) {
        uint32_t stage = stages + i % STAGES * STAGE_BYTES;

        copies_wait<STAGES - 3>();
        shared_written();
        __syncthreads(); /* this stage is there, and all have done with the one before the last */
        wgmma_begin();
#pragma unroll
        for (int c = 0; c < STEP / 16; c++) {
            uint64_t x = wgmma_matrix(stage + own_x + c * 32);

#pragma unroll
            for (int half = 0; half < 2; half++)
                wgmma<HALF>(sums[half], x,
                            wgmma_matrix(stage + (ROWS + half * HALF) * ROW_BYTES + c * 32));
        }
        wgmma_commit();
        if (i + STAGES - 2 < num_steps)
            feed_copy(&feed, stages + (i + STAGES - 2) % STAGES * STAGE_BYTES, i + STAGES - 2);
        copies_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    wgmma_settle<HALF>(sums[0]);
    wgmma_settle<HALF>(sums[1]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = first_row + i * 8 + lane / 4;
        __nv_bfloat16 *y;

        if (row >= part.tile.num_rows)
            continue;
        y = row_of<GATED>(&p, &part, row);
#pragma unroll
        for (int n = 0; n < HALF / 8; n++)
            put_sums<HALF, GATED>(y, n * 8 + lane % 4 * 2, p.n - part.first_column,
                                  &sums[0][4 * n + 2 * i], &sums[1][4 * n + 2 * i]);
    }
#endif
}

bool moe_wgmma_can(const struct device *device, int tile_rows)
{
    return device->has_wgmma && tile_rows == ROWS;
}

template <bool GATED>
static cudaError_t multiply(struct stream *stream, const struct moe_product *p)
{
    cudaError_t error = cudaFuncSetAttribute(
        moe_wgmma_kernel<GATED>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);

    if (!error)
        error = launch(stream, moe_wgmma_kernel<GATED>, product_grid<HALF, GATED>(p), THREADS,
                       SHARED_BYTES, *p);
    return error;
}

cudaError_t moe_wgmma_launch(struct stream *stream, const struct moe_product *product, bool gated)
{
    return gated ? multiply<true>(stream, product) : multiply<false>(stream, product);
}
