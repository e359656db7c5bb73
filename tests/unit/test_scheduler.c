/* test_scheduler.c - which requests are taken, and how they end; one test per behaviour. */
#include "scheduler_proc/scheduler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/check_main.h"
#include "tests/unit/rig.h"

static struct rig rig;

/* ---- what is refused ---- */

START_TEST(options_out_of_range_are_named)
{
    static const struct {
        size_t offset;
        int32_t value;
        const char *name;
    } cases[] = {
        {offsetof(struct scheduler_config, page_size), 0, "page-size"},
        {offsetof(struct scheduler_config, num_pages), 0, "num-pages"},
        {offsetof(struct scheduler_config, num_pages), INT32_MAX, "num-pages"},
        {offsetof(struct scheduler_config, max_running_reqs), 0, "max-running-requests"},
        {offsetof(struct scheduler_config, max_running_reqs), 4097, "max-running-requests"},
        {offsetof(struct scheduler_config, max_seq_len), 257, "max-seq-len"},
        {offsetof(struct scheduler_config, max_seq_len), 1, "max-seq-len"},
        {offsetof(struct scheduler_config, max_prefill_tokens), 0, "max-prefill-length"},
        {offsetof(struct scheduler_config, max_queued), 0, "max-queued"},
        {offsetof(struct scheduler_config, vocab_size), 0, "vocab-size"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct scheduler_config config = rig_config();
        struct scheduler *scheduler = NULL;
        memcpy((char *)&config + cases[i].offset, &cases[i].value, sizeof(cases[i].value));
        struct status status = scheduler_create(&config, &scheduler);
        ck_assert_int_eq(status.code, STATUS_INVALID);
        ck_assert_ptr_nonnull(strstr(status.msg, cases[i].name));
        ck_assert_ptr_null(scheduler);
    }
}
END_TEST

/* Each refused request is answered by name and disturbs nothing. */
START_TEST(bad_requests_are_refused_by_name)
{
    const int32_t ids[] = {1, 2, 3}, high[] = {1, RIG_VOCAB_SIZE}, low[] = {-1};
    struct request_msg bad[14];
    static const char *const names[] = {
        "uid",        "input_ids",      "input_ids[1]",   "input_ids[0]", "max_tokens",
        "max_tokens", "temperature",    "temperature",    "top_p",        "min_p",
        "top_k",      "stop_token_ids", "stop_token_ids", "reply_to"};
    struct scheduler_config config = rig_config();

    for (size_t i = 0; i < 14; i++)
        bad[i] = rig_request(i + 1, ids, 3);
    bad[0].uid = 0;
    bad[1].num_input_ids = 0;
    bad[2] = rig_request(3, high, 2);
    bad[3] = rig_request(4, low, 1);
    bad[4].sampling.max_tokens = 0;
    bad[5].sampling.max_tokens = -5;
    bad[6].sampling.temperature = NAN;
    bad[7].sampling.temperature = -1.0F;
    bad[8].sampling.top_p = 1.5F;
    bad[9].sampling.min_p = -0.5F;
    bad[10].sampling.top_k = -1;
    bad[11].sampling.num_stop_token_ids = 1;
    bad[11].sampling.stop_token_ids = high + 1;
    bad[12].sampling.num_stop_token_ids = MAX_STOP_TOKEN_IDS + 1;
    static const uint8_t reply_to[MAX_REPLY_TO_BYTES + 1];
    bad[13].reply_to = (struct bytes){.data = reply_to, .size = sizeof(reply_to)};
    rig_init(&rig, &config);
    rig_submit(&rig, 100, 20, 5, 6);
    for (size_t i = 0; i < 14; i++) {
        rig_submit_request(&rig, &bad[i]);
        ck_assert_int_eq(rig.last_rejection, ERROR_INVALID_REQUEST);
        ck_assert_msg(strstr(rig.rejection_text, names[i]) == rig.rejection_text, "%s",
                      rig.rejection_text);
    }
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 100, 20, 5, 6);
    ck_assert_int_eq(rig_stats(&rig).num_rejected, 14);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

/* A rejection is answered through its own reply_to. */
START_TEST(a_rejection_carries_its_reply_to)
{
    struct scheduler_config config = rig_config();
    uint8_t reply_to[] = "to whom";
    struct request_msg request = rig_request(1, NULL, 0);
    int32_t num = 0;

    rig_init(&rig, &config);
    request.reply_to = (struct bytes){.data = reply_to, .size = sizeof(reply_to)};
    scheduler_submit(rig.scheduler, &request);
    memset(reply_to, 'x', sizeof(reply_to)); /* the message may be gone */
    const struct rejected_msg *rejections = scheduler_rejections(rig.scheduler, &num);
    ck_assert_int_eq(num, 1);
    ck_assert_uint_eq(rejections[0].uid, 1);
    ck_assert_mem_eq(rejections[0].reply_to.data, "to whom", 8);
    scheduler_clear_outputs(rig.scheduler);
    scheduler_rejections(rig.scheduler, &num);
    ck_assert_int_eq(num, 0);
    for (int i = 0; i < 100; i++)
        scheduler_submit(rig.scheduler, &request);
    rejections = scheduler_rejections(rig.scheduler, &num);
    ck_assert_int_eq(num, 100);
    ck_assert_mem_eq(rejections[99].reply_to.data, reply_to, 8);
    rig_deinit(&rig);
}
END_TEST

START_TEST(too_long_names_both_numbers)
{
    struct scheduler_config config = rig_config();

    config.max_seq_len = 100;
    rig_init(&rig, &config);
    for (int32_t len = 100; len <= 101; len++) {
        rig_submit(&rig, (uint64_t)len, 20, len, 5);
        ck_assert_int_eq(rig.last_rejection, ERROR_TOO_LONG);
        char number[16];
        snprintf(number, sizeof(number), "%d", len);
        ck_assert_ptr_nonnull(strstr(rig.rejection_text, number));
        ck_assert_ptr_nonnull(strstr(rig.rejection_text, "max_seq_len 100"));
    }
    rig_submit(&rig, 1, 20, 99, 5);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 1, 20, 99, 1);
    ck_assert_int_eq(rig_finish(&rig, 1), FINISH_LENGTH);
    rig_deinit(&rig);
}
END_TEST

