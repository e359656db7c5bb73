/*
 * split.h - one loop over many equal things, run by several threads for as long as it lasts.
 */
#ifndef COMMON_SPLIT_H
#define COMMON_SPLIT_H

#include <stddef.h>

/*
 * Calls run(arg, begin, end) for ranges that together are [0, count), each by one thread: as many
 * as the machine has processors, 16 at most. Threads that cannot be had are done without.
 */
void split_run(void (*run)(void *arg, size_t begin, size_t end), void *arg, size_t count);

#endif
