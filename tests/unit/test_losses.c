/* test_losses.c - which calls are lost, and only those. */
#include "tools/client/losses.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "tests/unit/check_main.h"

static struct call_table calls;
static struct losses losses;
static struct arena arena;

static void setup(void)
{
    call_table_init(&calls);
    losses_init(&losses, &calls, 0);
    arena_init(&arena, 0, 0);
}

static void teardown(void)
{
    call_table_deinit(&calls);
    arena_deinit(&arena);
}

static uint64_t begin(bool is_request)
{
    struct call *call = NULL;

    ck_assert_int_eq(call_table_take(&calls, NULL, &call).code, STATUS_OK);
    losses_begun(&losses, call, is_request, 0);
    return call->number;
}

static void hear(enum message_type type, uint64_t session, uint64_t num_sent)
{
    const struct message message = {.type = type,
                                    .presence = {.session = session, .num_sent = num_sent}};

    losses_heard_reply(&losses, &message, 0);
}

static void hear_deltas(void)
{
    losses_heard_reply(&losses, &(struct message){.type = MESSAGE_DELTAS}, 0);
}

/* The lost call is that one, and no other; it is ended. */
static void expect_lost(uint64_t number)
{
    struct call *call = losses_next(&losses);

    ck_assert_ptr_nonnull(call);
    ck_assert_uint_eq(call->number, number);
    losses_ended(&losses, call);
    call_table_give(&calls, call);
    ck_assert_ptr_null(losses_next(&losses));
}

START_TEST(another_session_takes_the_requests)
{
    setup();
    hear(MESSAGE_HELLO_OK, 5, 0);
    uint64_t request = begin(true);
    begin(false); /* its answer comes on the other socket */
    hear(MESSAGE_ALIVE, 5, 0);
    ck_assert_ptr_null(losses_next(&losses));
    hear(MESSAGE_HELLO_OK, 6, 0);
    expect_lost(request);
    begin(true);
    hear(MESSAGE_ALIVE, 6, 0);
    ck_assert_ptr_null(losses_next(&losses));
    teardown();
}
END_TEST

START_TEST(a_frame_that_did_not_arrive_takes_the_requests)
{
    setup();
    hear(MESSAGE_HELLO_OK, 5, 0);
    uint64_t request = begin(true);
    hear_deltas();
    losses_heard_reply(&losses, &(struct message){.type = MESSAGE_ERROR, .error = {.uid = 3}}, 0);
    losses_heard_reply(&losses, &(struct message){.type = MESSAGE_ERROR}, 0); /* of no request */
    hear(MESSAGE_ALIVE, 5, 2);
    ck_assert_ptr_null(losses_next(&losses));
    hear_deltas();
    hear(MESSAGE_ALIVE, 5, 4);
    expect_lost(request);
    begin(true); /* and it counts on from there */
    hear_deltas();
    hear(MESSAGE_ALIVE, 5, 5);
    ck_assert_ptr_null(losses_next(&losses));
    teardown();
}
END_TEST

START_TEST(a_server_that_tells_no_session_is_believed)
{
    setup();
    hear(MESSAGE_HELLO_OK, 0, 0);
    begin(true);
    hear_deltas();
    hear(MESSAGE_ALIVE, 0, 0);
    ck_assert_ptr_null(losses_next(&losses));
    teardown();
}
END_TEST

static void answer_info(struct bytes rid, const char *info)
{
    losses_heard_front(&losses, 0);
    losses_take_info(
        &losses, &(struct result_msg){.rid = rid, .info = {(const uint8_t *)info, strlen(info)}},
        &arena);
}

START_TEST(nothing_at_work_takes_what_was_sent_before)
{
    setup();
    char text[LOSSES_RID_BYTES];
    uint64_t before = begin(true), answered = begin(false);
    struct bytes rid = losses_info_rid(&losses, text);

    losses_answered(&losses, call_table_find(&calls, answered));
    begin(false); /* behind the question */
    answer_info(rid, "{\"pending\": 1}");
    answer_info(rid, "{}");
    answer_info((struct bytes){(const uint8_t *)"x", 1}, "{\"pending\": 0}");
    ck_assert_ptr_null(losses_next(&losses));
    answer_info(rid, "{\"pending\": 0}");
    expect_lost(before);
    teardown();
}
END_TEST

START_TEST(silence_takes_what_waits_for_the_silent_one)
{
    setup();
    hear(MESSAGE_HELLO_OK, 5, 0);
    uint64_t request = begin(true), question = begin(false);

    losses_answered(&losses, call_table_find(&calls, request));
    int64_t now_ns = 1000 * ns_per_ms;
    struct losses_due due = losses_look_out(&losses, now_ns);
    ck_assert(due.hello && due.info);
    losses_said_hello(&losses, now_ns);
    losses_said_info(&losses, now_ns);
    losses_look_out(&losses, 2999 * ns_per_ms);
    ck_assert_ptr_null(losses_next(&losses));
    losses_look_out(&losses, 3000 * ns_per_ms);
    expect_lost(request);
    losses_look_out(&losses, 4000 * ns_per_ms);
    expect_lost(question);
    ck_assert(!losses_look_out(&losses, 9000 * ns_per_ms).info); /* nothing to ask for */
    teardown();
}
END_TEST

START_TEST(a_busy_line_is_asked_too)
{
    setup();
    begin(true);
    for (int64_t ms = 100; ms < 1000; ms += 100) {
        losses_heard_front(&losses, ms * ns_per_ms);
        ck_assert(!losses_look_out(&losses, ms * ns_per_ms).info);
    }
    losses_heard_front(&losses, 1000 * ns_per_ms);
    ck_assert(losses_look_out(&losses, 1000 * ns_per_ms).info);
    teardown();
}
END_TEST

CHECK_MAIN("losses", another_session_takes_the_requests,
           a_frame_that_did_not_arrive_takes_the_requests,
           a_server_that_tells_no_session_is_believed, nothing_at_work_takes_what_was_sent_before,
           silence_takes_what_waits_for_the_silent_one, a_busy_line_is_asked_too)
