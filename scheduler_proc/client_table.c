/* client_table.c - see client_table.h. */
#include "scheduler_proc/client_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct status client_table_init(struct client_table *table, int32_t max_reqs)
{
    size_t num_buckets = 1;

    while (num_buckets < (size_t)max_reqs)
        num_buckets *= 2;
    *table = (struct client_table){
        .entries = calloc((size_t)max_reqs, sizeof(*table->entries)),
        .buckets = calloc(num_buckets, sizeof(struct client_entry *)),
        .bucket_mask = num_buckets - 1,
    };
    if (!table->entries || !table->buckets) {
        client_table_deinit(table);
        return status_error(STATUS_NO_MEMORY, "no memory for a table of %d clients", max_reqs);
    }
    for (int32_t i = max_reqs; i-- > 0;) {
        table->entries[i].next = table->unused;
        table->unused = &table->entries[i];
    }
    return status_ok();
}

void client_table_deinit(struct client_table *table)
{
    free(table->entries);
    free(table->buckets);
    *table = (struct client_table){0};
}

static struct client_entry **bucket_of(const struct client_table *table, const struct client_id *id)
{
    uint64_t halves[2];

    memcpy(halves, id->bytes, sizeof(halves));
    uint64_t hash = (halves[0] ^ halves[1] << 1) * UINT64_C(0x9E3779B97F4A7C15);
    return &table->buckets[(hash >> 32 ^ hash) & table->bucket_mask];
}

struct client_entry *client_table_find(const struct client_table *table, const struct client_id *id)
{
    struct client_entry *entry = *bucket_of(table, id);

    while (entry && memcmp(entry->id.bytes, id->bytes, sizeof(id->bytes)) != 0)
        entry = entry->next;
    return entry;
}

static struct client_entry *entry_take(struct client_table *table, const struct client_id *id)
{
    struct client_entry **bucket = bucket_of(table, id);
    struct client_entry *entry = table->unused;

    assert(entry);
    table->unused = entry->next;
    *entry = (struct client_entry){.id = *id, .next = *bucket};
    *bucket = entry;
    table->num_clients++;
    return entry;
}

static void entry_give(struct client_table *table, struct client_entry *entry)
{
    struct client_entry **link = bucket_of(table, &entry->id);

    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    entry->next = table->unused;
    table->unused = entry;
    table->num_clients--;
}

void client_table_add(struct client_table *table, const struct client_id *id, struct req *req)
{
    struct client_entry *entry = client_table_find(table, id);

    if (!entry)
        entry = entry_take(table, id);
    req->client = entry;
    req->client_prev = entry->last;
    req->client_next = NULL;
    *(entry->last ? &entry->last->client_next : &entry->first) = req;
    entry->last = req;
}

void client_table_remove(struct client_table *table, struct req *req)
{
    struct client_entry *entry = req->client;

    *(req->client_prev ? &req->client_prev->client_next : &entry->first) = req->client_next;
    *(req->client_next ? &req->client_next->client_prev : &entry->last) = req->client_prev;
    if (!entry->first)
        entry_give(table, entry);
    req->client = NULL;
}
