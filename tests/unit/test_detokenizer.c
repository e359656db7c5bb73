/*
 * test_detokenizer.c - the detokenizer's decisions with no socket: rows in, messages and aborts
 * out. What each client received is kept as a text per rid: "Hello[stop]".
 */
#include "detokenizer_proc/detokenizer.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

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

static struct client_id id_of(int client)
{
    return (struct client_id){.bytes = {1, (uint8_t)client}};
}

static void append(char *out, size_t out_size, struct bytes text)
{
    size_t size = strlen(out);

    ck_assert_uint_lt(size + text.size, out_size);
    memcpy(out + size, text.data, text.size);
    out[size + text.size] = '\0';
}

static void append_text(char *out, size_t out_size, const char *text)
{
    append(out, out_size, (struct bytes){(const uint8_t *)text, strlen(text)});
}

static int rid_of(struct bytes rid)
{
    char text[8] = {0};

    memcpy(text, rid.data, rid.size < 7 ? rid.size : 7);
    return atoi(text);
}

static void end(int client, int rid, const char *how)
{
    char *out = got[client][rid];

    append_text(out, 256, "[");
    append_text(out, 256, how);
    append_text(out, 256, "]");
    ck_assert_int_eq(++num_terminals[client][rid], 1);
}

static void receive(int client, const struct message *message)
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

static void deliver_aborts(void)
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
static void deliver(void)
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

static struct client *find(int client)
{
    const struct client_id id = id_of(client);

    return key_table_find(&d.clients_by_id, key_of_client(&id));
}

static void hello(int client)
{
    const struct client_id id = id_of(client);
    const struct bytes peer = {id.bytes, sizeof(id.bytes)};

    ck_assert_int_eq(detokenizer_take_hello(&d, &peer).code, STATUS_OK);
    deliver();
}

static void setup(void)
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

static void teardown(void)
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

static const char *rid_text(uint64_t rid)
{
    static char text[16];

    snprintf(text, sizeof(text), "%d", (int)rid);
    return text;
}

/* The first row of a uid, which is also its rid. */
static void first(uint64_t uid, struct begin how, int32_t token, enum finish_reason finish)
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

static void next(uint64_t uid, int32_t token, enum finish_reason finish)
{
    struct token_row row = {.uid = uid, .token = token, .finish = finish};

    detokenizer_take_row(&d, &row, NULL, now_ns);
}

/* Nobody waits for anything. */
static bool is_idle(void)
{
    for (const struct client *client = d.clients; client; client = client->older)
        if (client_has_unsent(client))
            return false;
    return !d.num_open && !d.first_ready && !detokenizer_next_abort(&d);
}

static void check_empty(void)
{
    deliver();
    ck_assert_uint_eq(d.replies_by_uid.num_values, 0);
    ck_assert_uint_eq(d.num_open, 0);
    for (int i = 0; i < NUM_CLIENTS; i++)
        ck_assert(!find(i) || !find(i)->replies);
    ck_assert(is_idle());
}

START_TEST(deltas_then_one_terminal)
{
    first(7, (struct begin){0}, HELLO, FINISH_NONE);
    deliver();
    ck_assert_str_eq(got[0][7], "Hello");
    next(7, WORLD, FINISH_NONE);
    next(7, EOS, FINISH_STOP);
    check_empty();
    ck_assert_str_eq(got[0][7], "Hello world[stop]");
    ck_assert_int_eq(last_usage.prompt_tokens, 5);
    ck_assert_int_eq(last_usage.completion_tokens, 3);
    ck_assert_int_eq(last_usage.cached_tokens, 3);
    ck_assert_str_eq(aborted, "");
}
END_TEST

START_TEST(one_step_is_one_message_to_each_client)
{
    for (int i = 0; i < 30; i++)
        first((uint64_t)i + 1, (struct begin){.client = i % 2}, HELLO, FINISH_NONE);
    int before = num_messages;
    deliver();
    ck_assert_int_eq(num_messages, before + 2);
    for (int i = 0; i < 30; i++)
        next((uint64_t)i + 1, TOKEN_NONE, FINISH_LENGTH);
    check_empty();
    ck_assert_str_eq(got[0][1], "Hello[length]");
    ck_assert_str_eq(got[1][30], "Hello[length]");
}
END_TEST

