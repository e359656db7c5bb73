/* test_ops_moe.c - experts against float64, and that a token does not depend on its company. */
#include "tests/unit/ops_fixture.h"

struct shape {
    int32_t num_tokens, num_experts, top_k, hidden_size, inner_size;
    bool normalise;
};

struct layer {
    enum dtype dtype;
    void *data[3]; /* gate, up, down: [num_experts] stacked */
    struct linear_part *parts[3];
    struct experts_weight *experts;
};

static void layer_init(struct layer *layer, const struct ops *ops, const struct shape *s,
                       enum dtype dtype)
{
    size_t size = (size_t)(s->inner_size * s->hidden_size);

    *layer = (struct layer){.dtype = dtype};
    for (int i = 0; i < 3; i++) {
        layer->data[i] = ops_array(dtype, (size_t)s->num_experts * size, 0.5, (uint64_t)i + 1);
        layer->parts[i] = ops_alloc((size_t)s->num_experts * sizeof(struct linear_part));
        for (int32_t e = 0; e < s->num_experts; e++)
            layer->parts[i][e] = (struct linear_part){.data = (char *)layer->data[i] +
                                                              (size_t)e * size * dtype_size(dtype),
                                                      .dtype = dtype,
                                                      .n = i < 2 ? s->inner_size : s->hidden_size};
    }
    struct experts_source source = {.gate = layer->parts[0],
                                    .up = layer->parts[1],
                                    .down = layer->parts[2],
                                    .num_experts = s->num_experts,
                                    .hidden_size = s->hidden_size,
                                    .inner_size = s->inner_size,
                                    .dtype = dtype};
    ops_finish(ops, ops->kernels->experts_create(ops->stream, &source, &layer->experts));
}

static void layer_deinit(struct layer *layer)
{
    kernels_cpu.experts_destroy(&layer->experts);
    for (int i = 0; i < 3; i++) {
        free(layer->data[i]);
        free(layer->parts[i]);
    }
}

static void run(const struct ops *ops, const struct layer *layer, const struct shape *s, void *y,
                const void *x, const float *logits)
{
    struct ops_limits limits = {.dtype = layer->dtype,
                                .max_tokens = s->num_tokens,
                                .max_rows = 1,
                                .max_kv_len = 1,
                                .hidden_size = s->hidden_size,
                                .num_qo_heads = 1,
                                .num_kv_heads = 1,
                                .head_dim = 1,
                                .vocab_size = 1,
                                .num_experts = s->num_experts,
                                .moe_top_k = s->top_k,
                                .moe_inner_size = s->inner_size};
    void *workspace = ops_alloc(ops->kernels->workspace_size(ops->device, &limits));
    struct moe_args args = {.experts = layer->experts,
                            .y = y,
                            .x = x,
                            .router_logits = logits,
                            .num_tokens = s->num_tokens,
                            .top_k = s->top_k,
                            .normalise = s->normalise,
                            .workspace = workspace};

    ops_finish(ops, ops->kernels->moe(ops->stream, &args));
    free(workspace);
}

/* out[e]: the weight of expert e, 0 if not chosen. */
static void route(const struct shape *s, const float *logits, double *out)
{
    double sum = 0, sum_chosen = 0;

    for (int32_t e = 0; e < s->num_experts; e++) {
        int32_t num_before = 0;
        for (int32_t i = 0; i < s->num_experts; i++)
            num_before += logits[i] > logits[e] || (i < e && logits[i] >= logits[e]);
        double p = exp((double)logits[e]);
        sum += p;
        out[e] = num_before < s->top_k ? p : 0;
        sum_chosen += out[e];
    }
    for (int32_t e = 0; e < s->num_experts; e++)
        out[e] /= s->normalise ? sum_chosen : sum;
}

static double dot(const struct layer *layer, int part, int32_t e, int32_t n, int32_t num_n,
                  int32_t k, const double *x)
{
    double sum = 0;

    for (int32_t i = 0; i < k; i++)
        sum += x[i] * ops_at(layer->data[part], layer->dtype,
                             ((size_t)(e * num_n + n)) * (size_t)k + (size_t)i);
    return sum;
}

/* One token in float64, inner values rounded to the dtype as the operator may. */
static void expect(const struct layer *layer, const struct shape *s, const double *x,
                   const float *logits, double *y)
{
    double *weights = ops_alloc((size_t)s->num_experts * sizeof(double));
    double *inner = ops_alloc((size_t)s->inner_size * sizeof(double));

    route(s, logits, weights);
    for (int32_t e = 0; e < s->num_experts; e++) {
        if (weights[e] <= 0)
            continue;
        for (int32_t i = 0; i < s->inner_size; i++) {
            double gate = dot(layer, 0, e, i, s->inner_size, s->hidden_size, x);
            double up = dot(layer, 1, e, i, s->inner_size, s->hidden_size, x);
            inner[i] = gate / (1 + exp(-gate)) * up;
        }
        for (int32_t i = 0; i < s->hidden_size; i++)
            y[i] += weights[e] * dot(layer, 2, e, i, s->hidden_size, s->inner_size, inner);
    }
    free(inner);
    free(weights);
}

