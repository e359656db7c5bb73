/*
 * ops.h - the operators of a decoder step: an args struct each, which is its specification, and the
 * table of functions that a back end fills (kernels_cpu, kernels_cuda).
 *
 * Every operator is put into the caller's stream and returns before it has run. It neither
 * allocates nor waits (a graph can capture it). num_tokens or num_rows 0 is no work and no error.
 * T, R: tokens and rows of the step. All pointers are device memory unless said. Rows of matrices
 * are contiguous unless a stride is given.
 *
 * Accumulation is in float32 whatever the dtype. In float32 on the cpu every output element is
 * summed in one fixed order, whatever T, R, the page size or the number of threads.
 */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/device.h"
#include "kernels/step_block.h"

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16 /* of files only */ };

static inline size_t dtype_size(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 4 : 2;
}

/*
 * Scatters the block of this step: slot *step_counter % num_slots of the staging ring. Spans go to
 * token_pool and page_table, the rest to inputs.
 */
struct step_begin_args {
    const void *staging; /* [num_slots][slot_size] bytes */
    size_t slot_size;
    uint32_t num_slots;           /* a power of two, so that the counter may wrap */
    const uint32_t *step_counter; /* steps begun so far, modulo 2^32; sample raises it at the end */
    int32_t *page_table;          /* [.., page_table_stride] */
    int32_t *token_pool;          /* [.., token_pool_stride] */
    int32_t page_table_stride, token_pool_stride;
    struct step_inputs inputs;
};

struct linear_weight; /* opaque: see linear_part */

/*
 * y[t] = weight[token_pool[token_table_idx[t], positions[t]]]
 *
 * Where the embedding is tied to the output layer, table is that layer's weight and weight is NULL,
 * so that it lies in memory once.
 */
struct embed_args {
    enum dtype dtype;
    void *y;                           /* [T, hidden_size] */
    const void *weight;                /* [vocab_size, hidden_size], or NULL: table */
    const struct linear_weight *table; /* of the same dtype, n = vocab_size, k = hidden_size */
    const int32_t *token_pool;
    int32_t token_pool_stride;
    const int32_t *token_table_idx, *positions; /* [T] */
    int32_t num_tokens, hidden_size, vocab_size;
};

/* y[i] = x[s] * weight / sqrt(mean(x[s]^2) + eps), with s = i, or last_of[i + 1] - 1 where last_of
 * is given. */
struct rmsnorm_args {
    enum dtype dtype;
    void *y;                /* [num_rows, hidden_size]; may be x where last_of is NULL */
    const void *x;          /* [.., hidden_size] */
    const void *weight;     /* [hidden_size] */
    const int32_t *last_of; /* NULL, or cu_seqlens_q: picks each request's last token */
    int32_t num_rows, hidden_size;
    float eps;
};

/*
 * A linear layer's weight in whatever layout the back end likes best, made once at load.
 * Parts are stacked along the output (q, k, v; gate, up). data is host memory as the file has it,
 * row-major [n, k]; it need not be aligned.
 */
struct linear_part {
    const void *data;
    enum dtype dtype; /* of data */
    int32_t n;
    const void *bias; /* [n] of the same dtype, or NULL */
};

struct linear_source {
    const struct linear_part *parts;
    int32_t num_parts;
    int32_t k;
    enum dtype dtype; /* that the operator computes in: DTYPE_F32 or DTYPE_BF16 */
};

/* y = x W^T + bias, or y += x W^T + bias */
struct linear_args {
    const struct linear_weight *weight;
    void *y;            /* [T, n] of y_dtype */
    const void *x;      /* [T, k] of the weight's dtype */
    enum dtype y_dtype; /* the weight's dtype, or DTYPE_F32 (logits) */
    int32_t num_tokens;
    bool accumulate; /* only with y_dtype the weight's */
};

/*
 * In place on qkv = [q heads | k heads | v heads] of each token: RMSNorm of each q and k head where
 * norms are given, then rotary embedding (halves: i with i + head_dim / 2) by cos_sin; then K and V
 * are written to their slots.
 */
