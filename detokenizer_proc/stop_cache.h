/*
 * stop_cache.h - compiled stop strings by content, so that streams with the same list share one
 * automaton. Those in use are counted; a bounded number of unused ones is kept for the next stream.
 */
#ifndef DETOKENIZER_PROC_STOP_CACHE_H
#define DETOKENIZER_PROC_STOP_CACHE_H

#include "detokenizer_proc/stop_match.h"

struct stop_entry; /* one list of stop strings with its automaton */

struct stop_cache {
    struct stop_entry **buckets;        /* owned, [num_buckets], a power of two */
    struct stop_entry *newest, *oldest; /* the unused ones, by the time of their last use */
    size_t num_buckets, num_entries, num_unused;
    size_t max_unused;
};

MUST_CHECK struct status stop_cache_init(struct stop_cache *cache, size_t max_unused);
void stop_cache_deinit(struct stop_cache *cache);

/*
 * The automaton for that list, in *out (borrowed, valid until it is given back as often as it was
 * taken); NULL for an empty list. Errors as of stop_match_init().
 */
MUST_CHECK struct status stop_cache_take(struct stop_cache *cache, const struct bytes *strings,
                                         size_t num_strings, const struct stop_match **out);

/* Takes NULL too. */
void stop_cache_give(struct stop_cache *cache, const struct stop_match *match);

/* Walks the cache and asserts its invariants. */
void stop_cache_check(const struct stop_cache *cache);

#endif
