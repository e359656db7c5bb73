/* test_scheduler_cache.c - prefixes that requests find in the cache, pages that are evicted for
 * them. */
#include "scheduler_proc/scheduler.h"

#include "tests/unit/check_main.h"
#include "tests/unit/rig.h"

static struct rig rig;

START_TEST(a_prompt_that_is_all_cached_computes_one_token)
{
    struct scheduler_config config = rig_config();

    for (int32_t num_pages = 1; num_pages <= 3; num_pages++) {
        rig_init(&rig, &config);
        for (uint64_t uid = 1; uid <= 2; uid++) {
            rig_submit(&rig, uid, 20, 4 * num_pages, 3);
            rig_run_until_idle(&rig);
            rig_expect_text(&rig, uid, 20, 4 * num_pages, 3);
        }
        ck_assert_int_eq(rig_first(&rig, 2)->num_cached_tokens, 4 * (num_pages - 1));
        rig_deinit(&rig);
    }
}
END_TEST

START_TEST(outputs_are_cached_too)
{
    struct scheduler_config config = rig_config();
    int32_t ids[32];

    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 10, 12);
    rig_run_until_idle(&rig);
    for (int32_t i = 0; i < 10; i++)
        ids[i] = 20 + i;
    rig_tokens(&rig, 1, ids + 10, NULL, NULL);
    struct request_msg request = rig_request(2, ids, 22);
    rig_submit_request(&rig, &request);
    rig_run_until_idle(&rig);
    /* 21 positions have K and V: the last token's was never computed. */
    ck_assert_int_eq(rig_first(&rig, 2)->num_cached_tokens, 20);
    rig_deinit(&rig);
}
END_TEST

/* The second of two long twins, chunk behind chunk, computes next to nothing. */
START_TEST(twins_in_flight_share)
{
    for (int overlap = 0; overlap < 2; overlap++) {
        struct scheduler_config config = rig_config();
        config.max_prefill_tokens = 16;
        rig_init(&rig, &config);
        rig.is_overlapped = overlap;
        rig_submit(&rig, 1, 20, 100, 4);
        rig_submit(&rig, 2, 20, 100, 4);
        rig_run_until_idle(&rig);
        rig_expect_text(&rig, 1, 20, 100, 4);
        rig_expect_text(&rig, 2, 20, 100, 4);
        ck_assert_int_le(rig_stats(&rig).num_prefill_tokens, 100 + 16 + 4);
        rig_expect_idle(&rig);
        rig_deinit(&rig);
    }
}
END_TEST

/* The second twin starts in the step before the first's chunk is known, and finds it a step later.
 */
START_TEST(a_prompt_half_way_finds_what_a_twin_has_computed)
{
    struct scheduler_config config = rig_config();

    config.max_prefill_tokens = 16;
    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 20, 2);
    rig_submit(&rig, 2, 20, 20, 2);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 1, 20, 20, 2);
    rig_expect_text(&rig, 2, 20, 20, 2);
    ck_assert_int_eq(rig_stats(&rig).num_prefill_tokens, 16 + 4 + 12 + 4);
    ck_assert_int_eq(rig_stats(&rig).num_cached_tokens, 4);
    ck_assert_int_eq(rig_first(&rig, 2)->num_cached_tokens, 4);
    rig_deinit(&rig);
}
END_TEST

