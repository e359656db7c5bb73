/*
 * attention.cuh - the ways to attend, and what they share.
 */
#ifndef KERNELS_CUDA_ATTENTION_CUH
#define KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda/cuda_util.cuh"

enum { ATTENTION_MAX_HEAD_DIM = 256 };

#define LOG2_E 1.4426950408889634f

/* attention_any.cu: any dtype, any head_dim up to that, any mix of rows; one warp reads one key at
 * a time. */
struct status attention_any_launch(struct stream *stream, const struct attention_args *args);

/* attention_decode.cu, and for many rows attention_decode_stream.cu: bfloat16 rows of one token;
 * rows with more are left to another kernel. */
bool attention_decode_can(const struct device *device, const struct attention_args *args);
struct status attention_decode_launch(struct stream *stream, const struct attention_args *args);
size_t attention_decode_workspace(const struct device *device, const struct ops_limits *limits);

/* attention_prefill.cu: bfloat16 rows of several tokens; with skip_decode rows of one are left to
 * the decode kernel. Its grid has room for so many tokens and rows of so many q heads to a kv head
 * (group). */
bool attention_prefill_fits(int32_t num_tokens, int32_t num_rows, int32_t group);
bool attention_prefill_can(const struct attention_args *args);
struct status attention_prefill_launch(struct stream *stream, const struct attention_args *args,
                                       bool skip_decode);

/* The row r with cu_seqlens_q[r] <= t < cu_seqlens_q[r + 1]. */
static __device__ __forceinline__ int row_of_token(const int32_t *cu_seqlens_q, int num_rows, int t)
{
    int low = 0, high = num_rows - 1;

    while (low < high) {
        int middle = (low + high + 1) / 2;

        if (cu_seqlens_q[middle] <= t)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* p / page_size, by a shift where the size is a power of two (page_shift >= 0). */
static __device__ __forceinline__ int slot_of(const int32_t *pages, int p, int page_size,
                                              int page_shift)
{
    int page = page_shift >= 0 ? p >> page_shift : p / page_size;

    return pages[page] * page_size + (p - page * page_size);
}

static inline int page_shift_of(int page_size)
{
    for (int shift = 0; shift < 31; shift++) {
        if (1 << shift == page_size)
            return shift;
    }
    return -1;
}

#endif
