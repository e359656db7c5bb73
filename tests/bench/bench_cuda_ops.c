/*
 * bench_cuda_ops.c - the time of each CUDA operator as one of a chain in a captured graph, beside
 * the bytes it must move and the operations it must do.
 *
 *     bench_cuda_ops [NAME]...      only the lines whose name begins so
 *
 * Each graph holds REPEATS launches over buffers that rotate through more than the cache holds,
 * with random contents; the figure is the median of several replays. Ceilings: 4.6 TB/s of memory
 * and 989 TFLOP/s of dense bfloat16, what an H200 reads and what its vendor promises.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "kernels/ops.h"

enum { REPEATS = 28, REPLAYS = 15, NOISE_SIZE = 64 << 20, MAX_BUFFERS = 512 };

static struct backend backend;
static struct device *device;
static struct stream *stream;
static struct event *begin_event, *end_event;
static char **filters;
static int num_filters;
static uint16_t *noise; /* bfloat16, normal-like */
static void *buffers[MAX_BUFFERS];
static int num_buffers;

static void ok(struct status status)
{
    if (!status.code)
        return;
    fprintf(stderr, "bench_cuda_ops: %s\n", status.msg);
    exit(1);
}

static bool wanted(const char *name)
{
    for (int i = 0; i < num_filters; i++) {
        if (strncmp(name, filters[i], strlen(filters[i])) == 0)
            return true;
    }
    return num_filters == 0;
}

/* Device memory with random bfloat16 in it, freed by end_case(). */
static void *random_dev(size_t size)
{
    void *data = NULL;

    ok(backend.device->alloc(device, size, &data));
    for (size_t at = 0; at < size; at += NOISE_SIZE)
        ok(backend.device->copy(stream, (char *)data + at, noise,
                                size - at < NOISE_SIZE ? size - at : NOISE_SIZE,
                                COPY_HOST_TO_DEVICE));
    buffers[num_buffers++] = data;
    return data;
}

static void *dev_of(const void *host, size_t size)
{
    void *data = NULL;

    ok(backend.device->alloc(device, size, &data));
    ok(backend.device->copy(stream, data, host, size, COPY_HOST_TO_DEVICE));
    ok(backend.device->stream_sync(stream));
    buffers[num_buffers++] = data;
    return data;
}

