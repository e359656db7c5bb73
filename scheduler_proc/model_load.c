/*
 * model_load.c - weights from their files to the device, under the names that Hugging Face gives
 * them: model.layers.3.self_attn.q_proj.weight and so on.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/progress.h"
#include "kernels/element.h"
#include "scheduler_proc/model_internal.h"
#include "scheduler_proc/rope.h"

enum { NAME_BYTES = 128, UPLOAD_BYTES = 16 << 20 };

/* While loading. */
struct loader {
    struct model *model;
    struct weights *weights;
    struct stream *stream;
    bool may_borrow;
    void *upload; /* pinned, [UPLOAD_BYTES]; made when first needed */
    struct progress progress;
    uint64_t loaded; /* bytes so far, as the model keeps them */
};

static void add_progress(struct loader *in, size_t count)
{
    in->loaded += count * dtype_size(in->model->dtype);
    progress_update(&in->progress, in->loaded);
}

/* Host values to a new device buffer of the model's dtype. */
static struct status upload(struct loader *in, const struct weight_view *view, void **out)
{
    struct model *model = in->model;
    const struct device_ops *ops = model->device_ops;
    size_t item = dtype_size(model->dtype), chunk = UPLOAD_BYTES / item;
    char *dst = NULL;
    struct status status = ops->alloc(model->device, view->count * item, (void **)&dst);

    if (status.code)
        return status;
    if (ops->is_host) {
        element_convert(dst, model->dtype, view->data, view->dtype, view->count);
        *out = dst;
        return status_ok();
    }
    if (!in->upload)
        status = ops->host_alloc(model->device, UPLOAD_BYTES, &in->upload);
    for (size_t i = 0; i < view->count && status.code == STATUS_OK; i += chunk) {
        size_t count = view->count - i < chunk ? view->count - i : chunk;
        element_convert(in->upload, model->dtype,
                        (const char *)view->data + i * dtype_size(view->dtype), view->dtype, count);
        status =
            ops->copy(in->stream, dst + i * item, in->upload, count * item, COPY_HOST_TO_DEVICE);
        if (status.code == STATUS_OK)
            status = ops->stream_sync(in->stream);
    }
    if (status.code) {
        ops->free(model->device, dst);
        return status;
    }
    *out = dst;
    return status_ok();
}

static struct status load_tensor(struct loader *in, const char *name, int64_t rows, int64_t cols,
                                 struct device_tensor *out)
{
    struct weight_view view;
    void *data = NULL;
    struct status status = weights_get(in->weights, name, rows, cols, &view);

    if (status.code)
        return status;
    add_progress(in, view.count);
    bool is_aligned = (uintptr_t)view.data % dtype_size(view.dtype) == 0;
    if (in->may_borrow && in->model->device_ops->is_host && view.dtype == in->model->dtype &&
        is_aligned) {
        *out = (struct device_tensor){.data = view.data};
        return status_ok();
    }
    status = upload(in, &view, &data);
    if (status.code == STATUS_OK)
        *out = (struct device_tensor){.data = data, .owned = data};
    return status;
}

/* name.weight [n, k] and, if asked for, name.bias [n]. */
static struct status get_part(struct loader *in, const char *name, int32_t n, int32_t k,
                              bool has_bias, struct linear_part *out)
{
    char full[NAME_BYTES + 16];
    struct weight_view weight, bias = {0};
    struct status status;

    snprintf(full, sizeof(full), "%s.weight", name);
    status = weights_get(in->weights, full, n, k, &weight);
    if (status.code == STATUS_OK && has_bias) {
        snprintf(full, sizeof(full), "%s.bias", name);
        status = weights_get(in->weights, full, n, 0, &bias);
        if (status.code == STATUS_OK && bias.dtype != weight.dtype)
            status = status_error(STATUS_UNSUPPORTED, "tensor %s: not of its weight's type", full);
    }
    if (status.code)
        return status;
    add_progress(in, weight.count);
    *out =
        (struct linear_part){.data = weight.data, .dtype = weight.dtype, .n = n, .bias = bias.data};
    return status_ok();
}

struct part_spec {
    const char *name; /* behind the layer's prefix */
    int32_t n;
};

