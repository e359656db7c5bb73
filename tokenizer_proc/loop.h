/*
 * loop.h - the tokenizer process: its three sockets around jobs and workers.
 *
 *   endpoint   ROUTER, bound    frames of clients, one answer to each
 *   scheduler  PUSH, connected  requests and aborts, to the scheduler
 *   control    REP, bound       ping, stats, drain, log_level; may be left out
 */
#ifndef TOKENIZER_PROC_LOOP_H
#define TOKENIZER_PROC_LOOP_H

#include "common/status.h"
#include "tokenizer_proc/prompt.h"

struct loop_args {
    const struct prompt_model *model;                 /* borrowed */
    const char *model_dir;                            /* for info */
    const char *endpoint, *scheduler, *control;       /* control may be NULL */
    const char *curve_server_key, *curve_client_keys; /* of the clients' endpoint; or NULL */
    uint64_t run;                                     /* goes into every frame to the scheduler */
    uint16_t instance;                                /* the upper 16 bits of every uid */
    int num_threads;
    size_t max_pending_bytes; /* frames of clients that are not answered; beyond: overloaded */
    size_t max_queued_bytes;  /* frames that the scheduler has not taken; beyond: overloaded */
};

struct loop; /* opaque */

MUST_CHECK struct status loop_open(const struct loop_args *args, struct loop **out);

/* False: a thread was still at work after a bounded wait. What it may touch, the model included, is
 * then left as it is, for the process to end with. */
bool loop_close(struct loop **loop);

/* The endpoints as bound, for the line that says that the process is ready. */
const char *loop_endpoint(const struct loop *loop);
const char *loop_control(const struct loop *loop); /* "" without one */

/* Serves until a signal asks to stop, or until a drain has nothing left to do. Requests that come
 * after either, and those that are not ready in time, are answered with shutting_down. */
void loop_run(struct loop *loop);

#endif
