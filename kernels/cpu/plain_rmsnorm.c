/*
 * plain_rmsnorm.c - y[i] = x[s] * weight / sqrt(mean(x[s]^2) + eps).
 *
 * Source: Zhang and Sennrich, Root Mean Square Layer Normalization, arXiv 1910.07467.
 */
#include <math.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/element.h"
#include "kernels/ops.h"

void plain_rmsnorm(struct stream *stream, const void *args)
{
    const struct rmsnorm_args *a = args;
    size_t size = (size_t)a->hidden_size;

    (void)stream;
    for (int32_t row = 0; row < a->num_rows; row++) {
        size_t x = (size_t)(a->last_of ? a->last_of[row + 1] - 1 : row) * size;
        size_t y = (size_t)row * size;
        float sum = 0;
        for (size_t i = 0; i < size; i++) {
            float value = element_load(a->x, a->dtype, x + i);
            sum += value * value;
        }
        float scale = 1 / sqrtf(sum / (float)size + a->eps);
        for (size_t i = 0; i < size; i++) {
            float value = element_load(a->x, a->dtype, x + i);
            float weight = element_load(a->weight, a->dtype, i);
            element_store(a->y, a->dtype, y + i, value * scale * weight);
        }
    }
}