static struct status load_linear(struct loader *in, const char *prefix,
                                 const struct part_spec *specs, int32_t num_parts, int32_t k,
                                 bool has_bias, struct linear_weight **out)
{
    struct linear_part parts[3];
    char name[NAME_BYTES];

    for (int32_t i = 0; i < num_parts; i++) {
        snprintf(name, sizeof(name), "%s%s", prefix, specs[i].name);
        struct status status = get_part(in, name, specs[i].n, k, has_bias, &parts[i]);
        if (status.code)
            return status;
    }
    struct linear_source source = {
        .parts = parts, .num_parts = num_parts, .k = k, .dtype = in->model->dtype};
    return status_context(in->model->kernels->linear_create(in->stream, &source, out), prefix);
}

static struct status load_experts(struct loader *in, const char *prefix, struct layer *layer)
{
    const struct model_config *config = in->model->config;
    int32_t count = config->num_experts, inner = config->moe_intermediate_size;
    struct linear_part *parts = calloc((size_t)count * 3, sizeof(*parts));
    char name[NAME_BYTES];
    struct status status = status_ok();

    if (!parts)
        return status_error(STATUS_NO_MEMORY, "%s: no memory", prefix);
    for (int32_t i = 0; i < count && status.code == STATUS_OK; i++) {
        snprintf(name, sizeof(name), "%smlp.experts.%d.gate_proj", prefix, i);
        status = get_part(in, name, inner, config->hidden_size, false, &parts[i]);
        if (status.code)
            break;
        snprintf(name, sizeof(name), "%smlp.experts.%d.up_proj", prefix, i);
        status = get_part(in, name, inner, config->hidden_size, false, &parts[count + i]);
        if (status.code)
            break;
        snprintf(name, sizeof(name), "%smlp.experts.%d.down_proj", prefix, i);
        status = get_part(in, name, config->hidden_size, inner, false, &parts[2 * count + i]);
    }
    if (status.code == STATUS_OK) {
        struct experts_source source = {.gate = parts,
                                        .up = parts + count,
                                        .down = parts + 2 * (size_t)count,
                                        .num_experts = count,
                                        .hidden_size = config->hidden_size,
                                        .inner_size = inner,
                                        .dtype = in->model->dtype};
        status = status_context(
            in->model->kernels->experts_create(in->stream, &source, &layer->experts), prefix);
    }
    free(parts);
    return status;
}

static struct status load_norm(struct loader *in, const char *prefix, const char *name,
                               int32_t size, struct device_tensor *out)
{
    char full[NAME_BYTES];

    snprintf(full, sizeof(full), "%s%s.weight", prefix, name);
    return load_tensor(in, full, size, 0, out);
}

static struct status load_mlp(struct loader *in, const char *prefix, bool is_sparse,
                              struct layer *layer)
{
    const struct model_config *config = in->model->config;
    int32_t hidden = config->hidden_size, inner = config->intermediate_size;
    struct status status;

    if (is_sparse) {
        status = load_linear(in, prefix, &(struct part_spec){"mlp.gate", config->num_experts}, 1,
                             hidden, false, &layer->router);
        return status.code ? status : load_experts(in, prefix, layer);
    }
    const struct part_spec gate_up[] = {{"mlp.gate_proj", inner}, {"mlp.up_proj", inner}};
    status = load_linear(in, prefix, gate_up, 2, hidden, config->mlp_bias, &layer->gate_up);
    if (status.code)
        return status;
    return load_linear(in, prefix, &(struct part_spec){"mlp.down_proj", hidden}, 1, inner,
                       config->mlp_bias, &layer->down);
}

static struct status load_layer(struct loader *in, int32_t index)
{
    const struct model_config *config = in->model->config;
    struct layer *layer = &in->model->layers[index];
    int32_t hidden = config->hidden_size, head_dim = config->head_dim;
    int32_t q = config->num_qo_heads * head_dim, kv = config->num_kv_heads * head_dim;
    const struct part_spec qkv[] = {
        {"self_attn.q_proj", q}, {"self_attn.k_proj", kv}, {"self_attn.v_proj", kv}};
    char prefix[48];
    struct status status;

