/*
 * loop.c - see loop.h.
 *
 * One turn: read what has arrived, send each client all that it is due in one frame, send the
 * aborts. Nothing waits but the poller. A client whose pipe is full is tried again every few
 * milliseconds with an `alive`, which costs nothing to build; when that goes, its text follows.
 */
#include "detokenizer_proc/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "detokenizer_proc/detokenizer.h"
#include "detokenizer_proc/loop_stats.h"
#include "proto/control_endpoint.h"
#include "proto/link.h"
#include "proto/messages_codec.h"

enum {
    MAX_FRAMES_PER_TURN = 64, /* of one socket, so that the others get their turn */
    ALIVE_INTERVAL_MS = 500,
    RETRY_INTERVAL_MS = 2,
    LINGER_MS = 1000,
    LAST_INPUT_MS = 500, /* after a signal, for what the scheduler has sent, */
    QUIET_MS = 20,       /* and the pause behind which no more is expected; */
    MAX_TURN_MS = 10,    /* a turn counts as so much, for the process may have stood still in it */
    SESSION_SHIFT =
        20, /* sessions of one process; they are numbered on from the second of its start */
    MAX_FRAME_MEMORY = 256 << 20, /* decoded; a frame of ordinary size takes a thousandth */
};

struct loop {
    struct loop_args args;
    struct detokenizer detokenizer;
    struct link *input, *scheduler, *endpoint; /* owned */
    struct control_endpoint control;           /* owned */
    struct link_poller *poller;                /* owned */
    struct arena arena;                        /* of one frame, in or out */
    struct frame_buffer out;                   /* owned */
    struct loop_counters counters;
    struct log_limit garbage_limit, client_limit;
    int64_t next_alive_ns, next_retry_ns;
};

/* ---- sending ---- */

/* To a client. */
static struct status send_to(struct loop *loop, const struct bytes *peer,
                             const struct message *message)
{
    struct status status = message_encode(message, &loop->out);

    if (status.code)
        return status;
    status = link_send_to(loop->endpoint, peer, loop->out.data, loop->out.size);
    if (!status.code) {
        loop->counters.frames_out++;
        loop->counters.bytes_out += loop->out.size;
    }
    return status;
}

/* That a client's requests have ended, and why. */
static void log_client(struct loop *loop, const struct client_id *id, const char *what,
                       const char *why)
{
    int64_t skipped;

    if (log_limited(&loop->client_limit, clock_now_ns(), &skipped))
        log_info("%s client=%02x%02x%02x%02x requests ended; %s (%lld more such lines)", what,
                 id->bytes[0], id->bytes[1], id->bytes[2], id->bytes[3], why, (long long)skipped);
}

/* What became of a send to a client; false when the client is gone. */
static bool after_send(struct loop *loop, struct client *client, struct status status)
{
    struct detokenizer *d = &loop->detokenizer;
    const struct client_id id = client->id; /* it may be forgotten below */
    uint64_t num_slow = d->stats.num_slow;
    bool is_there;

    if (!status.code)
        return true;
    if (status.code == STATUS_NO_SPACE) {
        is_there = detokenizer_client_blocked(d, client, clock_now_ns());
        if (!is_there || d->stats.num_slow > num_slow)
            log_client(loop, &id, is_there ? "slow" : "client gone", status.msg);
        return is_there;
    }
    if (client->replies)
        log_client(loop, &id, "client gone", status.msg);
    detokenizer_client_gone(d, client);
    return false;
}

static void send_client(struct loop *loop, struct client *client)
{
    const struct bytes peer = {client->id.bytes, sizeof(client->id.bytes)};

    while (client_has_unsent(client)) {
        struct message message;
        arena_reset(&loop->arena);
        struct status status = client_next_message(client, &loop->arena, &message);
        if (!status.code)
            status = send_to(loop, &peer, &message);
        if (status.code) {
            after_send(loop, client, status);
            return;
        }
        detokenizer_message_sent(&loop->detokenizer, client);
    }
}

