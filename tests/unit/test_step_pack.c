/*
 * test_step_pack.c - the packed block: where things land, padding, and that no section runs into
 * another.
 */
#include "scheduler_proc/step_pack.h"

#include <string.h>

#include "tests/unit/check_main.h"

static int32_t block[4096];

static const struct batch_row rows[] = {
    {.table_idx = 2, .start = 5, .extend_len = 3, .samples = false, .top_p = 1, .temperature = 2},
    {.table_idx = 0,
     .start = 9,
     .extend_len = 1,
     .samples = true,
     .temperature = 0.5F,
     .top_p = 0.9F,
     .top_k = 7,
     .seed = 0x123456789ABCDEF0},
};
static const int32_t positions[] = {5, 6, 7, 9}, out_loc[] = {85, 86, 87, 41};
static const struct step_span token_spans[] = {{2, 5, 3, 0}};
static const struct step_span page_spans[] = {{2, 1, 1, 3}};
static const int32_t values[] = {100, 101, 102, 21};
static const struct batch batch = {.num_rows = 2,
                                   .num_tokens = 4,
                                   .rows = rows,
                                   .positions = positions,
                                   .out_loc = out_loc,
                                   .token_spans = token_spans,
                                   .page_spans = page_spans,
                                   .num_token_spans = 1,
                                   .num_page_spans = 1,
                                   .values = values,
                                   .num_values = 4};

static const int32_t *section(enum step_section which)
{
    return block + ((const struct step_block_header *)block)->offset[which];
}

static size_t pack(int32_t num_tokens, int32_t num_rows)
{
    memset(block, 0xEE, sizeof(block));
    return step_pack(block, &batch,
                     &(struct step_padding){.num_tokens = num_tokens,
                                            .num_rows = num_rows,
                                            .dummy_row = 8,
                                            .dummy_slot = 640,
                                            .page_size = 4});
}

START_TEST(rows_land_in_their_sections)
{
    size_t size = pack(4, 2);
    const struct step_block_header *header = (const struct step_block_header *)block;
    const int32_t cu[] = {0, 3, 4}, table_idx[] = {2, 2, 2, 0};

    ck_assert_uint_eq(size, (size_t)header->size * 4);
    for (int i = 0; i < STEP_NUM_SECTIONS; i++)
        ck_assert_int_eq(header->offset[i] % 4, 0);
    ck_assert_mem_eq(section(STEP_TOKEN_SPANS), token_spans, sizeof(token_spans));
    ck_assert_mem_eq(section(STEP_PAGE_SPANS), page_spans, sizeof(page_spans));
    ck_assert_mem_eq(section(STEP_VALUES), values, sizeof(values));
    ck_assert_mem_eq(section(STEP_POSITIONS), positions, sizeof(positions));
    ck_assert_mem_eq(section(STEP_OUT_LOC), out_loc, sizeof(out_loc));
    ck_assert_mem_eq(section(STEP_TOKEN_TABLE_IDX), table_idx, sizeof(table_idx));
    ck_assert_mem_eq(section(STEP_CU_SEQLENS_Q), cu, sizeof(cu));
    ck_assert_int_eq(section(STEP_KV_LENS)[0], 8);
    ck_assert_int_eq(section(STEP_KV_LENS)[1], 10);
    ck_assert_int_eq(section(STEP_TOP_K)[1], 7);
    ck_assert_int_eq(section(STEP_SEED)[2], (int32_t)0x9ABCDEF0);
    ck_assert_int_eq(section(STEP_SEED)[3], 0x12345678);
}
END_TEST

START_TEST(what_does_not_sample_goes_to_the_dummy_row)
{
    float temperature[2];

    pack(4, 2);
    ck_assert_int_eq(section(STEP_SAMPLE_TABLE_IDX)[0], 8);
    ck_assert_int_eq(section(STEP_SAMPLE_TABLE_IDX)[1], 0);
    ck_assert_int_eq(section(STEP_SAMPLE_POS)[1], 10); /* behind its last token */
    memcpy(temperature, section(STEP_TEMPERATURE), sizeof(temperature));
    ck_assert_double_eq((double)temperature[0], 0); /* its choice is for nobody: the cheapest */
    ck_assert_double_eq((double)temperature[1], 0.5);
}
END_TEST

static void check_padding(int num_tokens, int num_rows, const int32_t *cu)
{
    pack(num_tokens, num_rows);
    ck_assert_mem_eq(section(STEP_CU_SEQLENS_Q), cu, (size_t)(num_rows + 1) * sizeof(*cu));
    for (int t = 4; t < num_tokens; t++) {
        ck_assert_int_eq(section(STEP_TOKEN_TABLE_IDX)[t], 8);
        ck_assert_int_ge(section(STEP_OUT_LOC)[t], 640);
        ck_assert_int_lt(section(STEP_OUT_LOC)[t], 644);
        ck_assert_int_eq(section(STEP_POSITIONS)[t], 0);
    }
    for (int r = 2; r < num_rows; r++) {
        ck_assert_int_eq(section(STEP_ROW_TABLE_IDX)[r], 8);
        ck_assert_int_eq(section(STEP_SAMPLE_TABLE_IDX)[r], 8);
        ck_assert_int_eq(section(STEP_KV_LENS)[r], cu[r + 1] - cu[r]);
    }
}

START_TEST(padding_touches_the_dummies_alone)
{
    check_padding(6, 4, (const int32_t[]){0, 3, 4, 5, 6});    /* a token for each row */
    check_padding(11, 4, (const int32_t[]){0, 3, 4, 5, 6});   /* the others belong to no row */
    check_padding(11, 2, (const int32_t[]){0, 3, 4});         /* nor do these */
    check_padding(5, 5, (const int32_t[]){0, 3, 4, 5, 5, 5}); /* rows without a token are empty */
    check_padding(4, 3, (const int32_t[]){0, 3, 4, 4});
}
END_TEST

START_TEST(the_bound_holds)
{
    struct batch_limits limits = {
        .max_token_spans = 1, .max_page_spans = 1, .max_values = 4, .max_rows = 2, .max_tokens = 4};

    ck_assert_uint_le(pack(4, 2), step_block_max_bytes(&limits, 4, 2));
    ck_assert_uint_le(pack(11, 4), step_block_max_bytes(&limits, 11, 4));
}
END_TEST

CHECK_MAIN("step_pack", rows_land_in_their_sections, what_does_not_sample_goes_to_the_dummy_row,
           padding_touches_the_dummies_alone, the_bound_holds)