struct rope_kv_args {
    enum dtype dtype;
    void *qkv;                   /* [T, (num_qo_heads + 2 num_kv_heads) * head_dim] */
    const void *q_norm, *k_norm; /* [head_dim] or NULL */
    const float *cos_sin; /* [max_position, head_dim]: cos of the half, then sin of the half */
    const int32_t *positions, *out_loc; /* [T] */
    void *k_cache, *v_cache;            /* [num_slots, num_kv_heads, head_dim] of this layer */
    int32_t num_tokens, num_qo_heads, num_kv_heads, head_dim;
    float eps;
};

/*
 * Causal attention over the paged cache. Token j of row r (0 <= j < extend_len) stands at position
 * kv_lens[r] - extend_len + j and sees positions 0 up to its own. Position p of row r has slot
 * page_table[row_table_idx[r], p / page_size] * page_size + p % page_size. GQA: q head h uses kv
 * head h / (num_qo_heads / num_kv_heads).
 *
 * A captured step is padded: rows may be empty (extend_len 0), and tokens from
 * cu_seqlens_q[num_rows] on belong to no row. Their out may be left as it was.
 */
struct attention_args {
    enum dtype dtype;
    void *out;       /* [T, num_qo_heads * head_dim] */
    const void *qkv; /* as rope_kv left it; only the q heads are read */
    const void *k_cache, *v_cache;
    const int32_t *page_table;
    int32_t page_table_stride, page_size;
    const int32_t *cu_seqlens_q, *kv_lens, *row_table_idx;
    int32_t num_tokens, num_rows;
    int32_t max_extend_len;  /* the largest of this step; 1: a decode step */
    int32_t max_extend_rows; /* rows of several tokens, at most; 0: as many as there are rows */
    int32_t max_kv_len;      /* an upper bound; in a captured step the largest that can be */
    int32_t num_qo_heads, num_kv_heads, head_dim;
    float scale;
    void *workspace; /* of the size that kernels.workspace_size asked for */
};

/*
 * The first half of a feed-forward layer: y[t, i] = silu(h[t, i]) * h[t, inner_size + i], with h =
 * x W^T + bias, rounded to the dtype, and silu(g) = g / (1 + e^-g).
 */
struct gate_up_args {
    enum dtype dtype;                   /* of the weight and of all matrices */
    const struct linear_weight *weight; /* n = 2 * inner_size: gate, then up */
    void *y;                            /* [T, inner_size] */
    void *wide;                         /* [T, 2 * inner_size]: scratch, for h */
    const void *x;                      /* [T, k] */
    int32_t num_tokens, inner_size;
};

/* The experts of one layer: gate and up [inner_size, hidden_size], down [hidden_size, inner_size]
 * each. */
struct experts_source {
    const struct linear_part *gate, *up, *down; /* [num_experts] */
    int32_t num_experts, hidden_size, inner_size;
    enum dtype dtype;
};

struct experts_weight; /* opaque */

/*
 * y[t] += sum over the top_k experts e of softmax(router logits)[t, e] * down_e(silu(gate_e(x)) *
 * up_e(x)). With normalise the chosen probabilities are divided by their sum. Ties go to the lower
 * expert.
 */
struct moe_args {
    const struct experts_weight *experts;
    void *y;                    /* [T, hidden_size] of the experts' dtype */
    const void *x;              /* [T, hidden_size] */
    const float *router_logits; /* [T, num_experts] */
    int32_t num_tokens, top_k;
    bool normalise;
    void *workspace;
};

/*
 * Chooses a token for each row from its logits, writes it to token_pool and results, and ends the
 * step.
 *
 * temperature 0 or top_k 1: arg-max, the lowest id among equals. Otherwise, with p = softmax(logits
 * / temperature): keep the top_k largest (ties: lower ids first); of those, renormalised, the
 * smallest set of the largest whose sum reaches top_p (at least one); drop what is below min_p
 * times the largest; draw from the rest, in order of descending p then ascending id, by u =
 * sample_uniform(seed, sample_pos): the first id at which the running sum reaches u times the
 * total. Where none of these filters is on (top_k 0 or at least vocab_size, top_p at least 1, min_p
 * 0) the order is by ascending id alone, and the draw takes the first id at which the running sum
 * exceeds u times the total: so nothing has to be sorted. Any NaN among a row's logits, or none
 * finite: results[r] = RESULT_NAN, and id 0 goes to token_pool.
 */
