/* model_internal.h - what model.c and model_load.c share. Nobody else includes it. */
#ifndef SCHEDULER_PROC_MODEL_INTERNAL_H
#define SCHEDULER_PROC_MODEL_INTERNAL_H

#include "scheduler_proc/model.h"

/* A tensor on the device, or borrowed from the mapped file. */
struct device_tensor {
    const void *data;
    void *owned; /* NULL when borrowed */
};

struct layer {
    struct device_tensor input_norm, post_norm, q_norm, k_norm;
    struct linear_weight *qkv, *o;        /* owned, as the next */
    struct linear_weight *gate_up, *down; /* of a dense layer */
    struct linear_weight *router;         /* of a sparse one */
    struct experts_weight *experts;
};

struct model {
    const struct device_ops *device_ops; /* borrowed, as the next three */
    const struct kernels *kernels;
    struct device *device;
    const struct model_config *config;
    enum dtype dtype;
    int32_t max_tokens, max_rows;

    /* Owned, all pointers that follow. */
    struct layer *layers;       /* [num_layers] */
    struct device_tensor embed; /* of an untied model: else the head's weight serves */
    struct device_tensor final_norm;
    struct linear_weight *head;
    float *cos_sin; /* [max_seq_len, head_dim] on the device */

    void *hidden, *normed, *wide, *last; /* scratch on the device */
    float *router_logits, *logits;
    void *workspace;
    size_t scratch_bytes;
    size_t attended_offset, act_offset; /* into wide, bytes */
};

static inline int32_t model_qkv_width(const struct model_config *config)
{
    return (config->num_qo_heads + 2 * config->num_kv_heads) * config->head_dim;
}

/*
 * Fills layers, embed, final_norm, head and cos_sin. What a failed load has made is in the model
 * and goes with it.
 */
MUST_CHECK struct status model_load(struct model *model, const struct model_args *args);

#endif
