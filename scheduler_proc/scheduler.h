/*
 * scheduler.h - the core: which requests compute what in which step. It decides and does no I/O; it
 * knows no socket, no device and no clock, and is a library that links none of them.
 *
 * The caller's loop: submit and abort as messages come, next_batch, launch, finish_step with the
 * tokens of an earlier batch. With overlap one more step is launched before the one before it is
 * finished: at most two are unfinished at a time. Lengths advance when a batch is formed, which
 * stands for its launch.
 *
 * Source: mini-sglang scheduler/scheduler.py, prefill.py, decode.py; the rules of its faults are in
 * README.md.
 */
#ifndef SCHEDULER_PROC_SCHEDULER_H
#define SCHEDULER_PROC_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "proto/messages.h"
#include "scheduler_proc/batch.h"

enum cache_type { CACHE_RADIX, CACHE_NAIVE };
enum policy { POLICY_PREFILL_FIRST, POLICY_MIXED };
enum queue_order {
    ORDER_ARRIVAL,
    ORDER_CACHED, /* longest cached prefix first, among the first 16; the first is passed 8 times */
};

enum { SCHEDULER_MAX_RUNNING = 4096, SCHEDULER_MAX_QUEUED = 1 << 24 };

struct scheduler_config {
    int32_t page_size, num_pages; /* num_pages: without the dummy page, whose number is num_pages */
    int32_t max_running_reqs;     /* rows; the dummy row is number max_running_reqs */
    int32_t max_seq_len;          /* at most num_pages * page_size */
    int32_t max_prefill_tokens;   /* prefill budget of a step */
    int32_t max_queued;           /* requests waiting; beyond: rejected as overloaded */
    int32_t vocab_size;           /* ids must be below */
    enum cache_type cache_type;
    enum policy policy;
    enum queue_order queue_order;
    const int32_t *eos_ids; /* copied by scheduler_create */
    int32_t num_eos_ids;
};

struct scheduler; /* opaque */

/* Takes all memory that it will need but for prompts. Errors name the option that is out of range.
 */
MUST_CHECK struct status scheduler_create(const struct scheduler_config *config,
                                          struct scheduler **out);
void scheduler_destroy(struct scheduler **scheduler);

/* How large its batches may get; borrowed. */
const struct batch_limits *scheduler_limits(const struct scheduler *scheduler);

/*
 * Takes a request (everything in it is copied), or adds its refusal to the rejections: duplicate
 * uid, empty, too long, can never fit, ids outside the vocabulary, queue full, draining.
 */
void scheduler_submit(struct scheduler *scheduler, const struct request_msg *request);

/* Ends the request (all of a client's) wherever it is, with a terminal `abort`. Unknown ones are no
 * error. */
void scheduler_abort(struct scheduler *scheduler, const struct abort_msg *abort);

/* Ends every request, queued ones too, as an error with that code: the end of a shutdown's grace, a
 * device fault. */
void scheduler_end_all(struct scheduler *scheduler, enum error_code code);

/* From now on every new request is rejected as shutting_down. */
void scheduler_drain(struct scheduler *scheduler);

/* Empties the prefix cache of what no live request uses. Returns the number of pages freed. */
int32_t scheduler_flush_cache(struct scheduler *scheduler);

/* The next step, or NULL when nothing can be formed now. Valid until it is finished. */
const struct batch *scheduler_next_batch(struct scheduler *scheduler);

/* The result of the oldest unfinished batch: tokens[r] of each row, or RESULT_NAN (-1). */
void scheduler_finish_step(struct scheduler *scheduler, const struct batch *batch,
                           const int32_t *tokens);

/* Whether any request is queued, live, or any step unfinished. */
bool scheduler_has_work(const struct scheduler *scheduler);

/*
 * What has been decided since the last clear: rows for the detokenizer in order, and rejections.
 * Valid until the next call but for these three.
 */
const struct token_row *scheduler_outputs(const struct scheduler *scheduler, int32_t *out_num_rows);
const struct rejected_msg *scheduler_rejections(const struct scheduler *scheduler,
                                                int32_t *out_num_rejections);
void scheduler_clear_outputs(struct scheduler *scheduler);

/* Where a log of all calls goes; write does not fail as far as the core can see. */
struct record_sink {
    void (*write)(void *context, const void *data, size_t size);
    void *context; /* borrowed */
};

/*
 * From here on each call that can change a decision is written to the sink (record.h has the format
 * and the replay). To be called before any of them; sink->write NULL ends it.
 */
void scheduler_record_to(struct scheduler *scheduler, const struct record_sink *sink);

struct scheduler_stats {
    int32_t num_queued, num_running, num_waiting_rows; /* rows waiting for an in-flight step */
    int32_t free_pages, cached_pages, private_pages;   /* cached: in the tree; sums to num_pages */
    int32_t evictable_pages, protected_pages;
    int64_t num_steps, num_prefill_tokens, num_decode_tokens, num_wasted_rows;
    int64_t num_prompt_tokens,
        num_cached_tokens;       /* of admitted requests: hit rate is their ratio */
    int64_t num_admission_tries; /* only when something has changed since the last that failed */
    int64_t num_accepted, num_rejected, num_finished, num_aborted, num_errors;
    int64_t num_nan; /* of the errors: requests that NaN logits ended */
};

void scheduler_get_stats(const struct scheduler *scheduler, struct scheduler_stats *out);

/*
 * Walks every structure and checks the invariants of README.md; the first one broken is named. Time
 * grows with everything that is held: tests call it after each step, production on request.
 */
MUST_CHECK struct status scheduler_check(const struct scheduler *scheduler);

#endif