START_TEST(max_tokens_is_clamped_to_what_fits)
{
    struct scheduler_config config = rig_config();

    config.num_pages = 5;
    config.max_seq_len = 19;
    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 10, INT32_MAX);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 1, 20, 10, 9);
    ck_assert_int_eq(rig_finish(&rig, 1), FINISH_LENGTH);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

START_TEST(a_uid_that_is_there_is_refused)
{
    struct scheduler_config config = rig_config();

    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 10, 8);
    rig_turn(&rig);
    rig_submit(&rig, 1, 60, 10, 8);
    ck_assert_int_eq(rig.last_rejection, ERROR_INVALID_REQUEST);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 1, 20, 10, 8);
    rig_deinit(&rig);
}
END_TEST

START_TEST(a_full_queue_and_a_drain_refuse)
{
    struct scheduler_config config = rig_config();

    config.max_queued = 3;
    rig_init(&rig, &config);
    for (uint64_t uid = 1; uid <= 3; uid++)
        rig_submit(&rig, uid, 20, 5, 4);
    rig_submit(&rig, 4, 20, 5, 4);
    ck_assert_int_eq(rig.last_rejection, ERROR_OVERLOADED);
    scheduler_drain(rig.scheduler);
    rig_submit(&rig, 5, 20, 5, 4);
    ck_assert_int_eq(rig.last_rejection, ERROR_SHUTTING_DOWN);
    rig_run_until_idle(&rig);
    for (uint64_t uid = 1; uid <= 3; uid++)
        rig_expect_text(&rig, uid, 20, 5, 4);
    rig_deinit(&rig);
}
END_TEST

/* ---- how a request ends ---- */

START_TEST(each_end_id_ends)
{
    static const int32_t eos_ids[] = {RIG_EOS, 106};
    struct scheduler_config config = rig_config();
    const int32_t ids[] = {1, 2, 3}, stop_id = 102;

    config.eos_ids = eos_ids;
    config.num_eos_ids = 2;
    for (int overlap = 0; overlap < 2; overlap++) {
        rig_init(&rig, &config);
        rig.is_overlapped = overlap;
        rig.eos_at = 9; /* tokens are 100, 101, ... 108, EOS */
        rig_submit(&rig, 1, 20, 5, 20);
        struct request_msg request = rig_request(2, ids, 3);
        request.sampling.max_tokens = 20;
        request.sampling.num_stop_token_ids = 1;
        request.sampling.stop_token_ids = &stop_id;
        request.sampling.ignore_eos = true;
        rig_submit_request(&rig, &request);
        request.uid = 3;
        request.sampling.num_stop_token_ids = 0;
        rig_submit_request(&rig, &request);
        rig_run_until_idle(&rig);
        ck_assert_int_eq(rig_tokens(&rig, 1, NULL, NULL, NULL), 7);
        ck_assert_int_eq(rig_tokens(&rig, 2, NULL, NULL, NULL), 3);
        ck_assert_int_eq(rig_tokens(&rig, 3, NULL, NULL, NULL), 20);
        ck_assert_int_eq(rig_finish(&rig, 1), FINISH_STOP);
        ck_assert_int_eq(rig_finish(&rig, 2), FINISH_STOP);
        ck_assert_int_eq(rig_finish(&rig, 3), FINISH_LENGTH);
        rig_expect_idle(&rig);
        rig_deinit(&rig);
    }
}
END_TEST

