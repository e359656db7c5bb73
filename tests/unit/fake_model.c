/* fake_model.c - see fake_model.h. */
#include "tests/unit/fake_model.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "kernels/ops.h"
#include "scheduler_proc/req.h"

uint64_t fake_hash(uint64_t a, uint64_t b)
{
    return hash_mix(a * UINT64_C(0x9E3779B97F4A7C15) + b + UINT64_C(0xD1B54A32D192ED03));
}

static uint64_t add_context(uint64_t sum, uint64_t context)
{
    return (sum ^ context) * UINT64_C(0xD6E8FEB86659FD93) + 1;
}

void fake_text_add(struct fake_text *text, int32_t token)
{
    text->context = fake_hash(text->context, (uint64_t)token + 1) | 1;
    text->sum = add_context(text->sum, text->context);
    text->len++;
}

static int32_t token_of(uint64_t sum, int32_t vocab_size)
{
    return (int32_t)(fake_hash(sum, 1) % (uint64_t)vocab_size);
}

int32_t fake_text_next(const struct fake_text *text)
{
    return token_of(text->sum, text->vocab_size);
}

void fake_model_init(struct fake_model *model, const struct scheduler_config *config,
                     const struct scheduler *scheduler)
{
    size_t num_rows = (size_t)config->max_running_reqs + 1;
    size_t num_tokens = num_rows * (size_t)config->max_seq_len;
    int32_t max_pages_per_req = (config->max_seq_len + config->page_size - 1) / config->page_size;
    size_t num_pages = num_rows * (size_t)max_pages_per_req;

    *model = (struct fake_model){
        .config = *config,
        .limits = *scheduler_limits(scheduler),
        .max_pages_per_req = max_pages_per_req,
        .page_table = malloc(num_pages * sizeof(int32_t)),
        .token_pool = malloc(num_tokens * sizeof(int32_t)),
        .slots =
            calloc((size_t)config->num_pages * (size_t)config->page_size, sizeof(struct fake_slot)),
    };
    if (!model->page_table || !model->token_pool || !model->slots)
        exit(EXIT_FAILURE);
    memset(model->page_table, 0xFF, num_pages * sizeof(int32_t));
    memset(model->token_pool, 0xFF, num_tokens * sizeof(int32_t));
}

void fake_model_deinit(struct fake_model *model)
{
    free(model->page_table);
    free(model->token_pool);
    free(model->slots);
    *model = (struct fake_model){0};
}

static int32_t *pages_of(struct fake_model *model, int32_t table_idx)
{
    return model->page_table + (size_t)table_idx * (size_t)model->max_pages_per_req;
}

static int32_t *tokens_of(struct fake_model *model, int32_t table_idx)
{
    return model->token_pool + (size_t)table_idx * (size_t)model->config.max_seq_len;
}

static int32_t slot_of(struct fake_model *model, int32_t table_idx, int32_t position)
{
    int32_t page = pages_of(model, table_idx)[position / model->config.page_size];

    if (page < 0 || page >= model->config.num_pages)
        return -1;
    return page * model->config.page_size + position % model->config.page_size;
}

/* Sizes within the limits that the engine's block is made for, and sums that agree. */
static const char *check_batch(const struct fake_model *model, const struct batch *batch)
{
    int32_t num_tokens = 0, num_extend_rows = 0, max_extend_len = 0, max_kv_len = 0;
    bool is_decode = true;

    if (batch->num_rows < 1 || batch->num_rows > model->limits.max_rows ||
        batch->num_tokens > model->limits.max_tokens ||
        batch->num_values > model->limits.max_values ||
        batch->num_token_spans > model->limits.max_token_spans ||
        batch->num_page_spans > model->limits.max_page_spans)
        return "batch is over its limits";
    for (int32_t r = 0; r < batch->num_rows; r++) {
        const struct batch_row *row = &batch->rows[r];
        int32_t end = row->start + row->extend_len;
        num_tokens += row->extend_len;
        num_extend_rows += row->extend_len > 1;
        max_extend_len = row->extend_len > max_extend_len ? row->extend_len : max_extend_len;
        max_kv_len = end > max_kv_len ? end : max_kv_len;
        is_decode = is_decode && row->samples && row->extend_len == 1;
        if (row->table_idx < 0 || row->table_idx >= model->config.max_running_reqs)
            return "row of no table row";
        if (row->extend_len < 1 || end >= model->config.max_seq_len)
            return "row past max_seq_len";
        if (!row->samples && end % model->config.page_size != 0)
            return "middle chunk that does not end on a page boundary";
        for (int32_t other = 0; other < r; other++)
            if (batch->rows[other].table_idx == row->table_idx)
                return "two rows of one request in a batch";
    }
    if (num_tokens != batch->num_tokens || num_extend_rows != batch->num_extend_rows ||
        max_extend_len != batch->max_extend_len || max_kv_len != batch->max_kv_len ||
        is_decode != batch->is_decode)
        return "sums of the batch are wrong";
    return NULL;
}

