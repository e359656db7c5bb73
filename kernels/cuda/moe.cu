/*
 * moe.cu - a mixture of experts:
 *     y[t] += sum over the chosen experts e of p[t, e] down_e(silu(gate_e(x)) * up_e(x))
 *
 * route, first of all: one warp per token finds the top_k probabilities, one at a time. Where a
 * step has pairs enough, moe_grouped.cu does the rest. The others, and float32, go pair by pair, in
 * two kernels. inner: one warp per (pair, inner row) takes two dot products of length hidden_size.
 * outer: one warp per (token, hidden row) sums over the choices, in order, so that a token's result
 * does not depend on its company. Weights are read once per pair.
 */
#include "kernels/cuda/moe.cuh"

enum { WARPS = 8, MAX_EXPERTS = 1024 };

/* The workspace, part by part; from inner on it is moe_grouped.cu's, where that serves. */
struct moe_space {
    struct moe_choices choices;
    float *inner; /* [T, top_k, inner_size] */
};

static struct moe_space moe_space(void *workspace, size_t pairs)
{
    struct moe_space space;
    size_t row = device_align(pairs * sizeof(int32_t));

    space.choices.experts = (int32_t *)workspace;
    space.choices.weights = (float *)((char *)workspace + row);
    space.inner = (float *)((char *)workspace + 2 * row);
    return space;
}

extern "C" size_t moe_cuda_workspace(const struct ops_limits *limits)
{
    size_t pairs = (size_t)limits->max_tokens * (size_t)limits->moe_top_k;
    size_t inner = pairs * (size_t)limits->moe_inner_size * sizeof(float);
    size_t grouped = limits->dtype == DTYPE_BF16 ? moe_grouped_workspace(limits) : 0;

    if (limits->num_experts == 0)
        return 0;
    return 2 * device_align(pairs * sizeof(int32_t)) + (inner > grouped ? inner : grouped);
}

static __global__ void __launch_bounds__(WARPS *WARP)
    route_kernel(struct moe_choices choices, const float *router_logits, int num_tokens,
                 int num_experts, int top_k, bool normalise)
{
    int t = (int)(blockIdx.x * WARPS + threadIdx.x / WARP), lane = (int)threadIdx.x % WARP;
    float maximum = -INFINITY, sum = 0, chosen = 0;
    const float *logits;
    uint32_t taken = 0; /* bit i: this lane's i-th expert is chosen */

    pdl_launch();
    pdl_wait();
    if (t >= num_tokens)
        return;
    logits = router_logits + (size_t)t * (size_t)num_experts;
    for (int e = lane; e < num_experts; e += WARP)
        maximum = fmaxf(maximum, logits[e]);
    maximum = warp_max(maximum);
    for (int e = lane; e < num_experts; e += WARP)
        sum += expf(logits[e] - maximum);
    sum = warp_sum(sum);
    for (int k = 0; k < top_k; k++) {
        float best = -INFINITY;
        int id = num_experts;

        for (int e = lane, i = 0; e < num_experts; e += WARP, i++) {
            if (!(taken >> i & 1) && (logits[e] > best || id == num_experts)) {
                best = logits[e];
                id = e;
            }
        }
        for (int i = WARP / 2; i > 0; i /= 2) {
            float other = __shfl_xor_sync(~0u, best, i);
            int other_id = __shfl_xor_sync(~0u, id, i);

            if (other_id < num_experts &&
                (id == num_experts || other > best || (other == best && other_id < id))) {
                best = other;
                id = other_id;
            }
        }
        id = __shfl_sync(~0u, id, 0); /* NaN compare with nothing, and lanes would disagree */
        if (id % WARP == lane)
            taken |= 1u << id / WARP;
        best = expf(best - maximum) / sum;
        chosen += best;
        if (lane == 0) {
            choices.experts[t * top_k + k] = id;
            choices.weights[t * top_k + k] = best;
        }
    }
    if (normalise && lane == 0) {
        for (int k = 0; k < top_k; k++)
            choices.weights[t * top_k + k] /= chosen;
    }
}

template <typename T, typename U>
static __device__ float warp_dot(const T *w, const U *x, int n, int lane)
{
    float sum = 0;

    for (int i = lane; i < n; i += WARP)
        sum += to_float(w[i]) * to_float(x[i]);
    return warp_sum(sum);
}

