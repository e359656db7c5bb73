/* test_ops_step_begin.c - the packed block lands where the header says, from the slot of the step.
 */
#include "tests/unit/ops_fixture.h"

enum {
    NUM_SLOTS = 4,
    SLOT_INTS = 512,
    MAX_TOKENS = 20,
    MAX_ROWS = 4,
    TABLE_ROWS = 5,
    POOL_STRIDE = 30,
    TABLE_STRIDE = 6,
};

/* Where the operator writes. */
struct target {
    int32_t page_table[TABLE_ROWS * TABLE_STRIDE], token_pool[TABLE_ROWS * POOL_STRIDE];
    int32_t token_table_idx[MAX_TOKENS], positions[MAX_TOKENS], out_loc[MAX_TOKENS];
    int32_t cu_seqlens_q[MAX_ROWS + 1];
    int32_t kv_lens[MAX_ROWS], row_table_idx[MAX_ROWS];
    int32_t sample_table_idx[MAX_ROWS], sample_pos[MAX_ROWS];
    float temperature[MAX_ROWS], top_p[MAX_ROWS], min_p[MAX_ROWS];
    int32_t top_k[MAX_ROWS];
    uint64_t seed[MAX_ROWS];
};

/* A block of which section s holds 1000 s, 1000 s + 1, ... */
static void pack(int32_t *block, int32_t num_tokens, int32_t num_rows)
{
    struct step_block_header header = {
        .num_tokens = num_tokens,
        .num_rows = num_rows,
        .num_token_spans = 2,
        .num_page_spans = 1,
        .num_values = 9,
    };
    const struct step_span token_spans[2] = {{.table_idx = 1, .start = 4, .len = 5, .value = 0},
                                             {.table_idx = 4, .start = 0, .len = 1, .value = 5}};
    const struct step_span page_span = {.table_idx = 2, .start = 3, .len = 3, .value = 6};
    int32_t at = (int32_t)(sizeof(header) / 4 + 3) / 4 * 4;

    for (int32_t s = 0; s < STEP_NUM_SECTIONS; s++) {
        header.offset[s] = at;
        for (int32_t i = 0; i < 24; i++)
            block[at + i] = 1000 * s + i;
        at += 24;
    }
    memcpy(block + header.offset[STEP_TOKEN_SPANS], token_spans, sizeof(token_spans));
    memcpy(block + header.offset[STEP_PAGE_SPANS], &page_span, sizeof(page_span));
    header.size = at;
    ck_assert_int_le(at, SLOT_INTS);
    memcpy(block, &header, sizeof(header));
}

static void check_ints(const void *data, int32_t first, int32_t num, int32_t max)
{
    const int32_t *values = data;

    for (int32_t i = 0; i < max; i++)
        ck_assert_int_eq(values[i], i < num ? first + i : -1);
}

START_TEST(a_block_is_scattered)
{
    struct ops ops;
    struct target t;
    int32_t *staging = ops_alloc(sizeof(int32_t) * NUM_SLOTS * SLOT_INTS);
    uint32_t step_counter = UINT32_MAX - 2; /* slot 1 */
    const int32_t num_tokens = 7, num_rows = 3;

    ck_assert(ops_open(&ops, "plain", 1));
    memset(&t, 0xFF, sizeof(t));
    pack(staging + SLOT_INTS, num_tokens, num_rows);
    struct step_begin_args args = {.staging = staging,
                                   .slot_size = SLOT_INTS * sizeof(int32_t),
                                   .num_slots = NUM_SLOTS,
                                   .step_counter = &step_counter,
                                   .page_table = t.page_table,
                                   .token_pool = t.token_pool,
                                   .page_table_stride = TABLE_STRIDE,
                                   .token_pool_stride = POOL_STRIDE,
                                   .inputs = {.token_table_idx = t.token_table_idx,
                                              .positions = t.positions,
                                              .out_loc = t.out_loc,
                                              .cu_seqlens_q = t.cu_seqlens_q,
                                              .kv_lens = t.kv_lens,
                                              .row_table_idx = t.row_table_idx,
                                              .sample_table_idx = t.sample_table_idx,
                                              .sample_pos = t.sample_pos,
                                              .temperature = t.temperature,
                                              .top_p = t.top_p,
                                              .min_p = t.min_p,
                                              .top_k = t.top_k,
                                              .seed = t.seed,
                                              .max_tokens = MAX_TOKENS,
                                              .max_rows = MAX_ROWS}};
    ops_finish(&ops, ops.kernels->step_begin(ops.stream, &args));
    check_ints(t.token_table_idx, 1000 * STEP_TOKEN_TABLE_IDX, num_tokens, MAX_TOKENS);
    check_ints(t.positions, 1000 * STEP_POSITIONS, num_tokens, MAX_TOKENS);
    check_ints(t.out_loc, 1000 * STEP_OUT_LOC, num_tokens, MAX_TOKENS);
    check_ints(t.cu_seqlens_q, 1000 * STEP_CU_SEQLENS_Q, num_rows + 1, MAX_ROWS + 1);
    check_ints(t.kv_lens, 1000 * STEP_KV_LENS, num_rows, MAX_ROWS);
    check_ints(t.row_table_idx, 1000 * STEP_ROW_TABLE_IDX, num_rows, MAX_ROWS);
    check_ints(t.sample_table_idx, 1000 * STEP_SAMPLE_TABLE_IDX, num_rows, MAX_ROWS);
    check_ints(t.sample_pos, 1000 * STEP_SAMPLE_POS, num_rows, MAX_ROWS);
    check_ints(t.temperature, 1000 * STEP_TEMPERATURE, num_rows, MAX_ROWS);
    check_ints(t.top_p, 1000 * STEP_TOP_P, num_rows, MAX_ROWS);
    check_ints(t.min_p, 1000 * STEP_MIN_P, num_rows, MAX_ROWS);
    check_ints(t.top_k, 1000 * STEP_TOP_K, num_rows, MAX_ROWS);
    check_ints(t.seed, 1000 * STEP_SEED, 2 * num_rows, 2 * MAX_ROWS);
    for (int32_t i = 0; i < TABLE_ROWS * POOL_STRIDE; i++) {
        int32_t row = i / POOL_STRIDE, pos = i % POOL_STRIDE, want = -1;
        if (row == 1 && pos >= 4 && pos < 9)
            want = 1000 * STEP_VALUES + pos - 4;
        if (row == 4 && pos == 0)
            want = 1000 * STEP_VALUES + 5;
        ck_assert_int_eq(t.token_pool[i], want);
    }
    for (int32_t i = 0; i < TABLE_ROWS * TABLE_STRIDE; i++) {
        int32_t page = i - (2 * TABLE_STRIDE + 3);
        ck_assert_int_eq(t.page_table[i],
                         page >= 0 && page < 3 ? 1000 * STEP_VALUES + 6 + page : -1);
    }
    ops_close(&ops);
    free(staging);
}
END_TEST

CHECK_MAIN("ops_step_begin", a_block_is_scattered)
