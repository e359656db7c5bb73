/*
 * client_table.h - the requests of each client, so that all of a client that is gone are found
 * without a look at the others.
 */
#ifndef SCHEDULER_PROC_CLIENT_TABLE_H
#define SCHEDULER_PROC_CLIENT_TABLE_H

#include "scheduler_proc/req.h"

/* A client that has requests. */
struct client_entry {
    struct client_id id;
    struct req *first, *last;  /* borrowed: its requests in order of arrival, by client_next */
    struct client_entry *next; /* chain of the bucket, or of the unused ones */
};

struct client_table {
    struct client_entry *entries;  /* owned, [max_reqs] */
    struct client_entry *unused;   /* borrowed from entries, by next */
    struct client_entry **buckets; /* owned, [bucket_mask + 1] */
    uint64_t bucket_mask;
    int32_t num_clients;
};

/* max_reqs: most requests at a time. A failed init zeroes it, and deinit takes a zero. */
MUST_CHECK struct status client_table_init(struct client_table *table, int32_t max_reqs);
void client_table_deinit(struct client_table *table);

/* The client, or NULL when it has no request. */
struct client_entry *client_table_find(const struct client_table *table,
                                       const struct client_id *id);

void client_table_add(struct client_table *table, const struct client_id *id, struct req *req);
void client_table_remove(struct client_table *table, struct req *req);

#endif
