/* test_detokenizer_slow.c - the detokenizer's decisions about clients that do not read. */
#include "tests/unit/detokenizer_rig.h"

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

static void grow(uint64_t uid, size_t num_kib)
{
    for (size_t n = 0; n < num_kib << 10; n += strlen(tokens[WORLD]))
        next(uid, WORLD, FINISH_NONE);
}

/* Its socket takes something small, then nothing again. */
static void take_a_little(void)
{
    detokenizer_client_unblocked(&d, find(0));
    deliver();
}

START_TEST(what_waited_before_the_stall_does_not_count)
{
    is_stuck[0] = true;
    first(1, (struct begin){0}, HELLO, FINISH_NONE);
    grow(1, 1200); /* before it is first seen to take nothing */
    deliver();
    ck_assert_str_eq(aborted, "");
    grow(1, 900);
    stall(0);
    ck_assert_str_eq(aborted, "");
    take_a_little();
    grow(1, 900);
    stall(0);
    ck_assert_str_eq(aborted, "");
    grow(1, 200); /* now a mebibyte, and it took nothing */
    stall(0);
    ck_assert_str_eq(aborted, " 1");
    next(1, TOKEN_NONE, FINISH_ABORT);
    is_stuck[0] = false;
    take_a_little();
    check_empty();
    ck_assert_str_eq(got[0][1], "[slow]");
}
END_TEST

START_TEST(client_that_reads_too_little_is_ended_at_four_mebibytes)
{
    int num_kib = 0;

    is_stuck[0] = true;
    first(1, (struct begin){0}, HELLO, FINISH_NONE);
    for (; !*aborted && num_kib < 10000; num_kib += 100) {
        grow(1, 100);
        take_a_little();
    }
    ck_assert_int_eq(num_kib, 4100);
    ck_assert_str_eq(aborted, " 1");
    ck_assert_ptr_nonnull(find(0));
    ck_assert_uint_eq(find(0)->unsent_bytes, 0);
    next(1, TOKEN_NONE, FINISH_ABORT);
    is_stuck[0] = false;
    take_a_little();
    check_empty();
    ck_assert_str_eq(got[0][1], "[slow]");
}
END_TEST

/* Requests of client 0, until so much of refusals waits for it. */
static void refuse(size_t num_kib)
{
    const uint8_t message[1000] = {0};
    struct rejected_msg rejected = {
        .uid = 5, .code = ERROR_OVERLOADED, .message = {message, sizeof(message)}};
    struct reply_to reply_to = {.client = id_of(0), .rid = {(const uint8_t *)"5", 1}};

    while (find(0)->refusal_bytes < num_kib << 10)
        detokenizer_take_rejected(&d, &rejected, &reply_to);
}

/* Client 0 reads a frame, which is more than the rig looks at; false: there is none. */
static bool read_frame(enum message_type *out_type)
{
    struct client *client = find(0);
    struct message message;

    detokenizer_client_unblocked(&d, client);
    if (!client_has_unsent(client))
        return false;
    ck_assert_int_eq(client_next_message(client, &arena, &message).code, STATUS_OK);
    detokenizer_message_sent(&d, client);
    arena_reset(&arena);
    *out_type = message.type;
    return true;
}

START_TEST(text_does_not_wait_for_refusals)
{
    enum message_type type;

    is_stuck[0] = true;
    refuse(2);
    first(1, (struct begin){0}, HELLO, FINISH_NONE);
    deliver();
    ck_assert(read_frame(&type));
    ck_assert_int_eq(type, MESSAGE_DELTAS);
    ck_assert(read_frame(&type));
    ck_assert_int_eq(type, MESSAGE_ERROR);
    next(1, WORLD, FINISH_LENGTH);
    ck_assert(read_frame(&type));
    ck_assert_int_eq(type, MESSAGE_DELTAS);
    ck_assert(read_frame(&type));
    ck_assert_int_eq(type, MESSAGE_ERROR);
    ck_assert(!read_frame(&type));
    check_empty();
}
END_TEST

/* Refusals cannot be let go as text can, but whoever reads them keeps its requests. */
START_TEST(client_that_reads_its_refusals_keeps_its_requests)
{
    enum message_type type;

    is_stuck[0] = true;
    first(1, (struct begin){0}, HELLO, FINISH_NONE);
    for (size_t num_mib = 10; num_mib <= 60; num_mib += 10) {
        refuse(num_mib << 10);
        stall(0);
        stall(1);
        ck_assert(read_frame(&type));
    }
    ck_assert_str_eq(aborted, "");
    while (read_frame(&type))
        ;
    ck_assert_uint_eq(find(0)->refusal_bytes, 0);
    is_stuck[0] = false;
    next(1, WORLD, FINISH_LENGTH);
    check_empty();
    ck_assert_str_eq(got[0][1], " world[length]");
}
END_TEST

START_TEST(client_that_stalls_before_four_mebibytes_of_refusals_is_gone)
{
    is_stuck[0] = true;
    deliver();
    refuse(5 << 10);
    stall(0);
    stall(1);
    ck_assert_ptr_nonnull(find(0));
    stall(1);
    ck_assert_ptr_null(find(0));
    ck_assert_str_eq(aborted, " c0");
    check_empty();
}
END_TEST

START_TEST(client_with_64_mebibytes_of_refusals_is_gone)
{
    is_stuck[0] = true;
    deliver();
    refuse(63 << 10);
    stall(0);
    ck_assert_ptr_nonnull(find(0));
    refuse(65 << 10);
    stall(0);
    ck_assert_ptr_null(find(0));
    ck_assert_str_eq(aborted, " c0");
    check_empty();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {slow_client_coalesces,
                                  stalled_client_is_ended,
                                  slow_client_is_ended_at_a_mebibyte,
                                  what_waited_before_the_stall_does_not_count,
                                  client_that_reads_too_little_is_ended_at_four_mebibytes,
                                  text_does_not_wait_for_refusals,
                                  client_that_reads_its_refusals_keeps_its_requests,
                                  client_that_stalls_before_four_mebibytes_of_refusals_is_gone,
                                  client_with_64_mebibytes_of_refusals_is_gone};

    return run_tests("detokenizer_slow", tests, sizeof(tests) / sizeof(tests[0]));
}
