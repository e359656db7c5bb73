/* page_pool.c - see page_pool.h. */
#include "scheduler_proc/page_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct status page_pool_init(struct page_pool *pool, int32_t num_pages)
{
    *pool = (struct page_pool){0};
    if (num_pages < 1)
        return status_error(STATUS_INVALID, "num-pages: %d, at least 1", num_pages);
    pool->free = malloc((size_t)num_pages * sizeof(*pool->free));
    if (!pool->free)
        return status_error(STATUS_NO_MEMORY, "no memory for the numbers of %d pages", num_pages);
    for (int32_t i = 0; i < num_pages; i++)
        pool->free[i] = num_pages - 1 - i;
    pool->num_free = num_pages;
    pool->num_pages = num_pages;
    return status_ok();
}

void page_pool_deinit(struct page_pool *pool)
{
    free(pool->free);
    *pool = (struct page_pool){0};
}

struct status page_pool_take(struct page_pool *pool, int32_t n, int32_t *out)
{
    if (n > pool->num_free)
        return status_error(STATUS_NO_SPACE, "%d pages wanted, %d free", n, pool->num_free);
    for (int32_t i = 0; i < n; i++)
        out[i] = pool->free[--pool->num_free];
    return status_ok();
}

void page_pool_give(struct page_pool *pool, int32_t n, const int32_t *pages)
{
    assert(n <= pool->num_pages - pool->num_free);
    for (int32_t i = 0; i < n; i++)
        pool->free[pool->num_free++] = pages[n - 1 - i]; /* so that a take gives them in order */
}

struct status page_pool_check(const struct page_pool *pool, uint8_t *marks)
{
    if (pool->num_free < 0 || pool->num_free > pool->num_pages)
        return status_error(STATUS_INVALID, "page pool: %d free of %d", pool->num_free,
                            pool->num_pages);
    for (int32_t i = 0; i < pool->num_free; i++) {
        int32_t page = pool->free[i];
        if (page < 0 || page >= pool->num_pages)
            return status_error(STATUS_INVALID, "page pool: %d is no page", page);
        if (marks[page] < UINT8_MAX)
            marks[page]++;
    }
    return status_ok();
}
