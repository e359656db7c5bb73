/* radix_internal.h - what radix_cache.c and radix_check.c share. Nobody else includes it. */
#ifndef SCHEDULER_PROC_RADIX_INTERNAL_H
#define SCHEDULER_PROC_RADIX_INTERNAL_H

#include "scheduler_proc/radix_cache.h"

enum { RADIX_ROOT = 0, RADIX_NO_PAGE = -1 };

struct radix_node {
    int32_t parent;
    int32_t ref_count;
    int32_t num_children;
    int32_t num_pages;  /* 0: unused, then next_hashed chains the unused ones */
    int32_t first_page; /* the rest follows by next_page */
    uint32_t hash;      /* of (parent, tokens of first_page) */
    int32_t next_hashed;
    int32_t older, younger; /* the list of unlocked nodes; a ring through node 0 */
};

struct radix_cache {
    struct prefix_cache base;
    int32_t num_pages, page_size;
    int32_t num_nodes;    /* nodes ever used, the root too */
    int32_t unused;       /* chain of nodes that are free again; 0: none */
    uint32_t bucket_mask; /* number of buckets - 1 */
    struct radix_node
        *nodes;           /* owned, [num_pages + 1]: each but the root holds at least one page */
    int32_t *buckets;     /* owned: first node of each chain, or 0 */
    int32_t *next_page;   /* owned, [num_pages]: the page behind it in its node */
    int32_t *page_tokens; /* owned, [num_pages][page_size] */
};

static inline const struct radix_cache *radix_const(const struct prefix_cache *base)
{
    return (const struct radix_cache *)base;
}

static inline int32_t *radix_tokens(const struct radix_cache *cache, int32_t page)
{
    return cache->page_tokens + (size_t)page * (size_t)cache->page_size;
}

/* The child of `parent` whose first page has these tokens, or 0. */
int32_t radix_cache_find_child(const struct radix_cache *cache, int32_t parent, const int32_t *ids);

/* prefix_cache_ops.check */
MUST_CHECK struct status radix_cache_check(const struct prefix_cache *base,
                                           const struct cache_handle *locked, int32_t num_locked,
                                           uint8_t *marks);

#endif
