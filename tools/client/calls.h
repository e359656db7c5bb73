/*
 * calls.h - the open calls of a client: which rid on the wire is whose.
 *
 * A call's number is a slot of the table and that slot's generation; its rid is both in decimal. So
 * what comes back finds its call by index, and what comes late for an earlier call of the slot
 * finds nothing.
 */
#ifndef TOOLS_CLIENT_CALLS_H
#define TOOLS_CLIENT_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "proto/messages.h"

struct call {
    uint64_t number; /* generation << 32 | slot; never 0 */
    uint64_t uid;    /* 0: not known yet */
    void *user;      /* borrowed from the caller */
    uint32_t next;   /* the next free slot, or the next open one */
    uint32_t before; /* the open one before it */
    bool is_open;
    /* Of losses.h: */
    uint64_t order;   /* calls begun before it */
    bool is_request;  /* generate: its end comes on the reply socket */
    bool is_answered; /* something has come back */
    bool is_lost;     /* its end is to be given out as server_lost */
};

struct call_table {
    struct call *calls; /* owned, [capacity]; a pointer to one is good until the next take */
    uint32_t num_calls, capacity;
    uint32_t first_free, first_open; /* slots, or CALL_NONE */
    size_t num_open;
};

enum { CALL_RID_BYTES = 24 };
#define CALL_NONE UINT32_MAX

void call_table_init(struct call_table *table);
void call_table_deinit(struct call_table *table);

MUST_CHECK struct status call_table_take(struct call_table *table, void *user, struct call **out);
void call_table_give(struct call_table *table, struct call *call);

/* NULL when no such call is open. */
struct call *call_table_find(struct call_table *table, uint64_t number);
struct call *call_table_find_rid(struct call_table *table, struct bytes rid);
struct call *call_table_first_open(struct call_table *table);
struct call *call_table_next_open(struct call_table *table, const struct call *call);

/* The rid of a call, in out [CALL_RID_BYTES]. */
struct bytes call_rid(uint64_t number, char *out);

#endif
