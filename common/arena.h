/*
 * arena.h - memory that is given back all at once. Allocation is a pointer bump.
 *
 * An arena grows by blocks when it must; a reset keeps its memory, so a loop that resets once a
 * step stops calling malloc after the first few steps.
 */
#ifndef COMMON_ARENA_H
#define COMMON_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks;  /* owned: a list, the oldest first */
    struct arena_block *last;    /* of that list */
    struct arena_block *current; /* borrowed from blocks: where the next allocation is tried */
    size_t block_size;           /* bytes asked of malloc at a time, at least */
    size_t max_size;             /* 0, or the most bytes that all blocks may hold together */
    size_t total_size;           /* bytes held by all blocks */
};

/* No allocation happens before the first use. block_size 0 stands for 64 KiB, max_size 0 for no
 * bound. */
void arena_init(struct arena *arena, size_t block_size, size_t max_size);
void arena_deinit(struct arena *arena);

/* Forgets what was allocated; keeps the memory. */
void arena_reset(struct arena *arena);

/* size bytes aligned for any type, contents undefined; NULL when memory or max_size is exhausted.
 */
void *arena_alloc(struct arena *arena, size_t size);

/* The same, zeroed, for count objects; NULL also when count * size overflows. */
void *arena_calloc(struct arena *arena, size_t count, size_t size);

/* A copy of size bytes with a NUL behind it. */
char *arena_copy(struct arena *arena, const void *data, size_t size);

#endif