enum { RESULT_NAN = -1 };

static inline bool sample_is_unfiltered(const struct step_inputs *inputs, size_t row,
                                        int32_t vocab_size)
{
    return (inputs->top_k[row] <= 0 || inputs->top_k[row] >= vocab_size) &&
           inputs->top_p[row] >= 1 && inputs->min_p[row] <= 0;
}

struct sample_args {
    const float *logits; /* [R, vocab_size] */
    int32_t num_rows, vocab_size;
    struct step_inputs inputs;
    int32_t *token_pool;
    int32_t token_pool_stride;
    int32_t *results;       /* [R] */
    uint32_t *step_counter; /* raised by one */
    void *workspace;
};

/* Of functions that kernels of a card call too. */
#ifdef __CUDACC__
#define OPS_ANYWHERE __host__ __device__
#else
#define OPS_ANYWHERE
#endif

/*
 * Uniform in [0, 1) from (seed, position) alone: a counter-based generator, the same on every back
 * end. SplitMix64 of seed + 0x9E3779B97F4A7C15 * (position + 1), mixed twice, its top 24 bits over
 * 2^24.
 */
static inline OPS_ANYWHERE uint64_t sample_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline OPS_ANYWHERE float sample_uniform(uint64_t seed, int32_t position)
{
    uint64_t z = sample_mix(seed) + 0x9E3779B97F4A7C15u * ((uint64_t)(uint32_t)position + 1);

    return (float)(sample_mix(z) >> 40) * 0x1.0p-24f;
}

/* What a model will ask of the operators at most. */
struct ops_limits {
    enum dtype dtype;
    int32_t max_tokens, max_rows, max_kv_len;
    int32_t hidden_size, num_qo_heads, num_kv_heads, head_dim, vocab_size;
    int32_t num_experts, moe_top_k, moe_inner_size; /* 0: no experts */
};

struct kernels {
    const char *name;

    /* Asked before anything is loaded: STATUS_UNSUPPORTED names what is beyond these operators. */
    struct status (*check)(const struct ops_limits *limits);

    /* Bytes of the one workspace that operators with a workspace share. */
    size_t (*workspace_size)(struct device *device, const struct ops_limits *limits);

    /* Made on the caller's stream; the sources may be unmapped after a stream_sync. */
    struct status (*linear_create)(struct stream *stream, const struct linear_source *source,
                                   struct linear_weight **out);
    void (*linear_destroy)(struct linear_weight **weight);
    struct status (*experts_create)(struct stream *stream, const struct experts_source *source,
                                    struct experts_weight **out);
    void (*experts_destroy)(struct experts_weight **weight);

    struct status (*step_begin)(struct stream *stream, const struct step_begin_args *args);
    struct status (*embed)(struct stream *stream, const struct embed_args *args);
    struct status (*rmsnorm)(struct stream *stream, const struct rmsnorm_args *args);
    struct status (*linear)(struct stream *stream, const struct linear_args *args);
    struct status (*rope_kv)(struct stream *stream, const struct rope_kv_args *args);
    struct status (*attention)(struct stream *stream, const struct attention_args *args);
    struct status (*gate_up)(struct stream *stream, const struct gate_up_args *args);
    struct status (*moe)(struct stream *stream, const struct moe_args *args);
    struct status (*sample)(struct stream *stream, const struct sample_args *args);
    /* For tests: writes where nothing is, as an operator with a bad pointer would. NULL where that
     * would be the host's own memory. */
    struct status (*fault)(struct stream *stream);
    /* Room here for all_reduce and all_gather of a tensor-parallel group. */
};

/* A back end: its device and its operators. The cuda one comes from a module, loaded when asked
 * for. */
struct backend {
    const struct device_ops *device;
    const struct kernels *kernels;
};

/* "cpu" or "cuda". STATUS_UNSUPPORTED says in a sentence what is missing. */
MUST_CHECK struct status backend_open(const char *name, struct backend *out);

extern const struct device_ops device_cpu;
extern const struct kernels kernels_cpu;

#endif
