/*
 * engine_memory.c - how the device's memory is laid out: KV cache, page table, token pool, fixed
 * inputs, staging ring; and the host's pinned rings.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler_proc/engine_internal.h"

/* ---- the cache ---- */

static size_t page_bytes(const struct engine *engine)
{
    const struct engine_config *config = &engine->config;
    size_t slot = engine->sim ? sim_slot_bytes()
                              : 2 * (size_t)config->model->num_layers *
                                    model_slot_bytes(config->model, engine->dtype);

    return slot * (size_t)config->page_size;
}

/*
 * On the host's own memory: enough for four of the longest sequences and for 32768 tokens (where
 * the model is simulated, for all that may run), but no more than a quarter of what is free beside
 * the weights. On a card: memory_ratio of what was free, less what is used.
 */
static struct status choose_num_pages(struct engine *engine, size_t free_before, int64_t *out)
{
    const struct engine_config *config = &engine->config;
    struct device_info device = {0};
    size_t page = page_bytes(engine);
    int64_t max_seq_len = engine->info.max_seq_len;

    if (config->num_pages > 0) {
        *out = config->num_pages;
        return status_ok();
    }
    struct status status = engine->backend.device->info(engine->device, &device);
    if (status.code)
        return status;
    if (engine->backend.device->is_host) {
        int64_t tokens = 4 * max_seq_len > 32768 ? 4 * max_seq_len : 32768;
        if (engine->sim)
            tokens = config->max_running_reqs * max_seq_len;
        int64_t wanted = (tokens + config->page_size - 1) / config->page_size;
        int64_t bound = (int64_t)(device.free_bytes / 4 / page);
        *out = wanted < bound ? wanted : bound;
        return status_ok();
    }
    double tables = (double)(config->max_running_reqs + 1) * (double)max_seq_len *
                    (4 + 4.0 / config->page_size);
    double used = (double)free_before - (double)device.free_bytes + tables;
    double left = config->memory_ratio * (double)free_before - used;
    *out = left > 0 ? (int64_t)(left / (double)page) : 0;
    return status_ok();
}

struct status engine_make_cache(struct engine *engine, size_t free_bytes)
{
    const struct device_ops *ops = engine->backend.device;
    int64_t num_pages = 0;
    struct status status = choose_num_pages(engine, free_bytes, &num_pages);

    if (status.code)
        return status;
    if (num_pages < 2)
        return status_error(STATUS_NO_SPACE,
                            "no room for 2 pages of %zu bytes of KV cache beside the weights",
                            page_bytes(engine));
    if (num_pages > batch_max_pages(engine->config.page_size))
        num_pages = batch_max_pages(engine->config.page_size);
    int64_t num_slots = (num_pages + 1) * engine->config.page_size; /* with the dummy page */
    engine->info.num_pages = (int32_t)num_pages;
    if (engine->info.max_seq_len > num_pages * engine->config.page_size)
        engine->info.max_seq_len = (int32_t)(num_pages * engine->config.page_size);
    engine->info.kv_bytes = (size_t)(num_pages + 1) * page_bytes(engine);
    engine->step.num_slots = (size_t)num_slots;
    status = ops->alloc(engine->device, engine->info.kv_bytes, &engine->kv_cache);
    return status_context(status, "KV cache");
}

/* ---- tables and rings ---- */

/* One allocation for all fixed inputs. */
static struct status make_inputs(struct engine *engine)
{
    size_t tokens = (size_t)engine->max_tokens, rows = (size_t)engine->max_rows;
    struct step_inputs *inputs = &engine->step.inputs;
    const struct {
        void **out;
        size_t size;
    } parts[] = {
        {(void **)&inputs->token_table_idx, tokens * 4},
        {(void **)&inputs->positions, tokens * 4},
        {(void **)&inputs->out_loc, tokens * 4},
        {(void **)&inputs->cu_seqlens_q, (rows + 1) * 4},
        {(void **)&inputs->kv_lens, rows * 4},
        {(void **)&inputs->row_table_idx, rows * 4},
        {(void **)&inputs->sample_table_idx, rows * 4},
        {(void **)&inputs->sample_pos, rows * 4},
        {(void **)&inputs->temperature, rows * 4},
        {(void **)&inputs->top_p, rows * 4},
        {(void **)&inputs->min_p, rows * 4},
        {(void **)&inputs->top_k, rows * 4},
        {(void **)&inputs->seed, rows * 8},
    };
    size_t num_parts = sizeof(parts) / sizeof(parts[0]), total = 0;

    for (size_t i = 0; i < num_parts; i++)
        total += device_align(parts[i].size);
    struct status status = engine->backend.device->alloc(engine->device, total, &engine->inputs);
    if (status.code)
        return status;
    char *at = engine->inputs;
    for (size_t i = 0; i < num_parts; i++) {
        *parts[i].out = at;
        at += device_align(parts[i].size);
    }
    inputs->max_tokens = engine->max_tokens;
    inputs->max_rows = engine->max_rows;
    engine->table_bytes += total;
    return status_ok();
}

/* All of the page table points at the dummy page until a step says otherwise. */
static struct status fill_page_table(struct engine *engine, size_t count)
{
    const struct device_ops *ops = engine->backend.device;
    int32_t *host = malloc(count * sizeof(int32_t));
    struct status status;