static const struct shape shapes[] = {
    {0, 4, 2, 8, 8, true},    {1, 1, 1, 1, 1, false},   {1, 8, 2, 33, 17, true},
    {9, 4, 4, 16, 32, false}, {40, 8, 2, 64, 48, true}, {2100, 4, 2, 5, 3, true},
    {70, 5, 3, 31, 7, true},
};

static void check_shape(const struct ops *ops, const struct shape *s, enum dtype dtype)
{
    size_t size = (size_t)(s->num_tokens * s->hidden_size);
    void *x = ops_array(dtype, size, 1, 21), *y = ops_array(dtype, size, 1, 22);
    float *logits = ops_array(DTYPE_F32, (size_t)(s->num_tokens * s->num_experts), 3, 23);
    double *want = ops_alloc((size_t)s->hidden_size * sizeof(double));
    double *row = ops_alloc((size_t)s->hidden_size * sizeof(double));
    void *before = ops_array(dtype, size, 1, 22);
    struct layer layer;

    for (int32_t i = 0; i < s->num_tokens * s->num_experts; i += 2)
        logits[i] = rintf(logits[i]); /* ties */
    layer_init(&layer, ops, s, dtype);
    run(ops, &layer, s, y, x, logits);
    for (size_t t = 0; t < (size_t)s->num_tokens; t++) {
        for (size_t i = 0; i < (size_t)s->hidden_size; i++) {
            row[i] = ops_at(x, dtype, t * (size_t)s->hidden_size + i);
            want[i] = ops_at(before, dtype, t * (size_t)s->hidden_size + i);
        }
        expect(&layer, s, row, logits + t * (size_t)s->num_experts, want);
        for (size_t i = 0; i < (size_t)s->hidden_size; i++) {
            /* Inner values are below hidden_size / 2 squared and mostly far smaller; they and y
             * are rounded to the dtype, each sum in float32 rounds as often as it adds. */
            double inner = (double)s->hidden_size / 4;
            double scale = inner * sqrt((double)s->inner_size) + 1;
            double tolerance = scale * ((double)(s->hidden_size + s->inner_size) * ROUND_F32 +
                                        ops_rounding(dtype));
            double got = ops_at(y, dtype, t * (size_t)s->hidden_size + i);
            ops_check_near(got, want[i], tolerance + fabs(want[i]) * ops_rounding(dtype));
        }
    }
    layer_deinit(&layer);
    free(before);
    free(row);
    free(want);
    free(logits);
    free(y);
    free(x);
}

START_TEST(moe_equals_float64)
{
    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        struct ops ops;
        if (!ops_open(&ops, ops_sets[set], 2))
            continue;
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
            check_shape(&ops, &shapes[i], DTYPE_F32);
            check_shape(&ops, &shapes[i], DTYPE_BF16);
        }
        ops_close(&ops);
    }
}
END_TEST

static void check_alone(const struct ops *ops, enum dtype dtype)
{
    struct shape s = {33, 6, 2, 40, 24, true};
    size_t row = (size_t)s.hidden_size * dtype_size(dtype), num_tokens = (size_t)s.num_tokens;
    char *x = ops_array(dtype, num_tokens * (size_t)s.hidden_size, 1, 1);
    char *y = ops_array(dtype, num_tokens * (size_t)s.hidden_size, 1, 2);
    char *alone = ops_array(dtype, num_tokens * (size_t)s.hidden_size, 1, 2);
    float *logits = ops_array(DTYPE_F32, num_tokens * (size_t)s.num_experts, 3, 3);
    struct layer layer;

    layer_init(&layer, ops, &s, dtype);
    run(ops, &layer, &s, y, x, logits);
    s.num_tokens = 1;
    for (size_t t = 0; t < num_tokens; t++) {
        run(ops, &layer, &s, alone + t * row, x + t * row, logits + t * (size_t)s.num_experts);
        ck_assert_mem_eq(alone + t * row, y + t * row, row);
    }
    layer_deinit(&layer);
    free(logits);
    free(alone);
    free(y);
    free(x);
}

START_TEST(a_token_does_not_depend_on_its_company)
{
    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        struct ops ops;
        if (!ops_open(&ops, ops_sets[set], 2))
            continue;
        check_alone(&ops, DTYPE_F32);
        check_alone(&ops, DTYPE_BF16);
        ops_close(&ops);
    }
}
END_TEST

CHECK_MAIN("ops_moe", moe_equals_float64, a_token_does_not_depend_on_its_company)
