/*
 * model.c - see model.h. A step, per layer, with H = hidden_size:
 *
 *     hidden [T, H]   residual stream, in place
 *     normed [T, H]   RMSNorm of it, what every linear of the layer reads
 *     wide            qkv [T, ...] and attended [T, ...], or gate_up [T, 2 I] and act [T, I]
 *
 * Source: transformers, modeling_llama.py, modeling_qwen3.py, modeling_qwen3_moe.py.
 */
#include "scheduler_proc/model.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler_proc/model_internal.h"

size_t model_slot_bytes(const struct model_config *config, enum dtype dtype)
{
    return (size_t)config->num_kv_heads * config->head_dim * dtype_size(dtype);
}

/* ---- scratch ---- */

static struct status scratch(struct model *model, size_t size, void **out)
{
    model->scratch_bytes += size;
    return model->device_ops->alloc(model->device, size ? size : 1, out);
}

static struct status make_scratch(struct model *model, const struct ops_limits *limits)
{
    const struct model_config *config = model->config;
    size_t item = dtype_size(model->dtype), tokens = (size_t)model->max_tokens;
    size_t rows = (size_t)model->max_rows, hidden = (size_t)config->hidden_size;
    size_t attended = (size_t)config->num_qo_heads * config->head_dim;
    size_t inner = (size_t)config->intermediate_size;

    model->attended_offset = device_align(tokens * (size_t)model_qkv_width(config) * item);
    model->act_offset = device_align(tokens * 2 * inner * item);
    size_t attention_bytes = model->attended_offset + tokens * attended * item;
    size_t mlp_bytes = model->act_offset + tokens * inner * item;
    const struct {
        size_t size;
        void **out;
    } buffers[] = {
        {tokens * hidden * item, &model->hidden},
        {tokens * hidden * item, &model->normed},
        {attention_bytes > mlp_bytes ? attention_bytes : mlp_bytes, &model->wide},
        {rows * hidden * item, &model->last},
        {tokens * (size_t)config->num_experts * sizeof(float), (void **)&model->router_logits},
        {rows * (size_t)config->vocab_size * sizeof(float), (void **)&model->logits},
        {model->kernels->workspace_size(model->device, limits), &model->workspace},
    };
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++) {
        struct status status = scratch(model, buffers[i].size, buffers[i].out);
        if (status.code)
            return status;
    }
    return status_ok();
}

/* ---- life ---- */

struct status model_create(const struct model_args *args, struct model **out)
{
    struct model *model = calloc(1, sizeof(*model));
    const struct model_config *config = args->config;
    struct ops_limits limits = {.dtype = args->dtype,
                                .max_tokens = args->max_tokens,
                                .max_rows = args->max_rows,
                                .max_kv_len = args->max_seq_len,
                                .hidden_size = config->hidden_size,
                                .num_qo_heads = config->num_qo_heads,
                                .num_kv_heads = config->num_kv_heads,
                                .head_dim = config->head_dim,
                                .vocab_size = config->vocab_size,
                                .num_experts = config->num_experts,
                                .moe_top_k = config->num_experts_per_tok,
                                .moe_inner_size = config->moe_intermediate_size};
    struct status status;

    if (!model)
        return status_error(STATUS_NO_MEMORY, "model: no memory");
    *model = (struct model){.device_ops = args->backend->device,
                            .kernels = args->backend->kernels,
                            .device = args->device,
                            .config = config,
                            .dtype = args->dtype,
                            .max_tokens = args->max_tokens,
                            .max_rows = args->max_rows};
    status = model->kernels->check(&limits);
    model->layers = calloc((size_t)config->num_layers, sizeof(struct layer));
    if (!model->layers && status.code == STATUS_OK)
        status = status_error(STATUS_NO_MEMORY, "model: no memory");
    if (status.code == STATUS_OK)
        status = model_load(model, args);
    if (status.code == STATUS_OK)
        status = make_scratch(model, &limits);
    if (status.code) {
        model_destroy(&model);
        return status;
    }
    *out = model;
    return status_ok();
}

