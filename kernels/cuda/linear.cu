/*
 * linear.cu - y = x W^T + bias, or y += x W^T + bias, or gate_up: by cuBLASLt (and silu_mul.cu), or
 * by kernels of our own: skinny.cu and linear_stream.cu for a few tokens, linear_split.cu for up to
 * 512, gate_up_many.cu for more than 128. Where none of them is always the one, the fastest is.
 *
 * cuBLAS counts by columns: y^T [n, T] = W [n, k] x^T [k, T], with W transposed from its point of
 * view. Sums are float32 and TF32 is off. At the first use of a shape outside a captured graph the
 * algorithms that the heuristic offers and our own kernels are tried (linear_trial.cu), and the
 * fastest stays: in a file, see algo_cache.h.
 */
#include <string.h>

#include "kernels/cuda/linear_trial.cuh"
#include "kernels/cuda/linear_tuner.cuh"

enum { LT_CANDIDATES = 16 };
enum { MAX_WAYS = SKINNY_NUM + 2 + SPLIT_CANDIDATES };
enum { MAX_CANDIDATES = LT_CANDIDATES + MAX_WAYS };

static_assert(sizeof(cublasLtMatmulAlgo_t) == ALGO_WORDS * sizeof(uint64_t), "algo_cache.h");
static_assert((int)MAX_CANDIDATES <= (int)TRIAL_MAX_WAYS, "linear_trial.cuh");

/* One product as cuBLAS wants it. */
struct product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t w, x, y;
};

static struct status lt_status(cublasStatus_t error, const struct layer_args *a)
{
    if (error == CUBLAS_STATUS_SUCCESS)
        return status_ok();
    return status_error(STATUS_DEVICE, "linear [%d, %d] over %d tokens: cuBLAS error %d",
                        a->weight->n, a->weight->k, a->num_tokens, (int)error);
}

/* Exact up to 256 tokens, then in quarters of an octave: 320, 384, 448, 512, 640 ... */
static int32_t bucket_of(int32_t num_tokens)
{
    int32_t step = num_tokens > 256 ? 64 : 1;

    while (step > 1 && num_tokens > step * 8)
        step *= 2;
    return (num_tokens + step - 1) / step * step;
}

static int32_t alignment_of(const struct layer_args *a)
{
    size_t bits = (size_t)a->x | (size_t)a->y | (size_t)a->wide;

    return bits % 256 == 0 ? 256 : bits % 16 == 0 ? 16 : 2;
}

static struct algo_entry entry_of(const struct layer_args *a)
{
    struct algo_entry key = {};

    key.n = a->weight->n;
    key.k = a->weight->k;
    key.bucket = bucket_of(a->num_tokens);
    key.alignment = alignment_of(a);
    key.dtype = (int32_t)a->weight->dtype;
    key.y_dtype = (int32_t)a->y_dtype;
    key.accumulate = a->accumulate;
    key.has_bias = a->weight->bias != NULL;
    key.is_gated = a->wide != NULL;
    return key;
}

static cudaDataType_t data_type(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? CUDA_R_32F : CUDA_R_16BF;
}

static cublasStatus_t product_init(struct product *p, const struct layer_args *a)
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

/* All but silu_mul. */
static cublasStatus_t multiply(struct stream *stream, struct product *p, const struct layer_args *a,
                               const cublasLtMatmulAlgo_t *algo)
{
    const float one = 1, beta = a->accumulate ? 1 : 0;
    void *y = a->wide ? a->wide : a->y;

    return cublasLtMatmul(stream->device->lt, &p->desc, &one, a->weight->data, &p->w, a->x, &p->x,
                          &beta, y, &p->y, y, &p->y, algo, stream->device->lt_workspace,
                          LT_WORKSPACE_SIZE, stream->cuda);
}

/* One way to do it: a kernel of our own, or an algorithm of cuBLAS. */
struct candidate {
    int32_t own; /* its number, or 0 */
    cublasLtMatmulAlgo_t algo;
};

/* All that are tried for a product. */
struct candidates {
    struct product *product; /* borrowed */
    struct candidate list[MAX_CANDIDATES];
    int num;
};

