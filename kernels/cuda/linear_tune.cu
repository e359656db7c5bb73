/*
 * linear_tune.cu - which of a layer's ways is the fastest, timed.
 *
 * What counts is a layer within a model's graph: between two small kernels, with W out of the
 * cache, and with what programmatic dependent launch lets it do before its turn, such as fetching
 * W. So the ways run in a captured chain: small kernel, layer, small kernel, layer ..., each layer
 * on another copy of W. A run of a single one ranks them otherwise: it sees none of what overlaps.
 * It only says which have no chance.
 */
#include "kernels/cuda/linear_product.cuh"

enum {
    MAX_LAYERS = 10,      /* of a chain */
    MAX_LT_FINALISTS = 4, /* ways of cuBLAS that get one */
    MAX_OWN_FINALISTS = 6,
    SCRATCH_WEIGHTS = 160 << 20, /* bytes: they do not fit a cache of 50 MB */
};

#define CHAIN_MS 0.2f /* about how long a chain should take; what takes longer alone needs none */

struct trial {
    const struct way *way;
    cudaGraphExec_t chain;
    float ms; /* the best so far: alone, then of the chain */
};

/* What all trials of a layer share. */
struct tuning {
    struct stream *stream;
    struct product *product;
    struct layer_args args; /* y and wide: scratch */
    struct linear_weight weights[MAX_LAYERS];
    int num_weights;
    int num_layers, rounds; /* of a chain, and how often each is run */
    float margin;           /* ways that are so many times slower alone are out */
    cudaEvent_t begin, end;
    void *scratch; /* owned */
};

static size_t round_up(size_t size)
{
    return (size + 255) / 256 * 256;
}

/* false: no memory for it. */
static bool tuning_open(struct tuning *t, struct stream *stream, struct product *product,
                        const struct layer_args *a)
{
    const struct linear_weight *w = a->weight;
    size_t wide = round_up((size_t)a->num_tokens * (size_t)w->n * dtype_size(a->y_dtype));
    size_t weight = round_up((size_t)w->n * (size_t)w->k * dtype_size(w->dtype));
    size_t copies = SCRATCH_WEIGHTS / weight;
    char *at;

    *t = {stream, product, *a};
    if (copies > MAX_LAYERS - 1)
        copies = MAX_LAYERS - 1;
    if (cudaEventCreate(&t->begin) || cudaEventCreate(&t->end))
        return false;
    if (cudaMalloc(&t->scratch, 2 * wide + copies * weight)) {
        copies = 0;
        if (cudaMalloc(&t->scratch, 2 * wide))
            return false;
    }
    at = (char *)t->scratch;
    t->args.y = at;
    t->args.wide = a->wide ? at + wide : NULL;
    at += 2 * wide;
    t->weights[0] = *w;
    for (t->num_weights = 1; t->num_weights <= (int)copies; t->num_weights++) {
        t->weights[t->num_weights] = *w;
        t->weights[t->num_weights].data = at;
        cudaMemcpyAsync(at, w->data, (size_t)w->n * (size_t)w->k * dtype_size(w->dtype),
                        cudaMemcpyDeviceToDevice, stream->cuda);
        at += weight;
    }
    return !cudaMemsetAsync(t->scratch, 0, 2 * wide, stream->cuda);
}

static void tuning_close(struct tuning *t)
{
    if (t->begin)
        cudaEventDestroy(t->begin);
    if (t->end)
        cudaEventDestroy(t->end);
    cudaFree(t->scratch);
}

/* Takes the place of the small operators before and behind a layer: about a microsecond. */
static __global__ void neighbour_kernel()
{
    long long begin;

    pdl_launch();
    pdl_wait();
    begin = clock64();
    while (clock64() - begin < 1000)
        ;
}

static bool put_neighbour(const struct tuning *t)
{
    return !launch(t->stream, neighbour_kernel, dim3((unsigned)t->stream->device->num_sms), 128, 0);
}

static bool put_layer(struct tuning *t, const struct way *way, int i)
{
    t->args.weight = &t->weights[i % t->num_weights];
    return !product_run(t->stream, t->product, &t->args, way).code;
}

/* Of all that was put into the stream since begin was recorded. */
static bool read_time(const struct tuning *t, float *out_ms)
{
    return !cudaEventRecord(t->end, t->stream->cuda) && !cudaEventSynchronize(t->end) &&
           !cudaEventElapsedTime(out_ms, t->begin, t->end);
}

/* One run. What is written before it takes so long that all is in the stream when its turn comes.
 */
