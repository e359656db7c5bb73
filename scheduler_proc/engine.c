/* engine.c - see engine.h. */
#include "scheduler_proc/engine.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "scheduler_proc/engine_internal.h"

/* ---- making it ---- */

static enum dtype choose_dtype(enum engine_dtype wanted, enum dtype of_files)
{
    if (wanted == ENGINE_DTYPE_AUTO)
        return of_files == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
    return wanted == ENGINE_DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
}

/* Values of the largest matrix that the model has. */
static size_t largest_matrix(const struct model_config *model)
{
    const int32_t heights[] = {model->vocab_size, model->num_qo_heads * model->head_dim,
                               model->intermediate_size, model->moe_intermediate_size,
                               model->num_experts};
    int32_t largest = 0;

    for (size_t i = 0; i < sizeof(heights) / sizeof(heights[0]); i++)
        largest = heights[i] > largest ? heights[i] : largest;
    return (size_t)largest * model->hidden_size;
}

static struct status open_weights(struct engine *engine)
{
    const struct engine_config *config = &engine->config;
    const struct model_config *model = config->model;
    struct weight_view embed;
    struct status status;

    if (config->dummy_weights) {
        engine->dtype = choose_dtype(config->dtype, model->dtype);
        return weights_open_dummy(&engine->weights, engine->dtype, largest_matrix(model));
    }
    status = weights_open(&engine->weights, config->model_dir);
    if (status.code)
        return status;
    snprintf(engine->info.warnings[0], sizeof(engine->info.warnings[0]), "%s",
             engine->weights.warning);
    status = weights_get(&engine->weights, "model.embed_tokens.weight", model->vocab_size,
                         model->hidden_size, &embed);
    if (status.code)
        return status;
    engine->dtype = choose_dtype(config->dtype, embed.dtype);
    return status_ok();
}

static void note_unused(struct engine *engine)
{
    const char *first = "";
    size_t count = weights_num_unused(&engine->weights, &first);

    if (count > 0)
        snprintf(engine->info.warnings[1], sizeof(engine->info.warnings[1]),
                 "%zu tensors in the files are unused, such as %.50s", count, first);
}

/* Files are mapped, or dummies made, while the device is opened: neither is quick. */
struct opening {
    struct engine *engine;
    pthread_t thread;
    bool is_started;
    struct status status;
};

static void *open_weights_beside(void *arg)
{
    struct opening *opening = arg;

    opening->status = open_weights(opening->engine);
    return NULL;
}

static void opening_begin(struct opening *opening, struct engine *engine)
{
    *opening = (struct opening){.engine = engine, .status = status_ok()};
    if (engine->config.device == ENGINE_SIM)
        return;
    opening->is_started = pthread_create(&opening->thread, NULL, open_weights_beside, opening) == 0;
    if (!opening->is_started)
        open_weights_beside(opening);
}

static struct status opening_end(struct opening *opening)
{
    if (opening->is_started)
        pthread_join(opening->thread, NULL);
    return opening->status;
}

static struct status make_model(struct engine *engine)
{
    const struct engine_config *config = &engine->config;
    bool may_borrow = !config->dummy_weights && engine->backend.device->is_host;
    struct status status;

    if (config->device == ENGINE_SIM) {
        engine->info.dtype_name = "sim";
        return sim_create(&engine->backend, config->model->vocab_size, &config->sim, &engine->sim);
    }
    engine->info.dtype_name = engine->dtype == DTYPE_F32 ? "float32" : "bfloat16";
    engine->info.weight_bytes = weights_size(&engine->weights);
    status = model_create(&(struct model_args){.backend = &engine->backend,
                                               .device = engine->device,
                                               .stream = engine->engine_stream,
                                               .config = config->model,
                                               .dtype = engine->dtype,
                                               .weights = &engine->weights,
                                               .may_borrow = may_borrow,
                                               .max_tokens = engine->max_tokens,
                                               .max_rows = engine->max_rows,
                                               .max_seq_len = engine->info.max_seq_len},
                          &engine->model);
    if (status.code)
        return status;
    note_unused(engine);
    engine->info.table_bytes =
        (size_t)engine->info.max_seq_len * config->model->head_dim * sizeof(float);
    engine->info.scratch_bytes = model_scratch_bytes(engine->model);
    if (config->dummy_weights)
        engine->info.weight_bytes = model_num_values(config->model) * dtype_size(engine->dtype);
    if (!may_borrow)
        weights_close(&engine->weights);
    return status_ok();
}