static const char *apply_spans(struct fake_model *model, const struct batch *batch)
{
    for (int32_t i = 0; i < batch->num_token_spans; i++) {
        const struct step_span *span = &batch->token_spans[i];
        if (span->start < 0 || span->len < 1 ||
            span->start + span->len > model->config.max_seq_len || span->value < 0 ||
            span->value + span->len > batch->num_values)
            return "token span out of range";
        memcpy(tokens_of(model, span->table_idx) + span->start, batch->values + span->value,
               (size_t)span->len * sizeof(int32_t));
    }
    for (int32_t i = 0; i < batch->num_page_spans; i++) {
        const struct step_span *span = &batch->page_spans[i];
        if (span->start < 0 || span->len < 1 ||
            span->start + span->len > model->max_pages_per_req || span->value < 0 ||
            span->value + span->len > batch->num_values)
            return "page span out of range";
        memcpy(pages_of(model, span->table_idx) + span->start, batch->values + span->value,
               (size_t)span->len * sizeof(int32_t));
    }
    return NULL;
}

/* K and V of the row's tokens; t is the index of its first one. */
static const char *write_slots(struct fake_model *model, const struct batch *batch,
                               const struct batch_row *row, int32_t t, bool is_nan)
{
    for (int32_t i = 0; i < row->extend_len; i++) {
        int32_t position = row->start + i;
        int32_t token = tokens_of(model, row->table_idx)[position];
        int32_t before = position > 0 ? slot_of(model, row->table_idx, position - 1) : 0;
        int32_t slot = slot_of(model, row->table_idx, position);
        if (token < 0 || token >= model->config.vocab_size)
            return "input token was never written";
        if (before < 0 || slot < 0)
            return "page of the row was never written";
        if (batch->positions[t + i] != position || batch->out_loc[t + i] != slot)
            return "positions or out_loc do not agree with the row";
        uint64_t context = position > 0 ? model->slots[before].context : 0;
        model->slots[slot] = (struct fake_slot){
            .context = fake_hash(context, (uint64_t)token + 1) | 1,
            .nan_uid = is_nan ? row->req->uid : 0,
        };
    }
    return NULL;
}

static const char *read_slots(struct fake_model *model, const struct batch_row *row, uint64_t *out)
{
    uint64_t sum = 0;

    for (int32_t position = 0; position < row->start + row->extend_len; position++) {
        int32_t slot = slot_of(model, row->table_idx, position);
        if (slot < 0 || model->slots[slot].context == 0)
            return "slot was never written";
        if (model->slots[slot].nan_uid != 0 && model->slots[slot].nan_uid != row->req->uid)
            return "slot of a step with NaN is shared";
        sum = add_context(sum, model->slots[slot].context);
    }
    *out = sum;
    return NULL;
}

const char *fake_model_run(struct fake_model *model, const struct batch *batch,
                           bool (*is_nan)(void *context, const struct batch_row *row),
                           void *context, int32_t *results)
{
    const char *error = check_batch(model, batch);
    int32_t t = 0;

    if (!error)
        error = apply_spans(model, batch);
    for (int32_t r = 0; r < batch->num_rows && !error; r++) {
        const struct batch_row *row = &batch->rows[r];
        bool nan = is_nan && is_nan(context, row);
        results[r] = nan ? RESULT_NAN : 0;
        error = write_slots(model, batch, row, t, nan);
        t += row->extend_len;
    }
    for (int32_t r = 0; r < batch->num_rows && !error; r++) {
        const struct batch_row *row = &batch->rows[r];
        int32_t target = row->samples ? row->table_idx : model->config.max_running_reqs;
        uint64_t sum = 0;
        error = read_slots(model, row, &sum);
        if (results[r] != RESULT_NAN)
            results[r] = token_of(sum, model->config.vocab_size);
        tokens_of(model, target)[row->start + row->extend_len] = results[r] < 0 ? 0 : results[r];
    }
    return error;
}
