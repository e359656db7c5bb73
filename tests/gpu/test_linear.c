/*
 * test_linear.c - linear layers.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/rig.h"

static void check_linear(enum dtype dtype, enum dtype file_dtype, enum dtype y_dtype, int32_t n,
                         int32_t k, int32_t tokens, bool accumulate, bool with_bias)
{
    struct linear_part parts[2] = {{.dtype = file_dtype, .n = n - n / 3},
                                   {.dtype = file_dtype, .n = n / 3}};
    struct linear_weight *weight[RIG_NUM] = {NULL};
    struct twin x = twin_random(dtype, (size_t)tokens * (size_t)k, 1);
    size_t y_len = (size_t)tokens * (size_t)n;
    struct twin y =
        accumulate ? twin_random(y_dtype, y_len, 1) : twin_poisoned(y_len * dtype_size(y_dtype));
    void *data[4];

    for (int i = 0; i < 2; i++) {
        data[i] = rig_host_random(file_dtype, (size_t)parts[i].n * (size_t)k, 0.1f);
        data[2 + i] = rig_host_random(file_dtype, (size_t)parts[i].n, 1);
        parts[i].data = data[i];
        parts[i].bias = with_bias && i == 0 ? data[2 + i] : NULL;
    }
    for (int s = 0; s < RIG_NUM; s++) {
        const struct linear_source source = {
            .parts = parts, .num_parts = n / 3 ? 2 : 1, .k = k, .dtype = dtype};

        rig_ok(rig[s].backend.kernels->linear_create(rig[s].stream, &source, &weight[s]));
        const struct linear_args args = {.weight = weight[s],
                                         .y = y.at[s],
                                         .x = x.at[s],
                                         .y_dtype = y_dtype,
                                         .num_tokens = tokens,
                                         .accumulate = accumulate};
        rig_ok(rig[s].backend.kernels->linear(rig[s].stream, &args));
    }
    twin_compare(&y, y_dtype, y_len, rig_tolerance(y_dtype), "linear");
    for (int s = 0; s < RIG_NUM; s++)
        rig[s].backend.kernels->linear_destroy(&weight[s]);
    for (int i = 0; i < 4; i++)
        free(data[i]);
}

static void check_gate_up(enum dtype dtype, int32_t inner, int32_t k, int32_t tokens,
                          bool with_bias)
{
    struct linear_part parts[2];
    struct linear_weight *weight[RIG_NUM] = {NULL};
    struct twin x = twin_random(dtype, (size_t)tokens * (size_t)k, 1);
    size_t y_len = (size_t)tokens * (size_t)inner;
    struct twin y = twin_poisoned(y_len * dtype_size(dtype));
    struct twin wide = twin_poisoned(2 * y_len * dtype_size(dtype));
    void *data[4];

    for (int i = 0; i < 2; i++) {
        data[i] = rig_host_random(dtype, (size_t)inner * (size_t)k, 0.1f);
        data[2 + i] = rig_host_random(dtype, (size_t)inner, 1);
        parts[i] = (struct linear_part){
            .data = data[i], .dtype = dtype, .n = inner, .bias = with_bias ? data[2 + i] : NULL};
    }
    for (int s = 0; s < RIG_NUM; s++) {
        const struct linear_source source = {
            .parts = parts, .num_parts = 2, .k = k, .dtype = dtype};

        rig_ok(rig[s].backend.kernels->linear_create(rig[s].stream, &source, &weight[s]));
        const struct gate_up_args args = {.dtype = dtype,
                                          .weight = weight[s],
                                          .y = y.at[s],
                                          .wide = wide.at[s],
                                          .x = x.at[s],
                                          .num_tokens = tokens,
                                          .inner_size = inner};
        rig_ok(rig[s].backend.kernels->gate_up(rig[s].stream, &args));
    }
    twin_compare(&y, dtype, y_len, 2 * rig_tolerance(dtype), "gate_up");
    for (int s = 0; s < RIG_NUM; s++)
        rig[s].backend.kernels->linear_destroy(&weight[s]);
    for (int i = 0; i < 4; i++)
        free(data[i]);
}

START_TEST(linear_agrees)
{
    static const int32_t shapes[][2] = {{1, 8},    {7, 13},     {64, 64},     {96, 576},
                                        {200, 72}, {384, 1024}, {1024, 3072}, {130, 2056}};
    static const int32_t tokens[] = {0, 1, 2, 5, 8, 9, 16, 17, 33, 130};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (size_t j = 0; j < sizeof(tokens) / sizeof(tokens[0]); j++) {
            int32_t n = shapes[i][0], k = shapes[i][1], t = tokens[j];

            check_linear(DTYPE_F32, DTYPE_F32, DTYPE_F32, n, k, t, false, false);
            check_linear(DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, n, k, t, false, false);
            check_linear(DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, n, k, t, true, false);
            check_linear(DTYPE_BF16, DTYPE_BF16, DTYPE_F32, n, k, t, false, false);
        }
    }
}
END_TEST

/* Large for linear_stream.cu; k of the second is no multiple of 64, so that cuBLAS and skinny.cu
 * compete. */
