/*
 * front.h - what clients see of the tokenizer process: each frame of theirs has one answer, and
 * what it asks of the scheduler is sent there.
 *
 * Nothing waits here: the loop around it does, for the two links, for the descriptor, and at most
 * as long as it is told.
 */
#ifndef TOKENIZER_PROC_FRONT_H
#define TOKENIZER_PROC_FRONT_H

#include "common/json.h"
#include "common/status.h"
#include "proto/link.h"
#include "tokenizer_proc/prompt.h"

struct front_args {
    const struct prompt_model *model; /* borrowed */
    const char *model_dir;            /* for info */
    const char *endpoint, *scheduler; /* ROUTER, bound; PUSH, connected */
    const char *curve_keys;           /* see link.h; or NULL */
    uint64_t run;                     /* goes into every frame to the scheduler */
    uint16_t instance;                /* the upper 16 bits of every uid */
    int num_threads;
    size_t max_pending_bytes; /* frames of clients that are not answered; beyond: overloaded */
    size_t max_unsent_bytes;  /* frames that the scheduler has not taken; beyond: overloaded */
};

struct front; /* opaque */

MUST_CHECK struct status front_open(const struct front_args *args, struct front **out);

/* What is not ready by now is answered with shutting_down. False: a thread was still at work after
 * a bounded wait. What it may touch, the model included, is then left for the process to end with.
 */
bool front_close(struct front **front);

/* What a poller waits for; borrowed. */
struct link *front_endpoint(const struct front *front);
struct link *front_scheduler(const struct front *front);
int front_fd(const struct front *front);
int front_timeout_ms(const struct front *front); /* -1: no end of the wait */

/* Takes what has arrived, lets go of what is done. */
void front_turn(struct front *front);

/* From now on requests are refused with shutting_down; drained: and all others are answered. */
void front_drain(struct front *front);
bool front_is_drained(const struct front *front);

/* A JSON object, into a writer that is emptied first. */
void front_write_stats(const struct front *front, struct json_writer *out);

#endif
