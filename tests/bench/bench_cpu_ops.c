/*
 * bench_cpu_ops.c - what the cpu back end's operators reach, beside what the machine can do.
 *
 *     bench_cpu_ops [THREADS [float32|bfloat16]]
 *
 * First the ceilings, with the same threads: reading memory, a product of 2048-cubes by our own
 * linear and by oneDNN where it is there. Then whole steps of SmolLM2-135M's shape with random
 * weights, each operator timed by events: decode behind 512 tokens, sixteen streams behind 64,
 * a prefill of 512. Memory-bound operators are given with their share of the read bandwidth, the
 * others with their share of the product's rate.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/pool.h"
#include "kernels/element.h"
#include "kernels/ops.h"
#if defined(HAVE_DNNL)
#include <dnnl.h>
#endif

enum {
    LAYERS = 30,
    HIDDEN = 576,
    QO_HEADS = 9,
    KV_HEADS = 3,
    HEAD_DIM = 64,
    INNER = 1536,
    VOCAB = 49152,
    QKV = (QO_HEADS + 2 * KV_HEADS) * HEAD_DIM,
    PAGE_SIZE = 16,
    MAX_TOKENS = 2048,
    MAX_ROWS = 16,
    MAX_KV = 1024,
    PAGES_PER_ROW = MAX_KV / PAGE_SIZE,
    REPEATS = 7,
};

enum kind {
    KIND_BEGIN,
    KIND_EMBED,
    KIND_RMSNORM,
    KIND_QKV,
    KIND_ROPE_KV,
    KIND_ATTENTION,
    KIND_O,
    KIND_GATE_UP,
    KIND_DOWN,
    KIND_LM_HEAD,
    KIND_SAMPLE,
    NUM_KINDS,
};

static const char *const kind_names[NUM_KINDS] = {
    "start",    "embed",   "rmsnorm",     "linear qkv", "rope_kv", "attention",
    "linear o", "gate_up", "linear down", "lm_head",    "sample"};

struct bench {
    const struct device_ops *dev;
    const struct kernels *k;
    struct device *device;
    struct stream *stream;
    enum dtype dtype;
    struct linear_weight *qkv[LAYERS], *o[LAYERS], *gate_up[LAYERS], *down[LAYERS], *lm_head;
    void *norm, *k_cache, *v_cache, *workspace;
    void *x, *h, *wide, *narrow;
    float *logits, *cos_sin;
    int32_t page_table[(MAX_ROWS + 1) * PAGES_PER_ROW];
    int32_t token_pool[MAX_ROWS + 1][MAX_KV];
    int32_t token_table_idx[MAX_TOKENS], positions[MAX_TOKENS], out_loc[MAX_TOKENS];
    int32_t cu_seqlens_q[MAX_ROWS + 1], kv_lens[MAX_ROWS], row_table_idx[MAX_ROWS];
    int32_t sample_pos[MAX_ROWS], top_k[MAX_ROWS], results[MAX_ROWS];
    uint32_t step_counter;
    float temperature[MAX_ROWS], top_p[MAX_ROWS], min_p[MAX_ROWS];
    uint64_t seed[MAX_ROWS];
    double bandwidth, product_rate; /* GB/s, GFLOP/s */
    struct event *events[LAYERS * 10 + 10];
    enum kind kinds[LAYERS * 10 + 10];
    int32_t num_events;
    bool with_events;
};

static struct bench bench; /* too large for a stack */

static void must(struct status status)
{
    if (status.code == STATUS_OK)
        return;
    fprintf(stderr, "bench_cpu_ops: %s\n", status.msg);
    exit(1);
}

static void *alloc(struct bench *b, size_t size)
{
    void *data = NULL;

    must(b->dev->alloc(b->device, size, &data));
    memset(data, 0, size);
    return data;
}

static void fill_random(void *data, enum dtype dtype, size_t n, float scale)
{
    uint64_t state = n;

    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        element_store(data, dtype, i, ((float)(state >> 40) * 0x1p-23f - 1) * scale);
    }
}

