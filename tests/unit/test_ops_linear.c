/* test_ops_linear.c - linear layers of all shapes, dtypes and sets of operators. */
#include "tests/unit/ops_fixture.h"

struct shape {
    int32_t num_tokens, n, k;
};

static const struct shape shapes[] = {
    {0, 8, 8},     {1, 1, 1},       {1, 33, 3},    {2, 31, 2},      {3, 64, 5},      {5, 96, 64},
    {7, 130, 31},  {8, 40, 16},     {12, 32, 1},   {13, 65, 100},   {16, 96, 577},   {17, 1, 1030},
    {33, 200, 64}, {100, 333, 129}, {1, 960, 576}, {16, 576, 1536}, {150, 300, 700},
};

struct linear_case {
    enum dtype source, dtype, y_dtype;
    bool has_bias, accumulate;
};

static const struct linear_case cases[] = {
    {DTYPE_F32, DTYPE_F32, DTYPE_F32, false, false},
    {DTYPE_BF16, DTYPE_F32, DTYPE_F32, true, true},
    {DTYPE_F16, DTYPE_F32, DTYPE_F32, true, false},
    {DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, false, true},
    {DTYPE_BF16, DTYPE_BF16, DTYPE_F32, true, false},
    {DTYPE_F32, DTYPE_BF16, DTYPE_BF16, true, false},
};

/* Two parts: the split is odd where n is. */
struct source {
    struct linear_part parts[2];
    void *data[2], *bias[2];
};

static void source_init(struct source *source, const struct shape *shape, enum dtype dtype,
                        bool has_bias)
{
    int32_t split[2] = {shape->n / 3, shape->n - shape->n / 3};

    for (int i = 0; i < 2; i++) {
        source->data[i] = ops_array(dtype, (size_t)(split[i] * shape->k), 1, (uint64_t)i + 1);
        source->bias[i] = ops_array(dtype, (size_t)split[i], 1, (uint64_t)i + 3);
        source->parts[i] = (struct linear_part){.data = source->data[i],
                                                .dtype = dtype,
                                                .n = split[i],
                                                .bias = has_bias ? source->bias[i] : NULL};
    }
}

static void source_deinit(struct source *source)
{
    for (int i = 0; i < 2; i++) {
        free(source->data[i]);
        free(source->bias[i]);
    }
}

static struct linear_weight *create(const struct ops *ops, const struct source *source, int32_t k,
                                    enum dtype dtype)
{
    struct linear_weight *weight = NULL;
    struct linear_source args = {.parts = source->parts, .num_parts = 2, .k = k, .dtype = dtype};

    ops_finish(ops, ops->kernels->linear_create(ops->stream, &args, &weight));
    return weight;
}

/* The number that the operator sees: a weight is rounded to the dtype that is computed in. */
static double as_computed(const void *data, enum dtype from, enum dtype to, size_t i)
{
    float value = element_load(data, from, i);

    return (double)(to == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(value)) : value);
}

static void check_case(const struct ops *ops, const struct shape *shape,
                       const struct linear_case *test)
{
    size_t num_tokens = (size_t)shape->num_tokens, n = (size_t)shape->n, k = (size_t)shape->k;
    void *x = ops_array(test->dtype, num_tokens * k, 1, 11);
    void *y = ops_array(test->y_dtype, num_tokens * n, 1, 12);
    void *before = ops_array(test->y_dtype, num_tokens * n, 1, 12);
    struct source source;

    source_init(&source, shape, test->source, test->has_bias);
    struct linear_weight *weight = create(ops, &source, shape->k, test->dtype);
    struct linear_args args = {.weight = weight,
                               .y = y,
                               .x = x,
                               .y_dtype = test->y_dtype,
                               .num_tokens = shape->num_tokens,
                               .accumulate = test->accumulate};
    ops_finish(ops, ops->kernels->linear(ops->stream, &args));
    for (size_t i = 0; i < num_tokens * n; i++) {
        size_t t = i / n, row = i % n, part = row >= (size_t)source.parts[0].n;
        row -= part ? (size_t)source.parts[0].n : 0;
        double want = test->accumulate ? ops_at(before, test->y_dtype, i) : 0;
        double size = fabs(want);
        if (test->has_bias)
            want += ops_at(source.bias[part], test->source, row);
        size += fabs(want);
        for (size_t j = 0; j < k; j++) {
            double term = ops_at(x, test->dtype, t * k + j) *
                          as_computed(source.data[part], test->source, test->dtype, row * k + j);
            want += term;
            size += fabs(term);
        }
        /* Each of k + 2 additions in float32 rounds a partial sum, none of which exceeds size; the
         * dot product instruction rounds twice. Then y is rounded to its dtype. */
        double tolerance = 2 * (double)(k + 2) * ROUND_F32 * size +
                           ops_rounding(test->y_dtype) * fabs(want) * 1.01;
        ops_check_near(ops_at(y, test->y_dtype, i), want, tolerance);
    }
    ops->kernels->linear_destroy(&weight);
    source_deinit(&source);
    free(before);
    free(y);
    free(x);
}

START_TEST(linear_equals_float64)
{
    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        struct ops ops;
        if (!ops_open(&ops, ops_sets[set], 2))
            continue;
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
            for (size_t j = 0; j < sizeof(cases) / sizeof(cases[0]); j++)
                check_case(&ops, &shapes[i], &cases[j]);
        ops_close(&ops);
    }
}
END_TEST

/* All tokens at once, with one thread, is what every other way must equal bit for bit. */
static void check_alone(const char *set, enum dtype dtype)
{
    enum { NUM_TOKENS = 64 };
    static const int32_t groups[] = {1, 7, 16, 64};
    const struct shape shape = {NUM_TOKENS, 200, 1000};
    size_t row_size = (size_t)shape.n * dtype_size(dtype);
    size_t x_size = (size_t)shape.k * dtype_size(dtype);
    char *want = NULL, *x = ops_array(dtype, NUM_TOKENS * (size_t)shape.k, 1, 5);
    struct source source;

    source_init(&source, &shape, DTYPE_F32, true);
    for (int32_t num_threads = 1; num_threads <= 3; num_threads++) {
        struct ops ops;
        if (!ops_open(&ops, set, num_threads))
            break;
        struct linear_weight *weight = create(&ops, &source, shape.k, dtype);
        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
            char *y = ops_alloc(NUM_TOKENS * row_size);
            for (int32_t t = 0; t < NUM_TOKENS; t += groups[i]) {
                int32_t rest = NUM_TOKENS - t;
                struct linear_args args = {.weight = weight,
                                           .y = y + (size_t)t * row_size,
                                           .x = x + (size_t)t * x_size,
                                           .y_dtype = dtype,
                                           .num_tokens = rest < groups[i] ? rest : groups[i]};
                ops_finish(&ops, ops.kernels->linear(ops.stream, &args));
            }
            if (!want)
                want = y;
            else
                ck_assert_mem_eq(y, want, NUM_TOKENS * row_size);
            if (y != want)
                free(y);
        }
        ops.kernels->linear_destroy(&weight);
        ops_close(&ops);
    }
    source_deinit(&source);
    free(want);
    free(x);
}

START_TEST(a_row_does_not_depend_on_its_company)
{
    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        check_alone(ops_sets[set], DTYPE_F32);
        check_alone(ops_sets[set], DTYPE_BF16);
    }
}
END_TEST

CHECK_MAIN("ops_linear", linear_equals_float64, a_row_does_not_depend_on_its_company)
