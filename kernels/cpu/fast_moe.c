/*
 * fast_moe.c - the top_k experts of each token, weighted by their probabilities, added to y.
 *
 * Tokens are grouped by expert, so that an expert's weights are read once for all its tokens:
 *
 *     route        each token's experts and weights; entries (token, weight) in order of expert
 *     gate, up     for each expert and range of inner outputs: inner = silu(gate) * up
 *     down         for each range of hidden outputs: for each expert in ascending order,
 *                  sum[token] += weight * down(inner); then y += sum, one rounding
 *
 * A token's experts are summed in ascending order, each output by one thread alone.
 */
#include "kernels/cpu/fast_moe.h"
#include "kernels/cpu/fast.h"
#include "kernels/cpu/moe_route.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/tile.h"
#include "kernels/ops.h"

struct job {
    const struct moe_args *args;
    struct pool *pool;
    struct moe_layout layout; /* of the workspace */
};

/* The packed rows of a tile, and what comes of them, in a thread's scratch. */
enum {
    OUT_SIZE = 2 * TILE_ROWS * WEIGHT_PANEL,                                         /* floats */
    MAX_STRETCH = (POOL_SCRATCH_SIZE / 4 - OUT_SIZE - TILE_SLACK) / (2 * TILE_ROWS), /* steps */
};

static void run_route(void *arg, int32_t task, int32_t thread)
{
    const struct job *job = arg;
    const struct moe_args *a = job->args;
    size_t num_experts = (size_t)a->experts->num_experts;
    int32_t first = task * MOE_ROUTE_TOKENS, end = first + MOE_ROUTE_TOKENS;

    (void)thread;
    for (int32_t t = first; t < end && t < a->num_tokens; t++)
        moe_route(a->router_logits + (size_t)t * num_experts, a->experts->num_experts, a->top_k,
                  a->normalise, job->layout.probabilities + (size_t)t * num_experts);
}

/* Entries of each expert, tokens ascending: the same as sorting by (expert, token). */
static void group_by_expert(const struct job *job)
{
    const struct moe_args *a = job->args;
    const struct moe_layout *l = &job->layout;
    int32_t num_experts = a->experts->num_experts, num_entries = 0;

    for (int32_t e = 0; e < num_experts; e++) {
        l->first_entry[e] = num_entries;
        for (int32_t t = 0; t < a->num_tokens; t++) {
            float p = l->probabilities[(size_t)t * (size_t)num_experts + (size_t)e];
            if (p == MOE_NOT_CHOSEN)
                continue;
            l->entries[num_entries++] = (struct moe_entry){.token = t, .weight = p};
        }
    }
    l->first_entry[num_experts] = num_entries;
}

/* out[num_rows][WEIGHT_PANEL] = rows times one panel. */
static void multiply(const struct linear_weight *weight, int32_t panel, const void *const *rows,
                     int32_t num_rows, float *packed, float *out)
{
    size_t num_steps = tile_steps(weight->dtype, (size_t)weight->k);
    size_t per_step = weight->dtype == DTYPE_F32 ? 1 : 2;
    size_t step_size = num_steps > 0 ? weight->panel_size / num_steps : 0;
    size_t a_step = (size_t)num_rows * tile_floats(weight->dtype);

    for (size_t step = 0; step < num_steps; step += MAX_STRETCH) {
        size_t rest = num_steps - step, steps = rest < MAX_STRETCH ? rest : MAX_STRETCH;
        size_t k = (size_t)weight->k - step * per_step;
        const void *starts[TILE_ROWS];
        for (int32_t i = 0; i < num_rows; i++)
            starts[i] = (const char *)rows[i] + step * per_step * dtype_size(weight->dtype);
        SIMD_NAME(tile_pack)
        (starts, num_rows, weight->dtype, k < steps * per_step ? k : steps * per_step, packed,
         a_step);
        struct tile_args args = {
            .a = packed,
            .a_step = a_step,
            .panel = weight->data + (size_t)panel * weight->panel_size + step * step_size,
            .num_steps = steps,
            .c = out,
            .c_row = WEIGHT_PANEL,
            .add = step > 0,
        };
        if (weight->dtype == DTYPE_F32)
            SIMD_NAME(tile_f32)(num_rows, &args);
        else
            SIMD_NAME(tile_bf16)(num_rows, &args);
    }
}

/* Output n of a row's WEIGHT_PANEL may lie across two panels: gate and up are stacked unaligned. */
static void multiply_at(const struct linear_weight *weight, int32_t n, const void *const *rows,
                        int32_t num_rows, float *packed, float *out)
{
    int32_t panel = n / WEIGHT_PANEL, shift = n % WEIGHT_PANEL;
    float next[TILE_ROWS * WEIGHT_PANEL];

    multiply(weight, panel, rows, num_rows, packed, out);
    if (shift == 0)
        return;
    if (panel + 1 < weight->num_panels)
        multiply(weight, panel + 1, rows, num_rows, packed, next);
    else
        memset(next, 0, sizeof(next));
    for (int32_t i = 0; i < num_rows; i++) {
        float *row = out + i * WEIGHT_PANEL;
        memmove(row, row + shift, (size_t)(WEIGHT_PANEL - shift) * sizeof(*row));
        memcpy(row + WEIGHT_PANEL - shift, next + i * WEIGHT_PANEL, (size_t)shift * sizeof(*row));
    }
}

