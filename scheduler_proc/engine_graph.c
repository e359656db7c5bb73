/*
 * engine_graph.c - steps captured once and replayed: one call to the device in place of some
 * hundred.
 *
 *   decode    by rows: 1, 2, 4, 8, 16, 24 ... up to graph_max_rows
 *   mixed     (any chunk among the rows) by all their tokens, to 512, each for few rows, for some
 *             and for many: logits are computed for every row of the graph, and a lone prompt
 *             should not pay for 256
 *
 * A batch is padded to the smallest that holds it; what is larger runs operator by operator.
 * Nothing of a step is in its graph but these sizes: all else comes with the packed block.
 */
#include "common/progress.h"
#include "scheduler_proc/engine_internal.h"

enum {
    GRAPH_AUTO_ROWS = 256,
    MAX_DECODE_GRAPHS = 90,
    MIXED_MAX_TOKENS = 512,
    MIXED_MAX_EXTEND_ROWS = 32, /* rows of several tokens in a captured step */
};

static const int32_t mixed_tokens[] = {512, 448, 384, 320, 256, 192, 128, 96, 64, 32, 16};
static const int32_t mixed_rows[] = {8, 64, GRAPH_AUTO_ROWS};

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t decode_sizes(int32_t graph_max_rows, struct engine_graph_size *out)
{
    int32_t count = 0;

    for (int32_t rows = graph_max_rows / 8 * 8; rows >= 8 && count < MAX_DECODE_GRAPHS - 3;
         rows -= 8)
        out[count++] = (struct engine_graph_size){rows, rows, false};
    for (int32_t rows = 4; rows >= 1; rows /= 2)
        if (rows <= graph_max_rows)
            out[count++] = (struct engine_graph_size){rows, rows, false};
    return count;
}

static int32_t mixed_sizes(int32_t graph_max_rows, int32_t max_tokens,
                           struct engine_graph_size *out)
{
    int32_t count = 0, limit = min_of(max_tokens, MIXED_MAX_TOKENS), above = 0;

    for (size_t i = 0; i < sizeof(mixed_tokens) / sizeof(mixed_tokens[0]); i++) {
        int32_t num_tokens = min_of(mixed_tokens[i], limit), last_rows = 0;
        if (num_tokens == above) /* the limit itself is a size, once */
            continue;
        above = num_tokens;
        for (size_t j = 0; j < sizeof(mixed_rows) / sizeof(mixed_rows[0]); j++) {
            int32_t num_rows = min_of(mixed_rows[j], min_of(num_tokens, graph_max_rows));
            if (num_rows > last_rows)
                out[count++] = (struct engine_graph_size){num_tokens, num_rows, true};
            last_rows = num_rows;
        }
    }
    return count;
}

int32_t engine_graph_sizes(int32_t graph_max_rows, int32_t max_tokens,
                           struct engine_graph_size *out)
{
    int32_t count = decode_sizes(graph_max_rows, out);

    return count == 0 ? 0 : count + mixed_sizes(graph_max_rows, max_tokens, out + count);
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

/* Runs the step once on padding alone: operators choose and load what they need at a first use. */
static struct status warm_up(struct engine *engine, const struct model_step *step)
{
    struct batch nothing = {.step = -1};
    const int32_t *tokens = NULL;
    struct engine_times times;
    struct status status = engine_launch_padded(engine, &nothing, step, NULL);

    if (status.code == STATUS_OK)
        status = engine_wait(engine, &tokens, &times);
    if (status.code == STATUS_OK)
        status = engine->backend.device->stream_sync(engine->scheduler_stream);
    return status;
}

static struct status capture_step(struct engine *engine, const struct model_step *step,
                                  struct graph **out)
{
    const struct device_ops *ops = engine->backend.device;
    struct status status = ops->graph_begin(engine->engine_stream);

    if (status.code)
        return status;
    status = engine_enqueue(engine, step);
    struct status end_status = ops->graph_end(engine->engine_stream, out);
    return status.code ? status : end_status;
}

/* A warm-up is needed for the first of a kind, and where the capture finds it missing. */
static struct status capture_one(struct engine *engine, const struct model_step *step,
                                 bool is_first)
{
    const struct device_ops *ops = engine->backend.device;
    struct engine_graph *entry = &engine->graphs[engine->num_graphs];
    bool is_warm = is_first || engine->is_cold;
    struct status status = is_warm ? warm_up(engine, step) : status_ok();

    if (status.code == STATUS_OK)
        status = capture_step(engine, step, &entry->graph);
    if (status.code == STATUS_OK && !is_warm && ops->graph_is_provisional(entry->graph)) {
        engine->is_cold = true;
        ops->graph_destroy(&entry->graph);
        status = warm_up(engine, step);
        if (status.code == STATUS_OK)
            status = capture_step(engine, step, &entry->graph);
    }
    if (status.code)
        return status;
    entry->step = *step;
    engine->num_graphs++;
    return status;
}

/* The step of a graph: padded to its sizes, and ready for the longest sequences. */
static struct model_step step_of(const struct engine *engine, const struct engine_graph_size *size)
{
    struct model_step step = engine->step;

