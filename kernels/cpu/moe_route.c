/* moe_route.c - see moe_route.h. */
#include "kernels/cpu/moe_route.h"

#include <math.h>

/* The largest logit that is not marked yet; of NaNs and all others, the first. */
static int32_t find_largest(const float *logits, const float *marks, int32_t num_experts)
{
    int32_t best = -1;

    for (int32_t e = 0; e < num_experts; e++) {
        if (marks[e] == MOE_NOT_CHOSEN && (best < 0 || logits[e] > logits[best]))
            best = e;
    }
    return best;
}

void moe_route(const float *logits, int32_t num_experts, int32_t top_k, bool normalise, float *out)
{
    float max = -INFINITY, sum = 0, sum_chosen = 0;

    for (int32_t e = 0; e < num_experts; e++)
        max = fmaxf(max, logits[e]);
    for (int32_t e = 0; e < num_experts; e++) {
        sum += expf(logits[e] - max);
        out[e] = MOE_NOT_CHOSEN;
    }
    for (int32_t i = 0; i < top_k && i < num_experts; i++) {
        int32_t e = find_largest(logits, out, num_experts);
        out[e] = expf(logits[e] - max) / sum;
        sum_chosen += out[e];
    }
    for (int32_t e = 0; normalise && e < num_experts; e++) {
        if (out[e] != MOE_NOT_CHOSEN)
            out[e] /= sum_chosen;
    }
}