static struct status own_launch(struct stream *stream, const struct layer_args *a, int number)
{
    if (number >= SPLIT_FIRST)
        return linear_split_launch(stream, a, number);
    if (number == LINEAR_STREAM)
        return linear_stream_launch(stream, a);
    if (number == GATE_UP_MANY)
        return gate_up_many_launch(stream, a);
    return skinny_launch(stream, a, number);
}

static bool run_candidate(struct stream *stream, const struct layer_args *a, int i,
                          void *candidates)
{
    const struct candidates *all = (const struct candidates *)candidates;
    const struct candidate *c = &all->list[i];

    if (c->own)
        return !own_launch(stream, a, c->own).code;
    return !multiply(stream, all->product, a, &c->algo) &&
           (!a->wide || !silu_mul_launch(stream, a));
}

/* A stored algorithm is good if this library says so of this product. */
static bool is_usable(struct stream *stream, struct product *p, const struct layer_args *a,
                      const struct algo_entry *entry)
{
    cublasLtMatmulHeuristicResult_t result;
    cublasLtMatmulAlgo_t algo;

    if (entry->own >= SPLIT_FIRST)
        return linear_split_knows(stream->device, a, entry->own);
    if (entry->own == LINEAR_STREAM)
        return linear_stream_can(stream->device, a);
    if (entry->own == GATE_UP_MANY)
        return gate_up_many_can(stream->device, a);
    if (entry->own)
        return entry->own <= SKINNY_NUM && skinny_can(a);
    memcpy(&algo, entry->algo, sizeof(algo));
    return cublasLtMatmulAlgoCheck(stream->device->lt, &p->desc, &p->w, &p->x, &p->y, &p->y, &algo,
                                   &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= LT_WORKSPACE_SIZE;
}

/* The kernels of our own that are worth a try, by their numbers. */
static int own_ways(const struct device *device, const struct layer_args *a, int *out)
{
    int num = 0;

    for (int i = 1; i <= SKINNY_NUM && skinny_can(a); i++)
        out[num++] = i;
    if (linear_stream_can(device, a))
        out[num++] = LINEAR_STREAM;
    if (gate_up_many_can(device, a))
        out[num++] = GATE_UP_MANY;
    return num + linear_split_plans(device, a, out + num, SPLIT_CANDIDATES);
}

/* The way that a test forces, if there is one for this layer; or 0. */
static int forced_way(const struct linear_tuner *tuner, const int *ways, int num)
{
    int num_split = 0;

    while (num_split < num && ways[num - num_split - 1] >= SPLIT_FIRST)
        num_split++;
    if (tuner->forced >= SPLIT_FIRST && num_split > 0)
        return ways[num - num_split + (tuner->forced - SPLIT_FIRST) % num_split];
    for (int i = 0; i < num; i++) {
        if (ways[i] == tuner->forced)
            return ways[i];
    }
    return 0;
}

/* A layer like this can go the forced way on Hopper: where a test forces it, cuBLAS is no answer.
 */
static bool can_be_forced(const struct device *device, const struct layer_args *a, int forced)
{
    const struct linear_weight *w = a->weight;
    bool is_plain = device->has_wgmma && w->dtype == DTYPE_BF16 && w->n % 64 == 0 && w->k % 64 == 0;

    if (forced == GATE_UP_MANY)
        return is_plain && a->wide && a->num_tokens > GATE_UP_MANY_TOKENS;
    return is_plain && (int64_t)w->n * w->k < LARGE_WEIGHT && a->num_tokens <= FEW_TOKENS;
}

/* How to do the product: as tuned, tuning now where that is allowed. */
static struct status find_algo(struct stream *stream, struct product *p, const struct layer_args *a,
                               struct candidate *out)
{
    struct linear_tuner *tuner = stream->device->tuner;
    struct algo_entry key = entry_of(a), *entry = linear_tuner_find(tuner, &key);
    cublasLtMatmulHeuristicResult_t found[LT_CANDIDATES];
    struct candidates candidates = {p};
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    int max = a->num_tokens > MANY_TOKENS ? LT_CANDIDATES / 2 : LT_CANDIDATES, num = 0, fastest;
    int ways[MAX_WAYS], num_ways;
    cublasStatus_t error;
    enum algo_origin *origin = &tuner->origins[entry - tuner->entries];

    if (!tuner->is_untimed && entry->bucket &&
        ((*origin != ALGO_STORED && !entry->own) || is_usable(stream, p, a, entry))) {
        if (*origin == ALGO_STORED)
            *origin = ALGO_GOOD;
        out->own = entry->own;
        memcpy(&out->algo, entry->algo, sizeof(out->algo));
        return status_ok();
    }
    error = heuristics(stream->device, p, (uint32_t)key.alignment, found, max, &num);
    if (!error && num == 0)
        error = CUBLAS_STATUS_NOT_SUPPORTED;
    if (error)
        return lt_status(error, a);
    for (int i = 0; i < num; i++)
        candidates.list[candidates.num++].algo = found[i].algo;
    num_ways = own_ways(stream->device, a, ways);
    for (int i = 0; i < num_ways; i++)
        candidates.list[candidates.num++].own = ways[i];
    *out = candidates.list[0];
    out->own = forced_way(tuner, ways, num_ways);
    if (tuner->forced && !out->own && can_be_forced(stream->device, a, tuner->forced))
        return status_error(STATUS_UNSUPPORTED,
                            "linear [%d, %d] over %d tokens: not the forced way", key.n, key.k,
                            a->num_tokens);
    if (tuner->is_untimed || tuner->forced)
        return status_ok();
    if (cudaStreamIsCapturing(stream->cuda, &capture) || capture != cudaStreamCaptureStatusNone) {
        stream->has_guessed = true;
        return status_ok();
    }
    fastest = linear_trial_fastest(stream, a, candidates.num, run_candidate, &candidates);
    *out = candidates.list[fastest < 0 ? 0 : fastest];
    key.own = out->own;
    memcpy(key.algo, &out->algo, sizeof(key.algo));
    linear_tuner_put(tuner, &key, fastest < 0 ? ALGO_GUESSED : ALGO_GOOD);
    return status_ok();
}

static struct status layer(struct stream *stream, const struct layer_args *a)
{
    struct status status;
    struct product product;
    struct candidate chosen = {};
    cublasLtMatmulHeuristicResult_t first;
    cublasStatus_t error;
    bool is_forced = stream->device->tuner->forced != 0;
    int num = 0;

    if (a->num_tokens == 0)
        return status_ok();
    if (!is_forced && skinny_always(a))
        return skinny_launch(stream, a, SKINNY_SMALL);
    if (!is_forced && linear_stream_always(stream->device, a))
        return linear_stream_launch(stream, a);
    if (!is_forced && gate_up_many_always(stream->device, a, bucket_of(a->num_tokens)))
        return gate_up_many_launch(stream, a);
    error = product_init(&product, a);
    if (error)
        return lt_status(error, a);
    status = find_algo(stream, &product, a, &chosen);
    if (status.code)
        return status;
    if (chosen.own)
        return own_launch(stream, a, chosen.own);
    error = multiply(stream, &product, a, &chosen.algo);
    if (error) { /* tuned for a neighbour in the bucket, and not good for this one */
        error = heuristics(stream->device, &product, (uint32_t)alignment_of(a), &first, 1, &num);
        if (!error)
            error = multiply(stream, &product, a, num ? &first.algo : NULL);
    }
    if (error)
        return lt_status(error, a);
    status = cuda_launched(stream, cudaGetLastError(), "linear");
    if (!status.code && a->wide)
        status = cuda_launched(stream, silu_mul_launch(stream, a), "silu_mul");
    return status;
}

extern "C" struct status linear_cuda(struct stream *stream, const struct linear_args *args)
{
    struct layer_args a = {*args, NULL};

    if (a.y_dtype != a.weight->dtype && (a.accumulate || a.weight->bias))
        return status_error(STATUS_UNSUPPORTED,
                            "linear: y of another dtype than the weight's takes no bias or sum");
    return layer(stream, &a);
}

extern "C" struct status gate_up_cuda(struct stream *stream, const struct gate_up_args *args)
{
    struct layer_args a = {};

    a.weight = args->weight;
    a.y = args->y;
    a.wide = args->wide;
    a.x = args->x;
    a.y_dtype = args->weight->dtype;
    a.num_tokens = args->num_tokens;
    return layer(stream, &a);
}
