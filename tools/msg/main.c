/*
 * main.c - minisgl-msg: JSON lines to frames and back on any endpoint, so that each process can be
 * tried alone, from a shell or a script.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "proto/link.h"
#include "tools/msg/transcode.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, LINGER_MS = 1000, POLL_MS = 250 };

enum verb { VERB_SEND, VERB_RECV, VERB_REQUEST };

struct msg_options {
    enum verb verb;
    const char *connect, *bind;
    bool push, pull, dealer, router, rep, req;
    const char *identity;
    int64_t count;    /* -1: not given */
    double timeout_s; /* negative: without end */
};

struct session {
    const struct msg_options *options;
    enum link_kind kind;
    struct client_id identity;
    struct link *link;
    struct arena arena;
    struct frame_buffer frame;
    struct json_writer text;
};

/* ---- lines out, frames in ---- */

static struct status send_line(struct session *session, const char *line, size_t size)
{
    struct json_value *value = NULL;
    uint8_t peer_bytes[256];
    struct status status;

    arena_reset(&session->arena);
    status = json_parse(line, size, &session->arena, &value);
    if (status.code)
        return status;
    status = transcode_from_json(value, &session->frame);
    if (status.code)
        return status;
    if (session->kind != LINK_ROUTER && session->kind != LINK_REP)
        return link_send(session->link, session->frame.data, session->frame.size);
    const struct json_value *peer = json_get(value, "peer");
    int peer_size = peer && peer->type == JSON_STRING
                        ? transcode_unhex(peer->text, peer_bytes, sizeof(peer_bytes))
                        : -1;
    if (peer_size <= 0)
        return status_error(STATUS_INVALID, "a router's line needs its peer, in hexadecimal");
    struct bytes bytes = {.data = peer_bytes, .size = (size_t)peer_size};
    return link_send_to(session->link, &bytes, session->frame.data, session->frame.size);
}

static struct status print_frame(struct session *session, const struct link_frame *frame)
{
    struct json_writer *text = &session->text;

    json_writer_reset(text);
    json_begin_object(text);
    if (session->kind == LINK_ROUTER || session->kind == LINK_REP) {
        json_key(text, "peer");
        transcode_hex(text, frame->peer);
    }
    if (transcode_to_json(frame->data, text).code) {
        json_key(text, "$raw");
        transcode_hex(text, frame->data);
    }
    json_end_object(text);
    if (text->failed)
        return status_error(STATUS_NO_MEMORY, "no memory for a line");
    printf("%s\n", text->data);
    if (fflush(stdout) != 0)
        return status_errno(errno, "stdout");
    return status_ok();
}

/* The next frame, until the deadline (negative: for ever). *out_got: one was printed. */
static struct status receive_one(struct session *session, int64_t deadline_ns, bool *out_got)
{
    struct link_poller *poller = NULL;
    struct status status = link_poller_open(&session->link, 1, &poller);
    struct link_frame frame;

    *out_got = false;
    while (status.code == STATUS_OK) {
        if (link_receive(session->link, &frame)) {
            *out_got = true;
            status = print_frame(session, &frame);
            break;
        }
        int64_t left_ms = deadline_ns < 0 ? POLL_MS : (deadline_ns - clock_now_ns()) / 1000000 + 1;
        if (link_interrupted() || (deadline_ns >= 0 && clock_now_ns() >= deadline_ns))
            break;
        link_poller_wait(poller, (int)(left_ms < POLL_MS ? left_ms : POLL_MS));
    }
    link_poller_close(&poller);
    return status;
}

static int64_t deadline_of(const struct msg_options *options)
{
    return options->timeout_s < 0 ? -1
                                  : clock_now_ns() + (int64_t)(options->timeout_s * 1000000000.0);
}

/* ---- the verbs ---- */

