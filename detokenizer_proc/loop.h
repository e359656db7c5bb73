/*
 * loop.h - the detokenizer process: its four sockets around the decisions of detokenizer.h.
 *
 *   input      PULL, bound      tokens and rejected, from the scheduler
 *   scheduler  PUSH, connected  aborts, to the scheduler
 *   endpoint   ROUTER, bound    hello from clients; hello_ok, deltas, error and alive to them
 *   control    REP, bound       ping, stats, drain, log_level; may be left out
 */
#ifndef DETOKENIZER_PROC_LOOP_H
#define DETOKENIZER_PROC_LOOP_H

#include "common/status.h"
#include "common/vocabulary.h"

struct loop_args {
    const struct vocabulary *vocabulary;                /* borrowed */
    const char *input, *scheduler, *endpoint, *control; /* control may be NULL */
    const char *curve_keys;                             /* see link.h; or NULL */
    uint64_t run;            /* a frame of another run is dropped unless one of the two is 0 */
    size_t max_unsent_bytes; /* of a client that does not read; 0: see detokenizer.h */
    int64_t max_stall_ns;    /* the same */
};

struct loop; /* opaque */

/* Opens the sockets. */
MUST_CHECK struct status loop_open(const struct loop_args *args, struct loop **out);
void loop_close(struct loop **loop);

/* The endpoints as bound, for the line that says that the process is ready. */
const char *loop_input(const struct loop *loop);
const char *loop_endpoint(const struct loop *loop);
const char *loop_control(const struct loop *loop); /* "" without one */

/* Serves until a signal asks to stop. Requests that are open then, when all that the scheduler has
 * sent is read, end with the error shutting_down. */
void loop_run(struct loop *loop);

#endif