static void end_case(void)
{
    ok(backend.device->stream_sync(stream));
    while (num_buffers > 0)
        backend.device->free(device, buffers[--num_buffers]);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Microseconds of one of the launches that put(state, i) makes, i < repeats. */
static double time_graph(void (*put)(void *state, int i), void *state, int repeats)
{
    const struct device_ops *ops = backend.device;
    struct graph *graph = NULL;
    double us[REPLAYS];

    put(state, 0); /* warm up, and let linear layers choose */
    ok(ops->stream_sync(stream));
    ok(ops->graph_begin(stream));
    for (int i = 0; i < repeats; i++)
        put(state, i);
    ok(ops->graph_end(stream, &graph));
    for (int i = -2; i < REPLAYS; i++) {
        int64_t begin = 0, end = 0;

        ok(ops->event_record(stream, begin_event));
        ok(ops->graph_launch(stream, graph));
        ok(ops->event_record(stream, end_event));
        ok(ops->event_wait(end_event));
        ok(ops->event_time(begin_event, &begin));
        ok(ops->event_time(end_event, &end));
        if (i >= 0)
            us[i] = (double)(end - begin) / 1e3 / repeats;
    }
    ops->graph_destroy(&graph);
    qsort(us, REPLAYS, sizeof(us[0]), compare_doubles);
    return us[REPLAYS / 2];
}

static void report(const char *name, double us, double bytes, double flops)
{
    printf("%-44s %10.2f us %7.0f GB/s %3.0f%% %6.0f TFLOP/s %3.0f%%\n", name, us, bytes / us / 1e3,
           bytes / us / 1e3 / 4600 * 100, flops / us / 1e6, flops / us / 1e6 / 989 * 100);
    fflush(stdout);
}

/* ---- rows: rmsnorm, rope_kv ---- */

struct rows_case {
    void *x, *y, *weight, *k_cache, *v_cache;
    float *cos_sin;
    int32_t *positions, *out_loc;
    int32_t tokens, size, num_qo, num_kv;
    size_t stride; /* bytes between the buffers of two launches */
    int num_copies;
};

static char *copy_of(void *base, const struct rows_case *c, int i)
{
    return (char *)base + (size_t)(i % c->num_copies) * c->stride;
}

static void put_rmsnorm(void *state, int i)
{
    struct rows_case *c = state;
    const struct rmsnorm_args args = {.dtype = DTYPE_BF16,
                                      .y = copy_of(c->y, c, i),
                                      .x = copy_of(c->x, c, i),
                                      .weight = c->weight,
                                      .num_rows = c->tokens,
                                      .hidden_size = c->size,
                                      .eps = 1e-6f};
    ok(backend.kernels->rmsnorm(stream, &args));
}

static void put_rope_kv(void *state, int i)
{
    struct rows_case *c = state;
    const struct rope_kv_args args = {.dtype = DTYPE_BF16,
                                      .qkv = copy_of(c->x, c, i),
                                      .q_norm = c->weight,
                                      .k_norm = c->weight,
                                      .cos_sin = c->cos_sin,
                                      .positions = c->positions,
                                      .out_loc = c->out_loc,
                                      .k_cache = c->k_cache,
                                      .v_cache = c->v_cache,
                                      .num_tokens = c->tokens,
                                      .num_qo_heads = c->num_qo,
                                      .num_kv_heads = c->num_kv,
                                      .head_dim = 128,
                                      .eps = 1e-6f};
    ok(backend.kernels->rope_kv(stream, &args));
}

static void bench_rows(const char *what, void (*put)(void *, int), int32_t tokens, int32_t size,
                       int32_t in_size, double bytes)
{
    struct rows_case c = {.tokens = tokens, .size = size, .num_qo = 16, .num_kv = 8};
    int32_t *indices = malloc((size_t)tokens * sizeof(*indices));
    char name[128];

    snprintf(name, sizeof(name), "%s %d x %d", what, tokens, size);
    if (wanted(name)) {
        c.stride = (size_t)tokens * (size_t)in_size * 2;
        c.num_copies = 1 + (int)((200u << 20) / c.stride < 28 ? (200u << 20) / c.stride : 28);
        c.x = random_dev(c.stride * (size_t)c.num_copies);
        c.y = random_dev(c.stride * (size_t)c.num_copies);
        c.weight = random_dev((size_t)size * 2);
        for (int32_t t = 0; t < tokens; t++)
            indices[t] = t;
        c.positions = c.out_loc = dev_of(indices, (size_t)tokens * sizeof(*indices));
        c.cos_sin = random_dev((size_t)tokens * 128 * 4);
        c.k_cache = random_dev((size_t)tokens * 1024 * 2);
        c.v_cache = random_dev((size_t)tokens * 1024 * 2);
        report(name, time_graph(put, &c, REPEATS), bytes, 0);
        end_case();
    }
    free(indices);
}

/* ---- linear ---- */

enum product { PLAIN, SUM, GATE_UP };

struct linear_case {
    struct linear_weight *weights[64];
    int num_weights;
    void *x, *y, *narrow;
    enum dtype y_dtype;
    int32_t tokens, n;
    enum product product;
};

static void put_linear(void *state, int i)
{
    struct linear_case *c = state;
    const struct gate_up_args gate_up = {.dtype = DTYPE_BF16,
                                         .weight = c->weights[i % c->num_weights],
                                         .y = c->narrow,
                                         .wide = c->y,
                                         .x = c->x,
                                         .num_tokens = c->tokens,
                                         .inner_size = c->n / 2};
    const struct linear_args args = {.weight = c->weights[i % c->num_weights],
                                     .y = c->y,
                                     .x = c->x,
                                     .y_dtype = c->y_dtype,
                                     .num_tokens = c->tokens,
                                     .accumulate = c->product == SUM};
    if (c->product == GATE_UP)
        ok(backend.kernels->gate_up(stream, &gate_up));
    else
        ok(backend.kernels->linear(stream, &args));
}

static void bench_linear(const char *what, int32_t n, int32_t k, enum product product,
                         const int32_t *tokens, int num)
{
    struct linear_case c = {
        .product = product, .n = n, .y_dtype = n > 100000 ? DTYPE_F32 : DTYPE_BF16};
    size_t size = (size_t)n * (size_t)k * 2;
    uint16_t *data;
    char name[128];

    if (!wanted(what))
        return;
    data = malloc(size);
    for (size_t at = 0; at < size; at += NOISE_SIZE)
        memcpy((char *)data + at, noise, size - at < NOISE_SIZE ? size - at : NOISE_SIZE);
    c.num_weights = (int)((400u << 20) / size) + 1;
    c.num_weights = c.num_weights < REPEATS ? c.num_weights : REPEATS;
    for (int i = 0; i < c.num_weights; i++) {
        const struct linear_part part = {.data = data, .dtype = DTYPE_BF16, .n = n};
        const struct linear_source source = {
            .parts = &part, .num_parts = 1, .k = k, .dtype = DTYPE_BF16};
        ok(backend.kernels->linear_create(stream, &source, &c.weights[i]));
    }
    for (int i = 0; i < num; i++) {
        double wide = (double)tokens[i] * n * (double)dtype_size(c.y_dtype);
        double y_size = product == GATE_UP ? wide / 2 : wide;

        c.tokens = tokens[i];
        c.x = random_dev((size_t)tokens[i] * (size_t)k * 2);
        c.y = random_dev((size_t)wide);
        c.narrow = random_dev((size_t)wide);
        snprintf(name, sizeof(name), "%s [%d, %d] x %d", what, n, k, tokens[i]);
        report(name, time_graph(put_linear, &c, tokens[i] > 1000 ? 8 : REPEATS),
               (double)size + (double)tokens[i] * k * 2 + y_size,
               2.0 * (double)tokens[i] * (double)n * (double)k);
        end_case();
    }
    for (int i = 0; i < c.num_weights; i++)
        backend.kernels->linear_destroy(&c.weights[i]);
    free(data);
}

static void bench_load(void)
{
    struct linear_weight *weight = NULL;
    int32_t n = 100000, k = 5120;
    uint16_t *data;

    if (!wanted("load"))
        return;
    data = malloc((size_t)n * (size_t)k * 2);
    memset(data, 1, (size_t)n * (size_t)k * 2);
    const struct linear_part part = {.data = data, .dtype = DTYPE_BF16, .n = n};
    const struct linear_source source = {
        .parts = &part, .num_parts = 1, .k = k, .dtype = DTYPE_BF16};
    int64_t begin = clock_now_ns();
    ok(backend.kernels->linear_create(stream, &source, &weight));
    ok(backend.device->stream_sync(stream));
    report("load 1 GB weight", (double)(clock_now_ns() - begin) / 1e3, (double)n * k * 2, 0);
    backend.kernels->linear_destroy(&weight);
    free(data);
}

/* ---- attention ---- */

struct attention_case {
    struct attention_args args;
    size_t layer_size; /* bytes of K of one launch */
    int num_layers;
    char *k, *v;
};

static void put_attention(void *state, int i)
{
    struct attention_case *c = state;
    struct attention_args args = c->args;

    args.k_cache = c->k + (size_t)(i % c->num_layers) * c->layer_size;
    args.v_cache = c->v + (size_t)(i % c->num_layers) * c->layer_size;
    ok(backend.kernels->attention(stream, &args));
}

/* Rows of kv positions, or of kv - spread to kv + spread. */
static void bench_attention(int32_t rows, int32_t extend, int32_t kv, int32_t spread,
                            int32_t num_qo, int32_t page_size, int32_t max_kv)
{
    enum { KV_HEADS = 8, DIM = 128 };
    int32_t pages = (kv + spread) / page_size + 1, *table, *cu, *lens, *idx;
    int32_t tokens = rows * extend;
    struct attention_case c = {.num_layers = 1};
    double pairs = 0;
    int64_t positions = 0;
    char name[128];

    snprintf(name, sizeof(name), "%s %d x %d of %d%s, %d heads, page %d%s",
             extend == 1 ? "decode" : "prefill", rows, extend, kv, spread ? " mixed" : "", num_qo,
             page_size, max_kv > kv + spread ? ", loose" : "");
    if (!wanted(name))
        return;
    table = malloc((size_t)(rows * pages) * 4);
    cu = malloc((size_t)(rows + 1) * 4);
    lens = malloc((size_t)rows * 4);
    idx = malloc((size_t)rows * 4);
    for (int32_t i = 0; i < rows * pages; i++) /* a permutation: the factor is a prime */
        table[i] = (int32_t)((int64_t)i * 1000003 % (rows * pages));
    for (int32_t r = 0; r < rows; r++) {
        cu[r] = r * extend;
        lens[r] = kv - spread;
        if (spread)
            lens[r] += (int32_t)((int64_t)(r * 101 % rows) * 2 * spread / (rows - 1));
        idx[r] = r;
        positions += lens[r];
        pairs += (double)extend * lens[r] - (double)extend * (extend - 1) / 2;
    }
    cu[rows] = tokens;
    c.layer_size = (size_t)(rows * pages * page_size) * KV_HEADS * DIM * 2;
    while (c.num_layers < 8 && (size_t)c.num_layers * c.layer_size < (200u << 20))
        c.num_layers++;
    c.k = random_dev(c.layer_size * (size_t)c.num_layers);
    c.v = random_dev(c.layer_size * (size_t)c.num_layers);
    const struct ops_limits limits = {.dtype = DTYPE_BF16,
                                      .max_tokens = tokens,
                                      .max_rows = rows,
                                      .max_kv_len = max_kv,
                                      .hidden_size = 1024,
                                      .num_qo_heads = num_qo,
                                      .num_kv_heads = KV_HEADS,
                                      .head_dim = DIM,
                                      .vocab_size = 1000};
    c.args = (struct attention_args){
        .dtype = DTYPE_BF16,
        .out = random_dev((size_t)tokens * (size_t)num_qo * DIM * 2),
        .qkv = random_dev((size_t)tokens * (size_t)(num_qo + 2 * KV_HEADS) * DIM * 2),
        .page_table = dev_of(table, (size_t)(rows * pages) * 4),
        .page_table_stride = pages,
        .page_size = page_size,
        .cu_seqlens_q = dev_of(cu, (size_t)(rows + 1) * 4),
        .kv_lens = dev_of(lens, (size_t)rows * 4),
        .row_table_idx = dev_of(idx, (size_t)rows * 4),
        .num_tokens = tokens,
        .num_rows = rows,
        .max_extend_len = extend,
        .max_kv_len = max_kv,
        .num_qo_heads = num_qo,
        .num_kv_heads = KV_HEADS,
        .head_dim = DIM,
        .scale = 0.0883883f,
        .workspace = random_dev(backend.kernels->workspace_size(device, &limits))};
    report(name, time_graph(put_attention, &c, extend == 1 ? REPEATS : 2),
           4.0 * (double)positions * KV_HEADS * DIM + 2.0 * tokens * num_qo * DIM * 2,
           4.0 * pairs * num_qo * DIM);
    end_case();
    free(table);
    free(cu);
    free(lens);
    free(idx);
}

/* ---- sample ---- */

static void put_sample(void *state, int i)
{
    (void)i;
    ok(backend.kernels->sample(stream, (const struct sample_args *)state));
}

static void bench_sample(const char *what, int32_t rows, float temperature, float top_p,
                         int32_t top_k, float spread)
{
    enum { VOCAB = 151936 };
    size_t n = (size_t)rows * VOCAB;
    float *logits, t[256], p[256], zero[256] = {0};
    int32_t k[256], idx[256];
    uint64_t seed[256];
    char name[128];

    snprintf(name, sizeof(name), "sample %s, %d rows", what, rows);
    if (!wanted(name))
        return;
    logits = malloc(n * 4);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)noise[(i * 7 + i / 1000003) % (NOISE_SIZE / 2)] << 16;

        memcpy(&logits[i], &bits, 4);
        logits[i] = spread * (logits[i] + (float)(i % 97) * 1e-4f);
    }
    for (int32_t r = 0; r < rows; r++) {
        t[r] = temperature;
        p[r] = top_p;
        k[r] = top_k;
        idx[r] = r;
        seed[r] = (uint64_t)r * 77;
    }
    const struct ops_limits limits = {.dtype = DTYPE_BF16,
                                      .max_tokens = rows,
                                      .max_rows = rows,
                                      .max_kv_len = 16,
                                      .num_qo_heads = 1,
                                      .num_kv_heads = 1,
                                      .head_dim = 64,
                                      .vocab_size = VOCAB};
    int32_t *ids = dev_of(idx, sizeof(idx));
    struct sample_args args = {
        .logits = dev_of(logits, n * 4),
        .num_rows = rows,
        .vocab_size = VOCAB,
        .inputs = {.temperature = dev_of(t, sizeof(t)),
                   .top_p = dev_of(p, sizeof(p)),
                   .min_p = dev_of(zero, sizeof(zero)),
                   .top_k = dev_of(k, sizeof(k)),
                   .sample_table_idx = ids,
                   .sample_pos = ids,
                   .seed = dev_of(seed, sizeof(seed)),
                   .max_rows = 256},
        .token_pool = random_dev(256 * 256 * 4),
        .token_pool_stride = 256,
        .results = random_dev(256 * 4),
        .step_counter = random_dev(4),
        .workspace = random_dev(backend.kernels->workspace_size(device, &limits) + 256)};
    report(name, time_graph(put_sample, &args, 4), (double)n * 4, 0);
    end_case();
    free(logits);
}

