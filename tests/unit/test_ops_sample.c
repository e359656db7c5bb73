/* test_ops_sample.c - the choice of tokens, against the definition worked out here by sorting. */
#include "tests/unit/ops_fixture.h"

/* How one row samples. */
struct params {
    float temperature, top_p, min_p;
    int32_t top_k;
    uint64_t seed;
    int32_t pos;
};

enum { MAX_ROWS = 64, TABLE_ROWS = MAX_ROWS + 1, POOL_STRIDE = 100 };

struct sampling {
    float temperature[MAX_ROWS], top_p[MAX_ROWS], min_p[MAX_ROWS];
    int32_t top_k[MAX_ROWS], table_idx[MAX_ROWS], pos[MAX_ROWS];
    uint64_t seed[MAX_ROWS];
    int32_t token_pool[TABLE_ROWS * POOL_STRIDE];
    int32_t results[MAX_ROWS];
    uint32_t step_counter;
};

static void sample(const struct ops *ops, const float *logits, int32_t vocab_size,
                   const struct params *params, int32_t num_rows, struct sampling *s)
{
    struct ops_limits limits = {.dtype = DTYPE_F32,
                                .max_tokens = num_rows,
                                .max_rows = num_rows,
                                .max_kv_len = 1,
                                .hidden_size = 1,
                                .num_qo_heads = 1,
                                .num_kv_heads = 1,
                                .head_dim = 1,
                                .vocab_size = vocab_size};
    void *workspace = ops_alloc(ops->kernels->workspace_size(ops->device, &limits));

    memset(s, 0xFF, sizeof(*s));
    s->step_counter = INT32_MAX;
    for (int32_t i = 0; i < num_rows; i++) {
        s->temperature[i] = params[i].temperature;
        s->top_p[i] = params[i].top_p;
        s->min_p[i] = params[i].min_p;
        s->top_k[i] = params[i].top_k;
        s->seed[i] = params[i].seed;
        s->pos[i] = params[i].pos;
        s->table_idx[i] = TABLE_ROWS - 1 - i;
    }
    struct sample_args args = {.logits = logits,
                               .num_rows = num_rows,
                               .vocab_size = vocab_size,
                               .inputs = {.sample_table_idx = s->table_idx,
                                          .sample_pos = s->pos,
                                          .temperature = s->temperature,
                                          .top_p = s->top_p,
                                          .min_p = s->min_p,
                                          .top_k = s->top_k,
                                          .seed = s->seed,
                                          .max_tokens = MAX_ROWS,
                                          .max_rows = MAX_ROWS},
                               .token_pool = s->token_pool,
                               .token_pool_stride = POOL_STRIDE,
                               .results = s->results,
                               .step_counter = &s->step_counter,
                               .workspace = workspace};
    ops_finish(ops, ops->kernels->sample(ops->stream, &args));
    free(workspace);
    ck_assert_uint_eq(s->step_counter, (uint32_t)INT32_MAX + 1);
    for (int32_t i = 0; i < num_rows; i++) {
        int32_t written = s->token_pool[s->table_idx[i] * POOL_STRIDE + s->pos[i]];
        ck_assert_int_eq(written, s->results[i] == RESULT_NAN ? 0 : s->results[i]);
    }
}

static int32_t sample_one(const struct ops *ops, const float *logits, int32_t vocab_size,
                          struct params params)
{
    struct sampling s;

    sample(ops, logits, vocab_size, &params, 1, &s);
    return s.results[0];
}

struct entry {
    float logit;
    int32_t id;
    double p;
};

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    if (a->logit > b->logit || a->logit < b->logit)
        return a->logit > b->logit ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int compare_ids(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    return (a->id > b->id) - (a->id < b->id);
}

/*
 * The definition in float64. Where u or top_p falls within 1e-5 of a boundary between two tokens
 * both are right: out_other is the neighbour, or equal to the result.
 */
