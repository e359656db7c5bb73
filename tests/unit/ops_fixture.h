/*
 * ops_fixture.h - what the tests of operators share: a back end with one stream for each set of
 * operators that this CPU has, seeded random arrays, and comparison with float64.
 */
#ifndef TESTS_UNIT_OPS_FIXTURE_H
#define TESTS_UNIT_OPS_FIXTURE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/element.h"
#include "kernels/ops.h"
#include "tests/unit/check_main.h"

/* What one rounding may change, relative. */
#define ROUND_F32  0x1.0p-24
#define ROUND_BF16 0x1.0p-8

struct ops {
    struct device *device;
    struct stream *stream;
    const struct kernels *kernels;
};

static const char *const ops_sets[] = {"plain", "generic", "avx2", "avx512", "avx512_bf16"};
enum { NUM_OPS_SETS = sizeof(ops_sets) / sizeof(ops_sets[0]) };

/* False where this CPU lacks the set. */
static inline bool ops_open(struct ops *ops, const char *set, int32_t num_threads)
{
    struct device_args args = {.num_threads = num_threads};

    *ops = (struct ops){.kernels = &kernels_cpu};
    ck_assert_int_eq(setenv("MINISGL_CPU_ISA", set, 1), 0);
    struct status status = device_cpu.open(&args, &ops->device);
    if (status.code == STATUS_UNSUPPORTED)
        return false;
    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    ck_assert_int_eq(device_cpu.stream_create(ops->device, false, &ops->stream).code, STATUS_OK);
    return true;
}

static inline void ops_close(struct ops *ops)
{
    device_cpu.stream_destroy(&ops->stream);
    device_cpu.close(&ops->device);
}

/* The operator has been put and has run. */
static inline void ops_finish(const struct ops *ops, struct status status)
{
    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    ck_assert_int_eq(device_cpu.stream_sync(ops->stream).code, STATUS_OK);
}

/* size bytes that are no valid numbers, so that what is not written shows: NaN in both dtypes. */
static inline void *ops_alloc(size_t size)
{
    void *data = aligned_alloc(256, (size + 256) / 256 * 256);

    ck_assert_ptr_nonnull(data);
    memset(data, 0xFF, (size + 256) / 256 * 256);
    return data;
}

static inline double ops_random(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    return (double)(sample_mix(*state) >> 11) * 0x1.0p-53 * 2 - 1;
}

/* n numbers of [-scale, scale). */
static inline void *ops_array(enum dtype dtype, size_t n, double scale, uint64_t seed)
{
    void *data = ops_alloc(n * dtype_size(dtype));

    for (size_t i = 0; i < n; i++)
        element_store(data, dtype, i, (float)(ops_random(&seed) * scale));
    return data;
}

static inline double ops_at(const void *data, enum dtype dtype, size_t i)
{
    return (double)element_load(data, dtype, i);
}

static inline double ops_rounding(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? ROUND_F32 : ROUND_BF16;
}

/* Check writes every assertion it meets to a file: this one only when it fails. */
static inline void ops_check_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        ck_abort_msg("got %.9g, want %.9g within %.3g", got, want, tolerance);
}

#endif
