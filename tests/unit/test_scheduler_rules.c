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
#include "tests/unit/fake_model.h"

enum { EOS = 7, MAX_OUTPUTS = 256, ROWS = 4 };

/* A scheduler with an overlapped loop around it, and what came out so far. */
static struct scheduler *scheduler;
static struct fake_model model;
static struct token_row outputs[MAX_OUTPUTS];
static int32_t num_outputs;
static const struct batch *launched[2];
static int32_t results[2][ROWS];
static int32_t num_launched;
static int32_t eos_at;      /* token number at which each request gets EOS, or -1: by the model */
static bool row_was_in_use; /* a row was taken that a launched step refers to */

static void setup(int32_t num_pages, int32_t num_rows)
{
    static const int32_t eos_ids[] = {EOS};
    const struct scheduler_config config = {
        .page_size = 2,
        .num_pages = num_pages,
        .max_running_reqs = num_rows,
        .max_seq_len = 2 * num_pages,
        .max_prefill_tokens = 64,
        .max_queued = 8,
        .vocab_size = 1000,
        .cache_type = CACHE_RADIX,
        .policy = POLICY_PREFILL_FIRST,
        .eos_ids = eos_ids,
        .num_eos_ids = 1,
    };
    struct status status = scheduler_create(&config, &scheduler);

    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    fake_model_init(&model, &config, scheduler);
    num_outputs = num_launched = 0;
    eos_at = -1;
    row_was_in_use = false;
}

static void teardown(void)
{
    scheduler_destroy(&scheduler);
    fake_model_deinit(&model);
}

/* The prompt is `family` and its successors. */
static void submit(uint64_t uid, int32_t family, int32_t prompt_len, int32_t max_tokens)
{
    int32_t ids[64];

    for (int32_t i = 0; i < prompt_len; i++)
        ids[i] = family + i;
    const struct request_msg request = {
        .uid = uid,
        .input_ids = ids,
        .num_input_ids = (size_t)prompt_len,
        .sampling = {.top_p = 1.0F, .max_tokens = max_tokens},
    };
    scheduler_submit(scheduler, &request);
}

static void abort_uid(uint64_t uid)
{
    scheduler_abort(scheduler, &(struct abort_msg){.uid = uid});
}

static void collect(void)
{
    int32_t num_rows = 0;
    const struct token_row *rows = scheduler_outputs(scheduler, &num_rows);

    for (int32_t i = 0; i < num_rows && num_outputs < MAX_OUTPUTS; i++)
        outputs[num_outputs++] = rows[i];
    scheduler_clear_outputs(scheduler);
}

/* Rule 3 as an invariant: whoever has a row now, no launched step has it for another. */
static void watch_rows(const struct batch *batch)
{
    for (int32_t i = 0; i < batch->num_rows; i++) {
        const struct batch_row *row = &batch->rows[i];
        for (int32_t k = 0; k < num_launched; k++)
            for (int32_t j = 0; j < launched[k]->num_rows; j++)
                row_was_in_use |= launched[k]->rows[j].table_idx == row->table_idx &&
                                  launched[k]->rows[j].req != row->req;
    }
}

static bool launch(void)
{
    const struct batch *batch = num_launched < 2 ? scheduler_next_batch(scheduler) : NULL;

    if (!batch)
        return false;
    watch_rows(batch);
    int32_t *tokens = results[batch->step % 2];
    const char *error = fake_model_run(&model, batch, NULL, NULL, tokens);
    ck_assert_msg(!error, "%s", error);
    for (int32_t i = 0; i < batch->num_rows; i++) {
        const struct batch_row *row = &batch->rows[i];
        int32_t number = row->start + row->extend_len - row->req->prompt_len;
        if (eos_at >= 0 && row->samples)
            tokens[i] = number == eos_at ? EOS : 100 + number;
    }
    launched[num_launched++] = batch;
    return true;
}

static void process(void)
{
    if (num_launched == 0)
        return;
    scheduler_finish_step(scheduler, launched[0], results[launched[0]->step % 2]);
    launched[0] = launched[1];
    num_launched--;
    collect();
}

/* The overlapped loop: step k is launched before step k-1 is processed. */
static void run_until_idle(void)
{
    for (int32_t i = 0; i < 1000 && scheduler_has_work(scheduler); i++) {
        if (!launch() || num_launched == 2)
            process();
    }
}

/* The texts of a uid: how many tokens before and with its first terminal, and behind it. */
static void count_outputs(uint64_t uid, int32_t *out_num_tokens, int32_t *out_num_after)
{
    bool ended = false;

    *out_num_tokens = *out_num_after = 0;
    for (int32_t i = 0; i < num_outputs; i++) {
        if (outputs[i].uid != uid)
            continue;
        *out_num_after += ended;
        *out_num_tokens += !ended && outputs[i].token != TOKEN_NONE;
        ended |= outputs[i].finish != FINISH_NONE;
    }
}

