/*
 * fast_attention_tasks.c - a step in tasks: some units of one row and kv head, or one block of
 * them; and which rows of the cache a task reads, now and next.
 */
#include "kernels/cpu/fast_attention_job.h"

/* Tasks of a row for each kv head, without blocks. */
static int32_t num_pieces(const struct attention_job *job, int32_t row)
{
    const int32_t *cu = job->args->cu_seqlens_q;
    int32_t num_units = (cu[row + 1] - cu[row]) * job->group;

    return (num_units + job->max_units - 1) / job->max_units;
}

static int32_t row_blocks(const struct attention_job *job, int32_t row)
{
    return job->is_split ? (job->args->kv_lens[row] + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK : 1;
}

int32_t SIMD_NAME(attention_count_tasks)(struct attention_job *job)
{
    const struct attention_args *a = job->args;

    job->task_start[0] = 0;
    for (int32_t row = 0; row < a->num_rows; row++)
        job->task_start[row + 1] =
            job->task_start[row] + num_pieces(job, row) * a->num_kv_heads * row_blocks(job, row);
    return job->task_start[a->num_rows];
}

struct attention_task SIMD_NAME(attention_find_task)(const struct attention_job *job,
                                                     int32_t number, int32_t *out_block)
{
    const struct attention_args *a = job->args;
    int32_t low = 0, high = a->num_rows;

    number = job->task_start[a->num_rows] - 1 - number;
    while (high - low > 1) { /* task_start[low] <= number < task_start[high] */
        int32_t middle = low + (high - low) / 2;
        if (job->task_start[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    int32_t blocks = row_blocks(job, low), index = number - job->task_start[low];
    int32_t piece = index / blocks / a->num_kv_heads;
    struct attention_task task = {
        .row = low,
        .kv_head = index / blocks % a->num_kv_heads,
        .first_token = a->cu_seqlens_q[low],
        .extend_len = a->cu_seqlens_q[low + 1] - a->cu_seqlens_q[low],
        .kv_len = a->kv_lens[low],
        .first_unit = piece * job->max_units,
    };
    int32_t rest = task.extend_len * job->group - task.first_unit;
    task.num_units = rest < job->max_units ? rest : job->max_units;
    *out_block = index % blocks;
    return task;
}

void SIMD_NAME(attention_find_rows)(const struct attention_job *job,
                                    const struct attention_task *task, const void *cache,
                                    int32_t first, int32_t n, const void **rows)
{
    const struct attention_args *a = job->args;
    const int32_t *pages =
        a->page_table + (size_t)a->row_table_idx[task->row] * (size_t)a->page_table_stride;
    size_t size = dtype_size(a->dtype) * (size_t)a->head_dim;
    size_t slot_size = size * (size_t)a->num_kv_heads;
    const char *head = (const char *)cache + size * (size_t)task->kv_head;
    int32_t page = first / a->page_size, offset = first % a->page_size;

    for (int32_t i = 0; i < n; page++, offset = 0) {
        size_t slot = (size_t)pages[page] * (size_t)a->page_size;
        for (; i < n && offset < a->page_size; i++, offset++)
            rows[i] = head + (slot + (size_t)offset) * slot_size;
    }
}

int32_t SIMD_NAME(attention_block_len)(const struct attention_job *job,
                                       const struct attention_task *task, int32_t block)
{
    int32_t n = attention_unit_limit(job, task, task->first_unit + task->num_units - 1) -
                block * ATTENTION_BLOCK;

    return n < ATTENTION_BLOCK ? n : ATTENTION_BLOCK;
}

/* Finds the rows of n positions, and repeats the last up to a whole block. */
static void find_next(const struct attention_job *job, const struct attention_task *task,
                      int32_t first, int32_t n, const void **k_rows, const void **v_rows)
{
    SIMD_NAME(attention_find_rows)(job, task, job->args->k_cache, first, n, k_rows);
    SIMD_NAME(attention_find_rows)(job, task, job->args->v_cache, first, n, v_rows);
    for (int32_t i = n; i < ATTENTION_BLOCK; i++) {
        k_rows[i] = k_rows[n - 1];
        v_rows[i] = v_rows[n - 1];
    }
}

bool SIMD_NAME(attention_find_ahead)(const struct attention_job *job,
                                     const struct attention_task *task, int32_t number,
                                     int32_t block, const void **k_rows, const void **v_rows)
{
    int32_t next_number = number + pool_num_threads(job->pool), next_block = 0;

    if (!attention_uses_rows(job, task))
        return false;
    if (!job->is_split && SIMD_NAME(attention_block_len)(job, task, block + 1) > 0) {
        find_next(job, task, (block + 1) * ATTENTION_BLOCK,
                  SIMD_NAME(attention_block_len)(job, task, block + 1), k_rows, v_rows);
        return true;
    }
    if (next_number >= job->task_start[job->args->num_rows])
        return false;
    struct attention_task next = SIMD_NAME(attention_find_task)(job, next_number, &next_block);
    find_next(job, &next, next_block * ATTENTION_BLOCK,
              SIMD_NAME(attention_block_len)(job, &next, next_block), k_rows, v_rows);
    return true;
}
