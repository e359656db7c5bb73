/*
 * step_block.h - the one packed block that a step uploads, and the fixed inputs that it is
 * scattered into.
 *
 * The host packs a block into a pinned slot; one copy on the scheduler's stream brings it to the
 * same slot of the staging ring on the device; step_begin, the first operation of the step on the
 * engine's stream, scatters it into page_table, token_pool and struct step_inputs, which all later
 * operators of the step read.
 *
 * A block is an array of int32: the header, then sections one behind the other, each at the offset
 * (in int32 from the start of the block, a multiple of 4) that the header names.
 */
#ifndef KERNELS_STEP_BLOCK_H
#define KERNELS_STEP_BLOCK_H

#include <stddef.h>
#include <stdint.h>

/* Sections in the order of the block. T tokens, R rows, both with padding. */
enum step_section {
    STEP_TOKEN_SPANS,      /* [num_token_spans] of struct step_span: prompt tokens for token_pool */
    STEP_PAGE_SPANS,       /* [num_page_spans] of struct step_span: pages for page_table */
    STEP_VALUES,           /* [num_values]: what the spans point at */
    STEP_TOKEN_TABLE_IDX,  /* [T]: the row of page_table and token_pool of each token */
    STEP_POSITIONS,        /* [T] */
    STEP_OUT_LOC,          /* [T]: slots that K and V go to */
    STEP_CU_SEQLENS_Q,     /* [R + 1] */
    STEP_KV_LENS,          /* [R]: start + extend_len */
    STEP_ROW_TABLE_IDX,    /* [R] */
    STEP_SAMPLE_TABLE_IDX, /* [R]: row of token_pool that the sampled token goes to; the dummy row
                              if it does not sample */
    STEP_SAMPLE_POS,       /* [R]: and its position there; also the counter of the random numbers */
    STEP_TEMPERATURE,      /* [R] float; 0: greedy */
    STEP_TOP_P,            /* [R] float; 1: off */
    STEP_MIN_P,            /* [R] float; 0: off */
    STEP_TOP_K,            /* [R]; 0: off */
    STEP_SEED,             /* [2 R]: low and high half of each seed, side by side */
    STEP_NUM_SECTIONS,
};

struct step_span {
    int32_t table_idx;
    int32_t start; /* position (token spans) or page index within the row (page spans) */
    int32_t len;
    int32_t value; /* offset into STEP_VALUES */
};

struct step_block_header {
    int32_t num_tokens; /* T, with padding tokens */
    int32_t num_rows;   /* R, with padding rows */
    int32_t num_token_spans, num_page_spans, num_values;
    int32_t size; /* of the block, in int32 */
    int32_t reserved[2];
    int32_t offset[STEP_NUM_SECTIONS];
};

/* Where each section lands, at fixed places on the device, so that a graph can be captured over
 * them. */
struct step_inputs {
    int32_t *token_table_idx, *positions, *out_loc;                   /* [max_tokens] */
    int32_t *cu_seqlens_q;                                            /* [max_rows + 1] */
    int32_t *kv_lens, *row_table_idx, *sample_table_idx, *sample_pos; /* [max_rows] */
    float *temperature, *top_p, *min_p;                               /* [max_rows] */
    int32_t *top_k;                                                   /* [max_rows] */
    uint64_t *seed;                                                   /* [max_rows] */
    int32_t max_tokens, max_rows;
};

#endif