START_TEST(large_weights_agree)
{
    static const int32_t shapes[][2] = {{16650, 1024}, {2050, 8224}}, tokens[] = {1, 6, 11, 16};

    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 4; j++) {
            int32_t n = shapes[i][0], k = shapes[i][1], t = tokens[j];

            check_linear(DTYPE_BF16, DTYPE_BF16, j % 2 ? DTYPE_F32 : DTYPE_BF16, n, k, t, false,
                         false);
            if (j % 3 == 0)
                check_linear(DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, n, k, t, true, true);
        }
    }
}
END_TEST

/*
 * The ways in which wide layers are cut on an H200, where they are forced. linear_stream.cu: 256
 * rows a tile, 272 of a gated layer, 40 with eight chunks a stage, and more tiles than
 * multiprocessors. linear_split.cu: twice 136 features, half of them gates.
 */
START_TEST(wide_layers_agree)
{
    static const int32_t tokens[] = {1, 8, 13, 16, 17, 27, 32, 40};

    for (int i = 0; i < 8; i++) {
        int32_t t = tokens[i];

        check_linear(DTYPE_BF16, DTYPE_BF16, i % 2 ? DTYPE_F32 : DTYPE_BF16, 33792, 320, t, false,
                     false);
        check_linear(DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 70001, 128, t, true, true);
        check_linear(DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 5120, 1088, t, true, i % 2);
        check_gate_up(DTYPE_BF16, 17408, 192, t, i % 2);
        check_gate_up(DTYPE_BF16, 45000, 64, t, i % 2);
    }
}
END_TEST

/* What linear_split.cu can do, if the card is Hopper's: n % 8 == 0, k % 8 == 0, up to 512 tokens.
 */
START_TEST(split_layers_agree)
{
    static const int32_t shapes[][2] = {{8, 64},     {40, 72},     {1024, 2048}, {1024, 3072},
                                        {776, 1096}, {4096, 1024}, {6144, 1024}, {1640, 9000}};
    static const int32_t tokens[] = {1, 17, 33, 64, 65, 128, 150, 256, 257, 400, 512, 513};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (size_t j = 0; j < sizeof(tokens) / sizeof(tokens[0]); j++) {
            int32_t n = shapes[i][0], k = shapes[i][1], t = tokens[j];

            if ((int64_t)n * k > 3000000 && j % 3 != i % 3) /* the cpu is slow */
                continue;
            if (j % 2)
                check_linear(DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, n, k, t, true, i % 2);
            else
                check_linear(DTYPE_BF16, DTYPE_BF16, i % 2 ? DTYPE_F32 : DTYPE_BF16, n, k, t, false,
                             false);
        }
    }
}
END_TEST

