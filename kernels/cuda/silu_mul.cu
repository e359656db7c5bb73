/*
 * silu_mul.cu - y[t, i] = silu(h[t, i]) * h[t, inner_size + i]: the second part of gate_up, behind
 * products that leave h in wide.
 *
 * Grid: a thread for each 16 bytes of y (or each element, where a row is no whole number of them);
 * every byte is read and written once.
 */
#include "kernels/cuda/linear.cuh"

template <typename T>
static __global__ void silu_mul_kernel(T *y, const T *x, int row_vecs, size_t num_vecs)
{
    typedef vec16<T> vec;
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    const vec *in;
    vec gate, up;

    pdl_launch();
    pdl_wait();
    if (i >= num_vecs)
        return;
    in = (const vec *)x + i / (size_t)row_vecs * 2 * (size_t)row_vecs + i % (size_t)row_vecs;
    gate = in[0];
    up = in[row_vecs];
    for (int e = 0; e < vec::N; e++)
        store_float(&gate.v[e], silu_mul(to_float(gate.v[e]), to_float(up.v[e])));
    ((vec *)y)[i] = gate;
}

template <typename T>
static __global__ void silu_mul_any_kernel(T *y, const T *x, int inner_size, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    const T *in;

    pdl_launch();
    pdl_wait();
    if (i >= n)
        return;
    in = x + i / (size_t)inner_size * 2 * (size_t)inner_size + i % (size_t)inner_size;
    store_float(&y[i], silu_mul(to_float(in[0]), to_float(in[inner_size])));
}

template <typename T>
static cudaError_t launch_any(struct stream *stream, const struct layer_args *a)
{
    int inner_size = a->weight->n / 2, row_vecs = inner_size / vec16<T>::N;
    size_t n = (size_t)a->num_tokens * (size_t)inner_size;

    if (inner_size % vec16<T>::N)
        return launch(stream, silu_mul_any_kernel<T>, dim3((unsigned)ceil_div((int64_t)n, 256)),
                      256, 0, (T *)a->y, (const T *)a->wide, inner_size, n);
    n /= vec16<T>::N;
    return launch(stream, silu_mul_kernel<T>, dim3((unsigned)ceil_div((int64_t)n, 128)), 128, 0,
                  (T *)a->y, (const T *)a->wide, row_vecs, n);
}

cudaError_t silu_mul_launch(struct stream *stream, const struct layer_args *a)
{
    if (a->weight->dtype == DTYPE_BF16)
        return launch_any<__nv_bfloat16>(stream, a);
    return launch_any<float>(stream, a);
}
