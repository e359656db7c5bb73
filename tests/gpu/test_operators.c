/*
 * test_operators.c - the small operators of a step: step_begin, embed, rmsnorm, rope_kv.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/rig.h"

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};

enum { NUM_DTYPES = 2 };

START_TEST(rmsnorm_agrees)
{
    static const int32_t sizes[] = {1, 7, 64, 96, 576, 1024, 4096, 5120, 8200, 40000};
    static const int32_t rows[] = {0, 1, 3, 17};

    for (int d = 0; d < NUM_DTYPES; d++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            for (size_t j = 0; j < sizeof(rows) / sizeof(rows[0]); j++) {
                size_t n = (size_t)sizes[i] * (size_t)rows[j], size = n * dtype_size(dtypes[d]);
                struct twin x = twin_random(dtypes[d], n, 3), y = twin_poisoned(size);
                struct twin weight = twin_random(dtypes[d], (size_t)sizes[i], 1);

                for (int s = 0; s < RIG_NUM; s++) {
                    const struct rmsnorm_args args = {.dtype = dtypes[d],
                                                      .y = y.at[s],
                                                      .x = x.at[s],
                                                      .weight = weight.at[s],
                                                      .num_rows = rows[j],
                                                      .hidden_size = sizes[i],
                                                      .eps = 1e-6f};
                    rig_ok(rig[s].backend.kernels->rmsnorm(rig[s].stream, &args));
                }
                twin_compare(&y, dtypes[d], n, rig_tolerance(dtypes[d]), "rmsnorm");
            }
        }
    }
}
END_TEST

START_TEST(rmsnorm_picks_last_tokens)
{
    static const int32_t last_of[] = {0, 3, 4, 11};
    enum { HIDDEN = 1024, ROWS = 3, TOKENS = 11 };

    for (int d = 0; d < NUM_DTYPES; d++) {
        struct twin x = twin_random(dtypes[d], TOKENS * HIDDEN, 1);
        struct twin y = twin_poisoned(ROWS * HIDDEN * dtype_size(dtypes[d]));
        struct twin weight = twin_random(dtypes[d], HIDDEN, 1), last = twin_ints(last_of, 4);

        for (int s = 0; s < RIG_NUM; s++) {
            const struct rmsnorm_args args = {.dtype = dtypes[d],
                                              .y = y.at[s],
                                              .x = x.at[s],
                                              .weight = weight.at[s],
                                              .last_of = last.at[s],
                                              .num_rows = ROWS,
                                              .hidden_size = HIDDEN,
                                              .eps = 1e-5f};
            rig_ok(rig[s].backend.kernels->rmsnorm(rig[s].stream, &args));
        }
        twin_compare(&y, dtypes[d], ROWS * HIDDEN, rig_tolerance(dtypes[d]), "rmsnorm");
    }
}
END_TEST

START_TEST(embed_agrees)
{
    enum { VOCAB = 300, ROWS = 5, STRIDE = 40, TOKENS = 33 };
    static const int32_t sizes[] = {6, 64, 1024, 1030};
    int32_t pool[ROWS * STRIDE], rows[TOKENS], positions[TOKENS];

    for (int i = 0; i < ROWS * STRIDE; i++)
        pool[i] = rig_below(VOCAB);
    for (int t = 0; t < TOKENS; t++) {
        rows[t] = rig_below(ROWS);
        positions[t] = rig_below(STRIDE);
    }
    for (int d = 0; d < NUM_DTYPES; d++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            size_t n = (size_t)sizes[i] * TOKENS;
            struct twin weight = twin_random(dtypes[d], (size_t)sizes[i] * VOCAB, 1);
            struct twin y = twin_poisoned(n * dtype_size(dtypes[d]));
            struct twin pools = twin_ints(pool, ROWS * STRIDE);
            struct twin table_idx = twin_ints(rows, TOKENS), at = twin_ints(positions, TOKENS);

            for (int s = 0; s < RIG_NUM; s++) {
                const struct embed_args args = {.dtype = dtypes[d],
                                                .y = y.at[s],
                                                .weight = weight.at[s],
                                                .token_pool = pools.at[s],
                                                .token_pool_stride = STRIDE,
                                                .token_table_idx = table_idx.at[s],
                                                .positions = at.at[s],
                                                .num_tokens = TOKENS,
                                                .hidden_size = sizes[i],
                                                .vocab_size = VOCAB};
                rig_ok(rig[s].backend.kernels->embed(rig[s].stream, &args));
            }
            twin_compare(&y, dtypes[d], n, 0, "embed");
        }
    }
}
END_TEST

static void check_rope_kv(enum dtype dtype, int32_t head_dim, int32_t num_qo, int32_t num_kv,
                          int32_t tokens, bool with_norm)
{
    enum { MAX_POSITION = 50, SLOTS = 80 };
    size_t row = (size_t)((num_qo + 2 * num_kv) * head_dim), dim = (size_t)head_dim;
    size_t cache_len = SLOTS * (size_t)num_kv * dim;
    int32_t positions[64], out_loc[64];
    struct twin qkv = twin_random(dtype, (size_t)tokens * row, 2);
    struct twin q_norm = twin_random(dtype, dim, 1), k_norm = twin_random(dtype, dim, 1);
    struct twin cos_sin = twin_uniform(DTYPE_F32, MAX_POSITION * dim, -1, 1);
    struct twin k = twin_random(dtype, cache_len, 1), v = twin_random(dtype, cache_len, 1);

    for (int32_t t = 0; t < tokens; t++) {
        positions[t] = rig_below(MAX_POSITION);
        out_loc[t] = (t * 7 + 3) % SLOTS;
    }
    struct twin at = twin_ints(positions, (size_t)tokens), loc = twin_ints(out_loc, (size_t)tokens);
    for (int s = 0; s < RIG_NUM; s++) {
        const struct rope_kv_args args = {.dtype = dtype,
                                          .qkv = qkv.at[s],
                                          .q_norm = with_norm ? q_norm.at[s] : NULL,
                                          .k_norm = with_norm ? k_norm.at[s] : NULL,
                                          .cos_sin = cos_sin.at[s],
                                          .positions = at.at[s],
                                          .out_loc = loc.at[s],
                                          .k_cache = k.at[s],
                                          .v_cache = v.at[s],
                                          .num_tokens = tokens,
                                          .num_qo_heads = num_qo,
                                          .num_kv_heads = num_kv,
                                          .head_dim = head_dim,
                                          .eps = 1e-6f};
        rig_ok(rig[s].backend.kernels->rope_kv(rig[s].stream, &args));
    }
    twin_compare(&qkv, dtype, (size_t)tokens * row, rig_tolerance(dtype), "rope_kv: qkv");
    twin_compare(&k, dtype, cache_len, rig_tolerance(dtype), "rope_kv: k cache");
    twin_compare(&v, dtype, cache_len, 0, "rope_kv: v cache");
}

START_TEST(rope_kv_agrees)
{
    static const int32_t dims[] = {2, 8, 10, 64, 80, 96, 128, 256};

    for (int d = 0; d < NUM_DTYPES; d++) {
        for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
            for (int norm = 0; norm < 2; norm++) {
                check_rope_kv(dtypes[d], dims[i], 4, 2, 1, norm);
                check_rope_kv(dtypes[d], dims[i], 3, 1, 37, norm);
            }
        }
        check_rope_kv(dtypes[d], 128, 16, 8, 11, true);
        check_rope_kv(dtypes[d], 128, 16, 8, 0, true);
    }
}
END_TEST

START_TEST(step_begin_scatters)
{
    enum { TOKENS = 13, ROWS = 3, TABLE_ROWS = 4, PAGES = 8, POOL = 32, SLOT = 4096, SLOTS = 4 };
    static const int32_t lens[STEP_NUM_SECTIONS] = {[STEP_TOKEN_SPANS] = 8,
                                                    [STEP_PAGE_SPANS] = 4,
                                                    [STEP_VALUES] = 20,
                                                    [STEP_TOKEN_TABLE_IDX] = TOKENS,
                                                    [STEP_POSITIONS] = TOKENS,
                                                    [STEP_OUT_LOC] = TOKENS,
                                                    [STEP_CU_SEQLENS_Q] = ROWS + 1,
                                                    [STEP_KV_LENS] = ROWS,
                                                    [STEP_ROW_TABLE_IDX] = ROWS,
                                                    [STEP_SAMPLE_TABLE_IDX] = ROWS,
                                                    [STEP_SAMPLE_POS] = ROWS,
                                                    [STEP_TEMPERATURE] = ROWS,
                                                    [STEP_TOP_P] = ROWS,
                                                    [STEP_MIN_P] = ROWS,
                                                    [STEP_TOP_K] = ROWS,
                                                    [STEP_SEED] = 2 * ROWS};
    static const int32_t spans[] = {1, 4, 9, 0, 3, 0, 5, 9, 2, 1, 6, 14};
    static int32_t staging[SLOTS * SLOT / 4];
    int32_t *block = staging + SLOT / 4; /* slot 1: counter 5 of 4 slots */
    struct step_block_header header = {.num_tokens = TOKENS,
                                       .num_rows = ROWS,
                                       .num_token_spans = 2,
                                       .num_page_spans = 1,
                                       .num_values = 20};
    int32_t at = (int32_t)(sizeof(header) / 4 + 3) / 4 * 4, counter = 5;

    for (int i = 0; i < STEP_NUM_SECTIONS; i++) {
        header.offset[i] = at;
        for (int32_t j = 0; j < lens[i]; j++)
            block[at + j] = rig_below(1000000);
        at += (lens[i] + 3) / 4 * 4;
    }
    header.size = at;
    memcpy(block, &header, sizeof(header));
    memcpy(block + header.offset[STEP_TOKEN_SPANS], spans, 32);
    memcpy(block + header.offset[STEP_PAGE_SPANS], spans + 8, 16);

    struct twin stagings = twin_of(staging, sizeof(staging)), counters = twin_ints(&counter, 1);
    struct twin table = twin_poisoned(TABLE_ROWS * PAGES * 4);
    struct twin pool = twin_poisoned(TABLE_ROWS * POOL * 4);
    struct twin inputs = twin_poisoned(16 * 64 * 4);
    for (int s = 0; s < RIG_NUM; s++) {
        int32_t *base = inputs.at[s];
        const struct step_begin_args args = {
            .staging = stagings.at[s],
            .slot_size = SLOT,
            .num_slots = SLOTS,
            .step_counter = counters.at[s],
            .page_table = table.at[s],
            .token_pool = pool.at[s],
            .page_table_stride = PAGES,
            .token_pool_stride = POOL,
            .inputs = {.token_table_idx = base,
                       .positions = base + 64,
                       .out_loc = base + 128,
                       .cu_seqlens_q = base + 192,
                       .kv_lens = base + 256,
                       .row_table_idx = base + 320,
                       .sample_table_idx = base + 384,
                       .sample_pos = base + 448,
                       .temperature = (float *)(void *)(base + 512),
                       .top_p = (float *)(void *)(base + 576),
                       .min_p = (float *)(void *)(base + 640),
                       .top_k = base + 704,
                       .seed = (uint64_t *)(void *)(base + 768),
                       .max_tokens = 64,
                       .max_rows = 32}};
        rig_ok(rig[s].backend.kernels->step_begin(rig[s].stream, &args));
    }
    twin_compare_ints(&table, TABLE_ROWS * PAGES, "page_table");
    twin_compare_ints(&pool, TABLE_ROWS * POOL, "token_pool");
    twin_compare_ints(&inputs, 16 * 64, "inputs");
}
END_TEST

