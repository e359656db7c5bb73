/*
 * linear_trial.cu - ways to do a layer, timed as a step would have them: the layer several times in
 * a row, a neighbour before, between and behind, in one graph, with W out of the cache.
 *
 * What a layer takes alone decides little. By dependent launch one layer's W is under way while the
 * kernel before it ends, if blocks fit beside that one's; cuBLAS's kernels wait for its end.
 */
#include "kernels/cuda/linear_trial.cuh"

enum {
    LAYERS = 4,
    COPIES_SIZE = 512 << 20, /* bytes of copies of W, at most */
    HEADROOM = 256 << 20,    /* bytes that are left for kernels and graphs, which come later */
    NEIGHBOUR_THREADS = 128,
    NEIGHBOUR_BLOCKS = 4, /* on a multiprocessor */
};

struct trial {
    struct layer_args layers[LAYERS];
    struct linear_weight weights[LAYERS];
    int num_layers;
    void *scratch;                          /* owned: y, wide, copies of W */
    cudaEvent_t begin, end;                 /* owned */
    cudaGraphExec_t graphs[TRIAL_MAX_WAYS]; /* owned; NULL: it cannot be done that way */
    float ms[TRIAL_MAX_WAYS];               /* the best so far */
};

/* Stands for what else a step consists of: small blocks on all multiprocessors, which end one by
 * one within some 3 us. */
static __global__ void __launch_bounds__(NEIGHBOUR_THREADS) neighbour_kernel()
{
    long long begin, clocks = 6000LL * (blockIdx.x * 37 % gridDim.x) / gridDim.x;

    pdl_launch();
    pdl_wait();
    begin = clock64();
    while (clock64() - begin < clocks)
        ;
}

static bool put_neighbour(struct stream *stream)
{
    dim3 grid((unsigned)(stream->device->num_sms * NEIGHBOUR_BLOCKS));

    return !prefer_cache(stream, (const void *)neighbour_kernel) &&
           !launch(stream, neighbour_kernel, grid, NEIGHBOUR_THREADS,
                   SMALL_SHARED / NEIGHBOUR_BLOCKS - BLOCK_RESERVE);
}

/* Reads num pieces of memory that nobody needs; that they are all ones does not happen. */
static __global__ void evict_kernel(uint4 *pieces, int num)
{
    uint4 all = make_uint4(~0u, ~0u, ~0u, ~0u);

    pdl_wait();
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < num;
         i += (int)(gridDim.x * blockDim.x)) {
        uint4 x = load_once(pieces + i);

        all = make_uint4(all.x & x.x, all.y & x.y, all.z & x.z, all.w & x.w);
    }
    if ((all.x & all.y & all.z & all.w) == ~0u)
        pieces[0] = all;
}

/*
 * Empties the second-level cache, by reading cuBLAS's workspace, which is larger than an H200's. It
 * is not to be written: what waits there to go to memory would go at the cost of the layers that
 * are timed. Three times over: that takes longer than the host needs to launch them.
 */
static bool evict(struct stream *stream)
{
    const dim3 grid((unsigned)stream->device->num_sms * 4);
    bool ok = true;

    for (int i = 0; i < 3 && ok; i++)
        ok = !launch(stream, evict_kernel, grid, 256, 0, (uint4 *)stream->device->lt_workspace,
                     (int)(LT_WORKSPACE_SIZE / sizeof(uint4)));
    return ok;
}

/* How many copies of W go with y and wide: as many as layers need, and memory has room for. */
static int num_copies(size_t w_size, size_t rest)
{
    int num = min((int)(COPIES_SIZE / w_size), LAYERS - 1);
    size_t free_size = 0, all;

    if (cudaMemGetInfo(&free_size, &all))
        return 0;
    while (num > 0 && rest + w_size * (size_t)num + HEADROOM > free_size)
        num--;
    return num;
}

