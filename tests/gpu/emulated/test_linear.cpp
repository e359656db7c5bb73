/*
 * test_linear.cpp - the products of linear_split.cu, linear_stream.cu and gate_up_many.cu on the
 * emulated card, against sums of doubles; and which ways are worth a try.
 */
#include <algorithm>
#include <random>
#include <vector>

#include "kernels/cuda/linear_split.cuh"
#include "tests/gpu/emulated/gpu.h"
#include "tests/unit/check_main.h"

enum { NUM_SMS = 132, MAX_SHARED_BYTES = 232448 }; /* an H200's */

static std::mt19937 random_bits(1);
static struct device card = {NUM_SMS, 90, MAX_SHARED_BYTES, true, (void *)emulated_encode};

struct shape {
    int n, k, num_tokens; /* n: rows of W */
    bool is_gated, accumulate, has_bias, y_is_float;
};

static int below(int n)
{
    return (int)(random_bits() % (unsigned)n);
}

static std::vector<__nv_bfloat16> random_values(size_t num, float scale)
{
    std::vector<__nv_bfloat16> values(num);
    std::normal_distribution<float> normal(0, scale);

    for (__nv_bfloat16 &value : values)
        store_float(&value, normal(random_bits));
    return values;
}

/* x of the layer at hand: what the kernel before writes. */
static const unsigned char *new_x;

static bool is_new(const void *from)
{
    return from == new_x;
}

/* 256-byte aligned, as what a device hands out is. */
struct buffer {
    std::vector<unsigned char> bytes;

    explicit buffer(size_t size) : bytes(size + 256, 0xFF)
    {
    }
    explicit buffer(const std::vector<__nv_bfloat16> &values) : buffer(values.size() * 2)
    {
        memcpy(data(), values.data(), values.size() * 2);
    }
    unsigned char *data()
    {
        return bytes.data() + (256 - (size_t)bytes.data() % 256);
    }
};

static double row_times(const std::vector<__nv_bfloat16> &w, const std::vector<__nv_bfloat16> &x,
                        const std::vector<__nv_bfloat16> &bias, const struct shape *s, int row,
                        int token)
{
    double sum = s->has_bias ? to_float(bias[(size_t)row]) : 0;

    for (size_t i = 0; i < (size_t)s->k; i++)
        sum += (double)to_float(w[(size_t)row * (size_t)s->k + i]) *
               to_float(x[(size_t)token * (size_t)s->k + i]);
    return sum;
}

static struct layer_args args_of(const struct shape *s, struct linear_weight *weight)
{
    struct layer_args args = {};

    weight->device = &card;
    weight->dtype = DTYPE_BF16;
    weight->n = s->n;
    weight->k = s->k;
    args.weight = weight;
    args.y_dtype = s->y_is_float ? DTYPE_F32 : DTYPE_BF16;
    args.num_tokens = s->num_tokens;
    args.accumulate = s->accumulate;
    args.wide = s->is_gated ? (void *)weight : NULL; /* no kernel here looks into it */
    return args;
}

/* What element j of a token's y is, and how far from it y may be. */
static double expected_of(const std::vector<__nv_bfloat16> &w, const std::vector<__nv_bfloat16> &x,
                          const std::vector<__nv_bfloat16> &bias, const struct shape *s, int j,
                          int token, double old, double *out_tolerance)
{
    double sum = row_times(w, x, bias, s, j, token);

    if (s->is_gated) {
        float up = round_bf16((float)row_times(w, x, bias, s, s->n / 2 + j, token));

        sum = silu_mul(round_bf16((float)sum), up);
        *out_tolerance = fabs(sum) / 64 + fabs(up) / 64 + 2e-3; /* gates and ups are rounded, too */
        return sum;
    }
    sum += old;
    *out_tolerance = s->y_is_float ? 2e-3 : fabs(sum) / 256 + 2e-3;
    return sum;
}

