/*
 * sim.h - stands in for the model, not for the device: for loading the pipeline with far more than
 * a machine can compute, and for catching any mix-up of rows, positions or pages as wrong text.
 *
 * Each slot of the simulated KV cache holds a hash of the whole prefix that ends there, made from
 * the hash in the slot of the position before (found through page_table) and the token found in
 * token_pool. A row's next token is a function of the hash at its last position and of those at
 * four others. So the text is a function of the prompt and the seed alone, whatever the company,
 * chunks, pages and cache, and any slot that is overwritten, stale or of another request changes
 * it.
 */
#ifndef SCHEDULER_PROC_SIM_H
#define SCHEDULER_PROC_SIM_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/ops.h"
#include "scheduler_proc/model.h"

/* A step takes step_ns + token_ns for each token that it computes. */
struct sim_config {
    int64_t step_ns, token_ns;
};

struct sim; /* opaque */

MUST_CHECK struct status sim_create(const struct backend *backend, int32_t vocab_size,
                                    const struct sim_config *config, struct sim **out);
void sim_destroy(struct sim **sim);

/* As model_forward. At most SIM_MAX_STEPS may be in the stream at a time. */
enum { SIM_MAX_STEPS = 8 };
MUST_CHECK struct status sim_forward(struct sim *sim, struct stream *stream,
                                     const struct model_step *step);

/* Bytes of kv_cache for each slot. */
size_t sim_slot_bytes(void);

#endif