/* ---- a whole decode step of Qwen3-0.6B ---- */

enum { LAYERS = 28, HIDDEN = 1024, Q_HEADS = 16, KV_HEADS = 8, HEAD_DIM = 128, INNER = 3072 };
enum { QKV = (Q_HEADS + 2 * KV_HEADS) * HEAD_DIM, STEP_VOCAB = 151936 };

struct step_case {
    struct linear_weight *qkv[LAYERS], *o[LAYERS], *gate_up[LAYERS], *down[LAYERS], *lm_head;
    void *x, *normed, *qkv_out, *attended, *wide, *inner, *norm, *logits;
    char *k, *v;
    size_t layer_size;
    struct rope_kv_args rope;
    struct attention_args attention;
    struct sample_args sample;
    int32_t rows;
};

static void step_linear(struct linear_weight *weight, void *y, const void *x, bool accumulate,
                        enum dtype y_dtype, int32_t rows)
{
    const struct linear_args args = {.weight = weight,
                                     .y = y,
                                     .x = x,
                                     .y_dtype = y_dtype,
                                     .num_tokens = rows,
                                     .accumulate = accumulate};
    ok(backend.kernels->linear(stream, &args));
}

static void step_norm(const struct step_case *c)
{
    const struct rmsnorm_args args = {.dtype = DTYPE_BF16,
                                      .y = c->normed,
                                      .x = c->x,
                                      .weight = c->norm,
                                      .num_rows = c->rows,
                                      .hidden_size = HIDDEN,
                                      .eps = 1e-6f};
    ok(backend.kernels->rmsnorm(stream, &args));
}