static int32_t expect(const float *logits, int32_t vocab_size, struct params params,
                      int32_t *out_other)
{
    struct entry *entries = ops_alloc((size_t)vocab_size * sizeof(*entries));
    int32_t n = vocab_size;
    double sum = 0, running = 0;
    bool is_unfiltered =
        (params.top_k <= 0 || params.top_k >= vocab_size) && params.top_p >= 1 && params.min_p <= 0;

    for (int32_t i = 0; i < n; i++)
        entries[i] = (struct entry){.logit = logits[i], .id = i};
    qsort(entries, (size_t)n, sizeof(*entries), compare_entries);
    for (int32_t i = n - 1; i >= 0; i--)
        entries[i].p =
            exp(((double)entries[i].logit - (double)entries[0].logit) / (double)params.temperature);
    if (is_unfiltered)
        qsort(entries, (size_t)n, sizeof(*entries), compare_ids);
    if (params.top_k > 0 && params.top_k < n)
        n = params.top_k;
    for (int32_t i = 0; i < n; i++)
        sum += entries[i].p;
    for (int32_t i = 0; i < n; i++) {
        running += entries[i].p;
        if (running >= (double)params.top_p * sum)
            n = i + 1;
    }
    while (n > 1 && entries[n - 1].p < (double)params.min_p)
        n--;
    sum = running = 0;
    for (int32_t i = 0; i < n; i++)
        sum += entries[i].p;
    double target = (double)sample_uniform(params.seed, params.pos) * sum;
    int32_t index = 0;
    for (running = entries[0].p;
         (is_unfiltered ? running <= target : running < target) && index < n - 1;)
        running += entries[++index].p;
    *out_other = entries[index].id;
    if (running - target < 1e-5 * sum && index + 1 < n)
        *out_other = entries[index + 1].id;
    if (target - (running - entries[index].p) < 1e-5 * sum && index > 0)
        *out_other = entries[index - 1].id;
    int32_t id = entries[index].id;
    free(entries);
    return id;
}

START_TEST(greedy_takes_the_lowest_of_the_largest)
{
    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        struct ops ops;
        if (!ops_open(&ops, ops_sets[set], 2))
            continue;
        for (int32_t vocab_size = 1; vocab_size < 100; vocab_size += 7) {
            for (int32_t best = 0; best < vocab_size; best++) {
                float *logits = ops_array(DTYPE_F32, (size_t)vocab_size, 1, 1);
                logits[best] = 2;
                logits[vocab_size - 1] = 2;
                ck_assert_int_eq(sample_one(&ops, logits, vocab_size, (struct params){0}), best);
                struct params one = {.temperature = 1, .top_k = 1, .top_p = 1};
                ck_assert_int_eq(sample_one(&ops, logits, vocab_size, one), best);
                free(logits);
            }
        }
        float zeros[2] = {-0.0f, 0.0f};
        ck_assert_int_eq(sample_one(&ops, zeros, 2, (struct params){0}), 0);
        ops_close(&ops);
    }
}
END_TEST

START_TEST(what_is_no_number_is_reported)
{
    enum { VOCAB_SIZE = 70 };

    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        struct ops ops;
        if (!ops_open(&ops, ops_sets[set], 1))
            continue;
        for (int32_t temperature = 0; temperature < 2; temperature++) {
            struct params params = {.temperature = (float)temperature, .top_p = 1, .pos = 3};
            float logits[VOCAB_SIZE] = {0};
            for (int32_t i = 0; i < VOCAB_SIZE; i++) {
                logits[i] = NAN;
                ck_assert_int_eq(sample_one(&ops, logits, VOCAB_SIZE, params), RESULT_NAN);
                logits[i] = 0;
            }
            for (int32_t i = 0; i < VOCAB_SIZE; i++)
                logits[i] = -INFINITY;
            ck_assert_int_eq(sample_one(&ops, logits, VOCAB_SIZE, params), RESULT_NAN);
            logits[5] = -1; /* the only finite one */
            ck_assert_int_eq(sample_one(&ops, logits, VOCAB_SIZE, params), 5);
            logits[69] = INFINITY;
            ck_assert_int_eq(sample_one(&ops, logits, VOCAB_SIZE, params), 69);
        }
        ops_close(&ops);
    }
}
END_TEST

static struct params random_params(uint64_t *state)
{
    static const float temperatures[] = {0.7f, 1, 0.01f, 3, 100, 1e-6f};
    static const float top_ps[] = {1, 0.9f, 0.5f, 0.01f, 0, 0.999f};
    static const float min_ps[] = {0, 0, 0.1f, 0.001f, 1};
    static const int32_t top_ks[] = {0, 0, 2, 40, 1000, 1 << 30};
    uint64_t draw = sample_mix(*state += 0x9E3779B97F4A7C15u);

