/*
 * answers.h - answers on their way to clients: sent at once, or kept while the client does not
 * read, and given up when it has not for too long.
 */
#ifndef TOKENIZER_PROC_ANSWERS_H
#define TOKENIZER_PROC_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log.h"
#include "proto/link.h"
#include "tokenizer_proc/client_queue.h"

enum { ANSWERS_RETRY_MS = 2 }; /* between attempts to send what was kept */

struct answers {
    struct link *endpoint; /* borrowed: the ROUTER */
    uint64_t frames_out, bytes_out;
    uint64_t num_lost; /* their client was gone, or did not read */
    struct log_limit lost_limit;
};

/* What the client does not take now waits in its queue, behind what waits already, which is tried
 * first: ZeroMQ's pipe takes few at a time, so one that reads must not have to wait for a retry. */
void answers_send(struct answers *answers, struct client_queues *clients,
                  struct client_queue *client, struct bytes answer);

/* So much waits for the client that no more should be done for it before it reads. */
bool answers_are_many(const struct client_queue *client);

/* Tries again with what waits. False: the client has read nothing for too long, or lets
 * hundreds of thousands wait, or is gone, and has lost it. One that reads along, however slowly,
 * and sends no more while it is refused, does not. */
bool answers_retry(struct answers *answers, struct client_queues *clients,
                   struct client_queue *client, int64_t now_ns);

#endif
