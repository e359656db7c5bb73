/* token_list.h - token ids in a growing array. */
#ifndef TOKENIZER_PROC_TOKEN_LIST_H
#define TOKENIZER_PROC_TOKEN_LIST_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/status.h"

struct token_list {
    int32_t *ids; /* owned */
    size_t num_ids, capacity;
};

/* Makes room for n ids more, which the caller may write at ids + num_ids. */
MUST_CHECK static inline struct status token_list_reserve(struct token_list *list, size_t n)
{
    if (list->capacity - list->num_ids >= n)
        return status_ok();
    size_t capacity = (list->num_ids + n) * 2;
    int32_t *ids = realloc(list->ids, capacity * sizeof(*ids));
    if (!ids)
        return status_error(STATUS_NO_MEMORY, "no memory for %zu token ids", capacity);
    list->ids = ids;
    list->capacity = capacity;
    return status_ok();
}

static inline void token_list_deinit(struct token_list *list)
{
    free(list->ids);
    *list = (struct token_list){0};
}

#endif