    return (struct params){.temperature = temperatures[draw % 6],
                           .top_p = top_ps[draw / 6 % 6],
                           .min_p = min_ps[draw / 36 % 5],
                           .top_k = top_ks[draw / 180 % 6],
                           .seed = draw,
                           .pos = (int32_t)(draw >> 40) % POOL_STRIDE};
}

/* Rounded to sixteenths every other time, so that many are equal. */
static float *random_logits(int32_t vocab_size, uint64_t seed)
{
    float *logits = ops_array(DTYPE_F32, (size_t)vocab_size, 8, seed);

    for (int32_t i = 0; i < vocab_size && seed % 2; i++)
        logits[i] = rintf(logits[i] * 2) / 2;
    if (seed % 3 == 0) /* a few stand out */
        for (int32_t i = 0; i < vocab_size; i += 1 + vocab_size / 9)
            logits[i] += 9;
    return logits;
}

START_TEST(draws_follow_the_definition)
{
    static const int32_t vocab_sizes[] = {1, 2, 17, 300, 5000};
    uint64_t state = 1;

    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        struct ops ops;
        if (!ops_open(&ops, ops_sets[set], 2))
            continue;
        for (uint64_t i = 0; i < 400; i++) {
            int32_t vocab_size = vocab_sizes[i % 5], other = 0;
            struct params params = random_params(&state);
            float *logits = random_logits(vocab_size, i);
            int32_t got = sample_one(&ops, logits, vocab_size, params);
            int32_t want = expect(logits, vocab_size, params, &other);
            if (params.top_k != 1 && got != other)
                ck_assert_int_eq(got, want);
            free(logits);
        }
        ops_close(&ops);
    }
}
END_TEST

START_TEST(a_row_does_not_depend_on_its_company)
{
    enum { VOCAB_SIZE = 3001 };

    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        struct ops ops;
        struct params params[MAX_ROWS];
        struct sampling together;
        uint64_t state = 7;
        if (!ops_open(&ops, ops_sets[set], 3))
            continue;
        float *logits = ops_array(DTYPE_F32, (size_t)VOCAB_SIZE * MAX_ROWS, 4, 9);
        logits[12 * VOCAB_SIZE + 5] = NAN;
        for (int32_t i = 0; i < MAX_ROWS; i++) {
            params[i] = random_params(&state);
            if (i % 4 == 0)
                params[i].temperature = 0;
        }
        sample(&ops, logits, VOCAB_SIZE, params, MAX_ROWS, &together);
        ck_assert_int_eq(together.results[12], RESULT_NAN);
        for (int32_t i = 0; i < MAX_ROWS; i++)
            ck_assert_int_eq(together.results[i], sample_one(&ops, logits + (size_t)i * VOCAB_SIZE,
                                                             VOCAB_SIZE, params[i]));
        sample(&ops, logits, VOCAB_SIZE, params, 0, &together); /* no row ends a step as well */
        free(logits);
        ops_close(&ops);
    }
}
END_TEST

/* 20,000 draws from four tokens: each share within five standard deviations. */
START_TEST(draws_are_fair)
{
    enum { NUM_DRAWS = 20000 };
    const float logits[4] = {0, 1.0986123f, 0.6931472f, -INFINITY}; /* 1 : 3 : 2 : 0 */
    static const double shares[4] = {1.0 / 6, 0.5, 1.0 / 3, 0};
    int32_t counts[4] = {0};
    struct ops ops;

    ck_assert(ops_open(&ops, "plain", 1));
    for (int32_t i = 0; i < NUM_DRAWS / POOL_STRIDE; i++) {
        for (int32_t pos = 0; pos < POOL_STRIDE; pos++) {
            struct params params = {.temperature = 1, .top_p = 1, .seed = (uint64_t)i, .pos = pos};
            counts[sample_one(&ops, logits, 4, params)]++;
        }
    }
    for (int32_t i = 0; i < 4; i++) {
        double deviation = sqrt(NUM_DRAWS * shares[i] * (1 - shares[i]));
        ck_assert_double_le(fabs(counts[i] - NUM_DRAWS * shares[i]), 5 * deviation);
    }
    ops_close(&ops);
}
END_TEST

CHECK_MAIN("ops_sample", greedy_takes_the_lowest_of_the_largest, what_is_no_number_is_reported,
           draws_follow_the_definition, a_row_does_not_depend_on_its_company, draws_are_fair)
