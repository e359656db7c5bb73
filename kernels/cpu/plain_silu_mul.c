/* plain_silu_mul.c - the second part of gate_up: y[t, i] = silu(h[t, i]) * h[t, inner_size + i],
 * with h in wide, and silu(g) = g / (1 + e^-g). */
#include <math.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/element.h"
#include "kernels/ops.h"

void plain_silu_mul(struct stream *stream, const void *args)
{
    const struct gate_up_args *a = args;
    size_t size = (size_t)a->inner_size;

    (void)stream;
    for (size_t t = 0; t < (size_t)a->num_tokens; t++) {
        for (size_t i = 0; i < size; i++) {
            float gate = element_load(a->wide, a->dtype, t * 2 * size + i);
            float up = element_load(a->wide, a->dtype, t * 2 * size + size + i);
            element_store(a->y, a->dtype, t * size + i, gate / (1 + expf(-gate)) * up);
        }
    }
}
