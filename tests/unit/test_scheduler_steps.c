/* test_scheduler_steps.c - what steps hold and cost: chunks, policies, order. */
#include "scheduler_proc/scheduler.h"

#include "tests/unit/check_main.h"
#include "tests/unit/rig.h"

static struct rig rig;

/* ---- chunks ---- */

START_TEST(a_lone_prompt_has_the_chunks_that_the_budget_implies)
{
    static const struct {
        int32_t page_size, budget, prompt_len, num_chunks;
    } cases[] = {
        {1, 5, 23, 5},  {4, 7, 23, 6},   {4, 7, 24, 6},   {4, 64, 63, 1},    {4, 64, 64, 1},
        {4, 64, 65, 2}, {4, 64, 70, 2},  {4, 64, 127, 2}, {4, 64, 128, 2},   {4, 64, 129, 3},
        {16, 5, 33, 3}, {16, 64, 64, 1}, {4, 3, 4, 1},    {4, 8192, 200, 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct scheduler_config config = rig_config();
        config.page_size = cases[i].page_size;
        config.num_pages = 256;
        config.max_prefill_tokens = cases[i].budget;
        config.cache_type = i % 2 ? CACHE_NAIVE : CACHE_RADIX;
        rig_init(&rig, &config);
        rig_submit(&rig, 1, 20, cases[i].prompt_len, 1);
        rig_run_until_idle(&rig);
        rig_expect_text(&rig, 1, 20, cases[i].prompt_len, 1);
        ck_assert_int_eq(rig_stats(&rig).num_steps, cases[i].num_chunks);
        rig_expect_idle(&rig);
        rig_deinit(&rig);
    }
}
END_TEST

/* With nobody to wait for, prompts are not held up. */
START_TEST(each_turn_of_a_lone_prompt_has_a_chunk)
{
    struct scheduler_config config = rig_config();

    config.max_prefill_tokens = 4;
    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 100, 1);
    for (int i = 0; i < 25; i++) {
        ck_assert(rig_launch(&rig));
        rig_process(&rig);
    }
    ck_assert(!scheduler_has_work(rig.scheduler));
    rig_deinit(&rig);
}
END_TEST

/* A prompt of several chunks beside a stream: neither sees the other. */
START_TEST(middle_chunks_are_silent)
{
    for (int policy = 0; policy < 2; policy++) {
        struct scheduler_config config = rig_config();
        config.policy = policy ? POLICY_MIXED : POLICY_PREFILL_FIRST;
        config.max_prefill_tokens = 16;
        rig_init(&rig, &config);
        rig_submit(&rig, 1, 20, 10, 12);
        rig_turn(&rig);
        rig_submit(&rig, 2, 300, 50, 6);
        rig_run_until_idle(&rig);
        rig_expect_text(&rig, 1, 20, 10, 12);
        rig_expect_text(&rig, 2, 300, 50, 6);
        rig_deinit(&rig);
    }
}
END_TEST

/* ---- policies ---- */

static int32_t longest_gap; /* steps without a row of the first stream, whose row is 0 */
static int32_t gap, num_longest_gaps;

static void watch_stream(struct rig *self, const struct batch *batch)
{
    bool is_there = false;

    (void)self;
    for (int32_t i = 0; i < batch->num_rows; i++)
        is_there |= batch->rows[i].table_idx == 0;
    gap = is_there ? 0 : gap + 1;
    longest_gap = gap > longest_gap ? gap : longest_gap;
    num_longest_gaps += gap == 8;
}

/* A stream decodes while 20 prompts of four steps each arrive. */
static void run_stream_beside_prompts(enum policy policy)
{
    struct scheduler_config config = rig_config();

    config.policy = policy;
    config.num_pages = 256;
    config.max_prefill_tokens = 16;
    rig_init(&rig, &config);
    longest_gap = gap = num_longest_gaps = 0;
    rig_submit(&rig, 1, 20, 10, 100);
    rig_turn(&rig);
    rig.on_launch = watch_stream;
    for (uint64_t uid = 2; uid < 22; uid++)
        rig_submit(&rig, uid, 40 * (int32_t)uid, 64, 2);
    for (int i = 0; i < 100; i++)
        rig_turn(&rig);
    ck_assert_int_gt(rig_tokens(&rig, 1, NULL, NULL, NULL), 0);
    rig.on_launch = NULL;
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 1, 20, 10, 100);
    rig_deinit(&rig);
}

