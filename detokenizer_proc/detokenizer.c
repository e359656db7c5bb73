/* detokenizer.c - see detokenizer.h. */
#include "detokenizer_proc/detokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_UNUSED_STOPS = 256,
    MAX_UNSENT_FACTOR = 4,        /* of max_unsent_bytes: all text that may wait for one client */
    MAX_REFUSALS_FACTOR = 64,     /* the same of refusals, while it takes some; else four, when */
    MAX_REFUSALS_STALL_MS = 1000, /* it has taken nothing for so long */
};

struct status detokenizer_init(struct detokenizer *d, const struct detokenizer_args *args)
{
    *d = (struct detokenizer){.args = *args};
    if (!d->args.max_unsent_bytes)
        d->args.max_unsent_bytes = 1 << 20;
    if (!d->args.max_stall_ns)
        d->args.max_stall_ns = 10000000000;
    if (!d->args.max_blocked_ns)
        d->args.max_blocked_ns = 60000000000;
    d->next_session = args->first_session ? args->first_session : 1;
    return stop_cache_init(&d->stops, MAX_UNUSED_STOPS);
}

/* ---- outboxes ---- */

static void mark_ready(struct detokenizer *d, struct client *client)
{
    if (client->is_ready || client->blocked_since_ns)
        return;
    *(d->last_ready ? &d->last_ready->next_ready : &d->first_ready) = client;
    d->last_ready = client;
    client->next_ready = NULL;
    client->is_ready = true;
}

static void unmark_ready(struct detokenizer *d, struct client *client)
{
    struct client *before = NULL;

    if (!client->is_ready)
        return;
    for (struct client *at = d->first_ready; at != client; at = at->next_ready)
        before = at;
    *(before ? &before->next_ready : &d->first_ready) = client->next_ready;
    if (d->last_ready == client)
        d->last_ready = before;
    client->is_ready = false;
}

struct client *detokenizer_next_ready(struct detokenizer *d)
{
    struct client *client = d->first_ready;

    if (client)
        unmark_ready(d, client);
    return client;
}

/* An abort that finds no memory is left out: the request then runs to its own end, unheard. */
static void add_abort(struct detokenizer *d, const struct abort_msg *abort)
{
    if (d->num_aborts == d->aborts_capacity) {
        size_t capacity = d->aborts_capacity ? 2 * d->aborts_capacity : 64;
        struct abort_msg *aborts = realloc(d->aborts, capacity * sizeof(*aborts));
        if (!aborts)
            return;
        d->aborts = aborts;
        d->aborts_capacity = capacity;
    }
    d->aborts[d->num_aborts++] = *abort;
    d->stats.num_aborts++;
}

static void abort_uid(struct detokenizer *d, uint64_t uid)
{
    add_abort(d, &(struct abort_msg){.uid = uid});
}

static void abort_client(struct detokenizer *d, const struct client_id *client)
{
    add_abort(d, &(struct abort_msg){.by_client = true, .client = *client});
}

/* A request whose client is not here, and with it all others of that client: when it went they may
 * have been on their way to the scheduler, and each would run to its first token. */
static void abort_unheard(struct detokenizer *d, const struct token_row *row,
                          const struct reply_to *reply_to)
{
    abort_uid(d, row->uid);
    if (reply_to)
        abort_client(d, &reply_to->client);
}

const struct abort_msg *detokenizer_next_abort(const struct detokenizer *d)
{
    return d->first_abort < d->num_aborts ? &d->aborts[d->first_abort] : NULL;
}

void detokenizer_abort_sent(struct detokenizer *d)
{
    if (++d->first_abort == d->num_aborts)
        d->first_abort = d->num_aborts = 0;
}

/* ---- the life of a reply ---- */

/* Frees the reply if both its conditions are met: see reply.h. */
static void settle(struct reply *reply)
{
    if (!reply->is_in_table && !reply->client)
        reply_destroy(&reply);
    else if (!reply->client)
        reply_release(reply); /* a tombstone needs no more than its uid */
}

