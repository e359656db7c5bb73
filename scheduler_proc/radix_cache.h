/*
 * radix_cache.h - the prefix cache as a radix tree over whole pages.
 *
 * All memory is taken at create, for num_pages pages; what is not used yet is not resident. A used
 * page costs its tokens, 4 bytes of chain, 4 to 8 of hash table, and its share of a node of 40.
 * Source: mini-sglang kvcache/radix_cache.py (there token-granular, with a scan of the whole tree
 * at each eviction).
 */
#ifndef SCHEDULER_PROC_RADIX_CACHE_H
#define SCHEDULER_PROC_RADIX_CACHE_H

#include "scheduler_proc/prefix_cache.h"

/* Page numbers are 0..num_pages-1, each with page_size tokens. */
MUST_CHECK struct status radix_cache_create(int32_t num_pages, int32_t page_size,
                                            struct prefix_cache **out);

#endif
