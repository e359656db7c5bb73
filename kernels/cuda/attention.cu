/*
 * attention.cu - which kernel serves a step: rows of one token go to the decode kernel, rows of
 * several to the prefill kernel, and what neither can to the plain one.
 */
#include "kernels/cuda/attention.cuh"

extern "C" struct status attention_cuda(struct stream *stream, const struct attention_args *a)
{
    struct status status;
    bool decode = attention_decode_can(a);

    if (a->num_tokens == 0)
        return status_ok();
    if (a->max_extend_len == 1 && decode)
        return attention_decode_launch(stream, a);
    if (!attention_prefill_can(a))
        return attention_any_launch(stream, a);
    decode = decode && a->num_rows > 1; /* a lone row of several tokens leaves it nothing */
    status = attention_prefill_launch(stream, a, decode);
    if (!status.code && decode)
        status = attention_decode_launch(stream, a);
    return status;
}

extern "C" size_t attention_cuda_workspace(struct device *device, const struct ops_limits *limits)
{
    return attention_decode_workspace(device, limits);
}