static void send_clients(struct loop *loop)
{
    struct client *client;

    while ((client = detokenizer_next_ready(&loop->detokenizer)))
        send_client(loop, client);
}

static void send_aborts(struct loop *loop)
{
    const struct abort_msg *abort;

    while ((abort = detokenizer_next_abort(&loop->detokenizer))) {
        const struct message message = {
            .type = MESSAGE_ABORT, .run = loop->args.run, .abort = *abort};
        if (message_encode(&message, &loop->out).code ||
            link_send(loop->scheduler, loop->out.data, loop->out.size).code)
            return; /* its queue is full: later */
        detokenizer_abort_sent(&loop->detokenizer);
    }
}

/* `alive` to one client; true when its pipe took it. */
static bool send_alive(struct loop *loop, struct client *client)
{
    const struct bytes peer = {client->id.bytes, sizeof(client->id.bytes)};
    const struct message message = {.type = MESSAGE_ALIVE, .presence = client_presence(client)};
    struct status status = send_to(loop, &peer, &message);

    after_send(loop, client, status);
    return status.code == STATUS_OK;
}

static void keep_alive(struct loop *loop, int64_t now_ns)
{
    if (now_ns < loop->next_alive_ns)
        return;
    loop->next_alive_ns = now_ns + ALIVE_INTERVAL_MS * ns_per_ms;
    for (struct client *client = loop->detokenizer.clients, *older; client; client = older) {
        older = client->older;
        if (!client->blocked_since_ns)
            send_alive(loop, client);
    }
}

static void retry_blocked(struct loop *loop, int64_t now_ns)
{
    if (!loop->detokenizer.num_blocked || now_ns < loop->next_retry_ns)
        return;
    loop->next_retry_ns = now_ns + RETRY_INTERVAL_MS * ns_per_ms;
    for (struct client *client = loop->detokenizer.clients, *older; client; client = older) {
        older = client->older;
        if (client->blocked_since_ns && send_alive(loop, client))
            detokenizer_client_unblocked(&loop->detokenizer, client);
    }
}

/* ---- receiving ---- */

static void drop_frame(struct loop *loop, const char *from, const char *why)
{
    int64_t skipped;

    loop->counters.frames_dropped++;
    if (log_limited(&loop->garbage_limit, clock_now_ns(), &skipped))
        log_warn("frame dropped from=%s: %s (%lld more such lines)", from, why, (long long)skipped);
}

static void take_tokens(struct loop *loop, const struct tokens_msg *tokens)
{
    uint64_t strangers = loop->detokenizer.stats.num_strangers;

    for (int32_t i = 0; i < tokens->num_rows; i++) {
        const struct token_row *row = &tokens->rows[i];
        struct reply_to reply_to;
        bool is_read =
            row->is_first &&
            !reply_to_decode(row->reply_to.data, row->reply_to.size, &loop->arena, &reply_to).code;
        if (row->is_first && !is_read)
            drop_frame(loop, "scheduler", "a reply_to that is none");
        detokenizer_take_row(&loop->detokenizer, row, is_read ? &reply_to : NULL,
                             tokens->step_end_ns);
    }
    if (loop->detokenizer.stats.num_strangers != strangers)
        drop_frame(loop, "scheduler", "a row of a request that never began, or began twice");
}

static void take_rejected(struct loop *loop, const struct rejected_msg *rejected)
{
    struct reply_to reply_to;

    if (reply_to_decode(rejected->reply_to.data, rejected->reply_to.size, &loop->arena, &reply_to)
            .code)
        drop_frame(loop, "scheduler", "a reply_to that is none");
    else
        detokenizer_take_rejected(&loop->detokenizer, rejected, &reply_to);
}

/* Decodes a frame from input; false: it is dropped. */
static bool read_input(struct loop *loop, const struct bytes *frame, struct message *out)
{
    struct message_fault fault;
    struct status status = message_decode(frame->data, frame->size, &loop->arena, out, &fault);

    if (status.code)
        drop_frame(loop, "scheduler", status.msg);
    else if (loop->args.run && out->run && out->run != loop->args.run)
        drop_frame(loop, "scheduler", "of another run");
    else
        return true;
    return false;
}