/* way: as linear.cuh numbers them. */
static void check_way(const struct shape *s, int way)
{
    int outputs = s->is_gated ? s->n / 2 : s->n;
    size_t len = (size_t)outputs * (size_t)s->num_tokens, y_size = len * (s->y_is_float ? 4 : 2);
    auto w = random_values((size_t)s->n * (size_t)s->k, 0.1F);
    auto x = random_values((size_t)s->num_tokens * (size_t)s->k, 1);
    auto bias = random_values((size_t)s->n, 1), old = random_values(len, 1);
    buffer w_dev(w), x_dev(x), bias_dev(bias), y(y_size + 64);
    struct linear_weight weight = {};
    struct layer_args args = args_of(s, &weight);
    struct stream stream = {&card};

    if (s->accumulate)
        memcpy(y.data(), old.data(), y_size);
    weight.data = w_dev.data();
    weight.bias = s->has_bias ? bias_dev.data() : NULL;
    args.x = new_x = x_dev.data();
    args.y = y.data();
    emulated_is_new = is_new;
    struct status status = way == LINEAR_STREAM  ? linear_stream_launch(&stream, &args)
                           : way == GATE_UP_MANY ? gate_up_many_launch(&stream, &args)
                                                 : linear_split_launch(&stream, &args, way);
    ck_assert_int_eq(status.code, STATUS_OK);
    for (size_t at = 0; at < len; at++) {
        int token = (int)(at / (size_t)outputs), j = (int)(at % (size_t)outputs);
        double got =
            s->y_is_float ? ((float *)y.data())[at] : to_float(((__nv_bfloat16 *)y.data())[at]);
        double tolerance, expected = expected_of(w, x, bias, s, j, token,
                                                 s->accumulate ? to_float(old[at]) : 0, &tolerance);

        ck_assert_msg(fabs(got - expected) <= tolerance, /* NaN is not */
                      "way %x of [%d, %d], %d tokens, gated %d, accumulate %d, bias %d, float %d, "
                      "late %d %d: y[%d, %d] is %g, not %g",
                      way, s->n, s->k, s->num_tokens, s->is_gated, s->accumulate, s->has_bias,
                      s->y_is_float, emulated_delays.copies, emulated_delays.products, token, j,
                      got, expected);
    }
    for (int i = 0; i < 64; i++)
        ck_assert_msg(y.data()[y_size + (size_t)i] == 0xFF, "y was written beyond its end");
}

static void delay(bool copies, bool products)
{
    emulated_delays.copies = copies;
    emulated_delays.products = products;
}

static struct shape random_shape(int max_tokens, int max_chunks)
{
    struct shape s = {};

    s.is_gated = below(2);
    s.n = 8 * (1 + below(60)) * (s.is_gated ? 2 : 1);
    s.k = 64 * (1 + below(max_chunks));
    s.num_tokens = 1 + below(max_tokens);
    s.accumulate = !s.is_gated && below(2);
    s.y_is_float = !s.is_gated && !s.accumulate && below(2);
    s.has_bias = below(2);
    return s;
}

START_TEST(split_layers_agree)
{
    for (int i = 0; i < 30; i++) {
        struct shape s = i % 3 ? random_shape(64, i % 3 == 1 ? 12 : 60) : random_shape(512, 12);
        struct linear_weight weight = {};
        std::vector<int> ways;

        s.k -= 8 * below(8); /* the last chunk of k need not be full */
        struct layer_args args = args_of(&s, &weight);
        for (int way = SPLIT_FIRST; way < split_number(0, 0, 0, 0, 9); way++) {
            if (linear_split_knows(&card, &args, way))
                ways.push_back(way);
        }
        ck_assert(!ways.empty());
        delay(i % 2, i / 2 % 2);
        check_way(&s, ways[(size_t)below((int)ways.size())]);
    }
}
END_TEST

