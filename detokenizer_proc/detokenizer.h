/*
 * detokenizer.h - the detokenizer's decisions, without its sockets: tokens in, text to clients and
 * aborts to the scheduler out. The contract that it keeps: each request gets deltas and then
 * exactly one terminal, and nothing after it.
 *
 * Whoever drives it (loop.c) hands in what arrives, then sends what it finds in the two outboxes:
 *
 *   detokenizer_take_row() ...                       a client becomes ready
 *   while ((client = detokenizer_next_ready(d)))
 *       while (client_has_unsent(client))            what it is to be sent: client_next_message()
 *           sent:         detokenizer_message_sent()
 *           its pipe full: detokenizer_client_blocked(), it is tried again later
 *           unreachable:  detokenizer_client_gone()
 *   while ((abort = detokenizer_next_abort(d)))      ... and detokenizer_abort_sent()
 *
 * A stop string is found late by nature: the scheduler goes on until the abort reaches it. So a
 * request that has ended here stays in the table as a tombstone, which swallows what still comes,
 * until the scheduler's own terminal removes it.
 */
#ifndef DETOKENIZER_PROC_DETOKENIZER_H
#define DETOKENIZER_PROC_DETOKENIZER_H

#include "detokenizer_proc/client.h"
#include "detokenizer_proc/key_table.h"
#include "detokenizer_proc/stop_cache.h"

struct detokenizer_args {
    const struct vocabulary *vocabulary; /* borrowed */
    /* A client is slow when so much text has come since its socket began to take nothing, or four
     * times as much waits in all; 0: 1 MiB. It is gone when 64 times as much waits in refusals, or
     * four times and it has taken nothing for a second. */
    size_t max_unsent_bytes;
    int64_t max_stall_ns;   /* or when it has taken nothing for so long; 0: 10 s */
    int64_t max_blocked_ns; /* after so long without anything taken it counts as gone; 0: 60 s */
    uint64_t first_session; /* the number of the first client's session; 0: 1 */
};

struct detokenizer_stats {
    uint64_t num_tokens;                     /* that were fed to a text */
    uint64_t text_bytes;                     /* that they gave */
    uint64_t num_requests;                   /* begun */
    uint64_t num_finished[FINISH_ERROR + 1]; /* by reason, as clients were told */
    uint64_t num_stop_strings;               /* of those with reason stop */
    uint64_t num_refused;
    uint64_t num_slow, num_gone; /* clients */
    uint64_t num_aborts;
    uint64_t num_strangers; /* rows of a uid that is not known here, or known already */
};

struct detokenizer {
    struct detokenizer_args args;
    struct stop_cache stops;
    struct key_table replies_by_uid; /* owned: struct reply, tombstones too */
    struct key_table clients_by_id;  /* owned: struct client */
    struct client *clients;          /* the newest of all */
    struct client *first_ready, *last_ready;
    struct abort_msg *aborts; /* owned, a queue: [first_abort, num_aborts) wait */
    size_t first_abort, num_aborts, aborts_capacity;
    size_t num_open; /* requests that go on */
    size_t num_blocked;
    uint64_t next_session;
    struct detokenizer_stats stats;
};

MUST_CHECK struct status detokenizer_init(struct detokenizer *d,
                                          const struct detokenizer_args *args);
void detokenizer_deinit(struct detokenizer *d);

/* A client said hello, for the first time or again. STATUS_INVALID: its identity is no name for a
 * client. */
MUST_CHECK struct status detokenizer_take_hello(struct detokenizer *d, const struct bytes *peer);

/* One row of a tokens message. reply_to is what the row's own says when it is the first of its uid,
 * else NULL; NULL on a first row, too, when it could not be read. */
void detokenizer_take_row(struct detokenizer *d, const struct token_row *row,
                          const struct reply_to *reply_to, int64_t step_end_ns);

/* A request that never ran. */
void detokenizer_take_rejected(struct detokenizer *d, const struct rejected_msg *rejected,
                               const struct reply_to *reply_to);

/* A client that has something to send, taken from the queue; NULL: none. */
struct client *detokenizer_next_ready(struct detokenizer *d);
/* The message that client_next_message() gave has been sent. */
void detokenizer_message_sent(struct detokenizer *d, struct client *client);
/* Its socket did not take the message. May end its requests as slow_client, or even the client:
 * then it returns false. */
bool detokenizer_client_blocked(struct detokenizer *d, struct client *client, int64_t now_ns);
/* Its socket takes messages again. */
void detokenizer_client_unblocked(struct detokenizer *d, struct client *client);
/* It is not reachable any more: its requests are aborted, and it is forgotten. */
void detokenizer_client_gone(struct detokenizer *d, struct client *client);

/* The next abort for the scheduler, or NULL. */
const struct abort_msg *detokenizer_next_abort(const struct detokenizer *d);
void detokenizer_abort_sent(struct detokenizer *d);

/* Ends all open requests with that error (message: static). */
void detokenizer_end_all(struct detokenizer *d, enum error_code code, const char *message);

/* Walks everything and asserts its invariants (detokenizer_check.c). */
void detokenizer_check(const struct detokenizer *d);

#endif