static struct linear_weight *create_weight(struct bench *b, int32_t n, int32_t k)
{
    void *data = alloc(b, (size_t)n * (size_t)k * dtype_size(b->dtype));
    struct linear_part part = {.data = data, .dtype = b->dtype, .n = n};
    struct linear_source source = {.parts = &part, .num_parts = 1, .k = k, .dtype = b->dtype};
    struct linear_weight *weight = NULL;

    fill_random(data, b->dtype, (size_t)n * (size_t)k, 0.05f);
    must(b->k->linear_create(b->stream, &source, &weight));
    must(b->dev->stream_sync(b->stream));
    b->dev->free(b->device, data);
    return weight;
}

/* GB/s of reading 256 MB, the best of some. */

struct reading {
    const uint64_t *data;
    size_t num_per_task;
    uint64_t sums[1024];
};

static void read_task(void *arg, int32_t task, int32_t thread)
{
    struct reading *reading = arg;
    const uint64_t *data = reading->data + (size_t)task * reading->num_per_task;
    uint64_t sums[8] = {0};

    for (size_t i = 0; i < reading->num_per_task; i += 8)
        for (size_t j = 0; j < 8; j++)
            sums[j] += data[i + j];
    for (size_t j = 0; j < 8; j++)
        reading->sums[thread] += sums[j];
}

static double measure_bandwidth(int32_t num_threads)
{
    enum { SIZE = 256 << 20, NUM_TASKS = 512 };
    struct pool *pool = NULL;
    static struct reading reading;
    int64_t best = INT64_MAX;
    uint64_t *data = aligned_alloc(2 << 20, SIZE);

    must(pool_create(num_threads, &pool));
    memset(data, 1, SIZE);
    reading.data = data;
    reading.num_per_task = SIZE / NUM_TASKS / sizeof(*data);
    for (int i = 0; i < REPEATS; i++) {
        int64_t start = clock_now_ns();
        pool_run(pool, NUM_TASKS, read_task, &reading);
        int64_t time = clock_now_ns() - start;
        best = time < best ? time : best;
    }
    pool_destroy(&pool);
    free(data);
    return (double)SIZE / (double)best;
}

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* The median time of one linear, warm. */
static double time_linear(struct bench *b, int32_t num_tokens, int32_t n, int32_t k)
{
    struct linear_weight *weight = create_weight(b, n, k);
    void *x = alloc(b, (size_t)num_tokens * (size_t)k * dtype_size(b->dtype));
    void *y = alloc(b, (size_t)num_tokens * (size_t)n * dtype_size(b->dtype));
    struct linear_args args = {
        .weight = weight, .y = y, .x = x, .y_dtype = b->dtype, .num_tokens = num_tokens};
    int64_t times[REPEATS];

    fill_random(x, b->dtype, (size_t)num_tokens * (size_t)k, 1);
    for (int i = 0; i < REPEATS; i++) {
        int64_t start = clock_now_ns();
        must(b->k->linear(b->stream, &args));
        must(b->dev->stream_sync(b->stream));
        times[i] = clock_now_ns() - start;
    }
    qsort(times, REPEATS, sizeof(times[0]), compare_times);
    b->k->linear_destroy(&weight);
    b->dev->free(b->device, x);
    b->dev->free(b->device, y);
    return (double)times[REPEATS / 2];
}

