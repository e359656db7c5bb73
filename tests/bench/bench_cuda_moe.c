/*
 * bench_cuda_moe.c - a mixture of experts of Qwen3-30B-A3B's shape, with an even load: each launch
 * has other logits, since a few tokens would else find their experts in the cache.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench_cuda_rig.h"

enum { EXPERTS = 128, TOP_K = 8, HIDDEN = 2048, INNER = 768, MATRIX = HIDDEN * INNER };

struct moe_case {
    struct experts_weight *weight;
    void *x, *y, *workspace;
    float *logits; /* [repeats, tokens, EXPERTS] */
    int32_t tokens;
};

static void put_moe(void *state, int i)
{
    const struct moe_case *c = state;
    const struct moe_args args = {.experts = c->weight,
                                  .y = c->y,
                                  .x = c->x,
                                  .router_logits =
                                      c->logits + (size_t)i * (size_t)c->tokens * EXPERTS,
                                  .num_tokens = c->tokens,
                                  .top_k = TOP_K,
                                  .normalise = true,
                                  .workspace = c->workspace};
    rig_ok(rig.backend.kernels->moe(rig.stream, &args));
}

static struct experts_weight *make_experts(void)
{
    enum { DISTINCT = RIG_NOISE_SIZE / 2 / MATRIX };
    struct linear_part parts[3][EXPERTS];
    struct experts_weight *weight = NULL;

    for (int i = 0; i < 3 * EXPERTS; i++)
        parts[i / EXPERTS][i % EXPERTS] =
            (struct linear_part){.data = rig.noise + (size_t)(i % DISTINCT) * MATRIX,
                                 .dtype = DTYPE_BF16,
                                 .n = i / EXPERTS == 2 ? HIDDEN : INNER};
    const struct experts_source source = {.gate = parts[0],
                                          .up = parts[1],
                                          .down = parts[2],
                                          .num_experts = EXPERTS,
                                          .hidden_size = HIDDEN,
                                          .inner_size = INNER,
                                          .dtype = DTYPE_BF16};
    rig_ok(rig.backend.kernels->experts_create(rig.stream, &source, &weight));
    return weight;
}

static void bench_tokens(struct moe_case *c, const char *name)
{
    const struct ops_limits limits = {.dtype = DTYPE_BF16,
                                      .max_tokens = c->tokens,
                                      .max_rows = 1,
                                      .max_kv_len = 16,
                                      .hidden_size = HIDDEN,
                                      .num_qo_heads = 1,
                                      .num_kv_heads = 1,
                                      .head_dim = 64,
                                      .vocab_size = 16,
                                      .num_experts = EXPERTS,
                                      .moe_top_k = TOP_K,
                                      .moe_inner_size = INNER};
    int repeats = c->tokens > 1000 ? 4 : RIG_REPEATS;
    double tokens = c->tokens;
    double chosen = EXPERTS * (1 - pow(1 - (double)TOP_K / EXPERTS, tokens)); /* on average */

    c->x = rig_random((size_t)c->tokens * HIDDEN * 2);
    c->y = rig_random((size_t)c->tokens * HIDDEN * 2);
    c->logits = rig_random((size_t)repeats * (size_t)c->tokens * EXPERTS * sizeof(*c->logits));
    c->workspace = rig_random(rig.backend.kernels->workspace_size(rig.device, &limits));
    rig_report(name, rig_time(put_moe, c, repeats),
               chosen * 3 * MATRIX * 2 + tokens * (HIDDEN * 6 + EXPERTS * 4),
               2 * tokens * TOP_K * 3 * MATRIX);
    rig_end_case();
}

void bench_moe(void)
{
    static const int32_t tokens[] = {1, 4, 16, 64, 256, 512, 1024, 2048, 8192};
    struct moe_case c = {0};
    char name[64];

    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        snprintf(name, sizeof(name), "moe 30B-A3B x %d", tokens[i]);
        if (!rig_wants(name))
            continue;
        if (c.weight == NULL)
            c.weight = make_experts();
        c.tokens = tokens[i];
        bench_tokens(&c, name);
    }
    rig.backend.kernels->experts_destroy(&c.weight);
}
