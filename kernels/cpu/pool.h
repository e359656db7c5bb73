/*
 * pool.h - the threads that the operators of a device share: fork and join in microseconds.
 *
 * The caller takes part, so a pool of n threads starts n - 1. Tasks are handed out one by one, in
 * ascending order, to whoever is free; a thread that wakes too late misses the run and is not
 * waited for. Idle threads spin for some tens of microseconds, then sleep: a pool at rest costs
 * nothing.
 */
#ifndef KERNELS_CPU_POOL_H
#define KERNELS_CPU_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct pool; /* opaque */

/* thread is in [0, num_threads): one that no other running task has. */
typedef void (*pool_task)(void *arg, int32_t task, int32_t thread);

enum { POOL_SCRATCH_SIZE = 1 << 19 };

MUST_CHECK struct status pool_create(int32_t num_threads, struct pool **out);
void pool_destroy(struct pool **pool);

int32_t pool_num_threads(const struct pool *pool);

/* Runs task(arg, 0 .. num_tasks - 1, thread) and returns when all have run. Callers take turns. */
void pool_run(struct pool *pool, int32_t num_tasks, pool_task task, void *arg);

/* Runs range(args, first, end) over pieces of [0, num). item_size is about how many bytes an item
 * touches: what is soon done stays with the caller. */
typedef void (*pool_range)(const void *args, int32_t first, int32_t end);
void pool_split(struct pool *pool, int32_t num, size_t item_size, pool_range range,
                const void *args);

/* POOL_SCRATCH_SIZE bytes, aligned to 64, for the running task of this thread alone. */
void *pool_scratch(struct pool *pool, int32_t thread);

#endif
