/*
 * plain_moe.c - the top_k experts of each token, weighted by their probabilities, added to y.
 *
 * A token's experts are summed in ascending order of expert, then added to y: one rounding.
 */
#include <math.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/element.h"
#include "kernels/cpu/moe_route.h"
#include "kernels/cpu/weight.h"
#include "kernels/ops.h"

static float dot(const struct linear_weight *weight, int32_t n, const void *x, size_t first)
{
    float sum = 0;

    for (int32_t k = 0; k < weight->k; k++)
        sum += element_load(x, weight->dtype, first + (size_t)k) * weight_at(weight, n, k);
    return sum;
}

/* sum += probability * expert(x[t]); inner holds inner_size elements. */
static void add_expert(const struct moe_args *a, size_t t, int32_t expert, float probability,
                       void *inner, float *sum)
{
    const struct experts_weight *experts = a->experts;
    const struct linear_weight *gate_up = experts->gate_up[expert];
    size_t x = t * (size_t)experts->hidden_size;

    for (int32_t i = 0; i < experts->inner_size; i++) {
        float gate = dot(gate_up, i, a->x, x);
        float up = dot(gate_up, experts->inner_size + i, a->x, x);
        element_store(inner, experts->dtype, (size_t)i, gate / (1 + expf(-gate)) * up);
    }
    for (int32_t i = 0; i < experts->hidden_size; i++)
        sum[i] += probability * dot(experts->down[expert], i, inner, 0);
}

void plain_moe(struct stream *stream, const void *args)
{
    const struct moe_args *a = args;
    const struct experts_weight *experts = a->experts;
    size_t hidden_size = (size_t)experts->hidden_size, num_experts = (size_t)experts->num_experts;
    float *probabilities = a->workspace; /* [num_experts], MOE_NOT_CHOSEN where not */
    float *sum = probabilities + num_experts;
    float *inner = sum + hidden_size;

    (void)stream;
    for (size_t t = 0; t < (size_t)a->num_tokens; t++) {
        moe_route(a->router_logits + t * num_experts, experts->num_experts, a->top_k, a->normalise,
                  probabilities);
        for (size_t i = 0; i < hidden_size; i++)
            sum[i] = 0;
        for (size_t expert = 0; expert < num_experts; expert++) {
            if (probabilities[expert] != MOE_NOT_CHOSEN)
                add_expert(a, t, (int32_t)expert, probabilities[expert], inner, sum);
        }
        for (size_t i = 0; i < hidden_size; i++) {
            size_t y = t * hidden_size + i;
            element_store(a->y, experts->dtype, y, element_load(a->y, experts->dtype, y) + sum[i]);
        }
    }
}
