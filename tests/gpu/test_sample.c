/*
 * test_sample.c - the choice of tokens. Weights on the two back ends differ in their last bits, so
 * where a draw falls on the border of two tokens, the neighbour in the order is right as well.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/gpu/rig.h"

struct wish {
    float temperature, top_p, min_p;
    int32_t top_k;
};

enum logits_kind { NORMAL, FLAT, PEAKED, CONSTANT, FEW_VALUES, STEEP, LATE_PEAK, NUM_KINDS };

static float draw_logit(enum logits_kind kind, int32_t i, int32_t vocab_size)
{
    switch (kind) {
    case FLAT:
        return 0.05f * rig_normal();
    case PEAKED:
        return rig_below(1000) ? 2 * rig_normal() : 12 + 2 * rig_normal();
    case CONSTANT:
        return -3.25f;
    case FEW_VALUES:
        return (float)rig_below(5);
    case STEEP:
        return 300 * rig_normal();
    case LATE_PEAK: /* the largest is not where one looks first */
        return i > vocab_size - 5 ? 200 + rig_normal() : rig_normal();
    default:
        return rig_normal();
    }
}

struct ranked {
    float logit;
    int32_t id;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int32_t rank_of(const float *logits, int32_t n, int32_t id)
{
    struct ranked own = {logits[id], id};
    int32_t rank = 0;

    for (int32_t i = 0; i < n; i++) {
        struct ranked other = {logits[i], i};
        rank += compare_ranked(&other, &own) < 0;
    }
    return rank;
}

/* In the order of the draw: by rank, or by id where no filter is on. */
static int32_t place_of(const struct wish *wish, const float *logits, int32_t n, int32_t id)
{
    bool by_id = (wish->top_k <= 0 || wish->top_k >= n) && wish->top_p >= 1 && wish->min_p <= 0;

    return by_id ? id : rank_of(logits, n, id);
}

static void check_sample(enum logits_kind kind, int32_t vocab, int32_t rows,
                         const struct wish *wishes, size_t num_wishes)
{
    enum { STRIDE = 20, TABLES = 70 };
    float *logits = malloc((size_t)rows * (size_t)vocab * sizeof(*logits));
    float temperature[64], top_p[64], min_p[64];
    int32_t top_k[64], table_idx[64], pos[64], counter = 41;
    uint64_t seed[64];
    size_t space = 0;

    ck_assert_ptr_nonnull(logits);
    for (int32_t i = 0; i < rows * vocab; i++)
        logits[i] = draw_logit(kind, i % vocab, vocab);
    for (int32_t r = 0; r < rows; r++) {
        const struct wish *wish = &wishes[(size_t)r % num_wishes];

        temperature[r] = wish->temperature;
        top_p[r] = wish->top_p;
        min_p[r] = wish->min_p;
        top_k[r] = wish->top_k;
        table_idx[r] = TABLES - 1 - r;
        pos[r] = rig_below(STRIDE);
        seed[r] = (uint64_t)rig_random() << 32 | rig_random();
    }
    struct twin in[] = {twin_of(temperature, sizeof(temperature)),
                        twin_of(top_p, sizeof(top_p)),
                        twin_of(min_p, sizeof(min_p)),
                        twin_of(top_k, sizeof(top_k)),
                        twin_of(table_idx, sizeof(table_idx)),
                        twin_of(pos, sizeof(pos)),
                        twin_of(seed, sizeof(seed))};
    struct twin all = twin_of(logits, (size_t)rows * (size_t)vocab * sizeof(*logits));
    struct twin pool = twin_poisoned(STRIDE * TABLES * 4), results = twin_poisoned(64 * 4);
    struct twin counters = twin_ints(&counter, 1);
    const struct ops_limits limits = {.dtype = DTYPE_BF16,
                                      .max_tokens = rows,
                                      .max_rows = rows,
                                      .max_kv_len = 16,
                                      .hidden_size = 64,
                                      .num_qo_heads = 1,
                                      .num_kv_heads = 1,
                                      .head_dim = 64,
                                      .vocab_size = vocab};
    for (int s = 0; s < RIG_NUM; s++) {
        size_t size = rig[s].backend.kernels->workspace_size(rig[s].device, &limits);
        space = size > space ? size : space;
    }
    struct twin workspace = twin_poisoned(space);
    for (int s = 0; s < RIG_NUM; s++) {
        const struct sample_args args = {.logits = all.at[s],
                                         .num_rows = rows,
                                         .vocab_size = vocab,
                                         .inputs = {.temperature = in[0].at[s],
                                                    .top_p = in[1].at[s],
                                                    .min_p = in[2].at[s],
                                                    .top_k = in[3].at[s],
                                                    .sample_table_idx = in[4].at[s],
                                                    .sample_pos = in[5].at[s],
                                                    .seed = in[6].at[s],
                                                    .max_rows = 64},
                                         .token_pool = pool.at[s],
                                         .token_pool_stride = STRIDE,
                                         .results = results.at[s],
                                         .step_counter = counters.at[s],
                                         .workspace = workspace.at[s]};
        rig_ok(rig[s].backend.kernels->sample(rig[s].stream, &args));
    }
    int32_t *cpu = twin_read(&results, RIG_CPU), *cuda = twin_read(&results, RIG_CUDA);
    int32_t *cuda_pool = twin_read(&pool, RIG_CUDA);
    for (int32_t r = 0; r < rows; r++) {
        const struct wish *w = &wishes[(size_t)r % num_wishes];
        const float *row = logits + (size_t)r * (size_t)vocab;
        bool near = cpu[r] == cuda[r];

        if (!near && cuda[r] >= 0 && cuda[r] < vocab && cpu[r] >= 0 && w->temperature > 0)
            near = abs(place_of(w, row, vocab, cpu[r]) - place_of(w, row, vocab, cuda[r])) <=
                   1 + vocab / 30000;
        ck_assert_msg(near,
                      "logits of kind %d, vocab %d, row %d, temperature %g, top_p %g, min_p %g, "
                      "top_k %d: %d on the cpu, %d on cuda",
                      (int)kind, vocab, r, (double)w->temperature, (double)w->top_p,
                      (double)w->min_p, w->top_k, cpu[r], cuda[r]);
        ck_assert_int_eq(cuda_pool[table_idx[r] * STRIDE + pos[r]], cuda[r]);
    }
    twin_compare_ints(&counters, 1, "step_counter");
    free(cpu);
    free(cuda);
    free(cuda_pool);
    free(logits);
}

static const struct wish wishes[] = {{0, 1, 0, 0},
                                     {1, 1, 0, 0},
                                     {0.6f, 1, 0, 0},
                                     {0.7f, 0.8f, 0, 20},
                                     {1, 0.9f, 0, 0},
                                     {1, 1, 0, 50},
                                     {1.5f, 0.95f, 0, 3000},
                                     {1, 1, 0.1f, 0},
                                     {0.6f, 0.95f, 0.01f, 40},
                                     {2, 0.5f, 0.2f, 0},
                                     {1, 1, 0, 1},
                                     {0.05f, 1, 0, 0},
                                     {1, 0.0f, 0, 0},
                                     {1, 0.3f, 0.001f, 500000}};

enum { NUM_WISHES = sizeof(wishes) / sizeof(wishes[0]) };

START_TEST(choices_agree)
{
    static const int32_t vocabs[] = {1, 2, 33, 1000, 32003};

    for (int kind = 0; kind < NUM_KINDS; kind++) {
        for (size_t i = 0; i < sizeof(vocabs) / sizeof(vocabs[0]); i++)
            check_sample(kind, vocabs[i], 28, wishes, NUM_WISHES);
    }
}
END_TEST

START_TEST(choices_agree_at_full_size)
{
    check_sample(NORMAL, 151936, 28, wishes, NUM_WISHES);
    check_sample(PEAKED, 151936, 14, wishes, NUM_WISHES);
}
END_TEST

START_TEST(no_choice_is_reported)
{
    enum { VOCAB = 1001, ROWS = 6 };
    static const float special[ROWS] = {NAN, -INFINITY, INFINITY, NAN, 0, 0};
    float logits[ROWS * VOCAB], temperature[ROWS] = {0, 0, 0, 1, 1, 0}, one[ROWS], zero[ROWS] = {0};
    int32_t ids[ROWS], none[ROWS] = {0}, counter = 0;
    uint64_t seed[ROWS] = {1, 2, 3, 4, 5, 6};

    for (int r = 0; r < ROWS; r++) {
        ids[r] = r;
        one[r] = 1;
        for (int i = 0; i < VOCAB; i++)
            logits[r * VOCAB + i] = r == 1 ? -INFINITY : rig_normal();
        if (r < 4)
            logits[r * VOCAB + 700] = special[r];
    }
    struct twin all = twin_of(logits, sizeof(logits)), pool = twin_poisoned(ROWS * 4);
    struct twin results = twin_poisoned(ROWS * 4), counters = twin_ints(&counter, 1);
    struct twin t = twin_of(temperature, sizeof(temperature)), ones = twin_of(one, sizeof(one));
    struct twin zeros = twin_of(zero, sizeof(zero)), nones = twin_ints(none, ROWS);
    struct twin rows = twin_ints(ids, ROWS), seeds = twin_of(seed, sizeof(seed));
    struct twin workspace = twin_poisoned(1 << 20);
    for (int s = 0; s < RIG_NUM; s++) {
        const struct sample_args args = {.logits = all.at[s],
                                         .num_rows = ROWS,
                                         .vocab_size = VOCAB,
                                         .inputs = {.temperature = t.at[s],
                                                    .top_p = ones.at[s],
                                                    .min_p = zeros.at[s],
                                                    .top_k = nones.at[s],
                                                    .sample_table_idx = rows.at[s],
                                                    .sample_pos = nones.at[s],
                                                    .seed = seeds.at[s],
                                                    .max_rows = ROWS},
                                         .token_pool = pool.at[s],
                                         .token_pool_stride = 1,
                                         .results = results.at[s],
                                         .step_counter = counters.at[s],
                                         .workspace = workspace.at[s]};
        rig_ok(rig[s].backend.kernels->sample(rig[s].stream, &args));
    }
    twin_compare_ints(&results, ROWS, "results");
    twin_compare_ints(&pool, ROWS, "token_pool");
}
END_TEST

RIG_MAIN("sample", choices_agree, choices_agree_at_full_size, no_choice_is_reported)
