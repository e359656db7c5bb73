/*
 * reply.h - one request as the detokenizer knows it: its text in progress, what waits to be sent
 * to its client, and how it ended.
 *
 * A request lives until two things have happened: the scheduler's own terminal for its uid has
 * arrived (until then it is in the table of uids, and is a tombstone once it has ended), and the
 * client has been sent its terminal, or is gone (until then it is in the client's list).
 */
#ifndef DETOKENIZER_PROC_REPLY_H
#define DETOKENIZER_PROC_REPLY_H

#include "detokenizer_proc/stream.h"
#include "proto/messages.h"

struct client;

struct reply {
    uint64_t uid;
    struct stream text;
    struct client *client;       /* borrowed; NULL: nothing more is sent */
    struct reply *newer, *older; /* among the requests of the client */
    struct reply *next_pending;  /* among those of the client that have something to send */
    bool is_pending;
    bool is_in_table; /* the scheduler's terminal has not arrived */
    bool want_ids;
    bool is_streamed; /* else all is sent with the terminal */

    uint8_t *rid; /* owned, [rid_size] */
    size_t rid_size;
    char *unsent; /* owned: text that waits to be sent */
    size_t unsent_size, unsent_capacity;
    int32_t *unsent_ids; /* owned */
    size_t num_unsent_ids, ids_capacity;

    enum finish_reason finish; /* FINISH_NONE: goes on */
    enum error_code error;
    const char *error_message; /* borrowed, static */
    struct usage usage;
    int64_t first_token_ns, last_token_ns; /* on the scheduler's clock; 0: none */
};

/* A request with no client yet. rid is copied. NULL when there is no memory. */
struct reply *reply_create(uint64_t uid, struct bytes rid);
void reply_destroy(struct reply **reply);

/* Adds a token and sets *out_matched when it completed a stop string. STATUS_NO_MEMORY leaves the
 * request as it was. */
MUST_CHECK struct status reply_add_token(struct reply *reply, const struct vocabulary *vocabulary,
                                         int32_t token, int64_t step_end_ns, bool *out_matched);

/* Adds what the text held back. */
MUST_CHECK struct status reply_flush(struct reply *reply, bool *out_matched);

/* Bytes that wait to be sent. */
static inline size_t reply_unsent_bytes(const struct reply *reply)
{
    return reply->unsent_size + reply->num_unsent_ids * sizeof(int32_t);
}

/* What waits, as a delta that borrows from the request. */
struct delta reply_delta(const struct reply *reply);

/* What waited has been sent. */
void reply_sent(struct reply *reply);

/* Gives back all memory but the struct's own. */
void reply_release(struct reply *reply);

#endif
