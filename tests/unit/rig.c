/* rig.c - see rig.h. */
#include "tests/unit/rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler_proc/req.h"

struct scheduler_config rig_config(void)
{
    return (struct scheduler_config){
        .page_size = 4,
        .num_pages = 64,
        .max_running_reqs = 8,
        .max_seq_len = 256,
        .max_prefill_tokens = 64,
        .max_queued = 64,
        .vocab_size = RIG_VOCAB_SIZE,
        .cache_type = CACHE_RADIX,
        .policy = POLICY_PREFILL_FIRST,
    };
}

void rig_init(struct rig *rig, const struct scheduler_config *config)
{
    static const int32_t eos_ids[] = {RIG_EOS};
    struct scheduler_config full = *config;

    if (full.num_eos_ids == 0) {
        full.eos_ids = eos_ids;
        full.num_eos_ids = 1;
    }
    *rig = (struct rig){.is_overlapped = true, .checks = true, .eos_at = -1};
    rig->outputs = malloc(RIG_MAX_OUTPUTS * sizeof(*rig->outputs));
    ck_assert_ptr_nonnull(rig->outputs);
    struct status status = scheduler_create(&full, &rig->scheduler);
    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    fake_model_init(&rig->model, &full, rig->scheduler);
}

void rig_deinit(struct rig *rig)
{
    scheduler_destroy(&rig->scheduler);
    fake_model_deinit(&rig->model);
    free(rig->outputs);
    *rig = (struct rig){0};
}

static void look(struct rig *rig)
{
    int32_t num_rows = 0, num_rejections = 0;
    const struct token_row *rows = scheduler_outputs(rig->scheduler, &num_rows);
    const struct rejected_msg *rejections = scheduler_rejections(rig->scheduler, &num_rejections);

    for (int32_t i = 0; i < num_rows; i++) {
        ck_assert_int_lt(rig->num_outputs, RIG_MAX_OUTPUTS);
        rig->outputs[rig->num_outputs++] = rows[i];
    }
    if (num_rejections > 0) {
        const struct rejected_msg *last = &rejections[num_rejections - 1];
        rig->last_rejection = last->code;
        snprintf(rig->rejection_text, sizeof(rig->rejection_text), "%.*s", (int)last->message.size,
                 (const char *)last->message.data);
    }
    scheduler_clear_outputs(rig->scheduler);
    if (!rig->checks)
        return;
    struct status status = scheduler_check(rig->scheduler);
    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
}

void rig_submit_request(struct rig *rig, const struct request_msg *request)
{
    rig->last_rejection = ERROR_NONE;
    scheduler_submit(rig->scheduler, request);
    look(rig);
}

struct request_msg rig_request(uint64_t uid, const int32_t *ids, size_t num_ids)
{
    return (struct request_msg){.uid = uid,
                                .input_ids = ids,
                                .num_input_ids = num_ids,
                                .sampling = {.top_p = 1.0F, .max_tokens = 4}};
}

void rig_submit(struct rig *rig, uint64_t uid, int32_t family, int32_t prompt_len,
                int32_t max_tokens)
{
    int32_t *ids = malloc((size_t)prompt_len * sizeof(*ids) + 1);

    ck_assert_ptr_nonnull(ids);
    for (int32_t i = 0; i < prompt_len; i++)
        ids[i] = (family + i) % RIG_VOCAB_SIZE;
    const struct request_msg request = {
        .uid = uid,
        .client = {.bytes = {(uint8_t)(1 + uid % 4)}},
        .input_ids = ids,
        .num_input_ids = (size_t)prompt_len,
        .sampling = {.top_p = 1.0F, .max_tokens = max_tokens},
    };
    rig_submit_request(rig, &request);
    free(ids);
}

void rig_abort(struct rig *rig, uint64_t uid)
{
    scheduler_abort(rig->scheduler, &(struct abort_msg){.uid = uid});
    look(rig);
}

static bool is_nan(void *context, const struct batch_row *row)
{
    const struct rig *rig = context;

    return rig->nan_end > 0 && row->start + row->extend_len == rig->nan_end;
}

