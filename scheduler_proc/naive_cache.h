/*
 * naive_cache.h - the prefix cache that keeps nothing: every prompt is computed. The oracle that
 * the radix cache is compared to.
 */
#ifndef SCHEDULER_PROC_NAIVE_CACHE_H
#define SCHEDULER_PROC_NAIVE_CACHE_H

#include "scheduler_proc/prefix_cache.h"

MUST_CHECK struct status naive_cache_create(struct prefix_cache **out);

#endif
