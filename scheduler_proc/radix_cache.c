/*
 * radix_cache.c - see radix_cache.h.
 *
 *     root ── A: 3 pages ──┬── B: 2 pages          node: a run of at least one page
 *                          └── C: 1 page           key:  the tokens of its pages
 *
 * A node's pages are a chain through next_page, their tokens lie in page_tokens by page number, so
 * that splitting a node moves nothing. The child of a node is found by a hash of (node, tokens of
 * the child's first page): one table for all nodes.
 *
 * Each node that no handle holds is in one list by time of last use. A use touches the nodes from
 * the leaf to the root, so a parent is always younger than its children, and the oldest node of the
 * list is a leaf: eviction takes it without looking further. ref_count of a node is the number of
 * locked handles at or below it; a locked node's ancestors are all locked.
 *
 * Node 0 is the root; 0 also ends chains and marks the list's head, since the root is in neither.
 */
#include "scheduler_proc/radix_cache.h"

#include "scheduler_proc/radix_internal.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct radix_cache *radix(struct prefix_cache *base)
{
    return (struct radix_cache *)base;
}

static bool same_tokens(const struct radix_cache *cache, int32_t page, const int32_t *ids)
{
    return memcmp(radix_tokens(cache, page), ids, (size_t)cache->page_size * sizeof(*ids)) == 0;
}

/* ---- children ---- */