static void put_step(void *state, int i)
{
    struct step_case *c = state;
    struct gate_up_args gate_up = {.dtype = DTYPE_BF16,
                                   .y = c->inner,
                                   .wide = c->wide,
                                   .x = c->normed,
                                   .num_tokens = c->rows,
                                   .inner_size = INNER};

    (void)i;
    for (int layer = 0; layer < LAYERS; layer++) {
        c->rope.k_cache = c->k + (size_t)layer * c->layer_size;
        c->rope.v_cache = c->v + (size_t)layer * c->layer_size;
        c->attention.k_cache = c->rope.k_cache;
        c->attention.v_cache = c->rope.v_cache;
        step_norm(c);
        step_linear(c->qkv[layer], c->qkv_out, c->normed, false, DTYPE_BF16, c->rows);
        ok(backend.kernels->rope_kv(stream, &c->rope));
        ok(backend.kernels->attention(stream, &c->attention));
        step_linear(c->o[layer], c->x, c->attended, true, DTYPE_BF16, c->rows);
        step_norm(c);
        gate_up.weight = c->gate_up[layer];
        ok(backend.kernels->gate_up(stream, &gate_up));
        step_linear(c->down[layer], c->x, c->inner, true, DTYPE_BF16, c->rows);
    }
    step_norm(c);
    step_linear(c->lm_head, c->logits, c->normed, false, DTYPE_F32, c->rows);
    ok(backend.kernels->sample(stream, &c->sample));
}