static struct status open_device(struct engine *engine)
{
    const struct engine_config *config = &engine->config;
    struct device_args args = {.ordinal = config->ordinal,
                               .num_threads = config->num_threads,
                               .op_delay_ns = config->op_delay_ns,
                               .op_delay_random = config->op_delay_random};
    struct status status =
        backend_open(config->device == ENGINE_CUDA ? "cuda" : "cpu", &engine->backend);

    if (status.code == STATUS_OK)
        status = engine->backend.device->open(&args, &engine->device);
    if (status.code == STATUS_OK)
        status =
            engine->backend.device->stream_create(engine->device, false, &engine->engine_stream);
    if (status.code == STATUS_OK)
        status =
            engine->backend.device->stream_create(engine->device, true, &engine->scheduler_stream);
    return status;
}

static void add_time(int64_t *total_ns, int64_t *begin_ns)
{
    int64_t now_ns = clock_now_ns();

    *total_ns += now_ns - *begin_ns;
    *begin_ns = now_ns;
}

struct status engine_create(const struct engine_config *config, struct engine **out)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    struct device_info device = {0};
    struct opening opening;
    int64_t begin_ns = clock_now_ns();
    struct status status;

    if (!engine)
        return status_error(STATUS_NO_MEMORY, "engine: no memory");
    engine->config = *config;
    opening_begin(&opening, engine);
    status = open_device(engine);
    struct status opened = opening_end(&opening);
    if (status.code == STATUS_OK)
        status = opened;
    if (status.code == STATUS_OK)
        status = engine->backend.device->info(engine->device, &device);
    if (status.code == STATUS_OK && config->fault_step > 0 && !engine->backend.kernels->fault)
        status = status_error(STATUS_UNSUPPORTED, "only a card can have its fault");
    if (status.code)
        goto fail;
    add_time(&engine->info.open_ns, &begin_ns);
    bool has_graphs = engine->backend.device->graph_begin && config->device != ENGINE_SIM;
    int32_t graph_rows = engine_graph_limit(config, has_graphs);
    int32_t budget = config->max_prefill_tokens > config->page_size ? config->max_prefill_tokens
                                                                    : config->page_size;
    memcpy(engine->info.device_name, device.name, sizeof(engine->info.device_name));
    engine->info.graph_max_rows = graph_rows;
    engine->info.max_seq_len = config->max_seq_len_override > 0
                                   ? config->max_seq_len_override
                                   : config->model->max_position_embeddings;
    engine->max_rows =
        graph_rows > config->max_running_reqs ? graph_rows : config->max_running_reqs;
    engine->max_tokens = budget + engine->max_rows;
    status = make_model(engine);
    add_time(&engine->info.weights_ns, &begin_ns);
    if (status.code == STATUS_OK)
        status = engine_make_cache(engine, device.free_bytes);
    add_time(&engine->info.memory_ns, &begin_ns);
    if (status.code)
        goto fail;
    *out = engine;
    return status_ok();
fail:
    engine_destroy(&engine);
    return status;
}

struct status engine_prepare(struct engine *engine, const struct batch_limits *limits)
{
    int64_t begin_ns = clock_now_ns();
    struct status status = engine_make_rings(engine, limits);

    add_time(&engine->info.memory_ns, &begin_ns);
    if (status.code == STATUS_OK)
        status = engine_capture(engine);
    add_time(&engine->info.graphs_ns, &begin_ns);
    return status;
}

