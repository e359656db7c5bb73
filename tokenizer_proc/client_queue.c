/*
 * client_queue.c - see client_queue.h.
 *
 *   buckets[hash of peer] -> queue -> queue ...          newest -> older -> older ...
 */
#include "tokenizer_proc/client_queue.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

struct unsent_answer {
    struct unsent_answer *next;
    size_t size;
    uint8_t data[];
};

/* Identities are random, but made by the client: chains may grow long for one that wants them to,
 * and are bounded by the jobs and answers that may wait. */
static struct client_queue **bucket_of(struct client_queues *queues, struct bytes peer)
{
    uint64_t hash = hash_bytes(hash_start, peer.data, peer.size);

    return &queues->buckets[(hash ^ hash >> 32) % CLIENT_NUM_BUCKETS];
}

struct bytes client_queue_peer(const struct client_queue *queue)
{
    return (struct bytes){.data = queue->peer, .size = queue->peer_size};
}

struct client_queue *client_queue_take(struct client_queues *queues, struct bytes peer)
{
    struct client_queue **bucket = bucket_of(queues, peer);
    struct client_queue *queue = *bucket;

    while (queue &&
           (queue->peer_size != peer.size || memcmp(queue->peer, peer.data, peer.size) != 0))
        queue = queue->next_in_bucket;
    if (queue || peer.size > CLIENT_MAX_PEER_BYTES)
        return queue;
    queue = calloc(1, sizeof(*queue));
    if (!queue)
        return NULL;
    memcpy(queue->peer, peer.data, peer.size);
    queue->peer_size = peer.size;
    queue->next_in_bucket = *bucket;
    *bucket = queue;
    queue->older = queues->newest;
    if (queues->newest)
        queues->newest->newer = queue;
    queues->newest = queue;
    queues->num_queues++;
    return queue;
}

void client_queue_give(struct client_queues *queues, struct client_queue *queue)
{
    struct client_queue **link;

    if (queue->first_job || queue->first_unsent)
        return;
    link = bucket_of(queues, client_queue_peer(queue));
    while (*link != queue)
        link = &(*link)->next_in_bucket;
    *link = queue->next_in_bucket;
    if (queue->newer)
        queue->newer->older = queue->older;
    else
        queues->newest = queue->older;
    if (queue->older)
        queue->older->newer = queue->newer;
    queues->num_queues--;
    free(queue);
}

void client_queues_deinit(struct client_queues *queues)
{
    while (queues->newest) {
        struct client_queue *queue = queues->newest;

        while (queue->first_unsent)
            client_queue_drop_unsent(queues, queue, 0);
        queue->first_job = NULL;
        client_queue_give(queues, queue);
    }
}

void client_queue_append(struct client_queue *queue, struct job *job)
{
    job->queue = queue;
    job->next_of_client = NULL;
    if (queue->last_job)
        queue->last_job->next_of_client = job;
    else
        queue->first_job = job;
    queue->last_job = job;
    queue->num_jobs++;
}

struct job *client_queue_pop_done(struct client_queue *queue)
{
    struct job *job = queue->first_job;

    if (!job || !job->is_done)
        return NULL;
    queue->first_job = job->next_of_client;
    if (!queue->first_job)
        queue->last_job = NULL;
    queue->num_jobs--;
    return job;
}

/* Both wrap around when an answer goes. */
static void count_unsent(struct client_queues *queues, struct client_queue *queue, size_t num,
                         size_t num_bytes)
{
    queue->num_unsent += num;
    queue->unsent_bytes += num_bytes;
    queues->num_unsent += num;
    queues->unsent_bytes += num_bytes;
}

struct status client_queue_hold(struct client_queues *queues, struct client_queue *queue,
                                struct bytes answer, int64_t now_ns)
{
    struct unsent_answer *unsent = malloc(sizeof(*unsent) + answer.size);

    if (!unsent)
        return status_error(STATUS_NO_MEMORY, "no memory to keep an answer");
    unsent->next = NULL;
    unsent->size = answer.size;
    memcpy(unsent->data, answer.data, answer.size);
    if (queue->last_unsent) {
        queue->last_unsent->next = unsent;
    } else {
        queue->first_unsent = unsent;
        queue->unsent_since_ns = now_ns;
        queues->num_blocked++;
    }
    queue->last_unsent = unsent;
    count_unsent(queues, queue, 1, answer.size + CLIENT_ANSWER_OVERHEAD);
    return status_ok();
}

struct bytes client_queue_unsent(const struct client_queue *queue)
{
    const struct unsent_answer *unsent = queue->first_unsent;

    if (!unsent)
        return (struct bytes){0};
    return (struct bytes){.data = unsent->data, .size = unsent->size};
}

void client_queue_drop_unsent(struct client_queues *queues, struct client_queue *queue,
                              int64_t now_ns)
{
    struct unsent_answer *unsent = queue->first_unsent;

    if (!unsent)
        return;
    queue->first_unsent = unsent->next;
    count_unsent(queues, queue, -1, -(unsent->size + CLIENT_ANSWER_OVERHEAD));
    queue->unsent_since_ns = now_ns;
    if (!queue->first_unsent) {
        queue->last_unsent = NULL;
        queues->num_blocked--;
    }
    free(unsent);
}
