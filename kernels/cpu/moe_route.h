/* moe_route.h - which experts a token goes to, with which weight. */
#ifndef KERNELS_CPU_MOE_ROUTE_H
#define KERNELS_CPU_MOE_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

/* No probability: those are >= 0, or NaN where a logit is. */
#define MOE_NOT_CHOSEN (-1.0f)

/* out[e] = softmax(logits)[e] of the top_k largest, ties to the lower expert, divided by their sum
 * with normalise; MOE_NOT_CHOSEN elsewhere. */
void moe_route(const float *logits, int32_t num_experts, int32_t top_k, bool normalise, float *out);

#endif
