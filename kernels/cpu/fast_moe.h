/* fast_moe.h - the workspace of the fast moe. */
#ifndef KERNELS_CPU_FAST_MOE_H
#define KERNELS_CPU_FAST_MOE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/weight.h"
#include "kernels/ops.h"

enum {
    MOE_ROUTE_TOKENS = 16, /* routed by one task */
    MOE_MAX_TOKENS = 1024, /* taken together: bounds the workspace */
};

/* A token that goes to an expert. */
struct moe_entry {
    int32_t token;
    float weight;
};

struct moe_layout {
    float *probabilities;      /* [num_tokens, num_experts], MOE_NOT_CHOSEN where not */
    struct moe_entry *entries; /* [num_tokens * top_k] in order of expert, then token */
    int32_t *first_entry;      /* [num_experts + 1] */
    float *sums;               /* [panels of hidden_size][num_tokens][WEIGHT_PANEL] */
    void *inner;               /* [num_tokens * top_k, inner_size] */
    size_t size;               /* bytes of all */
};

/* Without a workspace only the size is filled in. */
static inline void moe_layout_init(struct moe_layout *l, void *workspace, int32_t num_tokens,
                                   int32_t num_experts, int32_t top_k, int32_t hidden_size,
                                   int32_t inner_size, enum dtype dtype)
{
    size_t size = 0;
    size_t tokens = (size_t)num_tokens, experts = (size_t)num_experts;
    size_t chosen = tokens * (size_t)(top_k < num_experts ? top_k : num_experts);
    size_t panels = ((size_t)hidden_size + WEIGHT_PANEL - 1) / WEIGHT_PANEL;
    const size_t sizes[] = {tokens * experts * sizeof(float), chosen * sizeof(struct moe_entry),
                            (experts + 1) * sizeof(int32_t),
                            panels * tokens * WEIGHT_PANEL * sizeof(float),
                            chosen * (size_t)inner_size * dtype_size(dtype)};
    void *places[5] = {0};

    for (size_t i = 0; i < 5; i++) {
        if (workspace)
            places[i] = (char *)workspace + size;
        size += (sizes[i] + 63) / 64 * 64;
    }
    *l = (struct moe_layout){.probabilities = places[0],
                             .entries = places[1],
                             .first_entry = places[2],
                             .sums = places[3],
                             .inner = places[4],
                             .size = size};
}

#endif
