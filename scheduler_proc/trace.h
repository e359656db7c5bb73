/*
 * trace.h - what ran when, as a file for chrome://tracing, ui.perfetto.dev or tools/timeline.
 *
 * {"traceEvents": [...]} with complete events ("ph": "X", microseconds on the monotonic clock): on
 * the track "scheduler" sleep (nothing to do), receive, form, launch, wait, process and send, on
 * the track "device" the steps, each with its step number. A NULL trace takes spans and does
 * nothing.
 */
#ifndef SCHEDULER_PROC_TRACE_H
#define SCHEDULER_PROC_TRACE_H

#include <stdint.h>

#include "common/status.h"

enum trace_track { TRACE_SCHEDULER = 1, TRACE_DEVICE = 2 };

struct trace; /* opaque */

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

#endif