#if defined(HAVE_DNNL)
/* GFLOP/s of oneDNN's product of 2048-cubes. It takes its threads from OMP_NUM_THREADS. */
static double measure_dnnl(enum dtype dtype)
{
    const dnnl_dims_t dims = {2048, 2048};
    dnnl_data_type_t type = dtype == DTYPE_F32 ? dnnl_f32 : dnnl_bf16;
    dnnl_memory_desc_t a, w, c;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t primitive_desc;
    dnnl_primitive_t primitive;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_memory_t memory[3];
    void *data[3];
    int64_t best = INT64_MAX;

    dnnl_memory_desc_init_by_tag(&a, 2, dims, type, dnnl_ab);
    dnnl_memory_desc_init_by_tag(&w, 2, dims, type, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&c, 2, dims, dnnl_f32, dnnl_ab);
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success ||
        dnnl_matmul_desc_init(&desc, &a, &w, NULL, &c) != dnnl_success ||
        dnnl_primitive_desc_create(&primitive_desc, &desc, NULL, engine, NULL) != dnnl_success ||
        dnnl_primitive_create(&primitive, primitive_desc) != dnnl_success)
        return 0;
    const dnnl_memory_desc_t *descs[3] = {
        &a, dnnl_primitive_desc_query_md(primitive_desc, dnnl_query_weights_md, 0), &c};
    for (int i = 0; i < 3; i++) {
        size_t size = dnnl_memory_desc_get_size(descs[i]);
        data[i] = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
        memset(data[i], 0, size);
        if (dnnl_memory_create(&memory[i], descs[i], engine, data[i]) != dnnl_success)
            return 0;
    }
    const dnnl_exec_arg_t args[3] = {
        {DNNL_ARG_SRC, memory[0]}, {DNNL_ARG_WEIGHTS, memory[1]}, {DNNL_ARG_DST, memory[2]}};
    for (int i = 0; i < REPEATS; i++) {
        int64_t start = clock_now_ns();
        dnnl_primitive_execute(primitive, stream, 3, args);
        dnnl_stream_wait(stream);
        int64_t time = clock_now_ns() - start;
        best = time < best ? time : best;
    }
    for (int i = 0; i < 3; i++) {
        dnnl_memory_destroy(memory[i]);
        free(data[i]);
    }
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(primitive_desc);
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    return 2.0 * 2048 * 2048 * 2048 / (double)best;
}
#endif

static void model_create(struct bench *b)
{
    size_t size = dtype_size(b->dtype);
    size_t cache = (size_t)LAYERS * MAX_ROWS * MAX_KV * KV_HEADS * HEAD_DIM;
    struct ops_limits limits = {.dtype = b->dtype,
                                .max_tokens = MAX_TOKENS,
                                .max_rows = MAX_ROWS,
                                .max_kv_len = MAX_KV,
                                .hidden_size = HIDDEN,
                                .num_qo_heads = QO_HEADS,
                                .num_kv_heads = KV_HEADS,
                                .head_dim = HEAD_DIM,
                                .vocab_size = VOCAB};

    for (int i = 0; i < LAYERS; i++) {
        b->qkv[i] = create_weight(b, QKV, HIDDEN);
        b->o[i] = create_weight(b, HIDDEN, QO_HEADS * HEAD_DIM);
        b->gate_up[i] = create_weight(b, 2 * INNER, HIDDEN);
        b->down[i] = create_weight(b, HIDDEN, INNER);
    }
    b->lm_head = create_weight(b, VOCAB, HIDDEN);
    b->norm = alloc(b, HIDDEN * size);
    fill_random(b->norm, b->dtype, HIDDEN, 1);
    b->k_cache = alloc(b, cache * size);
    b->v_cache = alloc(b, cache * size);
    fill_random(b->k_cache, b->dtype, cache, 1);
    fill_random(b->v_cache, b->dtype, cache, 1);
    b->x = alloc(b, MAX_TOKENS * HIDDEN * size);
    b->h = alloc(b, MAX_TOKENS * HIDDEN * size);
    b->wide = alloc(b, (size_t)MAX_TOKENS * 2 * INNER * size);
    b->narrow = alloc(b, (size_t)MAX_TOKENS * INNER * size);
    b->logits = alloc(b, (size_t)MAX_ROWS * VOCAB * sizeof(float));
    b->cos_sin = alloc(b, (size_t)MAX_KV * HEAD_DIM * sizeof(float));
    fill_random(b->cos_sin, DTYPE_F32, (size_t)MAX_KV * HEAD_DIM, 1);
    b->workspace = alloc(b, b->k->workspace_size(b->device, &limits));
    for (int32_t i = 0; i < MAX_ROWS * PAGES_PER_ROW; i++)
        b->page_table[i] = (int32_t)((int64_t)i * 7919 % (MAX_ROWS * PAGES_PER_ROW));
    for (int32_t i = 0; i < (int32_t)(sizeof(b->events) / sizeof(b->events[0])); i++)
        must(b->dev->event_create(b->device, &b->events[i]));
}

/* The operator that was put last is of this kind. */
static void mark(struct bench *b, enum kind kind)
{
    if (!b->with_events && kind != KIND_BEGIN && kind != KIND_SAMPLE)
        return;
    b->kinds[b->num_events] = kind;
    must(b->dev->event_record(b->stream, b->events[b->num_events++]));
}

