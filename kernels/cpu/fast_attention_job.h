/*
 * fast_attention_job.h - what the files of the fast attention share: how a step is cut into tasks
 * (fast_attention_tasks.c), what a task does (fast_attention.c), and how blocks that were computed
 * apart come together (fast_attention_merge.c).
 */
#ifndef KERNELS_CPU_FAST_ATTENTION_JOB_H
#define KERNELS_CPU_FAST_ATTENTION_JOB_H

#include "kernels/cpu/fast.h"
#include "kernels/cpu/fast_attention.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/tile.h"
#include "kernels/ops.h"

/* The running result of a unit, or that of one block. */
struct attention_softmax {
    float max, sum;
};

struct attention_job {
    const struct attention_args *args;
    struct pool *pool;
    size_t padded_dim;   /* head_dim up to whole panels */
    size_t num_steps;    /* of head_dim */
    int32_t group;       /* q heads of a kv head */
    int32_t max_units;   /* of a task */
    bool is_split;       /* a task is one block */
    int32_t num_blocks;  /* of the longest row */
    int32_t *task_start; /* [num_rows + 1], in the workspace */
    float *partials;     /* [num_tokens][num_qo_heads][num_blocks][padded_dim + 2], there too */
};

struct attention_task {
    int32_t row, kv_head;
    int32_t first_token, extend_len, kv_len;
    int32_t first_unit, num_units;
};

static inline size_t attention_round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Positions that a unit sees. */
static inline int32_t attention_unit_limit(const struct attention_job *job,
                                           const struct attention_task *task, int32_t unit)
{
    return task->kv_len - task->extend_len + unit / job->group + 1;
}

/* Whether V is read where it lies: packing it does not pay for a single tile. */
static inline bool attention_uses_rows(const struct attention_job *job,
                                       const struct attention_task *task)
{
    return task->num_units <= TILE_ROWS && job->padded_dim == (size_t)job->args->head_dim;
}

/* The places of a unit's block in the workspace: o, then maximum and sum. */
static inline float *attention_partial(const struct attention_job *job,
                                       const struct attention_task *task, int32_t unit,
                                       int32_t block)
{
    size_t token = (size_t)(task->first_token + unit / job->group);
    size_t head = (size_t)(task->kv_head * job->group + unit % job->group);
    size_t index = token * (size_t)job->args->num_qo_heads + head;

    return job->partials +
           (index * (size_t)job->num_blocks + (size_t)block) * (job->padded_dim + 2);
}

/* Adds a block's result to the running one. state->max is -infinity and o zero at first. */
static inline void attention_merge(struct attention_softmax *state, float *o,
                                   struct attention_softmax block, const float *block_o,
                                   size_t padded_dim)
{
    float max = block.max > state->max ? block.max : state->max;
    vf both = vf_set1(state->max - max);

    both[1] = block.max - max;
    both = vf_exp(both);
    float old_part = both[0], new_part = both[1];
    state->max = max;
    state->sum = state->sum * old_part + block.sum * new_part;
    for (size_t d = 0; d < padded_dim; d += VF_LANES) {
        vf add = vf_load(block_o + d) * vf_set1(new_part);
        vf_store(o + d, vf_fma(vf_load(o + d), vf_set1(old_part), add));
    }
}

/* ---- fast_attention_tasks.c ---- */

/* rows[i] = the head's elements at position first + i in a cache, for i < n. */
void SIMD_NAME(attention_find_rows)(const struct attention_job *job,
                                    const struct attention_task *task, const void *cache,
                                    int32_t first, int32_t n, const void **rows);

/* Fills task_start; returns the number of tasks. */
int32_t SIMD_NAME(attention_count_tasks)(struct attention_job *job);

/* The task of that number, and its block where it is one. The last pieces of a row are the longest:
 * they come first. */
struct attention_task SIMD_NAME(attention_find_task)(const struct attention_job *job,
                                                     int32_t number, int32_t *out_block);

/* Positions of a block that any unit of a task sees; 0 or less behind the last. */
int32_t SIMD_NAME(attention_block_len)(const struct attention_job *job,
                                       const struct attention_task *task, int32_t block);

/* What this thread will probably read after a block: the next one, or the first of the task that is
 * its turn when all threads have taken one. False where V is packed, or nothing follows. */
bool SIMD_NAME(attention_find_ahead)(const struct attention_job *job,
                                     const struct attention_task *task, int32_t number,
                                     int32_t block, const void **k_rows, const void **v_rows);

/* ---- fast_attention_merge.c ---- */

/* The unit's result: o over sum. */
void SIMD_NAME(attention_write)(const struct attention_job *job, const struct attention_task *task,
                                int32_t unit, const float *o, float sum);

/* Merges the blocks of kv heads first to end of all rows (pool_split). */
void SIMD_NAME(attention_merge_range)(const void *args, int32_t first, int32_t end);

#endif
