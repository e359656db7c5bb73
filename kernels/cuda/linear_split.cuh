/*
 * linear_split.cuh - how linear_split.cu cuts a layer: what its kernel and its planner share.
 */
#ifndef KERNELS_CUDA_LINEAR_SPLIT_CUH
#define KERNELS_CUDA_LINEAR_SPLIT_CUH

#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/tma.cuh"

enum {
    MAX_STAGES = 16,
    TOKENS = 64,    /* of a warpgroup */
    MAX_GROUPS = 4, /* warpgroups of a block */
    PITCH_PAD = 8,  /* floats, so that sums of 8 tokens meet no bank twice, but with 2 ranks */
};

/* How a layer is cut. F: the features of a warpgroup, its template argument. */
struct split {
    int features;    /* of a block: a multiple of F and of 16 */
    int token_spans; /* clusters side by side over tokens */
    int token_tiles; /* of a block, of TOKENS each */
    int depth;       /* warpgroups that take turns at a block's chunks of k */
    int num_chunks;  /* of k, for all ranks together */
    /* Where stages are filled again, a multiple of depth: so each is always the same warpgroups',
     * who cannot come to it a round early. A barrier tells even rounds from odd ones, no more. */
    int num_stages;
};

/* A way to split a layer. */
struct plan {
    int width, ranks; /* width: F */
    int num_groups;   /* of a block, all of them */
    int shared_bytes;
    struct split split;
};

/* What says it all. groups: warpgroups side by side over features. */
static inline int split_number(int width, int groups, int ranks, int depth, int token_spans)
{
    return width / 8 | groups << 5 | ranks << 8 | depth << 12 | token_spans << 15;
}

/* linear_plan.cu: the plan of that number, if there is one for this layer. */
bool linear_split_plan(const struct device *device, const struct layer_args *args, int number,
                       struct plan *out);

static __host__ __device__ inline int stage_bytes(const struct split *split)
{
    return (split->token_tiles * TOKENS + split->features) * TILE_ROW_BYTES;
}

/*
 * Sums on their way: [ranks, tokens of a rank, features + PITCH_PAD], and PITCH_PAD behind each
 * rank's. Token t is the rank t % ranks's, as its number t / ranks.
 */
static __host__ __device__ inline int pitch_of(const struct split *split)
{
    return split->features + PITCH_PAD;
}

static __host__ __device__ inline int rank_pitch_of(const struct split *split, int ranks)
{
    return split->token_tiles * TOKENS / ranks * pitch_of(split) + PITCH_PAD;
}

#endif
