/*
 * key_table.h - a hash table from keys of 16 bytes (a client's identity, a uid) to pointers.
 *
 * Open addressing with linear probing; a removal closes the gap, so that lookups stay short
 * whatever has been in the table before. It holds what it is given and owns none of it.
 */
#ifndef DETOKENIZER_PROC_KEY_TABLE_H
#define DETOKENIZER_PROC_KEY_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "proto/messages.h"

struct key {
    uint64_t high, low;
};

struct key_slot {
    struct key key;
    void *value; /* NULL: free */
};

struct key_table {
    struct key_slot *slots; /* owned, [num_slots], a power of two; NULL before the first insert */
    size_t num_slots, num_values;
};

static inline struct key key_of_uid(uint64_t uid)
{
    return (struct key){.low = uid};
}

struct key key_of_client(const struct client_id *client);

void key_table_deinit(struct key_table *table);

/* The value of the key, or NULL. */
void *key_table_find(const struct key_table *table, struct key key);

/* Adds a key that is not there; value is not NULL. */
MUST_CHECK struct status key_table_insert(struct key_table *table, struct key key, void *value);

/* Removes a key if it is there. */
void key_table_remove(struct key_table *table, struct key key);

/* Walks the table and asserts that every value is found where it lies. */
void key_table_check(const struct key_table *table);

#endif
