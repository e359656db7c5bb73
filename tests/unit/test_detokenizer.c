/* test_detokenizer.c - the detokenizer's decisions: each request gets one terminal, and nothing
 * after it. Clients that do not read: test_detokenizer_slow.c. */
#include "tests/unit/detokenizer_rig.h"

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

/* With all its requests: those that wait in the scheduler need not run to a first token each. */
START_TEST(unregistered_client_is_aborted)
{
    first(9, (struct begin){.client = 77}, HELLO, FINISH_NONE);
    deliver();
    ck_assert_str_eq(aborted, " 9 c77");
    next(9, WORLD, FINISH_NONE);
    ck_assert_uint_eq(d.stats.num_strangers, 0);
    next(9, TOKEN_NONE, FINISH_ABORT);
    check_empty();
    ck_assert_str_eq(aborted, " 9 c77");                               /* once */
    first(10, (struct begin){.client = 77}, TOKEN_NONE, FINISH_ABORT); /* has ended already */
    check_empty();
    ck_assert_str_eq(aborted, " 9 c77");
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
                                  rows_out_of_order_are_dropped,
                                  unreadable_reply_to_is_aborted,
                                  shutdown_ends_all,
                                  identities_that_are_no_clients_are_refused,
                                  many_open_streams,
                                  random_traffic_keeps_the_contract};

    return run_tests("detokenizer", tests, sizeof(tests) / sizeof(tests[0]));
}
