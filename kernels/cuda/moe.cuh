/*
 * moe.cuh - who multiplies a mixture of experts, and what the ways share. A pair is a token and one
 * of the top_k experts it chose: number token * top_k + choice.
 */
#ifndef KERNELS_CUDA_MOE_CUH
#define KERNELS_CUDA_MOE_CUH

#include "kernels/cuda/linear.cuh"

/* Of each pair. */
struct moe_choices {
    int32_t *experts; /* [T, top_k] */
    float *weights;   /* [T, top_k] */
};

/* Consecutive pairs of one expert, in the order that they are grouped in. */
struct moe_tile {
    int32_t expert;
    int32_t first, num_rows; /* places in that order; num_rows 0: nothing to do */
};

/*
 * One of the two products, for all experts, in bfloat16.
 *
 *     gated:  y [T * top_k, n] = silu(x gate^T) * (x up^T), with x [T, k]: its rows are gathered,
 *             and y is in the order of the groups
 *     else:   y [T * top_k, n] = x down^T, with x [T * top_k, k] in the order of the groups, and y
 *             in the order of the pairs
 */
struct moe_product {
    const __nv_bfloat16 *x;
    const __nv_bfloat16 *weight; /* [num_experts, 2 n, k] or [num_experts, n, k] */
    __nv_bfloat16 *y;
    const struct moe_tile *tiles; /* [num_tiles] */
    const int32_t *order;         /* [T * top_k]: the pair at each place */
    int n, k, top_k, num_tiles;
};

/* moe_grouped.cu: what moe.cu would do pair by pair, with the pairs grouped by expert. space has
 * room for as many pairs as the limits allow. */
bool moe_grouped_can(const struct moe_args *args);
size_t moe_grouped_workspace(const struct ops_limits *limits);
cudaError_t moe_grouped_launch(struct stream *stream, const struct moe_args *args,
                               const struct moe_choices *choices, void *space);

/* moe_mma.cu: on any card, with tiles of 16, 64 or 128 rows. */
cudaError_t moe_mma_launch(struct stream *stream, const struct moe_product *product, int tile_rows,
                           bool gated);

/* moe_wgmma.cu: on Hopper, with tiles of 128 rows. */
bool moe_wgmma_can(const struct device *device, int tile_rows);
cudaError_t moe_wgmma_launch(struct stream *stream, const struct moe_product *product, bool gated);

#endif
