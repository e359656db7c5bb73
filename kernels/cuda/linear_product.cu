/* linear_product.cu - see linear_product.cuh. */
#include "kernels/cuda/linear_product.cuh"

#include <string.h>

static struct status lt_status(cublasStatus_t error, const struct layer_args *a)
{
    if (error == CUBLAS_STATUS_SUCCESS)
        return status_ok();
    return status_error(STATUS_DEVICE, "linear [%d, %d] over %d tokens: cuBLAS error %d",
                        a->weight->n, a->weight->k, a->num_tokens, (int)error);
}

static cudaDataType_t data_type(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? CUDA_R_32F : CUDA_R_16BF;
}

struct status product_init(struct product *p, const struct layer_args *a)
{
    const struct linear_weight *w = a->weight;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t with_bias = CUBLASLT_EPILOGUE_BIAS;
    cublasStatus_t error;

    error = cublasLtMatmulDescInit(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!error)
        error = cublasLtMatmulDescSetAttribute(&p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                               sizeof(transposed));
    if (!error && w->bias)
        error = cublasLtMatmulDescSetAttribute(&p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &with_bias,
                                               sizeof(with_bias));
    if (!error && w->bias)
        error = cublasLtMatmulDescSetAttribute(&p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                               &w->bias, sizeof(w->bias));
    if (!error)
        error = cublasLtMatrixLayoutInit(&p->w, data_type(w->dtype), (uint64_t)w->k, (uint64_t)w->n,
                                         w->k);
    if (!error)
        error = cublasLtMatrixLayoutInit(&p->x, data_type(w->dtype), (uint64_t)w->k,
                                         (uint64_t)a->num_tokens, w->k);
    if (!error)
        error = cublasLtMatrixLayoutInit(&p->y, data_type(a->y_dtype), (uint64_t)w->n,
                                         (uint64_t)a->num_tokens, w->n);
    return lt_status(error, a);
}

static cublasStatus_t heuristics(struct device *device, struct product *p, uint32_t alignment,
                                 cublasLtMatmulHeuristicResult_t *out, int max, int *out_num)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    size_t workspace = LT_WORKSPACE_SIZE;
    static const cublasLtMatmulPreferenceAttributes_t names[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t error = cublasLtMatmulPreferenceInit(&preference);

    if (!error)
        error = cublasLtMatmulPreferenceSetAttribute(
            &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace));
    for (int i = 0; i < 3 && !error; i++)
        error = cublasLtMatmulPreferenceSetAttribute(&preference, names[i], &alignment,
                                                     sizeof(alignment));
    if (!error)
        error = cublasLtMatmulAlgoGetHeuristic(device->lt, &p->desc, &p->w, &p->x, &p->y, &p->y,
                                               &preference, max, out, out_num);
    return error;
}

static struct status multiply(struct stream *stream, struct product *p, const struct layer_args *a,
                              const cublasLtMatmulAlgo_t *algo)
{
    const float one = 1, beta = a->accumulate ? 1 : 0;
    void *y = a->wide ? a->wide : a->y;
    cublasStatus_t error = cublasLtMatmul(
        stream->device->lt, &p->desc, &one, a->weight->data, &p->w, a->x, &p->x, &beta, y, &p->y, y,
        &p->y, algo, stream->device->lt_workspace, LT_WORKSPACE_SIZE, stream->cuda);

    if (error)
        return lt_status(error, a);
    return cuda_launched(stream, a->wide ? silu_mul_launch(stream, a) : cudaGetLastError(),
                         "linear");
}

struct status product_ways(struct stream *stream, struct product *p, const struct layer_args *a,
                           uint32_t alignment, struct way *out, int *out_num, int *out_num_split)
{
    cublasLtMatmulHeuristicResult_t found[MAX_LT_WAYS];
    int max = a->num_tokens > 1024 ? MAX_LT_WAYS / 2 : MAX_LT_WAYS, plans[MAX_SPLIT_WAYS], num = 0;
    cublasStatus_t error = heuristics(stream->device, p, alignment, found, max, &num);

    if (!error && num == 0)
        error = CUBLAS_STATUS_NOT_SUPPORTED;
    if (error)
        return lt_status(error, a);
    memset(out, 0, MAX_WAYS * sizeof(*out));
    for (int i = 0; i < num; i++)
        out[i].algo = found[i].algo;
    for (int i = 1; i <= SKINNY_NUM && skinny_can(a); i++)
        out[num++].own = i;
    *out_num_split = linear_split_plans(stream->device, a, plans, MAX_SPLIT_WAYS);
    for (int i = 0; i < *out_num_split; i++)
        out[num++].own = plans[i];
    *out_num = num;
    return status_ok();
}

bool product_can(struct stream *stream, struct product *p, const struct layer_args *a,
                 const struct way *way)
{
    cublasLtMatmulHeuristicResult_t result;

    if (way->own >= SPLIT_FIRST)
        return linear_split_knows(stream->device, a, way->own);
    if (way->own)
        return way->own <= SKINNY_NUM && skinny_can(a);
    return cublasLtMatmulAlgoCheck(stream->device->lt, &p->desc, &p->w, &p->x, &p->y, &p->y,
                                   &way->algo, &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= LT_WORKSPACE_SIZE;
}

struct status product_run(struct stream *stream, struct product *p, const struct layer_args *a,
                          const struct way *way)
{
    if (way->own >= SPLIT_FIRST)
        return linear_split_launch(stream, a, way->own);
    return way->own ? skinny_launch(stream, a, way->own) : multiply(stream, p, a, &way->algo);
}
