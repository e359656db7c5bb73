/*
 * embed.cu - y[t] = weight[token_pool[token_table_idx[t], positions[t]]]: a gather of rows.
 *
 * Grid: one block per token. Each row is read and written once, 16 bytes a thread where the row's
 * size allows it. An id outside the vocabulary gives a row of zeros. A tied table is the output
 * layer's weight, which lies here as the file has it.
 */
#include "kernels/cuda/linear.cuh"

/* V: what a thread moves at once; row_len counts V. */
template <typename V>
static __global__ void embed_kernel(V *y, const V *weight, const int32_t *token_pool,
                                    int token_pool_stride, const int32_t *token_table_idx,
                                    const int32_t *positions, int row_len, int vocab_size)
{
    size_t t = blockIdx.x;
    int token;

    pdl_launch();
    pdl_wait();
    token =
        token_pool[(size_t)token_table_idx[t] * (size_t)token_pool_stride + (size_t)positions[t]];
    for (int i = (int)threadIdx.x; i < row_len; i += (int)blockDim.x) {
        V v = {};

        if (token >= 0 && token < vocab_size)
            v = weight[(size_t)token * (size_t)row_len + (size_t)i];
        y[t * (size_t)row_len + (size_t)i] = v;
    }
}

template <typename V>
static cudaError_t embed_launch(struct stream *stream, const struct embed_args *a, size_t row_size)
{
    int row_len = (int)(row_size / sizeof(V));
    int threads = row_len < 256 ? (row_len + WARP - 1) / WARP * WARP : 256;

    return launch(stream, embed_kernel<V>, dim3((unsigned)a->num_tokens), threads, 0, (V *)a->y,
                  (const V *)(a->weight ? a->weight : a->table->data), a->token_pool,
                  a->token_pool_stride, a->token_table_idx, a->positions, row_len, a->vocab_size);
}

extern "C" struct status embed_cuda(struct stream *stream, const struct embed_args *a)
{
    size_t row_size = (size_t)a->hidden_size * dtype_size(a->dtype);
    cudaError_t error;

    if (a->num_tokens == 0)
        return status_ok();
    if (row_size % 16 == 0)
        error = embed_launch<uint4>(stream, a, row_size);
    else
        error = embed_launch<uint16_t>(stream, a, row_size);
    return cuda_launched(stream, error, "embed");
}
