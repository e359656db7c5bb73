/*
 * bench_cuda_ops.c - the time of each CUDA operator as one of a chain in a captured graph, beside
 * the bytes it must move and the operations it must do.
 *
 *     bench_cuda_ops [NAME]...      only the lines whose name begins so
 *
 * How it is measured: bench_cuda_rig.h. A whole step and mixtures of experts are in files of their
 * own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tests/bench/bench_cuda_rig.h"

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
    rig_ok(rig.backend.kernels->rmsnorm(rig.stream, &args));
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
    rig_ok(rig.backend.kernels->rope_kv(rig.stream, &args));
}

static void bench_rows(const char *what, void (*put)(void *, int), int32_t tokens, int32_t size,
                       int32_t in_size, double bytes)
{
    struct rows_case c = {.tokens = tokens, .size = size, .num_qo = 16, .num_kv = 8};
    int32_t *indices = malloc((size_t)tokens * sizeof(*indices));
    char name[128];

    snprintf(name, sizeof(name), "%s %d x %d", what, tokens, size);
    if (rig_wants(name)) {
        c.stride = (size_t)tokens * (size_t)in_size * 2;
        c.num_copies = 1 + (int)((200u << 20) / c.stride < 28 ? (200u << 20) / c.stride : 28);
        c.x = rig_random(c.stride * (size_t)c.num_copies);
        c.y = rig_random(c.stride * (size_t)c.num_copies);
        c.weight = rig_random((size_t)size * 2);
        for (int32_t t = 0; t < tokens; t++)
            indices[t] = t;
        c.positions = c.out_loc = rig_copy(indices, (size_t)tokens * sizeof(*indices));
        c.cos_sin = rig_random((size_t)tokens * 128 * 4);
        c.k_cache = rig_random((size_t)tokens * 1024 * 2);
        c.v_cache = rig_random((size_t)tokens * 1024 * 2);
        rig_report(name, rig_time(put, &c, RIG_REPEATS), bytes, 0);
        rig_end_case();
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
        rig_ok(rig.backend.kernels->gate_up(rig.stream, &gate_up));
    else
        rig_ok(rig.backend.kernels->linear(rig.stream, &args));
}

static void bench_linear(const char *what, int32_t n, int32_t k, enum product product,
                         const int32_t *tokens, int num)
{
    struct linear_case c = {
        .product = product, .n = n, .y_dtype = n > 100000 ? DTYPE_F32 : DTYPE_BF16};
    size_t size = (size_t)n * (size_t)k * 2;
    uint16_t *data;
    char name[128];

    if (!rig_wants(what))
        return;
    data = malloc(size);
    for (size_t at = 0; at < size; at += RIG_NOISE_SIZE)
        memcpy((char *)data + at, rig.noise,
               size - at < RIG_NOISE_SIZE ? size - at : RIG_NOISE_SIZE);
    c.num_weights = (int)((400u << 20) / size) + 1;
    c.num_weights = c.num_weights < RIG_REPEATS ? c.num_weights : RIG_REPEATS;
    for (int i = 0; i < c.num_weights; i++) {
        const struct linear_part part = {.data = data, .dtype = DTYPE_BF16, .n = n};
        const struct linear_source source = {
            .parts = &part, .num_parts = 1, .k = k, .dtype = DTYPE_BF16};
        rig_ok(rig.backend.kernels->linear_create(rig.stream, &source, &c.weights[i]));
    }
    for (int i = 0; i < num; i++) {
        double wide = (double)tokens[i] * n * (double)dtype_size(c.y_dtype);
        double y_size = product == GATE_UP ? wide / 2 : wide;

        c.tokens = tokens[i];
        c.x = rig_random((size_t)tokens[i] * (size_t)k * 2);
        c.y = rig_random((size_t)wide);
        c.narrow = rig_random((size_t)wide);
        snprintf(name, sizeof(name), "%s [%d, %d] x %d", what, n, k, tokens[i]);
        rig_report(name, rig_time(put_linear, &c, tokens[i] > 1000 ? 8 : RIG_REPEATS),
                   (double)size + (double)tokens[i] * k * 2 + y_size,
                   2.0 * (double)tokens[i] * (double)n * (double)k);
        rig_end_case();
    }
    for (int i = 0; i < c.num_weights; i++)
        rig.backend.kernels->linear_destroy(&c.weights[i]);
    free(data);
}

static void bench_load(void)
{
    struct linear_weight *weight = NULL;
    int32_t n = 100000, k = 5120;
    uint16_t *data;

    if (!rig_wants("load"))
        return;
    data = malloc((size_t)n * (size_t)k * 2);
    memset(data, 1, (size_t)n * (size_t)k * 2);
    const struct linear_part part = {.data = data, .dtype = DTYPE_BF16, .n = n};
    const struct linear_source source = {
        .parts = &part, .num_parts = 1, .k = k, .dtype = DTYPE_BF16};
    int64_t begin = clock_now_ns();
    rig_ok(rig.backend.kernels->linear_create(rig.stream, &source, &weight));
    rig_ok(rig.backend.device->stream_sync(rig.stream));
    rig_report("load 1 GB weight", (double)(clock_now_ns() - begin) / 1e3, (double)n * k * 2, 0);
    rig.backend.kernels->linear_destroy(&weight);
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
    rig_ok(rig.backend.kernels->attention(rig.stream, &args));
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
    if (!rig_wants(name))
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
    c.k = rig_random(c.layer_size * (size_t)c.num_layers);
    c.v = rig_random(c.layer_size * (size_t)c.num_layers);
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
        .out = rig_random((size_t)tokens * (size_t)num_qo * DIM * 2),
        .qkv = rig_random((size_t)tokens * (size_t)(num_qo + 2 * KV_HEADS) * DIM * 2),
        .page_table = rig_copy(table, (size_t)(rows * pages) * 4),
        .page_table_stride = pages,
        .page_size = page_size,
        .cu_seqlens_q = rig_copy(cu, (size_t)(rows + 1) * 4),
        .kv_lens = rig_copy(lens, (size_t)rows * 4),
        .row_table_idx = rig_copy(idx, (size_t)rows * 4),
        .num_tokens = tokens,
        .num_rows = rows,
        .max_extend_len = extend,
        .max_kv_len = max_kv,
        .num_qo_heads = num_qo,
        .num_kv_heads = KV_HEADS,
        .head_dim = DIM,
        .scale = 0.0883883f,
        .workspace = rig_random(rig.backend.kernels->workspace_size(rig.device, &limits))};
    rig_report(name, rig_time(put_attention, &c, extend == 1 ? RIG_REPEATS : 2),
               4.0 * (double)positions * KV_HEADS * DIM + 2.0 * tokens * num_qo * DIM * 2,
               4.0 * pairs * num_qo * DIM);
    rig_end_case();
    free(table);
    free(cu);
    free(lens);
    free(idx);
}

/* ---- sample ---- */