static void time_alone(struct tuning *t, struct trial *trial)
{
    void *workspace = t->stream->device->lt_workspace;
    cudaStream_t cuda = t->stream->cuda;
    float ms;

    trial->ms = 1e30f;
    if (put_layer(t, trial->way, 0) /* the first run loads the kernel */ &&
        !cudaMemsetAsync(workspace, 0, LT_WORKSPACE_SIZE, cuda) &&
        !cudaMemsetAsync(workspace, 0, LT_WORKSPACE_SIZE, cuda) &&
        !cudaEventRecord(t->begin, cuda) && put_neighbour(t) && put_layer(t, trial->way, 0) &&
        put_neighbour(t) && read_time(t, &ms))
        trial->ms = ms;
}

static bool capture_chain(struct tuning *t, struct trial *trial)
{
    cudaStream_t cuda = t->stream->cuda;
    cudaGraph_t graph = NULL;
    bool ok = !cudaStreamBeginCapture(cuda, cudaStreamCaptureModeThreadLocal);

    if (!ok)
        return false;
    for (int i = 0; i < t->num_layers; i++)
        ok = ok && put_neighbour(t) && put_layer(t, trial->way, i);
    ok = ok && put_neighbour(t);
    ok = !cudaStreamEndCapture(cuda, &graph) && ok;
    ok = ok && !cudaGraphInstantiate(&trial->chain, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    return ok;
}

static void time_chain(struct tuning *t, struct trial *trial)
{
    float ms;

    if (!cudaEventRecord(t->begin, t->stream->cuda) &&
        !cudaGraphLaunch(trial->chain, t->stream->cuda) && read_time(t, &ms) && ms < trial->ms)
        trial->ms = ms;
}

static void sort_trials(struct trial *trials, int num)
{
    for (int i = 1; i < num; i++) { /* by insertion */
        struct trial trial = trials[i];
        int at = i;

        for (; at > 0 && trials[at - 1].ms > trial.ms; at--)
            trials[at] = trials[at - 1];
        trials[at] = trial;
    }
}

/* How the finalists are run, by the fastest time of one alone. */
static void choose_chain(struct tuning *t, float ms_alone)
{
    bool is_long = ms_alone > CHAIN_MS;
    int num = (int)(CHAIN_MS / ms_alone);

    t->num_layers = is_long ? 1 : num < 3 ? 3 : num > MAX_LAYERS ? (int)MAX_LAYERS : num;
    t->rounds = is_long ? 2 : 4;
    t->margin = is_long ? 1.1f : 1.4f;
}

/* Moves those that get a chain to the front; returns how many. trials: sorted. */
static int choose_finalists(const struct tuning *t, struct trial *trials, int num)
{
    float limit = trials[0].ms * t->margin;
    int count = 0, num_own = 0;

    for (int i = 0; i < num && trials[i].ms <= limit; i++) {
        bool is_own = trials[i].way->own != 0;

        if (is_own ? num_own == MAX_OWN_FINALISTS : count - num_own == MAX_LT_FINALISTS)
            continue;
        num_own += is_own;
        trials[count++] = trials[i];
    }
    return count;
}

int product_fastest(struct stream *stream, struct product *product, const struct layer_args *a,
                    const struct way *ways, int num)
{
    struct trial trials[MAX_WAYS] = {};
    const struct way *fastest = ways;
    struct tuning t;
    int num_finalists;

    if (tuning_open(&t, stream, product, a)) {
        for (int i = 0; i < num; i++) {
            trials[i].way = &ways[i];
            time_alone(&t, &trials[i]);
        }
        sort_trials(trials, num);
        choose_chain(&t, trials[0].ms);
        num_finalists = choose_finalists(&t, trials, num);
        for (int i = 0; i < num_finalists; i++) {
            trials[i].ms = 1e30f;
            if (!capture_chain(&t, &trials[i]))
                trials[i].chain = NULL;
        }
        for (int round = 0; round < t.rounds; round++) /* in turn: none gets the cooler card */
            for (int i = 0; i < num_finalists; i++)
                if (trials[i].chain)
                    time_chain(&t, &trials[i]);
        sort_trials(trials, num_finalists);
        fastest = trials[0].way;
    }
    for (int i = 0; i < num; i++)
        if (trials[i].chain)
            cudaGraphExecDestroy(trials[i].chain);
    tuning_close(&t);
    cudaGetLastError(); /* a lack of memory here is no fault */
    return (int)(fastest - ways);
}
