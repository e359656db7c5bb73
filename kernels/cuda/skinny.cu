/*
 * skinny.cu - y = x W^T + bias (or y += ...) for up to 16 tokens in bfloat16: bound by the one read
 * of W, and at these sizes by how soon it starts.
 *
 * Grid: a block for ROWS = 8 * TILES rows of W; its warps cut k into slices and add up in shared
 * memory, in order. Each lane loads 16 bytes of a row of W at a time, straight into the tensor
 * cores' registers: lane (g, t) holds W[row g][8 t ..] of each 32 elements of k, x in the same
 * order, so the sum does not mind. The first LOADS * TILES loads are under way before the kernel
 * waits for the one that makes x (programmatic dependent launch): weights never change.
 *
 * Of a gated layer half of a block's rows are gates, the others the ups that belong to them.
 */
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/mma.cuh"

enum { MAX_WARPS = 16 };

struct skinny_args {
    const __nv_bfloat16 *weight, *x, *bias;
    void *y;
    int n, k, num_tokens;
    int slice; /* of k, for each warp: a multiple of 32 */
    bool accumulate, is_gated;
};

/* x[token][at ..], or zeros for a token that is not there. */
static __device__ __forceinline__ uint4 load_x(const struct skinny_args *a, int token, int at)
{
    if (token >= a->num_tokens)
        return make_uint4(0, 0, 0, 0);
    return *(const uint4 *)(a->x + (size_t)token * (size_t)a->k + at);
}

/* The sum of all warps, in order, and the bias. */
template <int ROWS>
static __device__ __forceinline__ float add_up(const struct skinny_args *a,
                                               const float (*sums)[FEW_TOKENS][ROWS + 1], int token,
                                               int i, int row)
{
    int num_warps = (int)blockDim.x / WARP;
    float sum = 0;

    for (int j = 0; j < num_warps; j++)
        sum += sums[j][token][i];
    return a->bias ? sum + to_float(a->bias[row]) : sum;
}

template <typename T, int TILES, int LOADS, bool MANY>
static __global__ void __launch_bounds__(MAX_WARPS *WARP) skinny_kernel(struct skinny_args a)
{
    enum { ROWS = 8 * TILES };
    __shared__ float sums[MAX_WARPS][FEW_TOKENS][ROWS + 1];
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    int begin = warp * a.slice, end = min(a.k, begin + a.slice);
    int num_outputs = a.is_gated ? ROWS / 2 : ROWS, n = a.is_gated ? a.n / 2 : a.n;
    int first = (int)blockIdx.x * num_outputs;
    const __nv_bfloat16 *rows[TILES];
    float acc[TILES][4];
    uint4 w[LOADS][TILES];

#pragma unroll
    for (int i = 0; i < TILES; i++) {
        int j = i * 8 + g, row = min(first + j, n - 1);

        if (a.is_gated && j >= ROWS / 2)
            row = n + min(first + j - ROWS / 2, n - 1);
        rows[i] = a.weight + (size_t)row * (size_t)a.k + t * 8;
        acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0;
    }
#pragma unroll
    for (int j = 0; j < LOADS; j++) {
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            if (begin + j * 32 < end)
                w[j][i] = load_stream(rows[i] + begin + j * 32);
        }
    }
    pdl_launch();
    pdl_wait();
    for (int at = begin; at < end; at += LOADS * 32) {
        uint4 x[LOADS][2];

#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            if (at + j * 32 >= end)
                break;
            x[j][0] = load_x(&a, g, at + j * 32 + t * 8);
            if (MANY)
                x[j][1] = load_x(&a, g + 8, at + j * 32 + t * 8);
        }
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            if (at + j * 32 >= end)
                break;
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                mma_bf16(acc[i], x[j][0].x, MANY ? x[j][1].x : 0, x[j][0].y, MANY ? x[j][1].y : 0,
                         w[j][i].x, w[j][i].y);
                mma_bf16(acc[i], x[j][0].z, MANY ? x[j][1].z : 0, x[j][0].w, MANY ? x[j][1].w : 0,
                         w[j][i].z, w[j][i].w);
                if (at + (j + LOADS) * 32 < end)
                    w[j][i] = load_stream(rows[i] + at + (j + LOADS) * 32);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < TILES; i++) {
#pragma unroll
        for (int e = 0; e < (MANY ? 4 : 2); e++)
            sums[warp][g + e / 2 * 8][i * 8 + 2 * t + e % 2] = acc[i][e];
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < a.num_tokens * num_outputs; i += (int)blockDim.x) {
        int token = a.is_gated ? i / (ROWS / 2) : i / ROWS;
        int j = i - token * num_outputs, row = first + j;
        T *y = (T *)a.y + (size_t)token * (size_t)n + row;
        float sum;

        if (row >= n)
            continue;
        sum = add_up<ROWS>(&a, sums, token, j, row);
        if (a.is_gated)
            sum = silu_mul(round_bf16(sum),
                           round_bf16(add_up<ROWS>(&a, sums, token, num_outputs + j, n + row)));
        if (a.accumulate)
            sum += to_float(*y);
        store_float(y, sum);
    }
}

bool skinny_can(const struct layer_args *a)
{
    return a->weight->dtype == DTYPE_BF16 && a->weight->k % 32 == 0 && a->num_tokens <= FEW_TOKENS;
}

bool skinny_always(const struct layer_args *a)
{
    return skinny_can(a) && (int64_t)a->weight->n * a->weight->k < LARGE_WEIGHT;
}

template <typename T, int TILES, int LOADS>
static cudaError_t skinny(struct stream *stream, struct skinny_args *args, int max_warps)
{
    dim3 grid((unsigned)ceil_div(args->n, 8 * TILES));
    int num_warps = 1;

    while (num_warps < max_warps && args->k >= num_warps * 2 * 128)
        num_warps *= 2;
    args->slice = ceil_div(args->k, num_warps * 32) * 32;
    if (args->num_tokens > 8)
        return launch(stream, skinny_kernel<T, TILES, LOADS, true>, grid, num_warps * WARP, 0,
                      *args);
    return launch(stream, skinny_kernel<T, TILES, LOADS, false>, grid, num_warps * WARP, 0, *args);
}

template <typename T>
static cudaError_t skinny_any(struct stream *stream, struct skinny_args *args, int number)
{
    int max_warps = args->n <= 2048 ? MAX_WARPS : 8;

    switch (number) {
    case 1:
        return skinny<T, 4, 2>(stream, args, 8);
    case 2:
        return skinny<T, 1, 8>(stream, args, 4);
    default: /* one wave of blocks where n allows it, all of a warp's loads under way at once */
        if (args->n <= 4096)
            return skinny<T, 2, 4>(stream, args, max_warps);
        return skinny<T, 4, 2>(stream, args, max_warps);
    }
}

struct status skinny_launch(struct stream *stream, const struct layer_args *a, int number)
{
    struct skinny_args args = {};
    cudaError_t error;

    args.weight = (const __nv_bfloat16 *)a->weight->data;
    args.x = (const __nv_bfloat16 *)a->x;
    args.bias = (const __nv_bfloat16 *)a->weight->bias;
    args.y = a->y;
    args.n = a->weight->n;
    args.k = a->weight->k;
    args.num_tokens = a->num_tokens;
    args.accumulate = a->accumulate;
    args.is_gated = a->wide != NULL;
    if (a->y_dtype == DTYPE_F32)
        error = skinny_any<float>(stream, &args, number);
    else
        error = skinny_any<__nv_bfloat16>(stream, &args, number);
    return cuda_launched(stream, error, "linear");
}
