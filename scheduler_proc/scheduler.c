/* scheduler.c - see scheduler.h: its life, and how a step is formed. */
#include "scheduler_proc/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler_proc/naive_cache.h"
#include "scheduler_proc/radix_cache.h"
#include "scheduler_proc/record.h"
#include "scheduler_proc/scheduler_state.h"

static struct status check_range(const char *option, int64_t value, int64_t min, int64_t max)
{
    if (value >= min && value <= max)
        return status_ok();
    return status_error(STATUS_INVALID, "%s: %lld, %lld to %lld", option, (long long)value,
                        (long long)min, (long long)max);
}

static struct status check_config(const struct scheduler_config *config)
{
    struct status status = check_range("page-size", config->page_size, 1, 65536);

    if (!status.code)
        status = check_range("num-pages", config->num_pages, 1, batch_max_pages(config->page_size));
    if (!status.code)
        status =
            check_range("max-running-requests", config->max_running_reqs, 1, SCHEDULER_MAX_RUNNING);
    if (!status.code)
        status = check_range("max-seq-len", config->max_seq_len, 2,
                             (int64_t)config->num_pages * config->page_size);
    if (!status.code)
        status = check_range("max-prefill-length", config->max_prefill_tokens, 1, 1 << 24);
    if (!status.code)
        status = check_range("max-queued", config->max_queued, 1, SCHEDULER_MAX_QUEUED);
    if (!status.code)
        status = check_range("vocab-size", config->vocab_size, 1, INT32_MAX);
    return status;
}

/*
 * A step's values are prompt tokens and changed pages. The pages of all decode rows (one each) and
 * of a full budget of one long row always fit beside them; the rest is for rows that were remapped
 * and for several long cached prompts in one step.
 */
static struct batch_limits limits_of(const struct scheduler *scheduler)
{
    int32_t max_rows = scheduler->config.max_running_reqs;
    int32_t max_pages = scheduler->max_pages_per_req;
    int32_t spare = max_pages < 8192 ? 8192 : max_pages;

    if ((int64_t)max_rows * max_pages < spare)
        spare = max_rows * max_pages;
    return (struct batch_limits){
        .max_rows = max_rows,
        .max_tokens = scheduler->prefill_budget + max_rows,
        .max_token_spans = max_rows,
        .max_page_spans = max_rows,
        .max_values = scheduler->prefill_budget + max_rows + max_pages + spare,
    };
}

static struct status create_parts(struct scheduler *scheduler)
{
    const struct scheduler_config *config = &scheduler->config;
    int32_t max_reqs = config->max_queued + config->max_running_reqs;
    size_t eos_size = (size_t)config->num_eos_ids * sizeof(*scheduler->eos_ids);
    struct status status = page_pool_init(&scheduler->pool, config->num_pages);

    if (!status.code)
        status = config->cache_type == CACHE_RADIX
                     ? radix_cache_create(config->num_pages, config->page_size, &scheduler->cache)
                     : naive_cache_create(&scheduler->cache);
    if (!status.code)
        status = req_table_init(&scheduler->table, config->max_running_reqs, max_reqs);
    if (!status.code)
        status = client_table_init(&scheduler->clients, max_reqs);
    for (int32_t i = 0; i < NUM_STEPS && !status.code; i++)
        status = step_init(&scheduler->steps[i], &scheduler->limits);
    if (!status.code)
        status = outputs_init(&scheduler->outputs, 4 * config->max_running_reqs);
    if (status.code)
        return status;
    scheduler->page_table = calloc((size_t)config->max_running_reqs,
                                   (size_t)scheduler->max_pages_per_req * sizeof(int32_t));
    scheduler->eos_ids = malloc(eos_size + 1);
    if (!scheduler->page_table || !scheduler->eos_ids)
        return status_error(STATUS_NO_MEMORY, "no memory for the page table of %d rows",
                            config->max_running_reqs);
    if (eos_size > 0)
        memcpy(scheduler->eos_ids, config->eos_ids, eos_size);
    scheduler->config.eos_ids = scheduler->eos_ids;
    return status_ok();
}