static void set_finish(struct detokenizer *d, struct reply *reply, enum finish_reason finish,
                       enum error_code error, const char *message)
{
    assert(reply->finish == FINISH_NONE && finish != FINISH_NONE);
    reply->finish = finish;
    reply->error = error;
    reply->error_message = message;
    stop_cache_give(&d->stops, reply->text.stop);
    reply->text.stop = NULL;
    d->num_open--;
    d->stats.num_finished[finish]++;
}

static void mark_pending(struct detokenizer *d, struct reply *reply, size_t num_bytes)
{
    client_mark_pending(reply->client, reply, num_bytes);
    mark_ready(d, reply->client);
}

/* Ends a reply from here: its client is told, and the scheduler, unless that has ended it too. */
static void end_reply(struct detokenizer *d, struct reply *reply, enum error_code code,
                      const char *message)
{
    set_finish(d, reply, FINISH_ERROR, code, message);
    if (reply->is_in_table)
        abort_uid(d, reply->uid);
    mark_pending(d, reply, 0);
}

static struct client *find_client(const struct detokenizer *d, const struct reply_to *reply_to)
{
    return reply_to ? key_table_find(&d->clients_by_id, key_of_client(&reply_to->client)) : NULL;
}

/* The reply for the first row of a uid: open, a tombstone with aborts on their way when its client
 * is not here, or NULL when there is no memory for one. */
static struct reply *begin_reply(struct detokenizer *d, const struct token_row *row,
                                 const struct reply_to *reply_to)
{
    struct client *client = find_client(d, reply_to);
    struct reply *reply = reply_create(row->uid, client ? reply_to->rid : (struct bytes){0});
    const struct stop_match *stop = NULL;
    struct status status;

    if (reply && key_table_insert(&d->replies_by_uid, key_of_uid(row->uid), reply).code)
        reply_destroy(&reply);
    if (!client && !row->finish)
        abort_unheard(d, row, reply_to);
    else if (!reply && !row->finish)
        abort_uid(d, row->uid);
    if (!reply)
        return NULL;
    reply->is_in_table = true;
    if (!client) {
        reply->finish = FINISH_ABORT;
        return reply;
    }
    d->num_open++;
    d->stats.num_requests++;
    reply->is_streamed = reply_to->stream;
    reply->want_ids = reply_to->want_ids;
    reply->usage.prompt_tokens = row->num_prompt_tokens;
    reply->usage.cached_tokens = row->num_cached_tokens;
    client_attach(client, reply);
    status = stop_cache_take(&d->stops, reply_to->stops, (size_t)reply_to->num_stops, &stop);
    stream_init(&reply->text, stop, reply_to->skip_special);
    if (status.code)
        end_reply(d, reply, ERROR_INTERNAL, "the stop strings cannot be used");
    return reply;
}

static const char *message_of(const struct token_row *row)
{
    if (row->finish != FINISH_ERROR)
        return NULL;
    switch (row->error) {
    case ERROR_SHUTTING_DOWN:
        return "the server is shutting down";
    case ERROR_OVERLOADED:
        return "the server is overloaded";
    case ERROR_ABORTED:
        return "the request was aborted";
    default:
        return "the server failed on this request: its log says why";
    }
}

/* Feeds an open reply; ends it when the row, or a stop string, does. */
static void feed(struct detokenizer *d, struct reply *reply, const struct token_row *row,
                 int64_t step_end_ns)
{
    size_t before = reply_unsent_bytes(reply), text_before = reply->unsent_size;
    bool matched = false;
    struct status status = status_ok();

    if (row->token != TOKEN_NONE) {
        status = reply_add_token(reply, d->args.vocabulary, row->token, step_end_ns, &matched);
        d->stats.num_tokens++;
    }
    if (!status.code && !matched && row->finish)
        status = reply_flush(reply, &matched);
    d->stats.text_bytes += reply->unsent_size - text_before;
    if (status.code) {
        end_reply(d, reply, ERROR_INTERNAL, "no memory for the text");
        return;
    }
    if (matched) { /* wins over a terminal in the same row */
        d->stats.num_stop_strings++;
        set_finish(d, reply, FINISH_STOP, ERROR_NONE, NULL);
        if (reply->is_in_table)
            abort_uid(d, reply->uid);
    } else if (row->finish) {
        set_finish(d, reply, row->finish, row->error, message_of(row));
    }
    size_t added = reply_unsent_bytes(reply) - before;
    if (reply->finish || (reply->is_streamed && (added || reply->is_pending)))
        mark_pending(d, reply, added);
}

