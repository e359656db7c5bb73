/* fast_silu_mul.c - the second part of gate_up: y[t, i] = silu(h[t, i]) * h[t, inner_size + i],
 * with h in wide. */
#include "kernels/cpu/fast.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/simd.h"
#include "kernels/ops.h"

/* dtype is a constant where this is called. */
SIMD_INLINE void run_row(const struct gate_up_args *a, const enum dtype dtype, size_t t)
{
    size_t size = (size_t)a->inner_size, x = t * 2 * size, y = t * size;

    for (size_t i = 0; i < size; i += VF_LANES) {
        vf gate = vf_load_row(a->wide, dtype, x + i, size - i);
        vf up = vf_load_row(a->wide, dtype, x + size + i, size - i);
        vf_store_row(a->y, dtype, y + i, size - i, gate / (1 + vf_exp(-gate)) * up);
    }
}

static void run_range(const void *args, int32_t first, int32_t end)
{
    const struct gate_up_args *a = args;

    for (int32_t t = first; t < end; t++) {
        if (a->dtype == DTYPE_F32)
            run_row(a, DTYPE_F32, (size_t)t);
        else
            run_row(a, DTYPE_BF16, (size_t)t);
    }
}

void SIMD_NAME(silu_mul)(struct stream *stream, const void *args)
{
    const struct gate_up_args *a = args;

    pool_split(cpu_stream_pool(stream), a->num_tokens, (size_t)a->inner_size * 12, run_range, a);
}
