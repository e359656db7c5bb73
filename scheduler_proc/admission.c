/*
 * admission.c - who gets a row and pages, and which pages of a row are shared.
 *
 * Admission is by reservation: a request gets its row only when all pages that it may ever need are
 * there, free, evictable or already its own. So no request is ever stopped half way.
 *
 *     owed = sum over live requests of (reserved_pages - num_pages) <= free + evictable
 *
 * Source: mini-sglang scheduler/prefill.py, PrefillAdder; its estimate is in tokens and may
 * over-commit.
 */
#include "scheduler_proc/scheduler_state.h"

#include <assert.h>

void scheduler_remap(struct scheduler *scheduler, struct req *req, struct cache_handle to)
{
    struct cache_handle from = req->handle;
    int32_t page_size = scheduler->config.page_size;

    if (to.num_pages == from.num_pages)
        return;
    if (req->num_pages > from.num_pages) {
        int32_t end = to.num_pages < req->num_pages ? to.num_pages : req->num_pages;
        page_pool_give(&scheduler->pool, end - from.num_pages, req->pages + from.num_pages);
    }
    prefix_cache_get_pages(scheduler->cache, from, to, req->pages);
    prefix_cache_lock(scheduler->cache, from, to);
    req->handle = to;
    if (req->synced_pages > from.num_pages)
        req->synced_pages = from.num_pages; /* the next block tells the device */
    if (req->num_pages < to.num_pages) {
        scheduler->owed_pages -= to.num_pages - req->num_pages;
        req->num_pages = to.num_pages;
    }
    if (req->cached_len < to.num_pages * page_size) {
        req->num_cached_tokens += to.num_pages * page_size - req->cached_len;
        req->cached_len = to.num_pages * page_size;
    }
    scheduler->admission_waits = false;
}

/* At least one token of a prompt is always computed: its logits choose the first token. */
static int32_t max_matched_pages(const struct scheduler *scheduler, const struct req *req)
{
    return (req->prompt_len - 1) / scheduler->config.page_size;
}

static struct cache_handle match_prompt(struct scheduler *scheduler, const struct req *req)
{
    return prefix_cache_match(scheduler->cache, req->handle, req->input_ids,
                              max_matched_pages(scheduler, req));
}

void scheduler_match_again(struct scheduler *scheduler, struct req *req)
{
    int64_t num_cached = req->num_cached_tokens;

    scheduler_remap(scheduler, req, match_prompt(scheduler, req));
    scheduler->num_cached_tokens += req->num_cached_tokens - num_cached;
}

void scheduler_extend_row(struct scheduler *scheduler, struct req *req, int32_t end)
{
    int32_t num_pages = scheduler_num_pages(scheduler, end) - req->num_pages;

    if (num_pages <= 0)
        return;
    assert(req->num_pages + num_pages <= req->reserved_pages);
    if (num_pages > scheduler->pool.num_free)
        prefix_cache_evict(scheduler->cache, num_pages - scheduler->pool.num_free,
                           &scheduler->pool);
    struct status status = page_pool_take(&scheduler->pool, num_pages, req->pages + req->num_pages);
    assert(status.code == STATUS_OK); /* reserved */
    (void)status;
    req->num_pages += num_pages;
    scheduler->owed_pages -= num_pages;
}

/* Who is next: the first, or with ORDER_CACHED one behind it that finds more of its prompt. */
static struct req *pick(const struct scheduler *scheduler)
{
    struct req *best = scheduler->queue.first;
    struct req *req = best;
    int32_t most = -1;

    if (scheduler->config.queue_order == ORDER_ARRIVAL || best->num_passed >= MAX_PASSES)
        return best;
    for (int32_t i = 0; req && i < QUEUE_WINDOW; i++, req = req->next) {
        int32_t num_pages =
            prefix_cache_peek(scheduler->cache, req->input_ids, max_matched_pages(scheduler, req));
        if (num_pages <= most)
            continue;
        most = num_pages;
        best = req;
    }
    return best;
}

/* Takes back what admit has given. */
static void withdraw(struct scheduler *scheduler, struct req *req)
{
    scheduler->owed_pages -= req->reserved_pages - req->num_pages;
    prefix_cache_unlock(scheduler->cache, req->handle);
    req_table_give_row(&scheduler->table, req);
    req->handle = (struct cache_handle){0};
    req->num_pages = req->synced_pages = req->reserved_pages = 0;
    req->cached_len = req->num_cached_tokens = 0;
    req->pages = NULL;
}

bool scheduler_admit(struct scheduler *scheduler, const struct step *step, int32_t budget)
{
    if (scheduler->admission_waits || scheduler->queue.num_reqs == 0)
        return false;
    scheduler->num_admission_tries++;
    if (scheduler->table.num_free_rows == 0) {
        scheduler->admission_waits = true;
        return false;
    }
    struct req *req = pick(scheduler);
    req_table_take_row(&scheduler->table, req);
    req->pages =
        scheduler->page_table + (size_t)req->table_idx * (size_t)scheduler->max_pages_per_req;
    req->reserved_pages = scheduler_num_pages(scheduler, req->max_device_len - 1);
    scheduler->owed_pages += req->reserved_pages;
    scheduler_remap(scheduler, req, match_prompt(scheduler, req));
    bool fits =
        scheduler->owed_pages <= scheduler->pool.num_free + scheduler->cache->evictable_pages;
    int32_t chunk = scheduler_chunk_len(scheduler, req->cached_len, req->prompt_len, budget);
    int32_t num_pages = scheduler_num_pages(scheduler, req->cached_len + chunk);
    if (!fits || chunk == 0 || !scheduler_has_room(scheduler, step, chunk, num_pages)) {
        withdraw(scheduler, req);
        scheduler->admission_waits = !fits;
        return false;
    }
    if (req != scheduler->queue.first)
        scheduler->queue.first->num_passed++;
    req_list_remove(&scheduler->queue, req);
    req_list_append(&scheduler->prefills, req);
    req->state = REQ_PREFILL;
    scheduler->num_prompt_tokens += req->prompt_len;
    scheduler->num_cached_tokens += req->num_cached_tokens;
    return true;
}