    if (!host)
        return status_error(STATUS_NO_MEMORY, "page table: no memory");
    for (size_t i = 0; i < count; i++)
        host[i] = engine->info.num_pages;
    status = ops->copy(engine->engine_stream, engine->page_table, host, count * sizeof(int32_t),
                       COPY_HOST_TO_DEVICE);
    if (status.code == STATUS_OK)
        status = ops->stream_sync(engine->engine_stream);
    free(host);
    return status;
}

static struct status make_tables(struct engine *engine)
{
    const struct device_ops *ops = engine->backend.device;
    const struct engine_config *config = &engine->config;
    int32_t page_size = config->page_size;
    size_t num_rows = (size_t)config->max_running_reqs + 1; /* with the dummy row */
    int32_t max_pages = (engine->info.max_seq_len + page_size - 1) / page_size;
    struct model_step *step = &engine->step;
    struct status status;

    step->page_size = page_size;
    step->page_table_stride = (max_pages + 15) / 16 * 16;
    step->token_pool_stride = (engine->info.max_seq_len + 15) / 16 * 16;
    size_t table_count = num_rows * (size_t)step->page_table_stride;
    size_t pool_bytes = num_rows * (size_t)step->token_pool_stride * sizeof(int32_t);
    status =
        ops->alloc(engine->device, table_count * sizeof(int32_t), (void **)&engine->page_table);
    if (status.code == STATUS_OK)
        status = ops->alloc(engine->device, pool_bytes, (void **)&engine->token_pool);
    if (status.code == STATUS_OK)
        status = ops->alloc(engine->device, (size_t)engine->max_rows * sizeof(int32_t),
                            (void **)&engine->results);
    if (status.code == STATUS_OK)
        status = ops->alloc(engine->device, sizeof(uint32_t), (void **)&engine->step_counter);
    if (status.code == STATUS_OK)
        status = ops->fill(engine->engine_stream, engine->token_pool, 0, pool_bytes);
    if (status.code == STATUS_OK)
        status = ops->fill(engine->engine_stream, engine->step_counter, 0, sizeof(uint32_t));
    if (status.code == STATUS_OK)
        status = fill_page_table(engine, table_count);
    engine->table_bytes += table_count * sizeof(int32_t) + pool_bytes;
    step->page_table = engine->page_table;
    step->token_pool = engine->token_pool;
    step->results = engine->results;
    step->step_counter = engine->step_counter;
    step->kv_cache = engine->kv_cache;
    return status;
}

static struct status make_slot(struct engine *engine, struct engine_slot *slot)
{
    const struct device_ops *ops = engine->backend.device;
    struct status status = ops->host_alloc(engine->device, engine->slot_size, &slot->pinned);

    if (status.code == STATUS_OK)
        status = ops->host_alloc(engine->device, (size_t)engine->max_rows * sizeof(int32_t),
                                 (void **)&slot->results);
    if (status.code == STATUS_OK)
        status = ops->event_create(engine->device, &slot->copied);
    if (status.code == STATUS_OK)
        status = ops->event_create(engine->device, &slot->done);
    return status;
}

struct status engine_make_rings(struct engine *engine, const struct batch_limits *limits)
{
    struct status status;

    if (limits->max_tokens > engine->max_tokens || limits->max_rows > engine->max_rows)
        return status_error(STATUS_INVALID, "batches of %d tokens and %d rows exceed %d and %d",
                            limits->max_tokens, limits->max_rows, engine->max_tokens,
                            engine->max_rows);
    engine->slot_size = step_block_max_bytes(limits, engine->max_tokens, engine->max_rows);
    engine->info.staging_bytes = engine->slot_size;
    status = make_inputs(engine);
    if (status.code == STATUS_OK)
        status = make_tables(engine);
    if (status.code == STATUS_OK)
        status = engine->backend.device->alloc(engine->device, ENGINE_NUM_SLOTS * engine->slot_size,
                                               &engine->staging);
    for (int i = 0; i < ENGINE_NUM_SLOTS && status.code == STATUS_OK; i++)
        status = make_slot(engine, &engine->slots[i]);
    engine->info.table_bytes += engine->table_bytes;
    engine->info.scratch_bytes += engine->table_bytes + 2 * ENGINE_NUM_SLOTS * engine->slot_size;
    return status;
}

void engine_free_rings(struct engine *engine)
{
    const struct device_ops *ops = engine->backend.device;
    void *buffers[] = {engine->kv_cache,   engine->staging, engine->inputs,      engine->page_table,
                       engine->token_pool, engine->results, engine->step_counter};

    for (int i = 0; i < ENGINE_NUM_SLOTS; i++) {
        struct engine_slot *slot = &engine->slots[i];
        struct event **events[] = {&slot->copied, &slot->done};
        for (size_t j = 0; j < sizeof(events) / sizeof(events[0]); j++)
            if (*events[j])
                ops->event_destroy(events[j]);
        if (slot->pinned)
            ops->host_free(engine->device, slot->pinned);
        if (slot->results)
            ops->host_free(engine->device, slot->results);
    }
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        if (buffers[i])
            ops->free(engine->device, buffers[i]);
}
