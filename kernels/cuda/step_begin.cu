/*
 * step_begin.cu - scatters the step's packed block: spans into page_table and token_pool, all else
 * into the fixed inputs.
 *
 * Grid: BLOCKS blocks; the arrays are copied by all threads side by side, the spans by a block
 * each in turn. The block is some kilobytes, so this is one trip to memory and back.
 */
#include "kernels/cuda/cuda_util.cuh"

enum { BLOCKS = 32, THREADS = 256 };

static __device__ void copy_section(const int32_t *block, enum step_section section, void *dst,
                                    int len)
{
    const int32_t *src = block + ((const struct step_block_header *)block)->offset[section];

    for (int i = (int)(blockIdx.x * THREADS + threadIdx.x); i < len; i += BLOCKS * THREADS)
        ((int32_t *)dst)[i] = src[i];
}

static __device__ void copy_spans(const int32_t *block, enum step_section section, int num_spans,
                                  int32_t *table, int stride)
{
    const struct step_block_header *header = (const struct step_block_header *)block;
    const struct step_span *spans = (const struct step_span *)(block + header->offset[section]);
    const int32_t *values = block + header->offset[STEP_VALUES];

    for (int s = (int)blockIdx.x; s < num_spans; s += BLOCKS) {
        struct step_span span = spans[s];
        int32_t *row = table + (size_t)span.table_idx * (size_t)stride + span.start;

        for (int i = (int)threadIdx.x; i < span.len; i += THREADS)
            row[i] = values[span.value + i];
    }
}

static __global__ void __launch_bounds__(THREADS) step_begin_kernel(struct step_begin_args a)
{
    const struct step_inputs *in = &a.inputs;
    const struct step_block_header *header;
    const int32_t *block;
    int tokens, rows;

    pdl_wait();
    pdl_launch();
    block = (const int32_t *)((const char *)a.staging +
                              (size_t)(*a.step_counter % a.num_slots) * a.slot_size);
    header = (const struct step_block_header *)block;
    tokens = header->num_tokens;
    rows = header->num_rows;
    copy_spans(block, STEP_TOKEN_SPANS, header->num_token_spans, a.token_pool, a.token_pool_stride);
    copy_spans(block, STEP_PAGE_SPANS, header->num_page_spans, a.page_table, a.page_table_stride);
    copy_section(block, STEP_TOKEN_TABLE_IDX, in->token_table_idx, tokens);
    copy_section(block, STEP_POSITIONS, in->positions, tokens);
    copy_section(block, STEP_OUT_LOC, in->out_loc, tokens);
    copy_section(block, STEP_CU_SEQLENS_Q, in->cu_seqlens_q, rows + 1);
    copy_section(block, STEP_KV_LENS, in->kv_lens, rows);
    copy_section(block, STEP_ROW_TABLE_IDX, in->row_table_idx, rows);
    copy_section(block, STEP_SAMPLE_TABLE_IDX, in->sample_table_idx, rows);
    copy_section(block, STEP_SAMPLE_POS, in->sample_pos, rows);
    copy_section(block, STEP_TEMPERATURE, in->temperature, rows);
    copy_section(block, STEP_TOP_P, in->top_p, rows);
    copy_section(block, STEP_MIN_P, in->min_p, rows);
    copy_section(block, STEP_TOP_K, in->top_k, rows);
    copy_section(block, STEP_SEED, in->seed, 2 * rows);
}

extern "C" struct status step_begin_cuda(struct stream *stream, const struct step_begin_args *a)
{
    return cuda_launched(stream, launch(stream, step_begin_kernel, dim3(BLOCKS), THREADS, 0, *a),
                         "step_begin");
}