/* false: there is no memory for it. To be deinitialised in any case. */
static bool trial_init(struct stream *stream, const struct layer_args *a, struct trial *t)
{
    const struct linear_weight *w = a->weight;
    size_t w_size = (size_t)w->n * (size_t)w->k * dtype_size(w->dtype),
           stride = device_align(w_size);
    size_t row_size = (size_t)w->n * dtype_size(a->y_dtype), tokens = (size_t)a->num_tokens;
    size_t wide_at = device_align(tokens * (a->wide ? row_size / 2 : row_size));
    size_t copies_at = wide_at + (a->wide ? device_align(tokens * row_size) : 0);
    bool is_single = a->num_tokens > MANY_TOKENS, ok;
    int copies = is_single ? 0 : num_copies(stride, copies_at);

    t->num_layers = is_single ? 1 : LAYERS;
    if (stride * (size_t)(copies + 1) < LT_WORKSPACE_SIZE) /* see evict(): all stays in the cache */
        t->num_layers = copies + 1;
    if (cudaMalloc(&t->scratch, copies_at + stride * (size_t)copies))
        return false;
    ok = !cudaMemsetAsync(t->scratch, 0, copies_at, stream->cuda);
    for (int i = 0; i < t->num_layers; i++) {
        int copy = i % (copies + 1);

        t->weights[i] = *w;
        if (copy > 0)
            t->weights[i].data = (char *)t->scratch + copies_at + stride * (size_t)(copy - 1);
        if (copy > 0 && copy == i)
            ok = ok && !cudaMemcpyAsync(t->weights[i].data, w->data, w_size,
                                        cudaMemcpyDeviceToDevice, stream->cuda);
        t->layers[i] = *a;
        t->layers[i].weight = &t->weights[i];
        t->layers[i].y = t->scratch;
        t->layers[i].wide = a->wide ? (char *)t->scratch + wide_at : NULL;
    }
    return ok && !cudaEventCreate(&t->begin) && !cudaEventCreate(&t->end);
}

static void trial_deinit(struct trial *t)
{
    for (int i = 0; i < TRIAL_MAX_WAYS; i++) {
        if (t->graphs[i])
            cudaGraphExecDestroy(t->graphs[i]);
    }
    if (t->begin)
        cudaEventDestroy(t->begin);
    if (t->end)
        cudaEventDestroy(t->end);
    cudaFree(t->scratch);
    cudaGetLastError(); /* that memory was short, or a way could not be launched, is no fault */
}

static cudaGraphExec_t capture_way(struct stream *stream, const struct trial *t, int way,
                                   linear_trial_way *run, void *ways)
{
    cudaGraphExec_t exec = NULL;
    cudaGraph_t graph = NULL;
    /* kernels are loaded when they are first launched, which is not for a capture */
    bool ok = put_neighbour(stream) && run(stream, &t->layers[0], way, ways);

    if (!ok || cudaStreamBeginCapture(stream->cuda, cudaStreamCaptureModeThreadLocal))
        return NULL;
    ok = put_neighbour(stream);
    for (int i = 0; i < t->num_layers && ok; i++)
        ok = run(stream, &t->layers[i], way, ways) && put_neighbour(stream);
    if (cudaStreamEndCapture(stream->cuda, &graph) || !ok || cudaGraphInstantiate(&exec, graph, 0))
        exec = NULL;
    if (exec)
        cudaGraphUpload(exec, stream->cuda);
    if (graph)
        cudaGraphDestroy(graph);
    return exec;
}

static void time_way(struct stream *stream, struct trial *t, int way)
{
    float ms;
    bool ok = evict(stream) && !cudaEventRecord(t->begin, stream->cuda) &&
              !cudaGraphLaunch(t->graphs[way], stream->cuda) &&
              !cudaEventRecord(t->end, stream->cuda) && !cudaEventSynchronize(t->end) &&
              !cudaEventElapsedTime(&ms, t->begin, t->end);

    if (ok && ms < t->ms[way])
        t->ms[way] = ms;
}

int linear_trial_fastest(struct stream *stream, const struct layer_args *a, int num,
                         linear_trial_way *run, void *ways)
{
    const float never = 1e30f;
    int fastest = 0, rounds = a->num_tokens > MANY_TOKENS ? 2 : 3;
    struct trial trial = {};
    bool ok;

    if (num == 1)
        return 0;
    ok = trial_init(stream, a, &trial);
    for (int i = 0; i < num; i++) {
        trial.ms[i] = never;
        if (ok)
            trial.graphs[i] = capture_way(stream, &trial, i, run, ways);
    }
    for (int round = 0; round < rounds && ok; round++) { /* in turn: none gets the cooler card */
        float limit = round == 0 ? never : trial.ms[fastest] * 1.25f;

        for (int i = 0; i < num; i++) {
            if (trial.graphs[i] && trial.ms[i] <= limit)
                time_way(stream, &trial, i);
        }
        for (int i = 0; i < num; i++)
            fastest = trial.ms[i] < trial.ms[fastest] ? i : fastest;
    }
    trial_deinit(&trial);
    return trial.ms[fastest] < never ? fastest : -1;
}
