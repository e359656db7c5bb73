/* check.c - scheduler_check: the invariants of README.md, walked. */
#include <stdlib.h>

#include "scheduler_proc/scheduler_state.h"

/* What the walk collects. */
struct walk {
    const struct scheduler *scheduler;
    uint8_t *marks;               /* owned, [num_pages]: times that a page was met */
    struct cache_handle *handles; /* owned, [num_rows]: of the live requests */
    int32_t num_handles;
    int32_t owed_pages;
};

static struct status check_lengths(const struct scheduler *scheduler, const struct req *req)
{
    int32_t page_size = scheduler->config.page_size;
    int32_t unprocessed = 0, launched = 0;

    for (int64_t k = scheduler->next_result; k < scheduler->next_step; k++) {
        const struct batch *batch = &scheduler->steps[k % NUM_STEPS].batch;
        for (int32_t i = 0; i < batch->num_rows; i++) {
            launched += batch->rows[i].req == req;
            unprocessed += batch->rows[i].req == req && batch->rows[i].samples;
        }
    }
    if (launched != req->inflight)
        return status_error(STATUS_INVALID, "uid %llu: inflight %d, in %d launched steps",
                            (unsigned long long)req->uid, req->inflight, launched);
    if (req_is_finished(req))
        return status_ok();
    if (req->cached_len < 0 || req->cached_len >= req->device_len ||
        req->device_len > req->max_device_len || req->valid_len > req->cached_len)
        return status_error(STATUS_INVALID, "uid %llu: valid %d cached %d device %d max %d",
                            (unsigned long long)req->uid, req->valid_len, req->cached_len,
                            req->device_len, req->max_device_len);
    if (req->num_ids != req->device_len - unprocessed)
        return status_error(STATUS_INVALID, "uid %llu: %d ids, device_len %d, %d on their way",
                            (unsigned long long)req->uid, req->num_ids, req->device_len,
                            unprocessed);
    if (req->num_pages < scheduler_num_pages(scheduler, req->cached_len) ||
        req->num_pages > req->reserved_pages || req->handle.num_pages > req->num_pages ||
        req->synced_pages > req->num_pages || req->handle.num_pages * page_size > req->cached_len)
        return status_error(STATUS_INVALID, "uid %llu: %d pages of %d, %d shared, cached_len %d",
                            (unsigned long long)req->uid, req->num_pages, req->reserved_pages,
                            req->handle.num_pages, req->cached_len);
    return status_ok();
}

/* A live request's shared pages are those of its handle; its own are marked. */
static struct status check_pages(struct walk *walk, const struct req *req)
{
    const struct scheduler *scheduler = walk->scheduler;
    int32_t num_shared = req->handle.num_pages;
    int32_t *path = malloc((size_t)num_shared * sizeof(*path) + 1);
    struct status status = status_ok();

    if (!path)
        return status_error(STATUS_NO_MEMORY, "no memory to check");
    prefix_cache_get_pages(scheduler->cache, (struct cache_handle){0}, req->handle, path);
    for (int32_t i = 0; i < num_shared; i++)
        if (path[i] != req->pages[i])
            status = status_error(STATUS_INVALID, "uid %llu: page %d of its row is not the cache's",
                                  (unsigned long long)req->uid, i);
    for (int32_t i = num_shared; i < req->num_pages; i++) {
        int32_t page = req->pages[i];
        if (page < 0 || page >= scheduler->pool.num_pages)
            status = status_error(STATUS_INVALID, "uid %llu: page %d of its row is %d",
                                  (unsigned long long)req->uid, i, page);
        else if (walk->marks[page] < UINT8_MAX)
            walk->marks[page]++;
    }
    walk->handles[walk->num_handles++] = req->handle;
    walk->owed_pages += req->reserved_pages - req->num_pages;
    free(path);
    return status;
}

static struct status check_rows(struct walk *walk)
{
    const struct scheduler *scheduler = walk->scheduler;

