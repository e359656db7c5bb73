/* fast_attention_merge.c - results of blocks, one after the other into the result of a unit. */
#include "kernels/cpu/fast_attention_job.h"

void SIMD_NAME(attention_write)(const struct attention_job *job, const struct attention_task *task,
                                int32_t unit, const float *o, float sum)
{
    const struct attention_args *a = job->args;
    size_t token = (size_t)(task->first_token + unit / job->group);
    size_t head = (size_t)(task->kv_head * job->group + unit % job->group);
    size_t head_dim = (size_t)a->head_dim;
    size_t out = (token * (size_t)a->num_qo_heads + head) * head_dim;

    for (size_t d = 0; d < head_dim; d += VF_LANES)
        vf_store_row(a->out, a->dtype, out + d, head_dim - d, vf_load(o + d) / vf_set1(sum));
}

/* Merges the blocks of the units of one kv head of one row. */
static void merge_blocks(const struct attention_job *job, int32_t row, int32_t kv_head)
{
    const struct attention_args *a = job->args;
    float o[ATTENTION_MAX_HEAD_DIM];
    struct attention_task task = {.row = row,
                                  .kv_head = kv_head,
                                  .first_token = a->cu_seqlens_q[row],
                                  .extend_len = a->cu_seqlens_q[row + 1] - a->cu_seqlens_q[row],
                                  .kv_len = a->kv_lens[row]};

    for (int32_t unit = 0; unit < task.extend_len * job->group; unit++) {
        struct attention_softmax state = {.max = -INFINITY}, block_state;
        memset(o, 0, job->padded_dim * sizeof(*o));
        for (int32_t block = 0; block * ATTENTION_BLOCK < attention_unit_limit(job, &task, unit);
             block++) {
            const float *block_o = attention_partial(job, &task, unit, block);
            memcpy(&block_state, block_o + job->padded_dim, sizeof(block_state));
            attention_merge(&state, o, block_state, block_o, job->padded_dim);
        }
        SIMD_NAME(attention_write)(job, &task, unit, o, state.sum);
    }
}

void SIMD_NAME(attention_merge_range)(const void *args, int32_t first, int32_t end)
{
    const struct attention_job *job = args;
    int32_t num_kv_heads = job->args->num_kv_heads;

    for (int32_t i = first; i < end; i++)
        merge_blocks(job, i / num_kv_heads, i % num_kv_heads);
}
