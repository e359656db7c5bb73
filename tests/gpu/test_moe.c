/*
 * test_moe.c - mixtures of experts: pair by pair, and grouped by expert.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/rig.h"

struct shape {
    enum dtype dtype;
    int32_t experts, top_k, hidden, inner, tokens;
    int32_t favourites; /* 0, or only the last so many experts are ever chosen */
    bool normalise;
};

/* Both sides' weights and inputs of one test. */
struct mixture {
    struct shape shape;
    struct experts_weight *weight[RIG_NUM];
    struct twin x, logits, workspace;
};

static void make_weights(struct mixture *m)
{
    const struct shape *s = &m->shape;
    size_t matrix = (size_t)s->hidden * (size_t)s->inner;
    struct linear_part *parts[3];
    void *data[3];

    for (int i = 0; i < 3; i++) {
        parts[i] = calloc((size_t)s->experts, sizeof(*parts[i]));
        ck_assert_ptr_nonnull(parts[i]);
        data[i] = rig_host_random(s->dtype, (size_t)s->experts * matrix, 0.2f);
        for (int32_t e = 0; e < s->experts; e++)
            parts[i][e] = (struct linear_part){.data = (char *)data[i] +
                                                       (size_t)e * matrix * dtype_size(s->dtype),
                                               .dtype = s->dtype,
                                               .n = i == 2 ? s->hidden : s->inner};
    }
    const struct experts_source source = {.gate = parts[0],
                                          .up = parts[1],
                                          .down = parts[2],
                                          .num_experts = s->experts,
                                          .hidden_size = s->hidden,
                                          .inner_size = s->inner,
                                          .dtype = s->dtype};
    for (int side = 0; side < RIG_NUM; side++) {
        rig_ok(
            rig[side].backend.kernels->experts_create(rig[side].stream, &source, &m->weight[side]));
        rig_ok(rig[side].backend.device->stream_sync(rig[side].stream));
    }
    for (int i = 0; i < 3; i++) {
        free(parts[i]);
        free(data[i]);
    }
}

/* is_nan: those of the first token. */
static struct twin make_logits(const struct shape *s, bool is_nan)
{
    size_t n = (size_t)s->tokens * (size_t)s->experts;
    float *logits = rig_host_random(DTYPE_F32, n, 2);

    for (size_t i = 0; i < n; i++) {
        if ((int32_t)(i % (size_t)s->experts) >= s->experts - s->favourites)
            logits[i] += 50;
    }
    for (int32_t e = 0; is_nan && e < s->experts; e++)
        logits[e] = NAN;
    struct twin twin = twin_of(logits, n * sizeof(*logits));
    free(logits);
    return twin;
}

static struct mixture mixture_make(struct shape shape)
{
    const struct ops_limits limits = {.dtype = shape.dtype,
                                      .max_tokens = shape.tokens,
                                      .max_rows = shape.tokens,
                                      .max_kv_len = 16,
                                      .hidden_size = shape.hidden,
                                      .num_qo_heads = 2,
                                      .num_kv_heads = 1,
                                      .head_dim = 8,
                                      .vocab_size = 16,
                                      .num_experts = shape.experts,
                                      .moe_top_k = shape.top_k,
                                      .moe_inner_size = shape.inner};
    struct mixture m = {.shape = shape};
    size_t space = 0;

    make_weights(&m);
    m.x = twin_random(shape.dtype, (size_t)shape.tokens * (size_t)shape.hidden, 1);
    m.logits = make_logits(&shape, false);
    for (int s = 0; s < RIG_NUM; s++) {
        size_t size = rig[s].backend.kernels->workspace_size(rig[s].device, &limits);
        space = size > space ? size : space;
    }
    m.workspace = twin_poisoned(space);
    return m;
}

static void mixture_free(struct mixture *m)
{
    for (int s = 0; s < RIG_NUM; s++)
        rig[s].backend.kernels->experts_destroy(&m->weight[s]);
}

static void mixture_run(const struct mixture *m, int side, const struct twin *y)
{
    const struct moe_args args = {.experts = m->weight[side],
                                  .y = y->at[side],
                                  .x = m->x.at[side],
                                  .router_logits = m->logits.at[side],
                                  .num_tokens = m->shape.tokens,
                                  .top_k = m->shape.top_k,
                                  .normalise = m->shape.normalise,
                                  .workspace = m->workspace.at[side]};
    rig_ok(rig[side].backend.kernels->moe(rig[side].stream, &args));
}

static void check_mixture(const struct mixture *m)
{
    struct shape shape = m->shape;
    size_t n = (size_t)shape.tokens * (size_t)shape.hidden;
    struct twin y = twin_random(shape.dtype, n, 1);
    char what[128];

    snprintf(what, sizeof(what), "moe of %d experts, top %d, [%d, %d], %d tokens", shape.experts,
             shape.top_k, shape.inner, shape.hidden, shape.tokens);
    for (int s = 0; s < RIG_NUM; s++)
        mixture_run(m, s, &y);
    /* Two roundings: of what is inside, and of each expert's result or of their sum. */
    twin_compare(&y, shape.dtype, n, 2 * rig_tolerance(shape.dtype), what);
}

static void check(struct shape shape)
{
    struct mixture m = mixture_make(shape);

    check_mixture(&m);
    mixture_free(&m);
}

START_TEST(moe_agrees)
{
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};

    for (int d = 0; d < 2; d++) {
        check((struct shape){dtypes[d], 4, 2, 64, 48, 5, 0, true});
        check((struct shape){dtypes[d], 128, 8, 128, 96, 19, 0, true});
        check((struct shape){dtypes[d], 7, 7, 40, 24, 1, 0, false});
        check((struct shape){dtypes[d], 60, 4, 72, 33, 70, 0, false});
        check((struct shape){dtypes[d], 60, 4, 70, 40, 133, 0, false});
    }
}
END_TEST