bool rig_launch(struct rig *rig)
{
    const struct batch *batch = rig->num_launched < 2 ? scheduler_next_batch(rig->scheduler) : NULL;

    look(rig);
    if (!batch)
        return false;
    if (rig->on_launch)
        rig->on_launch(rig, batch);
    int32_t *tokens = rig->results[batch->step % 2];
    const char *error = fake_model_run(&rig->model, batch, is_nan, rig, tokens);
    ck_assert_msg(!error, "%s", error);
    for (int32_t i = 0; i < batch->num_rows && rig->eos_at >= 0; i++) {
        const struct batch_row *row = &batch->rows[i];
        int32_t number = row->start + row->extend_len - row->req->prompt_len;
        tokens[i] = number == rig->eos_at ? RIG_EOS : 100 + number;
    }
    rig->launched[rig->num_launched++] = batch;
    return true;
}

bool rig_process(struct rig *rig)
{
    if (rig->num_launched == 0)
        return false;
    scheduler_finish_step(rig->scheduler, rig->launched[0],
                          rig->results[rig->launched[0]->step % 2]);
    rig->launched[0] = rig->launched[1];
    rig->num_launched--;
    look(rig);
    return true;
}

bool rig_turn(struct rig *rig)
{
    bool launched = rig_launch(rig);

    if (launched && rig->is_overlapped && rig->num_launched == 1)
        return true;
    return rig_process(rig) || launched;
}

void rig_run_until_idle(struct rig *rig)
{
    for (int32_t i = 0; scheduler_has_work(rig->scheduler); i++) {
        ck_assert_msg(rig_turn(rig), "stuck");
        ck_assert_int_lt(i, 1000000);
    }
}

int32_t rig_tokens(const struct rig *rig, uint64_t uid, int32_t *out_tokens,
                   enum finish_reason *out_finish, int32_t *out_num_after)
{
    enum finish_reason finish = FINISH_NONE;
    int32_t num_tokens = 0, num_after = 0;

    for (int32_t i = 0; i < rig->num_outputs; i++) {
        const struct token_row *row = &rig->outputs[i];
        if (row->uid != uid)
            continue;
        if (finish != FINISH_NONE) {
            num_after++;
            continue;
        }
        finish = row->finish;
        if (row->token == TOKEN_NONE)
            continue;
        if (out_tokens)
            out_tokens[num_tokens] = row->token;
        num_tokens++;
    }
    if (out_finish)
        *out_finish = finish;
    if (out_num_after)
        *out_num_after = num_after;
    return num_tokens;
}

enum finish_reason rig_finish(const struct rig *rig, uint64_t uid)
{
    enum finish_reason finish;

    rig_tokens(rig, uid, NULL, &finish, NULL);
    return finish;
}

const struct token_row *rig_first(const struct rig *rig, uint64_t uid)
{
    for (int32_t i = 0; i < rig->num_outputs; i++)
        if (rig->outputs[i].uid == uid)
            return &rig->outputs[i];
    return NULL;
}

void rig_expect_text(const struct rig *rig, uint64_t uid, int32_t family, int32_t prompt_len,
                     int32_t num_tokens)
{
    struct fake_text text = {.vocab_size = RIG_VOCAB_SIZE};
    int32_t number = 0;

    for (int32_t i = 0; i < prompt_len; i++)
        fake_text_add(&text, (family + i) % RIG_VOCAB_SIZE);
    for (int32_t i = 0; i < rig->num_outputs; i++) {
        const struct token_row *row = &rig->outputs[i];
        if (row->uid != uid || row->token == TOKEN_NONE)
            continue;
        int32_t token = fake_text_next(&text);
        ck_assert_msg(row->token == token, "uid %d: token %d is %d, alone it is %d", (int)uid,
                      number, row->token, token);
        fake_text_add(&text, token);
        number++;
    }
    ck_assert_msg(number == num_tokens, "uid %d: %d tokens, not %d", (int)uid, number, num_tokens);
}

struct scheduler_stats rig_stats(const struct rig *rig)
{
    struct scheduler_stats stats;

    scheduler_get_stats(rig->scheduler, &stats);
    return stats;
}

void rig_expect_idle(const struct rig *rig)
{
    struct scheduler_stats stats;
    struct status status = scheduler_check(rig->scheduler);

    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    scheduler_get_stats(rig->scheduler, &stats);
    ck_assert_int_eq(stats.num_queued + stats.num_running + stats.num_waiting_rows, 0);
    ck_assert_int_eq(stats.private_pages + stats.protected_pages, 0);
    ck_assert_int_eq(stats.free_pages + stats.evictable_pages, rig->model.config.num_pages);
    ck_assert_int_eq(stats.num_accepted, stats.num_finished + stats.num_aborted + stats.num_errors);
}