static void put_linear(struct bench *b, const struct linear_weight *weight, void *y, const void *x,
                       int32_t num_tokens, bool accumulate, enum kind kind)
{
    struct linear_args args = {.weight = weight,
                               .y = y,
                               .x = x,
                               .y_dtype = kind == KIND_LM_HEAD ? DTYPE_F32 : b->dtype,
                               .num_tokens = num_tokens,
                               .accumulate = accumulate};

    must(b->k->linear(b->stream, &args));
    mark(b, kind);
}

static void put_rmsnorm(struct bench *b, const int32_t *last_of, int32_t num_rows)
{
    struct rmsnorm_args args = {.dtype = b->dtype,
                                .y = b->h,
                                .x = b->x,
                                .weight = b->norm,
                                .last_of = last_of,
                                .num_rows = num_rows,
                                .hidden_size = HIDDEN,
                                .eps = 1e-5f};

    must(b->k->rmsnorm(b->stream, &args));
    mark(b, KIND_RMSNORM);
}

static void put_attention(struct bench *b, int32_t layer, int32_t num_tokens, int32_t num_rows)
{
    size_t offset = (size_t)layer * MAX_ROWS * MAX_KV * KV_HEADS * HEAD_DIM * dtype_size(b->dtype);
    struct rope_kv_args rope = {.dtype = b->dtype,
                                .qkv = b->wide,
                                .cos_sin = b->cos_sin,
                                .positions = b->positions,
                                .out_loc = b->out_loc,
                                .k_cache = (char *)b->k_cache + offset,
                                .v_cache = (char *)b->v_cache + offset,
                                .num_tokens = num_tokens,
                                .num_qo_heads = QO_HEADS,
                                .num_kv_heads = KV_HEADS,
                                .head_dim = HEAD_DIM};
    struct attention_args args = {.dtype = b->dtype,
                                  .out = b->narrow,
                                  .qkv = b->wide,
                                  .k_cache = rope.k_cache,
                                  .v_cache = rope.v_cache,
                                  .page_table = b->page_table,
                                  .page_table_stride = PAGES_PER_ROW,
                                  .page_size = PAGE_SIZE,
                                  .cu_seqlens_q = b->cu_seqlens_q,
                                  .kv_lens = b->kv_lens,
                                  .row_table_idx = b->row_table_idx,
                                  .num_tokens = num_tokens,
                                  .num_rows = num_rows,
                                  .max_extend_len = num_tokens / num_rows,
                                  .max_kv_len = MAX_KV,
                                  .num_qo_heads = QO_HEADS,
                                  .num_kv_heads = KV_HEADS,
                                  .head_dim = HEAD_DIM,
                                  .scale = 0.125f,
                                  .workspace = b->workspace};

    must(b->k->rope_kv(b->stream, &rope));
    mark(b, KIND_ROPE_KV);
    must(b->k->attention(b->stream, &args));
    mark(b, KIND_ATTENTION);
}

