/* key_table.c - see key_table.h. At most half of the slots are in use. */
#include "detokenizer_proc/key_table.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct key key_of_client(const struct client_id *client)
{
    struct key key;

    memcpy(&key.high, client->bytes, 8);
    memcpy(&key.low, client->bytes + 8, 8);
    return key;
}

static bool key_equal(struct key a, struct key b)
{
    return a.high == b.high && a.low == b.low;
}

/* The slot where a search for the key starts. */
static size_t home_of(const struct key_table *table, struct key key)
{
    uint64_t hash = (key.low ^ key.high * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;

    return (size_t)((hash ^ hash >> 32) & (table->num_slots - 1));
}

/* The slot of the key, or the free one where it would go. */
static size_t find_slot(const struct key_table *table, struct key key)
{
    size_t i = home_of(table, key);

    while (table->slots[i].value && !key_equal(table->slots[i].key, key))
        i = (i + 1) & (table->num_slots - 1);
    return i;
}

void key_table_deinit(struct key_table *table)
{
    free(table->slots);
    *table = (struct key_table){0};
}

void *key_table_find(const struct key_table *table, struct key key)
{
    return table->num_values ? table->slots[find_slot(table, key)].value : NULL;
}

static struct status grow(struct key_table *table)
{
    struct key_table larger = {.num_slots = table->num_slots ? 2 * table->num_slots : 64,
                               .num_values = table->num_values};

    larger.slots = calloc(larger.num_slots, sizeof(*larger.slots));
    if (!larger.slots)
        return status_error(STATUS_NO_MEMORY, "no memory for a table of %zu", larger.num_slots);
    for (size_t i = 0; i < table->num_slots; i++)
        if (table->slots[i].value)
            larger.slots[find_slot(&larger, table->slots[i].key)] = table->slots[i];
    free(table->slots);
    *table = larger;
    return status_ok();
}

struct status key_table_insert(struct key_table *table, struct key key, void *value)
{
    if (2 * (table->num_values + 1) > table->num_slots) {
        struct status status = grow(table);
        if (status.code)
            return status;
    }
    size_t i = find_slot(table, key);
    assert(value && !table->slots[i].value);
    table->slots[i] = (struct key_slot){key, value};
    table->num_values++;
    return status_ok();
}

void key_table_remove(struct key_table *table, struct key key)
{
    size_t mask = table->num_slots - 1;

    if (!key_table_find(table, key))
        return;
    size_t gap = find_slot(table, key);
    table->slots[gap].value = NULL;
    table->num_values--;
    /* What follows without a gap moves up unless that would put it before its home. */
    for (size_t i = (gap + 1) & mask; table->slots[i].value; i = (i + 1) & mask) {
        size_t from_home = (i - home_of(table, table->slots[i].key)) & mask;
        if (from_home >= ((i - gap) & mask)) {
            table->slots[gap] = table->slots[i];
            table->slots[i].value = NULL;
            gap = i;
        }
    }
}

void key_table_check(const struct key_table *table)
{
    size_t num_values = 0;

    for (size_t i = 0; i < table->num_slots; i++) {
        if (!table->slots[i].value)
            continue;
        assert(find_slot(table, table->slots[i].key) == i);
        num_values++;
    }
    assert(num_values == table->num_values && 2 * num_values <= table->num_slots);
    (void)num_values;
}