static void check_repeats(struct linear_weight *weight, int32_t n, int32_t k, int32_t tokens,
                          bool is_gated)
{
    enum { TIMES = 100 };
    struct rig_side *side = &rig[RIG_CUDA];
    struct twin x = twin_random(DTYPE_BF16, (size_t)tokens * (size_t)k, 1);
    size_t size = (size_t)tokens * (size_t)n * 2;
    struct twin y = twin_poisoned(size), wide = twin_poisoned(is_gated ? size : 2);
    void *first = NULL;

    for (int i = 0; i < TIMES; i++) {
        const struct linear_args args = {.weight = weight,
                                         .y = y.at[RIG_CUDA],
                                         .x = x.at[RIG_CUDA],
                                         .y_dtype = DTYPE_BF16,
                                         .num_tokens = tokens};
        const struct gate_up_args gated = {.dtype = DTYPE_BF16,
                                           .weight = weight,
                                           .y = y.at[RIG_CUDA],
                                           .wide = wide.at[RIG_CUDA],
                                           .x = x.at[RIG_CUDA],
                                           .num_tokens = tokens,
                                           .inner_size = n / 2};

        if (is_gated)
            rig_ok(side->backend.kernels->gate_up(side->stream, &gated));
        else
            rig_ok(side->backend.kernels->linear(side->stream, &args));
        void *now = twin_read(&y, RIG_CUDA);
        if (first)
            ck_assert_mem_eq(first, now, size);
        else
            first = now;
        if (now != first)
            free(now);
    }
    free(first);
}

/* A weight that fits no cache, so that its tiles come late and out of order: a product that takes
 * one for another, or waits for one that has gone by, shows here. */
START_TEST(large_products_repeat)
{
    enum { N = 32768, K = 5120, COPIES = 256 };
    struct rig_side *side = &rig[RIG_CUDA];
    size_t piece = (size_t)N * K * 2 / COPIES;
    char *data = realloc(rig_host_random(DTYPE_BF16, piece / 2, 0.1f), piece * COPIES);
    const struct linear_part part = {.data = data, .dtype = DTYPE_BF16, .n = N};
    const struct linear_source source = {
        .parts = &part, .num_parts = 1, .k = K, .dtype = DTYPE_BF16};
    static const int32_t tokens[] = {1, 16, 32, 64, 128, 256, 512};
    static const int32_t gated_tokens[] = {64, 150, 512, 1100};
    struct linear_weight *weight = NULL;

    ck_assert_ptr_nonnull(data);
    for (size_t i = 1; i < COPIES; i++)
        memcpy(data + i * piece, data, piece);
    rig_ok(side->backend.kernels->linear_create(side->stream, &source, &weight));
    for (int i = 0; i < 7; i++)
        check_repeats(weight, N, K, tokens[i], false);
    for (int i = 0; i < 4; i++)
        check_repeats(weight, N, K, gated_tokens[i], true);
    side->backend.kernels->linear_destroy(&weight);
    free(data);
}
END_TEST

/* Layers in a row, from one buffer to another and back; whether each is waited for or not. Gated
 * ones are few: their values shrink or grow. */
static void *chain(struct linear_weight *weight, int32_t n, int32_t tokens, const void *x,
                   bool is_gated, bool waits)
{
    const int num_layers = is_gated ? 3 : 9;
    struct rig_side *side = &rig[RIG_CUDA];
    size_t size = (size_t)tokens * (size_t)n * 2;
    struct twin buffers[2] = {twin_of(x, size), twin_poisoned(size)};
    struct twin wide = twin_poisoned(is_gated ? 2 * size : 2);

    for (int i = 0; i < num_layers; i++) {
        const struct linear_args args = {.weight = weight,
                                         .y = buffers[(i + 1) % 2].at[RIG_CUDA],
                                         .x = buffers[i % 2].at[RIG_CUDA],
                                         .y_dtype = DTYPE_BF16,
                                         .num_tokens = tokens,
                                         .accumulate = i > 2};
        const struct gate_up_args gated = {.dtype = DTYPE_BF16,
                                           .weight = weight,
                                           .y = args.y,
                                           .wide = wide.at[RIG_CUDA],
                                           .x = args.x,
                                           .num_tokens = tokens,
                                           .inner_size = n};

        if (is_gated)
            rig_ok(side->backend.kernels->gate_up(side->stream, &gated));
        else
            rig_ok(side->backend.kernels->linear(side->stream, &args));
        if (waits)
            rig_ok(side->backend.device->stream_sync(side->stream));
    }
    return twin_read(&buffers[num_layers % 2], RIG_CUDA);
}

