/*
 * attention_steps.cuh - the steps of STEP positions of all rows of one token, one behind the other,
 * and the parts that they are cut into, as equal as can be:
 *
 *     rows      |--------- 0 ---------|-- 1 --|---- 2 ----|------------ 3 ------------|   steps
 *     parts     |---- 0 ----|---- 1 ----|---- 2 ----|---- 3 ----|---- 4 ----|--- 5 ---|
 */
#ifndef KERNELS_CUDA_ATTENTION_STEPS_CUH
#define KERNELS_CUDA_ATTENTION_STEPS_CUH

#include "kernels/cuda/attention_decode.cuh"

enum { MIN_PART = 4 /* steps: less would be all beginnings and ends */ };

/* All steps in num parts: the first num_longer have len + 1, the others len. */
struct cut {
    int total, num;
    int len, num_longer;
};

static __device__ __forceinline__ int first_step(const struct cut *cut, int part)
{
    return part * cut->len + min(part, cut->num_longer);
}

static __device__ __forceinline__ int part_of(const struct cut *cut, int step)
{
    int longer = cut->num_longer * (cut->len + 1);

    return step < longer ? step / (cut->len + 1) : cut->num_longer + (step - longer) / cut->len;
}

/* Steps of a row; none of one that is empty, or of several tokens. */
static __device__ __forceinline__ int steps_of(const struct attention_args *a, int row)
{
    int begin = a->cu_seqlens_q[row], end = a->cu_seqlens_q[row + 1], len = a->kv_lens[row];

    return end - begin == 1 ? (len + STEP - 1) / STEP : 0;
}

/* A step, and the row that it belongs to. */
struct place {
    int step, row;
    int row_begin, row_end; /* steps */
};

static __device__ __forceinline__ int position_of(const struct place *at)
{
    return (at->step - at->row_begin) * STEP;
}

/* At end, where the part ends, the row stays that of the last step. */
static __device__ __forceinline__ void next_step(struct place *at, const struct attention_args *a,
                                                 int end)
{
    if (++at->step < at->row_end || at->step == end)
        return;
    at->row_begin = at->row_end;
    while (at->row_end == at->row_begin)
        at->row_end += steps_of(a, ++at->row);
}

/* The sum up to and with this lane's x. */
static __device__ __forceinline__ int sum_up_to(int x)
{
    for (int i = 1; i < WARP; i *= 2) {
        int before = __shfl_up_sync(~0u, x, i);

        x += (int)threadIdx.x % WARP >= i ? before : 0;
    }
    return x;
}

/*
 * How all is cut into at most max_parts, and where a part begins, if there is such a one. Lanes
 * have as many rows each, one behind the other: first the lane is found in whose rows the part
 * begins, then the row.
 */
static __device__ __forceinline__ struct cut
cut_steps(const struct attention_args *a, int max_parts, int part, struct place *out_at)
{
    int lane = (int)threadIdx.x % WARP, each = (a->num_rows + WARP - 1) / WARP;
    int sum = 0, up_to, row, before;
    struct cut cut;

#pragma unroll 8
    for (int i = 0; i < each; i++) {
        row = lane * each + i;
        sum += row < a->num_rows ? steps_of(a, row) : 0;
    }
    up_to = sum_up_to(sum);
    cut.total = __shfl_sync(~0u, up_to, WARP - 1);
    cut.num = max(1, min(max_parts, cut.total / MIN_PART));
    cut.len = cut.total / cut.num;
    cut.num_longer = cut.total % cut.num;
    out_at->step = first_step(&cut, part);
    if (part >= cut.num || cut.total == 0)
        return cut;
    row = __ffs((int)__ballot_sync(~0u, up_to > out_at->step)) - 1;
    before = __shfl_sync(~0u, up_to - sum, row);
    for (row *= each;; row += WARP) { /* once, up to WARP * WARP rows */
        int steps = row + lane < a->num_rows ? steps_of(a, row + lane) : 0, found;

        up_to = before + sum_up_to(steps);
        found = __ffs((int)__ballot_sync(~0u, up_to > out_at->step)) - 1;
        if (found >= 0) {
            out_at->row = row + found;
            out_at->row_end = __shfl_sync(~0u, up_to, found);
            out_at->row_begin = out_at->row_end - __shfl_sync(~0u, steps, found);
            return cut;
        }
        before = __shfl_sync(~0u, up_to, WARP - 1);
    }
}

#endif