static struct linear_weight *step_weight(int32_t n, int32_t k)
{
    static uint16_t *data; /* small, so that the residual stays finite */
    const size_t len = (size_t)STEP_VOCAB * HIDDEN;
    struct linear_weight *weight = NULL;

    if (data == NULL) {
        data = malloc(len * 2);
        for (size_t i = 0; i < len; i++)
            data[i] = (uint16_t)(noise[i % (NOISE_SIZE / 2)] - (4 << 7)); /* over 16 */
    }
    const struct linear_part part = {.data = data, .dtype = DTYPE_BF16, .n = n};
    const struct linear_source source = {
        .parts = &part, .num_parts = 1, .k = k, .dtype = DTYPE_BF16};
    ok(backend.kernels->linear_create(stream, &source, &weight));
    return weight;
}

static void bench_step(int32_t rows, int32_t kv, float temperature)
{
    enum { PAGE = 16 };
    int32_t pages = kv / PAGE, indices[257], slots[256], lens[256], *table;
    float t[256], one[256], zero[256] = {0};
    uint64_t seed[256] = {0};
    struct step_case c = {.rows = rows};
    size_t tokens = (size_t)rows;
    char name[128];

    snprintf(name, sizeof(name), "step 0.6B, %d rows of %d, temperature %.1f", rows, kv,
             (double)temperature);
    if (!wanted(name))
        return;
    table = malloc((size_t)(rows * pages) * 4);
    for (int32_t i = 0; i < rows * pages; i++)
        table[i] = (int32_t)((int64_t)i * 1000003 % (rows * pages));
    for (int32_t r = 0; r <= rows; r++)
        indices[r] = r;
    for (int32_t r = 0; r < rows; r++) {
        slots[r] = table[(r + 1) * pages - 1] * PAGE + PAGE - 1;
        lens[r] = kv;
        t[r] = temperature;
        one[r] = 1;
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        c.qkv[layer] = step_weight(QKV, HIDDEN);
        c.o[layer] = step_weight(HIDDEN, Q_HEADS * HEAD_DIM);
        c.gate_up[layer] = step_weight(2 * INNER, HIDDEN);
        c.down[layer] = step_weight(HIDDEN, INNER);
    }
    c.lm_head = step_weight(STEP_VOCAB, HIDDEN);
    c.layer_size = tokens * (size_t)kv * KV_HEADS * HEAD_DIM * 2;
    c.k = random_dev(c.layer_size * LAYERS);
    c.v = random_dev(c.layer_size * LAYERS);
    c.x = random_dev(tokens * HIDDEN * 2);
    c.normed = random_dev(tokens * HIDDEN * 2);
    c.qkv_out = random_dev(tokens * QKV * 2);
    c.attended = random_dev(tokens * Q_HEADS * HEAD_DIM * 2);
    c.wide = random_dev(tokens * 2 * INNER * 2);
    c.inner = random_dev(tokens * INNER * 2);
    c.norm = random_dev(2 * HIDDEN);
    c.logits = random_dev(tokens * STEP_VOCAB * 4);
    int32_t *index = dev_of(indices, sizeof(indices)), *len = dev_of(lens, sizeof(lens));
    const struct ops_limits limits = {.dtype = DTYPE_BF16,
                                      .max_tokens = rows,
                                      .max_rows = rows,
                                      .max_kv_len = 40960,
                                      .hidden_size = HIDDEN,
                                      .num_qo_heads = Q_HEADS,
                                      .num_kv_heads = KV_HEADS,
                                      .head_dim = HEAD_DIM,
                                      .vocab_size = STEP_VOCAB};
    void *workspace = random_dev(backend.kernels->workspace_size(device, &limits) + 256);
    c.rope = (struct rope_kv_args){.dtype = DTYPE_BF16,
                                   .qkv = c.qkv_out,
                                   .q_norm = c.norm,
                                   .k_norm = c.norm,
                                   .cos_sin = dev_of(one, sizeof(one)), /* position 0 alone */
                                   .positions = dev_of(zero, sizeof(zero)),
                                   .out_loc = dev_of(slots, sizeof(slots)),
                                   .num_tokens = rows,
                                   .num_qo_heads = Q_HEADS,
                                   .num_kv_heads = KV_HEADS,
                                   .head_dim = HEAD_DIM,
                                   .eps = 1e-6f};
    c.attention = (struct attention_args){.dtype = DTYPE_BF16,
                                          .out = c.attended,
                                          .qkv = c.qkv_out,
                                          .page_table = dev_of(table, (size_t)(rows * pages) * 4),
                                          .page_table_stride = pages,
                                          .page_size = PAGE,
                                          .cu_seqlens_q = index,
                                          .kv_lens = len,
                                          .row_table_idx = index,
                                          .num_tokens = rows,
                                          .num_rows = rows,
                                          .max_extend_len = 1,
                                          .max_kv_len = 40960,
                                          .num_qo_heads = Q_HEADS,
                                          .num_kv_heads = KV_HEADS,
                                          .head_dim = HEAD_DIM,
                                          .scale = 0.0883883f,
                                          .workspace = workspace};
    c.sample = (struct sample_args){.logits = c.logits,
                                    .num_rows = rows,
                                    .vocab_size = STEP_VOCAB,
                                    .inputs = {.temperature = dev_of(t, sizeof(t)),
                                               .top_p = dev_of(one, sizeof(one)),
                                               .min_p = dev_of(zero, sizeof(zero)),
                                               .top_k = dev_of(zero, sizeof(zero)),
                                               .sample_table_idx = index,
                                               .sample_pos = index,
                                               .seed = dev_of(seed, sizeof(seed)),
                                               .max_rows = 256},
                                    .token_pool = random_dev(256 * 256 * 4),
                                    .token_pool_stride = 256,
                                    .results = random_dev(256 * 4),
                                    .step_counter = random_dev(4),
                                    .workspace = workspace};
    double weights = (double)LAYERS * 2 * HIDDEN * (QKV + Q_HEADS * HEAD_DIM + 3 * INNER);
    report(name, time_graph(put_step, &c, 1),
           weights + 2.0 * STEP_VOCAB * HIDDEN + 2 * (double)c.layer_size * LAYERS, 0);
    for (int layer = 0; layer < LAYERS; layer++) {
        backend.kernels->linear_destroy(&c.qkv[layer]);
        backend.kernels->linear_destroy(&c.o[layer]);
        backend.kernels->linear_destroy(&c.gate_up[layer]);
        backend.kernels->linear_destroy(&c.down[layer]);
    }
    backend.kernels->linear_destroy(&c.lm_head);
    end_case();
    free(table);
}