static void release_layer(struct model *model, struct layer *layer)
{
    struct device_tensor *norms[] = {&layer->input_norm, &layer->post_norm, &layer->q_norm,
                                     &layer->k_norm};
    struct linear_weight **linears[] = {&layer->qkv, &layer->o, &layer->gate_up, &layer->down,
                                        &layer->router};

    for (size_t i = 0; i < sizeof(norms) / sizeof(norms[0]); i++)
        if (norms[i]->owned)
            model->device_ops->free(model->device, norms[i]->owned);
    for (size_t i = 0; i < sizeof(linears) / sizeof(linears[0]); i++)
        if (*linears[i])
            model->kernels->linear_destroy(linears[i]);
    if (layer->experts)
        model->kernels->experts_destroy(&layer->experts);
}

void model_destroy(struct model **out_model)
{
    struct model *model = *out_model;

    if (!model)
        return;
    void *buffers[] = {model->embed.owned, model->final_norm.owned, model->cos_sin,
                       model->hidden,      model->normed,           model->wide,
                       model->last,        model->router_logits,    model->logits,
                       model->workspace};
    for (int32_t i = 0; model->layers && i < model->config->num_layers; i++)
        release_layer(model, &model->layers[i]);
    if (model->head)
        model->kernels->linear_destroy(&model->head);
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        if (buffers[i])
            model->device_ops->free(model->device, buffers[i]);
    free(model->layers);
    free(model);
    *out_model = NULL;
}

size_t model_scratch_bytes(const struct model *model)
{
    return model->scratch_bytes;
}

const float *model_logits(const struct model *model)
{
    return model->logits;
}

/* ---- a step ---- */

static struct status norm(struct model *model, struct stream *stream, const void *weight, void *y,
                          int32_t num_rows, const int32_t *last_of)
{
    return model->kernels->rmsnorm(stream,
                                   &(struct rmsnorm_args){.dtype = model->dtype,
                                                          .y = y,
                                                          .x = model->hidden,
                                                          .weight = weight,
                                                          .last_of = last_of,
                                                          .num_rows = num_rows,
                                                          .hidden_size = model->config->hidden_size,
                                                          .eps = model->config->rms_norm_eps});
}

static struct status linear(struct model *model, struct stream *stream,
                            const struct linear_weight *weight, void *y, enum dtype y_dtype,
                            const void *x, int32_t num_tokens, bool accumulate)
{
    return model->kernels->linear(stream, &(struct linear_args){.weight = weight,
                                                                .y = y,
                                                                .x = x,
                                                                .y_dtype = y_dtype,
                                                                .num_tokens = num_tokens,
                                                                .accumulate = accumulate});
}

static struct status attention(struct model *model, struct stream *stream,
                               const struct model_step *step, int32_t index)
{
    const struct model_config *config = model->config;
    const struct layer *layer = &model->layers[index];
    size_t cache_bytes = step->num_slots * model_slot_bytes(config, model->dtype);
    char *k_cache = (char *)step->kv_cache + 2 * (size_t)index * cache_bytes;
    char *v_cache = k_cache + cache_bytes;
    void *attended = (char *)model->wide + model->attended_offset;
    struct status status;

    status = norm(model, stream, layer->input_norm.data, model->normed, step->num_tokens, NULL);
    if (status.code)
        return status;
    status = linear(model, stream, layer->qkv, model->wide, model->dtype, model->normed,
                    step->num_tokens, false);
    if (status.code)
        return status;
    status =
        model->kernels->rope_kv(stream, &(struct rope_kv_args){.dtype = model->dtype,
                                                               .qkv = model->wide,
                                                               .q_norm = layer->q_norm.data,
                                                               .k_norm = layer->k_norm.data,
                                                               .cos_sin = model->cos_sin,
                                                               .positions = step->inputs.positions,
                                                               .out_loc = step->inputs.out_loc,
                                                               .k_cache = k_cache,
                                                               .v_cache = v_cache,
                                                               .num_tokens = step->num_tokens,
                                                               .num_qo_heads = config->num_qo_heads,
                                                               .num_kv_heads = config->num_kv_heads,
                                                               .head_dim = config->head_dim,
                                                               .eps = config->rms_norm_eps});
    if (status.code)
        return status;
    status = model->kernels->attention(
        stream, &(struct attention_args){.dtype = model->dtype,
                                         .out = attended,
                                         .qkv = model->wide,
                                         .k_cache = k_cache,
                                         .v_cache = v_cache,
                                         .page_table = step->page_table,
                                         .page_table_stride = step->page_table_stride,
                                         .page_size = step->page_size,
                                         .cu_seqlens_q = step->inputs.cu_seqlens_q,
                                         .kv_lens = step->inputs.kv_lens,
                                         .row_table_idx = step->inputs.row_table_idx,
                                         .num_tokens = step->num_tokens,
                                         .num_rows = step->num_rows,
                                         .max_extend_len = step->max_extend_len,
                                         .max_extend_rows = step->max_extend_rows,
                                         .max_kv_len = step->max_kv_len,
                                         .num_qo_heads = config->num_qo_heads,
                                         .num_kv_heads = config->num_kv_heads,
                                         .head_dim = config->head_dim,
                                         .scale = 1 / sqrtf((float)config->head_dim),
                                         .workspace = model->workspace});
    if (status.code)
        return status;
    return linear(model, stream, layer->o, model->hidden, model->dtype, attended, step->num_tokens,
                  true);
}