/* What a launch would refuse is told before anything is loaded. */
START_TEST(limits_are_told_by_name)
{
    const struct ops_limits good = {.dtype = DTYPE_BF16,
                                    .max_tokens = 8192 + 256,
                                    .max_rows = 256,
                                    .max_kv_len = 4096,
                                    .hidden_size = 2048,
                                    .num_qo_heads = 16,
                                    .num_kv_heads = 2,
                                    .head_dim = 128,
                                    .vocab_size = 1000};
    struct ops_limits wide = good, many = good, stretched = good;

    wide.head_dim = 320;
    many.num_experts = 2000;
    stretched.max_tokens = 1 << 20;
    for (int s = 0; s < RIG_NUM; s++) {
        const struct kernels *kernels = rig[s].backend.kernels;
        rig_ok(kernels->check(&good));
        ck_assert_ptr_nonnull(strstr(kernels->check(&wide).msg, "head_dim"));
    }
    const struct kernels *cuda = rig[RIG_CUDA].backend.kernels;
    ck_assert_ptr_nonnull(strstr(cuda->check(&many).msg, "num_experts"));
    ck_assert_ptr_nonnull(strstr(cuda->check(&stretched).msg, "max-prefill-length"));
}
END_TEST

RIG_MAIN("operators", rmsnorm_agrees, rmsnorm_picks_last_tokens, embed_agrees, rope_kv_agrees,
         step_begin_scatters, limits_are_told_by_name)
