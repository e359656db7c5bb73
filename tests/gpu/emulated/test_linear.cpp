/*
 * test_linear.cpp - the products of linear_split.cu and linear_stream.cu on the emulated card,
 * against sums of doubles.
 */
#include <stdio.h>

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
    double difference = 0, size = 0;

    if (s->accumulate)
        memcpy(y.data(), old.data(), y_size);
    weight.data = w_dev.data();
    weight.bias = s->has_bias ? bias_dev.data() : NULL;
    args.x = x_dev.data();
    args.y = y.data();
    struct status status = way == LINEAR_STREAM ? linear_stream_launch(&stream, &args)
                                                : linear_split_launch(&stream, &args, way);
    ck_assert_int_eq(status.code, STATUS_OK);
    for (int token = 0; token < s->num_tokens; token++) {
        for (int j = 0; j < outputs; j++) {
            size_t at = (size_t)token * (size_t)outputs + (size_t)j;
            double expected = row_times(w, x, bias, s, j, token);
            double got =
                s->y_is_float ? ((float *)y.data())[at] : to_float(((__nv_bfloat16 *)y.data())[at]);

            if (s->is_gated)
                expected =
                    silu_mul(round_bf16((float)expected),
                             round_bf16((float)row_times(w, x, bias, s, outputs + j, token)));
            if (s->accumulate)
                expected += to_float(old[at]);
            difference += (got - expected) * (got - expected);
            size += expected * expected;
        }
    }
    ck_assert_msg(
        difference <= size * 3e-5, /* NaN is no less */
        "way %x of [%d, %d], %d tokens, gated %d, accumulate %d, bias %d, float %d, late %d: "
        "off by %g",
        way, s->n, s->k, s->num_tokens, s->is_gated, s->accumulate, s->has_bias, s->y_is_float,
        emulated_late, sqrt(difference / size));
    for (int i = 0; i < 64; i++)
        ck_assert_msg(y.data()[y_size + (size_t)i] == 0xFF, "y was written beyond its end");
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
        struct layer_args args = args_of(&s, &weight);
        std::vector<int> ways;

        s.k -= 8 * below(8); /* the last chunk of k need not be full */
        weight.k = s.k;
        for (int way = SPLIT_FIRST; way < 1 << 19; way++) {
            if (linear_split_knows(&card, &args, way))
                ways.push_back(way);
        }
        ck_assert(!ways.empty());
        emulated_late = i % 2;
        check_way(&s, ways[(size_t)below((int)ways.size())]);
    }
}
END_TEST

/* There is room for five stages and two warpgroups take turns: with all five a warpgroup would
 * come to a stage that the other one has not had yet, and take the round before for its own. */
START_TEST(turns_keep_to_their_stages)
{
    enum { WAY = 128 / 8 | 2 << 5 | 1 << 8 | 2 << 12 | 1 << 15 }; /* as linear_split.cuh has it */
    struct shape s = {256, 64 * 60, 64, false, false, false, false};

    emulated_late = true;
    for (int i = 0; i < 2; i++)
        check_way(&s, WAY);
}
END_TEST

/* More tiles than multiprocessors, too. */
START_TEST(streamed_layers_agree)
{
    for (int i = 0; i < 12; i++) {
        struct shape s = random_shape(32, 12);

        card.num_sms = i % 3 ? 1 + below(8) : (int)NUM_SMS;
        emulated_late = i % 2;
        check_way(&s, LINEAR_STREAM);
    }
    card.num_sms = NUM_SMS;
}
END_TEST

/* The cuts that serve the layers of a 14B model on an H200, of which k is less here. */
START_TEST(large_layers_agree)
{
    static const struct {
        struct shape shape;
        int num_ways; /* of the likeliest */
    } layers[] = {
        {{7168, 192, 64, false, false, true, false}, 2},
        {{5120, 576, 33, false, true, false, false}, 2},
        {{34816, 128, 64, true, false, true, false}, 1},
        {{34816, 64, 16, true, false, false, false}, 0},
        {{5120, 1088, 13, false, true, true, false}, 0},
    };

    for (const auto &layer : layers) {
        struct linear_weight weight = {};
        struct layer_args args = args_of(&layer.shape, &weight);
        int ways[2];

        if (layer.num_ways == 0)
            check_way(&layer.shape, LINEAR_STREAM);
        ck_assert_int_ge(linear_split_plans(&card, &args, ways, 2), layer.num_ways);
        for (int i = 0; i < layer.num_ways; i++)
            check_way(&layer.shape, ways[i]);
    }
}
END_TEST

CHECK_MAIN("emulated_linear", split_layers_agree, turns_keep_to_their_stages, streamed_layers_agree,
           large_layers_agree)
