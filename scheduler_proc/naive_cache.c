/* naive_cache.c - see naive_cache.h. */
#include "scheduler_proc/naive_cache.h"

#include <stdlib.h>

static struct cache_handle match(struct prefix_cache *cache, struct cache_handle from,
                                 const int32_t *ids, int32_t max_pages)
{
    (void)cache, (void)ids, (void)max_pages;
    return from;
}

static int32_t peek(const struct prefix_cache *cache, const int32_t *ids, int32_t max_pages)
{
    (void)cache, (void)ids, (void)max_pages;
    return 0;
}

static void get_pages(const struct prefix_cache *cache, struct cache_handle from,
                      struct cache_handle to, int32_t *pages)
{
    (void)cache, (void)from, (void)to, (void)pages;
}

static struct cache_handle insert(struct prefix_cache *cache, struct cache_handle from,
                                  const int32_t *ids, const int32_t *pages, int32_t num_pages)
{
    (void)cache, (void)ids, (void)pages, (void)num_pages;
    return from;
}

static void lock(struct prefix_cache *cache, struct cache_handle from, struct cache_handle to)
{
    (void)cache, (void)from, (void)to;
}

static void unlock(struct prefix_cache *cache, struct cache_handle handle)
{
    (void)cache, (void)handle;
}

static int32_t evict(struct prefix_cache *cache, int32_t num_pages, struct page_pool *pool)
{
    (void)cache, (void)num_pages, (void)pool;
    return 0;
}

static struct status check(const struct prefix_cache *cache, const struct cache_handle *locked,
                           int32_t num_locked, uint8_t *marks)
{
    (void)marks;
    for (int32_t i = 0; i < num_locked; i++)
        if (locked[i].node != 0 || locked[i].num_pages != 0)
            return status_error(STATUS_INVALID, "naive cache: a handle of %d pages",
                                locked[i].num_pages);
    if (cache->evictable_pages != 0 || cache->protected_pages != 0)
        return status_error(STATUS_INVALID, "naive cache: holds %d pages",
                            cache->evictable_pages + cache->protected_pages);
    return status_ok();
}

static void destroy(struct prefix_cache *cache)
{
    free(cache);
}

struct status naive_cache_create(struct prefix_cache **out)
{
    static const struct prefix_cache_ops ops = {match,  peek,  get_pages, insert, lock,
                                                unlock, evict, check,     destroy};
    struct prefix_cache *cache = calloc(1, sizeof(*cache));

    if (!cache)
        return status_error(STATUS_NO_MEMORY, "no memory for the naive cache");
    cache->ops = &ops;
    *out = cache;
    return status_ok();
}