START_TEST(first_row_can_be_the_last)
{
    first(1, (struct begin){.want_ids = true}, HELLO, FINISH_LENGTH);
    first(2, (struct begin){0}, TOKEN_NONE, FINISH_ABORT);
    first(3, (struct begin){.show_special = true}, EOS, FINISH_STOP);
    check_empty();
    ck_assert_str_eq(got[0][1], "Hello.[length]");
    ck_assert_str_eq(got[0][2], "[abort]");
    ck_assert_str_eq(got[0][3], "<eos>[stop]");
}
END_TEST

START_TEST(whole_answer_comes_with_the_terminal)
{
    first(1, (struct begin){.is_whole = true, .want_ids = true}, HELLO, FINISH_NONE);
    next(1, WORLD, FINISH_NONE);
    deliver();
    ck_assert_str_eq(got[0][1], "");
    next(1, HALF, FINISH_LENGTH);
    check_empty();
    ck_assert_str_eq(got[0][1], "Hello world\xEF\xBF\xBD...[length]");
}
END_TEST

START_TEST(stop_string_ends_here_and_leaves_a_tombstone)
{
    first(4, (struct begin){.stop = "END"}, HELLO, FINISH_NONE);
    next(4, EN, FINISH_NONE);
    deliver();
    ck_assert_str_eq(got[0][4], "Hello");
    next(4, D, FINISH_NONE);
    deliver();
    ck_assert_str_eq(got[0][4], "Hello[stop]");
    ck_assert_int_eq(last_usage.completion_tokens, 3);
    ck_assert_str_eq(aborted, " 4");
    ck_assert_uint_eq(d.replies_by_uid.num_values, 1);
    next(4, WORLD, FINISH_NONE); /* the scheduler has not heard yet */
    next(4, TOKEN_NONE, FINISH_ABORT);
    check_empty();
    ck_assert_str_eq(got[0][4], "Hello[stop]");
    ck_assert_uint_eq(d.stops.num_unused, 1);
}
END_TEST

START_TEST(stop_string_wins_over_a_terminal_in_the_same_row)
{
    first(4, (struct begin){.stop = "END"}, EN, FINISH_NONE);
    next(4, D, FINISH_LENGTH);
    check_empty();
    ck_assert_str_eq(got[0][4], "[stop]");
    ck_assert_str_eq(aborted, ""); /* it has ended there too */
}
END_TEST

START_TEST(stop_string_wins_over_a_terminal_in_the_same_batch)
{
    first(4, (struct begin){.stop = "END"}, EN, FINISH_NONE);
    next(4, D, FINISH_NONE);
    next(4, TOKEN_NONE, FINISH_LENGTH);
    check_empty();
    ck_assert_str_eq(got[0][4], "[stop]");
}
END_TEST

/* DET-07: nothing of an aborted request is left for the next one with its uid. */
START_TEST(uid_again_starts_clean)
{
    first(7, (struct begin){.stop = "END"}, EN, FINISH_NONE);
    next(7, HALF, FINISH_NONE);
    next(7, TOKEN_NONE, FINISH_ABORT);
    check_empty();
    ck_assert_str_eq(got[0][7], "EN\xEF\xBF\xBD[abort]");
    first(7, (struct begin){.client = 1}, OTHER_HALF, FINISH_NONE);
    next(7, HELLO, FINISH_LENGTH);
    check_empty();
    ck_assert_str_eq(got[1][7], "\xEF\xBF\xBDHello[length]");
}
END_TEST

START_TEST(unregistered_client_is_aborted)
{
    first(9, (struct begin){.client = 77}, HELLO, FINISH_NONE);
    deliver();
    ck_assert_str_eq(aborted, " 9");
    next(9, WORLD, FINISH_NONE);
    ck_assert_uint_eq(d.stats.num_strangers, 0);
    next(9, TOKEN_NONE, FINISH_ABORT);
    check_empty();
    ck_assert_str_eq(aborted, " 9");                                   /* once */
    first(10, (struct begin){.client = 77}, TOKEN_NONE, FINISH_ABORT); /* has ended already */
    check_empty();
    ck_assert_str_eq(aborted, " 9");
}
END_TEST

