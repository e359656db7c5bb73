/*
 * page_pool.h - which pages of the KV cache are free. Page numbers only: no contents, no device.
 *
 * Between two calls of the core: free pages + pages in the prefix cache + pages of live requests ==
 * num_pages, each exactly once.
 * Source: mini-sglang scheduler/cache.py, CacheManager.free_slots (there in slots, here in pages).
 */
#ifndef SCHEDULER_PROC_PAGE_POOL_H
#define SCHEDULER_PROC_PAGE_POOL_H

#include <stdint.h>

#include "common/status.h"

struct page_pool {
    int32_t *free; /* owned: a stack of free page numbers, [num_pages]; the last given is on top */
    int32_t num_free; /* height of that stack */
    int32_t num_pages;
};

/* Fills the pool with pages 0..num_pages-1, 0 on top. A failed init zeroes it; deinit takes a zero.
 */
MUST_CHECK struct status page_pool_init(struct page_pool *pool, int32_t num_pages);
void page_pool_deinit(struct page_pool *pool);

/* Takes n pages into out[n], all or none: STATUS_NO_SPACE changes nothing, so evict and retry. */
MUST_CHECK struct status page_pool_take(struct page_pool *pool, int32_t n, int32_t *out);

/* Gives n pages back. Each was taken and is held by nobody else. */
void page_pool_give(struct page_pool *pool, int32_t n, const int32_t *pages);

/*
 * Counts each free page into marks[page]; the first that is no page number is named. Whether the
 * counts are right is known to the caller, who adds the pages that are held.
 */
MUST_CHECK struct status page_pool_check(const struct page_pool *pool, uint8_t *marks);

#endif