/* At idle: a page that is free and cached at once, or neither, or locked by nobody alive. */
static const char *fault_of_pages(void)
{
    static char fault[200];
    uint8_t marks[64] = {0};
    struct status status = page_pool_check(&scheduler->pool, marks);

    if (!status.code)
        status = prefix_cache_check(scheduler->cache, NULL, 0, marks);
    if (status.code) {
        memcpy(fault, status.msg, sizeof(status.msg));
        return fault;
    }
    for (int32_t page = 0; page < scheduler->pool.num_pages; page++)
        if (marks[page] != 1) {
            snprintf(fault, sizeof(fault), "page %d is held %d times", page, marks[page]);
            return fault;
        }
    return NULL;
}

/* Three tokens are asked for, so three come, and the third is the last. */
START_TEST(rule_1_all_tokens_that_were_asked_for)
{
    int32_t num_tokens, num_after;

    setup(16, 2);
    eos_at = 1000;
    submit(1, 20, 5, 3);
    run_until_idle();
    count_outputs(1, &num_tokens, &num_after);
    ck_assert_msg(num_tokens == 3, "3 tokens asked, the terminal came with number %d", num_tokens);
    teardown();
}
END_TEST

/* EOS as the third of eight tokens: the step that was in flight says nothing any more. */
START_TEST(rule_2_nothing_after_the_last_message)
{
    int32_t num_tokens, num_after;

    setup(16, 2);
    eos_at = 2;
    submit(1, 20, 5, 8);
    run_until_idle();
    count_outputs(1, &num_tokens, &num_after);
    ck_assert_int_eq(num_tokens, 3);
    ck_assert_msg(num_after == 0, "%d messages behind the terminal", num_after);
    teardown();
}
END_TEST

/* The second request waits for the only row until no launched step writes it for the first. */
START_TEST(rule_3_a_row_in_flight_is_not_given_away)
{
    int32_t num_tokens, num_after;

    setup(16, 1);
    eos_at = 2;
    submit(1, 20, 5, 8);
    submit(2, 40, 7, 8);
    run_until_idle();
    ck_assert_msg(!row_was_in_use, "a row was taken that a launched step still writes");
    count_outputs(2, &num_tokens, &num_after);
    ck_assert_int_eq(num_tokens, 3);
    teardown();
}
END_TEST

/* Aborted while its prompt is in flight: its pages are free, and only free. */
START_TEST(rule_4_abort_with_a_prefill_in_flight)
{
    setup(16, 2);
    eos_at = 1000;
    submit(1, 20, 5, 8);
    launch();
    abort_uid(1);
    run_until_idle();
    const char *fault = fault_of_pages();
    ck_assert_msg(!fault, "%s", fault);
    teardown();
}
END_TEST

/* Aborted while the token that ends it anyway is in flight: its pages are given back once. */
START_TEST(rule_5_abort_with_the_last_decode_in_flight)
{
    setup(16, 2);
    eos_at = 2;
    submit(1, 20, 5, 8);
    launch(); /* the prompt, and token 0 */
    launch(); /* token 1 */
    process();
    launch(); /* token 2, which is EOS */
    process();
    abort_uid(1);
    run_until_idle();
    const char *fault = fault_of_pages();
    ck_assert_msg(!fault, "%s", fault);
    teardown();
}
END_TEST

/* Of twins in one step the second goes on with the pages of the first; its own get a new owner. */
START_TEST(rule_6_twins_share_pages_and_keep_their_text)
{
    struct fake_text text = {.vocab_size = 1000};
    int32_t number = 0;

    setup(12, 3);
    submit(1, 20, 6, 6);
    submit(2, 20, 6, 6);
    launch();
    process();
    submit(3, 60, 6, 2); /* its prompt overwrites the pages that twin 2 gave back */
    run_until_idle();
    for (int32_t i = 0; i < 6; i++)
        fake_text_add(&text, 20 + i);
    for (int32_t i = 0; i < num_outputs; i++) {
        if (outputs[i].uid != 2)
            continue;
        int32_t token = fake_text_next(&text);
        ck_assert_msg(outputs[i].token == token, "token %d of the second twin is %d, alone %d",
                      number, outputs[i].token, token);
        fake_text_add(&text, token);
        number++;
    }
    ck_assert_int_ge(number, 5); /* whether number 6 comes is rule 1's matter */
    teardown();
}
END_TEST

CHECK_MAIN("scheduler_rules", rule_1_all_tokens_that_were_asked_for,
           rule_2_nothing_after_the_last_message, rule_3_a_row_in_flight_is_not_given_away,
           rule_4_abort_with_a_prefill_in_flight, rule_5_abort_with_the_last_decode_in_flight,
           rule_6_twins_share_pages_and_keep_their_text)
