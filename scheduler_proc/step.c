/* step.c - see step.h. */
#include "scheduler_proc/step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct status step_init(struct step *step, const struct batch_limits *limits)
{
    *step = (struct step){
        .rows = calloc((size_t)limits->max_rows, sizeof(*step->rows)),
        .positions = calloc((size_t)limits->max_tokens, sizeof(*step->positions)),
        .out_loc = calloc((size_t)limits->max_tokens, sizeof(*step->out_loc)),
        .token_spans = calloc((size_t)limits->max_token_spans, sizeof(*step->token_spans)),
        .page_spans = calloc((size_t)limits->max_page_spans, sizeof(*step->page_spans)),
        .values = calloc((size_t)limits->max_values, sizeof(*step->values)),
    };
    if (!step->rows || !step->positions || !step->out_loc || !step->token_spans ||
        !step->page_spans || !step->values) {
        step_deinit(step);
        return status_error(STATUS_NO_MEMORY, "no memory for a step of %d tokens",
                            limits->max_tokens);
    }
    return status_ok();
}

void step_deinit(struct step *step)
{
    free(step->rows);
    free(step->positions);
    free(step->out_loc);
    free(step->token_spans);
    free(step->page_spans);
    free(step->values);
    *step = (struct step){0};
}

void step_reset(struct step *step, int64_t number)
{
    step->batch = (struct batch){
        .step = number,
        .is_decode = true,
        .rows = step->rows,
        .positions = step->positions,
        .out_loc = step->out_loc,
        .token_spans = step->token_spans,
        .page_spans = step->page_spans,
        .values = step->values,
    };
}

static void add_span(struct step *step, struct step_span *span, int32_t table_idx, int32_t start,
                     int32_t len, const int32_t *values)
{
    struct batch *batch = &step->batch;

    *span = (struct step_span){
        .table_idx = table_idx, .start = start, .len = len, .value = batch->num_values};
    memcpy(step->values + batch->num_values, values, (size_t)len * sizeof(*values));
    batch->num_values += len;
}

/* Prompt tokens that the row computes; later ones are written by the sampler, on the device. */
static void add_token_span(struct step *step, const struct req *req, int32_t start, int32_t end)
{
    struct batch *batch = &step->batch;

    if (start >= req->prompt_len)
        return;
    add_span(step, &step->token_spans[batch->num_token_spans++], req->table_idx, start, end - start,
             req->input_ids + start);
}

static void add_page_span(struct step *step, struct req *req)
{
    struct batch *batch = &step->batch;
    int32_t start = req->synced_pages;

    if (start == req->num_pages)
        return;
    add_span(step, &step->page_spans[batch->num_page_spans++], req->table_idx, start,
             req->num_pages - start, req->pages + start);
    req->synced_pages = req->num_pages;
}

void step_add_row(struct step *step, struct req *req, int32_t extend_len, int32_t page_size)
{
    struct batch *batch = &step->batch;
    int32_t start = req->cached_len;
    int32_t end = start + extend_len;
    bool samples = end == req->device_len;

    assert(extend_len > 0 && end <= req->device_len && end <= req->num_pages * page_size);
    step->rows[batch->num_rows++] = (struct batch_row){
        .req = req,
        .seed = req->sampling.seed,
        .table_idx = req->table_idx,
        .start = start,
        .extend_len = extend_len,
        .samples = samples,
        .temperature = req->sampling.temperature,
        .top_p = req->sampling.top_p,
        .min_p = req->sampling.min_p,
        .top_k = req->sampling.top_k,
    };
    add_token_span(step, req, start, end);
    add_page_span(step, req);
    int32_t page = start / page_size, offset = start % page_size;
    for (int32_t position = start; position < end; position++) {
        step->positions[batch->num_tokens] = position;
        step->out_loc[batch->num_tokens++] = req->pages[page] * page_size + offset;
        if (++offset == page_size) {
            offset = 0;
            page++;
        }
    }
    batch->num_extend_rows += extend_len > 1;
    if (extend_len > batch->max_extend_len)
        batch->max_extend_len = extend_len;
    if (end > batch->max_kv_len)
        batch->max_kv_len = end;
    if (!samples || extend_len > 1)
        batch->is_decode = false;
    req->cached_len = end;
    req->device_len += samples;
    req->inflight++;
}
