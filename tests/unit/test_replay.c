/* test_replay.c - a log gives the same steps again; a changed or cut one is noticed. */
#include "scheduler_proc/record.h"

#include <string.h>

#include "tests/unit/check_main.h"
#include "tests/unit/rig.h"
#include "tests/unit/traffic.h"

struct log {
    uint8_t *data; /* owned */
    size_t size, max_size;
};

static void append(void *context, const void *data, size_t size)
{
    struct log *log = context;

    if (log->size + size > log->max_size) {
        log->max_size = 2 * (log->size + size);
        log->data = realloc(log->data, log->max_size);
        ck_assert_ptr_nonnull(log->data);
    }
    memcpy(log->data + log->size, data, size);
    log->size += size;
}

/* The log of a seed's random traffic. */
static struct log record_seed(uint64_t seed, struct traffic_result *out_result)
{
    static struct traffic traffic;
    struct log log = {0};
    const struct record_sink sink = {.write = append, .context = &log};

    traffic_make(seed, &traffic);
    traffic.sink = &sink;
    traffic_run(&traffic, out_result);
    ck_assert_str_eq(out_result->error, "");
    return log;
}

START_TEST(a_log_gives_the_same_steps)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct traffic_result recorded;
        struct replay_result replayed;
        struct log log = record_seed(seed, &recorded);
        struct status status = replay_run(log.data, log.size, &replayed);
        ck_assert_msg(status.code == STATUS_OK, "seed %d: %s", (int)seed, status.msg);
        ck_assert_int_eq(replayed.num_steps, recorded.num_steps);
        ck_assert_int_eq(replayed.num_requests,
                         recorded.stats.num_accepted + recorded.stats.num_rejected);
        ck_assert(!replayed.is_cut);
        free(log.data);
    }
}
END_TEST

/* What changes a decision and is no message of a client. */
START_TEST(drain_flush_and_end_all_are_in_the_log)
{
    for (int call = 0; call < 3; call++) {
        struct scheduler_config config = rig_config();
        struct replay_result replayed;
        struct log log = {0};
        const struct record_sink sink = {.write = append, .context = &log};
        struct rig rig;
        rig_init(&rig, &config);
        scheduler_record_to(rig.scheduler, &sink);
        rig_submit(&rig, 1, 20, 30, 4);
        rig_run_until_idle(&rig);
        rig_submit(&rig, 2, 20, 30, 20);
        rig_launch(&rig);
        if (call == 0)
            scheduler_drain(rig.scheduler);
        else if (call == 1)
            scheduler_end_all(rig.scheduler, ERROR_INTERNAL);
        else
            scheduler_flush_cache(rig.scheduler);
        rig_submit(&rig, 3, 20, 30, 4);
        rig_run_until_idle(&rig);
        struct status status = replay_run(log.data, log.size, &replayed);
        ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
        int64_t num_tokens = 0;
        for (int32_t i = 0; i < rig.num_outputs; i++)
            num_tokens += rig.outputs[i].token != TOKEN_NONE;
        ck_assert_int_eq(replayed.num_tokens, num_tokens);
        free(log.data);
        rig_deinit(&rig);
    }
}
END_TEST

START_TEST(another_step_is_noticed)
{
    struct traffic_result recorded;
    struct replay_result replayed;
    struct log log = record_seed(3, &recorded);

    log.data[8] ^= 3; /* page_size */
    ck_assert_int_ne(replay_run(log.data, log.size, &replayed).code, STATUS_OK);
    log.data[8] ^= 3;
    ck_assert_int_eq(replay_run(log.data, log.size, &replayed).code, STATUS_OK);
    free(log.data);
}
END_TEST

START_TEST(a_log_that_was_cut_is_a_shorter_log)
{
    struct traffic_result recorded;
    struct replay_result replayed;
    struct log log = record_seed(5, &recorded);
    int64_t num_steps = 0;

    for (size_t size = 0; size < log.size; size += 7) {
        uint8_t *part = malloc(size + 1); /* of its own, so that a read past it is seen */
        ck_assert_ptr_nonnull(part);
        memcpy(part, log.data, size);
        struct status status = replay_run(part, size, &replayed);
        ck_assert(status.code == STATUS_OK || (status.code == STATUS_FORMAT && size < 60));
        ck_assert_int_ge(replayed.num_steps, num_steps);
        num_steps = replayed.num_steps;
        free(part);
    }
    free(log.data);
}
END_TEST

START_TEST(garbage_is_refused)
{
    struct replay_result replayed;
    const uint8_t garbage[64] = "garbage that is no log";

    ck_assert_int_eq(replay_run(garbage, sizeof(garbage), &replayed).code, STATUS_FORMAT);
    ck_assert_int_eq(replay_run(garbage, 0, &replayed).code, STATUS_FORMAT);
}
END_TEST

CHECK_MAIN("replay", a_log_gives_the_same_steps, drain_flush_and_end_all_are_in_the_log,
           another_step_is_noticed, a_log_that_was_cut_is_a_shorter_log, garbage_is_refused)
