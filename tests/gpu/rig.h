/*
 * rig.h - the same inputs through both back ends: buffers that exist on the cpu and on the cuda
 * device, random contents, and the comparison of what came out.
 *
 * A program of this suite calls rig_main(), which ends with 77 (skipped) where there is no card.
 */
#ifndef TESTS_GPU_RIG_H
#define TESTS_GPU_RIG_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"

enum { RIG_CPU, RIG_CUDA, RIG_NUM };

struct rig_side {
    struct backend backend;
    struct device *device;
    struct stream *stream;
};

extern struct rig_side rig[RIG_NUM];

/* One array on both devices; freed when the test ends. */
struct twin {
    void *at[RIG_NUM];
    size_t size;
};

/* Fails the test that calls it, with the message. */
void rig_ok(struct status status);

struct twin twin_of(const void *host, size_t size);
/* Every byte 0xFF: NaN in floats, so that what no one wrote shows. */
struct twin twin_poisoned(size_t size);
/* n normal-like numbers times scale, as dtype. */
struct twin twin_random(enum dtype dtype, size_t n, float scale);
/* n numbers of the dtype, uniform in [low, high). */
struct twin twin_uniform(enum dtype dtype, size_t n, float low, float high);
struct twin twin_ints(const int32_t *values, size_t n);
/* Waits for both streams and reads one side. The caller frees it. */
void *twin_read(const struct twin *twin, int side);

/*
 * n elements of dtype on both sides: none NaN where the other is not, and ||cuda - cpu|| <=
 * tolerance * ||cpu||, 2-norms.
 */
void twin_compare(const struct twin *twin, enum dtype dtype, size_t n, double tolerance,
                  const char *what);
void twin_compare_ints(const struct twin *twin, size_t n, const char *what);

/* What two back ends may differ by: rounding of the output, and sums in another order. */
double rig_tolerance(enum dtype dtype);

uint32_t rig_random(void); /* the same sequence in every run */
int32_t rig_below(int32_t n);
float rig_normal(void);
/* On the host: n normal-like numbers times scale, as dtype; float16: of any size below 1. The
 * caller frees them. */
void *rig_host_random(enum dtype dtype, size_t n, float scale);
float rig_element(const void *data, enum dtype dtype, size_t i);
void rig_set_element(void *data, enum dtype dtype, size_t i, float value);

int rig_main(const char *name, const TTest *const *tests, size_t num_tests);

#define RIG_MAIN(name, ...)                                                                        \
    int main(void)                                                                                 \
    {                                                                                              \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
        return rig_main(name, tests, sizeof(tests) / sizeof(tests[0]));                            \
    }

#endif
