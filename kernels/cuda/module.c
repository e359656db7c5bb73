/*
 * module.c - the one symbol that minisgl_cuda.so exports, and the two tables behind it.
 */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda_module.h"

const struct device_ops device_cuda = {
    .name = "cuda",
    .open = device_cuda_open,
    .close = device_cuda_close,
    .info = device_cuda_info,
    .alloc = device_cuda_alloc,
    .free = device_cuda_free,
    .host_alloc = device_cuda_host_alloc,
    .host_free = device_cuda_host_free,
    .stream_create = stream_cuda_create,
    .stream_destroy = stream_cuda_destroy,
    .stream_sync = stream_cuda_sync,
    .copy = stream_cuda_copy,
    .fill = stream_cuda_fill,
    .event_create = event_cuda_create,
    .event_destroy = event_cuda_destroy,
    .event_record = event_cuda_record,
    .stream_wait = stream_cuda_wait,
    .event_wait = event_cuda_wait,
    .event_time = event_cuda_time,
    .graph_begin = graph_cuda_begin,
    .graph_end = graph_cuda_end,
    .graph_is_provisional = graph_cuda_is_provisional,
    .graph_launch = graph_cuda_launch,
    .graph_destroy = graph_cuda_destroy,
    .range_begin = range_cuda_begin,
    .range_end = range_cuda_end,
};

static struct status check(const struct ops_limits *limits)
{
    struct status status = attention_cuda_check(limits);

    return status.code ? status : moe_cuda_check(limits->num_experts);
}

static size_t workspace_size(struct device *device, const struct ops_limits *limits)
{
    size_t size = attention_cuda_workspace(device, limits);
    size_t moe = moe_cuda_workspace(limits);
    size_t sample = sample_cuda_workspace(limits);

    if (size < moe)
        size = moe;
    if (size < sample)
        size = sample;
    return size;
}

const struct kernels kernels_cuda = {
    .name = "cuda",
    .check = check,
    .workspace_size = workspace_size,
    .linear_create = linear_cuda_create,
    .linear_destroy = linear_cuda_destroy,
    .experts_create = experts_cuda_create,
    .experts_destroy = experts_cuda_destroy,
    .step_begin = step_begin_cuda,
    .embed = embed_cuda,
    .rmsnorm = rmsnorm_cuda,
    .linear = linear_cuda,
    .rope_kv = rope_kv_cuda,
    .attention = attention_cuda,
    .gate_up = gate_up_cuda,
    .moe = moe_cuda,
    .sample = sample_cuda,
    .fault = fault_cuda,
};

__attribute__((visibility("default"))) const struct backend *
minisgl_cuda_backend(uint32_t abi_version)
{
    static const struct backend backend = {.device = &device_cuda, .kernels = &kernels_cuda};

    return abi_version == BACKEND_ABI_VERSION ? &backend : NULL;
}
