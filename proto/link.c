/*
 * link.c - see link.h. One CZMQ socket, and in front of it a queue of what it did not take at once:
 *
 *   link_send -> [ first ... last ] -> socket -> ZeroMQ's own pipe, at most its high-water mark
 *
 * The queue serves the kinds with one direction to send in (PUSH, DEALER, REQ). A ROUTER has none:
 * one slow peer must not hold up another's frames, so its caller is told, and decides.
 */
#include "proto/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <czmq.h>

#include "common/clock.h"
#include "proto/link_curve.h"
#include "proto/link_endpoint.h"
#include "proto/link_internal.h"
#include "proto/link_signals.h"

enum {
    DEFAULT_QUEUE_BYTES = 64 << 20,
    MAX_FRAME_BYTES = 64 << 20,
    QUEUED_OVERHEAD = 128, /* bytes: what a queued frame costs beside its own */
    SEND_MARK = 1000,      /* frames in ZeroMQ's pipe */
    RECEIVE_MARK = 1000,
    ROUTER_SEND_MARK = 64, /* low, so that "would block" comes soon: the peer does not read */
    BACKLOG = 1024,
    RECONNECT_MS = 50,
    MAX_RECONNECT_MS = 1000,
    HEARTBEAT_MS = 5000, /* tcp only: a host that vanishes says nothing */
    HEARTBEAT_TIMEOUT_MS = 15000,
    MAX_PEER_BYTES = 255, /* ZeroMQ's bound on a routing id */
};

struct queued_frame {
    struct queued_frame *next;
    zmq_msg_t msg;
};

struct link {
    enum link_kind kind;
    zsock_t *sock;                     /* owned */
    void *handle;                      /* borrowed from sock: the libzmq socket */
    char *endpoint;                    /* owned */
    uint64_t inode;                    /* of the ipc file bound; 0: none */
    bool uses_auth;                    /* holds a share of the process's CURVE authenticator */
    struct queued_frame *first, *last; /* owned */
    size_t queued_bytes, max_queue_bytes;
    zmq_msg_t data;                   /* the last frame received */
    uint8_t peer[MAX_PEER_BYTES + 1]; /* and who sent it; REP: with its envelope's flag behind */
};

/* ---- open and close ---- */

static int socket_type(enum link_kind kind)
{
    switch (kind) {
    case LINK_PUSH:
        return ZMQ_PUSH;
    case LINK_PULL:
        return ZMQ_PULL;
    case LINK_ROUTER:
    case LINK_REP:
        return ZMQ_ROUTER;
    case LINK_DEALER:
    case LINK_REQ:
        break;
    }
    return ZMQ_DEALER;
}

static bool is_router(const struct link *link)
{
    return link->kind == LINK_ROUTER || link->kind == LINK_REP;
}

static void set_options(struct link *link, const struct link_args *args)
{
    zsock_t *sock = link->sock;

    zsock_set_linger(sock, 0); /* link_close() says otherwise */
    zsock_set_maxmsgsize(sock, MAX_FRAME_BYTES);
    int send_mark = is_router(link) ? ROUTER_SEND_MARK : SEND_MARK;
    zsock_set_sndhwm(sock, args->send_mark ? args->send_mark : send_mark);
    zsock_set_rcvhwm(sock, RECEIVE_MARK);
    zsock_set_immediate(sock, args->only_connected);
    zsock_set_backlog(sock, BACKLOG);
    zsock_set_reconnect_ivl(sock, RECONNECT_MS);
    zsock_set_reconnect_ivl_max(sock, MAX_RECONNECT_MS);
    if (is_router(link)) {
        zsock_set_router_mandatory(sock, 1);
        zsock_set_router_handover(sock, 1);
    }
    if (args->identity)
        zmq_setsockopt(link->handle, ZMQ_ROUTING_ID, args->identity->bytes,
                       sizeof(args->identity->bytes));
    if (strncmp(args->endpoint, "tcp://", 6) == 0) {
        zsock_set_heartbeat_ivl(sock, HEARTBEAT_MS);
        zsock_set_heartbeat_timeout(sock, HEARTBEAT_TIMEOUT_MS);
        zsock_set_ipv6(sock, strchr(args->endpoint, '[') != NULL);
    }
}

/* libzmq ends the process when it cannot accept a connection on ipc for want of descriptors. The
 * soft limit is often 1024 for the sake of select(), which is not used here. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit); /* a try */
    }
}

static struct status attach(struct link *link, const struct link_args *args)
{
    struct status status;

    if (!args->bind) {
        if (zsock_connect(link->sock, "%s", args->endpoint) != 0)
            return status_error(STATUS_IO, "%.80s: %s", args->endpoint, zmq_strerror(errno));
        link->endpoint = strdup(args->endpoint);
    } else {
        raise_descriptor_limit();
        status = link_endpoint_claim(args->endpoint);
        if (status.code)
            return status;
        if (zsock_bind(link->sock, "%s", args->endpoint) == -1)
            return status_error(errno == EADDRINUSE ? STATUS_BUSY : STATUS_IO, "%.80s: %s",
                                args->endpoint, zmq_strerror(errno));
        link->endpoint = strdup(zsock_endpoint(link->sock));
        link->inode = link_endpoint_inode(args->endpoint);
    }
    if (!link->endpoint)
        return status_error(STATUS_NO_MEMORY, "no memory for a link");
    return status_ok();
}

