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

int main(void)
{
    const TTest *const tests[] = {slow_client_coalesces, stalled_client_is_ended,
                                  slow_client_is_ended_at_a_mebibyte};

    return run_tests("detokenizer_slow", tests, sizeof(tests) / sizeof(tests[0]));
}