/* One panel's width of inner outputs of one expert, for all its entries. */
static void run_gate_up(void *arg, int32_t task, int32_t thread)
{
    const struct job *job = arg;
    const struct moe_args *a = job->args;
    const struct experts_weight *experts = a->experts;
    const struct moe_layout *l = &job->layout;
    int32_t num_panels = (experts->inner_size + WEIGHT_PANEL - 1) / WEIGHT_PANEL;
    int32_t expert = task / num_panels, n = task % num_panels * WEIGHT_PANEL;
    size_t row_size = (size_t)experts->hidden_size * dtype_size(experts->dtype);
    float *gate = pool_scratch(job->pool, thread), *up = gate + TILE_ROWS * WEIGHT_PANEL;
    int32_t end = l->first_entry[expert + 1];

    for (int32_t first = l->first_entry[expert]; first < end; first += TILE_ROWS) {
        int32_t num_rows = end - first < TILE_ROWS ? end - first : TILE_ROWS;
        const void *rows[TILE_ROWS];
        for (int32_t i = 0; i < num_rows; i++)
            rows[i] = (const char *)a->x + (size_t)l->entries[first + i].token * row_size;
        multiply_at(experts->gate_up[expert], n, rows, num_rows, gate + OUT_SIZE, gate);
        multiply_at(experts->gate_up[expert], experts->inner_size + n, rows, num_rows,
                    gate + OUT_SIZE, up);
        for (int32_t i = 0; i < num_rows; i++) {
            size_t inner = (size_t)(first + i) * (size_t)experts->inner_size;
            for (int32_t j = 0; j < WEIGHT_PANEL && n + j < experts->inner_size; j += VF_LANES) {
                vf x = vf_load(gate + i * WEIGHT_PANEL + j);
                vf y = x / (1 + vf_exp(-x)) * vf_load(up + i * WEIGHT_PANEL + j);
                vf_store_row(l->inner, experts->dtype, inner + (size_t)(n + j),
                             (size_t)(experts->inner_size - n - j), y);
            }
        }
    }
}

/* One panel of hidden outputs, for all tokens. */
static void run_down(void *arg, int32_t panel, int32_t thread)
{
    const struct job *job = arg;
    const struct moe_args *a = job->args;
    const struct experts_weight *experts = a->experts;
    const struct moe_layout *l = &job->layout;
    size_t inner_row = (size_t)experts->inner_size * dtype_size(experts->dtype);
    size_t num_tokens = (size_t)a->num_tokens, n = (size_t)panel * WEIGHT_PANEL;
    float *out = pool_scratch(job->pool, thread);
    float *sums = l->sums + (size_t)panel * num_tokens * WEIGHT_PANEL;

    memset(sums, 0, num_tokens * WEIGHT_PANEL * sizeof(*sums));
    for (int32_t expert = 0; expert < experts->num_experts; expert++) {
        int32_t end = l->first_entry[expert + 1];
        for (int32_t first = l->first_entry[expert]; first < end; first += TILE_ROWS) {
            int32_t num_rows = end - first < TILE_ROWS ? end - first : TILE_ROWS;
            const void *rows[TILE_ROWS];
            for (int32_t i = 0; i < num_rows; i++)
                rows[i] = (const char *)l->inner + (size_t)(first + i) * inner_row;
            multiply(experts->down[expert], panel, rows, num_rows, out + OUT_SIZE, out);
            for (int32_t i = 0; i < num_rows; i++) {
                const struct moe_entry *entry = &l->entries[first + i];
                float *sum = sums + (size_t)entry->token * WEIGHT_PANEL;
                for (int32_t j = 0; j < WEIGHT_PANEL; j += VF_LANES)
                    vf_store(sum + j, vf_fma(vf_load(out + i * WEIGHT_PANEL + j),
                                             vf_set1(entry->weight), vf_load(sum + j)));
            }
        }
    }
    for (size_t t = 0; t < num_tokens; t++) {
        size_t y = t * (size_t)experts->hidden_size + n;
        size_t rest = (size_t)experts->hidden_size - n;
        for (size_t j = 0; j < WEIGHT_PANEL && j < rest; j += VF_LANES) {
            vf sum = vf_load(sums + t * WEIGHT_PANEL + j);
            vf_store_row(a->y, experts->dtype, y + j, rest - j,
                         vf_load_row(a->y, experts->dtype, y + j, rest - j) + sum);
        }
    }
}

/* As many tokens as the workspace holds. */
static void run_tokens(struct pool *pool, const struct moe_args *a)
{
    const struct experts_weight *experts = a->experts;
    struct job job = {.args = a, .pool = pool};
    int32_t inner_panels = (experts->inner_size + WEIGHT_PANEL - 1) / WEIGHT_PANEL;
    int32_t hidden_panels = (experts->hidden_size + WEIGHT_PANEL - 1) / WEIGHT_PANEL;

    moe_layout_init(&job.layout, a->workspace, a->num_tokens, experts->num_experts, a->top_k,
                    experts->hidden_size, experts->inner_size, experts->dtype);
    pool_run(pool, (a->num_tokens + MOE_ROUTE_TOKENS - 1) / MOE_ROUTE_TOKENS, run_route, &job);
    group_by_expert(&job);
    pool_run(pool, experts->num_experts * inner_panels, run_gate_up, &job);
    pool_run(pool, hidden_panels, run_down, &job);
}

void SIMD_NAME(moe)(struct stream *stream, const void *args)
{
    const struct moe_args *a = args;
    size_t row_size = (size_t)a->experts->hidden_size * dtype_size(a->experts->dtype);

    for (int32_t first = 0; first < a->num_tokens; first += MOE_MAX_TOKENS) {
        int32_t rest = a->num_tokens - first;
        struct moe_args part = *a;
        part.num_tokens = rest < MOE_MAX_TOKENS ? rest : MOE_MAX_TOKENS;
        part.x = (const char *)a->x + (size_t)first * row_size;
        part.y = (char *)a->y + (size_t)first * row_size;
        part.router_logits = a->router_logits + (size_t)first * (size_t)a->experts->num_experts;
        run_tokens(cpu_stream_pool(stream), &part);
    }
}
