/* req_table.c - see req_table.h. */
#include "scheduler_proc/req_table.h"

#include <assert.h>
#include <stdlib.h>

struct status req_table_init(struct req_table *table, int32_t num_rows, int32_t max_reqs)
{
    size_t num_buckets = 1;

    while (num_buckets < (size_t)max_reqs)
        num_buckets *= 2;
    *table = (struct req_table){
        .rows = calloc((size_t)num_rows, sizeof(struct req *)),
        .free_rows = calloc((size_t)num_rows, sizeof(int32_t)),
        .num_free_rows = num_rows,
        .num_rows = num_rows,
        .buckets = calloc(num_buckets, sizeof(struct req *)),
        .bucket_mask = num_buckets - 1,
    };
    if (!table->rows || !table->free_rows || !table->buckets) {
        req_table_deinit(table);
        return status_error(STATUS_NO_MEMORY, "no memory for a table of %d requests", max_reqs);
    }
    for (int32_t i = 0; i < num_rows; i++)
        table->free_rows[i] = num_rows - 1 - i;
    return status_ok();
}

void req_table_deinit(struct req_table *table)
{
    free(table->rows);
    free(table->free_rows);
    free(table->buckets);
    *table = (struct req_table){0};
}

/* uids are counters behind an instance number: mixed, so that instances do not share chains. */
static struct req **bucket_of(const struct req_table *table, uint64_t uid)
{
    uint64_t hash = uid * UINT64_C(0x9E3779B97F4A7C15);

    return &table->buckets[(hash >> 32 ^ hash) & table->bucket_mask];
}

struct req *req_table_find(const struct req_table *table, uint64_t uid)
{
    struct req *req = *bucket_of(table, uid);

    while (req && req->uid != uid)
        req = req->uid_next;
    return req;
}

void req_table_add(struct req_table *table, struct req *req)
{
    struct req **bucket = bucket_of(table, req->uid);

    req->uid_next = *bucket;
    *bucket = req;
    table->num_reqs++;
}

void req_table_remove(struct req_table *table, struct req *req)
{
    struct req **link = bucket_of(table, req->uid);

    assert(req->table_idx == TABLE_IDX_NONE);
    while (*link != req)
        link = &(*link)->uid_next;
    *link = req->uid_next;
    table->num_reqs--;
}

void req_table_take_row(struct req_table *table, struct req *req)
{
    assert(table->num_free_rows > 0);
    req->table_idx = table->free_rows[--table->num_free_rows];
    table->rows[req->table_idx] = req;
}

void req_table_give_row(struct req_table *table, struct req *req)
{
    table->rows[req->table_idx] = NULL;
    table->free_rows[table->num_free_rows++] = req->table_idx;
    req->table_idx = TABLE_IDX_NONE;
}

struct status req_table_check(const struct req_table *table)
{
    int32_t num_reqs = 0, num_held = 0;

    for (uint64_t i = 0; i <= table->bucket_mask; i++)
        for (const struct req *req = table->buckets[i]; req; req = req->uid_next) {
            if (req_table_find(table, req->uid) != req)
                return status_error(STATUS_INVALID, "uid %llu is there twice",
                                    (unsigned long long)req->uid);
            num_reqs++;
        }
    if (num_reqs != table->num_reqs)
        return status_error(STATUS_INVALID, "%d uids, counts %d", num_reqs, table->num_reqs);
    for (int32_t i = 0; i < table->num_rows; i++) {
        const struct req *req = table->rows[i];
        num_held += req != NULL;
        if (req && (req->table_idx != i || req_table_find(table, req->uid) != req))
            return status_error(STATUS_INVALID, "row %d is held by a request that is not there", i);
    }
    for (int32_t i = 0; i < table->num_free_rows; i++) {
        int32_t row = table->free_rows[i];
        if (row < 0 || row >= table->num_rows || table->rows[row])
            return status_error(STATUS_INVALID, "row %d is free and is not", row);
        for (int32_t j = 0; j < i; j++)
            if (table->free_rows[j] == row)
                return status_error(STATUS_INVALID, "row %d is free twice", row);
    }
    if (num_held + table->num_free_rows != table->num_rows)
        return status_error(STATUS_INVALID, "%d rows held, %d free, of %d", num_held,
                            table->num_free_rows, table->num_rows);
    return status_ok();
}
