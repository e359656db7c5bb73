/*
 * arena.c - see arena.h.
 *
 *   blocks -> [ oldest | full ] -> [ used ... free ] -> [ newest | empty ] -> NULL
 *
 * current points at the block being filled. It only goes forward until a reset, when all blocks are
 * empty and it is the first again: so an allocation costs the same however many there are.
 */
#include "common/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGN = _Alignof(max_align_t), ARENA_BLOCK_SIZE = 64 * 1024 };

struct arena_block {
    struct arena_block *next;
    size_t size; /* bytes in data */
    size_t used;
    _Alignas(max_align_t) unsigned char data[];
};

void arena_init(struct arena *arena, size_t block_size, size_t max_size)
{
    *arena = (struct arena){.block_size = block_size ? block_size : ARENA_BLOCK_SIZE,
                            .max_size = max_size};
}

void arena_deinit(struct arena *arena)
{
    struct arena_block *block = arena->blocks;

    while (block) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct arena){0};
}

void arena_reset(struct arena *arena)
{
    for (struct arena_block *block = arena->blocks; block; block = block->next)
        block->used = 0;
    arena->current = arena->blocks;
}

static struct arena_block *add_block(struct arena *arena, size_t size)
{
    size_t block_size = size > arena->block_size ? size : arena->block_size;

    if (block_size < arena->total_size / 4) /* few blocks, however much is asked for */
        block_size = arena->total_size / 4;
    if (arena->max_size && block_size > arena->max_size - arena->total_size) {
        block_size = size;
        if (block_size > arena->max_size - arena->total_size)
            return NULL;
    }
    if (block_size > SIZE_MAX - sizeof(struct arena_block))
        return NULL;
    struct arena_block *block = malloc(sizeof(*block) + block_size);
    if (!block)
        return NULL;
    *block = (struct arena_block){.size = block_size};
    if (arena->last)
        arena->last->next = block;
    else
        arena->blocks = block;
    arena->last = block;
    arena->total_size += block_size;
    return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX - ARENA_ALIGN)
        return NULL;
    size = (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (size == 0)
        size = ARENA_ALIGN;
    while (arena->current && size > arena->current->size - arena->current->used)
        arena->current = arena->current->next;
    if (!arena->current) {
        arena->current = add_block(arena, size);
        if (!arena->current)
            return NULL;
    }
    void *data = arena->current->data + arena->current->used;
    arena->current->used += size;
    return data;
}

void *arena_calloc(struct arena *arena, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;
    void *data = arena_alloc(arena, count * size);
    if (data)
        memset(data, 0, count * size);
    return data;
}

char *arena_copy(struct arena *arena, const void *data, size_t size)
{
    if (size == SIZE_MAX)
        return NULL;
    char *copy = arena_alloc(arena, size + 1);
    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, data, size);
    copy[size] = '\0';
    return copy;
}
