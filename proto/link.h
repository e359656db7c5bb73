/*
 * link.h - sockets between the processes, over CZMQ. No other file knows ZeroMQ.
 *
 * A link is one endpoint with its own bounded send queue. Nothing ever blocks in a send: what
 * ZeroMQ does not take at once waits in the link and goes out in link_flush(). A poller waits for
 * several links. Frames are whole messages: one frame, or identity + frame on a ROUTER.
 */
#ifndef PROTO_LINK_H
#define PROTO_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "proto/messages.h"

enum link_kind {
    LINK_PUSH,
    LINK_PULL,
    LINK_ROUTER, /* mandatory routing, handover */
    LINK_DEALER, /* with an identity */
    LINK_REP, /* control endpoints: a ROUTER that answers REQ and DEALER peers alike, never stuck in
                 a state */
    LINK_REQ,
};

struct link; /* opaque */

struct link_args {
    enum link_kind kind;
    const char *endpoint;             /* "ipc:///path", "tcp://127.0.0.1:5555" */
    bool bind;                        /* else connect */
    const struct client_id *identity; /* LINK_DEALER */
    size_t max_queue_bytes;           /* of the own send queue; 0: 64 MiB */
    bool only_connected;              /* ZeroMQ takes nothing for a peer that is not there yet */
    int send_mark;                    /* frames behind it, inside ZeroMQ; 0: 1000, LINK_ROUTER 64 */
    /*
     * CURVE, for tcp beyond loopback; NULL: none. A directory of certificates as zcert and PyZMQ
     * write them: own.key_secret, and NAME.key, public, of each process that may connect here.
     * Who connects finds there the one of its peer, PEER.key. Read once; one directory for all
     * links of a process. ipc needs no keys and uses none.
     */
    const char *curve_keys;
    const char *peer; /* such as "scheduler"; only with curve_keys, when connecting */
};

/* tcp:// beyond loopback without CURVE keys is STATUS_INVALID, said in words. A stale ipc file is
 * replaced; one that a living process serves is STATUS_BUSY. A bind raises the process's soft limit
 * of open files to the hard one, since each peer takes one. */
MUST_CHECK struct status link_open(const struct link_args *args, struct link **out);
/* Closes with at most linger_ms for what is still queued. NULL is allowed. */
void link_close(struct link **link, int linger_ms);

/* The endpoint as bound (with the port that "tcp://127.0.0.1:*" was given). */
const char *link_endpoint(const struct link *link);

/* Copies the frame and queues it. STATUS_NO_SPACE when the queue is full: the frame is not taken.
 */
MUST_CHECK struct status link_send(struct link *link, const void *data, size_t size);

/*
 * ROUTER and REP: to one peer. STATUS_GONE: that peer is not connected (any more). STATUS_NO_SPACE:
 * it is connected but does not read (its pipe is full), or memory is short: nothing is queued here,
 * the caller decides.
 */
MUST_CHECK struct status link_send_to(struct link *link, const struct bytes *peer, const void *data,
                                      size_t size);

/* Tries to pass on what waits; called when the poller says so and once per loop. True when the
 * queue is empty. */
bool link_flush(struct link *link);
bool link_has_queued(const struct link *link);
size_t link_queued_bytes(const struct link *link);

/*
 * The next frame that has already arrived; false, and NULL data, when there is none. The frame is
 * borrowed until the next call on this link. Peer is set on ROUTER and REP: on a ROUTER the
 * client's identity, on a REP opaque. A message of several parts arrives as a frame of 0 bytes,
 * which is no message to any decoder. The largest frame is 64 MiB; who sends more is disconnected.
 */
struct link_frame {
    struct bytes peer;
    struct bytes data;
};
bool link_receive(struct link *link, struct link_frame *out);

/* Wait for any of up to 8 links to become readable (or writable, if they have something queued: it
 * is then flushed). A loop reads all links until they are empty, else the wait does not wait. */
struct link_poller;
MUST_CHECK struct status link_poller_open(struct link **links, size_t num_links,
                                          struct link_poller **out);
void link_poller_close(struct link_poller **poller);
/* Wakes up for a file descriptor too, when it is readable; its reading is the caller's. One at
 * most. */
void link_poller_watch(struct link_poller *poller, int fd);
/* timeout_ms -1: without end. Returns early on a signal. */
void link_poller_wait(struct link_poller *poller, int timeout_ms);

/*
 * SIGINT and SIGTERM set a flag and wake pollers; CZMQ's own handler is off, SIGPIPE and SIGXFSZ
 * are ignored. Call once at start. The same signal a second time ends the process at once with exit
 * code 130.
 */
void link_catch_signals(void);
bool link_interrupted(void);

#endif