START_TEST(prefill_first_passes_a_stream_over_eight_times)
{
    run_stream_beside_prompts(POLICY_PREFILL_FIRST);
    ck_assert_int_eq(longest_gap, 8);
    ck_assert_int_eq(num_longest_gaps, 10); /* 80 chunks: prompts are not starved either */
}
END_TEST

START_TEST(mixed_carries_every_stream_in_every_step)
{
    run_stream_beside_prompts(POLICY_MIXED);
    ck_assert_int_eq(longest_gap, 0);
}
END_TEST

/* The order in which requests began. */
static int32_t order_of_starts(int32_t *out_uids)
{
    int32_t num = 0;

    for (int32_t i = 0; i < rig.num_outputs; i++)
        if (rig.outputs[i].is_first)
            out_uids[num++] = (int32_t)rig.outputs[i].uid;
    return num;
}

/* The head that does not fit is not passed by those behind it, and is served when it fits. */
START_TEST(the_head_of_the_queue_is_not_passed)
{
    struct scheduler_config config = rig_config();
    int32_t order[8];

    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 100, 100);  /* 50 of 64 pages */
    rig_submit(&rig, 2, 300, 100, 100); /* does not fit beside it */
    for (uint64_t uid = 3; uid < 8; uid++)
        rig_submit(&rig, uid, 40 * (int32_t)uid, 5, 4);
    rig_run_until_idle(&rig);
    ck_assert_int_eq(order_of_starts(order), 7);
    for (int32_t i = 0; i < 7; i++)
        ck_assert_int_eq(order[i], i + 1);
    rig_deinit(&rig);
}
END_TEST

/* With the cached order a cached prompt goes before others, but the first is passed 8 times at
 * most. */
START_TEST(cached_order_passes_the_first_eight_times)
{
    struct scheduler_config config = rig_config();
    int32_t uids[32];

    config.queue_order = ORDER_CACHED;
    config.max_running_reqs = 1;
    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 40, 2);
    rig_run_until_idle(&rig);
    rig_submit(&rig, 2, 500, 40, 2); /* nothing of it is cached */
    rig_submit(&rig, 3, 600, 40, 2);
    for (uint64_t uid = 4; uid < 16; uid++)
        rig_submit(&rig, uid, 20, 40, 2);
    rig_run_until_idle(&rig);
    ck_assert_int_eq(order_of_starts(uids), 15);
    for (int32_t i = 1; i <= 8; i++)
        ck_assert_int_eq(uids[i], i + 3);
    ck_assert_int_eq(uids[9], 2);
    ck_assert_int_eq(uids[10], 12); /* 3 is the first now, and may be passed in its turn */
    ck_assert_int_eq(uids[14], 3);
    for (uint64_t uid = 4; uid < 16; uid++)
        rig_expect_text(&rig, uid, 20, 40, 2);
    rig_expect_text(&rig, 2, 500, 40, 2);
    rig_deinit(&rig);
}
END_TEST

START_TEST(cached_order_without_a_cache_is_arrival)
{
    struct scheduler_config config = rig_config();
    int32_t uids[32];

    config.queue_order = ORDER_CACHED;
    config.max_running_reqs = 1;
    rig_init(&rig, &config);
    for (uint64_t uid = 1; uid <= 10; uid++)
        rig_submit(&rig, uid, 40 * (int32_t)uid, 20, 2);
    rig_run_until_idle(&rig);
    ck_assert_int_eq(order_of_starts(uids), 10);
    for (int32_t i = 0; i < 10; i++)
        ck_assert_int_eq(uids[i], i + 1);
    rig_deinit(&rig);
}
END_TEST