/* Of 128 experts and top 8: 4 tokens are the first to be grouped; 128 and 768 have larger tiles. */
START_TEST(groups_agree)
{
    static const int32_t tokens[] = {0,   1,   2,   3,   4,   5,   16,  17,  64,
                                     127, 128, 129, 300, 767, 768, 769, 1000};

    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        check((struct shape){DTYPE_BF16, 128, 8, 64, 40, tokens[i], 0, true});
        check((struct shape){DTYPE_BF16, 16, 2, 200, 136, tokens[i], 0, false});
    }
    check((struct shape){DTYPE_BF16, 128, 8, 256, 192, 1000, 0, true});
    check((struct shape){DTYPE_BF16, 8, 2, 2048, 768, 257, 0, true}); /* rows of Qwen3-30B-A3B */
    check((struct shape){DTYPE_BF16, 300, 5, 72, 8, 333, 0, true});
    check((struct shape){DTYPE_BF16, 1, 1, 520, 264, 131, 0, true});
}
END_TEST

/* The least even load that there is: most experts have nothing to do. */
START_TEST(all_tokens_may_choose_the_same)
{
    static const int32_t tokens[] = {2, 15, 33, 250, 999};

    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        check((struct shape){DTYPE_BF16, 8, 1, 136, 72, tokens[i], 1, false});
        check((struct shape){DTYPE_BF16, 128, 8, 72, 64, tokens[i], 8, true});
        check((struct shape){DTYPE_BF16, 64, 4, 64, 72, tokens[i], 6, true});
    }
}
END_TEST

/* Of the first token nothing is right; the others are as ever. */
START_TEST(nan_spoils_one_token)
{
    static const int32_t tokens[] = {1, 3, 64, 300};

    for (size_t i = 0; i < 2 * sizeof(tokens) / sizeof(tokens[0]); i++) {
        const struct shape shapes[] = {{DTYPE_BF16, 128, 8, 64, 40, tokens[i / 2], 0, true},
                                       {DTYPE_F32, 1024, 4, 64, 40, tokens[i / 2], 0, false}};
        struct mixture m = mixture_make(shapes[i % 2]);

        m.logits = make_logits(&m.shape, true);
        check_mixture(&m);
        mixture_free(&m);
    }
}
END_TEST

/* Bit by bit: again, and from a captured graph. */
START_TEST(results_repeat)
{
    static const int32_t tokens[] = {1, 40, 400, 1200};
    const struct device_ops *ops = rig[RIG_CUDA].backend.device;
    struct stream *stream = rig[RIG_CUDA].stream;

    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        struct mixture m =
            mixture_make((struct shape){DTYPE_BF16, 128, 8, 128, 72, tokens[i], 0, true});
        size_t n = (size_t)tokens[i] * 128;
        struct twin y = twin_random(DTYPE_BF16, n, 1);
        void *before = twin_read(&y, RIG_CUDA);
        struct twin again = twin_of(before, 2 * n), captured = twin_of(before, 2 * n);
        struct graph *graph = NULL;

        mixture_run(&m, RIG_CUDA, &y);
        mixture_run(&m, RIG_CUDA, &again);
        rig_ok(ops->graph_begin(stream));
        mixture_run(&m, RIG_CUDA, &captured);
        rig_ok(ops->graph_end(stream, &graph));
        rig_ok(ops->graph_launch(stream, graph));
        void *results[] = {twin_read(&y, RIG_CUDA), twin_read(&again, RIG_CUDA),
                           twin_read(&captured, RIG_CUDA)};
        ck_assert_int_ne(memcmp(results[0], before, 2 * n), 0);
        ck_assert_int_eq(memcmp(results[0], results[1], 2 * n), 0);
        ck_assert_int_eq(memcmp(results[0], results[2], 2 * n), 0);
        for (int j = 0; j < 3; j++)
            free(results[j]);
        free(before);
        ops->graph_destroy(&graph);
        mixture_free(&m);
    }
}
END_TEST

/*
 * What a token gets does not depend on its company, nor on the size of the tiles: bit by bit, as
 * long as the same instructions multiply.
 */
START_TEST(company_does_not_matter)
{
    enum { HIDDEN = 128, FEW = 20 };
    static const int32_t tokens[] = {64, 400};
    struct mixture m = mixture_make((struct shape){DTYPE_BF16, 128, 8, HIDDEN, 72, 400, 0, true});
    struct twin y = twin_random(DTYPE_BF16, 400 * HIDDEN, 1);
    void *before = twin_read(&y, RIG_CUDA);
    void *alone;

    m.shape.tokens = FEW;
    mixture_run(&m, RIG_CUDA, &y);
    alone = twin_read(&y, RIG_CUDA);
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        struct twin other = twin_of(before, 400 * HIDDEN * 2);

        m.shape.tokens = tokens[i];
        mixture_run(&m, RIG_CUDA, &other);
        void *result = twin_read(&other, RIG_CUDA);
        ck_assert_int_eq(memcmp(alone, result, (size_t)FEW * HIDDEN * 2), 0);
        free(result);
    }
    free(alone);
    free(before);
    mixture_free(&m);
}
END_TEST

RIG_MAIN("moe", moe_agrees, groups_agree, all_tokens_may_choose_the_same, nan_spoils_one_token,
         results_repeat, company_does_not_matter)
