/*
 * loop.h - the scheduler process: sockets and engine around the core's decisions.
 *
 *   endpoint     PULL, bound      request and abort, from tokenizer and detokenizer
 *   detokenizer  PUSH, connected  tokens and rejected
 *   control      REP, bound       the commands of PROTOCOL.md section 6; may be left out
 *
 *   normal:   receive -> form k -> launch k -> process k
 *   overlap:  receive -> form k -> launch k -> process k-1     (k runs on the device meanwhile)
 *
 * Source: mini-sglang scheduler/scheduler.py, overlap_loop and normal_loop.
 */
#ifndef SCHEDULER_PROC_LOOP_H
#define SCHEDULER_PROC_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "scheduler_proc/engine.h"
#include "scheduler_proc/scheduler.h"
#include "scheduler_proc/trace.h"

struct loop_args {
    const char *endpoint, *detokenizer, *control; /* control may be NULL */
    const char *curve_keys;                       /* see link.h; or NULL */
    uint64_t run;       /* frames of another run are dropped; 0: none are */
    bool is_overlapped; /* until the control endpoint is told otherwise */
    int64_t grace_ns;   /* how long running requests may go on after SIGTERM */
};

struct loop; /* opaque */

/* Opens the sockets. */
MUST_CHECK struct status loop_open(const struct loop_args *args, struct loop **out);
void loop_close(struct loop **loop);

/* The endpoints as bound; "" for a control that is none. */
const char *loop_endpoint(const struct loop *loop);
const char *loop_control(const struct loop *loop);

/*
 * Serves until a signal or `drain` has ended it: all requests have then had their terminal message.
 * STATUS_DEVICE after a fault of the device, which ends all requests with `internal`. Engine,
 * scheduler and trace (may be NULL) are borrowed.
 */
MUST_CHECK struct status loop_run(struct loop *loop, struct engine *engine,
                                  struct scheduler *scheduler, struct trace *trace);

#endif