/* One step of num_rows rows, each of extend_len tokens behind start. */
static void put_step(struct bench *b, int32_t num_rows, int32_t extend_len)
{
    int32_t num_tokens = num_rows * extend_len;
    struct embed_args embed = {.dtype = b->dtype,
                               .y = b->x,
                               .table = b->lm_head,
                               .token_pool = b->token_pool[0],
                               .token_pool_stride = MAX_KV,
                               .token_table_idx = b->token_table_idx,
                               .positions = b->positions,
                               .num_tokens = num_tokens,
                               .hidden_size = HIDDEN,
                               .vocab_size = VOCAB};
    struct sample_args sample = {.logits = b->logits,
                                 .num_rows = num_rows,
                                 .vocab_size = VOCAB,
                                 .inputs = {.sample_table_idx = b->row_table_idx,
                                            .sample_pos = b->sample_pos,
                                            .temperature = b->temperature,
                                            .top_p = b->top_p,
                                            .min_p = b->min_p,
                                            .top_k = b->top_k,
                                            .seed = b->seed},
                                 .token_pool = b->token_pool[0],
                                 .token_pool_stride = MAX_KV,
                                 .results = b->results,
                                 .step_counter = &b->step_counter,
                                 .workspace = b->workspace};
    struct gate_up_args gate_up = {.dtype = b->dtype,
                                   .y = b->narrow,
                                   .wide = b->wide,
                                   .x = b->h,
                                   .num_tokens = num_tokens,
                                   .inner_size = INNER};

    b->num_events = 0;
    mark(b, KIND_BEGIN);
    must(b->k->embed(b->stream, &embed));
    mark(b, KIND_EMBED);
    for (int32_t i = 0; i < LAYERS; i++) {
        put_rmsnorm(b, NULL, num_tokens);
        put_linear(b, b->qkv[i], b->wide, b->h, num_tokens, false, KIND_QKV);
        put_attention(b, i, num_tokens, num_rows);
        put_linear(b, b->o[i], b->x, b->narrow, num_tokens, true, KIND_O);
        put_rmsnorm(b, NULL, num_tokens);
        gate_up.weight = b->gate_up[i];
        must(b->k->gate_up(b->stream, &gate_up));
        mark(b, KIND_GATE_UP);
        put_linear(b, b->down[i], b->x, b->narrow, num_tokens, true, KIND_DOWN);
    }
    put_rmsnorm(b, b->cu_seqlens_q, num_rows);
    put_linear(b, b->lm_head, b->logits, b->h, num_rows, false, KIND_LM_HEAD);
    must(b->k->sample(b->stream, &sample));
    mark(b, KIND_SAMPLE);
    must(b->dev->stream_sync(b->stream));
}

static void prepare(struct bench *b, int32_t num_rows, int32_t start, int32_t extend_len,
                    float temperature)
{
    for (int32_t r = 0; r < num_rows; r++) {
        b->cu_seqlens_q[r] = r * extend_len;
        b->kv_lens[r] = start + extend_len;
        b->row_table_idx[r] = r;
        b->sample_pos[r] = start + extend_len;
        b->temperature[r] = temperature;
        b->top_p[r] = temperature > 0 ? 0.95f : 1;
        b->seed[r] = (uint64_t)r;
        for (int32_t j = 0; j < extend_len; j++) {
            int32_t t = r * extend_len + j, p = start + j;
            b->token_pool[r][p] = (int32_t)((int64_t)t * 7919 % VOCAB);
            b->token_table_idx[t] = r;
            b->positions[t] = p;
            b->out_loc[t] =
                b->page_table[r * PAGES_PER_ROW + p / PAGE_SIZE] * PAGE_SIZE + p % PAGE_SIZE;
        }
    }
    b->cu_seqlens_q[num_rows] = num_rows * extend_len;
}

static int64_t event_ns(struct bench *b, int32_t i)
{
    int64_t ns = 0;

    must(b->dev->event_time(b->events[i], &ns));
    return ns;
}

/* Bytes that a decode step has to move, and operations of a prefill, for each kind. */
static void print_kind(const struct bench *b, enum kind kind, double ns, int32_t num_rows,
                       int32_t start, int32_t extend_len)
{
    static const int32_t shapes[NUM_KINDS][2] = {[KIND_QKV] = {QKV, HIDDEN},
                                                 [KIND_O] = {HIDDEN, HIDDEN},
                                                 [KIND_GATE_UP] = {2 * INNER, HIDDEN},
                                                 [KIND_DOWN] = {HIDDEN, INNER},
                                                 [KIND_LM_HEAD] = {VOCAB, HIDDEN}};
    double size = (double)dtype_size(b->dtype), times = kind == KIND_LM_HEAD ? 1 : LAYERS;
    double elements = (double)shapes[kind][0] * shapes[kind][1];
    double bytes = elements * size * times;
    double tokens = (double)num_rows * (kind == KIND_LM_HEAD ? 1 : extend_len);
    double flops = 2 * elements * tokens * times;

    if (kind == KIND_ATTENTION) {
        double positions = extend_len * (start + extend_len / 2.0 + 0.5) * num_rows;
        bytes = 2.0 * KV_HEADS * HEAD_DIM * size * (start + extend_len) * num_rows * LAYERS;
        flops = 4 * positions * QO_HEADS * HEAD_DIM * LAYERS;
    }
    printf("    %-14s %9.1f us", kind_names[kind], ns / 1e3);
    if (bytes > 0)
        printf("  %6.1f GB/s (%3.0f %%)  %7.1f GFLOP/s (%3.0f %%)", bytes / ns,
               100 * bytes / ns / b->bandwidth, flops / ns, 100 * flops / ns / b->product_rate);
    printf("\n");
}

