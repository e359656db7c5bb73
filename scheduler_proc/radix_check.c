/*
 * radix_check.c - walks a radix cache: that its nodes, chains, hash table, list and counts say the
 * same.
 */
#include <stdlib.h>

#include "scheduler_proc/radix_internal.h"

/* What is true of node n by itself, and its pages marked. */
static struct status check_node(const struct radix_cache *cache, int32_t n, int32_t expected_refs,
                                uint8_t *marks)
{
    const struct radix_node *node = &cache->nodes[n];
    const struct radix_node *parent = &cache->nodes[node->parent];
    int32_t num_pages = 0;

    if (node->parent != RADIX_ROOT && parent->num_pages == 0)
        return status_error(STATUS_INVALID, "radix: node %d has no parent", n);
    if (node->ref_count != expected_refs)
        return status_error(STATUS_INVALID,
                            "radix: node %d has ref_count %d, %d handles at or below", n,
                            node->ref_count, expected_refs);
    for (int32_t page = node->first_page; page != RADIX_NO_PAGE; page = cache->next_page[page]) {
        if (page < 0 || page >= cache->num_pages || num_pages >= node->num_pages)
            return status_error(STATUS_INVALID, "radix: node %d has a bad chain of pages", n);
        if (marks[page] < UINT8_MAX)
            marks[page]++;
        num_pages++;
    }
    if (num_pages != node->num_pages)
        return status_error(STATUS_INVALID, "radix: node %d has %d pages of %d", n, num_pages,
                            node->num_pages);
    if (radix_cache_find_child(cache, node->parent, radix_tokens(cache, node->first_page)) != n)
        return status_error(STATUS_INVALID, "radix: node %d is not found by its first page", n);
    return status_ok();
}

/* The list holds the unlocked nodes, each behind its children. seen: [num_nodes], zeroed. */
static struct status check_list(const struct radix_cache *cache, int32_t num_unlocked,
                                int32_t *seen)
{
    int32_t num = 0;

    for (int32_t n = cache->nodes[RADIX_ROOT].younger; n != RADIX_ROOT;
         n = cache->nodes[n].younger) {
        const struct radix_node *node = &cache->nodes[n];
        if (num++ == num_unlocked || node->ref_count != 0 || node->num_pages == 0)
            return status_error(STATUS_INVALID, "radix: node %d is in the list of unlocked ones",
                                n);
        if (cache->nodes[node->younger].older != n)
            return status_error(STATUS_INVALID, "radix: the list is broken at node %d", n);
        if (seen[n] != node->num_children)
            return status_error(STATUS_INVALID, "radix: node %d is older than a child of it", n);
        seen[node->parent]++;
    }
    if (num != num_unlocked)
        return status_error(STATUS_INVALID, "radix: %d nodes in the list, %d unlocked", num,
                            num_unlocked);
    return status_ok();
}

struct status radix_cache_check(const struct prefix_cache *base, const struct cache_handle *locked,
                                int32_t num_locked, uint8_t *marks)
{
    const struct radix_cache *cache = radix_const(base);
    struct status status = status_ok();
    int32_t num_protected = 0, num_evictable = 0, num_unlocked = 0;
    int32_t *refs = calloc((size_t)cache->num_nodes, sizeof(*refs));
    int32_t *children = calloc((size_t)cache->num_nodes, sizeof(*children));
    int32_t *seen = calloc((size_t)cache->num_nodes, sizeof(*seen));

    if (!refs || !children || !seen) {
        status = status_error(STATUS_NO_MEMORY, "radix: no memory to check");
        goto out;
    }
    for (int32_t i = 0; i < num_locked; i++) {
        int32_t num_pages = 0;
        for (int32_t n = locked[i].node; n != RADIX_ROOT; n = cache->nodes[n].parent) {
            num_pages += cache->nodes[n].num_pages;
            refs[n]++;
        }
        if (num_pages != locked[i].num_pages) {
            status = status_error(STATUS_INVALID, "radix: handle of %d pages at depth %d",
                                  locked[i].num_pages, num_pages);
            goto out;
        }
    }
    for (int32_t n = 1; n < cache->num_nodes; n++) {
        const struct radix_node *node = &cache->nodes[n];
        if (node->num_pages == 0)
            continue;
        status = check_node(cache, n, refs[n], marks);
        if (status.code)
            goto out;
        children[node->parent]++;
        *(node->ref_count ? &num_protected : &num_evictable) += node->num_pages;
        num_unlocked += node->ref_count == 0;
    }
    for (int32_t n = 0; n < cache->num_nodes && !status.code; n++)
        if (children[n] != cache->nodes[n].num_children)
            status = status_error(STATUS_INVALID, "radix: node %d has %d children, counts %d", n,
                                  children[n], cache->nodes[n].num_children);
    if (!status.code &&
        (num_protected != base->protected_pages || num_evictable != base->evictable_pages))
        status = status_error(STATUS_INVALID, "radix: %d + %d pages, counts %d + %d", num_protected,
                              num_evictable, base->protected_pages, base->evictable_pages);
    if (!status.code)
        status = check_list(cache, num_unlocked, seen);
out:
    free(refs);
    free(children);
    free(seen);
    return status;
}
