/*
 * batch.h - what one step computes: rows, and what the device must be told before it. Made by the
 * scheduler's core, launched by the engine. Numbers only; no memory of a device is named here.
 */
#ifndef SCHEDULER_PROC_BATCH_H
#define SCHEDULER_PROC_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/step_block.h"

struct req; /* scheduler_proc/req.h; the engine does not look inside */

/*
 * A snapshot of one request's share of a step. It samples iff it ends at the request's device_len;
 * if it does not, its token goes to the dummy row of token_pool.
 */
struct batch_row {
    struct req *req; /* borrowed from the core, which keeps it until the step is processed */
    uint64_t seed;
    int32_t table_idx;
    int32_t start;      /* position of its first token: cached_len before launch */
    int32_t extend_len; /* tokens computed, at least 1 */
    bool samples;
    float temperature, top_p, min_p;
    int32_t top_k;
};

struct batch {
    int64_t step; /* 0, 1, 2, ... */
    int32_t num_rows;
    int32_t num_tokens;         /* sum of extend_len */
    int32_t num_prefill_tokens; /* of them, tokens of rows that are not decode rows */
    int32_t max_extend_len;
    int32_t num_extend_rows;      /* rows of several tokens */
    int32_t max_kv_len;           /* largest start + extend_len */
    bool is_decode;               /* every row samples and has extend_len 1 */
    const struct batch_row *rows; /* [num_rows] */
    const int32_t *positions;     /* [num_tokens], row after row */
    const int32_t
        *out_loc; /* [num_tokens]: slot that K and V of each token go to, fixed at forming */
    /* Changes of token_pool and page_table that must stand before the step runs. */
    const struct step_span *token_spans, *page_spans;
    int32_t num_token_spans, num_page_spans;
    const int32_t *values; /* [num_values]: the spans' contents */
    int32_t num_values;
};

/* Most that any batch holds; the engine sizes the packed block by it. */
struct batch_limits {
    int32_t max_rows;        /* max_running_reqs */
    int32_t max_tokens;      /* prefill budget + max_running_reqs */
    int32_t max_token_spans; /* max_rows */
    int32_t max_page_spans;
    int32_t max_values;
};

/* Most pages that a cache can have: slot numbers, the dummy page's too, and sums of two counts of
 * pages are int32_t. */
static inline int32_t batch_max_pages(int32_t page_size)
{
    return INT32_MAX / 2 / page_size - 1;
}

#endif
