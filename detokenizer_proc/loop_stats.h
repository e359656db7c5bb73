/* loop_stats.h - what the detokenizer tells about itself, as a JSON object. */
#ifndef DETOKENIZER_PROC_LOOP_STATS_H
#define DETOKENIZER_PROC_LOOP_STATS_H

#include "common/json.h"
#include "detokenizer_proc/detokenizer.h"

/* What the loop itself counts. */
struct loop_counters {
    int64_t start_ns;
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t frames_dropped; /* no message, or of another run */
};

/* Replaces the writer's text. */
void loop_stats_write(const struct detokenizer *d, const struct loop_counters *counters,
                      int64_t now_ns, struct json_writer *out);

#endif