template <typename T>
static __global__ void __launch_bounds__(WARPS *WARP)
    inner_kernel(struct moe_space space, const T *gate_up, const T *x, int hidden_size,
                 int inner_size, int top_k)
{
    int i = (int)(blockIdx.x * WARPS + threadIdx.x / WARP), lane = (int)threadIdx.x % WARP;
    size_t pair = blockIdx.y, hidden = (size_t)hidden_size, inner = (size_t)inner_size;
    const T *gate, *in;
    float g, u;

    pdl_launch();
    pdl_wait();
    if (i >= inner_size)
        return;
    in = x + pair / (size_t)top_k * hidden;
    gate = gate_up + (2 * (size_t)space.choices.experts[pair] * inner + (size_t)i) * hidden;
    g = warp_dot(gate, in, hidden_size, lane);
    u = warp_dot(gate + inner * hidden, in, hidden_size, lane);
    if (lane == 0)
        space.inner[pair * inner + (size_t)i] = g / (1 + expf(-g)) * u;
}

template <typename T>
static __global__ void __launch_bounds__(WARPS *WARP)
    outer_kernel(T *y, struct moe_space space, const T *down, int hidden_size, int inner_size,
                 int top_k)
{
    int i = (int)(blockIdx.x * WARPS + threadIdx.x / WARP), lane = (int)threadIdx.x % WARP;
    size_t t = blockIdx.y, hidden = (size_t)hidden_size, inner = (size_t)inner_size;
    float sum = 0;

    pdl_launch();
    pdl_wait();
    if (i >= hidden_size)
        return;
    for (int k = 0; k < top_k; k++) {
        size_t pair = t * (size_t)top_k + (size_t)k;
        const T *row = down + ((size_t)space.choices.experts[pair] * hidden + (size_t)i) * inner;

        sum += space.choices.weights[pair] *
               warp_dot(row, space.inner + pair * inner, inner_size, lane);
    }
    if (lane == 0)
        store_float(&y[t * hidden + (size_t)i], to_float(y[t * hidden + (size_t)i]) + sum);
}

/* Pair by pair. */
template <typename T>
static cudaError_t moe_launch(struct stream *stream, const struct moe_args *a,
                              struct moe_space space)
{
    enum { MAX_GRID_Y = 65535 };
    const struct experts_weight *w = a->experts;
    size_t hidden = (size_t)w->hidden_size;
    cudaError_t error = cudaSuccess;

    for (int t = 0, n; t < a->num_tokens && !error; t += n) {
        size_t pair = (size_t)t * (size_t)a->top_k;
        struct moe_space part = {{space.choices.experts + pair, space.choices.weights + pair},
                                 space.inner + pair * (size_t)w->inner_size};

        n = a->num_tokens - t < MAX_GRID_Y / a->top_k ? a->num_tokens - t : MAX_GRID_Y / a->top_k;
        error =
            launch(stream, inner_kernel<T>,
                   dim3((unsigned)ceil_div(w->inner_size, WARPS), (unsigned)(n * a->top_k)),
                   WARPS * WARP, 0, part, (const T *)w->gate_up,
                   (const T *)a->x + (size_t)t * hidden, w->hidden_size, w->inner_size, a->top_k);
        if (!error)
            error = launch(stream, outer_kernel<T>,
                           dim3((unsigned)ceil_div(w->hidden_size, WARPS), (unsigned)n),
                           WARPS * WARP, 0, (T *)a->y + (size_t)t * hidden, part,
                           (const T *)w->down, w->hidden_size, w->inner_size, a->top_k);
    }
    return error;
}

extern "C" struct status moe_cuda_check(int32_t num_experts)
{
    if (num_experts > MAX_EXPERTS)
        return status_error(STATUS_UNSUPPORTED, "num_experts %d: cuda serves at most %d",
                            num_experts, (int)MAX_EXPERTS);
    return status_ok();
}

extern "C" struct status moe_cuda(struct stream *stream, const struct moe_args *a)
{
    struct moe_space space;
    cudaError_t error;

    if (a->num_tokens == 0)
        return status_ok();
    struct status status = moe_cuda_check(a->experts->num_experts);
    if (status.code)
        return status;
    space = moe_space(a->workspace, (size_t)a->num_tokens * (size_t)a->top_k);
    error = launch(stream, route_kernel, dim3((unsigned)ceil_div(a->num_tokens, WARPS)),
                   WARPS * WARP, 0, space.choices, a->router_logits, a->num_tokens,
                   a->experts->num_experts, a->top_k, a->normalise);
    if (error)
        return cuda_launched(stream, error, "moe");
    if (moe_grouped_can(a))
        error = moe_grouped_launch(stream, a, &space.choices, space.inner);
    else if (a->experts->dtype == DTYPE_BF16)
        error = moe_launch<__nv_bfloat16>(stream, a, space);
    else
        error = moe_launch<float>(stream, a, space);
    return cuda_launched(stream, error, "moe");
}