/* ---- all of it ---- */

static void bench_all(void)
{
    static const int32_t sizes[] = {1, 64, 256, 8192}, few[] = {1, 4, 8, 16, 32, 64, 128, 256};
    static const int32_t many[] = {2048, 8192};

    for (int i = 0; i < 4; i++) {
        double t = sizes[i];

        bench_rows("rmsnorm", put_rmsnorm, sizes[i], 1024, 1024, t * 1024 * 4);
        bench_rows("rmsnorm", put_rmsnorm, sizes[i], 5120, 5120, t * 5120 * 4);
        bench_rows("rope_kv", put_rope_kv, sizes[i], 4096, 4096,
                   t * (3072 * 4 + 1024 * 2 + 2048 * 2 + 512));
    }
    bench_load();
    bench_linear("qkv", 4096, 1024, PLAIN, few, 8);
    bench_linear("o", 1024, 2048, SUM, few, 8);
    bench_linear("gate_up", 6144, 1024, GATE_UP, few, 8);
    bench_linear("down", 1024, 3072, SUM, few, 8);
    bench_linear("lm_head", 151936, 1024, PLAIN, few, 8);
    bench_linear("big qkv", 7168, 5120, PLAIN, few, 8);
    bench_linear("big o", 5120, 5120, SUM, few, 8);
    bench_linear("big gate_up", 34816, 5120, GATE_UP, few, 8);
    bench_linear("big down", 5120, 17408, SUM, few, 8);
    bench_linear("many qkv", 4096, 1024, PLAIN, many, 2);
    bench_linear("many gate_up", 6144, 1024, GATE_UP, many, 2);
    for (int heads = 16; heads <= 40; heads += 24) {
        bench_attention(1, 1, 512, 0, heads, 16, 512);
        bench_attention(1, 1, 4096, 0, heads, 16, 4096);
        bench_attention(1, 1, 512, 0, heads, 16, 32768);
        bench_attention(16, 1, 512, 0, heads, 16, 512);
        bench_attention(32, 1, 512, 0, heads, 16, 512);
        bench_attention(64, 1, 512, 0, heads, 16, 512);
        bench_attention(64, 1, 1024, 0, heads, 16, 1024);
        bench_attention(256, 1, 1024, 0, heads, 16, 1024);
        bench_attention(256, 1, 1024, 0, heads, 16, 32768);
        bench_attention(256, 1, 1024, 0, heads, 1, 1024);
        bench_attention(256, 1, 1050, 0, heads, 16, 32768);
        bench_attention(256, 1, 1050, 950, heads, 16, 32768);
        bench_attention(128, 1, 1050, 0, heads, 16, 32768);
        bench_attention(128, 1, 1050, 950, heads, 16, 32768);
        bench_attention(64, 1, 4096, 0, heads, 16, 4096);
        bench_attention(64, 1024, 1024, 0, heads, 16, 1024);
        bench_attention(4, 8192, 8192, 0, heads, 16, 8192);
        bench_attention(4, 1024, 8192, 0, heads, 16, 8192);
    }
    for (int rows = 1; rows <= 256; rows *= 4) {
        bench_step(rows, 384, 0);
        bench_step(rows, 384, 0.6f);
    }
    for (int rows = 1; rows <= 256; rows = rows == 1 ? 64 : rows * 4) {
        bench_sample("greedy", rows, 0, 1, 0, 3);
        bench_sample("top-k 20, top-p 0.8", rows, 0.7f, 0.8f, 20, 3);
        bench_sample("top-k 50, flat", rows, 1, 1, 50, 1);
        bench_sample("top-p 0.95, steep", rows, 0.6f, 0.95f, 0, 3);
        bench_sample("temperature, steep", rows, 0.6f, 1, 0, 3);
        bench_sample("top-p 0.9, flat", rows, 1, 0.9f, 0, 1);
        bench_sample("temperature, flat", rows, 1, 1, 0, 1);
    }
}

