/* weight.c - see weight.h. */
#include "kernels/cpu/weight.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/stream.h"
#include "kernels/element.h"

enum { HUGE_PAGE = 2 << 20 };

/* Queued: what to pack where. */
struct pack_job {
    const struct cpu_kernels *kernels;
    struct linear_weight *weight;
    struct linear_part *parts; /* owned: a copy of the caller's */
    int32_t num_parts;
};

/* The part that output n is in; n becomes its row there. NULL behind the last. */
static const struct linear_part *find_part(const struct pack_job *job, int32_t *n)
{
    for (int32_t i = 0; i < job->num_parts; i++) {
        if (*n < job->parts[i].n)
            return &job->parts[i];
        *n -= job->parts[i].n;
    }
    return NULL;
}

static void pack_row_f32(float *panel, const struct linear_part *part, int32_t row, int32_t k)
{
    size_t start = (size_t)row * (size_t)k;

    for (size_t i = 0; i < (size_t)k; i++)
        panel[i * WEIGHT_PANEL] = part ? element_load(part->data, part->dtype, start + i) : 0;
}

static void pack_row_bf16(uint16_t *panel, const struct linear_part *part, int32_t row, int32_t k)
{
    size_t start = (size_t)row * (size_t)k;

    for (size_t i = 0; i < (size_t)k + (size_t)(k & 1); i++) {
        uint16_t value = 0;
        if (part && i < (size_t)k && part->dtype == DTYPE_BF16)
            value = load_half(part->data, start + i);
        else if (part && i < (size_t)k)
            value = f32_to_bf16(element_load(part->data, part->dtype, start + i));
        panel[i / 2 * (size_t)WEIGHT_PANEL * 2 + i % 2] = value;
    }
}

/* The rows of a panel that need no conversion: false if one does. */
static bool find_rows(const struct pack_job *job, int32_t panel, const void **rows,
                      int32_t *num_rows)
{
    const struct linear_weight *weight = job->weight;
    size_t row_size = (size_t)weight->k * dtype_size(weight->dtype);
    int32_t first = panel * WEIGHT_PANEL, rest = weight->n - first;

    *num_rows = rest < WEIGHT_PANEL ? rest : WEIGHT_PANEL;
    for (int32_t lane = 0; lane < *num_rows; lane++) {
        int32_t row = first + lane;
        const struct linear_part *part = find_part(job, &row);
        if (!part || part->dtype != weight->dtype)
            return false;
        rows[lane] = (const char *)part->data + (size_t)row * row_size;
    }
    return true;
}

static void pack_panel(void *arg, int32_t panel, int32_t thread)
{
    const struct pack_job *job = arg;
    struct linear_weight *weight = job->weight;
    char *data = weight->data + (size_t)panel * weight->panel_size;
    const void *rows[WEIGHT_PANEL] = {0};
    int32_t num_rows = 0;
    bool is_packed = find_rows(job, panel, rows, &num_rows);

    (void)thread;
    if (is_packed)
        job->kernels->pack_panel(rows, num_rows, weight->dtype, (size_t)weight->k, (void *)data);
    for (int32_t lane = 0; lane < WEIGHT_PANEL; lane++) {
        int32_t n = panel * WEIGHT_PANEL + lane;
        int32_t row = n;
        const struct linear_part *part = find_part(job, &row);
        if (weight->dtype == DTYPE_F32 && !is_packed)
            pack_row_f32((float *)data + lane, part, row, weight->k);
        else if (!is_packed)
            pack_row_bf16((uint16_t *)data + (size_t)lane * 2, part, row, weight->k);
        if (weight->bias)
            weight->bias[n] =
                part && part->bias ? element_load(part->bias, part->dtype, (size_t)row) : 0;
    }
}

static void run_pack(struct stream *stream, const void *args)
{
    struct pack_job job = *(const struct pack_job *)args;

    job.kernels = cpu_stream_kernels(stream);
    pool_run(cpu_stream_pool(stream), job.weight->num_panels, pack_panel, &job);
    free(job.parts);
}

/* An empty weight of the right size. */
static struct status weight_alloc(const struct linear_source *source, struct linear_weight **out)
{
    struct linear_weight *weight = calloc(1, sizeof(*weight));
    size_t k = (size_t)source->k;
    bool has_bias = false;

