/*
 * test_scheduler_rules.c - the six faults that a lead of one step invites (README.md of
 * scheduler_proc), each as a user would see it. tests/mutation/ puts the faults back one by one and
 * expects exactly one of these tests to fail; so each of them looks at its own matter only, and
 * none calls scheduler_check.
 */
#include <stdio.h>
#include <string.h>

#include "scheduler_proc/scheduler_state.h"
#include "tests/unit/check_main.h"
#include "tests/unit/rig.h"

enum { NEVER = 1 << 20, NUM_PAGES = 16 };

static struct rig rig;
static bool row_was_in_use; /* a row was taken that a launched step refers to */

static void setup(int32_t num_rows)
{
    struct scheduler_config config = rig_config();

    config.page_size = 2;
    config.num_pages = NUM_PAGES;
    config.max_seq_len = 2 * NUM_PAGES;
    config.max_running_reqs = num_rows;
    rig_init(&rig, &config);
    rig.checks = false;
    row_was_in_use = false;
}

/* At idle: a page that is free and cached at once, or neither, or locked by nobody alive. */
static const char *fault_of_pages(void)
{
    static char fault[sizeof(((struct status *)0)->msg)];
    uint8_t marks[NUM_PAGES] = {0};
    struct status status = page_pool_check(&rig.scheduler->pool, marks);

    if (!status.code)
        status = prefix_cache_check(rig.scheduler->cache, NULL, 0, marks);
    if (status.code) {
        memcpy(fault, status.msg, sizeof(status.msg));
        return fault;
    }
    for (int32_t page = 0; page < NUM_PAGES; page++)
        if (marks[page] != 1) {
            snprintf(fault, sizeof(fault), "page %d is held %d times", page, marks[page]);
            return fault;
        }
    return NULL;
}

/* Three tokens are asked for, so three come, and the third is the last. */
START_TEST(rule_1_all_tokens_that_were_asked_for)
{
    enum finish_reason finish;

    setup(2);
    rig.eos_at = NEVER;
    rig_submit(&rig, 1, 20, 5, 3);
    rig_run_until_idle(&rig);
    int32_t num_tokens = rig_tokens(&rig, 1, NULL, &finish, NULL);
    ck_assert_msg(num_tokens == 3, "3 tokens asked, the terminal came with number %d", num_tokens);
    ck_assert_int_eq(finish, FINISH_LENGTH);
    rig_deinit(&rig);
}
END_TEST

/* EOS as the third of eight tokens: the step that was in flight says nothing any more. */
START_TEST(rule_2_nothing_after_the_last_message)
{
    enum finish_reason finish;
    int32_t num_after;

    setup(2);
    rig.eos_at = 2;
    rig_submit(&rig, 1, 20, 5, 8);
    rig_run_until_idle(&rig);
    ck_assert_int_eq(rig_tokens(&rig, 1, NULL, &finish, &num_after), 3);
    ck_assert_int_eq(finish, FINISH_STOP);
    ck_assert_msg(num_after == 0, "%d messages behind the terminal", num_after);
    rig_deinit(&rig);
}
END_TEST

/* Whoever has a row in this batch, no launched step has it for another. */
static void watch_rows(struct rig *self, const struct batch *batch)
{
    for (int32_t i = 0; i < batch->num_rows; i++)
        for (int32_t k = 0; k < self->num_launched; k++)
            for (int32_t j = 0; j < self->launched[k]->num_rows; j++)
                row_was_in_use |=
                    self->launched[k]->rows[j].table_idx == batch->rows[i].table_idx &&
                    self->launched[k]->rows[j].req != batch->rows[i].req;
}

/* The second request waits for the only row until no launched step writes it for the first. */
START_TEST(rule_3_a_row_in_flight_is_not_given_away)
{
    setup(1);
    rig.eos_at = 2;
    rig.on_launch = watch_rows;
    rig_submit(&rig, 1, 20, 5, 8);
    rig_submit(&rig, 2, 40, 7, 8);
    rig_run_until_idle(&rig);
    ck_assert_msg(!row_was_in_use, "a row was taken that a launched step still writes");
    ck_assert_int_eq(rig_tokens(&rig, 2, NULL, NULL, NULL), 3);
    rig_deinit(&rig);
}
END_TEST

/* Aborted while its prompt is in flight: its pages are free, and only free. */
START_TEST(rule_4_abort_with_a_prefill_in_flight)
{
    setup(2);
    rig.eos_at = NEVER;
    rig_submit(&rig, 1, 20, 5, 8);
    rig_launch(&rig);
    rig_abort(&rig, 1);
    rig_run_until_idle(&rig);
    const char *fault = fault_of_pages();
    ck_assert_msg(!fault, "%s", fault);
    rig_deinit(&rig);
}
END_TEST

/* Aborted while the token that ends it anyway is in flight: its pages are given back once. */
START_TEST(rule_5_abort_with_the_last_decode_in_flight)
{
    setup(2);
    rig.eos_at = 2;
    rig_submit(&rig, 1, 20, 5, 8);
    rig_launch(&rig); /* the prompt, and token 0 */
    rig_launch(&rig); /* token 1 */
    rig_process(&rig);
    rig_launch(&rig); /* token 2, which is EOS */
    rig_process(&rig);
    rig_abort(&rig, 1);
    rig_run_until_idle(&rig);
    const char *fault = fault_of_pages();
    ck_assert_msg(!fault, "%s", fault);
    rig_deinit(&rig);
}
END_TEST

/* Of twins in one step the second goes on with the pages of the first; its own get a new owner. */
START_TEST(rule_6_twins_share_pages_and_keep_their_text)
{
    setup(3);
    rig_submit(&rig, 1, 20, 6, 8);
    rig_submit(&rig, 2, 20, 6, 8);
    rig_launch(&rig);
    rig_process(&rig);
    rig_submit(&rig, 3, 60, 6, 2); /* its prompt overwrites the pages that twin 2 gave back */
    for (int i = 0; i < 6; i++)
        rig_turn(&rig);
    /* How the end is told is another rule's matter, so it is judged before. */
    rig_expect_text(&rig, 2, 20, 6, rig_tokens(&rig, 2, NULL, NULL, NULL));
    ck_assert_int_ge(rig_tokens(&rig, 2, NULL, NULL, NULL), 4);
    rig_run_until_idle(&rig);
    rig_deinit(&rig);
}
END_TEST

CHECK_MAIN("scheduler_rules", rule_1_all_tokens_that_were_asked_for,
           rule_2_nothing_after_the_last_message, rule_3_a_row_in_flight_is_not_given_away,
           rule_4_abort_with_a_prefill_in_flight, rule_5_abort_with_the_last_decode_in_flight,
           rule_6_twins_share_pages_and_keep_their_text)
