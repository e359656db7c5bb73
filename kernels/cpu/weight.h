/*
 * weight.h - a linear layer's weight as the operators of this back end read it.
 *
 * Outputs are the lanes of vectors: a panel holds WEIGHT_PANEL outputs, for each k side by side, so
 * that one stream through memory serves one row as well as hundreds, and every output is summed
 * over k in order.
 *
 *     float32    [panel][k][32]
 *     bfloat16   [panel][ceil(k / 2)][32][2]      pairs of k, as the dot product instruction wants
 *
 * The second of a last odd pair is zero. What lanes behind n hold is never looked at.
 */
#ifndef KERNELS_CPU_WEIGHT_H
#define KERNELS_CPU_WEIGHT_H

#include "common/status.h"
#include "kernels/ops.h"

enum { WEIGHT_PANEL = 32 };

struct linear_weight {
    enum dtype dtype;
    int32_t n, k;
    int32_t num_panels;
    size_t panel_size; /* bytes */
    char *data;        /* owned: [num_panels][panel_size] */
    float *bias;       /* owned: [num_panels * WEIGHT_PANEL], or NULL */
};

/* down[e] and gate_up[e] of each expert; gate_up has gate's outputs, then up's. */
struct experts_weight {
    struct linear_weight **gate_up, **down; /* owned: [num_experts] */
    int32_t num_experts, hidden_size, inner_size;
    enum dtype dtype;
};

/* Sources are read on the stream. What the sources point at must stay until it is synced; the
 * structs themselves may go. */
MUST_CHECK struct status weight_linear_create(struct stream *stream,
                                              const struct linear_source *source,
                                              struct linear_weight **out);
void weight_linear_destroy(struct linear_weight **weight);
MUST_CHECK struct status weight_experts_create(struct stream *stream,
                                               const struct experts_source *source,
                                               struct experts_weight **out);
void weight_experts_destroy(struct experts_weight **experts);

/* W[n, k] */
float weight_at(const struct linear_weight *weight, int32_t n, int32_t k);

#endif
