/* step_pack.c - see step_pack.h. */
#include "scheduler_proc/step_pack.h"

#include <assert.h>
#include <string.h>

enum { SPAN_WORDS = sizeof(struct step_span) / sizeof(int32_t) };

/* Words (int32) of each section. */
static void section_words(const struct step_block_header *header, int32_t *out)
{
    int32_t tokens = header->num_tokens, rows = header->num_rows;

    for (int i = 0; i < STEP_NUM_SECTIONS; i++)
        out[i] = rows;
    out[STEP_TOKEN_SPANS] = header->num_token_spans * SPAN_WORDS;
    out[STEP_PAGE_SPANS] = header->num_page_spans * SPAN_WORDS;
    out[STEP_VALUES] = header->num_values;
    out[STEP_TOKEN_TABLE_IDX] = out[STEP_POSITIONS] = out[STEP_OUT_LOC] = tokens;
    out[STEP_CU_SEQLENS_Q] = rows + 1;
    out[STEP_SEED] = 2 * rows;
}

static int32_t align4(int32_t words)
{
    return (words + 3) / 4 * 4;
}

/* Sets the offsets and the size from the counts. */
static void lay_out(struct step_block_header *header)
{
    int32_t words[STEP_NUM_SECTIONS];
    int32_t at = align4(sizeof(*header) / sizeof(int32_t));

    section_words(header, words);
    for (int i = 0; i < STEP_NUM_SECTIONS; i++) {
        header->offset[i] = at;
        at += align4(words[i]);
    }
    header->size = at;
}

size_t step_block_max_bytes(const struct batch_limits *limits, int32_t num_tokens, int32_t num_rows)
{
    struct step_block_header header = {.num_tokens = num_tokens,
                                       .num_rows = num_rows,
                                       .num_token_spans = limits->max_token_spans,
                                       .num_page_spans = limits->max_page_spans,
                                       .num_values = limits->max_values};

    lay_out(&header);
    return ((size_t)header.size * sizeof(int32_t) + 255) / 256 * 256;
}

/* The sections of one block, by their types. */
struct sections {
    int32_t *token_table_idx, *positions, *out_loc;
    int32_t *cu_seqlens_q, *kv_lens, *row_table_idx, *sample_table_idx, *sample_pos, *top_k;
    float *temperature, *top_p, *min_p;
    int32_t *seed;
};

static struct sections find_sections(void *block, const struct step_block_header *header)
{
    int32_t *words = block;
    const int32_t *offset = header->offset;

    return (struct sections){
        .token_table_idx = words + offset[STEP_TOKEN_TABLE_IDX],
        .positions = words + offset[STEP_POSITIONS],
        .out_loc = words + offset[STEP_OUT_LOC],
        .cu_seqlens_q = words + offset[STEP_CU_SEQLENS_Q],
        .kv_lens = words + offset[STEP_KV_LENS],
        .row_table_idx = words + offset[STEP_ROW_TABLE_IDX],
        .sample_table_idx = words + offset[STEP_SAMPLE_TABLE_IDX],
        .sample_pos = words + offset[STEP_SAMPLE_POS],
        .top_k = words + offset[STEP_TOP_K],
        .temperature = (float *)(words + offset[STEP_TEMPERATURE]),
        .top_p = (float *)(words + offset[STEP_TOP_P]),
        .min_p = (float *)(words + offset[STEP_MIN_P]),
        .seed = words + offset[STEP_SEED],
    };
}

static void put_row(struct sections *out, int32_t r, int32_t begin, const struct batch_row *row,
                    int32_t dummy_row)
{
    int32_t end = row->start + row->extend_len;

    for (int32_t i = 0; i < row->extend_len; i++)
        out->token_table_idx[begin + i] = row->table_idx;
    out->cu_seqlens_q[r] = begin;
    out->kv_lens[r] = end;
    out->row_table_idx[r] = row->table_idx;
    out->sample_table_idx[r] = row->samples ? row->table_idx : dummy_row;
    out->sample_pos[r] = row->samples ? end : 0;
    out->temperature[r] = row->samples ? row->temperature : 0;
    out->top_p[r] = row->top_p;
    out->min_p[r] = row->min_p;
    out->top_k[r] = row->top_k;
    out->seed[2 * r] = (int32_t)(uint32_t)row->seed;
    out->seed[2 * r + 1] = (int32_t)(uint32_t)(row->seed >> 32);
}

/*
 * Rows of one token each while there are tokens, then empty ones; returns the end of the rows.
 * Tokens that are left belong to no row. None of them reads or writes what a request has.
 */
static int32_t put_padding(struct sections *out, const struct batch *batch,
                           const struct step_padding *padding)
{
    int32_t begin = batch->num_tokens;

    for (int32_t t = begin; t < padding->num_tokens; t++) {
        out->token_table_idx[t] = padding->dummy_row;
        out->positions[t] = 0;
        out->out_loc[t] = padding->dummy_slot + t % padding->page_size;
    }
    for (int32_t r = batch->num_rows; r < padding->num_rows; r++) {
        struct batch_row row = {
            .table_idx = padding->dummy_row, .extend_len = begin < padding->num_tokens, .top_p = 1};
        put_row(out, r, begin, &row, padding->dummy_row);
        begin += row.extend_len;
    }
    return begin;
}

size_t step_pack(void *block, const struct batch *batch, const struct step_padding *padding)
{
    struct step_block_header *header = block;
    int32_t *words = block;
    int32_t begin = 0;

    assert(padding->num_tokens >= batch->num_tokens && padding->num_rows >= batch->num_rows);
    *header = (struct step_block_header){.num_tokens = padding->num_tokens,
                                         .num_rows = padding->num_rows,
                                         .num_token_spans = batch->num_token_spans,
                                         .num_page_spans = batch->num_page_spans,
                                         .num_values = batch->num_values};
    lay_out(header);
    if (batch->num_token_spans)
        memcpy(words + header->offset[STEP_TOKEN_SPANS], batch->token_spans,
               (size_t)batch->num_token_spans * sizeof(struct step_span));
    if (batch->num_page_spans)
        memcpy(words + header->offset[STEP_PAGE_SPANS], batch->page_spans,
               (size_t)batch->num_page_spans * sizeof(struct step_span));
    if (batch->num_values)
        memcpy(words + header->offset[STEP_VALUES], batch->values,
               (size_t)batch->num_values * sizeof(int32_t));
    struct sections out = find_sections(block, header);
    if (batch->num_tokens) {
        memcpy(out.positions, batch->positions, (size_t)batch->num_tokens * sizeof(int32_t));
        memcpy(out.out_loc, batch->out_loc, (size_t)batch->num_tokens * sizeof(int32_t));
    }
    for (int32_t r = 0; r < batch->num_rows; r++) {
        put_row(&out, r, begin, &batch->rows[r], padding->dummy_row);
        begin += batch->rows[r].extend_len;
    }
    assert(begin == batch->num_tokens);
    out.cu_seqlens_q[padding->num_rows] = put_padding(&out, batch, padding);
    return (size_t)header->size * sizeof(int32_t);
}