START_TEST(eos_wins_over_length)
{
    struct scheduler_config config = rig_config();

    for (int32_t max_tokens = 1; max_tokens <= 4; max_tokens++) {
        rig_init(&rig, &config);
        rig.eos_at = max_tokens - 1;
        rig_submit(&rig, 1, 20, 5, max_tokens);
        rig_run_until_idle(&rig);
        ck_assert_int_eq(rig_tokens(&rig, 1, NULL, NULL, NULL), max_tokens);
        ck_assert_int_eq(rig_finish(&rig, 1), FINISH_STOP);
        rig_deinit(&rig);
    }
}
END_TEST

START_TEST(the_first_row_brings_reply_to_and_counts)
{
    struct scheduler_config config = rig_config();
    int32_t num_rows = 0;
    int32_t ids[40];

    for (int32_t i = 0; i < 40; i++)
        ids[i] = 20 + i;
    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 40, 1);
    rig_run_until_idle(&rig);
    struct request_msg request = rig_request(2, ids, 40);
    request.sampling.max_tokens = 1;
    request.reply_to = (struct bytes){.data = (const uint8_t *)"there", .size = 5};
    scheduler_submit(rig.scheduler, &request);
    rig_launch(&rig);
    scheduler_finish_step(rig.scheduler, rig.launched[0], rig.results[rig.launched[0]->step % 2]);
    /* It has ended, and is still told of until the outputs are cleared. */
    const struct token_row *row = scheduler_outputs(rig.scheduler, &num_rows);
    ck_assert_int_eq(num_rows, 1);
    ck_assert(row->is_first);
    ck_assert_int_eq(row->finish, FINISH_LENGTH);
    ck_assert_int_eq((int)row->reply_to.size, 5);
    ck_assert_mem_eq(row->reply_to.data, "there", 5);
    ck_assert_int_eq(row->num_prompt_tokens, 40);
    ck_assert_int_eq(row->num_cached_tokens, 36); /* whole pages, and one token is computed */
    ck_assert(!scheduler_has_work(rig.scheduler));
    rig_deinit(&rig);
}
END_TEST

START_TEST(nan_ends_its_request_alone)
{
    struct scheduler_config config = rig_config();

    rig_init(&rig, &config);
    rig.nan_end = 12;
    rig_submit(&rig, 1, 20, 10, 8);
    rig_submit(&rig, 2, 60, 30, 8);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 1, 20, 10, 2);
    ck_assert_int_eq(rig_finish(&rig, 1), FINISH_ERROR);
    ck_assert_int_eq(rig.outputs[rig.num_outputs - 1].error, ERROR_NONE);
    rig_expect_text(&rig, 2, 60, 30, 8);
    ck_assert_int_eq(rig_stats(&rig).num_errors, 1);
    ck_assert_int_eq(rig_stats(&rig).num_nan, 1);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

/* In a middle chunk it changes no answer; but nobody else gets those pages. */
START_TEST(nan_in_a_middle_chunk_stops_only_insertion)
{
    struct scheduler_config config = rig_config();

    config.max_prefill_tokens = 8;
    rig_init(&rig, &config);
    rig.nan_end = 16;
    rig_submit(&rig, 1, 20, 30, 4);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 1, 20, 30, 4);
    ck_assert_int_eq(rig_stats(&rig).cached_pages, 2);
    rig.nan_end = 0;
    rig_submit(&rig, 2, 20, 30, 4);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 2, 20, 30, 4);
    ck_assert_int_eq(rig_first(&rig, 2)->num_cached_tokens, 8);
    rig_deinit(&rig);
}
END_TEST

/* ---- abort ---- */

START_TEST(abort_wherever_the_request_is)
{
    struct scheduler_config config = rig_config();

    config.max_running_reqs = 2;
    for (int overlap = 0; overlap < 2; overlap++)
        for (int32_t turn = 0; turn < 12; turn++) {
            rig_init(&rig, &config);
            rig.is_overlapped = overlap;
            rig_submit(&rig, 1, 20, 70, 4);
            rig_submit(&rig, 2, 400, 30, 5);
            for (int32_t i = 0; i < turn; i++)
                rig_turn(&rig);
            enum finish_reason before = rig_finish(&rig, 1);
            int32_t num_tokens = rig_tokens(&rig, 1, NULL, NULL, NULL);
            rig_abort(&rig, 1);
            rig_abort(&rig, 1);
            rig_abort(&rig, 77);
            int32_t num_after = 0;
            rig_run_until_idle(&rig);
            ck_assert_int_eq(rig_tokens(&rig, 1, NULL, NULL, &num_after), num_tokens);
            ck_assert_int_eq(num_after, 0);
            ck_assert_int_eq(rig_finish(&rig, 1), before == FINISH_NONE ? FINISH_ABORT : before);
            rig_expect_text(&rig, 2, 400, 30, 5);
            rig_expect_idle(&rig);
            rig_deinit(&rig);
        }
}
END_TEST

