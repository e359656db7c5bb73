/*
 * scheduler_state.h - the scheduler from the inside, for its own files. They are one module, cut
 * along a request's life:
 *
 *     scheduler.c  what callers see            prefill.c  the next chunks of prompts
 *     submit.c     a request comes, or not     decode.c   the next token of each stream
 *     admission.c  a row and pages for it      finish.c   results, and the two ends of a request
 *                                              check.c    the invariants
 */
#ifndef SCHEDULER_PROC_SCHEDULER_STATE_H
#define SCHEDULER_PROC_SCHEDULER_STATE_H

#include "scheduler_proc/client_table.h"
#include "scheduler_proc/outputs.h"
#include "scheduler_proc/page_pool.h"
#include "scheduler_proc/prefix_cache.h"
#include "scheduler_proc/req_table.h"
#include "scheduler_proc/scheduler.h"
#include "scheduler_proc/step.h"

enum {
    MAX_PREFILL_STREAK = 8, /* prefill steps in a row while a stream waits (prefill-first) */
    QUEUE_WINDOW = 16,      /* of the queue, looked at for the longest cached prefix */
    MAX_PASSES = 8,         /* of the first by later ones */
    NUM_STEPS = 2,          /* unfinished at a time */
};

struct scheduler {
    struct scheduler_config config;
    struct batch_limits limits;
    int32_t *eos_ids;          /* owned */
    int32_t max_pages_per_req; /* of a row of the page table */
    int32_t prefill_budget;    /* whole pages */

    struct page_pool pool;
    struct prefix_cache *cache; /* owned */
    struct req_table table;
    struct client_table clients;
    int32_t *page_table; /* owned: the host's, [max_running_reqs][max_pages_per_req] */
    int32_t owed_pages;  /* reserved and not yet on a row, over all live requests */

    struct req_list queue;    /* REQ_QUEUED */
    struct req_list prefills; /* REQ_PREFILL */
    struct req_list decodes;  /* REQ_DECODE */

    struct step steps[NUM_STEPS]; /* step k is in steps[k % NUM_STEPS] */
    int64_t next_step;            /* to be formed */
    int64_t next_result;          /* oldest unfinished; next_step when there is none */

    struct outputs outputs;
    struct record_sink sink; /* write is NULL when nothing is recorded */
    bool draining;
    bool admission_waits; /* the head of the queue did not fit, and nothing has changed since */
    int32_t prefill_streak;

    int64_t num_prefill_tokens, num_decode_tokens, num_wasted_rows;
    int64_t num_prompt_tokens, num_cached_tokens, num_admission_tries;
    int64_t num_accepted, num_rejected, num_finished, num_aborted, num_errors, num_nan;
};

static inline int32_t scheduler_num_pages(const struct scheduler *scheduler, int32_t len)
{
    return (int32_t)(((int64_t)len + scheduler->config.page_size - 1) /
                     scheduler->config.page_size);
}

/* ---- admission.c ---- */

/*
 * Moves the lock of req down to `to`, a continuation of its handle: the row is remapped to the
 * tree's pages, the request's own pages for those positions are freed, and positions that the tree
 * has need not be computed.
 */
void scheduler_remap(struct scheduler *scheduler, struct req *req, struct cache_handle to);

/* Looks again for pages of req's prompt that others have computed meanwhile. */
void scheduler_match_again(struct scheduler *scheduler, struct req *req);

/* Makes the row's pages reach to position `end`, out of what is reserved for it. */
void scheduler_extend_row(struct scheduler *scheduler, struct req *req, int32_t end);

/*
 * Gives the next of the queue a row, its cached prefix and its reservation, if it fits and the step
 * has room for a first chunk within the budget. Then it is in prefills. False changes nothing.
 */
bool scheduler_admit(struct scheduler *scheduler, const struct step *step, int32_t budget);

/* ---- prefill.c, decode.c ---- */

/* The next chunk of a prompt that is computed up to start: 0 when the budget is below a page. */
int32_t scheduler_chunk_len(const struct scheduler *scheduler, int32_t start, int32_t prompt_len,
                            int32_t budget);
/* Whether a chunk's tokens and pages still fit the packed block. */
bool scheduler_has_room(const struct scheduler *scheduler, const struct step *step,
                        int32_t num_tokens, int32_t num_pages);

void scheduler_form_prefill(struct scheduler *scheduler, struct step *step);
void scheduler_form_decode(struct scheduler *scheduler, struct step *step);

/* ---- finish.c ---- */

/* Ends a request, once: later calls do nothing. token or TOKEN_NONE goes out with the terminal. */
void scheduler_finish_req(struct scheduler *scheduler, struct req *req, int32_t token,
                          enum finish_reason reason, enum error_code error);

#endif