/* Prints frames until count have come (then it is a success), or the time is up. */
static struct status receive_all(struct session *session)
{
    int64_t deadline_ns = deadline_of(session->options);
    int64_t wanted = session->options->count;
    struct status status = status_ok();
    int64_t num_got = 0;
    bool got = true;

    while (status.code == STATUS_OK && got && num_got != wanted) {
        status = receive_one(session, deadline_ns, &got);
        num_got += got;
    }
    if (status.code == STATUS_OK && wanted >= 0 && num_got < wanted)
        status = status_error(STATUS_NOT_FOUND, "%lld of %lld messages came", (long long)num_got,
                              (long long)wanted);
    return status;
}

/* Waits until the link has passed on what it was given. */
static struct status flush(struct session *session)
{
    int64_t deadline_ns = clock_now_ns() + LINGER_MS * ns_per_ms;
    struct link_poller *poller = NULL;
    struct status status = link_poller_open(&session->link, 1, &poller);

    while (!status.code && !link_flush(session->link)) {
        if (clock_now_ns() >= deadline_ns || link_interrupted())
            status = status_error(STATUS_GONE, "%.80s: nobody is there; not sent",
                                  link_endpoint(session->link));
        else
            link_poller_wait(poller, POLL_MS / 10);
    }
    link_poller_close(&poller);
    return status;
}

/* Sends stdin's lines; with request, each is followed by its answer (or count of them). */
static struct status send_all(struct session *session)
{
    struct status status = status_ok();
    int64_t num_answers = session->options->count < 0 ? 1 : session->options->count;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;

    while (status.code == STATUS_OK && !link_interrupted() &&
           (size = getline(&line, &capacity, stdin)) >= 0) {
        while (size > 0 && isspace((unsigned char)line[size - 1]))
            size--;
        if (size == 0)
            continue;
        status = send_line(session, line, (size_t)size);
        bool got = true;
        int64_t deadline_ns = deadline_of(session->options);
        for (int64_t i = 0; session->options->verb == VERB_REQUEST && i < num_answers &&
                            status.code == STATUS_OK && got;
             i++)
            status = receive_one(session, deadline_ns, &got);
        if (status.code == STATUS_OK && !got)
            status = status_error(STATUS_NOT_FOUND, "no answer came");
    }
    free(line);
    if (status.code == STATUS_OK && session->options->verb == VERB_SEND)
        status = flush(session);
    return status;
}

/* ---- the command line ---- */

static struct status parse(int argc, char **argv, struct msg_options *options, bool *out_done)
{
    const struct option_usage usage = {
        .program = "minisgl-msg",
        .synopsis = "send | recv | request  --connect ENDPOINT | --bind ENDPOINT  --KIND [options]",
        .summary =
            "Sends and prints messages of minisgl's processes, one JSON object a line.\n\n"
            "  send      sends each line of stdin as one message\n"
            "  recv      prints each message that comes as one line\n"
            "  request   sends each line of stdin and prints the answer (or --count of them)\n\n"
            "Keys are those of proto/PROTOCOL.md. client is hexadecimal; reply_to is an object;\n"
            "messages, tools, kwargs and info may be JSON values; {\"$raw\": \"c0\"} sends bytes.\n"
            "\"v\": 1 is put in where it is missing. With --router and --rep each line has a\n"
            "\"peer\", in hexadecimal.\n\n"
            "  echo '{\"type\":\"ping\"}' | minisgl-msg request --req --connect ipc:///run/x.ipc"};
    const struct option_spec specs[] = {
        option_string("connect", &options->connect, "ENDPOINT", "ipc:///path or tcp://host:port"),
        option_string("bind", &options->bind, "ENDPOINT", "the same, for others to connect to"),
        option_flag("push", &options->push, "kind of socket"),
        option_flag("pull", &options->pull, "kind of socket"),
        option_flag("dealer", &options->dealer, "kind of socket: a client"),
        option_flag("router", &options->router, "kind of socket: a server of clients"),
        option_flag("req", &options->req, "kind of socket: asks control endpoints"),
        option_flag("rep", &options->rep, "kind of socket: a control endpoint"),
        option_string("identity", &options->identity, "HEX",
                      "of a --dealer: 32 digits, not starting with 00"),
        option_int("count", &options->count, "N", 0, 1e15,
                   "recv: end after N messages; request: N answers to each line"),
        option_double("timeout", &options->timeout_s, "S", 0, 1e6,
                      "recv: end after S seconds; request: wait S for an answer (for ever)"),
        {0}};
    struct option_list rest = {0};
    struct status status = options_parse(argc, argv, &usage, specs, &rest, out_done);

