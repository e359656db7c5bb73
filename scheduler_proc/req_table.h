/*
 * req_table.h - who is there: requests by uid, and the rows (table_idx) that they hold.
 *
 * A row is held from admission until the request is retired: a step in flight still writes the row
 * of a finished request.
 * Source: mini-sglang scheduler/table.py, TableManager.
 */
#ifndef SCHEDULER_PROC_REQ_TABLE_H
#define SCHEDULER_PROC_REQ_TABLE_H

#include "scheduler_proc/req.h"

struct req_table {
    struct req **rows;  /* owned, [num_rows]: who holds the row, or NULL */
    int32_t *free_rows; /* owned: a stack, 0 on top at first */
    int32_t num_free_rows, num_rows;
    struct req **buckets; /* owned: chains by uid, through uid_next */
    uint64_t bucket_mask;
    int32_t num_reqs; /* with a uid, rows or not */
};

/* max_reqs: most that are there at a time. A failed init zeroes it, and deinit takes a zero. */
MUST_CHECK struct status req_table_init(struct req_table *table, int32_t num_rows,
                                        int32_t max_reqs);
void req_table_deinit(struct req_table *table);

/* The request of that uid, or NULL. */
struct req *req_table_find(const struct req_table *table, uint64_t uid);

/* The uid is not there yet. */
void req_table_add(struct req_table *table, struct req *req);
/* The request holds no row any more. */
void req_table_remove(struct req_table *table, struct req *req);

/* Gives req a row, which no launched step refers to. One is free. */
void req_table_take_row(struct req_table *table, struct req *req);
/* No launched step refers to it. */
void req_table_give_row(struct req_table *table, struct req *req);

/* Every uid is found, every row is free or held, once. */
MUST_CHECK struct status req_table_check(const struct req_table *table);

#endif
