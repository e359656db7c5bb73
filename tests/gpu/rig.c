/* rig.c - see rig.h. */
#include "tests/gpu/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TWINS = 4096, EXIT_SKIPPED = 77 };

struct rig_side rig[RIG_NUM];

static struct twin twins[MAX_TWINS];
static int num_twins;
static uint64_t random_state = 20260131;

void rig_ok(struct status status)
{
    ck_assert_msg(!status.code, "%s: %s", status_name(status.code), status.msg);
}

uint32_t rig_random(void)
{
    random_state += 0x9E3779B97F4A7C15u;
    return (uint32_t)(sample_mix(random_state) >> 32);
}

int32_t rig_below(int32_t n)
{
    return (int32_t)(rig_random() % (uint32_t)n);
}

static float uniform(void)
{
    return (float)(rig_random() >> 8) * 0x1.0p-24f;
}

float rig_normal(void)
{
    float sum = 0;

    for (int i = 0; i < 12; i++)
        sum += uniform();
    return sum - 6;
}

float rig_element(const void *data, enum dtype dtype, size_t i)
{
    float value;

    if (dtype == DTYPE_F32)
        return ((const float *)data)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

void rig_set_element(void *data, enum dtype dtype, size_t i, float value)
{
    uint32_t bits;

    if (dtype == DTYPE_F32) {
        ((float *)data)[i] = value;
        return;
    }
    memcpy(&bits, &value, sizeof(bits));
    ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void *rig_host_random(enum dtype dtype, size_t n, float scale)
{
    uint16_t *data = malloc(n * dtype_size(dtype) + 1);

    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < n; i++) {
        if (dtype == DTYPE_F16) /* a normal float16 of random sign, exponent -8..-1, mantissa */
            data[i] = (uint16_t)((rig_random() & 0x83FF) | (uint32_t)(7 + rig_below(8)) << 10);
        else
            rig_set_element(data, dtype, i, scale * rig_normal());
    }
    return data;
}

static struct twin twin_alloc(size_t size)
{
    struct twin twin = {.size = size};

    ck_assert_int_lt(num_twins, MAX_TWINS);
    for (int s = 0; s < RIG_NUM; s++)
        rig_ok(rig[s].backend.device->alloc(rig[s].device, size, &twin.at[s]));
    twins[num_twins++] = twin;
    return twin;
}

static void free_twins(void)
{
    for (int s = 0; s < RIG_NUM; s++) {
        (void)!rig[s].backend.device->stream_sync(rig[s].stream).code;
        for (int i = 0; i < num_twins; i++)
            rig[s].backend.device->free(rig[s].device, twins[i].at[s]);
    }
    num_twins = 0;
}

struct twin twin_of(const void *host, size_t size)
{
    struct twin twin = twin_alloc(size ? size : 1);

    for (int s = 0; s < RIG_NUM; s++) {
        const struct device_ops *device = rig[s].backend.device;

        rig_ok(device->copy(rig[s].stream, twin.at[s], host, size, COPY_HOST_TO_DEVICE));
        rig_ok(device->stream_sync(rig[s].stream));
    }
    return twin;
}

struct twin twin_poisoned(size_t size)
{
    struct twin twin = twin_alloc(size ? size : 1);

    for (int s = 0; s < RIG_NUM; s++)
        rig_ok(rig[s].backend.device->fill(rig[s].stream, twin.at[s], 0xFF, size));
    return twin;
}

static struct twin twin_from(enum dtype dtype, size_t n, float (*draw)(float, float), float a,
                             float b)
{
    void *host = malloc(n * dtype_size(dtype) + 1);

    ck_assert_ptr_nonnull(host);
    for (size_t i = 0; i < n; i++)
        rig_set_element(host, dtype, i, draw(a, b));
    struct twin twin = twin_of(host, n * dtype_size(dtype));
    free(host);
    return twin;
}

static float draw_normal(float scale, float ignored)
{
    (void)ignored;
    return scale * rig_normal();
}

static float draw_uniform(float low, float high)
{
    return low + (high - low) * uniform();
}

struct twin twin_random(enum dtype dtype, size_t n, float scale)
{
    return twin_from(dtype, n, draw_normal, scale, 0);
}

struct twin twin_uniform(enum dtype dtype, size_t n, float low, float high)
{
    return twin_from(dtype, n, draw_uniform, low, high);
}

struct twin twin_ints(const int32_t *values, size_t n)
{
    return twin_of(values, n * sizeof(*values));
}

void *twin_read(const struct twin *twin, int side)
{
    const struct device_ops *device = rig[side].backend.device;
    void *host = malloc(twin->size + 1);

    ck_assert_ptr_nonnull(host);
    rig_ok(device->copy(rig[side].stream, host, twin->at[side], twin->size, COPY_DEVICE_TO_HOST));
    rig_ok(device->stream_sync(rig[side].stream));
    return host;
}

double rig_tolerance(enum dtype dtype)
{
    /* float32: sums of up to 40,000 terms in another order. bfloat16: 8 bits of mantissa, so each
     * rounding of an output or of an intermediate is worth up to 2^-9. */
    return dtype == DTYPE_F32 ? 1e-5 : 4e-3;
}

void twin_compare(const struct twin *twin, enum dtype dtype, size_t n, double tolerance,
                  const char *what)
{
    void *cpu = twin_read(twin, RIG_CPU), *cuda = twin_read(twin, RIG_CUDA);
    double difference = 0, size = 0;
    size_t worst = 0;

    for (size_t i = 0; i < n; i++) {
        double x = (double)rig_element(cpu, dtype, i), y = (double)rig_element(cuda, dtype, i);
        double worst_by =
            (double)rig_element(cpu, dtype, worst) - (double)rig_element(cuda, dtype, worst);

        ck_assert_msg(isnan(x) == isnan(y), "%s: element %zu is %g on the cpu, %g on cuda", what, i,
                      x, y);
        if (isnan(x))
            continue;
        difference += (x - y) * (x - y);
        size += x * x;
        if (fabs(x - y) > fabs(worst_by))
            worst = i;
    }
    ck_assert_msg(sqrt(difference) <= tolerance * sqrt(size) + 1e-30,
                  "%s: differs by %.2e of its norm, %.2e allowed; element %zu is %g, %g on cuda",
                  what, sqrt(difference / size), tolerance, worst,
                  (double)rig_element(cpu, dtype, worst), (double)rig_element(cuda, dtype, worst));
    free(cpu);
    free(cuda);
}

void twin_compare_ints(const struct twin *twin, size_t n, const char *what)
{
    int32_t *cpu = twin_read(twin, RIG_CPU), *cuda = twin_read(twin, RIG_CUDA);

    for (size_t i = 0; i < n; i++)
        ck_assert_msg(cpu[i] == cuda[i], "%s: element %zu is %d on the cpu, %d on cuda", what, i,
                      cpu[i], cuda[i]);
    free(cpu);
    free(cuda);
}

int rig_main(const char *name, const TTest *const *tests, size_t num_tests)
{
    static const char *const names[RIG_NUM] = {"cpu", "cuda"};
    const struct device_args args = {0};
    struct status status;
    int failed = 1;

    for (int s = 0; s < RIG_NUM; s++) {
        status = backend_open(names[s], &rig[s].backend);
        if (!status.code)
            status = rig[s].backend.device->open(&args, &rig[s].device);
        if (!status.code)
            status = rig[s].backend.device->stream_create(rig[s].device, false, &rig[s].stream);
        if (status.code) {
            fprintf(stderr, "%s: skipped: %s\n", name, status.msg);
            return status.code == STATUS_UNSUPPORTED ? EXIT_SKIPPED : EXIT_FAILURE;
        }
    }
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 600);
    tcase_add_checked_fixture(tcase, NULL, free_twins);
    for (size_t i = 0; i < num_tests; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK); /* a CUDA context does not survive a fork */
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    for (int s = 0; s < RIG_NUM; s++) {
        rig[s].backend.device->stream_destroy(&rig[s].stream);
        rig[s].backend.device->close(&rig[s].device);
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
