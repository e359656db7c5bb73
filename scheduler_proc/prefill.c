/*
 * prefill.c - which parts of which prompts a step computes: first come, first served, within the
 * budget. Forming stops at the first request that does not get all it could use, so at most one
 * prompt is half way between two steps.
 *
 * Source: mini-sglang scheduler/prefill.py.
 */
#include "scheduler_proc/scheduler_state.h"

#include <assert.h>

/* Every chunk but a prompt's last ends on a page boundary; start is on one. */
int32_t scheduler_chunk_len(const struct scheduler *scheduler, int32_t start, int32_t prompt_len,
                            int32_t budget)
{
    if (prompt_len - start <= budget)
        return prompt_len - start;
    return budget / scheduler->config.page_size * scheduler->config.page_size;
}

bool scheduler_has_room(const struct scheduler *scheduler, const struct step *step,
                        int32_t num_tokens, int32_t num_pages)
{
    const struct batch_limits *limits = &scheduler->limits;
    const struct batch *batch = &step->batch;

    return batch->num_rows < limits->max_rows && batch->num_token_spans < limits->max_token_spans &&
           batch->num_page_spans < limits->max_page_spans &&
           num_tokens <= limits->max_tokens - batch->num_tokens &&
           num_tokens + num_pages <= limits->max_values - batch->num_values;
}

/* Adds the next chunk of req; 0 when the block has no room for it. The budget is a page or more, or
 * admission has seen to it. */
static int32_t add_chunk(struct scheduler *scheduler, struct step *step, struct req *req,
                         int32_t budget)
{
    int32_t chunk = scheduler_chunk_len(scheduler, req->cached_len, req->prompt_len, budget);
    int32_t end = req->cached_len + chunk;
    int32_t num_pages = scheduler_num_pages(scheduler, end) - req->synced_pages;

    assert(chunk > 0);
    if (!scheduler_has_room(scheduler, step, chunk, num_pages))
        return 0;
    scheduler_extend_row(scheduler, req, end);
    step_add_row(step, req, chunk, scheduler->config.page_size);
    step->batch.num_prefill_tokens += chunk;
    scheduler->num_prefill_tokens += chunk;
    if (end < req->prompt_len)
        return chunk;
    req_list_remove(&scheduler->prefills, req);
    if (req->device_len < req->max_device_len) {
        req->state = REQ_DECODE;
        req_list_append(&scheduler->decodes, req);
    } else {
        req->state = REQ_LAUNCHED;
    }
    return chunk;
}

void scheduler_form_prefill(struct scheduler *scheduler, struct step *step)
{
    int32_t budget = scheduler->prefill_budget;

    while (budget > 0) {
        struct req *req = scheduler->prefills.first;
        if (req) {
            scheduler_match_again(scheduler, req);
        } else {
            if (!scheduler_admit(scheduler, step, budget))
                break;
            req = scheduler->prefills.first;
        }
        int32_t chunk = add_chunk(scheduler, step, req, budget);
        if (chunk == 0 || req->state == REQ_PREFILL)
            break;
        budget -= chunk;
    }
}