struct status link_open(const struct link_args *args, struct link **out)
{
    struct status status = link_endpoint_check(args->endpoint, args->curve_keys != NULL);

    if (status.code)
        return status;
    zsys_handler_set(NULL); /* before CZMQ is first used: signals are link_signals.c's */
    struct link *link = calloc(1, sizeof(*link));
    if (!link)
        return status_error(STATUS_NO_MEMORY, "no memory for a link");
    link->kind = args->kind;
    link->max_queue_bytes = args->max_queue_bytes ? args->max_queue_bytes : DEFAULT_QUEUE_BYTES;
    zmq_msg_init(&link->data);
    link->sock = zsock_new(socket_type(args->kind));
    if (!link->sock) {
        status =
            status_error(STATUS_IO, "%.80s: no socket: %s", args->endpoint, zmq_strerror(errno));
        goto out;
    }
    link->handle = zsock_resolve(link->sock);
    set_options(link, args);
    if (args->curve_keys && link_endpoint_is_tcp(args->endpoint))
        status = link_curve_apply(link->sock, args, &link->uses_auth);
    if (status.code == STATUS_OK)
        status = attach(link, args);
    if (status.code)
        goto out;
    *out = link;
    link = NULL;
out:
    link_close(&link, 0);
    return status;
}

static void drop_queue(struct link *link)
{
    while (link->first) {
        struct queued_frame *frame = link->first;

        link->first = frame->next;
        zmq_msg_close(&frame->msg);
        free(frame);
    }
    link->last = NULL;
    link->queued_bytes = 0;
}

/* Waits until the own queue has gone out or the time is up. */
static void drain_queue(struct link *link, int64_t deadline_ns)
{
    while (!link_flush(link)) {
        zmq_pollitem_t item = {.socket = link->handle, .events = ZMQ_POLLOUT};
        int64_t left_ms = (deadline_ns - clock_now_ns()) / 1000000;

        if (left_ms <= 0)
            return;
        zmq_poll(&item, 1, left_ms);
    }
}

void link_close(struct link **link_ptr, int linger_ms)
{
    struct link *link = *link_ptr;
    int64_t deadline_ns = clock_now_ns() + (int64_t)linger_ms * 1000000;

    if (!link)
        return;
    if (link->sock) {
        drain_queue(link, deadline_ns);
        int64_t left_ms = (deadline_ns - clock_now_ns()) / 1000000;
        zsock_set_linger(link->sock, left_ms > 0 ? (int)left_ms : 0);
        if (link->endpoint)
            link_endpoint_release(link->endpoint, link->inode);
        zsock_destroy(&link->sock);
    }
    drop_queue(link);
    zmq_msg_close(&link->data);
    if (link->uses_auth)
        link_curve_give();
    free(link->endpoint);
    free(link);
    *link_ptr = NULL;
}

const char *link_endpoint(const struct link *link)
{
    return link->endpoint;
}

void *link_handle(const struct link *link)
{
    return link->handle;
}

/* ---- send ---- */

static struct status enqueue(struct link *link, zmq_msg_t *msg)
{
    size_t cost = zmq_msg_size(msg) + QUEUED_OVERHEAD;

    if (cost > link->max_queue_bytes - link->queued_bytes)
        return status_error(STATUS_NO_SPACE, "%.80s: %zu bytes wait already", link->endpoint,
                            link->queued_bytes);
    struct queued_frame *frame = malloc(sizeof(*frame));
    if (!frame)
        return status_error(STATUS_NO_MEMORY, "no memory to queue a frame");
    frame->next = NULL;
    zmq_msg_init(&frame->msg);
    zmq_msg_move(&frame->msg, msg);
    if (link->last)
        link->last->next = frame;
    else
        link->first = frame;
    link->last = frame;
    link->queued_bytes += cost;
    return status_ok();
}

/* To be closed, sent or not. */
static bool make_msg(zmq_msg_t *msg, const void *data, size_t size)
{
    if (zmq_msg_init_size(msg, size) != 0)
        return false;
    if (size)
        memcpy(zmq_msg_data(msg), data, size);
    return true;
}

struct status link_send(struct link *link, const void *data, size_t size)
{
    struct status status = status_ok();
    zmq_msg_t msg;

    if (!make_msg(&msg, data, size))
        return status_error(STATUS_NO_MEMORY, "no memory for a frame of %zu bytes", size);
    if (!link_flush(link) || zmq_msg_send(&msg, link->handle, ZMQ_DONTWAIT) < 0)
        status = enqueue(link, &msg);
    zmq_msg_close(&msg);
    return status;
}

