/* plain_linear.c - y = x W^T + bias, or y += that; each output summed over k in order. */
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/element.h"
#include "kernels/cpu/weight.h"
#include "kernels/ops.h"

void plain_linear(struct stream *stream, const void *args)
{
    const struct linear_args *a = args;
    const struct linear_weight *weight = a->weight;

    (void)stream;
    for (int32_t t = 0; t < a->num_tokens; t++) {
        size_t x = (size_t)t * (size_t)weight->k;
        for (int32_t n = 0; n < weight->n; n++) {
            size_t y = (size_t)t * (size_t)weight->n + (size_t)n;
            float sum = 0;
            for (int32_t k = 0; k < weight->k; k++)
                sum += element_load(a->x, weight->dtype, x + (size_t)k) * weight_at(weight, n, k);
            if (weight->bias)
                sum += weight->bias[n];
            if (a->accumulate)
                sum += element_load(a->y, a->y_dtype, y);
            element_store(a->y, a->y_dtype, y, sum);
        }
    }
}