/* There is room for five stages and two warpgroups take turns: with all five a warpgroup would
 * come to a stage that the other one has not had yet, and take the round before for its own. */
START_TEST(turns_keep_to_their_stages)
{
    struct shape s = {256, 64 * 60, 64, false, false, false, false};

    delay(true, false);
    for (int i = 0; i < 2; i++)
        check_way(&s, split_number(128, 2, 1, 2, 1));
}
END_TEST

/* More tiles than multiprocessors, too. */
START_TEST(streamed_layers_agree)
{
    for (int i = 0; i < 12; i++) {
        struct shape s = random_shape(32, 12);

        card.num_sms = i % 3 ? 1 + below(8) : (int)NUM_SMS;
        delay(i % 2, false);
        check_way(&s, LINEAR_STREAM);
    }
    card.num_sms = NUM_SMS;
}
END_TEST

/* Each width, with one cluster and odd ends; then anything: several tiles for each of some
 * clusters, blocks without tokens, bands of tiles. */
START_TEST(many_tokens_agree)
{
    static const struct shape widths[] = {
        {160, 64, 300, true},  /* 96 */
        {224, 520, 300, true}, /* 112 */
        {464, 264, 200, true}, /* 128, two columns */
        {528, 200, 129, true}, /* 136, two columns */
    };

    for (int i = 0; i < 14; i++) {
        struct shape s = {16 * (1 + below(40)), 8 * (1 + below(i % 4 ? 30 : 80)),
                          129 + below(i % 3 ? 400 : 2300), true};
        struct linear_weight weight = {};

        if (i < 4)
            s = widths[i];
        s.has_bias = below(2);
        card.num_sms = i < 4 ? 2 : 2 + below(i % 2 ? 6 : 40);
        struct layer_args args = args_of(&s, &weight);
        ck_assert(gate_up_many_can(&card, &args));
        delay(i % 2, i / 2 % 2);
        check_way(&s, GATE_UP_MANY);
    }
    card.num_sms = NUM_SMS;
}
END_TEST

/* Where tiles are nine tenths full gate_up_many.cu needs no timing: for steps of up to so many
 * tokens, whatever a step has. */
START_TEST(full_tiles_need_no_timing)
{
    static const struct {
        int n, k, num_tokens;
        bool is_gated, always;
    } layers[] = {
        {34816, 5120, 8192, true, true},   {34816, 5120, 10240, true, true},
        {34816, 5120, 512, true, true},    {34816, 5120, 511, true, false},
        {34816, 5120, 640, true, false}, /* 83 % */
        {34816, 5120, 8192, false, false}, {6144, 1024, 2048, true, true},
        {6144, 1016, 2048, true, false},   {6144, 1024, 640, true, false},
        {15360, 2048, 512, true, true},  /* 91 % */
        {15104, 2048, 512, true, false}, /* 89 % */
    };

    for (auto &layer : layers) {
        struct shape s = {layer.n, layer.k, 130, layer.is_gated};
        struct linear_weight weight = {};
        struct layer_args args = args_of(&s, &weight);

        ck_assert_msg(gate_up_many_always(&card, &args, layer.num_tokens) == layer.always,
                      "[%d, %d] over %d tokens", layer.n, layer.k, layer.num_tokens);
    }
}
END_TEST

/* One thing at a time that gate_up_many.cu cannot do. */
START_TEST(many_tokens_are_refused)
{
    struct shape s = {256, 64, 129, true};

    for (int i = 0; i < 11; i++) { /* 0: nothing */
        struct device device = card;
        struct linear_weight weight = {};
        struct layer_args args = args_of(&s, &weight);

        device.num_sms = i == 1 ? 1 : device.num_sms;
        device.has_wgmma = i != 2;
        device.encode_tiled = i == 3 ? NULL : device.encode_tiled;
        device.max_shared_bytes = i == 4 ? 200 << 10 : device.max_shared_bytes;
        weight.dtype = i == 5 ? DTYPE_F32 : weight.dtype;
        weight.k = i == 6 ? 68 : weight.k;
        weight.n = i == 7 ? 264 : weight.n;
        args.num_tokens = i == 8 ? 128 : args.num_tokens;
        args.x = (char *)16 + (i == 9 ? 8 : 0);
        args.y = (char *)16 + (i == 10 ? 8 : 0);
        ck_assert_msg(gate_up_many_can(&device, &args) == (i == 0), "case %d", i);
    }
}
END_TEST

