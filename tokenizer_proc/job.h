/*
 * job.h - one frame of a client, from its arrival to its answer.
 *
 * It holds a copy of the frame, since messages borrow from it, and what comes out of it: an answer
 * for the client and perhaps a frame for the scheduler. Between its creation and its release one
 * thread works on it: job_run().
 */
#ifndef TOKENIZER_PROC_JOB_H
#define TOKENIZER_PROC_JOB_H

#include <stdbool.h>

#include "common/arena.h"
#include "common/status.h"
#include "proto/messages_codec.h"
#include "tokenizer_proc/prompt.h"

struct client_queue;

struct job {
    struct job *next;           /* in the list that it is in: of workers, or of those done */
    struct job *next_of_client; /* arrived later, from the same client */
    struct client_queue *queue; /* borrowed: that client's */
    uint8_t *frame;             /* owned */
    struct arena arena;         /* of the message, then of its prompt */
    struct message message;     /* borrows from both; valid if it could be decoded */
    struct bytes rid;           /* its name, as far as it could be read */
    struct client_id client;    /* all zero for a peer that is no client */
    int64_t now_s;              /* of its arrival, since 1970: what a template sees */
    uint64_t run, uid, seed;    /* uid: of generate; seed: if the request has none */
    uint64_t uid_mark; /* no request that arrived before it has this uid or a greater one */
    bool is_done;
    size_t cost; /* bytes that it is counted with until its release */
    size_t num_prompt_tokens;
    enum error_code error;       /* of the answer; ERROR_NONE: accepted or a result */
    struct frame_buffer answer;  /* never empty once done */
    struct frame_buffer request; /* for the scheduler; empty: nothing */
};

/*
 * Copies and decodes a frame. The job is made even if the frame is at fault (else the status is
 * NO_MEMORY): out_status and out_fault are message_decode's; or out_status is NO_MEMORY where there
 * is none for the copy. Then the job borrows from the frame, and is good for nothing but to be
 * refused at once.
 */
MUST_CHECK struct status job_create(struct bytes frame, struct job **out, struct status *out_status,
                                    struct message_fault *out_fault);
void job_destroy(struct job **job);

/* Does what a generate, tokenize or render asks for, on a worker's thread. */
void job_run(struct job *job, struct prompt_maker *maker);

/* Replaces the answer, and takes back what was to go to the scheduler. */
void job_refuse(struct job *job, enum error_code code, const char *text);

/* The answers to abort (nothing but its rid) and info. */
void job_answer(struct job *job, struct bytes info);

/* The frame for the scheduler of an abort of uid. */
void job_abort(struct job *job, uint64_t uid);

#endif