/* False: there was nothing. */
static bool take_input(struct loop *loop)
{
    struct link_frame frame;
    int i = 0;

    for (; i < MAX_FRAMES_PER_TURN && link_receive(loop->input, &frame); i++) {
        struct message message;
        arena_reset(&loop->arena);
        loop->counters.frames_in++;
        loop->counters.bytes_in += frame.data.size;
        if (!read_input(loop, &frame.data, &message))
            continue;
        if (message.type == MESSAGE_TOKENS)
            take_tokens(loop, &message.tokens);
        else if (message.type == MESSAGE_REJECTED)
            take_rejected(loop, &message.rejected);
        else
            drop_frame(loop, "scheduler", "neither tokens nor rejected");
    }
    return i > 0;
}

/* Tells a peer that is perhaps no client what was wrong; it may be gone, and nobody waits. */
static void refuse_client(struct loop *loop, const struct bytes *peer, struct bytes rid,
                          const char *why)
{
    const struct message message = {.type = MESSAGE_ERROR,
                                    .error = {.rid = rid,
                                              .code = ERROR_INVALID_REQUEST,
                                              .message = {(const uint8_t *)why, strlen(why)}}};
    struct status status = send_to(loop, peer, &message);

    (void)status;
}

static void take_client_frame(struct loop *loop, const struct link_frame *frame)
{
    struct message message;
    struct message_fault fault = {0};
    struct status status =
        message_decode(frame->data.data, frame->data.size, &loop->arena, &message, &fault);

    if (status.code == STATUS_FORMAT) {
        drop_frame(loop, "client", status.msg);
        return;
    }
    if (!status.code && message.type == MESSAGE_HELLO)
        status = detokenizer_take_hello(&loop->detokenizer, &frame->peer);
    else if (!status.code)
        status = status_error(STATUS_INVALID, "type: this endpoint takes hello only");
    if (status.code)
        refuse_client(loop, &frame->peer, fault.rid, status.msg);
}

static void take_clients(struct loop *loop)
{
    struct link_frame frame;

    for (int i = 0; i < MAX_FRAMES_PER_TURN && link_receive(loop->endpoint, &frame); i++) {
        arena_reset(&loop->arena);
        loop->counters.frames_in++;
        loop->counters.bytes_in += frame.data.size;
        take_client_frame(loop, &frame);
    }
}

/* ---- control ---- */

static struct status obey(void *process, enum control_command command, struct json_writer *info)
{
    struct loop *loop = process;

    if (command == CONTROL_STATS) {
        loop_stats_write(&loop->detokenizer, &loop->counters, clock_now_ns(), info);
    } else if (command == CONTROL_DRAIN) {
        return status_error(STATUS_UNSUPPORTED,
                            "command: what is queued in the scheduler is not known here; drain the "
                            "tokenizer or the scheduler");
    } else {
        return status_error(STATUS_UNSUPPORTED,
                            "command: the detokenizer has neither the cache nor the loop of steps");
    }
    return status_ok();
}

/* ---- the loop ---- */

static struct status open_links(struct loop *loop)
{
    const struct loop_args *args = &loop->args;
    struct status status = link_open(&(struct link_args){.kind = LINK_PULL,
                                                         .endpoint = args->input,
                                                         .bind = true,
                                                         .curve_keys = args->curve_keys},
                                     &loop->input);

    if (!status.code)
        status = link_open(&(struct link_args){.kind = LINK_PUSH,
                                               .endpoint = args->scheduler,
                                               .peer = "scheduler",
                                               .curve_keys = args->curve_keys},
                           &loop->scheduler);
    if (!status.code)
        status = link_open(&(struct link_args){.kind = LINK_ROUTER,
                                               .endpoint = args->endpoint,
                                               .bind = true,
                                               .curve_keys = args->curve_keys},
                           &loop->endpoint);
    if (!status.code)
        status = control_endpoint_open(&loop->control, args->control);
    if (status.code)
        return status;
    struct link *links[] = {loop->input, loop->endpoint, loop->scheduler, loop->control.link};
    return link_poller_open(links, loop->control.link ? 4 : 3, &loop->poller);
}

