/*
 * step.h - the storage of one batch, filled row by row. Two of them take turns, since at most two
 * steps are unfinished.
 */
#ifndef SCHEDULER_PROC_STEP_H
#define SCHEDULER_PROC_STEP_H

#include "scheduler_proc/batch.h"
#include "scheduler_proc/req.h"

struct step {
    struct batch batch;                         /* its arrays are those below */
    bool is_launched;                           /* formed and not finished */
    struct batch_row *rows;                     /* owned, as all of these: [max_rows] */
    int32_t *positions, *out_loc;               /* [max_tokens] */
    struct step_span *token_spans, *page_spans; /* [max_token_spans], [max_page_spans] */
    int32_t *values;                            /* [max_values] */
};

/* A failed init zeroes it, and deinit takes a zero. */
MUST_CHECK struct status step_init(struct step *step, const struct batch_limits *limits);
void step_deinit(struct step *step);

/* An empty batch of that number. */
void step_reset(struct step *step, int64_t number);

/*
 * Adds the next extend_len tokens of req, whose pages[0 .. num_pages) reach to their end. Room was
 * seen to. Advances the request as its launch does: cached_len, device_len, synced_pages, inflight.
 */
void step_add_row(struct step *step, struct req *req, int32_t extend_len, int32_t page_size);

#endif
