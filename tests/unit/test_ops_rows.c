/* test_ops_rows.c - the operators that work on each token by itself: embed, rmsnorm, gate_up,
 * rope_kv. */
#include "tests/unit/ops_fixture.h"

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};

/* Calls check for each set of operators and both dtypes, with 2 threads. */
static void for_all_sets(void (*check)(const struct ops *ops, enum dtype dtype))
{
    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        struct ops ops;
        if (!ops_open(&ops, ops_sets[set], 2))
            continue;
        for (size_t i = 0; i < 2; i++)
            check(&ops, dtypes[i]);
        ops_close(&ops);
    }
}

static void check_embed(const struct ops *ops, enum dtype dtype)
{
    enum { VOCAB_SIZE = 77, STRIDE = 10, ROWS = 8 };
    static const int32_t sizes[] = {1, 17, 64, 577};
    int32_t token_pool[ROWS * STRIDE], token_table_idx[ROWS], positions[ROWS];

    for (int32_t i = 0; i < ROWS * STRIDE; i++)
        token_pool[i] = i % VOCAB_SIZE;
    for (int32_t t = 0; t < ROWS; t++) {
        token_table_idx[t] = ROWS - 1 - t;
        positions[t] = t * 3 % STRIDE;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = (size_t)sizes[i];
        void *data = ops_array(dtype, VOCAB_SIZE * size, 1, 1);
        struct linear_part part = {.data = data, .dtype = dtype, .n = VOCAB_SIZE};
        struct linear_source source = {
            .parts = &part, .num_parts = 1, .k = sizes[i], .dtype = dtype};
        struct linear_weight *table = NULL;
        ops_finish(ops, ops->kernels->linear_create(ops->stream, &source, &table));
        for (int tied = 0; tied < 2; tied++) {
            void *y = ops_alloc(ROWS * size * dtype_size(dtype));
            struct embed_args args = {.dtype = dtype,
                                      .y = y,
                                      .weight = tied ? NULL : data,
                                      .table = tied ? table : NULL,
                                      .token_pool = token_pool,
                                      .token_pool_stride = STRIDE,
                                      .token_table_idx = token_table_idx,
                                      .positions = positions,
                                      .num_tokens = ROWS,
                                      .hidden_size = sizes[i],
                                      .vocab_size = VOCAB_SIZE};
            ops_finish(ops, ops->kernels->embed(ops->stream, &args));
            for (size_t t = 0; t < ROWS; t++) {
                size_t token = (size_t)token_pool[token_table_idx[t] * STRIDE + positions[t]];
                ck_assert_mem_eq((char *)y + t * size * dtype_size(dtype),
                                 (char *)data + token * size * dtype_size(dtype),
                                 size * dtype_size(dtype));
            }
            free(y);
        }
        ops->kernels->linear_destroy(&table);
        free(data);
    }
}

START_TEST(embed_copies_rows)
{
    for_all_sets(check_embed);
}
END_TEST

static void check_rmsnorm(const struct ops *ops, enum dtype dtype)
{
    enum { ROWS = 40 };
    static const int32_t sizes[] = {1, 3, 16, 33, 576, 1537};
    static const int32_t last_of[] = {0, 1, 20, 40};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * 2; i++) {
        size_t size = (size_t)sizes[i / 2];
        bool picks = i % 2 == 1;
        size_t num_rows = picks ? 3 : ROWS;
        void *x = ops_array(dtype, ROWS * size, 3, i);
        void *weight = ops_array(dtype, size, 2, 99);
        void *y = ops_alloc(ROWS * size * dtype_size(dtype));
        struct rmsnorm_args args = {.dtype = dtype,
                                    .y = y,
                                    .x = x,
                                    .weight = weight,
                                    .last_of = picks ? last_of : NULL,
                                    .num_rows = (int32_t)num_rows,
                                    .hidden_size = (int32_t)size,
                                    .eps = 1e-5f};
        ops_finish(ops, ops->kernels->rmsnorm(ops->stream, &args));
        for (size_t row = 0; row < num_rows; row++) {
            size_t from = picks ? (size_t)last_of[row + 1] - 1 : row;
            double sum = 0;
            for (size_t j = 0; j < size; j++)
                sum += pow(ops_at(x, dtype, from * size + j), 2);
            for (size_t j = 0; j < size; j++) {
                double want = ops_at(x, dtype, from * size + j) * ops_at(weight, dtype, j) /
                              sqrt(sum / (double)size + (double)1e-5f);
                /* size additions of positive numbers, root, quotient, two products, y */
                double tolerance =
                    fabs(want) * ((double)(size + 8) * ROUND_F32 + ops_rounding(dtype) * 1.01);
                ops_check_near(ops_at(y, dtype, row * size + j), want, tolerance);
            }
        }
        args.y = x; /* in place gives the same */
        if (!picks) {
            ops_finish(ops, ops->kernels->rmsnorm(ops->stream, &args));
            ck_assert_mem_eq(x, y, ROWS * size * dtype_size(dtype));
        }
        free(y);
        free(weight);
        free(x);
    }
}