    if (status.code || *out_done)
        goto out;
    static const char *const verbs[] = {"send", "recv", "request"};
    int verb = rest.num_items == 1 ? 0 : 3;
    while (verb < 3 && strcmp(rest.items[0], verbs[verb]) != 0)
        verb++;
    if (verb == 3)
        status = status_error(STATUS_INVALID, "say one of send, recv and request");
    else
        options->verb = (enum verb)verb;
out:
    option_list_deinit(&rest);
    return status;
}

static struct status choose(const struct msg_options *options, struct session *session)
{
    const bool kinds[] = {[LINK_PUSH] = options->push,     [LINK_PULL] = options->pull,
                          [LINK_ROUTER] = options->router, [LINK_DEALER] = options->dealer,
                          [LINK_REP] = options->rep,       [LINK_REQ] = options->req};
    int num_kinds = 0;

    for (int kind = LINK_PUSH; kind <= LINK_REQ; kind++) {
        if (kinds[kind]) {
            session->kind = (enum link_kind)kind;
            num_kinds++;
        }
    }
    if (num_kinds != 1)
        return status_error(STATUS_INVALID,
                            "say one of --push, --pull, --dealer, --router, --req and --rep");
    if ((options->connect != NULL) == (options->bind != NULL))
        return status_error(STATUS_INVALID, "say one of --connect and --bind");
    if ((session->kind == LINK_PULL && options->verb != VERB_RECV) ||
        (session->kind == LINK_PUSH && options->verb != VERB_SEND))
        return status_error(STATUS_INVALID, "a --push only sends, a --pull only receives");
    if (!options->identity)
        return status_ok();
    struct json_text hex = {.data = options->identity, .size = strlen(options->identity)};
    if (transcode_unhex(hex, session->identity.bytes, 16) != 16 || session->identity.bytes[0] == 0)
        return status_error(STATUS_INVALID, "--identity takes 32 hexadecimal digits, not '%s'",
                            options->identity);
    return status_ok();
}

int main(int argc, char **argv)
{
    struct msg_options options = {.count = -1, .timeout_s = -1};
    struct session session = {.options = &options};
    bool is_done = false;
    int exit_code;
    struct status status;

    log_open("minisgl-msg");
    status = parse(argc, argv, &options, &is_done);
    if (status.code == STATUS_OK && !is_done)
        status = choose(&options, &session);
    if (options_end_here("minisgl-msg", &status, is_done, &exit_code))
        return exit_code;
    link_catch_signals();
    arena_init(&session.arena, 0, 0);
    struct link_args args = {.kind = session.kind,
                             .endpoint = options.connect ? options.connect : options.bind,
                             .bind = options.bind != NULL,
                             .only_connected = options.verb == VERB_SEND,
                             .identity = options.identity ? &session.identity : NULL};
    status = link_open(&args, &session.link);
    if (status.code == STATUS_OK)
        status = options.verb == VERB_RECV ? receive_all(&session) : send_all(&session);
    link_close(&session.link, LINGER_MS);
    if (status.code)
        fprintf(stderr, "minisgl-msg: %s\n", status.msg);
    json_writer_deinit(&session.text);
    frame_buffer_deinit(&session.frame);
    arena_deinit(&session.arena);
    return status.code ? EXIT_FAILED : EXIT_OK;
}
