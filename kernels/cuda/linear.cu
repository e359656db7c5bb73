/*
 * linear.cu - y = x W^T + bias, or y += x W^T + bias, by cuBLASLt (a few tokens: skinny.cu).
 *
 * cuBLAS counts by columns: y^T [n, T] = W [n, k] x^T [k, T], with W transposed from its point of
 * view. Sums are float32 and TF32 is off. At the first use of a shape outside a captured graph the
 * algorithms that the heuristic offers are timed in turn, on scratch memory, and the fastest stays.
 */
#include <stdlib.h>

#include "kernels/cuda/linear.cuh"

enum { TUNER_SIZE = 4096, TUNER_CANDIDATES = 8 };

struct tuner_entry {
    bool used;
    int32_t n, k, bucket, alignment;
    enum dtype dtype, y_dtype;
    bool accumulate, has_bias;
    cublasLtMatmulAlgo_t algo;
};

struct linear_tuner {
    struct tuner_entry entries[TUNER_SIZE]; /* a hash table with open addressing, never full */
    int num_entries;
};

/* One product as cuBLAS wants it. */
struct product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t w, x, y;
};

struct status linear_tuner_create(struct linear_tuner **out)
{
    *out = (struct linear_tuner *)calloc(1, sizeof(**out));
    return *out ? status_ok() : status_error(STATUS_NO_MEMORY, "linear: out of memory");
}

void linear_tuner_destroy(struct linear_tuner **tuner)
{
    free(*tuner);
    *tuner = NULL;
}

static struct status lt_status(cublasStatus_t error, const struct linear_args *a)
{
    if (error == CUBLAS_STATUS_SUCCESS)
        return status_ok();
    return status_error(STATUS_DEVICE, "linear [%d, %d] over %d tokens: cuBLAS error %d",
                        a->weight->n, a->weight->k, a->num_tokens, (int)error);
}

/* Exact up to 256 tokens, then in quarters of an octave. */
static int32_t bucket_of(int32_t num_tokens)
{
    int32_t step = 1;

    while (step * 1024 <= num_tokens * 4)
        step *= 2;
    return (num_tokens + step - 1) / step * step;
}

static int32_t alignment_of(const struct linear_args *a)
{
    size_t bits = (size_t)a->x | (size_t)a->y;

    return bits % 256 == 0 ? 256 : bits % 16 == 0 ? 16 : 2;
}

static struct tuner_entry entry_of(const struct linear_args *a)
{
    struct tuner_entry key = {};

    key.used = true;
    key.n = a->weight->n;
    key.k = a->weight->k;
    key.bucket = bucket_of(a->num_tokens);
    key.alignment = alignment_of(a);
    key.dtype = a->weight->dtype;
    key.y_dtype = a->y_dtype;
    key.accumulate = a->accumulate;
    key.has_bias = a->weight->bias != NULL;
    return key;
}

/* The entry of this key, or the free one where it belongs. */
static struct tuner_entry *tuner_find(struct linear_tuner *tuner, const struct tuner_entry *key)
{
    uint32_t hash = (uint32_t)key->n * 2654435761u ^ (uint32_t)key->k * 2246822519u ^
                    (uint32_t)key->bucket * 3266489917u ^ (uint32_t)key->accumulate;

    for (uint32_t i = hash;; i++) {
        struct tuner_entry *e = &tuner->entries[i % TUNER_SIZE];

        if (!e->used || (e->n == key->n && e->k == key->k && e->bucket == key->bucket &&
                         e->alignment == key->alignment && e->dtype == key->dtype &&
                         e->y_dtype == key->y_dtype && e->accumulate == key->accumulate &&
                         e->has_bias == key->has_bias))
            return e;
    }
}

static cudaDataType_t data_type(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? CUDA_R_32F : CUDA_R_16BF;
}

static cublasStatus_t product_init(struct product *p, const struct linear_args *a)
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
    return error;
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

static cublasStatus_t multiply(struct stream *stream, struct product *p,
                               const struct linear_args *a, void *y,
                               const cublasLtMatmulAlgo_t *algo)
{
    const float one = 1, beta = a->accumulate ? 1 : 0;

    return cublasLtMatmul(stream->device->lt, &p->desc, &one, a->weight->data, &p->w, a->x, &p->x,
                          &beta, y, &p->y, y, &p->y, algo, stream->device->lt_workspace,
                          LT_WORKSPACE_SIZE, stream->cuda);
}

