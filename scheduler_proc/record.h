/*
 * record.h - the core's whole input as a log of bytes, and its replay. The core is deterministic:
 * the same log gives the same steps, bit by bit; each step's digest stands in the log to prove it.
 *
 * A log is a head (magic, configuration) and records: a kind, then its fields, little-endian.
 * Prompts are in it as token ids; reply_to is not, but for its size. A log that was cut anywhere
 * (its writer was killed) is a shorter log.
 */
#ifndef SCHEDULER_PROC_RECORD_H
#define SCHEDULER_PROC_RECORD_H

#include "scheduler_proc/scheduler.h"

/* Each writes one piece of the log through sink->write, in one call or more. */
void record_head(const struct record_sink *sink, const struct scheduler_config *config);
void record_submit(const struct record_sink *sink, const struct request_msg *request);
void record_abort(const struct record_sink *sink, const struct abort_msg *abort);
void record_end_all(const struct record_sink *sink, enum error_code code);
void record_drain(const struct record_sink *sink);
void record_flush_cache(const struct record_sink *sink);
/* batch: what was formed, or NULL. */
void record_next_batch(const struct record_sink *sink, const struct batch *batch);
void record_finish_step(const struct record_sink *sink, const struct batch *batch,
                        const int32_t *tokens);

/* A hash of all that the batch tells the engine; never 0. */
uint64_t record_digest(const struct batch *batch);

struct replay_result {
    int64_t num_steps;    /* that were formed again and are the same */
    int64_t num_requests; /* submitted, refused ones too */
    int64_t num_tokens;   /* put out */
    bool is_cut;          /* the last record is not whole */
    bool is_broken;       /* an invariant did not hold where the replay ended */
};

/*
 * Drives a fresh scheduler through the log. STATUS_FORMAT: these bytes are no log; STATUS_INVALID:
 * a step differs from the recorded one, or an invariant is broken; the message names the step. out
 * is written in any case: how far it came.
 */
MUST_CHECK struct status replay_run(const uint8_t *data, size_t size, struct replay_result *out);

#endif