    step.num_tokens = size->num_tokens;
    step.num_rows = size->num_rows;
    step.max_extend_len = size->is_mixed ? size->num_tokens : 1;
    step.max_extend_rows = size->is_mixed ? min_of(MIXED_MAX_EXTEND_ROWS, size->num_rows) : 0;
    step.max_kv_len = engine->info.max_seq_len;
    return step;
}

static struct status capture_all(struct engine *engine, struct progress *progress,
                                 const struct engine_graph_size *sizes, int32_t count)
{
    struct status status = status_ok();

    for (int32_t i = 0; i < count && status.code == STATUS_OK; i++) {
        struct model_step step = step_of(engine, &sizes[i]);
        status = capture_one(engine, &step, i == 0 || sizes[i].is_mixed != sizes[i - 1].is_mixed);
        progress_update(progress, (uint64_t)i + 1);
    }
    return status;
}

/*
 * Steps that are too large for a graph meet shapes of their own; what those need is chosen now and
 * not while streams wait. Operators choose by quarters of an octave, and all at once: where the
 * largest step is known, so are the others.
 */
static struct status warm_up_large(struct engine *engine)
{
    const struct device_ops *ops = engine->backend.device;
    int32_t max_tokens = engine->max_tokens, num_rows = engine->graphs[0].step.num_rows;
    struct engine_graph_size size = {max_tokens, num_rows, true};
    struct model_step step = step_of(engine, &size);
    struct graph *graph = NULL;
    struct status status;

    if (max_tokens <= MIXED_MAX_TOKENS)
        return status_ok();
    status = capture_step(engine, &step, &graph);
    if (status.code)
        return status;
    bool is_known = !ops->graph_is_provisional(graph);
    ops->graph_destroy(&graph);
    size.num_tokens = is_known ? max_tokens : 0;
    for (int32_t octave = MIXED_MAX_TOKENS; size.num_tokens < max_tokens; octave *= 2)
        for (int32_t quarter = 1; quarter <= 4 && size.num_tokens < max_tokens; quarter++) {
            size.num_tokens = min_of(octave + octave / 4 * quarter, max_tokens);
            step = step_of(engine, &size);
            status = warm_up(engine, &step);
            if (status.code)
                return status;
        }
    return status;
}

struct status engine_capture(struct engine *engine)
{
    const struct device_ops *ops = engine->backend.device;
    struct progress progress;
    struct engine_graph_size sizes[ENGINE_MAX_GRAPHS];
    struct device_info before = {0}, after = {0};
    struct status status = status_ok();
    int32_t count = engine_graph_sizes(engine->info.graph_max_rows, engine->max_tokens, sizes);

    if (!ops->graph_begin || count == 0)
        return status;
    status = ops->info(engine->device, &before);
    progress_begin(&progress, "capturing graphs", "sizes", (uint64_t)count);
    if (status.code == STATUS_OK)
        status = capture_all(engine, &progress, sizes, count);
    if (status.code == STATUS_OK)
        status = warm_up_large(engine);
    progress_end(&progress, status.code == STATUS_OK);
    if (status.code == STATUS_OK)
        status = ops->info(engine->device, &after);
    engine->info.num_graphs = engine->num_graphs;
    if (before.free_bytes > after.free_bytes)
        engine->info.graph_bytes = before.free_bytes - after.free_bytes;
    return status_context(status, "capturing graphs");
}

static bool holds(const struct model_step *step, const struct batch *batch)
{
    return step->num_tokens >= batch->num_tokens && step->num_rows >= batch->num_rows &&
           step->max_extend_rows >= batch->num_extend_rows;
}

static bool is_smaller(const struct model_step *a, const struct model_step *b)
{
    return a->num_tokens != b->num_tokens ? a->num_tokens < b->num_tokens
                                          : a->num_rows < b->num_rows;
}

const struct engine_graph *engine_find_graph(const struct engine *engine, const struct batch *batch)
{
    const struct engine_graph *found = NULL;

    for (int32_t i = 0; i < engine->num_graphs; i++) {
        const struct engine_graph *graph = &engine->graphs[i];
        if (holds(&graph->step, batch) && (!found || is_smaller(&graph->step, &found->step)))
            found = graph;
    }
    return found;
}

int32_t engine_padded_rows(const struct engine *engine, int32_t num_rows)
{
    int32_t padded = 0;

    for (int32_t i = 0; i < engine->num_graphs; i++) {
        int32_t rows = engine->graphs[i].step.num_rows;
        if (rows >= num_rows && (padded == 0 || rows < padded))
            padded = rows;
    }
    return padded ? padded : num_rows;
}