bool link_flush(struct link *link)
{
    while (link->first) {
        struct queued_frame *frame = link->first;
        size_t cost = zmq_msg_size(&frame->msg) + QUEUED_OVERHEAD;

        if (zmq_msg_send(&frame->msg, link->handle, ZMQ_DONTWAIT) < 0)
            return false;
        link->queued_bytes -= cost;
        link->first = frame->next;
        if (!link->first)
            link->last = NULL;
        zmq_msg_close(&frame->msg);
        free(frame);
    }
    return true;
}

bool link_has_queued(const struct link *link)
{
    return link->first != NULL;
}

size_t link_queued_bytes(const struct link *link)
{
    return link->queued_bytes;
}

/* A signal may cut ZeroMQ's look at its commands short, before it has taken anything. Not to try
 * again would leave a message that is half sent for the next one to go on with. */
static int send_msg(struct link *link, zmq_msg_t *msg, int flags)
{
    int sent;

    do
        sent = zmq_msg_send(msg, link->handle, ZMQ_DONTWAIT | flags);
    while (sent < 0 && errno == EINTR);
    return sent;
}

/* A part that others follow. */
static int send_part(struct link *link, const void *data, size_t size)
{
    zmq_msg_t msg;

    if (!make_msg(&msg, data, size))
        return -1;
    int sent = send_msg(link, &msg, ZMQ_SNDMORE), error = errno;
    zmq_msg_close(&msg);
    errno = error;
    return sent;
}

/* ZeroMQ hears of room in a full pipe when it looks for messages from its own threads, which a send
 * does once in a millisecond at most, and a query of events at once. */
static int send_peer(struct link *link, const uint8_t *peer, size_t size)
{
    int sent = send_part(link, peer, size);
    int events;
    size_t events_size = sizeof(events);

    if (sent >= 0 || errno != EAGAIN)
        return sent;
    while (zmq_getsockopt(link->handle, ZMQ_EVENTS, &events, &events_size) < 0)
        if (errno != EINTR)
            return -1;
    return send_part(link, peer, size);
}

struct status link_send_to(struct link *link, const struct bytes *peer, const void *data,
                           size_t size)
{
    size_t peer_size = peer->size;
    bool has_delimiter = false;
    struct status status = status_ok();
    zmq_msg_t body;

    if (link->kind == LINK_REP && peer_size > 0)
        has_delimiter = peer->data[--peer_size] != 0;
    /* Before the first part goes: a message that is half sent would go on with the next one's
     * parts, and take it to the wrong peer. */
    if (!make_msg(&body, data, size))
        return status_error(STATUS_NO_SPACE, "no memory for a frame of %zu bytes", size);
    /* Once the first part is taken the others are too: pipes count whole messages, and small parts
     * take no memory of their own. */
    if (send_peer(link, peer->data, peer_size) < 0)
        status = errno == EAGAIN ? status_error(STATUS_NO_SPACE, "the peer does not read")
                                 : status_error(STATUS_GONE, "the peer is not connected");
    else if ((has_delimiter && send_part(link, "", 0) < 0) || send_msg(link, &body, 0) < 0)
        status = status_error(STATUS_GONE, "the peer has just gone: %s", zmq_strerror(errno));
    zmq_msg_close(&body);
    return status;
}

/* ---- receive ---- */

/* To data. A signal may end it early, as it may a send, and a message in parts must not lose one.
 */
static int receive_part(struct link *link)
{
    int received;

    do
        received = zmq_msg_recv(&link->data, link->handle, ZMQ_DONTWAIT);
    while (received < 0 && errno == EINTR);
    return received;
}

/* Reads the parts behind the first to the end; true when there was none. */
static bool skip_parts(struct link *link)
{
    bool is_single = true;

    while (zmq_msg_more(&link->data)) {
        is_single = false;
        if (receive_part(link) < 0)
            break; /* cannot be: messages arrive whole */
    }
    return is_single;
}

/* The routing id that stands in data becomes the peer; the next part takes its place. */
static size_t take_peer(struct link *link)
{
    size_t size = zmq_msg_size(&link->data);

    if (size > MAX_PEER_BYTES)
        size = MAX_PEER_BYTES;
    memcpy(link->peer, zmq_msg_data(&link->data), size);
    if (!zmq_msg_more(&link->data))
        return size;
    receive_part(link);
    if (link->kind != LINK_REP)
        return size;
    bool has_delimiter = zmq_msg_size(&link->data) == 0 && zmq_msg_more(&link->data);
    if (has_delimiter)
        receive_part(link);
    link->peer[size++] = has_delimiter;
    return size;
}

bool link_receive(struct link *link, struct link_frame *out)
{
    size_t peer_size = 0;

    *out = (struct link_frame){0};
    if (receive_part(link) < 0)
        return false;
    if (is_router(link))
        peer_size = take_peer(link);
    bool is_single = skip_parts(link);
    out->peer = (struct bytes){.data = link->peer, .size = peer_size};
    out->data = (struct bytes){.data = zmq_msg_data(&link->data),
                               .size = is_single ? zmq_msg_size(&link->data) : 0};
    return true;
}