static void run_steps(struct bench *b, const char *name, int32_t num_rows, int32_t start,
                      int32_t extend_len, float temperature)
{
    int64_t times[REPEATS];
    double kinds[NUM_KINDS] = {0};

    prepare(b, num_rows, start, extend_len, temperature);
    b->with_events = false;
    for (int i = 0; i < REPEATS; i++) {
        put_step(b, num_rows, extend_len);
        times[i] = event_ns(b, b->num_events - 1) - event_ns(b, 0);
    }
    qsort(times, REPEATS, sizeof(times[0]), compare_times);
    double ns = (double)times[REPEATS / 2];
    b->with_events = true;
    for (int i = 0; i < REPEATS; i++) {
        put_step(b, num_rows, extend_len);
        for (int32_t j = 1; j < b->num_events; j++)
            kinds[b->kinds[j]] += (double)(event_ns(b, j) - event_ns(b, j - 1)) / REPEATS;
    }
    double layer = (double)QKV * HIDDEN + HIDDEN * HIDDEN + 3.0 * INNER * HIDDEN;
    double weights = layer * LAYERS + (double)VOCAB * HIDDEN;
    double kv = 2.0 * KV_HEADS * HEAD_DIM * LAYERS * (start + extend_len) * num_rows;
    double bytes = (weights + kv) * (double)dtype_size(b->dtype);
    double flops = 2 * layer * LAYERS * num_rows * extend_len + 2.0 * VOCAB * HIDDEN * num_rows;
    printf("\n%s: %.2f ms, %.1f tok/s; %.1f GB/s (%.0f %% of reads), linears at %.0f GFLOP/s "
           "(%.0f %% of the 2048-cube)\n",
           name, ns / 1e6, num_rows * extend_len / ns * 1e9, bytes / ns,
           100 * bytes / ns / b->bandwidth, flops / ns, 100 * flops / ns / b->product_rate);
    for (int kind = KIND_EMBED; kind < NUM_KINDS; kind++)
        print_kind(b, (enum kind)kind, kinds[kind], num_rows, start, extend_len);
}

int main(int argc, char **argv)
{
    struct bench *b = &bench;
    struct backend backend = {0};
    struct device_args args = {.num_threads = argc > 1 ? atoi(argv[1]) : 0};
    struct device_info info = {.name = ""};

    b->dtype = argc > 2 && strcmp(argv[2], "float32") == 0 ? DTYPE_F32 : DTYPE_BF16;
    if (args.num_threads == 0)
        args.num_threads = cpu_count("/proc/self/cgroup", "/sys/fs/cgroup");
    must(backend_open("cpu", &backend));
    b->dev = backend.device;
    b->k = backend.kernels;
    must(b->dev->open(&args, &b->device));
    must(b->dev->stream_create(b->device, false, &b->stream));
    must(b->dev->info(b->device, &info));
    printf("%s, %s\n", info.name, b->dtype == DTYPE_F32 ? "float32" : "bfloat16");
    b->bandwidth = measure_bandwidth(args.num_threads);
    printf("reading memory            %8.1f GB/s\n", b->bandwidth);
    b->product_rate = 2.0 * 2048 * 2048 * 2048 / time_linear(b, 2048, 2048, 2048);
    printf("linear of a 2048-cube     %8.1f GFLOP/s\n", b->product_rate);
#if defined(HAVE_DNNL)
    printf("oneDNN, the same          %8.1f GFLOP/s\n", measure_dnnl(b->dtype));
#endif
    model_create(b);
    run_steps(b, "decode behind 512 tokens", 1, 511, 1, 0);
    run_steps(b, "16 streams behind 64 tokens", 16, 63, 1, 0);
    run_steps(b, "16 streams behind 512 tokens, sampling", 16, 511, 1, 0.8f);
    run_steps(b, "prefill of 512", 1, 0, 512, 0);
    return 0;
}
