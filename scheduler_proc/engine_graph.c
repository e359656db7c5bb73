/*
 * engine_graph.c - decode steps captured once and replayed: one call to the device in place of some
 * hundred. Batches are padded to the next captured size; what is larger runs operator by operator.
 */
#include "common/progress.h"
#include "scheduler_proc/engine_internal.h"

enum { GRAPH_AUTO_ROWS = 256 };

int32_t engine_graph_sizes(int32_t graph_max_rows, int32_t *out)
{
    int32_t count = 0;

    for (int32_t size = graph_max_rows / 8 * 8; size >= 8 && count < ENGINE_MAX_GRAPHS - 3;
         size -= 8)
        out[count++] = size;
    for (int32_t size = 4; size >= 1; size /= 2)
        if (size <= graph_max_rows)
            out[count++] = size;
    return count;
}

int32_t engine_graph_limit(const struct engine_config *config, bool has_graphs)
{
    int32_t enough = (config->max_running_reqs + 7) / 8 * 8;
    int32_t asked =
        config->graph_max_rows == ENGINE_GRAPH_AUTO ? GRAPH_AUTO_ROWS : config->graph_max_rows;

    if (!has_graphs)
        return 0;
    return asked < enough ? asked : enough;
}

static struct status capture_one(struct engine *engine, int32_t num_rows)
{
    const struct device_ops *ops = engine->backend.device;
    struct batch nothing = {0};
    struct model_step step = engine->step;
    struct engine_graph *entry = &engine->graphs[engine->num_graphs];
    const int32_t *tokens = NULL;
    struct engine_times times;
    /* Warm-up: what is allocated or chosen at a first use must not be while capturing. */
    struct status status = engine_launch_padded(engine, &nothing, num_rows, num_rows, NULL);

    if (status.code == STATUS_OK)
        status = engine_wait(engine, &tokens, &times);
    if (status.code == STATUS_OK)
        status = ops->stream_sync(engine->scheduler_stream);
    if (status.code == STATUS_OK)
        status = ops->graph_begin(engine->engine_stream);
    if (status.code)
        return status;
    step.num_tokens = step.num_rows = num_rows;
    step.max_extend_len = 1;
    step.max_kv_len = engine->info.max_seq_len;
    status = engine_enqueue(engine, &step);
    struct status end_status = ops->graph_end(engine->engine_stream, &entry->graph);
    if (status.code == STATUS_OK)
        status = end_status;
    if (status.code)
        return status;
    entry->num_rows = num_rows;
    engine->num_graphs++;
    return status_ok();
}

struct status engine_capture(struct engine *engine)
{
    struct progress progress;
    int32_t sizes[ENGINE_MAX_GRAPHS];
    int32_t count = engine_graph_sizes(engine->info.graph_max_rows, sizes);
    struct status status = status_ok();

    if (!engine->backend.device->graph_begin || count == 0)
        return status;
    progress_begin(&progress, "capturing graphs", "sizes", (uint64_t)count);
    for (int32_t i = 0; i < count && status.code == STATUS_OK; i++) {
        status = capture_one(engine, sizes[i]);
        progress_update(&progress, (uint64_t)i + 1);
    }
    progress_end(&progress, status.code == STATUS_OK);
    engine->info.num_graphs = engine->num_graphs;
    return status_context(status, "capturing graphs");
}

const struct engine_graph *engine_find_graph(const struct engine *engine, const struct batch *batch)
{
    const struct engine_graph *found = NULL;

    if (!batch->is_decode)
        return NULL;
    for (int32_t i = 0; i < engine->num_graphs; i++)
        if (engine->graphs[i].num_rows >= batch->num_rows)
            found = &engine->graphs[i];
    return found;
}
