/*
 * client.c - see client.h. Frames are read one at a time, and the events in one are given out
 * before the next is read.
 */
#include "tools/client/client.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/arena.h"
#include "common/clock.h"
#include "proto/link.h"
#include "proto/messages_codec.h"
#include "tools/client/calls.h"
#include "tools/client/losses.h"

enum {
    HELLO_TIMEOUT_MS = 5000,
    TICK_MS = 100,
    LINGER_MS = 200,
};

struct client {
    int hello_timeout_ms;
    bool (*is_interrupted)(void); /* or NULL */
    struct link *front, *reply;   /* owned */
    struct link_poller *poller;   /* owned */
    struct arena arena;           /* of the frame in message */
    struct frame_buffer out;
    struct message message; /* the last one received */
    int32_t next_delta;     /* of message, if that is deltas */
    struct call_table calls;
    struct losses losses;
    bool has_hello_ok;
    bool front_is_next; /* to be read; else reply */
};

size_t client_num_open(const struct client *client)
{
    return client->calls.num_open;
}

/* ---- sending ---- */

struct generate_msg client_generate_defaults(void)
{
    return (struct generate_msg){
        .add_generation_prompt = true,
        .parse_special = UNSET,
        .add_special_tokens = UNSET,
        .sampling = {.top_p = 1, .max_tokens = 1024},
        .skip_special = true,
        .stream = true,
    };
}

static struct status send_on(struct client *client, struct link *link,
                             const struct message *message)
{
    struct status status = message_encode(message, &client->out);

    return status.code ? status : link_send(link, client->out.data, client->out.size);
}

/* Neither is a call: that there is an answer says what is to be known. They are said again. */
static void say_hello(struct client *client)
{
    struct status status = send_on(client, client->reply, &(struct message){.type = MESSAGE_HELLO});

    (void)status;
    losses_said_hello(&client->losses, clock_now_ns());
}

static void say_info(struct client *client)
{
    char rid[LOSSES_RID_BYTES];
    struct message message = {.type = MESSAGE_INFO,
                              .info = {.rid = losses_info_rid(&client->losses, rid)}};
    struct status status = send_on(client, client->front, &message);

    (void)status;
    losses_said_info(&client->losses, clock_now_ns());
}

/* Sends a message of the front socket as a call; rid points into it. */
static struct status begin_call(struct client *client, struct message *message, struct bytes *rid,
                                void *user, uint64_t *out_call)
{
    char text[CALL_RID_BYTES];
    struct call *call = NULL;
    struct status status = call_table_take(&client->calls, user, &call);

    if (status.code)
        return status;
    *rid = call_rid(call->number, text);
    status = send_on(client, client->front, message);
    if (status.code) {
        call_table_give(&client->calls, call);
        return status;
    }
    losses_begun(&client->losses, call, message->type == MESSAGE_GENERATE, clock_now_ns());
    *out_call = call->number;
    return status;
}

struct status client_ask(struct client *client, enum message_type type,
                         const struct generate_msg *msg, void *user, uint64_t *out_call)
{
    struct message message = {.type = type, .generate = *msg};

    return begin_call(client, &message, &message.generate.rid, user, out_call);
}

struct status client_generate(struct client *client, const struct generate_msg *msg, void *user,
                              uint64_t *out_call)
{
    return client_ask(client, MESSAGE_GENERATE, msg, user, out_call);
}

struct status client_info(struct client *client, void *user, uint64_t *out_call)
{
    struct message message = {.type = MESSAGE_INFO};

    return begin_call(client, &message, &message.info.rid, user, out_call);
}

struct status client_abort_uid(struct client *client, uint64_t uid, void *user, uint64_t *out_call)
{
    struct message message = {.type = MESSAGE_CLIENT_ABORT,
                              .client_abort = {.has_uid = true, .uid = uid}};

    return begin_call(client, &message, &message.client_abort.rid, user, out_call);
}

/* The answer to it is of no use, so it is no call: its rid finds none. */
struct status client_abort(struct client *client, uint64_t number)
{
    const struct call *call = call_table_find(&client->calls, number);
    char target[CALL_RID_BYTES];
    struct message message = {.type = MESSAGE_CLIENT_ABORT,
                              .client_abort = {.rid = {(const uint8_t *)"abort", 5}}};

    if (!call)
        return status_ok();
    if (call->uid) {
        message.client_abort.has_uid = true;
        message.client_abort.uid = call->uid;
    } else {
        message.client_abort.target_rid = call_rid(number, target);
    }
    return send_on(client, client->front, &message);
}

