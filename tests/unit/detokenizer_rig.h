/*
 * detokenizer_rig.h - the detokenizer's decisions with no socket, for tests of them: rows in,
 * messages and aborts out. What each client received is kept as a text per rid: "Hello[stop]".
 */
#ifndef TESTS_UNIT_DETOKENIZER_RIG_H
#define TESTS_UNIT_DETOKENIZER_RIG_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detokenizer_proc/detokenizer.h"
#include "tests/unit/check_main.h"
#include "tests/unit/hand_vocabulary.h"

enum { NUM_CLIENTS = 3, MAX_RIDS = 64 };

static const char *const tokens[] = {"Hello", " world", "\xE4\xB8", "\x96", "\1<eos>", "EN", "D!"};
enum { HELLO, WORLD, HALF, OTHER_HALF, EOS, EN, D };

static struct vocabulary vocabulary;
static struct detokenizer d;
static struct arena arena;
static int64_t now_ns = 1;

/* What the clients have got. */
static char got[NUM_CLIENTS][MAX_RIDS][256];
static int num_terminals[NUM_CLIENTS][MAX_RIDS];
static struct usage last_usage;
static int num_messages;
static bool is_stuck[NUM_CLIENTS];
static char aborted[1024]; /* the uids aborted, as " 7 8", clients as " c1" */

static inline struct client_id id_of(int client)
{
    return (struct client_id){.bytes = {1, (uint8_t)client}};
}

static inline void append(char *out, size_t out_size, struct bytes text)
{
    size_t size = strlen(out);

    ck_assert_uint_lt(size + text.size, out_size);
    memcpy(out + size, text.data, text.size);
    out[size + text.size] = '\0';
}

static inline void append_text(char *out, size_t out_size, const char *text)
{
    append(out, out_size, (struct bytes){(const uint8_t *)text, strlen(text)});
}

static inline int rid_of(struct bytes rid)
{
    char text[8] = {0};

    memcpy(text, rid.data, rid.size < 7 ? rid.size : 7);
    return atoi(text);
}

static inline void end(int client, int rid, const char *how)
{
    char *out = got[client][rid];

    append_text(out, 256, "[");
    append_text(out, 256, how);
    append_text(out, 256, "]");
    ck_assert_int_eq(++num_terminals[client][rid], 1);
}

static inline void receive(int client, const struct message *message)
{
    static const char *const reasons[] = {"", "stop", "length", "abort", "error"};

    num_messages++;
    if (message->type == MESSAGE_ERROR) {
        int rid = rid_of(message->error.rid);
        append(got[client][rid], 256, message->error.message);
        end(client, rid, "refused");
    }
    for (int i = 0; message->type == MESSAGE_DELTAS && i < message->deltas.num_deltas; i++) {
        const struct delta *delta = &message->deltas.deltas[i];
        int rid = rid_of(delta->rid);
        ck_assert_int_eq(num_terminals[client][rid], 0); /* nothing after it */
        append(got[client][rid], 256, delta->text);
        for (int k = 0; k < delta->num_ids; k++)
            append_text(got[client][rid], 256, ".");
        if (!delta->finish)
            continue;
        end(client, rid, delta->error == ERROR_SLOW_CLIENT ? "slow" : reasons[delta->finish]);
        last_usage = delta->usage;
    }
}

static inline void deliver_aborts(void)
{
    const struct abort_msg *abort;

    while ((abort = detokenizer_next_abort(&d))) {
        char text[32];
        if (abort->by_client)
            snprintf(text, sizeof(text), " c%d", abort->client.bytes[1]);
        else
            snprintf(text, sizeof(text), " %d", (int)abort->uid);
        if (strlen(aborted) < 900)
            append_text(aborted, sizeof(aborted), text);
        detokenizer_abort_sent(&d);
    }
}

