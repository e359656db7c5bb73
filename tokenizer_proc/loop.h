/*
 * loop.h - the tokenizer process: three sockets, and the wait for them.
 *
 *   endpoint   ROUTER, bound    frames of clients, one answer to each
 *   scheduler  PUSH, connected  requests and aborts, to the scheduler
 *   control    REP, bound       ping, stats, drain, log_level; may be left out
 */
#ifndef TOKENIZER_PROC_LOOP_H
#define TOKENIZER_PROC_LOOP_H

#include "common/status.h"
#include "tokenizer_proc/front.h"

struct loop_args {
    struct front_args front;
    const char *control; /* or NULL */
};

struct loop; /* opaque */

MUST_CHECK struct status loop_open(const struct loop_args *args, struct loop **out);

/* False: see front_close(). */
bool loop_close(struct loop **loop);

/* The endpoints as bound, for the line that says that the process is ready. */
const char *loop_endpoint(const struct loop *loop);
const char *loop_control(const struct loop *loop); /* "" without one */

/* Serves until a signal asks to stop, or until a drain has nothing left to do. Requests that come
 * after either, and those that are not ready in time, are answered with shutting_down. */
void loop_run(struct loop *loop);

#endif
