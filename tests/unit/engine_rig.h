/*
 * engine_rig.h - engine and core joined as loop.c joins them, without sockets: for tests of both.
 */
#ifndef TESTS_UNIT_ENGINE_RIG_H
#define TESTS_UNIT_ENGINE_RIG_H

#include <stdlib.h>
#include <string.h>

#include "scheduler_proc/engine.h"
#include "scheduler_proc/scheduler.h"
#include "tests/unit/check_status.h"

enum { RIG_MAX_REQS = 256, RIG_MAX_OUTPUT = 512 };

struct rig_args {
    const char *dir;
    enum engine_device device;
    enum engine_dtype dtype;
    int32_t num_threads;
    enum cache_type cache_type;
    enum policy policy;
    bool is_overlapped;
    int32_t page_size, chunk, max_running, num_pages, max_seq_len;
    struct sim_config sim;
    int32_t graph_max_rows; /* 0: no graphs */
    int64_t op_delay_ns;
    bool op_delay_random;
};

struct rig_answer {
    int32_t tokens[RIG_MAX_OUTPUT];
    int32_t num_tokens, num_cached;
    enum finish_reason finish;
};

struct rig {
    struct model_config model;
    struct engine *engine;
    struct scheduler *scheduler;
    bool is_overlapped;
    struct rig_answer *answers; /* [RIG_MAX_REQS], by uid - 1 */
    /* What the steps were. */
    int32_t max_rows, num_steps, num_prefill_steps, num_mixed_steps;
    int32_t num_chunks;        /* rows of more than a decode's one token, or that do not sample */
    int32_t num_slow_launches; /* that took more than a millisecond */
};

static inline void rig_open(struct rig *rig, const struct rig_args *args)
{
    *rig = (struct rig){.is_overlapped = args->is_overlapped};
    ck_assert_ok(model_config_open(&rig->model, args->dir, args->max_seq_len));
    struct engine_config config = {.device = args->device,
                                   .dtype = args->dtype,
                                   .model_dir = args->dir,
                                   .model = &rig->model,
                                   .num_threads = args->num_threads,
                                   .max_running_reqs = args->max_running,
                                   .max_prefill_tokens = args->chunk,
                                   .page_size = args->page_size,
                                   .num_pages = args->num_pages,
                                   .max_seq_len_override = args->max_seq_len,
                                   .memory_ratio = 0.5,
                                   .graph_max_rows = args->graph_max_rows,
                                   .sim = args->sim,
                                   .op_delay_ns = args->op_delay_ns,
                                   .op_delay_random = args->op_delay_random};
    ck_assert_ok(engine_create(&config, &rig->engine));
    const struct engine_info *info = engine_info(rig->engine);
    struct scheduler_config core = {.page_size = args->page_size,
                                    .num_pages = info->num_pages,
                                    .max_running_reqs = args->max_running,
                                    .max_seq_len = info->max_seq_len,
                                    .max_prefill_tokens = args->chunk,
                                    .max_queued = RIG_MAX_REQS,
                                    .vocab_size = rig->model.vocab_size,
                                    .cache_type = args->cache_type,
                                    .policy = args->policy,
                                    .eos_ids = rig->model.eos_ids,
                                    .num_eos_ids = rig->model.num_eos_ids};
    ck_assert_ok(scheduler_create(&core, &rig->scheduler));
    ck_assert_ok(engine_prepare(rig->engine, scheduler_limits(rig->scheduler)));
    rig->answers = calloc(RIG_MAX_REQS, sizeof(struct rig_answer));
}

static inline void rig_close(struct rig *rig)
{
    engine_destroy(&rig->engine);
    scheduler_destroy(&rig->scheduler);
    free(rig->answers);
}

static inline void rig_submit(struct rig *rig, uint64_t uid, const int32_t *ids, int32_t num_ids,
                              int32_t max_tokens, bool ignore_eos)
{
    struct request_msg request = {
        .uid = uid,
        .input_ids = ids,
        .num_input_ids = (size_t)num_ids,
        .sampling = {.top_p = 1, .max_tokens = max_tokens, .seed = uid, .ignore_eos = ignore_eos}};

    memset(&rig->answers[uid - 1], 0, sizeof(rig->answers[0]));
    scheduler_submit(rig->scheduler, &request);
}

static inline void rig_note_batch(struct rig *rig, const struct batch *batch)
{
    int32_t num_decode = 0;

    for (int32_t r = 0; r < batch->num_rows; r++)
        num_decode += batch->rows[r].samples && batch->rows[r].extend_len == 1;
    rig->num_steps++;
    rig->num_prefill_steps += batch->num_prefill_tokens > 0;
    rig->num_mixed_steps +=
        batch->num_prefill_tokens > 0 && batch->num_prefill_tokens < batch->num_tokens;
    rig->num_chunks += batch->num_rows - num_decode;
    if (batch->num_rows > rig->max_rows)
        rig->max_rows = batch->num_rows;
}

static inline void rig_take_outputs(struct rig *rig)
{
    int32_t num_rows = 0, num_rejections = 0;
    const struct token_row *rows = scheduler_outputs(rig->scheduler, &num_rows);

    scheduler_rejections(rig->scheduler, &num_rejections);
    ck_assert_int_eq(num_rejections, 0);
    for (int32_t i = 0; i < num_rows; i++) {
        struct rig_answer *answer = &rig->answers[rows[i].uid - 1];
        ck_assert_int_eq(answer->finish, FINISH_NONE);
        if (rows[i].is_first)
            answer->num_cached = rows[i].num_cached_tokens;
        if (rows[i].token != TOKEN_NONE)
            answer->tokens[answer->num_tokens++] = rows[i].token;
        answer->finish = rows[i].finish;
    }
    scheduler_clear_outputs(rig->scheduler);
}

static inline void rig_process(struct rig *rig, const struct batch *batch)
{
    const int32_t *tokens = NULL;
    struct engine_times times;

    ck_assert_ok(engine_wait(rig->engine, &tokens, &times));
    ck_assert_int_ge(times.end_ns, times.begin_ns);
    scheduler_finish_step(rig->scheduler, batch, tokens);
    ck_assert_ok(scheduler_check(rig->scheduler));
    rig_take_outputs(rig);
}

static inline int64_t rig_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Until every request has ended. */
static inline void rig_run(struct rig *rig)
{
    const struct batch *previous = NULL;

    while (scheduler_has_work(rig->scheduler)) {
        const struct batch *batch = scheduler_next_batch(rig->scheduler);
        ck_assert(batch || previous);
        if (batch) {
            int64_t begin_ns = rig_now_ns();
            ck_assert_ok(engine_launch(rig->engine, batch));
            rig->num_slow_launches += rig_now_ns() - begin_ns > 1000000;
            rig_note_batch(rig, batch);
        }
        if (rig->is_overlapped) {
            const struct batch *launched = batch;
            batch = previous;
            previous = launched;
        }
        if (batch)
            rig_process(rig, batch);
    }
}

/* Nobody holds a page or a row. */
static inline void rig_check_empty(struct rig *rig)
{
    struct scheduler_stats stats;

    scheduler_get_stats(rig->scheduler, &stats);
    ck_assert_int_eq(stats.num_queued, 0);
    ck_assert_int_eq(stats.num_running, 0);
    ck_assert_int_eq(stats.num_waiting_rows, 0);
    ck_assert_int_eq(stats.private_pages, 0);
    ck_assert_int_eq(stats.protected_pages, 0);
    ck_assert_int_eq(stats.free_pages + stats.cached_pages, engine_info(rig->engine)->num_pages);
}

#endif