START_TEST(rmsnorm_equals_float64)
{
    for_all_sets(check_rmsnorm);
}
END_TEST

/* A weight that leaves x as it is. */
static struct linear_weight *identity(const struct ops *ops, enum dtype dtype, size_t size)
{
    struct linear_weight *weight = NULL;
    void *data = calloc(size * size, dtype_size(dtype));

    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < size; i++)
        element_store(data, dtype, i * size + i, 1);
    const struct linear_part part = {.data = data, .dtype = dtype, .n = (int32_t)size};
    const struct linear_source source = {
        .parts = &part, .num_parts = 1, .k = (int32_t)size, .dtype = dtype};
    ck_assert_int_eq(ops->kernels->linear_create(ops->stream, &source, &weight).code, STATUS_OK);
    ck_assert_int_eq(device_cpu.stream_sync(ops->stream).code, STATUS_OK);
    free(data);
    return weight;
}

static void check_gate_up(const struct ops *ops, enum dtype dtype)
{
    static const int32_t shapes[][2] = {{0, 4}, {1, 1}, {3, 5}, {40, 48}, {2, 512}, {64, 333}};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        size_t num_tokens = (size_t)shapes[i][0], size = (size_t)shapes[i][1];
        void *x = ops_array(dtype, num_tokens * 2 * size, 12, i);
        void *wide = ops_alloc(num_tokens * 2 * size * dtype_size(dtype));
        void *y = ops_alloc(num_tokens * size * dtype_size(dtype));
        struct linear_weight *weight = identity(ops, dtype, 2 * size);
        if (num_tokens > 1) { /* far out, where e^-x is infinite or zero */
            element_store(x, dtype, 0, -200);
            element_store(x, dtype, 1, 200);
        }
        struct gate_up_args args = {.dtype = dtype,
                                    .weight = weight,
                                    .y = y,
                                    .wide = wide,
                                    .x = x,
                                    .num_tokens = shapes[i][0],
                                    .inner_size = shapes[i][1]};
        ops_finish(ops, ops->kernels->gate_up(ops->stream, &args));
        for (size_t t = 0; t < num_tokens; t++) {
            for (size_t j = 0; j < size; j++) {
                double gate = ops_at(x, dtype, t * 2 * size + j);
                double want = gate / (1 + exp(-gate)) * ops_at(x, dtype, t * 2 * size + size + j);
                /* the exponential within 4 roundings, three more operations, y; or underflow */
                double tolerance = fabs(want) * (8 * ROUND_F32 + ops_rounding(dtype) * 1.01);
                ops_check_near(ops_at(y, dtype, t * size + j), want, tolerance + 1e-30);
            }
        }
        ops->kernels->linear_destroy(&weight);
        free(y);
        free(wide);
        free(x);
    }
}

START_TEST(gate_up_equals_float64)
{
    for_all_sets(check_gate_up);
}
END_TEST

struct rope_shape {
    int32_t num_tokens, num_qo_heads, num_kv_heads, head_dim;
    bool has_norms;
};

/* Head h of token t, normed and turned, in float64. */
static void expect_rope(const struct rope_shape *s, enum dtype dtype, const void *qkv,
                        const void *norm, const float *cos_sin, size_t head, double *out)
{
    size_t head_dim = (size_t)s->head_dim, half = head_dim / 2;
    double sum = 0;

    for (size_t i = 0; i < head_dim; i++)
        sum += pow(ops_at(qkv, dtype, head + i), 2);
    double scale = 1 / sqrt(sum / (double)head_dim + (double)1e-6f);
    for (size_t i = 0; i < head_dim; i++) {
        size_t pair = i < half ? i + half : i - half;
        double x = ops_at(qkv, dtype, head + i), y = ops_at(qkv, dtype, head + pair);
        if (norm) {
            x *= scale * ops_at(norm, dtype, i);
            y *= scale * ops_at(norm, dtype, pair);
        }
        double cosine = (double)cos_sin[i % half], sine = (double)cos_sin[half + i % half];
        out[i] = i < half ? x * cosine - y * sine : x * cosine + y * sine;
    }
}

