/* fast_rmsnorm.c - y[i] = x[s] * weight / sqrt(mean(x[s]^2) + eps), a row at a time. */
#include "kernels/cpu/fast.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/simd.h"
#include "kernels/ops.h"

/* dtype is a constant where this is called. */
SIMD_INLINE void norm_row(const struct rmsnorm_args *a, const enum dtype dtype, size_t x, size_t y)
{
    size_t size = (size_t)a->hidden_size;
    vf sum = vf_set1(0);

    for (size_t i = 0; i < size; i += VF_LANES) {
        vf value = vf_load_row(a->x, dtype, x + i, size - i);
        sum = vf_fma(value, value, sum);
    }
    vf scale = vf_set1(1 / sqrtf(vf_sum(sum) / (float)size + a->eps));
    for (size_t i = 0; i < size; i += VF_LANES) {
        vf value = vf_load_row(a->x, dtype, x + i, size - i);
        vf weight = vf_load_row(a->weight, dtype, i, size - i);
        vf_store_row(a->y, dtype, y + i, size - i, value * scale * weight);
    }
}

static void run_range(const void *args, int32_t first, int32_t end)
{
    const struct rmsnorm_args *a = args;
    size_t size = (size_t)a->hidden_size;

    for (int32_t row = first; row < end; row++) {
        size_t x = (size_t)(a->last_of ? a->last_of[row + 1] - 1 : row) * size;
        if (a->dtype == DTYPE_F32)
            norm_row(a, DTYPE_F32, x, (size_t)row * size);
        else
            norm_row(a, DTYPE_BF16, x, (size_t)row * size);
    }
}

void SIMD_NAME(rmsnorm)(struct stream *stream, const void *args)
{
    const struct rmsnorm_args *a = args;

    pool_split(cpu_stream_pool(stream), a->num_rows, (size_t)a->hidden_size * 8, run_range, a);
}