struct status scheduler_create(const struct scheduler_config *config, struct scheduler **out)
{
    struct scheduler *scheduler = NULL;
    struct status status = check_config(config);

    if (status.code)
        return status;
    scheduler = calloc(1, sizeof(*scheduler));
    if (!scheduler)
        return status_error(STATUS_NO_MEMORY, "no memory for the scheduler");
    scheduler->config = *config;
    scheduler->max_pages_per_req = scheduler_num_pages(scheduler, config->max_seq_len);
    scheduler->prefill_budget =
        config->max_prefill_tokens < config->page_size
            ? config->page_size
            : config->max_prefill_tokens / config->page_size * config->page_size;
    scheduler->limits = limits_of(scheduler);
    status = create_parts(scheduler);
    if (status.code) {
        scheduler_destroy(&scheduler);
        return status;
    }
    *out = scheduler;
    return status;
}

static void destroy_reqs(struct scheduler *scheduler)
{
    for (uint64_t i = 0; scheduler->table.buckets && i <= scheduler->table.bucket_mask; i++)
        for (struct req *req = scheduler->table.buckets[i]; req;) {
            struct req *next = req->uid_next;
            req_destroy(&req);
            req = next;
        }
}

void scheduler_destroy(struct scheduler **scheduler)
{
    struct scheduler *s = *scheduler;

    if (!s)
        return;
    destroy_reqs(s);
    outputs_deinit(&s->outputs);
    for (int32_t i = 0; i < NUM_STEPS; i++)
        step_deinit(&s->steps[i]);
    client_table_deinit(&s->clients);
    req_table_deinit(&s->table);
    prefix_cache_destroy(&s->cache);
    page_pool_deinit(&s->pool);
    free(s->page_table);
    free(s->eos_ids);
    free(s);
    *scheduler = NULL;
}

const struct batch_limits *scheduler_limits(const struct scheduler *scheduler)
{
    return &scheduler->limits;
}

void scheduler_record_to(struct scheduler *scheduler, const struct record_sink *sink)
{
    scheduler->sink = *sink;
    if (sink->write)
        record_head(sink, &scheduler->config);
}

void scheduler_abort(struct scheduler *scheduler, const struct abort_msg *abort)
{
    if (scheduler->sink.write)
        record_abort(&scheduler->sink, abort);
    if (!abort->by_client) {
        struct req *req = req_table_find(&scheduler->table, abort->uid);
        if (req)
            scheduler_finish_req(scheduler, req, TOKEN_NONE, FINISH_ABORT, ERROR_ABORTED);
        return;
    }
    const struct client_entry *client = client_table_find(&scheduler->clients, &abort->client);
    struct req *next;
    for (struct req *req = client ? client->first : NULL; req; req = next) {
        next = req->client_next;
        scheduler_finish_req(scheduler, req, TOKEN_NONE, FINISH_ABORT, ERROR_ABORTED);
    }
}

static void end_list(struct scheduler *scheduler, struct req_list *list, enum error_code code)
{
    while (list->first)
        scheduler_finish_req(scheduler, list->first, TOKEN_NONE, FINISH_ERROR, code);
}

void scheduler_end_all(struct scheduler *scheduler, enum error_code code)
{
    if (scheduler->sink.write)
        record_end_all(&scheduler->sink, code);
    for (int32_t i = 0; i < scheduler->table.num_rows; i++)
        if (scheduler->table.rows[i])
            scheduler_finish_req(scheduler, scheduler->table.rows[i], TOKEN_NONE, FINISH_ERROR,
                                 code);
    end_list(scheduler, &scheduler->queue, code);
}

void scheduler_drain(struct scheduler *scheduler)
{
    if (scheduler->sink.write)
        record_drain(&scheduler->sink);
    scheduler->draining = true;
}

int32_t scheduler_flush_cache(struct scheduler *scheduler)
{
    if (scheduler->sink.write)
        record_flush_cache(&scheduler->sink);
    return prefix_cache_evict(scheduler->cache, INT32_MAX, &scheduler->pool);
}

/*
 * prefill-first: a step of prompts if there is any, else one of streams; but a stream that waits is
 * passed over MAX_PREFILL_STREAK times at most.
 */
