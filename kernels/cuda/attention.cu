/*
 * attention.cu - which kernel serves a step.
 */
#include "kernels/cuda/attention.cuh"

extern "C" struct status attention_cuda(struct stream *stream, const struct attention_args *a)
{
    if (a->num_tokens == 0)
        return status_ok();
    if (a->max_extend_len == 1 && attention_decode_can(a))
        return attention_decode_launch(stream, a);
    return attention_any_launch(stream, a);
}

extern "C" size_t attention_cuda_workspace(struct device *device, const struct ops_limits *limits)
{
    return attention_decode_workspace(device, limits);
}