/* The cuts that serve the layers of a 14B model on an H200, over less of k: enough for each rank
 * and each warpgroup to have two chunks. */
START_TEST(large_layers_agree)
{
    static const struct shape layers[] = {
        {7168, 5120, 64, false, false, true, false},  {5120, 5120, 33, false, true, false, false},
        {5120, 17408, 64, false, true, true, false},  {34816, 5120, 64, true, false, true, false},
        {34816, 5120, 16, true, false, false, false}, {5120, 17408, 13, false, true, true, false},
    };

    for (struct shape s : layers) {
        struct linear_weight weight = {};
        struct layer_args args = args_of(&s, &weight);
        int way = LINEAR_STREAM, ranks = 8;
        struct plan plan;

        if (s.num_tokens > FEW_TOKENS) {
            ck_assert_int_eq(linear_split_plans(&card, &args, &way, 1), 1);
            ck_assert(linear_split_plan(&card, &args, way, &plan));
            ranks = plan.ranks * plan.split.depth;
        }
        s.k = TILE_K * 2 * ranks;
        delay(s.num_tokens % 2, s.num_tokens % 2 == 0);
        check_way(&s, way);
    }
}
END_TEST

/* The plan that was the fastest of all on an H200 is among those that are timed. */
START_TEST(fastest_plans_are_tried)
{
    static const struct {
        int n, k, num_tokens;
        bool is_gated;
        int fastest;
    } layers[] = {
        {4096, 1024, 64, false, split_number(64, 1, 1, 2, 1)},
        {1024, 2048, 64, false, split_number(64, 1, 4, 2, 1)},
        {6144, 1024, 64, true, split_number(64, 1, 1, 4, 1)},
        {1024, 3072, 64, false, split_number(64, 1, 4, 2, 1)},
        {4096, 1024, 128, false, split_number(80, 1, 1, 2, 2)},
        {1024, 2048, 128, false, split_number(80, 1, 4, 2, 2)},
        {6144, 1024, 128, true, split_number(80, 1, 1, 2, 1)},
        {7168, 5120, 64, false, split_number(112, 1, 2, 2, 1)},
        {5120, 5120, 64, false, split_number(80, 1, 2, 2, 1)},
        {34816, 5120, 64, true, split_number(136, 2, 1, 1, 1)},
        {5120, 17408, 64, false, split_number(80, 1, 2, 4, 1)},
        {34816, 5120, 128, true, split_number(136, 2, 1, 1, 1)},
        {5120, 17408, 128, false, split_number(80, 1, 2, 1, 1)},
    };

    for (auto &layer : layers) {
        struct shape s = {layer.n, layer.k, layer.num_tokens, layer.is_gated};
        struct linear_weight weight = {};
        struct layer_args args = args_of(&s, &weight);
        int plans[SPLIT_CANDIDATES],
            num = linear_split_plans(&card, &args, plans, SPLIT_CANDIDATES);

        ck_assert_msg(std::find(plans, plans + num, layer.fastest) != plans + num,
                      "[%d, %d] over %d tokens: not plan %x", layer.n, layer.k, layer.num_tokens,
                      layer.fastest);
    }
}
END_TEST

CHECK_MAIN("emulated_linear", split_layers_agree, turns_keep_to_their_stages, streamed_layers_agree,
           many_tokens_agree, full_tiles_need_no_timing, many_tokens_are_refused,
           large_layers_agree, fastest_plans_are_tried)
