/*
 * test_moe.c - mixtures of experts.
 */
#include <stdlib.h>

#include "tests/gpu/rig.h"

/* A host matrix of one test; freed at its end. */
static void *host_random(enum dtype dtype, size_t n, float scale)
{
    void *data = malloc(n * dtype_size(dtype));

    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < n; i++)
        rig_set_element(data, dtype, i, scale * rig_normal());
    return data;
}

static void check_moe(enum dtype dtype, int32_t experts, int32_t top_k, int32_t hidden,
                      int32_t inner, int32_t tokens, bool normalise)
{
    const struct ops_limits limits = {.dtype = dtype,
                                      .max_tokens = tokens,
                                      .max_rows = tokens,
                                      .max_kv_len = 16,
                                      .hidden_size = hidden,
                                      .num_qo_heads = 2,
                                      .num_kv_heads = 1,
                                      .head_dim = 8,
                                      .vocab_size = 16,
                                      .num_experts = experts,
                                      .moe_top_k = top_k,
                                      .moe_inner_size = inner};
    size_t matrix = (size_t)hidden * (size_t)inner;
    struct linear_part *parts[3];
    void *data[3];
    struct experts_weight *weight[RIG_NUM] = {NULL};
    struct twin x = twin_random(dtype, (size_t)tokens * (size_t)hidden, 1);
    struct twin y = twin_random(dtype, (size_t)tokens * (size_t)hidden, 1);
    struct twin logits = twin_random(DTYPE_F32, (size_t)tokens * (size_t)experts, 2);
    size_t space = 0;

    for (int i = 0; i < 3; i++) {
        parts[i] = calloc((size_t)experts, sizeof(*parts[i]));
        data[i] = host_random(dtype, (size_t)experts * matrix, 0.2f);
        for (int32_t e = 0; e < experts; e++)
            parts[i][e] = (struct linear_part){.data = (char *)data[i] +
                                                       (size_t)e * matrix * dtype_size(dtype),
                                               .dtype = dtype,
                                               .n = i == 2 ? hidden : inner};
    }
    for (int s = 0; s < RIG_NUM; s++) {
        size_t size = rig[s].backend.kernels->workspace_size(rig[s].device, &limits);
        space = size > space ? size : space;
    }
    struct twin workspace = twin_poisoned(space);
    for (int s = 0; s < RIG_NUM; s++) {
        const struct experts_source source = {.gate = parts[0],
                                              .up = parts[1],
                                              .down = parts[2],
                                              .num_experts = experts,
                                              .hidden_size = hidden,
                                              .inner_size = inner,
                                              .dtype = dtype};

        rig_ok(rig[s].backend.kernels->experts_create(rig[s].stream, &source, &weight[s]));
        const struct moe_args args = {.experts = weight[s],
                                      .y = y.at[s],
                                      .x = x.at[s],
                                      .router_logits = logits.at[s],
                                      .num_tokens = tokens,
                                      .top_k = top_k,
                                      .normalise = normalise,
                                      .workspace = workspace.at[s]};
        rig_ok(rig[s].backend.kernels->moe(rig[s].stream, &args));
    }
    twin_compare(&y, dtype, (size_t)tokens * (size_t)hidden, 2 * rig_tolerance(dtype), "moe");
    for (int s = 0; s < RIG_NUM; s++)
        rig[s].backend.kernels->experts_destroy(&weight[s]);
    for (int i = 0; i < 3; i++) {
        free(parts[i]);
        free(data[i]);
    }
}

START_TEST(moe_agrees)
{
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};

    for (int d = 0; d < 2; d++) {
        check_moe(dtypes[d], 4, 2, 64, 48, 5, true);
        check_moe(dtypes[d], 128, 8, 128, 96, 19, true);
        check_moe(dtypes[d], 7, 7, 40, 24, 1, false);
        check_moe(dtypes[d], 60, 4, 72, 33, 70, false);
    }
}
END_TEST

RIG_MAIN("moe", moe_agrees)
