/*
 * buffer.h - a block of scratch memory that grows and is kept for the next use.
 */
#ifndef TOKENIZER_PROC_BUFFER_H
#define TOKENIZER_PROC_BUFFER_H

#include <stddef.h>
#include <stdlib.h>

#include "common/status.h"

struct buffer {
    void *data;      /* owned */
    size_t capacity; /* bytes */
};

/* Makes room for size bytes in all; what is there stays, and data is no NULL even for none.
 * STATUS_NO_MEMORY changes nothing. */
MUST_CHECK static inline struct status buffer_reserve(struct buffer *buffer, size_t size)
{
    if (buffer->data && size <= buffer->capacity)
        return status_ok();
    size_t capacity = buffer->capacity * 2 > size ? buffer->capacity * 2 : size + 64;
    void *data = realloc(buffer->data, capacity);
    if (!data)
        return status_error(STATUS_NO_MEMORY, "no memory for %zu bytes", capacity);
    *buffer = (struct buffer){.data = data, .capacity = capacity};
    return status_ok();
}

static inline void buffer_deinit(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}

/* Gives memory beyond max_size bytes back, so that one huge text does not stay paid for. */
static inline void buffer_trim(struct buffer *buffer, size_t max_size)
{
    if (buffer->capacity > max_size)
        buffer_deinit(buffer);
}

#endif