int main(int argc, char **argv)
{
    const struct device_args args = {0};
    struct device_info info;
    uint64_t state = 1;

    filters = argv + 1;
    num_filters = argc - 1;
    ok(backend_open("cuda", &backend));
    ok(backend.device->open(&args, &device));
    ok(backend.device->info(device, &info));
    ok(backend.device->stream_create(device, false, &stream));
    ok(backend.device->event_create(device, &begin_event));
    ok(backend.device->event_create(device, &end_event));
    noise = malloc(NOISE_SIZE);
    for (size_t i = 0; i < NOISE_SIZE / 2; i++) {
        uint64_t z = sample_mix(state += 0x9E3779B97F4A7C15u);
        float sum = -4, value;
        uint32_t bits;

        for (int j = 0; j < 8; j++)
            sum += (float)(z >> 8 * j & 255) / 255;
        value = sum * 1.2f; /* about normal, deviation 1 */
        memcpy(&bits, &value, 4);
        noise[i] = (uint16_t)(bits >> 16);
    }
    printf("%s\n", info.name);
    bench_all();
    free(noise);
    backend.device->event_destroy(&begin_event);
    backend.device->event_destroy(&end_event);
    backend.device->stream_destroy(&stream);
    backend.device->close(&device);
    return 0;
}
