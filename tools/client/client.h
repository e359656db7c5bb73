/*
 * client.h - a client of a minisgl server, for command lines, gateways and benchmarks.
 *
 * A request is a call: the client names it on the wire, the caller gives it a pointer of its own.
 * What comes back are events, and each call ends with exactly one event that is its last, within
 * bounded time: with an error of code server_lost when the detokenizer is silent for 3 s or has
 * forgotten this client, when frames went down with a connection, or when the tokenizer, asked
 * after a second without an answer, is silent for 3 s more.
 *
 *   client_open(&args, &client);
 *   client_generate(client, &msg, user, &call);
 *   while (client_next(client, -1, &event))
 *       ... event.user, event.delta->text ... if (event.is_last) break;
 *   client_close(&client);
 *
 * One thread; nothing but client_open(), client_hello() and client_next() waits.
 */
#ifndef TOOLS_CLIENT_CLIENT_H
#define TOOLS_CLIENT_CLIENT_H

#include "common/status.h"
#include "proto/messages.h"

struct client; /* opaque */

struct client_args {
    const char *tokenizer, *detokenizer; /* endpoints */
    const char *curve_keys;              /* see link.h; NULL: none */
    int hello_timeout_ms;                /* 0: 5 s */
    bool (*is_interrupted)(void);        /* ends waiting early; NULL: nothing does */
};

/* Connects and waits for hello_ok. STATUS_GONE when none comes in time, STATUS_INTERRUPTED when a
 * signal came first. */
MUST_CHECK struct status client_open(const struct client_args *args, struct client **out);
void client_close(struct client **client);

/* Says hello again and waits for the answer: for one that has not called client_next() for long.
 * No call is open. Errors as of client_open(). */
MUST_CHECK struct status client_hello(struct client *client);

/* A generate message with every default: then set the prompt, and what differs. */
struct generate_msg client_generate_defaults(void);

/*
 * Each sends one message, whose rid is set here, and names the call (never 0). STATUS_NO_SPACE:
 * the queue is full, call client_next() and try again. STATUS_INVALID: a field is over its bounds.
 */
MUST_CHECK struct status client_generate(struct client *client, const struct generate_msg *msg,
                                         void *user, uint64_t *out_call);
/* type: MESSAGE_TOKENIZE or MESSAGE_RENDER; answered by one result or error. */
MUST_CHECK struct status client_ask(struct client *client, enum message_type type,
                                    const struct generate_msg *msg, void *user, uint64_t *out_call);
MUST_CHECK struct status client_info(struct client *client, void *user, uint64_t *out_call);
/* Aborts a call of this client: it still gets its last event. A call that has ended is no error. */
MUST_CHECK struct status client_abort(struct client *client, uint64_t call);
/* Aborts a request of any client by its uid; answered by one result. */
MUST_CHECK struct status client_abort_uid(struct client *client, uint64_t uid, void *user,
                                          uint64_t *out_call);

enum client_event_kind {
    CLIENT_ACCEPTED, /* of generate: it has a uid now */
    CLIENT_DELTA,
    CLIENT_RESULT, /* always the last */
    CLIENT_ERROR,  /* always the last */
};

struct client_event {
    enum client_event_kind kind;
    uint64_t call;
    void *user;
    bool is_last;
    uint64_t uid; /* 0: not known */
    /* Borrowed until the next call of client_next(); by kind: */
    const struct delta *delta; /* also of a CLIENT_ERROR that came as one */
    const struct result_msg *result;
    enum error_code error; /* CLIENT_ERROR */
    struct bytes error_message;
};

/* The next event. Waits at most timeout_ms (-1: until there is one); false when there was none in
 * time, or is_interrupted() says so, or (with -1) when no call is open. */
bool client_next(struct client *client, int timeout_ms, struct client_event *out);

size_t client_num_open(const struct client *client);

#endif