static void check_rope_shape(const struct ops *ops, enum dtype dtype, const struct rope_shape *s)
{
    enum { MAX_POSITION = 50, NUM_SLOTS = 64 };
    size_t head_dim = (size_t)s->head_dim, num_heads = (size_t)(s->num_qo_heads + s->num_kv_heads);
    size_t width = (num_heads + (size_t)s->num_kv_heads) * head_dim;
    size_t kv_width = (size_t)s->num_kv_heads * head_dim, num_tokens = (size_t)s->num_tokens;
    void *qkv = ops_array(dtype, num_tokens * width, 2, 1);
    void *before = ops_array(dtype, num_tokens * width, 2, 1);
    void *norms[2] = {ops_array(dtype, head_dim, 2, 2), ops_array(dtype, head_dim, 2, 3)};
    float *cos_sin = ops_array(DTYPE_F32, MAX_POSITION * head_dim, 1, 4);
    void *caches[2] = {ops_alloc(NUM_SLOTS * kv_width * dtype_size(dtype)),
                       ops_alloc(NUM_SLOTS * kv_width * dtype_size(dtype))};
    int32_t positions[NUM_SLOTS], out_loc[NUM_SLOTS];
    double *want = ops_alloc(head_dim * sizeof(double));

    for (int32_t t = 0; t < s->num_tokens; t++) {
        positions[t] = t * 7 % MAX_POSITION;
        out_loc[t] = t * 5 % NUM_SLOTS;
    }
    struct rope_kv_args args = {.dtype = dtype,
                                .qkv = qkv,
                                .q_norm = s->has_norms ? norms[0] : NULL,
                                .k_norm = s->has_norms ? norms[1] : NULL,
                                .cos_sin = cos_sin,
                                .positions = positions,
                                .out_loc = out_loc,
                                .k_cache = caches[0],
                                .v_cache = caches[1],
                                .num_tokens = s->num_tokens,
                                .num_qo_heads = s->num_qo_heads,
                                .num_kv_heads = s->num_kv_heads,
                                .head_dim = s->head_dim,
                                .eps = 1e-6f};
    ops_finish(ops, ops->kernels->rope_kv(ops->stream, &args));
    for (size_t t = 0; t < num_tokens; t++) {
        for (size_t h = 0; h < num_heads; h++) {
            size_t head = t * width + h * head_dim;
            const void *norm = !s->has_norms ? NULL : norms[h >= (size_t)s->num_qo_heads];
            expect_rope(s, dtype, before, norm, cos_sin + (size_t)positions[t] * head_dim, head,
                        want);
            for (size_t i = 0; i < head_dim; i++) {
                /* |x|, |y| <= 2, times sqrt(head_dim) and 2 where normed; a dozen operations */
                double size = 4 * (s->has_norms ? 2 * sqrt((double)head_dim) : 1);
                double tolerance = size * (double)(head_dim + 12) * ROUND_F32 +
                                   fabs(want[i]) * ops_rounding(dtype) * 1.01;
                ops_check_near(ops_at(qkv, dtype, head + i), want[i], tolerance);
            }
        }
        size_t bytes = kv_width * dtype_size(dtype);
        size_t k = (t * width + (size_t)(s->num_qo_heads) * head_dim) * dtype_size(dtype);
        size_t slot = (size_t)out_loc[t] * bytes;
        ck_assert_mem_eq((char *)caches[0] + slot, (char *)qkv + k, bytes);
        ck_assert_mem_eq((char *)caches[1] + slot, (char *)qkv + k + bytes, bytes);
        ck_assert_mem_eq((char *)qkv + k + bytes, (char *)before + k + bytes, bytes);
    }
    free(want);
    free(caches[0]);
    free(caches[1]);
    free(cos_sin);
    free(norms[0]);
    free(norms[1]);
    free(before);
    free(qkv);
}

static void check_rope(const struct ops *ops, enum dtype dtype)
{
    static const struct rope_shape shapes[] = {
        {0, 1, 1, 2, false},  {1, 9, 3, 64, false},  {1, 1, 1, 2, true},   {13, 4, 2, 128, true},
        {33, 3, 1, 10, true}, {64, 9, 3, 64, false}, {5, 2, 2, 34, false}, {60, 16, 8, 128, true},
    };

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        check_rope_shape(ops, dtype, &shapes[i]);
}

START_TEST(rope_kv_equals_float64)
{
    for_all_sets(check_rope);
}
END_TEST

CHECK_MAIN("ops_rows", embed_copies_rows, rmsnorm_equals_float64, gate_up_equals_float64,
           rope_kv_equals_float64)