    if (!weight)
        return status_error(STATUS_NO_MEMORY, "weight: no memory");
    for (int32_t i = 0; i < source->num_parts; i++) {
        weight->n += source->parts[i].n;
        has_bias |= source->parts[i].bias != NULL;
    }
    weight->dtype = source->dtype;
    weight->k = source->k;
    weight->num_panels = (weight->n + WEIGHT_PANEL - 1) / WEIGHT_PANEL;
    if (source->dtype == DTYPE_F32)
        weight->panel_size = k * WEIGHT_PANEL * sizeof(float);
    else
        weight->panel_size = (k + 1) / 2 * WEIGHT_PANEL * 2 * sizeof(uint16_t);
    size_t size = weight->panel_size * (size_t)weight->num_panels;
    size_t alignment = size >= HUGE_PAGE ? HUGE_PAGE : 64;
    weight->data = aligned_alloc(alignment, (size + alignment) / alignment * alignment);
    if (weight->data &&
        size >= HUGE_PAGE) /* what it gives is welcome, what it refuses not missed */
        (void)madvise(weight->data, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    if (has_bias)
        weight->bias = malloc((size_t)weight->num_panels * WEIGHT_PANEL * sizeof(float));
    if (!weight->data || (has_bias && !weight->bias)) {
        struct status status =
            status_error(STATUS_NO_MEMORY, "weight [%d, %d]: no memory for %zu bytes",
                         (int)weight->n, (int)weight->k, size);
        weight_linear_destroy(&weight);
        return status;
    }
    *out = weight;
    return status_ok();
}

struct status weight_linear_create(struct stream *stream, const struct linear_source *source,
                                   struct linear_weight **out)
{
    struct linear_weight *weight = NULL;
    struct pack_job job = {.num_parts = source->num_parts};
    struct status status;

    if (source->dtype != DTYPE_F32 && source->dtype != DTYPE_BF16)
        return status_error(STATUS_INVALID, "weight: computes in float32 or bfloat16 only");
    status = weight_alloc(source, &weight);
    if (status.code)
        goto out;
    job.weight = weight;
    job.parts = malloc((size_t)source->num_parts * sizeof(*job.parts) + 1);
    if (!job.parts) {
        status = status_error(STATUS_NO_MEMORY, "weight: no memory");
        goto out;
    }
    memcpy(job.parts, source->parts, (size_t)source->num_parts * sizeof(*job.parts));
    status = cpu_stream_put(stream, run_pack, &job, sizeof(job));
    if (status.code)
        goto out;
    job.parts = NULL;
    *out = weight;
    weight = NULL;
out:
    free(job.parts);
    weight_linear_destroy(&weight);
    return status;
}

void weight_linear_destroy(struct linear_weight **weight)
{
    if (!*weight)
        return;
    free((*weight)->data);
    free((*weight)->bias);
    free(*weight);
    *weight = NULL;
}

struct status weight_experts_create(struct stream *stream, const struct experts_source *source,
                                    struct experts_weight **out)
{
    struct status status = status_ok();
    size_t num_experts = (size_t)source->num_experts;
    struct experts_weight *experts = calloc(1, sizeof(*experts));

    if (!experts)
        return status_error(STATUS_NO_MEMORY, "experts: no memory");
    *experts = (struct experts_weight){
        .num_experts = source->num_experts,
        .hidden_size = source->hidden_size,
        .inner_size = source->inner_size,
        .dtype = source->dtype,
        .gate_up = calloc(num_experts, sizeof(struct linear_weight *)),
        .down = calloc(num_experts, sizeof(struct linear_weight *)),
    };
    if (!experts->gate_up || !experts->down) {
        status = status_error(STATUS_NO_MEMORY, "experts: no memory");
        goto out;
    }
    for (size_t i = 0; i < num_experts; i++) {
        struct linear_part gate_up[2] = {source->gate[i], source->up[i]};
        struct linear_source linear = {
            .parts = gate_up, .num_parts = 2, .k = source->hidden_size, .dtype = source->dtype};
        status = weight_linear_create(stream, &linear, &experts->gate_up[i]);
        if (status.code)
            goto out;
        linear.parts = &source->down[i];
        linear.num_parts = 1;
        linear.k = source->inner_size;
        status = weight_linear_create(stream, &linear, &experts->down[i]);
        if (status.code)
            goto out;
    }
    *out = experts;
    experts = NULL;
out:
    /* What was queued for the first experts still writes to them: wait for it. */
    if (experts && device_cpu.stream_sync(stream).code == STATUS_OK)
        weight_experts_destroy(&experts);
    return status;
}

void weight_experts_destroy(struct experts_weight **address)
{
    struct experts_weight *experts = *address;

    if (!experts)
        return;
    for (int32_t i = 0; i < experts->num_experts; i++) {
        if (experts->gate_up)
            weight_linear_destroy(&experts->gate_up[i]);
        if (experts->down)
            weight_linear_destroy(&experts->down[i]);
    }
    free(experts->gate_up);
    free(experts->down);
    free(experts);
    *address = NULL;
}

float weight_at(const struct linear_weight *weight, int32_t n, int32_t k)
{
    const char *panel = weight->data + (size_t)(n / WEIGHT_PANEL) * weight->panel_size;
    size_t lane = (size_t)(n % WEIGHT_PANEL);

    if (weight->dtype == DTYPE_F32)
        return ((const float *)panel)[(size_t)k * WEIGHT_PANEL + lane];
    return bf16_to_f32(
        ((const uint16_t *)panel)[((size_t)(k / 2) * WEIGHT_PANEL + lane) * 2 + (size_t)(k % 2)]);
}
