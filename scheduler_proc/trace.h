/*
 * trace.h - what ran when, as a file for chrome://tracing, ui.perfetto.dev or tools/timeline.
 *
 * {"traceEvents": [...]}, times in microseconds on the monotonic clock:
 *   complete events ("X")  on the track "scheduler" sleep (nothing to do), receive, form, upload,
 *                          launch, wait, process and send; on the track "device" the steps
 *   counters ("C")         pages by state, after each step
 *   async events           a span for each request, by its uid: "b" it has come, "n" its first
 *                          token, "e" its end
 * A NULL trace takes all of them and does nothing. Some 2 us and 1 KiB a step. When the file cannot
 * be written any more, a log line says so at once, and nothing more is written.
 */
#ifndef SCHEDULER_PROC_TRACE_H
#define SCHEDULER_PROC_TRACE_H

#include <stdint.h>

#include "common/status.h"

enum trace_track { TRACE_SCHEDULER = 1, TRACE_DEVICE = 2 };

struct trace; /* opaque */

/* path: borrowed until the close. */
MUST_CHECK struct status trace_open(const char *path, struct trace **out);
/* Ends the file. STATUS_IO if anything of it could not be written. */
MUST_CHECK struct status trace_close(struct trace **trace);

struct trace_span {
    enum trace_track track;
    const char *name; /* plain ASCII without quotes */
    int64_t begin_ns, end_ns;
    int64_t step;                 /* or -1: of none; then without the rest */
    int32_t num_tokens, num_rows; /* of the step */
    int32_t num_wasted;           /* rows of requests that had ended */
};

void trace_add(struct trace *trace, const struct trace_span *span);

struct trace_pages {
    int64_t time_ns;
    int32_t free, cached, private; /* private: of running requests alone */
};

void trace_add_pages(struct trace *trace, const struct trace_pages *pages);

/* What is refused, or ended while it waited, has no first token. */
enum trace_request { TRACE_REQUEST_ARRIVAL, TRACE_REQUEST_FIRST, TRACE_REQUEST_END };

void trace_add_request(struct trace *trace, enum trace_request what, uint64_t uid, int64_t time_ns);

#endif
