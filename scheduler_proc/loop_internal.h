/* loop_internal.h - what loop.c, loop_control.c and loop_trace.c share. Nobody else includes it. */
#ifndef SCHEDULER_PROC_LOOP_INTERNAL_H
#define SCHEDULER_PROC_LOOP_INTERNAL_H

#include "common/arena.h"
#include "common/log.h"
#include "proto/control_endpoint.h"
#include "proto/link.h"
#include "proto/messages_codec.h"
#include "scheduler_proc/loop.h"
#include "scheduler_proc/loop_stats.h"
#include "scheduler_proc/step_times.h"

struct loop {
    struct loop_args args;
    struct link *endpoint, *detokenizer; /* owned */
    struct control_endpoint control;     /* owned */
    struct link_poller *poller;          /* owned */
    struct arena arena;                  /* of one frame */
    struct frame_buffer frame;           /* owned */

    struct engine *engine; /* borrowed, as the next two, while it runs */
    struct scheduler *scheduler;
    struct trace *trace;
    int64_t num_wasted_traced; /* of the steps in the trace so far */
    struct step_times times;
    struct loop_counters counters;
    struct log_limit garbage_limit, nan_limit;
    bool is_draining;
    int64_t deadline_ns;  /* of a shutdown's grace; 0: none */
    int64_t looks_end_ns; /* of a drain that only looks for frames on their way; 0: none */
    uint64_t num_seen;    /* frames that had come at the last of these looks */
    bool has_slept;       /* since the last step was launched, or there was none yet */
};

/* What was done from begin_ns until now: counted, and traced with the step that it was done for (or
 * NULL). */
void loop_end_phase(struct loop *loop, enum loop_phase phase, int64_t begin_ns,
                    const struct batch *batch);

/* The same for LOOP_UPLOAD and LOOP_LAUNCH, of a launch that has just returned. */
void loop_end_launch(struct loop *loop, int64_t begin_ns, const struct batch *batch);

/* The same for LOOP_PROCESS: also the pages, and the rows that the step computed for nobody. */
void loop_end_process(struct loop *loop, int64_t begin_ns, const struct batch *batch);

/* A step ran on the device. */
void loop_trace_device(struct loop *loop, const struct engine_times *times,
                       const struct batch *batch);

/* A request has come; has been refused; requests have gone on, or ended. */
void loop_trace_arrival(struct loop *loop, uint64_t uid);
void loop_trace_refusal(struct loop *loop, uint64_t uid);
void loop_trace_outputs(struct loop *loop, const struct token_row *rows, int32_t num_rows);

/* From now on no new requests are taken, and the loop ends with the last of the old ones. */
void loop_drain(struct loop *loop);

/* Does what the control endpoint asks of a loop (process). */
struct status loop_obey(void *process, enum control_command command, struct json_writer *info);

#endif