static uint32_t hash_child(const struct radix_cache *cache, int32_t parent, const int32_t *ids)
{
    uint64_t hash = (uint32_t)parent + UINT64_C(0x9E3779B97F4A7C15);

    for (int32_t i = 0; i < cache->page_size; i++) {
        hash = (hash ^ (uint32_t)ids[i]) * UINT64_C(0xD6E8FEB86659FD93);
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

int32_t radix_cache_find_child(const struct radix_cache *cache, int32_t parent, const int32_t *ids)
{
    uint32_t hash = hash_child(cache, parent, ids);
    int32_t n = cache->buckets[hash & cache->bucket_mask];

    for (; n != 0; n = cache->nodes[n].next_hashed) {
        const struct radix_node *node = &cache->nodes[n];
        if (node->hash == hash && node->parent == parent &&
            same_tokens(cache, node->first_page, ids))
            return n;
    }
    return 0;
}

static void hash_in(struct radix_cache *cache, int32_t n)
{
    struct radix_node *node = &cache->nodes[n];

    node->hash = hash_child(cache, node->parent, radix_tokens(cache, node->first_page));
    int32_t *bucket = &cache->buckets[node->hash & cache->bucket_mask];
    node->next_hashed = *bucket;
    *bucket = n;
}

static void hash_out(struct radix_cache *cache, int32_t n)
{
    int32_t *link = &cache->buckets[cache->nodes[n].hash & cache->bucket_mask];

    while (*link != n)
        link = &cache->nodes[*link].next_hashed;
    *link = cache->nodes[n].next_hashed;
}

/* ---- the list by time of last use: unlocked nodes, 0 between the youngest and the oldest ---- */

static void list_out(struct radix_cache *cache, int32_t n)
{
    struct radix_node *nodes = cache->nodes;

    nodes[nodes[n].older].younger = nodes[n].younger;
    nodes[nodes[n].younger].older = nodes[n].older;
}

/* Puts n on the younger side of `behind`; behind 0 would be the oldest place. */
static void list_in_after(struct radix_cache *cache, int32_t n, int32_t behind)
{
    struct radix_node *nodes = cache->nodes;

    nodes[n].older = behind;
    nodes[n].younger = nodes[behind].younger;
    nodes[nodes[n].younger].older = n;
    nodes[behind].younger = n;
}

static void list_in_youngest(struct radix_cache *cache, int32_t n)
{
    list_in_after(cache, n, cache->nodes[RADIX_ROOT].older);
}

static void touch(struct radix_cache *cache, int32_t n)
{
    for (; n != RADIX_ROOT && cache->nodes[n].ref_count == 0; n = cache->nodes[n].parent) {
        list_out(cache, n);
        list_in_youngest(cache, n);
    }
}

/* ---- nodes ---- */

static int32_t node_take(struct radix_cache *cache)
{
    int32_t n = cache->unused;

    if (n != 0) {
        cache->unused = cache->nodes[n].next_hashed;
    } else {
        assert(cache->num_nodes <= cache->num_pages);
        n = cache->num_nodes++;
    }
    return n;
}

/*
 * Cuts node n behind its first num_pages pages. n keeps the lower part, so that handles at n keep
 * their length; the new node above it is returned.
 */
static int32_t split(struct radix_cache *cache, int32_t n, int32_t num_pages)
{
    int32_t u = node_take(cache);
    struct radix_node *lower = &cache->nodes[n], *upper = &cache->nodes[u];
    int32_t last = lower->first_page;

    for (int32_t i = 1; i < num_pages; i++)
        last = cache->next_page[last];
    hash_out(cache, n);
    *upper = (struct radix_node){.parent = lower->parent,
                                 .ref_count = lower->ref_count,
                                 .num_children = 1,
                                 .num_pages = num_pages,
                                 .first_page = lower->first_page};
    lower->parent = u;
    lower->num_pages -= num_pages;
    lower->first_page = cache->next_page[last];
    cache->next_page[last] = RADIX_NO_PAGE;
    hash_in(cache, u);
    hash_in(cache, n);
    if (upper->ref_count == 0)
        list_in_after(cache, u, n); /* younger than its child, older than its parent */
    return u;
}

/* How many of the first max_pages pages of ids node n has from its start; at least one. */
static int32_t common_pages(const struct radix_cache *cache, int32_t n, const int32_t *ids,
                            int32_t max_pages)
{
    int32_t page = cache->next_page[cache->nodes[n].first_page];
    int32_t num = 1;

    if (max_pages > cache->nodes[n].num_pages)
        max_pages = cache->nodes[n].num_pages;
    while (num < max_pages) {
        int32_t next = cache->next_page[page];
        if (next != RADIX_NO_PAGE)
            __builtin_prefetch(radix_tokens(cache, next));
        if (!same_tokens(cache, page, ids + (size_t)num * (size_t)cache->page_size))
            break;
        page = next;
        num++;
    }
    return num;
}

/* ---- the interface ---- */

static struct cache_handle match(struct prefix_cache *base, struct cache_handle from,
                                 const int32_t *ids, int32_t max_pages)
{
    struct radix_cache *cache = radix(base);
    struct cache_handle at = from;

    while (at.num_pages < max_pages) {
        const int32_t *rest = ids + (size_t)at.num_pages * (size_t)cache->page_size;
        int32_t child = radix_cache_find_child(cache, at.node, rest);
        if (child == 0)
            break;
        int32_t num_pages = common_pages(cache, child, rest, max_pages - at.num_pages);
        bool whole = num_pages == cache->nodes[child].num_pages;
        at.node = whole ? child : split(cache, child, num_pages);
        at.num_pages += num_pages;
        if (!whole)
            break;
    }
    touch(cache, at.node);
    return at;
}

static int32_t peek(const struct prefix_cache *base, const int32_t *ids, int32_t max_pages)
{
    const struct radix_cache *cache = radix_const(base);
    int32_t num_pages = 0, more = 0;

    for (int32_t n = RADIX_ROOT; num_pages < max_pages; num_pages += more) {
        const int32_t *rest = ids + (size_t)num_pages * (size_t)cache->page_size;
        n = radix_cache_find_child(cache, n, rest);
        if (n == 0)
            break;
        more = common_pages(cache, n, rest, max_pages - num_pages);
        if (more < cache->nodes[n].num_pages)
            return num_pages + more;
    }
    return num_pages;
}

static void get_pages(const struct prefix_cache *base, struct cache_handle from,
                      struct cache_handle to, int32_t *pages)
{
    const struct radix_cache *cache = radix_const(base);
    int32_t end = to.num_pages;

    for (int32_t n = to.node; end > from.num_pages; n = cache->nodes[n].parent) {
        int32_t i = end - cache->nodes[n].num_pages;
        int32_t page = cache->nodes[n].first_page;
        end = i;
        for (; page != RADIX_NO_PAGE; page = cache->next_page[page])
            pages[i++] = page;
    }
    assert(end == from.num_pages);
}

static struct cache_handle insert(struct prefix_cache *base, struct cache_handle from,
                                  const int32_t *ids, const int32_t *pages, int32_t num_pages)
{
    struct radix_cache *cache = radix(base);

    if (num_pages <= from.num_pages)
        return from;
    int32_t n = node_take(cache);
    cache->nodes[n] = (struct radix_node){.parent = from.node,
                                          .num_pages = num_pages - from.num_pages,
                                          .first_page = pages[from.num_pages]};
    for (int32_t i = from.num_pages; i < num_pages; i++) {
        memcpy(radix_tokens(cache, pages[i]), ids + (size_t)i * (size_t)cache->page_size,
               (size_t)cache->page_size * sizeof(*ids));
        cache->next_page[pages[i]] = i + 1 < num_pages ? pages[i + 1] : RADIX_NO_PAGE;
    }
    hash_in(cache, n);
    cache->nodes[from.node].num_children++;
    list_in_youngest(cache, n);
    base->evictable_pages += num_pages - from.num_pages;
    touch(cache, n);
    return (struct cache_handle){.node = n, .num_pages = num_pages};
}

static void lock(struct prefix_cache *base, struct cache_handle from, struct cache_handle to)
{
    struct radix_cache *cache = radix(base);

    for (int32_t n = to.node; n != from.node; n = cache->nodes[n].parent) {
        struct radix_node *node = &cache->nodes[n];
        assert(n != RADIX_ROOT);
        if (node->ref_count++ > 0)
            continue;
        list_out(cache, n);
        base->evictable_pages -= node->num_pages;
        base->protected_pages += node->num_pages;
    }
}

static void unlock(struct prefix_cache *base, struct cache_handle handle)
{
    struct radix_cache *cache = radix(base);

    for (int32_t n = handle.node; n != RADIX_ROOT; n = cache->nodes[n].parent) {
        struct radix_node *node = &cache->nodes[n];
        assert(node->ref_count > 0);
        if (--node->ref_count > 0)
            continue;
        list_in_youngest(cache, n);
        base->protected_pages -= node->num_pages;
        base->evictable_pages += node->num_pages;
    }
}

/* Ends the leaf n, its pages to the pool. */
static void drop_leaf(struct radix_cache *cache, int32_t n, struct page_pool *pool)
{
    struct radix_node *node = &cache->nodes[n];

    assert(node->num_children == 0 && node->ref_count == 0);
    for (int32_t page = node->first_page; page != RADIX_NO_PAGE; page = cache->next_page[page])
        page_pool_give(pool, 1, &page);
    list_out(cache, n);
    hash_out(cache, n);
    cache->nodes[node->parent].num_children--;
    cache->base.evictable_pages -= node->num_pages;
    *node = (struct radix_node){.next_hashed = cache->unused};
    cache->unused = n;
}

static int32_t evict(struct prefix_cache *base, int32_t num_pages, struct page_pool *pool)
{
    struct radix_cache *cache = radix(base);
    int32_t num_freed = 0;

    while (num_freed < num_pages) {
        int32_t oldest = cache->nodes[RADIX_ROOT].younger;
        if (oldest == RADIX_ROOT)
            break;
        num_freed += cache->nodes[oldest].num_pages;
        drop_leaf(cache, oldest, pool);
    }
    return num_freed;
}

static void destroy(struct prefix_cache *base)
{
    struct radix_cache *cache = radix(base);

    free(cache->nodes);
    free(cache->buckets);
    free(cache->next_page);
    free(cache->page_tokens);
    free(cache);
}

struct status radix_cache_create(int32_t num_pages, int32_t page_size, struct prefix_cache **out)
{
    static const struct prefix_cache_ops ops = {match,  peek,  get_pages,         insert, lock,
                                                unlock, evict, radix_cache_check, destroy};
    struct radix_cache *cache = calloc(1, sizeof(*cache));
    size_t num_buckets = 1;

    if (!cache)
        return status_error(STATUS_NO_MEMORY, "no memory for the radix cache");
    while (num_buckets < (size_t)num_pages)
        num_buckets *= 2;
    *cache = (struct radix_cache){
        .base = {.ops = &ops},
        .num_pages = num_pages,
        .page_size = page_size,
        .num_nodes = 1,
        .bucket_mask = (uint32_t)(num_buckets - 1),
        .nodes = calloc((size_t)num_pages + 1, sizeof(*cache->nodes)),
        .buckets = calloc(num_buckets, sizeof(*cache->buckets)),
        .next_page = calloc((size_t)num_pages, sizeof(*cache->next_page)),
        .page_tokens = calloc((size_t)num_pages, (size_t)page_size * sizeof(*cache->page_tokens)),
    };
    if (!cache->nodes || !cache->buckets || !cache->next_page || !cache->page_tokens) {
        destroy(&cache->base);
        return status_error(STATUS_NO_MEMORY, "no memory for a radix cache of %d pages", num_pages);
    }
    *out = &cache->base;
    return status_ok();
}