START_TEST(naive_caches_nothing_and_gives_the_same_text)
{
    struct scheduler_config config = rig_config();

    config.cache_type = CACHE_NAIVE;
    config.max_prefill_tokens = 16;
    rig_init(&rig, &config);
    for (uint64_t uid = 1; uid <= 3; uid++)
        rig_submit(&rig, uid, 20, 50, 8);
    rig_run_until_idle(&rig);
    for (uint64_t uid = 1; uid <= 3; uid++) {
        rig_expect_text(&rig, uid, 20, 50, 8);
        ck_assert_int_eq(rig_first(&rig, uid)->num_cached_tokens, 0);
    }
    ck_assert_int_eq(rig_stats(&rig).cached_pages, 0);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

/* A pool for one and a half of them, a prefix for all, long outputs: they wait for each other. */
START_TEST(late_admission_with_a_prefix_is_right)
{
    struct scheduler_config config = rig_config();

    config.num_pages = 24;
    config.max_seq_len = 96;
    rig_init(&rig, &config);
    for (uint64_t uid = 1; uid <= 8; uid++)
        rig_submit(&rig, uid, 20, 20 + (int32_t)uid, 40);
    rig_run_until_idle(&rig);
    for (uint64_t uid = 1; uid <= 8; uid++)
        rig_expect_text(&rig, uid, 20, 20 + (int32_t)uid, 40);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

/* A long stream on a prefix while 500 others force eviction. */
START_TEST(pages_in_use_are_not_evicted)
{
    struct scheduler_config config = rig_config();

    config.max_queued = 600;
    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 40, 80);
    rig_turn(&rig);
    for (uint64_t uid = 2; uid <= 501; uid++)
        rig_submit(&rig, uid, (int32_t)uid, 30, 2);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 1, 20, 40, 80);
    for (uint64_t uid = 2; uid <= 501; uid++)
        rig_expect_text(&rig, uid, (int32_t)uid, 30, 2);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

START_TEST(flush_empties_what_nobody_uses)
{
    struct scheduler_config config = rig_config();

    rig_init(&rig, &config);
    rig_submit(&rig, 1, 20, 40, 4);
    rig_run_until_idle(&rig);
    rig_submit(&rig, 2, 20, 20, 30);
    rig_turn(&rig);
    int32_t num_cached = rig_stats(&rig).cached_pages;
    int32_t num_freed = scheduler_flush_cache(rig.scheduler);
    ck_assert_int_gt(num_freed, 0);
    ck_assert_int_eq(rig_stats(&rig).cached_pages, num_cached - num_freed);
    ck_assert_int_gt(rig_stats(&rig).protected_pages, 0);
    rig_run_until_idle(&rig);
    rig_expect_text(&rig, 2, 20, 20, 30);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

/* 3 requests of one token and 17 more, 4 pages of 16: whole pages are reserved, so nobody starves.
 */
START_TEST(admission_counts_whole_pages)
{
    struct scheduler_config config = rig_config();

    config.page_size = 16;
    config.num_pages = 4;
    config.max_seq_len = 64;
    rig_init(&rig, &config);
    for (uint64_t uid = 1; uid <= 3; uid++)
        rig_submit(&rig, uid, 40 * (int32_t)uid, 1, 17);
    rig_run_until_idle(&rig);
    for (uint64_t uid = 1; uid <= 3; uid++)
        rig_expect_text(&rig, uid, 40 * (int32_t)uid, 1, 17);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

/* Thousands of ends of each kind on shared prefixes leave every page where it belongs. */
START_TEST(pages_do_not_vanish)
{
    struct scheduler_config config = rig_config();
    uint64_t uid = 1;

    rig_init(&rig, &config);
    for (int round = 0; round < 500; round++) {
        for (int i = 0; i < 6; i++, uid++)
            rig_submit(&rig, uid, round % 3 * 100, 3 + (int32_t)(uid * 7 % 60), 2 + i);
        for (int i = 0; i < 4; i++)
            rig_turn(&rig);
        rig_abort(&rig, uid - 1);
        rig_abort(&rig, uid - 4);
        if (scheduler_has_work(rig.scheduler) && round % 4 == 3)
            rig_run_until_idle(&rig);
    }
    rig_run_until_idle(&rig);
    rig_expect_idle(&rig);
    ck_assert_int_eq(rig_stats(&rig).num_accepted + rig_stats(&rig).num_rejected, 3000);
    rig_deinit(&rig);
}
END_TEST

/* The packed block holds any one request and then some: many long cached prompts take several
 * steps. */
START_TEST(a_step_takes_what_its_block_holds)
{
    struct scheduler_config config = rig_config();

    config.page_size = 1;
    config.num_pages = 40000;
    config.max_seq_len = 4000;
    config.max_running_reqs = 8;
    config.max_prefill_tokens = 8;
    rig_init(&rig, &config);
    rig.checks = false;
    rig_submit(&rig, 1, 20, 3900, 1);
    rig_run_until_idle(&rig);
    for (uint64_t uid = 2; uid <= 9; uid++)
        rig_submit(&rig, uid, 20, 3900, 1);
    rig_run_until_idle(&rig);
    for (uint64_t uid = 2; uid <= 9; uid++)
        rig_expect_text(&rig, uid, 20, 3900, 1);
    rig_expect_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

CHECK_MAIN("scheduler_cache", a_prompt_that_is_all_cached_computes_one_token,
           outputs_are_cached_too, twins_in_flight_share,
           a_prompt_half_way_finds_what_a_twin_has_computed,
           naive_caches_nothing_and_gives_the_same_text, late_admission_with_a_prefix_is_right,
           pages_in_use_are_not_evicted, flush_empties_what_nobody_uses,
           admission_counts_whole_pages, pages_do_not_vanish, a_step_takes_what_its_block_holds)