/* ---- receiving ---- */

/* An event of a call; the call ends if it is the last. */
static void put_event(struct client *client, struct call *call, enum client_event_kind kind,
                      bool is_last, struct client_event *out)
{
    *out = (struct client_event){.kind = kind,
                                 .call = call->number,
                                 .user = call->user,
                                 .is_last = is_last,
                                 .uid = call->uid};
    losses_answered(&client->losses, call);
    if (!is_last)
        return;
    losses_ended(&client->losses, call);
    call_table_give(&client->calls, call);
}

static void put_error(struct client *client, struct call *call, enum error_code code,
                      struct bytes message, struct client_event *out)
{
    put_event(client, call, CLIENT_ERROR, true, out);
    out->error = code;
    out->error_message = message;
}

/* The next delta of the last message that belongs to an open call. */
static bool take_delta(struct client *client, struct client_event *out)
{
    const struct message *message = &client->message;

    while (message->type == MESSAGE_DELTAS && client->next_delta < message->deltas.num_deltas) {
        const struct delta *delta = &message->deltas.deltas[client->next_delta++];
        struct call *call = call_table_find_rid(&client->calls, delta->rid);
        if (!call)
            continue;
        call->uid = delta->uid;
        if (delta->finish == FINISH_ERROR) {
            put_error(client, call, delta->error, delta->error_message, out);
            out->delta = delta;
            return true;
        }
        put_event(client, call, CLIENT_DELTA, delta->finish != FINISH_NONE, out);
        out->delta = delta;
        return true;
    }
    return false;
}

/* What is in client->message; false when it is nobody's. */
static bool take_message(struct client *client, struct client_event *out)
{
    const struct message *message = &client->message;
    struct call *call;

    switch (message->type) {
    case MESSAGE_DELTAS:
        client->next_delta = 0;
        return take_delta(client, out);
    case MESSAGE_HELLO_OK:
        client->has_hello_ok = true;
        return false;
    case MESSAGE_ACCEPTED:
        call = call_table_find_rid(&client->calls, message->accepted.rid);
        if (!call)
            return false;
        call->uid = message->accepted.uid;
        put_event(client, call, CLIENT_ACCEPTED, false, out);
        return true;
    case MESSAGE_RESULT:
        call = call_table_find_rid(&client->calls, message->result.rid);
        if (!call) {
            losses_take_info(&client->losses, &message->result, &client->arena);
            return false;
        }
        put_event(client, call, CLIENT_RESULT, true, out);
        out->result = &message->result;
        return true;
    case MESSAGE_ERROR:
        call = call_table_find_rid(&client->calls, message->error.rid);
        if (!call)
            return false;
        put_error(client, call, message->error.code, message->error.message, out);
        return true;
    default:
        return false;
    }
}

/* Reads one frame; false when there was none. What cannot be decoded becomes an `alive`. */
static bool read_frame(struct client *client, struct link *link)
{
    struct link_frame frame;
    struct message_fault fault;

    if (!link_receive(link, &frame))
        return false;
    arena_reset(&client->arena);
    if (message_decode(frame.data.data, frame.data.size, &client->arena, &client->message, &fault)
            .code)
        client->message = (struct message){.type = MESSAGE_ALIVE};
    if (link == client->reply)
        losses_heard_reply(&client->losses, &client->message, clock_now_ns());
    else
        losses_heard_front(&client->losses, clock_now_ns());
    return true;
}

/* The next event of what has already arrived. */
static bool take_arrived(struct client *client, struct client_event *out)
{
    if (take_delta(client, out))
        return true;
    /* In turns: answers to a flood of requests must not keep their text from being read. */
    client->front_is_next = !client->front_is_next;
    struct link *first = client->front_is_next ? client->front : client->reply;
    struct link *second = client->front_is_next ? client->reply : client->front;
    while (read_frame(client, first))
        if (take_message(client, out))
            return true;
    while (read_frame(client, second))
        if (take_message(client, out))
            return true;
    return false;
}

/* Ends one call that is lost; asks those who have been silent. */
static bool take_lost(struct client *client, struct client_event *out)
{
    static const char message[] = "the server shows no sign of life, or has lost this request";
    struct losses_due due = losses_look_out(&client->losses, clock_now_ns());

    if (due.hello)
        say_hello(client);
    if (due.info)
        say_info(client);
    struct call *call = losses_next(&client->losses);
    if (!call)
        return false;
    struct status status = call->is_request ? client_abort(client, call->number) : status_ok();
    (void)status; /* in case that the server still has it */
    put_error(client, call, ERROR_SERVER_LOST,
              (struct bytes){(const uint8_t *)message, strlen(message)}, out);
    return true;
}