    for (int32_t i = 0; i < scheduler->table.num_rows; i++) {
        const struct req *req = scheduler->table.rows[i];
        if (!req)
            continue;
        struct status status = check_lengths(scheduler, req);
        if (status.code)
            return status;
        if (req_is_finished(req) && (req->inflight == 0 || req->num_pages != 0))
            return status_error(STATUS_INVALID, "uid %llu has ended and holds row %d, %d pages",
                                (unsigned long long)req->uid, i, req->num_pages);
        if (req_is_finished(req))
            continue;
        status = check_pages(walk, req);
        if (status.code)
            return status;
    }
    return status_ok();
}

static struct status check_launched(const struct scheduler *scheduler)
{
    for (int64_t k = scheduler->next_result; k < scheduler->next_step; k++) {
        const struct step *step = &scheduler->steps[k % NUM_STEPS];
        if (!step->is_launched || step->batch.step != k)
            return status_error(STATUS_INVALID, "step %lld is not there", (long long)k);
        for (int32_t i = 0; i < step->batch.num_rows; i++) {
            const struct batch_row *row = &step->batch.rows[i];
            if (scheduler->table.rows[row->table_idx] != row->req)
                return status_error(STATUS_INVALID,
                                    "row %d was given away, launched step %lld still uses it",
                                    row->table_idx, (long long)k);
        }
    }
    return status_ok();
}

static struct status check_list(const struct req_list *list, enum req_state state)
{
    const struct req *prev = NULL;
    int32_t num_reqs = 0;

    for (const struct req *req = list->first; req; prev = req, req = req->next, num_reqs++)
        if (req->state != state || req->prev != prev || num_reqs == list->num_reqs ||
            (state == REQ_QUEUED) != (req->table_idx == TABLE_IDX_NONE))
            return status_error(STATUS_INVALID, "uid %llu is in a list that is not its own",
                                (unsigned long long)req->uid);
    if (num_reqs != list->num_reqs || list->last != prev)
        return status_error(STATUS_INVALID, "a list of %d requests counts %d", num_reqs,
                            list->num_reqs);
    return status_ok();
}

static struct status check_sums(const struct walk *walk)
{
    const struct scheduler *scheduler = walk->scheduler;
    int32_t num_rows = scheduler->table.num_rows - scheduler->table.num_free_rows;

    if (walk->owed_pages != scheduler->owed_pages)
        return status_error(STATUS_INVALID, "%d pages owed, counts %d", walk->owed_pages,
                            scheduler->owed_pages);
    if (scheduler->owed_pages > scheduler->pool.num_free + scheduler->cache->evictable_pages)
        return status_error(STATUS_INVALID, "%d pages owed, %d free and %d evictable",
                            scheduler->owed_pages, scheduler->pool.num_free,
                            scheduler->cache->evictable_pages);
    for (int32_t page = 0; page < scheduler->pool.num_pages; page++)
        if (walk->marks[page] != 1)
            return status_error(STATUS_INVALID, "page %d is held %d times", page,
                                walk->marks[page]);
    if (scheduler->table.num_reqs != num_rows + scheduler->queue.num_reqs)
        return status_error(STATUS_INVALID, "%d requests, %d with rows and %d queued",
                            scheduler->table.num_reqs, num_rows, scheduler->queue.num_reqs);
    return status_ok();
}

struct status scheduler_check(const struct scheduler *scheduler)
{
    struct status status = status_error(STATUS_NO_MEMORY, "no memory to check");
    struct walk walk = {
        .scheduler = scheduler,
        .marks = calloc((size_t)scheduler->pool.num_pages, 1),
        .handles = calloc((size_t)scheduler->table.num_rows, sizeof(*walk.handles)),
    };

    if (!walk.marks || !walk.handles)
        goto out;
    status = req_table_check(&scheduler->table);
    if (!status.code)
        status = check_list(&scheduler->queue, REQ_QUEUED);
    if (!status.code)
        status = check_list(&scheduler->prefills, REQ_PREFILL);
    if (!status.code)
        status = check_list(&scheduler->decodes, REQ_DECODE);
    if (!status.code)
        status = check_launched(scheduler);
    if (!status.code)
        status = check_rows(&walk);
    if (!status.code)
        status = page_pool_check(&scheduler->pool, walk.marks);
    if (!status.code)
        status = prefix_cache_check(scheduler->cache, walk.handles, walk.num_handles, walk.marks);
    if (!status.code)
        status = check_sums(&walk);
out:
    free(walk.marks);
    free(walk.handles);
    return status;
}
