/*
 * engine.h - runs batches on a device: memory, two streams, rings of slots, captured graphs.
 *
 *   scheduler's stream    copy block k+1 ─┐ event
 *   engine's stream       ... step k ...  └▶ step k+1: step_begin, model, sample; results ─▶ event
 *
 * The host packs a batch into a pinned slot; one copy on the scheduler's stream brings it to the
 * same slot of a staging ring on the device; the engine's stream waits for that copy, and its first
 * operation scatters the block. So KV cache, page table and token pool are touched by the engine's
 * stream alone, in order. A pinned slot is reused after its copy's event, a staging slot after its
 * step's, a result slot after its step was waited for.
 *
 * Life: create (loads the model, settles num_pages and max_seq_len), then the scheduler's core is
 * made with these, then prepare (with the core's limits; captures graphs), then launch and wait.
 *
 * Source: mini-sglang engine/engine.py, engine/graph.py.
 */
#ifndef SCHEDULER_PROC_ENGINE_H
#define SCHEDULER_PROC_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/ops.h"
#include "scheduler_proc/batch.h"
#include "scheduler_proc/config.h"
#include "scheduler_proc/sim.h"

enum {
    ENGINE_NUM_SLOTS = 4,   /* of each ring, a power of two; two steps are unfinished */
    ENGINE_GRAPH_AUTO = -1, /* largest batch of a captured graph: as the device suggests */
    ENGINE_MAX_GRAPHS = 128,
};

enum engine_device { ENGINE_CPU, ENGINE_CUDA, ENGINE_SIM };
enum engine_dtype { ENGINE_DTYPE_AUTO, ENGINE_DTYPE_F32, ENGINE_DTYPE_BF16 };

struct engine_config {
    enum engine_device device;
    enum engine_dtype dtype; /* auto: float32 files stay, 16-bit ones run as bfloat16 */
    const char *model_dir;
    const struct model_config *model; /* borrowed for the engine's life */
    bool dummy_weights;
    int32_t ordinal, num_threads;
    int32_t max_running_reqs, max_prefill_tokens, page_size;
    int32_t num_pages;            /* 0: from memory_ratio, or on the cpu a bounded default */
    int32_t max_seq_len_override; /* 0: the model's max_position_embeddings */
    double memory_ratio;
    int32_t graph_max_rows; /* 0: no graphs */
    struct sim_config sim;
    int64_t op_delay_ns; /* for tests: see device_args */
    bool op_delay_random;
    int64_t fault_step; /* for tests: this step has an operator with a bad pointer; 0: none has */
};

/* What was settled, for logs and stats. */
struct engine_info {
    char device_name[96];
    const char *dtype_name; /* "float32", "bfloat16", "sim" */
    int32_t num_pages, max_seq_len;
    size_t weight_bytes;  /* of the files, or of the dummies */
    size_t kv_bytes;      /* of the cache */
    size_t scratch_bytes; /* activations, workspace, tables, rings */
    size_t table_bytes;   /* of both: what grows with max_seq_len: rotary, page table, token pool */
    size_t staging_bytes; /* of one block at most */
    int32_t num_graphs, graph_max_rows;
    size_t graph_bytes;                                /* of the device, that capturing took */
    int64_t open_ns, weights_ns, memory_ns, graphs_ns; /* of the start: what each part of it took */
    char warnings[2][124];                             /* about the model's files, or "" */
};

struct engine; /* opaque */

MUST_CHECK struct status engine_create(const struct engine_config *config, struct engine **out);
MUST_CHECK struct status engine_prepare(struct engine *engine, const struct batch_limits *limits);
/* Waits for all work. NULL inside is allowed. */
void engine_destroy(struct engine **engine);

const struct engine_info *engine_info(const struct engine *engine);

/*
 * Puts the batch on the device and returns at once; everything in it is copied. At most
 * ENGINE_NUM_SLOTS - 1 launched steps may be waiting for engine_wait.
 */
MUST_CHECK struct status engine_launch(struct engine *engine, const struct batch *batch);

/* When the last launch had handed over its block's upload; what it did then is the step itself. */
int64_t engine_uploaded_ns(const struct engine *engine);

/* When a step ran on the device, on clock_now_ns()'s clock. A step begins when what it needs is
 * there and the step before it has ended. */
struct engine_times {
    int64_t begin_ns, end_ns;
};

/*
 * Waits for the oldest launched step that was not waited for. *out_tokens: of each row of its batch
 * a token or RESULT_NAN; valid until two more steps have been launched.
 */
MUST_CHECK struct status engine_wait(struct engine *engine, const int32_t **out_tokens,
                                     struct engine_times *out_times);

/* For a profiler: names what the host does between the two calls. */
uint64_t engine_range_begin(const struct engine *engine, const char *name);
void engine_range_end(const struct engine *engine, uint64_t range);

/* For tests: logits of row r of the last launched step, out[vocab_size]. Waits for the device. */
MUST_CHECK struct status engine_read_logits(struct engine *engine, int32_t row, float *out);

#endif