static void put_sample(void *state, int i)
{
    (void)i;
    rig_ok(rig.backend.kernels->sample(rig.stream, (const struct sample_args *)state));
}

static void bench_sample(const char *what, int32_t rows, float temperature, float top_p,
                         int32_t top_k, float spread)
{
    size_t n = (size_t)rows * RIG_VOCAB;
    float *logits;
    char name[128];

    snprintf(name, sizeof(name), "sample %s, %d rows", what, rows);
    if (!rig_wants(name))
        return;
    logits = malloc(n * 4);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)rig.noise[(i * 7 + i / 1000003) % (RIG_NOISE_SIZE / 2)] << 16;

        memcpy(&logits[i], &bits, 4);
        logits[i] = spread * (logits[i] + (float)(i % 97) * 1e-4f);
    }
    const struct ops_limits limits = {.dtype = DTYPE_BF16,
                                      .max_tokens = rows,
                                      .max_rows = rows,
                                      .max_kv_len = 16,
                                      .num_qo_heads = 1,
                                      .num_kv_heads = 1,
                                      .head_dim = 64,
                                      .vocab_size = RIG_VOCAB};
    struct sample_args args =
        rig_sample(rows, temperature, top_p, top_k, rig_copy(logits, n * 4),
                   rig_random(rig.backend.kernels->workspace_size(rig.device, &limits) + 256));
    rig_report(name, rig_time(put_sample, &args, 4), (double)n * 4, 0);
    rig_end_case();
    free(logits);
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
        bench_attention(256, 1, 660, 400, heads, 16, 32768);
        bench_attention(120, 1, 1080, 450, heads, 16, 32768);
        bench_attention(128, 1, 1050, 0, heads, 16, 32768);
        bench_attention(128, 1, 1050, 950, heads, 16, 32768);
        bench_attention(64, 1, 4096, 0, heads, 16, 4096);
        bench_attention(64, 1024, 1024, 0, heads, 16, 1024);
        bench_attention(4, 8192, 8192, 0, heads, 16, 8192);
        bench_attention(4, 1024, 8192, 0, heads, 16, 8192);
    }
    bench_moe();
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
    rig_open(argv + 1, argc - 1);
    bench_all();
    rig_close();
    return 0;
}
