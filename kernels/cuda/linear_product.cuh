/*
 * linear_product.cuh - one layer over one number of tokens, and the ways to compute it: algorithms
 * of cuBLAS, kernels of our own.
 *
 * cuBLAS counts by columns: y^T [n, T] = W [n, k] x^T [k, T], with W transposed from its point of
 * view. Sums are float32 and TF32 is off.
 */
#ifndef KERNELS_CUDA_LINEAR_PRODUCT_CUH
#define KERNELS_CUDA_LINEAR_PRODUCT_CUH

#include "kernels/cuda/linear.cuh"

/* As cuBLAS wants it. */
struct product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t w, x, y;
};

struct way {
    int32_t own; /* the number of a kernel of our own, or 0 */
    cublasLtMatmulAlgo_t algo;
};

enum { MAX_LT_WAYS = 16, MAX_SPLIT_WAYS = 12 };
enum { MAX_WAYS = MAX_LT_WAYS + SKINNY_NUM + MAX_SPLIT_WAYS };

struct status product_init(struct product *product, const struct layer_args *args);

/*
 * All that are worth a try: cuBLAS's, the likeliest first, then our own; MAX_WAYS at most.
 * alignment: of x and y. The last *out_num_split are linear_split.cu's.
 */
struct status product_ways(struct stream *stream, struct product *product,
                           const struct layer_args *args, uint32_t alignment, struct way *out,
                           int *out_num, int *out_num_split);

/* Can a way that was stored be used? */
bool product_can(struct stream *stream, struct product *product, const struct layer_args *args,
                 const struct way *way);

struct status product_run(struct stream *stream, struct product *product,
                          const struct layer_args *args, const struct way *way);

/* linear_tune.cu: the fastest of the ways, by its place; waits for the stream. */
int product_fastest(struct stream *stream, struct product *product, const struct layer_args *args,
                    const struct way *ways, int num);

#endif