START_TEST(gone_client_is_aborted_and_forgotten)
{
    first(1, (struct begin){0}, HELLO, FINISH_NONE);
    first(2, (struct begin){0}, HELLO, FINISH_LENGTH);
    first(3, (struct begin){.client = 1}, HELLO, FINISH_NONE);
    detokenizer_client_gone(&d, find(0));
    deliver();
    ck_assert_str_eq(aborted, " c0");
    next(1, WORLD, FINISH_NONE);
    next(3, WORLD, FINISH_STOP);
    next(1, TOKEN_NONE, FINISH_ABORT);
    check_empty();
    ck_assert_str_eq(got[0][1], "");
    ck_assert_str_eq(got[1][3], "Hello world[stop]");
    ck_assert_ptr_null(find(0));
    hello(0);
    ck_assert_ptr_nonnull(find(0));
}
END_TEST

START_TEST(refusal_goes_to_its_own_client_and_touches_nothing)
{
    const char message[] = "prompt_len: 600 is more than 512";
    struct rejected_msg rejected = {
        .uid = 5, .code = ERROR_TOO_LONG, .message = {(const uint8_t *)message, strlen(message)}};
    struct reply_to reply_to = {.client = id_of(1), .rid = {(const uint8_t *)"6", 1}};

    first(5, (struct begin){0}, HELLO, FINISH_NONE); /* a uid that is in use */
    detokenizer_take_rejected(&d, &rejected, &reply_to);
    next(5, WORLD, FINISH_STOP);
    check_empty();
    ck_assert_uint_eq(find(1)->num_sent, 1);
    reply_to.rid = (struct bytes){(const uint8_t *)"7", 1};
    rejected.uid = 0; /* an error of no request: clients do not count it either */
    detokenizer_take_rejected(&d, &rejected, &reply_to);
    check_empty();
    ck_assert_uint_eq(find(1)->num_sent, 1);
    rejected.uid = 6;
    ck_assert_str_eq(got[1][6], "prompt_len: 600 is more than 512[refused]");
    ck_assert_str_eq(got[0][5], "Hello world[stop]");
    reply_to.client = id_of(77);
    detokenizer_take_rejected(&d, &rejected, &reply_to);
    detokenizer_take_rejected(&d, &rejected, NULL);
    check_empty();
}
END_TEST

START_TEST(slow_client_coalesces)
{
    is_stuck[0] = true;
    first(1, (struct begin){.want_ids = true}, HELLO, FINISH_NONE);
    deliver();
    for (int i = 0; i < 10; i++) {
        next(1, WORLD, FINISH_NONE);
        deliver();
    }
    first(2, (struct begin){0}, HELLO, FINISH_LENGTH);
    deliver();
    ck_assert_uint_eq(d.num_blocked, 1);
    is_stuck[0] = false;
    int before = num_messages;
    detokenizer_client_unblocked(&d, find(0));
    deliver();
    ck_assert_int_eq(num_messages, before + 1); /* all in one */
    ck_assert_str_eq(got[0][1], "Hello world world world world world world world world world world"
                                "...........");
    ck_assert_str_eq(got[0][2], "Hello[length]");
    next(1, TOKEN_NONE, FINISH_LENGTH);
    check_empty();
}
END_TEST

static void stall(int64_t seconds)
{
    now_ns += seconds * 1000000000;
    if (find(0))
        detokenizer_client_blocked(&d, find(0), now_ns);
    deliver();
}

