/*
 * model.h - the decoder: embed, layers, final norm of each row's last token, head, sample. One
 * table-driven model for every architecture of config.h, over the operators of kernels/ops.h.
 *
 * The model owns its weights and scratch on the device; the state of requests (token pool, page
 * table, KV cache) is the engine's and comes with each step. model_forward only puts operators into
 * a stream: a graph can capture it.
 */
#ifndef SCHEDULER_PROC_MODEL_H
#define SCHEDULER_PROC_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/ops.h"
#include "scheduler_proc/config.h"
#include "scheduler_proc/weights.h"

struct model; /* opaque */

struct model_args {
    const struct backend *backend; /* borrowed for the model's life, as device and config */
    struct device *device;
    struct stream *stream; /* that weights are loaded on */
    const struct model_config *config;
    enum dtype dtype;        /* computed in: DTYPE_F32 or DTYPE_BF16 */
    struct weights *weights; /* may be closed after the load if !may_borrow */
    bool may_borrow;         /* weights outlive the model */
    int32_t max_tokens, max_rows, max_seq_len;
};

/* What a step computes on, beside the model: borrowed, on the device. */
struct model_step {
    struct step_inputs inputs;
    int32_t num_tokens, num_rows;                        /* with padding */
    int32_t max_extend_len, max_extend_rows, max_kv_len; /* as in struct attention_args */
    int32_t *token_pool; /* [max_running_reqs + 1, token_pool_stride] */
    int32_t *page_table; /* [max_running_reqs + 1, page_table_stride] */
    int32_t token_pool_stride, page_table_stride;
    int32_t page_size;
    void *kv_cache; /* [num_layers][2][num_slots] of model_slot_bytes */
    size_t num_slots;
    int32_t *results;       /* [num_rows] */
    uint32_t *step_counter; /* [1]: steps begun so far, modulo 2^32; the sampler raises it */
};

/* Loads the weights with a progress bar, and waits for it. */
MUST_CHECK struct status model_create(const struct model_args *args, struct model **out);
void model_destroy(struct model **model);

MUST_CHECK struct status model_forward(struct model *model, struct stream *stream,
                                       const struct model_step *step);

/* Bytes of K of one slot in one layer; those of V are as many. */
size_t model_slot_bytes(const struct model_config *config, enum dtype dtype);

/* Values in the matrices of the model's weights. */
size_t model_num_values(const struct model_config *config);

/* Bytes of scratch: activations, logits, the operators' workspace. */
size_t model_scratch_bytes(const struct model *model);

/* float32 [max_rows, vocab_size] on the device: those of the last step that has run. */
const float *model_logits(const struct model *model);

#endif