void detokenizer_take_row(struct detokenizer *d, const struct token_row *row,
                          const struct reply_to *reply_to, int64_t step_end_ns)
{
    struct key key = key_of_uid(row->uid);
    struct reply *reply = key_table_find(&d->replies_by_uid, key);

    if (row->is_first == (reply != NULL)) {
        d->stats.num_strangers++;
        if (!reply && !row->finish)
            abort_uid(d, row->uid);
        return;
    }
    if (row->is_first)
        reply = begin_reply(d, row, reply_to);
    if (!reply)
        return;
    if (row->finish) {
        key_table_remove(&d->replies_by_uid, key);
        reply->is_in_table = false;
    }
    if (reply->finish == FINISH_NONE)
        feed(d, reply, row, step_end_ns);
    else
        settle(reply);
}

void detokenizer_take_rejected(struct detokenizer *d, const struct rejected_msg *rejected,
                               const struct reply_to *reply_to)
{
    struct client *client = find_client(d, reply_to);

    d->stats.num_refused++;
    if (!client)
        return;
    if (client_add_refusal(client, rejected->uid, rejected->code, reply_to->rid, rejected->message)
            .code)
        return;
    mark_ready(d, client);
}

/* ---- clients ---- */

struct status detokenizer_take_hello(struct detokenizer *d, const struct bytes *peer)
{
    struct client_id id;
    struct client *client;
    struct status status;

    if (peer->size != sizeof(id.bytes) || peer->data[0] == 0)
        return status_error(STATUS_INVALID,
                            "a client's identity has 16 bytes, the first of them not zero");
    memcpy(id.bytes, peer->data, sizeof(id.bytes));
    client = key_table_find(&d->clients_by_id, key_of_client(&id));
    if (!client) {
        client = client_create(&id, d->next_session);
        if (!client)
            return status_error(STATUS_NO_MEMORY, "no memory for a client");
        status = key_table_insert(&d->clients_by_id, key_of_client(&id), client);
        if (status.code) {
            client_destroy(&client);
            return status;
        }
        client->older = d->clients;
        if (client->older)
            client->older->newer = client;
        d->clients = client;
        d->next_session++;
    }
    detokenizer_client_unblocked(d, client); /* a new connection starts with an empty pipe */
    client->owes_hello_ok = true;
    mark_ready(d, client);
    return status_ok();
}

void detokenizer_message_sent(struct detokenizer *d, struct client *client)
{
    detokenizer_client_unblocked(d, client);
    if (client->owes_hello_ok) {
        client->owes_hello_ok = false;
        return;
    }
    if (!client->first_pending) {
        client->num_sent += client->first_refusal->uid != 0; /* an error without is not counted */
        client_drop_refusal(client);
        return;
    }
    client->num_sent++;
    struct reply *reply = client_take_pending(client, client->num_in_message);
    for (struct reply *next; reply; reply = next) {
        next = reply->next_pending;
        reply->next_pending = NULL;
        reply_sent(reply);
        if (reply->finish) {
            client_detach(client, reply);
            settle(reply);
        }
    }
}

void detokenizer_client_unblocked(struct detokenizer *d, struct client *client)
{
    if (!client->blocked_since_ns)
        return;
    client->blocked_since_ns = client->stalled_since_ns = 0;
    client->stalled_bytes = 0;
    d->num_blocked--;
    if (client_has_unsent(client))
        mark_ready(d, client);
}

static void begin_stall(struct client *client, int64_t now_ns)
{
    client->stalled_since_ns = now_ns;
    client->stalled_bytes = client->unsent_bytes;
}