static void check_chains(int32_t n, bool is_gated, const int32_t *tokens, int num)
{
    enum { TIMES = 20 };
    struct rig_side *side = &rig[RIG_CUDA];
    int32_t rows = is_gated ? 2 * n : n;
    void *data = rig_host_random(DTYPE_BF16, (size_t)rows * (size_t)n, is_gated ? 0.03f : 0.01f);
    const struct linear_part part = {.data = data, .dtype = DTYPE_BF16, .n = rows};
    const struct linear_source source = {
        .parts = &part, .num_parts = 1, .k = n, .dtype = DTYPE_BF16};
    struct linear_weight *weight = NULL;

    rig_ok(side->backend.kernels->linear_create(side->stream, &source, &weight));
    for (int i = 0; i < num; i++) {
        size_t len = (size_t)tokens[i] * (size_t)n;
        void *x = rig_host_random(DTYPE_BF16, len, 1), *expected, *got;

        expected = chain(weight, n, tokens[i], x, is_gated, true);
        ck_assert_msg(rig_element(expected, DTYPE_BF16, 0) == rig_element(expected, DTYPE_BF16, 0),
                      "the chain ends with NaN");
        for (int j = 0; j < TIMES; j++) {
            got = chain(weight, n, tokens[i], x, is_gated, false);
            ck_assert_mem_eq(got, expected, len * 2);
            free(got);
        }
        free(expected);
        free(x);
    }
    side->backend.kernels->linear_destroy(&weight);
    free(data);
}

/* A layer's x is made by the one before it, and its y is what that one still reads. */
START_TEST(layers_wait_for_each_other)
{
    static const int32_t tokens[] = {1, 8, 16, 32, 64, 128, 256, 512};
    static const int32_t gated_tokens[] = {16, 64, 200, 512, 1100};

    check_chains(5120, false, tokens, 8);
    check_chains(2560, true, gated_tokens, 5);
}
END_TEST

START_TEST(gate_up_agrees)
{
    static const int32_t shapes[][2] = {{1, 8},     {7, 13},      {36, 64},     {96, 576},
                                        {100, 200}, {1536, 1024}, {3072, 1024}, {820, 4608}};
    static const int32_t tokens[] = {0, 1, 6, 9, 16, 17, 64, 100, 200, 256, 300, 512};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (size_t j = 0; j < sizeof(tokens) / sizeof(tokens[0]); j++) {
            int32_t inner = shapes[i][0], k = shapes[i][1], t = tokens[j];

            if ((int64_t)inner * k > 1000000 && j % 3 != i % 3) /* the cpu is slow */
                continue;
            check_gate_up(DTYPE_BF16, inner, k, t, j % 2);
            if ((int64_t)inner * k < 100000)
                check_gate_up(DTYPE_F32, inner, k, t, j % 2);
        }
    }
    check_gate_up(DTYPE_BF16, 1096, 520, 2400, true); /* several tiles for each cluster, odd ends */
    check_gate_up(DTYPE_BF16, 7392, 136, 200, false); /* gate_up_many.cu: F of 112, 128 and 136 */
    check_gate_up(DTYPE_BF16, 8448, 136, 200, true);
    check_gate_up(DTYPE_BF16, 8976, 136, 200, false);
    check_gate_up(DTYPE_BF16, 8704, 1024, 1, false); /* large */
    check_gate_up(DTYPE_BF16, 8704, 1024, 12, true);
    check_gate_up(DTYPE_BF16, 8704, 1000, 3, false); /* k is no multiple of 64 */
}
END_TEST

START_TEST(linear_with_bias_and_sums)
{
    for (int32_t tokens = 1; tokens < 40; tokens += 13) {
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            check_linear(DTYPE_F32, DTYPE_F32, DTYPE_F32, 48, 64, tokens, accumulate, true);
            check_linear(DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 48, 64, tokens, accumulate, true);
            check_linear(DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 129, 512, tokens, accumulate, true);
        }
    }
}
END_TEST

START_TEST(weights_are_converted)
{
    static const enum dtype files[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

    for (int i = 0; i < 3; i++) {
        check_linear(DTYPE_F32, files[i], DTYPE_F32, 33, 72, 3, false, true);
        check_linear(DTYPE_BF16, files[i], DTYPE_BF16, 33, 72, 3, false, true);
    }
    check_linear(DTYPE_BF16, DTYPE_F32, DTYPE_BF16, 3000, 4100, 1, false, false); /* two slots */
}
END_TEST

RIG_MAIN("linear", linear_agrees, split_layers_agree, large_weights_agree, wide_layers_agree,
         large_products_repeat, layers_wait_for_each_other, gate_up_agrees,
         linear_with_bias_and_sums, weights_are_converted)
