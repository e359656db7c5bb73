/*
 * attention.cu - which kernel serves a step: rows of one token go to the decode kernel, rows of
 * several to the prefill kernel, and what neither can to the plain one.
 */
#include "kernels/cuda/attention.cuh"

extern "C" struct status attention_cuda(struct stream *stream, const struct attention_args *a)
{
    struct status status;
    bool decode = attention_decode_can(stream->device, a);

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

extern "C" struct status attention_cuda_check(const struct ops_limits *limits)
{
    int32_t group = limits->num_qo_heads / limits->num_kv_heads;

    if (limits->head_dim > ATTENTION_MAX_HEAD_DIM)
        return status_error(STATUS_UNSUPPORTED, "head_dim %d: cuda's attention serves at most %d",
                            limits->head_dim, (int)ATTENTION_MAX_HEAD_DIM);
    if (limits->dtype == DTYPE_BF16 &&
        !attention_prefill_fits(limits->max_tokens, limits->max_rows, group))
        return status_error(STATUS_UNSUPPORTED,
                            "max-prefill-length: %d tokens in a step, of %d heads that share K and "
                            "V, are too many for cuda",
                            limits->max_tokens, group);
    return status_ok();
}

extern "C" size_t attention_cuda_workspace(struct device *device, const struct ops_limits *limits)
{
    return attention_decode_workspace(device, limits);
}