START_TEST(stalled_client_is_ended)
{
    is_stuck[0] = true;
    first(1, (struct begin){0}, HELLO, FINISH_NONE);
    first(2, (struct begin){0}, HELLO, FINISH_LENGTH);
    first(3, (struct begin){.is_whole = true}, HELLO, FINISH_NONE);
    first(4, (struct begin){.client = 1}, HELLO, FINISH_NONE);
    deliver();
    stall(9);
    ck_assert_str_eq(aborted, "");
    stall(2);
    ck_assert_str_eq(aborted, " 3 1");
    next(1, WORLD, FINISH_NONE);
    stall(2);
    is_stuck[0] = false;
    detokenizer_client_unblocked(&d, find(0));
    next(1, TOKEN_NONE, FINISH_ABORT);
    next(3, TOKEN_NONE, FINISH_ABORT);
    next(4, WORLD, FINISH_STOP);
    check_empty();
    ck_assert_str_eq(got[0][1], "[slow]");
    ck_assert_str_eq(got[0][2], "[slow]");
    ck_assert_str_eq(got[0][3], "[slow]");
    ck_assert_str_eq(got[1][4], "Hello world[stop]");
    first(5, (struct begin){0}, HELLO, FINISH_LENGTH); /* it is served again */
    check_empty();
    ck_assert_str_eq(got[0][5], "Hello[length]");
}
END_TEST

START_TEST(slow_client_is_ended_at_a_mebibyte)
{
    is_stuck[0] = true;
    first(1, (struct begin){0}, HELLO, FINISH_NONE);
    deliver();
    int n = 0;
    for (; !*aborted && n < 1000000; n++) {
        next(1, WORLD, FINISH_NONE);
        if (n % 100 == 0)
            stall(0);
    }
    ck_assert_int_gt(n, (1 << 20) / 6);
    ck_assert_int_lt(n, (1 << 20) / 6 + 200);
    ck_assert_uint_eq(find(0)->unsent_bytes, 0);
    stall(61); /* it has not come back */
    ck_assert_ptr_null(find(0));
    ck_assert_str_eq(aborted, " 1 c0");
    next(1, TOKEN_NONE, FINISH_ABORT);
    check_empty();
}
END_TEST

START_TEST(rows_out_of_order_are_dropped)
{
    next(8, HELLO, FINISH_NONE); /* never began */
    next(8, HELLO, FINISH_LENGTH);
    first(1, (struct begin){0}, HELLO, FINISH_NONE);
    first(1, (struct begin){.client = 1}, WORLD, FINISH_NONE); /* begins twice */
    deliver();
    ck_assert_uint_eq(d.stats.num_strangers, 3);
    ck_assert_str_eq(aborted, " 8");
    next(1, WORLD, FINISH_STOP);
    check_empty();
    ck_assert_str_eq(got[0][1], "Hello world[stop]");
    ck_assert_str_eq(got[1][1], "");
}
END_TEST

START_TEST(unreadable_reply_to_is_aborted)
{
    struct token_row row = {.uid = 3, .token = HELLO, .is_first = true};

    detokenizer_take_row(&d, &row, NULL, now_ns);
    deliver();
    ck_assert_str_eq(aborted, " 3");
    next(3, TOKEN_NONE, FINISH_ABORT);
    check_empty();
}
END_TEST

START_TEST(shutdown_ends_all)
{
    first(1, (struct begin){0}, HELLO, FINISH_NONE);
    first(2, (struct begin){.client = 1, .is_whole = true}, HELLO, FINISH_NONE);
    detokenizer_end_all(&d, ERROR_SHUTTING_DOWN, "the server is shutting down");
    deliver();
    ck_assert_str_eq(got[0][1], "Hello[error]");
    ck_assert_str_eq(got[1][2], "Hello[error]");
    ck_assert(is_idle());
}
END_TEST

START_TEST(identities_that_are_no_clients_are_refused)
{
    const uint8_t zero[16] = {0, 1};
    const struct bytes given_by_zmq = {zero, 5}, starts_with_zero = {zero, 16};

    ck_assert_int_eq(detokenizer_take_hello(&d, &given_by_zmq).code, STATUS_INVALID);
    ck_assert_int_eq(detokenizer_take_hello(&d, &starts_with_zero).code, STATUS_INVALID);
}
END_TEST