struct status loop_open(const struct loop_args *args, struct loop **out)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    struct status status;

    if (!loop)
        return status_error(STATUS_NO_MEMORY, "no memory for the loop");
    loop->args = *args;
    arena_init(&loop->arena, 1 << 20, MAX_FRAME_MEMORY);
    loop->counters.start_ns = clock_now_ns();
    status = detokenizer_init(
        &loop->detokenizer,
        &(struct detokenizer_args){.vocabulary = args->vocabulary,
                                   .max_unsent_bytes = args->max_unsent_bytes,
                                   .max_stall_ns = args->max_stall_ns,
                                   .first_session = (uint64_t)time(NULL) << SESSION_SHIFT});
    if (!status.code)
        status = open_links(loop);
    if (status.code)
        goto out;
    *out = loop;
    loop = NULL;
out:
    loop_close(&loop);
    return status;
}

void loop_close(struct loop **loop_ptr)
{
    struct loop *loop = *loop_ptr;

    if (!loop)
        return;
    link_poller_close(&loop->poller);
    control_endpoint_close(&loop->control);
    link_close(&loop->endpoint, LINGER_MS);
    link_close(&loop->scheduler, LINGER_MS / 4);
    link_close(&loop->input, 0);
    detokenizer_deinit(&loop->detokenizer);
    frame_buffer_deinit(&loop->out);
    arena_deinit(&loop->arena);
    free(loop);
    *loop_ptr = NULL;
}

const char *loop_input(const struct loop *loop)
{
    return link_endpoint(loop->input);
}

const char *loop_endpoint(const struct loop *loop)
{
    return link_endpoint(loop->endpoint);
}

const char *loop_control(const struct loop *loop)
{
    return control_endpoint_address(&loop->control);
}

/* Until when there is nothing to do if nothing arrives. */
static int wait_ms(const struct loop *loop, int64_t now_ns)
{
    int64_t until_ns = loop->next_alive_ns;

    if (loop->detokenizer.num_blocked && loop->next_retry_ns < until_ns)
        until_ns = loop->next_retry_ns;
    return until_ns > now_ns ? (int)((until_ns - now_ns + ns_per_ms - 1) / ns_per_ms) : 0;
}

/* What the scheduler said before it ended: until nothing has come for a moment. */
static void take_last_input(struct loop *loop)
{
    int64_t waited_ns = 0, quiet_ns = 0;

    while (waited_ns < LAST_INPUT_MS * ns_per_ms && quiet_ns < QUIET_MS * ns_per_ms) {
        int64_t turn_ns = clock_now_ns();
        link_poller_wait(loop->poller, QUIET_MS / 4);
        bool has_heard = take_input(loop);
        send_clients(loop);
        turn_ns = clock_now_ns() - turn_ns;
        if (turn_ns > MAX_TURN_MS * ns_per_ms)
            turn_ns = MAX_TURN_MS * ns_per_ms;
        waited_ns += turn_ns;
        quiet_ns = has_heard ? 0 : quiet_ns + turn_ns;
    }
}

void loop_run(struct loop *loop)
{
    while (!link_interrupted()) {
        link_poller_wait(loop->poller, wait_ms(loop, clock_now_ns()));
        take_input(loop);
        take_clients(loop);
        control_endpoint_turn(&loop->control, obey, loop);
        send_clients(loop);
        keep_alive(loop, clock_now_ns());
        retry_blocked(loop, clock_now_ns());
        send_clients(loop);
        send_aborts(loop);
    }
    take_last_input(loop);
    size_t num_open = loop->detokenizer.num_open;
    detokenizer_end_all(&loop->detokenizer, ERROR_SHUTTING_DOWN, "the server is shutting down");
    send_clients(loop);
    send_aborts(loop);
    log_info("stopping open_requests=%zu", num_open);
}