void engine_destroy(struct engine **out_engine)
{
    struct engine *engine = *out_engine;

    if (!engine)
        return;
    const struct device_ops *ops = engine->backend.device;
    if (engine->engine_stream)
        ops->stream_destroy(&engine->engine_stream);
    if (engine->scheduler_stream)
        ops->stream_destroy(&engine->scheduler_stream);
    for (int32_t i = 0; i < engine->num_graphs; i++)
        ops->graph_destroy(&engine->graphs[i].graph);
    model_destroy(&engine->model);
    sim_destroy(&engine->sim);
    weights_close(&engine->weights);
    if (engine->device) {
        engine_free_rings(engine);
        ops->close(&engine->device);
    }
    free(engine);
    *out_engine = NULL;
}

const struct engine_info *engine_info(const struct engine *engine)
{
    return &engine->info;
}

/* ---- a step ---- */

struct status engine_enqueue(struct engine *engine, const struct model_step *step)
{
    struct status status = engine->backend.kernels->step_begin(
        engine->engine_stream,
        &(struct step_begin_args){.staging = engine->staging,
                                  .slot_size = engine->slot_size,
                                  .num_slots = ENGINE_NUM_SLOTS,
                                  .step_counter = engine->step_counter,
                                  .page_table = engine->page_table,
                                  .token_pool = engine->token_pool,
                                  .page_table_stride = step->page_table_stride,
                                  .token_pool_stride = step->token_pool_stride,
                                  .inputs = step->inputs});

    if (status.code)
        return status;
    return engine->sim ? sim_forward(engine->sim, engine->engine_stream, step)
                       : model_forward(engine->model, engine->engine_stream, step);
}

/* The block to its staging slot, on the scheduler's stream; the engine's stream waits for it. */
static struct status upload(struct engine *engine, struct engine_slot *slot, int32_t index,
                            size_t size)
{
    const struct device_ops *ops = engine->backend.device;
    char *staging = (char *)engine->staging + (size_t)index * engine->slot_size;
    struct status status = ops->stream_wait(engine->scheduler_stream, slot->done);

    if (status.code == STATUS_OK)
        status =
            ops->copy(engine->scheduler_stream, staging, slot->pinned, size, COPY_HOST_TO_DEVICE);
    if (status.code == STATUS_OK)
        status = ops->event_record(engine->scheduler_stream, slot->copied);
    if (status.code == STATUS_OK)
        status = ops->stream_wait(engine->engine_stream, slot->copied);
    return status;
}

/* What a fault was met at: it may be of an operator of this step or of one before it. */
static struct status name_step(const struct engine *engine, const struct engine_slot *slot,
                               struct status status, const char *doing)
{
    int64_t num_unfinished = engine->num_launched - engine->num_waited;
    char context[48];

    if (!status.code)
        return status;
    snprintf(context, sizeof(context), "%s step %lld, with %d on the device", doing,
             (long long)slot->step, (int)num_unfinished);
    return status_context(status, context);
}

static struct status enqueue_step(struct engine *engine, const struct model_step *step,
                                  struct graph *graph, bool is_faulty)
{
    struct status status = status_ok();

    if (is_faulty)
        status = engine->backend.kernels->fault(engine->engine_stream);
    if (status.code)
        return status;
    return graph ? engine->backend.device->graph_launch(engine->engine_stream, graph)
                 : engine_enqueue(engine, step);
}

