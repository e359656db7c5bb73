/* loop_stats.h - the JSON object that the scheduler answers to `stats`. */
#ifndef SCHEDULER_PROC_LOOP_STATS_H
#define SCHEDULER_PROC_LOOP_STATS_H

#include <stdint.h>

#include "common/json.h"
#include "scheduler_proc/engine.h"
#include "scheduler_proc/scheduler.h"
#include "scheduler_proc/step_times.h"

/* What the loop's thread does, in the order of a turn. */
enum loop_phase {
    LOOP_SLEEP, /* nothing to do */
    LOOP_RECEIVE,
    LOOP_FORM,
    LOOP_UPLOAD, /* the first half of a launch: the batch packed, its copy handed over */
    LOOP_LAUNCH,
    LOOP_WAIT, /* for the device */
    LOOP_PROCESS,
    LOOP_SEND,
    LOOP_NUM_PHASES
};

extern const char *const loop_phase_names[LOOP_NUM_PHASES];

struct loop_counters {
    int64_t start_ns;
    uint64_t frames_in, frames_out, bytes_out, frames_dropped;
    int64_t phase_ns[LOOP_NUM_PHASES];
};

/* What else the loop knows of its state. */
struct loop_state {
    bool is_overlapped, is_draining;
    size_t unsent_bytes; /* queued for the detokenizer */
};

/* Replaces the writer's text. */
void loop_stats_write(const struct scheduler *scheduler, const struct engine_info *engine,
                      const struct step_times *times, const struct loop_counters *counters,
                      const struct loop_state *state, struct json_writer *out);

#endif
