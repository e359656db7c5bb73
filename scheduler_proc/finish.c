/*
 * finish.c - what a step's results mean, and the two ends of a request.
 *
 * finish: its terminal goes out, what is known to be right goes to the prefix cache, its pages and
 * its lock are given back. It acts once, whoever calls first: a result, an abort, a shutdown.
 * retire: when no launched step holds it any more, its row, its uid and its memory go too. Until
 * then a step in flight still writes that row.
 */
#include "scheduler_proc/scheduler_state.h"

#include <assert.h>

#include "scheduler_proc/record.h"

/*
 * Puts the whole pages of valid_len into the prefix cache and moves the lock there. What the cache
 * has already got from a twin is shared from now on.
 */
static void cache_valid(struct scheduler *scheduler, struct req *req)
{
    struct prefix_cache *cache = scheduler->cache;
    int32_t num_pages = req->valid_len / scheduler->config.page_size;

    if (num_pages <= req->handle.num_pages)
        return;
    scheduler_remap(scheduler, req,
                    prefix_cache_match(cache, req->handle, req->input_ids, num_pages));
    struct cache_handle to =
        prefix_cache_insert(cache, req->handle, req->input_ids, req->pages, num_pages);
    prefix_cache_lock(cache, req->handle, to);
    req->handle = to;
    scheduler->admission_waits = false;
}

static void give_pages_back(struct scheduler *scheduler, struct req *req)
{
    int32_t num_shared = req->handle.num_pages;

    page_pool_give(&scheduler->pool, req->num_pages - num_shared, req->pages + num_shared);
    prefix_cache_unlock(scheduler->cache, req->handle);
    scheduler->owed_pages -= req->reserved_pages - req->num_pages;
    req->handle = (struct cache_handle){0};
    req->num_pages = req->synced_pages = req->reserved_pages = 0;
}

static struct req_list *list_of(struct scheduler *scheduler, const struct req *req)
{
    switch (req->state) {
    case REQ_QUEUED:
        return &scheduler->queue;
    case REQ_PREFILL:
        return &scheduler->prefills;
    case REQ_DECODE:
        return &scheduler->decodes;
    case REQ_LAUNCHED:
    case REQ_FINISHED:
        break;
    }
    return NULL;
}

static void retire_req(struct scheduler *scheduler, struct req *req)
{
    if (req->table_idx != TABLE_IDX_NONE)
        req_table_give_row(&scheduler->table, req);
    req_table_remove(&scheduler->table, req);
    client_table_remove(&scheduler->clients, req);
    outputs_add_ended(&scheduler->outputs, &req);
    scheduler->admission_waits = false;
}

static void count_end(struct scheduler *scheduler, enum finish_reason reason)
{
    if (reason == FINISH_ABORT)
        scheduler->num_aborted++;
    else if (reason == FINISH_ERROR)
        scheduler->num_errors++;
    else
        scheduler->num_finished++;
}

void scheduler_finish_req(struct scheduler *scheduler, struct req *req, int32_t token,
                          enum finish_reason reason, enum error_code error)
{
    struct req_list *list = list_of(scheduler, req);

    if (req_is_finished(req))
        return;
    outputs_add_row(&scheduler->outputs, req, token, reason, error);
    count_end(scheduler, reason);
    if (list)
        req_list_remove(list, req);
    req->state = REQ_FINISHED;
    if (req->table_idx != TABLE_IDX_NONE) {
        if (reason != FINISH_ERROR)
            cache_valid(scheduler, req);
        give_pages_back(scheduler, req);
    }
    scheduler->admission_waits = false;
    if (req->inflight == 0)
        retire_req(scheduler, req);
}

static bool contains(const int32_t *ids, int32_t num_ids, int32_t id)
{
    for (int32_t i = 0; i < num_ids; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static bool is_end_id(const struct scheduler *scheduler, const struct req *req, int32_t token)
{
    const struct sampling *sampling = &req->sampling;

    return (!sampling->ignore_eos &&
            contains(scheduler->eos_ids, scheduler->config.num_eos_ids, token)) ||
           contains(sampling->stop_token_ids, sampling->num_stop_token_ids, token);
}

static void process_token(struct scheduler *scheduler, struct req *req, int32_t token)
{
    enum finish_reason reason = FINISH_NONE;

    req->input_ids[req->num_ids++] = token;
    if (is_end_id(scheduler, req, token))
        reason = FINISH_STOP;
    else if (req->num_ids == req->max_device_len)
        reason = FINISH_LENGTH;
    if (reason == FINISH_NONE)
        outputs_add_row(&scheduler->outputs, req, token, FINISH_NONE, ERROR_NONE);
    else
        scheduler_finish_req(scheduler, req, token, reason, ERROR_NONE);
}

static void process_row(struct scheduler *scheduler, const struct batch_row *row, int32_t token)
{
    struct req *req = row->req;
    bool is_nan = token < 0;

    req->inflight--;
    if (req_is_finished(req)) {
        scheduler->num_wasted_rows++;
        if (req->inflight == 0)
            retire_req(scheduler, req);
        return;
    }
    if (is_nan && row->samples) {
        scheduler->num_nan++;
        scheduler_finish_req(scheduler, req, TOKEN_NONE, FINISH_ERROR, ERROR_INTERNAL);
        return;
    }
    req->tainted |= is_nan;
    if (!req->tainted)
        req->valid_len = row->start + row->extend_len;
    if (row->samples)
        process_token(scheduler, req, token);
    if (row->start < req->prompt_len && !req_is_finished(req))
        cache_valid(scheduler, req);
}

void scheduler_finish_step(struct scheduler *scheduler, const struct batch *batch,
                           const int32_t *tokens)
{
    struct step *step = &scheduler->steps[scheduler->next_result % NUM_STEPS];

    assert(batch == &step->batch && step->is_launched);
    if (scheduler->sink.write)
        record_finish_step(&scheduler->sink, batch, tokens);
    for (int32_t i = 0; i < batch->num_rows; i++)
        process_row(scheduler, &batch->rows[i], tokens[i]);
    step->is_launched = false;
    scheduler->next_result++;
}
