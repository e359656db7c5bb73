/*
 * client_queue.h - what is under way for each client: its jobs in the order of their arrival, and
 * answers that its socket did not take.
 *
 * Jobs are done in any order and released in that of their arrival, so that an abort comes behind
 * the request that it names. A client with neither jobs nor answers has no queue here.
 */
#ifndef TOKENIZER_PROC_CLIENT_QUEUE_H
#define TOKENIZER_PROC_CLIENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "proto/messages.h"
#include "tokenizer_proc/job.h"

enum {
    CLIENT_MAX_PEER_BYTES = 256,
    CLIENT_NUM_BUCKETS = 1024,
    CLIENT_ANSWER_OVERHEAD = 32, /* bytes: what an unsent answer costs beside its own, about */
};

struct unsent_answer; /* opaque */

struct client_queue {
    struct client_queue *next_in_bucket;
    struct client_queue *older, *newer; /* all of them, in a list */
    size_t peer_size;
    uint8_t peer[CLIENT_MAX_PEER_BYTES];
    struct job *first_job, *last_job; /* borrowed, by next_of_client */
    size_t num_jobs;
    struct unsent_answer *first_unsent, *last_unsent; /* owned */
    size_t num_unsent, unsent_bytes;                  /* with the overhead of each */
    int64_t unsent_since_ns;                          /* since when none of them has gone */
};

struct client_queues {
    struct client_queue *buckets[CLIENT_NUM_BUCKETS]; /* owned */
    struct client_queue *newest;                      /* borrowed: of all, by older */
    size_t num_queues;
    size_t num_blocked;              /* of them, with unsent answers */
    size_t num_unsent, unsent_bytes; /* of all */
};

/* Frees all queues. The jobs are not theirs. */
void client_queues_deinit(struct client_queues *queues);

/* The client's queue, made if it has none; NULL: no memory. */
struct client_queue *client_queue_take(struct client_queues *queues, struct bytes peer);

/* Frees the queue if nothing is in it. */
void client_queue_give(struct client_queues *queues, struct client_queue *queue);

/* At the end of the queue; and the first job, if it is done, taken out; else NULL. */
void client_queue_append(struct client_queue *queue, struct job *job);
struct job *client_queue_pop_done(struct client_queue *queue);

struct bytes client_queue_peer(const struct client_queue *queue);

/* Keeps a copy of an answer for later. */
MUST_CHECK struct status client_queue_hold(struct client_queues *queues, struct client_queue *queue,
                                           struct bytes answer, int64_t now_ns);
/* The oldest answer kept, 0 bytes when there is none; and out with it: it has gone at now_ns, or is
 * given up. */
struct bytes client_queue_unsent(const struct client_queue *queue);
void client_queue_drop_unsent(struct client_queues *queues, struct client_queue *queue,
                              int64_t now_ns);

#endif