/* The fastest of the candidates; the first where the scratch memory is not to be had. */
static int tune(struct stream *stream, struct product *p, const struct linear_args *a,
                const cublasLtMatmulHeuristicResult_t *candidates, int num)
{
    size_t size = (size_t)a->num_tokens * (size_t)a->weight->n * dtype_size(a->y_dtype);
    float best[TUNER_CANDIDATES], ms;
    cudaEvent_t begin = NULL, end = NULL;
    void *scratch = NULL;
    int winner = 0, rounds = a->num_tokens > 1024 ? 2 : 5; /* the first is not counted */

    if (cudaMalloc(&scratch, size) || cudaMemsetAsync(scratch, 0, size, stream->cuda) ||
        cudaEventCreate(&begin) || cudaEventCreate(&end))
        goto out;
    for (int i = 0; i < num; i++)
        best[i] = 1e30f;
    for (int round = 0; round < rounds; round++) { /* in turn: none gets the cooler card */
        for (int i = 0; i < num; i++) {
            bool ok = !cudaEventRecord(begin, stream->cuda) &&
                      !multiply(stream, p, a, scratch, &candidates[i].algo) &&
                      !multiply(stream, p, a, scratch, &candidates[i].algo) &&
                      !cudaEventRecord(end, stream->cuda) && !cudaEventSynchronize(end) &&
                      !cudaEventElapsedTime(&ms, begin, end);

            if (ok && round > 0 && ms < best[i])
                best[i] = ms;
        }
    }
    for (int i = 1; i < num; i++)
        winner = best[i] < best[winner] ? i : winner;
out:
    cudaGetLastError(); /* a lack of memory here is no fault */
    if (begin)
        cudaEventDestroy(begin);
    if (end)
        cudaEventDestroy(end);
    cudaFree(scratch);
    return winner;
}

/* An algorithm for the product: the tuned one, tuning now where that is allowed. */
static struct status find_algo(struct stream *stream, struct product *p,
                               const struct linear_args *a, cublasLtMatmulAlgo_t *out)
{
    struct linear_tuner *tuner = stream->device->tuner;
    struct tuner_entry key = entry_of(a), *entry = tuner_find(tuner, &key);
    cublasLtMatmulHeuristicResult_t candidates[TUNER_CANDIDATES];
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cublasStatus_t error;
    int num = 0;

    if (entry->used) {
        *out = entry->algo;
        return status_ok();
    }
    error =
        heuristics(stream->device, p, (uint32_t)key.alignment, candidates, TUNER_CANDIDATES, &num);
    if (!error && num == 0)
        error = CUBLAS_STATUS_NOT_SUPPORTED;
    if (error)
        return lt_status(error, a);
    *out = candidates[0].algo;
    if (cudaStreamIsCapturing(stream->cuda, &capture) || capture != cudaStreamCaptureStatusNone ||
        tuner->num_entries == TUNER_SIZE / 2)
        return status_ok();
    *out = candidates[tune(stream, p, a, candidates, num)].algo;
    key.algo = *out;
    *entry = key;
    tuner->num_entries++;
    return status_ok();
}

extern "C" struct status linear_cuda(struct stream *stream, const struct linear_args *a)
{
    struct status status;
    struct product product;
    cublasLtMatmulAlgo_t algo;
    cublasLtMatmulHeuristicResult_t first;
    cublasStatus_t error;
    int num = 0;

    if (a->num_tokens == 0)
        return status_ok();
    if (a->y_dtype != a->weight->dtype && (a->accumulate || a->weight->bias))
        return status_error(STATUS_UNSUPPORTED,
                            "linear: y of another dtype than the weight's takes no bias or sum");
    if (skinny_can(a))
        return skinny_launch(stream, a);
    error = product_init(&product, a);
    if (error)
        return lt_status(error, a);
    status = find_algo(stream, &product, a, &algo);
    if (status.code)
        return status;
    error = multiply(stream, &product, a, a->y, &algo);
    if (error) { /* tuned for a neighbour in the bucket, and not good for this one */
        error = heuristics(stream->device, &product, (uint32_t)alignment_of(a), &first, 1, &num);
        if (!error)
            error = multiply(stream, &product, a, a->y, num ? &first.algo : NULL);
    }
    if (error)
        return lt_status(error, a);
    return cuda_launched(stream, cudaGetLastError(), "linear");
}