static int64_t deadline_of(int timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : clock_now_ns() + timeout_ms * ns_per_ms;
}

/* Waits for a frame or a tick; false at the deadline and after a signal. */
static bool wait_until(struct client *client, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - clock_now_ns();

    if (left_ns <= 0 || (client->is_interrupted && client->is_interrupted()))
        return false;
    int64_t left_ms = (left_ns + ns_per_ms - 1) / ns_per_ms;
    link_flush(client->front);
    link_flush(client->reply);
    link_poller_wait(client->poller, left_ms < TICK_MS ? (int)left_ms : TICK_MS);
    return true;
}

bool client_next(struct client *client, int timeout_ms, struct client_event *out)
{
    int64_t deadline_ns = deadline_of(timeout_ms);

    while (!take_arrived(client, out)) {
        if (take_lost(client, out))
            return true;
        if (timeout_ms < 0 && client->calls.num_open == 0)
            return false;
        if (!wait_until(client, deadline_ns))
            return false;
    }
    return true;
}

/* ---- open and close ---- */

struct status client_hello(struct client *client)
{
    int64_t deadline_ns = deadline_of(client->hello_timeout_ms), now_ns;
    struct client_event event;

    while (take_arrived(client, &event)) /* late answers of calls that have ended: nobody's */
        ;
    client->has_hello_ok = false;
    say_hello(client);
    while ((now_ns = clock_now_ns()) < deadline_ns) {
        if (losses_look_out(&client->losses, now_ns).hello)
            say_hello(client);
        if (!wait_until(client, deadline_ns) && clock_now_ns() < deadline_ns)
            return status_error(STATUS_INTERRUPTED, "interrupted");
        while (take_arrived(client, &event))
            ;
        if (client->has_hello_ok)
            return status_ok();
    }
    return status_error(STATUS_GONE, "%.64s: no answer within %d ms: is a server running there?",
                        link_endpoint(client->reply), client->hello_timeout_ms);
}

static struct status draw_identity(struct client_id *id)
{
    do {
        if (getrandom(id->bytes, sizeof(id->bytes), 0) != (ssize_t)sizeof(id->bytes))
            return status_error(STATUS_IO, "no random numbers");
    } while (id->bytes[0] == 0);
    return status_ok();
}

static struct status open_link(const struct client_args *args, const char *endpoint,
                               const char *peer, const struct client_id *id, struct link **out)
{
    return link_open(&(struct link_args){.kind = LINK_DEALER,
                                         .endpoint = endpoint,
                                         .identity = id,
                                         .peer = peer,
                                         .curve_keys = args->curve_keys},
                     out);
}

struct status client_open(const struct client_args *args, struct client **out)
{
    struct client_id id;
    struct status status = draw_identity(&id);
    struct client *client = NULL;

    if (status.code)
        return status;
    client = calloc(1, sizeof(*client));
    if (!client)
        return status_error(STATUS_NO_MEMORY, "no memory for a client");
    client->hello_timeout_ms = args->hello_timeout_ms ? args->hello_timeout_ms : HELLO_TIMEOUT_MS;
    client->is_interrupted = args->is_interrupted;
    client->message.type = MESSAGE_ALIVE;
    arena_init(&client->arena, 0, 0);
    call_table_init(&client->calls);
    losses_init(&client->losses, &client->calls, clock_now_ns());
    status = open_link(args, args->tokenizer, "tokenizer", &id, &client->front);
    if (!status.code)
        status = open_link(args, args->detokenizer, "detokenizer", &id, &client->reply);
    if (!status.code)
        status =
            link_poller_open((struct link *[]){client->front, client->reply}, 2, &client->poller);
    if (!status.code)
        status = client_hello(client);
    if (status.code)
        goto out;
    *out = client;
    client = NULL;
out:
    client_close(&client);
    return status;
}

void client_close(struct client **client_ptr)
{
    struct client *client = *client_ptr;

    if (!client)
        return;
    link_poller_close(&client->poller);
    link_close(&client->front, LINGER_MS);
    link_close(&client->reply, 0);
    call_table_deinit(&client->calls);
    frame_buffer_deinit(&client->out);
    arena_deinit(&client->arena);
    free(client);
    *client_ptr = NULL;
}