static void form_prefill_first(struct scheduler *scheduler, struct step *step)
{
    bool stream_waits = scheduler->decodes.num_reqs > 0;

    if (!stream_waits || scheduler->prefill_streak < MAX_PREFILL_STREAK)
        scheduler_form_prefill(scheduler, step);
    if (step->batch.num_rows > 0) {
        scheduler->prefill_streak = stream_waits ? scheduler->prefill_streak + 1 : 0;
        return;
    }
    scheduler_form_decode(scheduler, step);
    scheduler->prefill_streak = 0;
}

static const struct batch *form_batch(struct scheduler *scheduler)
{
    struct step *step = &scheduler->steps[scheduler->next_step % NUM_STEPS];

    if (step->is_launched)
        return NULL;
    if (!outputs_reserve(&scheduler->outputs,
                         scheduler->table.num_reqs + NUM_STEPS * scheduler->limits.max_rows))
        return NULL;
    step_reset(step, scheduler->next_step);
    switch (scheduler->config.policy) {
    case POLICY_PREFILL_FIRST:
        form_prefill_first(scheduler, step);
        break;
    case POLICY_MIXED:
        scheduler_form_decode(scheduler, step);
        scheduler_form_prefill(scheduler, step);
        break;
    }
    if (step->batch.num_rows == 0)
        return NULL;
    step->is_launched = true;
    scheduler->next_step++;
    return &step->batch;
}

const struct batch *scheduler_next_batch(struct scheduler *scheduler)
{
    const struct batch *batch = form_batch(scheduler);

    if (scheduler->sink.write)
        record_next_batch(&scheduler->sink, batch);
    return batch;
}

bool scheduler_has_work(const struct scheduler *scheduler)
{
    return scheduler->table.num_reqs > 0 || scheduler->next_result < scheduler->next_step;
}

const struct token_row *scheduler_outputs(const struct scheduler *scheduler, int32_t *out_num_rows)
{
    *out_num_rows = scheduler->outputs.num_rows;
    return scheduler->outputs.rows;
}

const struct rejected_msg *scheduler_rejections(const struct scheduler *scheduler,
                                                int32_t *out_num_rejections)
{
    *out_num_rejections = scheduler->outputs.num_rejections;
    return scheduler->outputs.rejections;
}

void scheduler_clear_outputs(struct scheduler *scheduler)
{
    outputs_clear(&scheduler->outputs);
}

void scheduler_get_stats(const struct scheduler *scheduler, struct scheduler_stats *out)
{
    const struct prefix_cache *cache = scheduler->cache;
    int32_t cached_pages = cache->evictable_pages + cache->protected_pages;
    int32_t num_rows = scheduler->table.num_rows - scheduler->table.num_free_rows;
    int32_t num_waiting = 0;

    for (int32_t i = 0; i < scheduler->table.num_rows; i++)
        num_waiting += scheduler->table.rows[i] && req_is_finished(scheduler->table.rows[i]);
    *out = (struct scheduler_stats){
        .num_queued = scheduler->queue.num_reqs,
        .num_running = num_rows - num_waiting,
        .num_waiting_rows = num_waiting,
        .free_pages = scheduler->pool.num_free,
        .cached_pages = cached_pages,
        .private_pages = scheduler->pool.num_pages - scheduler->pool.num_free - cached_pages,
        .evictable_pages = cache->evictable_pages,
        .protected_pages = cache->protected_pages,
        .num_steps = scheduler->next_step,
        .num_prefill_tokens = scheduler->num_prefill_tokens,
        .num_decode_tokens = scheduler->num_decode_tokens,
        .num_wasted_rows = scheduler->num_wasted_rows,
        .num_prompt_tokens = scheduler->num_prompt_tokens,
        .num_cached_tokens = scheduler->num_cached_tokens,
        .num_admission_tries = scheduler->num_admission_tries,
        .num_accepted = scheduler->num_accepted,
        .num_rejected = scheduler->num_rejected,
        .num_finished = scheduler->num_finished,
        .num_aborted = scheduler->num_aborted,
        .num_errors = scheduler->num_errors,
        .num_nan = scheduler->num_nan,
    };
}