START_TEST(abort_of_queued_ones_never_runs_them)
{
    struct scheduler_config config = rig_config();

    config.max_running_reqs = 1;
    rig_init(&rig, &config);
    for (uint64_t uid = 1; uid <= 4; uid++)
        rig_submit(&rig, uid, 20 * (int32_t)uid, 10, 8);
    rig_turn(&rig);
    rig_abort(&rig, 2);
    rig_abort(&rig, 3);
    ck_assert_int_eq(rig_finish(&rig, 2), FINISH_ABORT);
    ck_assert(rig_first(&rig, 3)->is_first);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 1, 20, 10, 8);
    rig_expect_text(&rig, 2, 40, 10, 0);
    rig_expect_text(&rig, 3, 60, 10, 0);
    rig_expect_text(&rig, 4, 80, 10, 8);
    ck_assert_int_eq(rig_stats(&rig).num_prompt_tokens, 20);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

START_TEST(abort_of_a_client_takes_all_of_its_requests)
{
    struct scheduler_config config = rig_config();
    struct abort_msg abort = {.by_client = true, .client = {.bytes = {2}}};

    config.max_running_reqs = 3;
    rig_init(&rig, &config);
    for (uint64_t uid = 1; uid <= 12; uid++) /* clients 1 + uid % 4 */
        rig_submit(&rig, uid, 20 * (int32_t)uid, 10, 8);
    for (int i = 0; i < 3; i++)
        rig_turn(&rig);
    scheduler_abort(rig.scheduler, &abort);
    rig_run_until_idle(&rig);
    for (uint64_t uid = 1; uid <= 12; uid++)
        if (uid % 4 == 1)
            ck_assert_int_eq(rig_finish(&rig, uid), FINISH_ABORT);
        else
            rig_expect_text(&rig, uid, 20 * (int32_t)uid, 10, 8);
    rig_expect_idle(&rig);
    scheduler_abort(rig.scheduler, &abort);
    rig_deinit(&rig);
}
END_TEST

/* At the end of a shutdown's grace, or after a fault of the device, which is no NaN. */
START_TEST(end_all_ends_all)
{
    static const enum error_code codes[] = {ERROR_SHUTTING_DOWN, ERROR_INTERNAL};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct scheduler_config config = rig_config();
        config.max_running_reqs = 3;
        rig_init(&rig, &config);
        for (uint64_t uid = 1; uid <= 8; uid++)
            rig_submit(&rig, uid, 20 * (int32_t)uid, 10, 8);
        for (int j = 0; j < 3; j++)
            rig_turn(&rig);
        scheduler_end_all(rig.scheduler, codes[i]);
        rig_run_until_idle(&rig);
        for (uint64_t uid = 1; uid <= 8; uid++)
            ck_assert_int_eq(rig_finish(&rig, uid), FINISH_ERROR);
        ck_assert_int_eq(rig_stats(&rig).num_errors, 8);
        ck_assert_int_eq(rig_stats(&rig).num_nan, 0);
        rig_expect_idle(&rig);
        rig_deinit(&rig);
    }
}
END_TEST

/* 200 requests aborted at once, then one: it starts in the next step. */
START_TEST(after_many_aborts_the_next_starts_at_once)
{
    struct scheduler_config config = rig_config();

    config.max_queued = 300;
    rig_init(&rig, &config);
    for (uint64_t uid = 1; uid <= 200; uid++)
        rig_submit(&rig, uid, (int32_t)uid, 60, 200);
    for (int i = 0; i < 5; i++)
        rig_turn(&rig);
    for (uint64_t uid = 1; uid <= 200; uid++)
        rig_abort(&rig, uid);
    while (rig_process(&rig))
        ;
    rig_expect_idle(&rig);
    rig_submit(&rig, 201, 500, 5, 3);
    ck_assert(rig_launch(&rig));
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 201, 500, 5, 3);
    rig_deinit(&rig);
}
END_TEST

CHECK_MAIN("scheduler", options_out_of_range_are_named, bad_requests_are_refused_by_name,
           a_rejection_carries_its_reply_to, too_long_names_both_numbers,
           max_tokens_is_clamped_to_what_fits, a_uid_that_is_there_is_refused,
           a_full_queue_and_a_drain_refuse, each_end_id_ends, eos_wins_over_length,
           the_first_row_brings_reply_to_and_counts, nan_ends_its_request_alone,
           nan_in_a_middle_chunk_stops_only_insertion, abort_wherever_the_request_is,
           abort_of_queued_ones_never_runs_them, abort_of_a_client_takes_all_of_its_requests,
           end_all_ends_all, after_many_aborts_the_next_starts_at_once)