    snprintf(prefix, sizeof(prefix), "model.layers.%d.", index);
    status = load_norm(in, prefix, "input_layernorm", hidden, &layer->input_norm);
    if (status.code)
        return status;
    status = load_norm(in, prefix, "post_attention_layernorm", hidden, &layer->post_norm);
    if (status.code)
        return status;
    if (config->qk_norm) {
        status = load_norm(in, prefix, "self_attn.q_norm", head_dim, &layer->q_norm);
        if (status.code)
            return status;
        status = load_norm(in, prefix, "self_attn.k_norm", head_dim, &layer->k_norm);
        if (status.code)
            return status;
    }
    status = load_linear(in, prefix, qkv, 3, hidden, config->qkv_bias, &layer->qkv);
    if (status.code)
        return status;
    status = load_linear(in, prefix, &(struct part_spec){"self_attn.o_proj", hidden}, 1, q,
                         config->o_bias, &layer->o);
    if (status.code)
        return status;
    return load_mlp(in, prefix, config->is_sparse[index], layer);
}

size_t model_num_values(const struct model_config *config)
{
    int64_t hidden = config->hidden_size, count = 0;

    for (int32_t i = 0; i < config->num_layers; i++) {
        count += hidden * (model_qkv_width(config) + config->num_qo_heads * config->head_dim);
        count += config->is_sparse[i]
                     ? hidden * config->num_experts * (3 * (int64_t)config->moe_intermediate_size)
                     : 3 * hidden * config->intermediate_size;
    }
    return (size_t)(count + hidden * config->vocab_size * (config->tie_word_embeddings ? 1 : 2));
}

/* What has been copied need not lie in memory a second time, as pages of the mapped files. */
static struct status drop_copied(struct loader *in)
{
    struct status status = in->model->device_ops->stream_sync(in->stream);

    if (status.code == STATUS_OK)
        weights_drop_pages(in->weights);
    return status;
}

static struct status load_all(struct loader *in)
{
    struct model *model = in->model;
    const struct model_config *config = model->config;
    struct status status;

    progress_begin(&in->progress, "loading weights", "B",
                   (uint64_t)model_num_values(config) * dtype_size(model->dtype));
    /* Tied: the head's weight is the embedding, and a head in the files is not looked at. */
    struct part_spec head_spec = {config->tie_word_embeddings ? "model.embed_tokens" : "lm_head",
                                  config->vocab_size};
    status = load_linear(in, "", &head_spec, 1, config->hidden_size, false, &model->head);
    if (status.code == STATUS_OK && !config->tie_word_embeddings)
        status = load_tensor(in, "model.embed_tokens.weight", config->vocab_size,
                             config->hidden_size, &model->embed);
    for (int32_t i = 0; i < config->num_layers && status.code == STATUS_OK; i++) {
        status = load_layer(in, i);
        if (status.code == STATUS_OK)
            status = drop_copied(in);
    }
    if (status.code == STATUS_OK)
        status = load_norm(in, "model.", "norm", config->hidden_size, &model->final_norm);
    /* After a failure too: the caller frees what the stream may still be writing. */
    struct status synced = model->device_ops->stream_sync(in->stream);
    if (status.code == STATUS_OK)
        status = synced;
    progress_end(&in->progress, status.code == STATUS_OK);
    return status;
}

static struct status make_cos_sin(struct loader *in, int32_t max_seq_len)
{
    struct model *model = in->model;
    int32_t head_dim = model->config->head_dim;
    size_t size = (size_t)max_seq_len * head_dim * sizeof(float);
    float *table = malloc(size);
    struct status status;

    if (!table)
        return status_error(STATUS_NO_MEMORY,
                            "rotary table of %d positions: no memory (see --max-seq-len-override)",
                            (int)max_seq_len);
    rope_fill(&model->config->rope, head_dim, max_seq_len, table);
    status = model->device_ops->alloc(model->device, size, (void **)&model->cos_sin);
    if (status.code == STATUS_OK)
        status =
            model->device_ops->copy(in->stream, model->cos_sin, table, size, COPY_HOST_TO_DEVICE);
    if (status.code == STATUS_OK)
        status = model->device_ops->stream_sync(in->stream);
    free(table);
    return status;
}

struct status model_load(struct model *model, const struct model_args *args)
{
    struct loader loader = {.model = model,
                            .weights = args->weights,
                            .stream = args->stream,
                            .may_borrow = args->may_borrow};
    struct status status = load_all(&loader);

    if (status.code == STATUS_OK)
        status = make_cos_sin(&loader, args->max_seq_len);
    if (loader.upload)
        model->device_ops->host_free(model->device, loader.upload);
    return status;
}
