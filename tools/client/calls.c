/* calls.c - see calls.h. Free slots are a stack, open ones a list in both directions. */
#include "tools/client/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void call_table_init(struct call_table *table)
{
    *table = (struct call_table){.first_free = CALL_NONE, .first_open = CALL_NONE};
}

void call_table_deinit(struct call_table *table)
{
    free(table->calls);
    call_table_init(table);
}

static struct status add_slot(struct call_table *table)
{
    if (table->num_calls == table->capacity) {
        uint32_t capacity = table->capacity ? 2 * table->capacity : 16;
        struct call *calls = realloc(table->calls, capacity * sizeof(*calls));
        if (!calls)
            return status_error(STATUS_NO_MEMORY, "no memory for a call");
        table->calls = calls;
        table->capacity = capacity;
    }
    table->calls[table->num_calls] = (struct call){.number = table->num_calls, .next = CALL_NONE};
    table->first_free = table->num_calls++;
    return status_ok();
}

struct status call_table_take(struct call_table *table, void *user, struct call **out)
{
    if (table->first_free == CALL_NONE) {
        struct status status = add_slot(table);
        if (status.code)
            return status;
    }
    uint32_t slot = table->first_free;
    struct call *call = &table->calls[slot];
    table->first_free = call->next;
    *call = (struct call){.number = call->number + ((uint64_t)1 << 32),
                          .user = user,
                          .next = table->first_open,
                          .before = CALL_NONE,
                          .is_open = true};
    if (call->next != CALL_NONE)
        table->calls[call->next].before = slot;
    table->first_open = slot;
    table->num_open++;
    *out = call;
    return status_ok();
}

void call_table_give(struct call_table *table, struct call *call)
{
    *(call->before != CALL_NONE ? &table->calls[call->before].next : &table->first_open) =
        call->next;
    if (call->next != CALL_NONE)
        table->calls[call->next].before = call->before;
    call->is_open = false;
    call->next = table->first_free;
    table->first_free = (uint32_t)(call - table->calls);
    table->num_open--;
}

struct call *call_table_find(struct call_table *table, uint64_t number)
{
    uint32_t slot = (uint32_t)number;

    if (slot >= table->num_calls || table->calls[slot].number != number ||
        !table->calls[slot].is_open)
        return NULL;
    return &table->calls[slot];
}

static bool parse_number(struct bytes text, size_t *at, uint32_t *out)
{
    uint64_t value = 0;
    size_t start = *at;

    for (; *at < text.size && text.data[*at] >= '0' && text.data[*at] <= '9'; ++*at) {
        value = value * 10 + (uint64_t)(text.data[*at] - '0');
        if (value > UINT32_MAX)
            return false;
    }
    *out = (uint32_t)value;
    return *at > start;
}

struct call *call_table_find_rid(struct call_table *table, struct bytes rid)
{
    uint32_t slot, generation;
    size_t at = 0;

    if (!parse_number(rid, &at, &slot) || at == rid.size || rid.data[at++] != '-' ||
        !parse_number(rid, &at, &generation) || at != rid.size)
        return NULL;
    return call_table_find(table, (uint64_t)generation << 32 | slot);
}

static struct call *call_at(struct call_table *table, uint32_t slot)
{
    return slot == CALL_NONE ? NULL : &table->calls[slot];
}

struct call *call_table_first_open(struct call_table *table)
{
    return call_at(table, table->first_open);
}

struct call *call_table_next_open(struct call_table *table, const struct call *call)
{
    return call_at(table, call->next);
}

struct bytes call_rid(uint64_t number, char *out)
{
    int size = snprintf(out, CALL_RID_BYTES, "%u-%u", (unsigned)number, (unsigned)(number >> 32));

    return (struct bytes){(const uint8_t *)out, (size_t)size};
}
