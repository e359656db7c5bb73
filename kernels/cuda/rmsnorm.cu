/*
 * rmsnorm.cu - y[i] = x[s] * weight / sqrt(mean(x[s]^2) + eps), sums in float32.
 *
 * Grid: one block per row. Where rows are whole numbers of 16 bytes a thread holds VECS of these in
 * registers between the two passes, so that memory sees one read and one write, the least there can
 * be; the weight is fetched while the kernel before still runs. Other rows are read twice, the
 * second time from cache.
 * Source: Zhang and Sennrich, Root Mean Square Layer Normalization, arXiv 1910.07467.
 */
#include "kernels/cuda/cuda_util.cuh"

static __device__ size_t source_row(const int32_t *last_of)
{
    return last_of ? (size_t)(last_of[blockIdx.x + 1] - 1) : (size_t)blockIdx.x;
}

template <typename T, int VECS>
static __global__ void rmsnorm_kernel(T *y, const T *x, const T *weight, const int32_t *last_of,
                                      int row_vecs, float eps)
{
    typedef vec16<T> vec;
    __shared__ float shared[WARP];
    vec values[VECS], weights[VECS];
    size_t row = blockIdx.x;
    const vec *in;
    float sum = 0, scale;

    for (int j = 0; j < VECS; j++) {
        int i = (int)threadIdx.x + j * (int)blockDim.x;

        if (i < row_vecs)
            weights[j] = ((const vec *)weight)[i];
    }
    pdl_launch();
    pdl_wait();
    in = (const vec *)x + source_row(last_of) * (size_t)row_vecs;
#pragma unroll
    for (int j = 0; j < VECS; j++) {
        int i = (int)threadIdx.x + j * (int)blockDim.x;

        if (i < row_vecs)
            values[j] = in[i];
    }
#pragma unroll
    for (int j = 0; j < VECS; j++) {
        if ((int)threadIdx.x + j * (int)blockDim.x >= row_vecs)
            break;
        for (int e = 0; e < vec::N; e++)
            sum += to_float(values[j].v[e]) * to_float(values[j].v[e]);
    }
    scale = rsqrtf(block_sum(sum, shared) / (float)(row_vecs * vec::N) + eps);
#pragma unroll
    for (int j = 0; j < VECS; j++) {
        int i = (int)threadIdx.x + j * (int)blockDim.x;

        if (i >= row_vecs)
            break;
        for (int e = 0; e < vec::N; e++)
            store_float(&values[j].v[e],
                        to_float(values[j].v[e]) * scale * to_float(weights[j].v[e]));
        ((vec *)y)[row * (size_t)row_vecs + (size_t)i] = values[j];
    }
}

template <typename T>
static __global__ void rmsnorm_any_kernel(T *y, const T *x, const T *weight, const int32_t *last_of,
                                          int hidden_size, float eps)
{
    __shared__ float shared[WARP];
    T *out = y + blockIdx.x * (size_t)hidden_size;
    const T *in;
    float sum = 0, scale;

    pdl_launch();
    pdl_wait();
    in = x + source_row(last_of) * (size_t)hidden_size;
    for (int i = (int)threadIdx.x; i < hidden_size; i += (int)blockDim.x)
        sum += to_float(in[i]) * to_float(in[i]);
    scale = rsqrtf(block_sum(sum, shared) / (float)hidden_size + eps);
    for (int i = (int)threadIdx.x; i < hidden_size; i += (int)blockDim.x)
        store_float(&out[i], to_float(in[i]) * scale * to_float(weight[i]));
}

template <typename T>
static cudaError_t rmsnorm_launch(struct stream *stream, const struct rmsnorm_args *a)
{
    T *y = (T *)a->y;
    const T *x = (const T *)a->x, *weight = (const T *)a->weight;
    dim3 grid((unsigned)a->num_rows);
    int row_vecs = a->hidden_size / vec16<T>::N;
    int vecs = row_vecs <= 512 ? 1 : row_vecs <= 1024 ? 2 : 4;
    int threads = ceil_div(ceil_div(row_vecs, vecs), WARP) * WARP;

    if (a->hidden_size % vec16<T>::N || row_vecs > 4096)
        return launch(stream, rmsnorm_any_kernel<T>, grid, 256, 0, y, x, weight, a->last_of,
                      a->hidden_size, a->eps);
    if (vecs == 1)
        return launch(stream, rmsnorm_kernel<T, 1>, grid, threads, 0, y, x, weight, a->last_of,
                      row_vecs, a->eps);
    if (vecs == 2)
        return launch(stream, rmsnorm_kernel<T, 2>, grid, threads, 0, y, x, weight, a->last_of,
                      row_vecs, a->eps);
    return launch(stream, rmsnorm_kernel<T, 4>, grid, threads, 0, y, x, weight, a->last_of,
                  row_vecs, a->eps);
}

extern "C" struct status rmsnorm_cuda(struct stream *stream, const struct rmsnorm_args *a)
{
    cudaError_t error;

    if (a->num_rows == 0)
        return status_ok();
    if (a->dtype == DTYPE_BF16)
        error = rmsnorm_launch<__nv_bfloat16>(stream, a);
    else
        error = rmsnorm_launch<float>(stream, a);
    return cuda_launched(stream, error, "rmsnorm");
}