/* DET-08: thousands of open streams. */
START_TEST(many_open_streams)
{
    enum { NUM = 5000 };

    for (uint64_t uid = 1; uid <= NUM; uid++) {
        struct reply_to reply_to = {
            .client = id_of((int)(uid % 2)), .rid = {(const uint8_t *)"63", 2}, .stream = true};
        struct token_row row = {.uid = uid, .token = HALF, .is_first = true};
        detokenizer_take_row(&d, &row, &reply_to, now_ns);
    }
    ck_assert_uint_eq(d.num_open, NUM);
    detokenizer_check(&d);
    for (uint64_t uid = 1; uid <= NUM; uid++) {
        memset(got, 0, sizeof(got));
        memset(num_terminals, 0, sizeof(num_terminals));
        next(uid, OTHER_HALF, FINISH_LENGTH);
        for (struct client *client; (client = detokenizer_next_ready(&d));) {
            struct message message;
            ck_assert_int_eq(client_next_message(client, &arena, &message).code, STATUS_OK);
            receive(client->id.bytes[1], &message);
            detokenizer_message_sent(&d, client);
        }
        ck_assert_str_eq(got[uid % 2][63], "\xE4\xB8\x96[length]");
    }
    check_empty();
}
END_TEST

/* Random traffic keeps the contract: as many terminals as requests, none twice, tables empty. */
START_TEST(random_traffic_keeps_the_contract)
{
    uint32_t random = 11;
    enum { DEAD, OPEN, ENDED } state[MAX_RIDS] = {DEAD}; /* as the scheduler sees it */

    for (int round = 0; round < 200000; round++) {
        random = random * 1664525 + 1013904223;
        uint32_t pick = random >> 8;
        uint64_t uid = pick % MAX_RIDS;
        int client = (int)(uid % NUM_CLIENTS);
        enum finish_reason finish = pick / 64 % 6 == 0 ? FINISH_LENGTH : FINISH_NONE;
        int32_t token = (int32_t)(pick / 512 % 7);
        if (uid == 0)
            continue;
        if (state[uid] == DEAD) {
            got[client][uid][0] = '\0';
            num_terminals[client][uid] = 0;
            first(uid, (struct begin){.client = client, .stop = pick & 1 ? "END" : NULL}, token,
                  finish);
            state[uid] = finish ? ENDED : OPEN;
        } else if (state[uid] == OPEN) {
            next(uid, token, finish);
            state[uid] = finish ? ENDED : OPEN;
        } else if (num_terminals[client][uid] || !find(client)) {
            state[uid] = DEAD;
        }
        if (pick % 7 == 0) {
            is_stuck[pick / 7 % NUM_CLIENTS] = false;
            if (find((int)(pick / 7 % NUM_CLIENTS)))
                detokenizer_client_unblocked(&d, find((int)(pick / 7 % NUM_CLIENTS)));
        }
        if (pick % 91 == 0)
            is_stuck[pick / 91 % NUM_CLIENTS] = true;
        if (pick % 5 == 0)
            deliver();
    }
    for (uint64_t uid = 1; uid < MAX_RIDS; uid++)
        if (state[uid] == OPEN)
            next(uid, TOKEN_NONE, FINISH_ABORT);
    for (int i = 0; i < NUM_CLIENTS; i++) {
        is_stuck[i] = false;
        detokenizer_client_unblocked(&d, find(i));
    }
    check_empty();
    for (int uid = 1; uid < MAX_RIDS; uid++)
        if (state[uid] != DEAD)
            ck_assert_int_eq(num_terminals[uid % NUM_CLIENTS][uid], 1);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {deltas_then_one_terminal,
                                  one_step_is_one_message_to_each_client,
                                  first_row_can_be_the_last,
                                  whole_answer_comes_with_the_terminal,
                                  stop_string_ends_here_and_leaves_a_tombstone,
                                  stop_string_wins_over_a_terminal_in_the_same_row,
                                  stop_string_wins_over_a_terminal_in_the_same_batch,
                                  uid_again_starts_clean,
                                  unregistered_client_is_aborted,
                                  gone_client_is_aborted_and_forgotten,
                                  refusal_goes_to_its_own_client_and_touches_nothing,
                                  slow_client_coalesces,
                                  stalled_client_is_ended,
                                  slow_client_is_ended_at_a_mebibyte,
                                  rows_out_of_order_are_dropped,
                                  unreadable_reply_to_is_aborted,
                                  shutdown_ends_all,
                                  identities_that_are_no_clients_are_refused,
                                  many_open_streams,
                                  random_traffic_keeps_the_contract};
    Suite *suite = suite_create("detokenizer");
    TCase *tcase = tcase_create("detokenizer");
    SRunner *runner = srunner_create(suite);

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