struct status engine_launch_padded(struct engine *engine, const struct batch *batch,
                                   const struct model_step *step, struct graph *graph)
{
    const struct device_ops *ops = engine->backend.device;
    int32_t index = (int32_t)(engine->num_launched % ENGINE_NUM_SLOTS);
    struct engine_slot *slot = &engine->slots[index];
    struct step_padding padding = {.num_tokens = step->num_tokens,
                                   .num_rows = step->num_rows,
                                   .dummy_row = engine->config.max_running_reqs,
                                   .dummy_slot = engine->info.num_pages * engine->config.page_size,
                                   .page_size = engine->config.page_size};
    bool is_faulty = engine->config.fault_step > 0 && batch->step == engine->config.fault_step;
    struct status status;

    assert(engine->num_launched - engine->num_waited < ENGINE_NUM_SLOTS);
    slot->step = batch->step;
    slot->range = engine_range_begin(engine, "step");
    status = ops->event_wait(slot->copied); /* of four steps ago: done long since */
    if (status.code == STATUS_OK) {
        size_t size = step_pack(slot->pinned, batch, &padding);
        assert(size <= engine->slot_size);
        status = upload(engine, slot, index, size);
        engine->uploaded_ns = clock_now_ns();
    }
    if (status.code == STATUS_OK)
        status = enqueue_step(engine, step, graph, is_faulty);
    if (status.code == STATUS_OK)
        status = ops->copy(engine->engine_stream, slot->results, engine->results,
                           (size_t)step->num_rows * sizeof(int32_t), COPY_DEVICE_TO_HOST);
    if (status.code == STATUS_OK)
        status = ops->event_record(engine->engine_stream, slot->done);
    status = name_step(engine, slot, status, "launching");
    engine->num_launched++;
    return status;
}

struct status engine_launch(struct engine *engine, const struct batch *batch)
{
    const struct engine_graph *graph = engine_find_graph(engine, batch);
    struct model_step step = engine->step;

    if (graph)
        return engine_launch_padded(engine, batch, &graph->step, graph->graph);
    step.num_tokens = batch->num_tokens;
    step.num_rows = engine_padded_rows(engine, batch->num_rows);
    step.max_extend_len = batch->max_extend_len;
    step.max_extend_rows = batch->num_extend_rows;
    step.max_kv_len = batch->max_kv_len;
    return engine_launch_padded(engine, batch, &step, NULL);
}

int64_t engine_uploaded_ns(const struct engine *engine)
{
    return engine->uploaded_ns;
}

static struct engine_slot *oldest(struct engine *engine)
{
    assert(engine->num_waited < engine->num_launched);
    return &engine->slots[engine->num_waited % ENGINE_NUM_SLOTS];
}

struct status engine_wait(struct engine *engine, const int32_t **out_tokens,
                          struct engine_times *out_times)
{
    const struct device_ops *ops = engine->backend.device;
    struct engine_slot *slot = oldest(engine);
    struct engine_times times = {0};
    struct status status = ops->event_wait(slot->done);

    if (status.code == STATUS_OK)
        status = ops->event_time(slot->copied, &times.begin_ns);
    if (status.code == STATUS_OK)
        status = ops->event_time(slot->done, &times.end_ns);
    if (status.code)
        return name_step(engine, slot, status, "waiting for");
    if (times.begin_ns < engine->last_end_ns)
        times.begin_ns = engine->last_end_ns;
    engine->last_end_ns = times.end_ns;
    engine_range_end(engine, slot->range);
    engine->num_waited++;
    *out_tokens = slot->results;
    *out_times = times;
    return status_ok();
}

uint64_t engine_range_begin(const struct engine *engine, const char *name)
{
    const struct device_ops *ops = engine->backend.device;

    return ops->range_begin ? ops->range_begin(name) : 0;
}

void engine_range_end(const struct engine *engine, uint64_t range)
{
    if (engine->backend.device->range_end)
        engine->backend.device->range_end(range);
}

struct status engine_read_logits(struct engine *engine, int32_t row, float *out)
{
    const struct device_ops *ops = engine->backend.device;
    size_t vocab_size = (size_t)engine->config.model->vocab_size;
    struct status status;

    if (!engine->model)
        return status_error(STATUS_UNSUPPORTED, "sim has no logits");
    status = ops->copy(engine->engine_stream, out,
                       model_logits(engine->model) + (size_t)row * vocab_size,
                       vocab_size * sizeof(float), COPY_DEVICE_TO_HOST);
    return status.code ? status : ops->stream_sync(engine->engine_stream);
}
