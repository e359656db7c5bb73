/* engine_internal.h - what engine.c, engine_memory.c and engine_graph.c share. Nobody else includes
 * it. */
#ifndef SCHEDULER_PROC_ENGINE_INTERNAL_H
#define SCHEDULER_PROC_ENGINE_INTERNAL_H

#include "scheduler_proc/engine.h"
#include "scheduler_proc/model.h"
#include "scheduler_proc/step_pack.h"
#include "scheduler_proc/weights.h"

/* One place in each of the three rings, and what says when it may be used again. */
struct engine_slot {
    void *pinned;         /* host: the packed block; free after `copied` */
    int32_t *results;     /* host: [max_rows]; free after the step was waited for */
    struct event *copied; /* on the scheduler's stream: the block is in the staging slot */
    struct event *done;   /* on the engine's stream: the step; frees the staging slot */
    int64_t step;         /* the batch's number; -1: a warm-up */
    uint64_t range;       /* for a profiler, from launch to wait */
};

struct engine_graph_size {
    int32_t num_tokens, num_rows;
    bool is_mixed; /* rows may have several tokens; else each has one */
};

struct engine_graph {
    struct model_step step; /* as it was captured: what fits into it can be replayed */
    struct graph *graph;    /* owned */
};

struct engine {
    struct engine_config config;
    struct engine_info info;
    struct backend backend;
    struct device *device;                           /* owned */
    struct stream *scheduler_stream, *engine_stream; /* owned */
    struct weights weights;                          /* kept while the model borrows from it */
    struct model *model;                             /* owned: either this */
    struct sim *sim;                                 /* owned: or this */
    enum dtype dtype;
    int32_t max_tokens, max_rows; /* of a step, with padding */

    /* Device memory, owned. */
    void *kv_cache; /* as in struct model_step */
    void *staging;  /* [ENGINE_NUM_SLOTS] of slot_size bytes: packed blocks */
    void *inputs;   /* what step.inputs points into */
    int32_t *page_table, *token_pool, *results;
    uint32_t *step_counter;
    size_t slot_size; /* of the staging ring, bytes */
    size_t table_bytes;
    struct model_step step; /* all of a step that stays the same */

    struct engine_slot slots[ENGINE_NUM_SLOTS];
    int64_t num_launched, num_waited;
    int64_t uploaded_ns; /* when the last launch had handed over its upload */
    int64_t last_end_ns; /* of the step that was waited for last */
    struct engine_graph graphs[ENGINE_MAX_GRAPHS]; /* those of decode steps first */
    int32_t num_graphs;
    bool is_cold; /* a capture met an operator that had to choose its way first */
};

/*
 * Sizes of captured steps of up to graph_max_rows rows and max_tokens tokens, out[
 * ENGINE_MAX_GRAPHS], those of decode steps first, each kind in descending order; returns how many.
 */
int32_t engine_graph_sizes(int32_t graph_max_rows, int32_t max_tokens,
                           struct engine_graph_size *out);

/* Largest graph batch that makes sense: a multiple of 8 that holds max_running_reqs. */
int32_t engine_graph_limit(const struct engine_config *config, bool has_graphs);

/* num_pages, max_seq_len and the cache itself. free_bytes: before anything was loaded. */
MUST_CHECK struct status engine_make_cache(struct engine *engine, size_t free_bytes);

/* Page table, token pool, inputs, rings and events. */
MUST_CHECK struct status engine_make_rings(struct engine *engine,
                                           const struct batch_limits *limits);
void engine_free_rings(struct engine *engine);

/* Captures steps of all sizes, with a progress bar. Nothing where the device has no graphs. */
MUST_CHECK struct status engine_capture(struct engine *engine);

/* The smallest captured step that holds the batch, or NULL. */
const struct engine_graph *engine_find_graph(const struct engine *engine,
                                             const struct batch *batch);

/* Rows of a captured step that hold so many: logits of other numbers of rows would be new shapes.
 */
int32_t engine_padded_rows(const struct engine *engine, int32_t num_rows);

/* Puts step_begin and the model into the engine's stream. */
MUST_CHECK struct status engine_enqueue(struct engine *engine, const struct model_step *step);

/* engine_launch with the batch padded to the step's sizes; graph: that step captured, or NULL. */
MUST_CHECK struct status engine_launch_padded(struct engine *engine, const struct batch *batch,
                                              const struct model_step *step, struct graph *graph);

#endif