/* What waited when the stall began does not count: a client that has just taken a frame reads. */
static bool is_slow(const struct detokenizer *d, const struct client *client, int64_t now_ns)
{
    return client->unsent_bytes > client->stalled_bytes + d->args.max_unsent_bytes ||
           client->unsent_bytes > MAX_UNSENT_FACTOR * d->args.max_unsent_bytes ||
           now_ns - client->stalled_since_ns > d->args.max_stall_ns;
}

/* Ends all its requests: those that go on, and those whose end has not been sent, since their text
 * is let go. */
static void end_as_slow(struct detokenizer *d, struct client *client, int64_t now_ns)
{
    static const char message[] = "the client did not read its answers";

    d->stats.num_slow++;
    for (struct reply *reply = client->replies; reply; reply = reply->older) {
        if (reply->is_pending)
            client->unsent_bytes -= reply_unsent_bytes(reply);
        reply_sent(reply);
        if (reply->finish == FINISH_NONE) {
            end_reply(d, reply, ERROR_SLOW_CLIENT, message);
        } else if (reply->error != ERROR_SLOW_CLIENT) {
            reply->finish = FINISH_ERROR;
            reply->error = ERROR_SLOW_CLIENT;
            reply->error_message = message;
        }
    }
    begin_stall(client, now_ns);
}

/* Refusals cannot be joined in a frame, nor let go, so many may wait for a client that reads. */
static bool has_too_many_refusals(const struct detokenizer *d, const struct client *client,
                                  int64_t now_ns)
{
    bool is_stalled = now_ns - client->blocked_since_ns > MAX_REFUSALS_STALL_MS * 1000000LL;
    size_t factor = is_stalled ? MAX_UNSENT_FACTOR : MAX_REFUSALS_FACTOR;

    return client->refusal_bytes > factor * d->args.max_unsent_bytes;
}

bool detokenizer_client_blocked(struct detokenizer *d, struct client *client, int64_t now_ns)
{
    if (!client->blocked_since_ns) {
        unmark_ready(d, client);
        client->blocked_since_ns = now_ns;
        begin_stall(client, now_ns);
        d->num_blocked++;
    }
    if (client->replies && is_slow(d, client, now_ns))
        end_as_slow(d, client, now_ns);
    if (has_too_many_refusals(d, client, now_ns) ||
        now_ns - client->blocked_since_ns > d->args.max_blocked_ns) {
        detokenizer_client_gone(d, client);
        return false;
    }
    return true;
}

void detokenizer_client_gone(struct detokenizer *d, struct client *client)
{
    abort_client(d, &client->id);
    d->stats.num_gone++;
    client_take_pending(client, client->num_pending);
    while (client->replies) {
        struct reply *reply = client->replies;
        client_detach(client, reply);
        if (reply->finish == FINISH_NONE)
            set_finish(d, reply, FINISH_ABORT, ERROR_NONE, NULL);
        settle(reply);
    }
    unmark_ready(d, client);
    if (client->blocked_since_ns)
        d->num_blocked--;
    key_table_remove(&d->clients_by_id, key_of_client(&client->id));
    *(client->newer ? &client->newer->older : &d->clients) = client->older;
    if (client->older)
        client->older->newer = client->newer;
    client_destroy(&client);
}

/* ---- the whole ---- */

void detokenizer_end_all(struct detokenizer *d, enum error_code code, const char *message)
{
    for (struct client *client = d->clients; client; client = client->older)
        for (struct reply *reply = client->replies; reply; reply = reply->older)
            if (reply->finish == FINISH_NONE)
                end_reply(d, reply, code, message);
}

void detokenizer_deinit(struct detokenizer *d)
{
    while (d->clients)
        detokenizer_client_gone(d, d->clients);
    for (size_t i = 0; i < d->replies_by_uid.num_slots; i++) {
        struct reply *reply = d->replies_by_uid.slots[i].value;
        reply_destroy(&reply);
    }
    key_table_deinit(&d->replies_by_uid);
    key_table_deinit(&d->clients_by_id);
    stop_cache_deinit(&d->stops);
    free(d->aborts);
    *d = (struct detokenizer){0};
}