/* Only the first 16 are looked at. */
START_TEST(cached_order_looks_at_sixteen)
{
    for (int32_t place = 16; place <= 17; place++) {
        struct scheduler_config config = rig_config();
        int32_t uids[32];
        config.queue_order = ORDER_CACHED;
        config.max_running_reqs = 1;
        rig_init(&rig, &config);
        rig_submit(&rig, 100, 900, 40, 2);
        rig_run_until_idle(&rig);
        for (int32_t i = 1; i <= 17; i++)
            rig_submit(&rig, (uint64_t)i, i == place ? 900 : 45 * i, 40, 2);
        rig_run_until_idle(&rig);
        order_of_starts(uids);
        ck_assert_int_eq(uids[1], place == 16 ? 16 : 1);
        rig_deinit(&rig);
    }
}
END_TEST

/* ---- what a step costs ---- */

/* The head is looked at when something has changed for it, not in each step. */
START_TEST(who_waits_is_not_tried_in_each_step)
{
    for (int32_t num_rows = 1; num_rows <= 2; num_rows++) { /* waits for the row, for pages */
        struct scheduler_config config = rig_config();
        config.max_running_reqs = num_rows;
        rig_init(&rig, &config);
        rig_submit(&rig, 1, 20, 10, 200);
        rig_submit(&rig, 2, 300, 10, 200);
        for (int i = 0; i < 150; i++)
            rig_turn(&rig);
        ck_assert_int_eq(rig_stats(&rig).num_queued, 1);
        ck_assert_int_ge(rig_stats(&rig).num_admission_tries, 2);
        ck_assert_int_le(rig_stats(&rig).num_admission_tries, 5);
        rig_run_until_idle(&rig);
        rig_expect_text(&rig, 2, 300, 10, 200);
        rig_deinit(&rig);
    }
}
END_TEST

/* A twin that does not fit beside the first fits when the first's prompt is in the cache. */
START_TEST(a_twin_fits_when_its_prompt_is_cached)
{
    struct scheduler_config config = rig_config();

    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 150, 20); /* 43 of 64 pages, 37 of them shared later */
    rig_submit(&rig, 2, 20, 150, 20);
    for (int i = 0; i < 6; i++)
        rig_turn(&rig);
    ck_assert_int_eq(rig_finish(&rig, 1), FINISH_NONE);
    ck_assert_int_eq(rig_stats(&rig).num_running, 2);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 2, 20, 150, 20);
    rig_deinit(&rig);
}
END_TEST

static int32_t num_page_values, num_token_values;

static void count_values(struct rig *self, const struct batch *batch)
{
    (void)self;
    for (int32_t i = 0; i < batch->num_page_spans; i++)
        num_page_values += batch->page_spans[i].len;
    for (int32_t i = 0; i < batch->num_token_spans; i++)
        num_token_values += batch->token_spans[i].len;
}

START_TEST(the_device_is_told_each_thing_once)
{
    struct scheduler_config config = rig_config();

    config.max_prefill_tokens = 16;
    rig_init(&rig, &config);
    rig.on_launch = count_values;
    num_page_values = num_token_values = 0;
    rig_submit(&rig, 1, 20, 50, 51);
    rig_run_until_idle(&rig);
    ck_assert_int_eq(num_page_values, 25); /* 100 positions */
    ck_assert_int_eq(num_token_values, 50);
    num_page_values = num_token_values = 0;
    rig_submit(&rig, 2, 20, 50, 2); /* 48 positions are found: their pages, not their tokens */
    rig_run_until_idle(&rig);
    ck_assert_int_eq(num_page_values, 13);
    ck_assert_int_eq(num_token_values, 2);
    rig_deinit(&rig);
}
END_TEST

START_TEST(a_step_takes_several_prompts_within_the_budget)
{
    struct scheduler_config config = rig_config();

    config.max_prefill_tokens = 8;
    rig_init(&rig, &config);
    rig_submit(&rig, 1, 100, 3, 1);
    rig_submit(&rig, 2, 200, 5, 1); /* the rest of the budget, to the token */
    rig_submit(&rig, 3, 300, 2, 1);
    rig_submit(&rig, 4, 400, 7, 1); /* a page of it beside 3 */
    rig_launch(&rig);
    rig_process(&rig);
    ck_assert_int_eq(rig_stats(&rig).num_finished, 2);
    rig_run_until_idle(&rig);
    ck_assert_int_eq(rig_stats(&rig).num_steps, 3);
    rig_deinit(&rig);
}
END_TEST

