/*
 * kernels_cpu.c - the table of operators of this back end: each puts itself into the stream, which
 * runs the one for the CPU's instruction set.
 */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/fast_attention.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/weight.h"
#include "kernels/ops.h"

static struct status check_head_dim(int32_t head_dim)
{
    if (head_dim > ATTENTION_MAX_HEAD_DIM)
        return status_error(STATUS_UNSUPPORTED,
                            "head_dim %d: the cpu's attention serves at most %d", (int)head_dim,
                            (int)ATTENTION_MAX_HEAD_DIM);
    return status_ok();
}

static struct status check(const struct ops_limits *limits)
{
    return check_head_dim(limits->head_dim);
}

static struct status put_step_begin(struct stream *stream, const struct step_begin_args *args)
{
    return cpu_stream_put(stream, cpu_step_begin, args, sizeof(*args));
}

static struct status put_embed(struct stream *stream, const struct embed_args *args)
{
    if (args->num_tokens == 0)
        return status_ok();
    return cpu_stream_put(stream, cpu_stream_kernels(stream)->embed, args, sizeof(*args));
}

static struct status put_rmsnorm(struct stream *stream, const struct rmsnorm_args *args)
{
    if (args->num_rows == 0)
        return status_ok();
    return cpu_stream_put(stream, cpu_stream_kernels(stream)->rmsnorm, args, sizeof(*args));
}

static struct status put_linear(struct stream *stream, const struct linear_args *args)
{
    if (args->num_tokens == 0)
        return status_ok();
    return cpu_stream_put(stream, cpu_stream_kernels(stream)->linear, args, sizeof(*args));
}

static struct status put_rope_kv(struct stream *stream, const struct rope_kv_args *args)
{
    if (args->num_tokens == 0)
        return status_ok();
    return cpu_stream_put(stream, cpu_stream_kernels(stream)->rope_kv, args, sizeof(*args));
}

static struct status put_attention(struct stream *stream, const struct attention_args *args)
{
    if (args->num_tokens == 0)
        return status_ok();
    struct status status = check_head_dim(args->head_dim);
    if (status.code)
        return status;
    return cpu_stream_put(stream, cpu_stream_kernels(stream)->attention, args, sizeof(*args));
}

static struct status put_gate_up(struct stream *stream, const struct gate_up_args *args)
{
    const struct linear_args linear = {.weight = args->weight,
                                       .y = args->wide,
                                       .x = args->x,
                                       .y_dtype = args->dtype,
                                       .num_tokens = args->num_tokens};
    struct status status = put_linear(stream, &linear);

    if (status.code || args->num_tokens == 0)
        return status;
    return cpu_stream_put(stream, cpu_stream_kernels(stream)->silu_mul, args, sizeof(*args));
}

static struct status put_moe(struct stream *stream, const struct moe_args *args)
{
    if (args->num_tokens == 0)
        return status_ok();
    return cpu_stream_put(stream, cpu_stream_kernels(stream)->moe, args, sizeof(*args));
}

/* No row is no token but ends the step all the same. */
static struct status put_sample(struct stream *stream, const struct sample_args *args)
{
    return cpu_stream_put(stream, cpu_stream_kernels(stream)->sample, args, sizeof(*args));
}

static size_t workspace_size(struct device *device, const struct ops_limits *limits)
{
    return cpu_workspace_size(pool_num_threads(cpu_device_pool(device)), limits);
}

const struct kernels kernels_cpu = {
    .name = "cpu",
    .check = check,
    .workspace_size = workspace_size,
    .linear_create = weight_linear_create,
    .linear_destroy = weight_linear_destroy,
    .experts_create = weight_experts_create,
    .experts_destroy = weight_experts_destroy,
    .step_begin = put_step_begin,
    .embed = put_embed,
    .rmsnorm = put_rmsnorm,
    .linear = put_linear,
    .rope_kv = put_rope_kv,
    .attention = put_attention,
    .gate_up = put_gate_up,
    .moe = put_moe,
    .sample = put_sample,
};
