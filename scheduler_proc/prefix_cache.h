/*
 * prefix_cache.h - the one interface of the caches of prompt prefixes: radix_cache.h keeps a tree,
 * naive_cache.h keeps nothing. They hold whole pages and speak in pages.
 *
 * A handle names a prefix that the cache holds. While it is locked, its pages stay. The lock of a
 * request starts at the root (the empty prefix, which costs nothing) and moves down as the request
 * finds or adds pages: lock(from, to), where `to` continues `from`; unlock gives all of it back.
 * Work is proportional to the part between `from` and `to`, never to what is cached.
 *
 * Source: mini-sglang kvcache/base.py (there in tokens, and with each lock from the root).
 */
#ifndef SCHEDULER_PROC_PREFIX_CACHE_H
#define SCHEDULER_PROC_PREFIX_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "scheduler_proc/page_pool.h"

struct cache_handle {
    int32_t node;      /* the cache's own number of the place; 0: the root */
    int32_t num_pages; /* length of the prefix */
};

struct prefix_cache;

struct prefix_cache_ops {
    struct cache_handle (*match)(struct prefix_cache *cache, struct cache_handle from,
                                 const int32_t *ids, int32_t max_pages);
    int32_t (*peek)(const struct prefix_cache *cache, const int32_t *ids, int32_t max_pages);
    void (*get_pages)(const struct prefix_cache *cache, struct cache_handle from,
                      struct cache_handle to, int32_t *pages);
    struct cache_handle (*insert)(struct prefix_cache *cache, struct cache_handle from,
                                  const int32_t *ids, const int32_t *pages, int32_t num_pages);
    void (*lock)(struct prefix_cache *cache, struct cache_handle from, struct cache_handle to);
    void (*unlock)(struct prefix_cache *cache, struct cache_handle handle);
    int32_t (*evict)(struct prefix_cache *cache, int32_t num_pages, struct page_pool *pool);
    struct status (*check)(const struct prefix_cache *cache, const struct cache_handle *locked,
                           int32_t num_locked, uint8_t *marks);
    void (*destroy)(struct prefix_cache *cache);
};

/* The head of each cache's own struct. */
struct prefix_cache {
    const struct prefix_cache_ops *ops;
    int32_t evictable_pages; /* held, in no locked prefix */
    int32_t protected_pages; /* held, in a locked prefix */
};

/*
 * The longest prefix of ids, at most max_pages pages long, that continues `from` (whose pages are
 * known to be those of ids). Counts as a use of it. The same handle when nothing more is there.
 */
static inline struct cache_handle prefix_cache_match(struct prefix_cache *cache,
                                                     struct cache_handle from, const int32_t *ids,
                                                     int32_t max_pages)
{
    return cache->ops->match(cache, from, ids, max_pages);
}

/* How many pages a match from the root would have. Changes nothing and is no use of them. */
static inline int32_t prefix_cache_peek(const struct prefix_cache *cache, const int32_t *ids,
                                        int32_t max_pages)
{
    return cache->ops->peek(cache, ids, max_pages);
}

/* Writes the page numbers of `to` behind `from` to pages[from.num_pages .. to.num_pages). */
static inline void prefix_cache_get_pages(const struct prefix_cache *cache,
                                          struct cache_handle from, struct cache_handle to,
                                          int32_t *pages)
{
    cache->ops->get_pages(cache, from, to, pages);
}

/*
 * Puts pages[from.num_pages .. num_pages), which hold those tokens of ids, behind `from`, which is
 * what match(ids, num_pages) gives now. The cache owns them from here on. Cannot fail; a cache that
 * keeps nothing returns `from`, and the pages stay the caller's.
 */
static inline struct cache_handle prefix_cache_insert(struct prefix_cache *cache,
                                                      struct cache_handle from, const int32_t *ids,
                                                      const int32_t *pages, int32_t num_pages)
{
    return cache->ops->insert(cache, from, ids, pages, num_pages);
}

/* Moves a lock from `from` (locked, or the root) down to `to`. */
static inline void prefix_cache_lock(struct prefix_cache *cache, struct cache_handle from,
                                     struct cache_handle to)
{
    cache->ops->lock(cache, from, to);
}

/* Ends a lock. Counts as a use of the prefix. */
static inline void prefix_cache_unlock(struct prefix_cache *cache, struct cache_handle handle)
{
    cache->ops->unlock(cache, handle);
}

/* Gives at least num_pages pages to the pool, the least recently used first; fewer only when no
 * more are evictable. Returns how many. */
static inline int32_t prefix_cache_evict(struct prefix_cache *cache, int32_t num_pages,
                                         struct page_pool *pool)
{
    return cache->ops->evict(cache, num_pages, pool);
}

/* Walks everything: `locked` are all handles that hold a lock. Counts each page into marks. */
MUST_CHECK static inline struct status prefix_cache_check(const struct prefix_cache *cache,
                                                          const struct cache_handle *locked,
                                                          int32_t num_locked, uint8_t *marks)
{
    return cache->ops->check(cache, locked, num_locked, marks);
}

static inline void prefix_cache_destroy(struct prefix_cache **cache)
{
    if (*cache)
        (*cache)->ops->destroy(*cache);
    *cache = NULL;
}

#endif