/* Sends all that can be sent. */
static inline void deliver(void)
{
    struct client *client;

    while ((client = detokenizer_next_ready(&d))) {
        int n = client->id.bytes[1];
        while (client_has_unsent(client)) {
            struct message message;
            if (is_stuck[n]) {
                detokenizer_client_blocked(&d, client, now_ns);
                break;
            }
            ck_assert_int_eq(client_next_message(client, &arena, &message).code, STATUS_OK);
            receive(n, &message);
            detokenizer_message_sent(&d, client);
        }
    }
    deliver_aborts();
    detokenizer_check(&d);
}

static inline struct client *find(int client)
{
    const struct client_id id = id_of(client);

    return key_table_find(&d.clients_by_id, key_of_client(&id));
}

static inline void hello(int client)
{
    const struct client_id id = id_of(client);
    const struct bytes peer = {id.bytes, sizeof(id.bytes)};

    ck_assert_int_eq(detokenizer_take_hello(&d, &peer).code, STATUS_OK);
    deliver();
}

static inline void setup(void)
{
    /* Where Check does not fork, the test before has left its own. */
    memset(got, 0, sizeof(got));
    memset(num_terminals, 0, sizeof(num_terminals));
    memset(is_stuck, 0, sizeof(is_stuck));
    last_usage = (struct usage){0};
    num_messages = 0;
    aborted[0] = '\0';
    now_ns = 1;
    vocabulary = hand_vocabulary(tokens, 7);
    arena_init(&arena, 0, 0);
    ck_assert_int_eq(
        detokenizer_init(&d, &(struct detokenizer_args){.vocabulary = &vocabulary}).code,
        STATUS_OK);
    for (int i = 0; i < NUM_CLIENTS; i++)
        hello(i);
}

static inline void teardown(void)
{
    detokenizer_deinit(&d);
    arena_deinit(&arena);
    vocabulary_deinit(&vocabulary);
}

struct begin {
    int client;
    const char *stop;
    bool want_ids, is_whole, show_special;
};

static inline const char *rid_text(uint64_t rid)
{
    static char text[16];

    snprintf(text, sizeof(text), "%d", (int)rid);
    return text;
}

/* The first row of a uid, which is also its rid. */
static inline void first(uint64_t uid, struct begin how, int32_t token, enum finish_reason finish)
{
    const char *rid = rid_text(uid);
    struct bytes stop = {(const uint8_t *)how.stop, how.stop ? strlen(how.stop) : 0};
    struct reply_to reply_to = {.client = id_of(how.client),
                                .rid = {(const uint8_t *)rid, strlen(rid)},
                                .num_stops = how.stop ? 1 : 0,
                                .stops = &stop,
                                .skip_special = !how.show_special,
                                .want_ids = how.want_ids,
                                .stream = !how.is_whole};
    struct token_row row = {.uid = uid,
                            .token = token,
                            .finish = finish,
                            .is_first = true,
                            .num_prompt_tokens = 5,
                            .num_cached_tokens = 3};

    detokenizer_take_row(&d, &row, &reply_to, now_ns);
}

static inline void next(uint64_t uid, int32_t token, enum finish_reason finish)
{
    struct token_row row = {.uid = uid, .token = token, .finish = finish};

    detokenizer_take_row(&d, &row, NULL, now_ns);
}

/* Nobody waits for anything. */
static inline bool is_idle(void)
{
    for (const struct client *client = d.clients; client; client = client->older)
        if (client_has_unsent(client))
            return false;
    return !d.num_open && !d.first_ready && !detokenizer_next_abort(&d);
}

static inline void check_empty(void)
{
    deliver();
    ck_assert_uint_eq(d.replies_by_uid.num_values, 0);
    ck_assert_uint_eq(d.num_open, 0);
    for (int i = 0; i < NUM_CLIENTS; i++)
        ck_assert(!find(i) || !find(i)->replies);
    ck_assert(is_idle());
}

/* A suite of these tests, each with a detokenizer and its clients of its own; the exit code. */
static inline int run_tests(const char *name, const TTest *const *tests, size_t num_tests)
{
    return check_run(name, setup, teardown, tests, num_tests);
}

#endif
