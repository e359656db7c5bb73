/*
 * bench_cuda_step.c - a whole decode step of Qwen3-0.6B, operator by operator, as one graph.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench_cuda_rig.h"

enum { LAYERS = 28, HIDDEN = 1024, Q_HEADS = 16, KV_HEADS = 8, HEAD_DIM = 128, INNER = 3072 };
enum { QKV = (Q_HEADS + 2 * KV_HEADS) * HEAD_DIM };

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
    rig_ok(rig.backend.kernels->linear(rig.stream, &args));
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
    rig_ok(rig.backend.kernels->rmsnorm(rig.stream, &args));
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
        rig_ok(rig.backend.kernels->rope_kv(rig.stream, &c->rope));
        rig_ok(rig.backend.kernels->attention(rig.stream, &c->attention));
        step_linear(c->o[layer], c->x, c->attended, true, DTYPE_BF16, c->rows);
        step_norm(c);
        gate_up.weight = c->gate_up[layer];
        rig_ok(rig.backend.kernels->gate_up(rig.stream, &gate_up));
        step_linear(c->down[layer], c->x, c->inner, true, DTYPE_BF16, c->rows);
    }
    step_norm(c);
    step_linear(c->lm_head, c->logits, c->normed, false, DTYPE_F32, c->rows);
    rig_ok(rig.backend.kernels->sample(rig.stream, &c->sample));
}

static struct linear_weight *step_weight(int32_t n, int32_t k)
{
    static uint16_t *data; /* small, so that the residual stays finite */
    const size_t len = (size_t)RIG_VOCAB * HIDDEN;
    struct linear_weight *weight = NULL;

    if (data == NULL) {
        data = malloc(len * 2);
        for (size_t i = 0; i < len; i++)
            data[i] = (uint16_t)(rig.noise[i % (RIG_NOISE_SIZE / 2)] - (4 << 7)); /* over 16 */
    }
    const struct linear_part part = {.data = data, .dtype = DTYPE_BF16, .n = n};
    const struct linear_source source = {
        .parts = &part, .num_parts = 1, .k = k, .dtype = DTYPE_BF16};
    rig_ok(rig.backend.kernels->linear_create(rig.stream, &source, &weight));
    return weight;
}

void bench_step(int32_t rows, int32_t kv, float temperature)
{
    enum { PAGE = 16 };
    int32_t pages = kv / PAGE, indices[257], slots[256], lens[256], *table;
    float one[256], zero[256] = {0};
    struct step_case c = {.rows = rows};
    size_t tokens = (size_t)rows;
    char name[128];

    snprintf(name, sizeof(name), "step 0.6B, %d rows of %d, temperature %.1f", rows, kv,
             (double)temperature);
    if (!rig_wants(name))
        return;
    table = malloc((size_t)(rows * pages) * 4);
    for (int32_t i = 0; i < rows * pages; i++)
        table[i] = (int32_t)((int64_t)i * 1000003 % (rows * pages));
    for (int32_t r = 0; r <= rows; r++)
        indices[r] = r;
    for (int32_t r = 0; r < rows; r++) {
        slots[r] = table[(r + 1) * pages - 1] * PAGE + PAGE - 1;
        lens[r] = kv;
        one[r] = 1;
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        c.qkv[layer] = step_weight(QKV, HIDDEN);
        c.o[layer] = step_weight(HIDDEN, Q_HEADS * HEAD_DIM);
        c.gate_up[layer] = step_weight(2 * INNER, HIDDEN);
        c.down[layer] = step_weight(HIDDEN, INNER);
    }
    c.lm_head = step_weight(RIG_VOCAB, HIDDEN);
    c.layer_size = tokens * (size_t)kv * KV_HEADS * HEAD_DIM * 2;
    c.k = rig_random(c.layer_size * LAYERS);
    c.v = rig_random(c.layer_size * LAYERS);
    c.x = rig_random(tokens * HIDDEN * 2);
    c.normed = rig_random(tokens * HIDDEN * 2);
    c.qkv_out = rig_random(tokens * QKV * 2);
    c.attended = rig_random(tokens * Q_HEADS * HEAD_DIM * 2);
    c.wide = rig_random(tokens * 2 * INNER * 2);
    c.inner = rig_random(tokens * INNER * 2);
    c.norm = rig_random(2 * HIDDEN);
    c.logits = rig_random(tokens * RIG_VOCAB * 4);
    int32_t *index = rig_copy(indices, sizeof(indices)), *len = rig_copy(lens, sizeof(lens));
    const struct ops_limits limits = {.dtype = DTYPE_BF16,
                                      .max_tokens = rows,
                                      .max_rows = rows,
                                      .max_kv_len = 40960,
                                      .hidden_size = HIDDEN,
                                      .num_qo_heads = Q_HEADS,
                                      .num_kv_heads = KV_HEADS,
                                      .head_dim = HEAD_DIM,
                                      .vocab_size = RIG_VOCAB};
    void *workspace = rig_random(rig.backend.kernels->workspace_size(rig.device, &limits) + 256);
    c.rope = (struct rope_kv_args){.dtype = DTYPE_BF16,
                                   .qkv = c.qkv_out,
                                   .q_norm = c.norm,
                                   .k_norm = c.norm,
                                   .cos_sin = rig_copy(one, sizeof(one)), /* position 0 alone */
                                   .positions = rig_copy(zero, sizeof(zero)),
                                   .out_loc = rig_copy(slots, sizeof(slots)),
                                   .num_tokens = rows,
                                   .num_qo_heads = Q_HEADS,
                                   .num_kv_heads = KV_HEADS,
                                   .head_dim = HEAD_DIM,
                                   .eps = 1e-6f};
    c.attention = (struct attention_args){.dtype = DTYPE_BF16,
                                          .out = c.attended,
                                          .qkv = c.qkv_out,
                                          .page_table = rig_copy(table, (size_t)(rows * pages) * 4),
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
    c.sample = rig_sample(rows, temperature, 1, 0, c.logits, workspace);
    double weights = (double)LAYERS * 2 * HIDDEN * (QKV + Q_HEADS * HEAD_DIM + 3 * INNER);
    rig_report(name, rig_time(put_step, &c, 1),
               weights + 2.0 * RIG_VOCAB * HIDDEN + 2 * (double)c.layer_size * LAYERS, 0);
    for (int layer = 0; layer < LAYERS; layer++) {
        rig.backend.kernels->linear_destroy(&c.qkv[layer]);
        rig.backend.kernels->linear_destroy(&c.o[layer]);
        rig.backend.kernels->linear_destroy(&c.gate_up[layer]);
        rig.backend.kernels->linear_destroy(&c.down[layer]);
    }
    rig.backend.kernels->linear_destroy(&c.lm_head);
    rig_end_case();
    free(table);
}
