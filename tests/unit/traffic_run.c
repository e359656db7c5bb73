/* traffic_run.c - see traffic.h: a script is run and judged. */
#include "tests/unit/traffic.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler_proc/req.h"

enum { EOS_ID = 5, MAX_STEPS_AT_END = 200000 };

/* What a request was told to be, and what has come of it. */
struct record {
    const struct traffic_op *op;
    bool accepted, aborted, ended;
    int32_t num_tokens;
    int32_t num_computed; /* prompt tokens that steps have computed */
    int32_t num_cached;   /* as its first row said */
    struct fake_text text;
};

struct run {
    const struct traffic *traffic;
    struct traffic_result *result;
    struct scheduler *scheduler;
    struct fake_model model;
    struct record records[TRAFFIC_MAX_OPS]; /* of each op that is a submit */
    const struct batch *launched[2];
    int32_t *results[2]; /* owned, [max_rows] */
    int32_t num_launched;
    struct scheduler_stats counts; /* what the counters must be */
};

static void fail(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fail(struct run *run, const char *format, ...)
{
    va_list args;

    if (run->result->error[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(run->result->error, sizeof(run->result->error), format, args);
    va_end(args);
}

static int32_t prompt_token(const struct run *run, const struct traffic_op *op, int32_t position)
{
    uint64_t source = position < op->shared_len ? (uint64_t)op->family : 1000 + op->uid;

    return (int32_t)(fake_hash(source, (uint64_t)position) %
                     (uint64_t)run->traffic->config.vocab_size);
}

/* The last one: a uid may come again when its request has retired. */
static struct record *find_record(struct run *run, uint64_t uid)
{
    for (int32_t i = run->traffic->num_ops; i-- > 0;)
        if (run->records[i].accepted && run->records[i].op->uid == uid)
            return &run->records[i];
    return NULL;
}

/* ---- what comes out ---- */

static void judge_row(struct run *run, const struct token_row *row)
{
    struct record *record = find_record(run, row->uid);
    unsigned long long uid = row->uid;

    if (!record) {
        fail(run, "uid %llu: output of a request that was not accepted", uid);
        return;
    }
    const struct traffic_op *op = record->op;
    int32_t max_tokens = run->traffic->config.max_seq_len - op->prompt_len;
    max_tokens = op->max_tokens < max_tokens ? op->max_tokens : max_tokens;
    if (record->ended)
        fail(run, "uid %llu: output after its terminal", uid);
    if (row->is_first != (record->num_tokens == 0) && !(row->is_first && record->num_tokens == 0))
        fail(run, "uid %llu: is_first is wrong", uid);
    if (row->is_first &&
        (row->reply_to.size != sizeof(uid) || memcmp(row->reply_to.data, &uid, sizeof(uid)) != 0 ||
         row->num_prompt_tokens != op->prompt_len || row->num_cached_tokens >= op->prompt_len))
        fail(run, "uid %llu: reply_to or counts are wrong", uid);
    if (row->is_first)
        record->num_cached = row->num_cached_tokens;
    record->ended = row->finish != FINISH_NONE;
    run->counts.num_aborted += row->finish == FINISH_ABORT;
    run->counts.num_errors += row->finish == FINISH_ERROR;
    run->counts.num_finished += row->finish == FINISH_STOP || row->finish == FINISH_LENGTH;
    if (row->token != TOKEN_NONE && record->num_computed + record->num_cached != op->prompt_len)
        fail(run, "uid %llu: %d tokens computed and %d cached of a prompt of %d", uid,
             record->num_computed, record->num_cached, op->prompt_len);
    if (row->finish == FINISH_ABORT) {
        if (!record->aborted || row->token != TOKEN_NONE || row->error != ERROR_ABORTED)
            fail(run, "uid %llu: aborted, and nobody asked", uid);
        return;
    }
    if (record->aborted)
        fail(run, "uid %llu: output after the abort", uid);
    if (record->num_tokens == op->nan_at || row->finish == FINISH_ERROR) {
        if (record->num_tokens != op->nan_at || row->finish != FINISH_ERROR ||
            row->token != TOKEN_NONE || row->error != ERROR_INTERNAL)
            fail(run, "uid %llu: NaN at token %d, error at %d", uid, op->nan_at,
                 record->num_tokens);
        return;
    }
    int32_t token = fake_text_next(&record->text);
    enum finish_reason finish = FINISH_NONE;
    if (token == EOS_ID && !op->ignore_eos)
        finish = FINISH_STOP;
    else if (record->num_tokens + 1 == max_tokens)
        finish = FINISH_LENGTH;
    if (row->token != token)
        fail(run, "uid %llu: token %d is %d, alone it is %d", uid, record->num_tokens, row->token,
             token);
    if (row->finish != finish)
        fail(run, "uid %llu: token %d of %d has finish %d, not %d", uid, record->num_tokens,
             max_tokens, (int)row->finish, (int)finish);
    fake_text_add(&record->text, token);
    record->num_tokens++;
}

/* Running and waiting requests and pages, as stats have them now. */
static void judge_stats(struct run *run)
{
    struct scheduler_stats stats;
    int32_t num_waiting = 0, num_open = 0;

    for (int32_t k = 0; k < run->num_launched; k++)
        for (int32_t i = 0; i < run->launched[k]->num_rows; i++) {
            const struct req *req = run->launched[k]->rows[i].req;
            bool is_again = false;
            for (int32_t j = 0; k == 1 && j < run->launched[0]->num_rows; j++)
                is_again |= run->launched[0]->rows[j].req == req;
            num_waiting += !is_again && req_is_finished(req);
        }
    for (int32_t i = 0; i < run->traffic->num_ops; i++)
        num_open += run->records[i].accepted && !run->records[i].ended;
    scheduler_get_stats(run->scheduler, &stats);
    if (stats.num_queued + stats.num_running != num_open || stats.num_waiting_rows != num_waiting)
        fail(run, "%d queued, %d running, %d waiting; %d are open, %d wait", stats.num_queued,
             stats.num_running, stats.num_waiting_rows, num_open, num_waiting);
    if (stats.cached_pages != stats.evictable_pages + stats.protected_pages ||
        stats.free_pages + stats.cached_pages + stats.private_pages !=
            run->traffic->config.num_pages ||
        stats.free_pages < 0 || stats.private_pages < 0)
        fail(run, "pages in stats do not add up");
}

static void look(struct run *run)
{
    int32_t num_rows = 0;
    const struct token_row *rows = scheduler_outputs(run->scheduler, &num_rows);

    for (int32_t i = 0; i < num_rows; i++)
        judge_row(run, &rows[i]);
    scheduler_clear_outputs(run->scheduler);
    judge_stats(run);
    struct status status = scheduler_check(run->scheduler);
    if (status.code)
        fail(run, "check: %s", status.msg);
}

/* ---- what goes in ---- */

static void submit(struct run *run, struct record *record)
{
    const struct traffic_op *op = record->op;
    uint64_t uid = op->uid;
    int32_t num_rejections = 0, num_before = 0;
    int32_t *ids = malloc((size_t)op->prompt_len * sizeof(*ids) + 1);
    bool is_twin_uid = false;

    if (!ids)
        exit(EXIT_FAILURE);
    for (int32_t i = 0; i < run->traffic->num_ops; i++)
        is_twin_uid |= run->records[i].accepted && run->records[i].op->uid == uid;
    record->text = (struct fake_text){.vocab_size = run->traffic->config.vocab_size};
    for (int32_t i = 0; i < op->prompt_len; i++) {
        ids[i] = prompt_token(run, op, i);
        fake_text_add(&record->text, ids[i]);
    }
    struct request_msg request = {
        .uid = uid,
        .client = {.bytes = {(uint8_t)(op->client + 1)}},
        .input_ids = ids,
        .num_input_ids = (size_t)op->prompt_len,
        .sampling = {.top_p = 1.0F,
                     .max_tokens = op->max_tokens,
                     .seed = uid,
                     .ignore_eos = op->ignore_eos},
        .reply_to = {.data = (const uint8_t *)&uid, .size = sizeof(uid)},
    };
    scheduler_rejections(run->scheduler, &num_before);
    scheduler_submit(run->scheduler, &request);
    scheduler_rejections(run->scheduler, &num_rejections);
    record->accepted = num_rejections == num_before;
    run->counts.num_rejected += !record->accepted;
    run->counts.num_accepted += record->accepted;
    if (!record->accepted && !is_twin_uid && op->prompt_len > 0 &&
        op->prompt_len < run->traffic->config.max_seq_len)
        fail(run, "uid %llu: refused", (unsigned long long)uid);
    free(ids);
}

static void abort_op(struct run *run, const struct traffic_op *op)
{
    bool by_client = op->kind == TRAFFIC_ABORT_CLIENT;
    struct abort_msg abort = {
        .by_client = by_client, .uid = op->uid, .client = {.bytes = {(uint8_t)(op->client + 1)}}};

    for (int32_t i = 0; i < run->traffic->num_ops; i++) {
        struct record *record = &run->records[i];
        if (record->accepted && !record->ended &&
            (by_client ? record->op->client == op->client : record->op->uid == op->uid))
            record->aborted = true;
    }
    scheduler_abort(run->scheduler, &abort);
}

/* NaN where the script wants it, and in one middle chunk of eight. */
static bool is_nan(void *context, const struct batch_row *row)
{
    struct run *run = context;
    const struct record *record = find_record(run, row->req->uid);

    if (!record)
        return false;
    if (row->samples)
        return row->start + row->extend_len - record->op->prompt_len == record->op->nan_at;
    uint64_t seed = run->traffic->nan_seed;
    return seed != 0 && fake_hash(seed + row->req->uid, (uint64_t)row->start) % 8 == 0;
}

/* Prompt and decode tokens by what the rows say. */
static void count_rows(struct run *run, const struct batch *batch)
{
    int32_t num_prefill_tokens = 0;

    for (int32_t i = 0; i < batch->num_rows; i++) {
        const struct batch_row *row = &batch->rows[i];
        struct record *record = find_record(run, row->req->uid);
        if (!record) {
            fail(run, "row of an unknown request");
            return;
        }
        if (row->start >= record->op->prompt_len) {
            run->counts.num_decode_tokens += row->extend_len;
            continue;
        }
        num_prefill_tokens += row->extend_len;
        run->counts.num_prompt_tokens += record->num_computed == 0 ? record->op->prompt_len : 0;
        record->num_computed += row->extend_len;
    }
    run->counts.num_prefill_tokens += num_prefill_tokens;
    if (num_prefill_tokens != batch->num_prefill_tokens)
        fail(run, "%d prompt tokens in a step that says %d", num_prefill_tokens,
             batch->num_prefill_tokens);
}

static bool launch(struct run *run)
{
    if (run->num_launched == 2)
        return false;
    const struct batch *batch = scheduler_next_batch(run->scheduler);
    if (!batch)
        return false;
    if (batch->step != run->result->num_steps)
        fail(run, "step %lld has number %lld", (long long)run->result->num_steps,
             (long long)batch->step);
    if (batch->num_prefill_tokens > run->traffic->config.max_prefill_tokens &&
        batch->num_prefill_tokens > run->traffic->config.page_size)
        fail(run, "%d prompt tokens in a step, budget %d", batch->num_prefill_tokens,
             run->traffic->config.max_prefill_tokens);
    count_rows(run, batch);
    run->launched[run->num_launched] = batch;
    const char *error =
        fake_model_run(&run->model, batch, is_nan, run, run->results[batch->step % 2]);
    if (error)
        fail(run, "step %lld: %s", (long long)batch->step, error);
    run->num_launched++;
    run->result->num_steps++;
    return true;
}

static bool process(struct run *run)
{
    if (run->num_launched == 0)
        return false;
    const struct batch *batch = run->launched[0];
    for (int32_t i = 0; i < batch->num_rows; i++) {
        const struct record *record = find_record(run, batch->rows[i].req->uid);
        run->counts.num_wasted_rows += !record || record->ended;
    }
    scheduler_finish_step(run->scheduler, batch, run->results[batch->step % 2]);
    run->launched[0] = run->launched[1];
    run->num_launched--;
    return true;
}

static void run_op(struct run *run, int32_t i)
{
    const struct traffic_op *op = &run->traffic->ops[i];

    switch (op->kind) {
    case TRAFFIC_SUBMIT:
        submit(run, &run->records[i]);
        break;
    case TRAFFIC_ABORT:
    case TRAFFIC_ABORT_CLIENT:
        abort_op(run, op);
        break;
    case TRAFFIC_FLUSH:
        scheduler_flush_cache(run->scheduler);
        break;
    case TRAFFIC_LAUNCH:
        launch(run);
        break;
    case TRAFFIC_PROCESS:
        process(run);
        break;
    }
    look(run);
}

static void judge_end(struct run *run)
{
    const struct scheduler_stats *stats = &run->result->stats;
    struct scheduler_stats *counts = &run->counts;

    scheduler_get_stats(run->scheduler, &run->result->stats);
    for (int32_t i = 0; i < run->traffic->num_ops; i++)
        if (run->records[i].accepted && !run->records[i].ended)
            fail(run, "uid %llu: no terminal", (unsigned long long)run->records[i].op->uid);
    if (stats->num_queued || stats->num_running || stats->num_waiting_rows ||
        stats->private_pages || stats->protected_pages ||
        stats->free_pages + stats->evictable_pages != run->traffic->config.num_pages)
        fail(run, "idle: %d queued, %d running, %d waiting, %d private, %d protected, %d free",
             stats->num_queued, stats->num_running, stats->num_waiting_rows, stats->private_pages,
             stats->protected_pages, stats->free_pages);
    for (int32_t i = 0; i < run->traffic->num_ops; i++)
        counts->num_cached_tokens += run->records[i].num_cached;
    if (stats->num_prefill_tokens != counts->num_prefill_tokens ||
        stats->num_decode_tokens != counts->num_decode_tokens ||
        stats->num_prompt_tokens != counts->num_prompt_tokens ||
        stats->num_cached_tokens != counts->num_cached_tokens ||
        stats->num_wasted_rows != counts->num_wasted_rows ||
        stats->num_accepted != counts->num_accepted ||
        stats->num_rejected != counts->num_rejected ||
        stats->num_finished != counts->num_finished || stats->num_aborted != counts->num_aborted ||
        stats->num_errors != counts->num_errors || stats->num_steps != run->result->num_steps)
        fail(run, "a counter is wrong");
    if (stats->num_wasted_rows > stats->num_accepted * 2)
        fail(run, "%lld wasted rows", (long long)stats->num_wasted_rows);
    scheduler_flush_cache(run->scheduler);
    scheduler_get_stats(run->scheduler, &run->result->stats);
    if (stats->free_pages != run->traffic->config.num_pages)
        fail(run, "flushed: %d pages free of %d", stats->free_pages, stats->private_pages);
}

void traffic_run(const struct traffic *traffic, struct traffic_result *out)
{
    static const int32_t eos_ids[] = {EOS_ID};
    struct scheduler_config config = traffic->config;
    struct run *run = calloc(1, sizeof(*run));
    int32_t num_idle = 0;

    if (!run)
        exit(EXIT_FAILURE);
    *out = (struct traffic_result){0};
    run->traffic = traffic;
    run->result = out;
    config.eos_ids = eos_ids;
    config.num_eos_ids = 1;
    struct status status = scheduler_create(&config, &run->scheduler);
    if (status.code) {
        fail(run, "create: %s", status.msg);
        goto out;
    }
    if (traffic->sink)
        scheduler_record_to(run->scheduler, traffic->sink);
    fake_model_init(&run->model, &config, run->scheduler);
    for (int32_t i = 0; i < 2; i++)
        run->results[i] = calloc((size_t)config.max_running_reqs, sizeof(int32_t));
    for (int32_t i = 0; i < traffic->num_ops; i++)
        run->records[i].op = &traffic->ops[i];
    for (; out->failed_op < traffic->num_ops && out->error[0] == '\0'; out->failed_op++)
        run_op(run, out->failed_op);
    while (scheduler_has_work(run->scheduler) && out->error[0] == '\0') {
        bool launched = launch(run);
        bool processed = process(run);
        num_idle = launched || processed ? 0 : num_idle + 1;
        if (num_idle > 2 || out->num_steps > MAX_STEPS_AT_END)
            fail(run, "stuck");
        look(run);
    }
    if (out->error[0] == '\0')
        judge_end(run);
out:
    scheduler_destroy(&run->scheduler);
    fake_model_deinit(&run->model);
    free(run->results[0]);
    free(run->results[1]);
    free(run);
}
