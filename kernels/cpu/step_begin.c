/* step_begin.c - the step's block is scattered: spans to the tables, the rest to the inputs. */
#include <assert.h>
#include <string.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops.h"

static void write_spans(const struct step_span *spans, int32_t num_spans, const int32_t *values,
                        int32_t *table, int32_t stride)
{
    for (int32_t i = 0; i < num_spans; i++) {
        size_t start = (size_t)spans[i].table_idx * (size_t)stride + (size_t)spans[i].start;
        memcpy(table + start, values + spans[i].value, (size_t)spans[i].len * sizeof(*table));
    }
}

void cpu_step_begin(struct stream *stream, const void *args)
{
    const struct step_begin_args *a = args;
    const struct step_inputs *inputs = &a->inputs;
    size_t slot = *a->step_counter % a->num_slots;
    const int32_t *block = (const void *)((const char *)a->staging + slot * a->slot_size);
    const struct step_block_header *header = (const void *)block;
    const int32_t *values = block + header->offset[STEP_VALUES];
    size_t num_tokens = (size_t)header->num_tokens, num_rows = (size_t)header->num_rows;

    (void)stream;
    assert((a->num_slots & (a->num_slots - 1)) == 0);
    assert(header->num_tokens <= inputs->max_tokens && header->num_rows <= inputs->max_rows);
    write_spans((const void *)(block + header->offset[STEP_TOKEN_SPANS]), header->num_token_spans,
                values, a->token_pool, a->token_pool_stride);
    write_spans((const void *)(block + header->offset[STEP_PAGE_SPANS]), header->num_page_spans,
                values, a->page_table, a->page_table_stride);
    const struct {
        enum step_section section;
        void *dst;
        size_t size;
    } copies[] = {
        {STEP_TOKEN_TABLE_IDX, inputs->token_table_idx, num_tokens * 4},
        {STEP_POSITIONS, inputs->positions, num_tokens * 4},
        {STEP_OUT_LOC, inputs->out_loc, num_tokens * 4},
        {STEP_CU_SEQLENS_Q, inputs->cu_seqlens_q, (num_rows + 1) * 4},
        {STEP_KV_LENS, inputs->kv_lens, num_rows * 4},
        {STEP_ROW_TABLE_IDX, inputs->row_table_idx, num_rows * 4},
        {STEP_SAMPLE_TABLE_IDX, inputs->sample_table_idx, num_rows * 4},
        {STEP_SAMPLE_POS, inputs->sample_pos, num_rows * 4},
        {STEP_TEMPERATURE, inputs->temperature, num_rows * 4},
        {STEP_TOP_P, inputs->top_p, num_rows * 4},
        {STEP_MIN_P, inputs->min_p, num_rows * 4},
        {STEP_TOP_K, inputs->top_k, num_rows * 4},
        {STEP_SEED, inputs->seed, num_rows * 8},
    };
    for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
        memcpy(copies[i].dst, block + header->offset[copies[i].section], copies[i].size);
}
