/*
 * linear.cuh - weights on the device, and who multiplies by them.
 */
#ifndef KERNELS_CUDA_LINEAR_CUH
#define KERNELS_CUDA_LINEAR_CUH

#include "kernels/cuda/cuda_util.cuh"

struct linear_weight {
    struct device *device;
    enum dtype dtype;
    void *data; /* owned, device: [n, k], the parts one behind the other */
    void *bias; /* owned, device: [n] of dtype, or NULL */
    int32_t n, k;
};

/* What the kernels of linear layers take: a linear layer, or with wide (of the same dtype) gate_up
 * of ops.h, whose y is [T, n / 2]. */
struct layer_args : linear_args {
    void *wide; /* [T, n], or NULL */
};

struct experts_weight {
    struct device *device;
    enum dtype dtype;
    void *gate_up; /* owned, device: [num_experts, 2 * inner_size, hidden_size] */
    void *down;    /* owned, device: [num_experts, hidden_size, inner_size] */
    int32_t num_experts, hidden_size, inner_size;
};

/* linear_tuner.cu: begins with what algo_cache.h has stored; save() stores what was timed since. */
struct status linear_tuner_create(int ordinal, struct linear_tuner **out);
void linear_tuner_save(struct linear_tuner *tuner);
void linear_tuner_destroy(struct linear_tuner **tuner);

/*
 * skinny.cu: for a few tokens, where one read of the weight is all there is. Its kernels have
 * numbers: SKINNY_SMALL is the one for small weights, where it is always the fastest; the others,
 * 1 to SKINNY_NUM, are for large ones, and cuBLAS may win.
 */
enum { SKINNY_SMALL = 0, SKINNY_NUM = 2 };
enum { FEW_TOKENS = 16 };        /* up to here tokens are few */
enum { MANY_TOKENS = 1024 };     /* beyond, the products take so long that little else counts */
enum { LARGE_WEIGHT = 1 << 24 }; /* elements: from here on a weight is large */
enum { STATIC_SHARED = 1024 };   /* bytes that a kernel with dynamic shared memory leaves */

bool skinny_can(const struct layer_args *args);
bool skinny_always(const struct layer_args *args);
struct status skinny_launch(struct stream *stream, const struct layer_args *args, int number);

/*
 * linear_stream.cu: from 9.0 on, for up to 32 tokens; always for a few tokens of a large weight
 * with 16 rows for each multiprocessor. Its number as a way to do a layer:
 */
enum { LINEAR_STREAM = 128 };

bool linear_stream_can(const struct device *device, const struct layer_args *args);
bool linear_stream_always(const struct device *device, const struct layer_args *args);
struct status linear_stream_launch(struct stream *stream, const struct layer_args *args);

/*
 * gate_up_many.cu: on Hopper, gate_up of more tokens than GATE_UP_MANY_TOKENS; always for steps of
 * up to num_tokens where these are at least 512, rows of W at least 1024 long, and its tiles nine
 * tenths full. Its number:
 */
enum { GATE_UP_MANY = 129, GATE_UP_MANY_TOKENS = 128 };

bool gate_up_many_can(const struct device *device, const struct layer_args *args);
bool gate_up_many_always(const struct device *device, const struct layer_args *args,
                         int num_tokens);
struct status gate_up_many_launch(struct stream *stream, const struct layer_args *args);

/*
 * linear_split.cu: on Hopper, for up to 512 tokens. It can do a layer in several ways, each with a
 * number from SPLIT_FIRST on.
 */
enum { SPLIT_FIRST = 256 };
enum { SPLIT_CANDIDATES = 12 }; /* of them are timed, at most */

bool linear_split_knows(const struct device *device, const struct layer_args *args, int number);
/* The numbers of those that are worth a try, the likeliest first: at most max; returns how many. */
int linear_split_plans(const struct device *device, const struct layer_args *args, int *out,
                       int max);
struct status linear_split_launch(struct stream *stream, const struct layer_args *args, int number);

/* silu_mul.cu: y [T, n / 2] from wide [T, n], for products that keep it there. */
cudaError_t silu_mul_launch(struct stream *stream, const struct layer_args *args);

#endif
