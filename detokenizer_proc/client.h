/*
 * client.h - one client process as the detokenizer knows it: its requests and what waits to be sent
 * to it. Lists only: what they mean is the business of detokenizer.c.
 */
#ifndef DETOKENIZER_PROC_CLIENT_H
#define DETOKENIZER_PROC_CLIENT_H

#include "common/arena.h"
#include "detokenizer_proc/reply.h"
#include "proto/messages.h"

/* A request that never ran, in one piece of memory. */
struct refusal {
    struct refusal *next;
    uint64_t uid;
    enum error_code code;
    size_t rid_size, message_size;
    uint8_t bytes[]; /* rid, then message */
};

struct client {
    struct client_id id;
    uint64_t session, num_sent;   /* see presence_msg */
    struct client *newer, *older; /* among all clients */
    struct client *next_ready;    /* among those that have something to send and are not blocked */
    bool is_ready;

    struct reply *replies; /* the newest of those that have not been sent their terminal */
    struct reply *first_pending, *last_pending; /* those with something to send */
    int32_t num_pending;
    int32_t num_in_message; /* of them, the first, are in the message that was built last */
    struct refusal *first_refusal, *last_refusal; /* owned */
    bool owes_hello_ok;
    size_t unsent_bytes;  /* of all pending replies */
    size_t refusal_bytes; /* of all refusals */

    int64_t blocked_since_ns; /* 0, or since when its socket has taken nothing */
    int64_t stalled_since_ns; /* the same, but begun anew when its requests were ended for it */
    size_t stalled_bytes;     /* what was unsent then */
};

/* NULL: no memory. */
struct client *client_create(const struct client_id *id, uint64_t session);
/* Its replies have been detached before. */
void client_destroy(struct client **client);

void client_attach(struct client *client, struct reply *reply);
/* Takes the reply from both lists, and what it has to send from unsent_bytes. */
void client_detach(struct client *client, struct reply *reply);

/* The reply has grown by num_bytes of what is to be sent, or has ended (num_bytes may be 0). */
void client_mark_pending(struct client *client, struct reply *reply, size_t num_bytes);

/* Takes the first n off the list of what has something to send; returns them, chained by
 * next_pending. */
struct reply *client_take_pending(struct client *client, int32_t n);

/* Copies rid and message. STATUS_NO_MEMORY changes nothing. */
MUST_CHECK struct status client_add_refusal(struct client *client, uint64_t uid,
                                            enum error_code code, struct bytes rid,
                                            struct bytes message);
void client_drop_refusal(struct client *client);

static inline bool client_has_unsent(const struct client *client)
{
    return client->owes_hello_ok || client->first_refusal || client->first_pending;
}

/* The body of its hello_ok and alive. */
static inline struct presence_msg client_presence(const struct client *client)
{
    return (struct presence_msg){.session = client->session, .num_sent = client->num_sent};
}

/* What is to be sent next, borrowed from the client, its replies and the arena: hello_ok, deltas
 * (all that wait, unless that makes more than a frame should hold), or an error: each refusal is a
 * frame of its own, and text does not wait for thousands. Only if client_has_unsent(). */
MUST_CHECK struct status client_next_message(struct client *client, struct arena *arena,
                                             struct message *out);

#endif
