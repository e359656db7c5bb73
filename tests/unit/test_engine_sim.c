/*
 * test_engine_sim.c - the engine's streams and rings, with a simulated model that turns any mix-up
 * into other tokens: delays before each operation of the device, and nothing may change but the
 * time.
 */
#include <stdio.h>
#include <time.h>

#include "scheduler_proc/engine_internal.h"
#include "tests/unit/check_main.h"
#include "tests/unit/engine_rig.h"

enum { NUM_REQS = 40, NUM_TOKENS = 30 };

static char demo[1024];

static void setup(void)
{
    snprintf(demo, sizeof(demo), "%s/../../tools/demo_model", getenv("MINISGL_TEST_DATA"));
}

/* Prompts of 1 to 90 tokens, some of them twins and some prefixes of others. */
static void submit_all(struct rig *rig)
{
    int32_t ids[128];

    for (int32_t i = 0; i < NUM_REQS; i++) {
        int32_t len = 1 + i * 37 % 90;
        for (int32_t j = 0; j < len; j++)
            ids[j] = (i % 5 * 100 + j * 7) % 1700;
        rig_submit(rig, (uint64_t)i + 1, ids, len, 1 + i * 11 % NUM_TOKENS, true);
    }
}

static void run_with(const struct rig_args *args, struct rig_answer *out)
{
    struct rig rig;

    rig_open(&rig, args);
    submit_all(&rig);
    rig_run(&rig);
    rig_check_empty(&rig);
    ck_assert_int_gt(rig.max_rows, 1);
    for (int32_t i = 0; i < NUM_REQS; i++) {
        ck_assert_int_eq(rig.answers[i].finish, FINISH_LENGTH);
        ck_assert_int_eq(rig.answers[i].num_tokens, 1 + i * 11 % NUM_TOKENS);
        out[i] = rig.answers[i];
    }
    rig_close(&rig);
}

START_TEST(delays_change_no_token)
{
    static struct rig_answer plain[NUM_REQS], other[NUM_REQS];
    struct rig_args args = {.dir = demo,
                            .device = ENGINE_SIM,
                            .page_size = 4,
                            .chunk = 24,
                            .max_running = 6,
                            .num_pages = 160};

    run_with(&args, plain);
    for (int i = 0; i < 8; i++) {
        args.is_overlapped = i & 1;
        args.policy = i & 2 ? POLICY_MIXED : POLICY_PREFILL_FIRST;
        args.cache_type = i & 4 ? CACHE_NAIVE : CACHE_RADIX;
        args.op_delay_ns = 100000;
        args.op_delay_random = true;
        run_with(&args, other);
        for (int32_t r = 0; r < NUM_REQS; r++)
            for (int32_t t = 0; t < plain[r].num_tokens; t++)
                ck_assert_msg(plain[r].tokens[t] == other[r].tokens[t], "way %d row %d token %d", i,
                              r, t);
    }
}
END_TEST

/* 5 ms before each operation; a launch waits for none. The machine may take the CPU away now and
 * then: half of them count. */
START_TEST(launch_returns_at_once)
{
    struct rig rig;
    int32_t ids[] = {1, 2, 3};

    rig_open(&rig, &(struct rig_args){.dir = demo,
                                      .device = ENGINE_SIM,
                                      .is_overlapped = true,
                                      .page_size = 16,
                                      .chunk = 64,
                                      .max_running = 4,
                                      .num_pages = 64,
                                      .op_delay_ns = 5000000});
    for (uint64_t uid = 1; uid <= 4; uid++)
        rig_submit(&rig, uid, ids, 3, 20, true);
    rig_run(&rig);
    ck_assert_int_ge(rig.num_steps, 20);
    ck_assert_int_le(2 * rig.num_slow_launches, rig.num_steps);
    rig_close(&rig);
}
END_TEST

/* After 2^31 and 2^32 steps the host and the device still mean the same slot. */
START_TEST(the_step_counter_wraps)
{
    static const uint32_t starts[] = {INT32_MAX - 1, UINT32_MAX - 1};
    static struct rig_answer plain[NUM_REQS];
    struct rig_args args = {.dir = demo,
                            .device = ENGINE_SIM,
                            .is_overlapped = true,
                            .page_size = 4,
                            .chunk = 24,
                            .max_running = 6,
                            .num_pages = 160};
    struct rig rig;

    run_with(&args, plain);
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        rig_open(&rig, &args);
        ck_assert_ok(rig.engine->backend.device->stream_sync(rig.engine->engine_stream));
        *rig.engine->step_counter = starts[i];
        rig.engine->num_launched = rig.engine->num_waited = starts[i];
        submit_all(&rig);
        rig_run(&rig);
        ck_assert_uint_eq(*rig.engine->step_counter, starts[i] + (uint32_t)rig.num_steps);
        for (int32_t r = 0; r < NUM_REQS; r++)
            ck_assert_mem_eq(plain[r].tokens, rig.answers[r].tokens, sizeof(plain[r].tokens));
        rig_close(&rig);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("engine_sim");

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, delays_change_no_token);
    tcase_add_test(tcase, launch_returns_at_once);
    tcase_add_test(tcase, the_step_counter_wraps);
    return check_run_case("engine_sim", tcase);
}