static struct status dense_mlp(struct model *model, struct stream *stream,
                               const struct layer *layer, int32_t num_tokens)
{
    void *act = (char *)model->wide + model->act_offset;
    struct status status = model->kernels->gate_up(
        stream, &(struct gate_up_args){.dtype = model->dtype,
                                       .weight = layer->gate_up,
                                       .y = act,
                                       .wide = model->wide,
                                       .x = model->normed,
                                       .num_tokens = num_tokens,
                                       .inner_size = model->config->intermediate_size});

    if (status.code)
        return status;
    return linear(model, stream, layer->down, model->hidden, model->dtype, act, num_tokens, true);
}

static struct status sparse_mlp(struct model *model, struct stream *stream,
                                const struct layer *layer, int32_t num_tokens)
{
    struct status status = linear(model, stream, layer->router, model->router_logits, DTYPE_F32,
                                  model->normed, num_tokens, false);

    if (status.code)
        return status;
    return model->kernels->moe(stream,
                               &(struct moe_args){.experts = layer->experts,
                                                  .y = model->hidden,
                                                  .x = model->normed,
                                                  .router_logits = model->router_logits,
                                                  .num_tokens = num_tokens,
                                                  .top_k = model->config->num_experts_per_tok,
                                                  .normalise = model->config->norm_topk_prob,
                                                  .workspace = model->workspace});
}

static struct status mlp(struct model *model, struct stream *stream, const struct model_step *step,
                         int32_t index)
{
    const struct layer *layer = &model->layers[index];
    struct status status =
        norm(model, stream, layer->post_norm.data, model->normed, step->num_tokens, NULL);

    if (status.code)
        return status;
    return layer->experts ? sparse_mlp(model, stream, layer, step->num_tokens)
                          : dense_mlp(model, stream, layer, step->num_tokens);
}

/* Final norm of each row's last token, logits, the choice. */
static struct status head(struct model *model, struct stream *stream, const struct model_step *step)
{
    struct status status = norm(model, stream, model->final_norm.data, model->last, step->num_rows,
                                step->inputs.cu_seqlens_q);

    if (status.code)
        return status;
    status = linear(model, stream, model->head, model->logits, DTYPE_F32, model->last,
                    step->num_rows, false);
    if (status.code)
        return status;
    return model->kernels->sample(
        stream, &(struct sample_args){.logits = model->logits,
                                      .num_rows = step->num_rows,
                                      .vocab_size = model->config->vocab_size,
                                      .inputs = step->inputs,
                                      .token_pool = step->token_pool,
                                      .token_pool_stride = step->token_pool_stride,
                                      .results = step->results,
                                      .step_counter = step->step_counter,
                                      .workspace = model->workspace});
}

struct status model_forward(struct model *model, struct stream *stream,
                            const struct model_step *step)
{
    const struct model_config *config = model->config;
    struct status status = model->kernels->embed(
        stream, &(struct embed_args){.dtype = model->dtype,
                                     .y = model->hidden,
                                     .weight = model->embed.data,
                                     .table = config->tie_word_embeddings ? model->head : NULL,
                                     .token_pool = step->token_pool,
                                     .token_pool_stride = step->token_pool_stride,
                                     .token_table_idx = step->inputs.token_table_idx,
                                     .positions = step->inputs.positions,
                                     .num_tokens = step->num_tokens,
                                     .hidden_size = config->hidden_size,
                                     .vocab_size = config->vocab_size});

    for (int32_t i = 0; i < config->num_layers && status.code == STATUS_OK; i++) {
        status = attention(model, stream, step, i);
        if (status.code == STATUS_OK)
            status = mlp(model, stream, step, i);
    }
    return status.code ? status : head(model, stream, step);
}