START_TEST(no_more_is_reserved_or_evicted_than_needed)
{
    struct scheduler_config config = rig_config();

    rig_init(&rig, &config);
    rig_submit(&rig, 1, 100, 64, 65); /* 128 positions: 32 of 64 pages each */
    rig_submit(&rig, 2, 300, 64, 65);
    rig_turn(&rig);
    rig_turn(&rig);
    ck_assert_int_eq(rig_stats(&rig).num_running, 2);
    rig_run_until_idle(&rig);
    scheduler_flush_cache(rig.scheduler);
    for (uint64_t uid = 3; uid < 63; uid++) {
        rig_submit(&rig, uid, 11 * (int32_t)uid, 4, 1);
        rig_run_until_idle(&rig);
    }
    ck_assert_int_eq(rig_stats(&rig).cached_pages, 60);
    rig_submit(&rig, 63, 900, 28, 1); /* 7 pages, 4 are free */
    rig_run_until_idle(&rig);
    ck_assert_int_eq(rig_stats(&rig).cached_pages, 64);
    rig_deinit(&rig);
}
END_TEST

/* Pages that are given back are used by the next step, though a step in flight still writes them.
 */
START_TEST(freed_pages_are_used_at_once)
{
    struct scheduler_config config = rig_config();

    rig_init(&rig, &config);
    rig.eos_at = 1;
    rig_submit(&rig, 1, 100, 64, 130);
    rig_submit(&rig, 2, 300, 64, 130);
    rig_launch(&rig);
    rig_launch(&rig);
    rig_process(&rig);
    rig_launch(&rig);
    ck_assert_int_eq(rig_stats(&rig).num_queued, 1);
    rig_process(&rig); /* 1 has ended, its last row is in flight */
    ck_assert_int_eq(rig_stats(&rig).num_waiting_rows, 1);
    rig_launch(&rig);
    ck_assert_int_eq(rig_stats(&rig).num_queued, 0);
    rig_run_until_idle(&rig);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

/* Seven steps of eight twins each: their remapped rows do not fit one block, so streams take turns.
 */
START_TEST(streams_that_bring_many_pages_take_turns)
{
    struct scheduler_config config = rig_config();

    config.page_size = 1;
    config.num_pages = 120000;
    config.max_seq_len = 2000;
    config.max_running_reqs = 57;
    config.max_prefill_tokens = 8 * 1900;
    rig_init(&rig, &config);
    rig.checks = false;
    rig_submit(&rig, 100, 20, 10, 9);
    for (uint64_t uid = 1; uid <= 56; uid++)
        rig_submit(&rig, uid, 100 * (1 + (int32_t)(uid - 1) / 8), 1890, 3);
    rig_run_until_idle(&rig);
    for (uint64_t uid = 1; uid <= 56; uid++)
        rig_expect_text(&rig, uid, 100 * (1 + (int32_t)(uid - 1) / 8), 1890, 3);
    rig_expect_text(&rig, 100, 20, 10, 9);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

CHECK_MAIN("scheduler_steps", a_lone_prompt_has_the_chunks_that_the_budget_implies,
           middle_chunks_are_silent, prefill_first_passes_a_stream_over_eight_times,
           mixed_carries_every_stream_in_every_step, the_head_of_the_queue_is_not_passed,
           cached_order_passes_the_first_eight_times, cached_order_without_a_cache_is_arrival,
           cached_order_looks_at_sixteen, each_turn_of_a_lone_prompt_has_a_chunk,
           who_waits_is_not_tried_in_each_step, a_twin_fits_when_its_prompt_is_cached,
           the_device_is_told_each_thing_once, a_step_takes_several_prompts_within_the_budget,
           no_more_is_reserved_or_evicted_than_needed, freed_pages_are_used_at_once,
           streams_that_bring_many_pages_take_turns)
