/*
 * front.c - see front.h.
 *
 *   frame -> job -> its client's queue -> workers -> done -> released in the client's order:
 *   the frame for the scheduler first, then the answer
 *
 * What needs no work is answered at once: faults, refusals, info.
 */
#include "tokenizer_proc/front.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "proto/messages_codec.h"
#include "tokenizer_proc/answers.h"
#include "tokenizer_proc/front_stats.h"
#include "tokenizer_proc/rid_ring.h"
#include "tokenizer_proc/workers.h"

enum {
    MAX_FRAMES_PER_TURN = 64,       /* so that what is done gets its turn */
    ABORT_RESERVE_BYTES = 16 << 20, /* of the scheduler's queue, for aborts beyond the bound */
    SCHEDULER_SEND_MARK = 16,       /* prompts are large: few may wait uncounted */
    INSTANCE_SHIFT = 48,
    DRAIN_MS = 1000,  /* that a drain waits for clients */
    THREADS_MS = 200, /* for the workers to end */
    LINGER_MS = 100,
};

struct front {
    struct front_args args;
    struct link *endpoint, *scheduler; /* owned */
    struct workers *workers;           /* owned */
    struct client_queues clients;
    struct answers answers;
    struct rid_ring *rids; /* owned */
    struct frame_buffer frame;
    struct json_writer text;
    struct front_counters counters;
    struct log_limit garbage_limit, overload_limit;
    size_t num_pending, pending_bytes; /* jobs in queues */
    uint64_t last_uid;                 /* the counter in it */
    int64_t next_retry_ns;
    bool has_more; /* the last turn has not taken all frames that were there */
    bool is_draining;
    int64_t drain_end_ns; /* of its patience with clients */
};

/* Clients that send on and on, or do not read, do not hold a drain up for longer. */
static bool has_waited_for_clients(const struct front *front)
{
    return front->is_draining && clock_now_ns() >= front->drain_end_ns;
}

/* ---- answers that wait ---- */

/* Its answers are lost, so nobody knows of its requests. */
static void abort_client(struct front *front, const struct client_queue *client)
{
    struct message message = {
        .type = MESSAGE_ABORT, .run = front->args.run, .abort = {.by_client = true}};
    struct client_id *id = &message.abort.client;

    if (client->peer_size != sizeof(id->bytes))
        return;
    memcpy(id->bytes, client->peer, client->peer_size);
    if (message_encode(&message, &front->frame).code ||
        link_send(front->scheduler, front->frame.data, front->frame.size).code)
        log_warn("an abort did not go to the scheduler: its queue is full");
}

static void retry_blocked(struct front *front)
{
    int64_t now_ns = clock_now_ns();

    if (!front->clients.num_blocked || now_ns < front->next_retry_ns)
        return;
    front->next_retry_ns = now_ns + ANSWERS_RETRY_MS * ns_per_ms;
    for (struct client_queue *client = front->clients.newest, *older; client; client = older) {
        older = client->older;
        if (!answers_retry(&front->answers, &front->clients, client, now_ns))
            abort_client(front, client);
        client_queue_give(&front->clients, client);
    }
}

/* ---- jobs done ---- */

/* Passes a request or an abort on; one that does not go is refused. Aborts may use the reserve. */
static void pass_on(struct front *front, struct job *job)
{
    bool is_abort = job->message.type == MESSAGE_CLIENT_ABORT;
    struct status status = status_ok();
    int64_t skipped;

    if (job->request.size == 0)
        return;
    if (!is_abort && link_queued_bytes(front->scheduler) > front->args.max_unsent_bytes)
        status = status_error(STATUS_NO_SPACE, "the scheduler does not take requests");
    if (status.code == STATUS_OK)
        status = link_send(front->scheduler, job->request.data, job->request.size);
    if (status.code == STATUS_OK) {
        front->counters.frames_out++;
        front->counters.bytes_out += job->request.size;
        return;
    }
    if (log_limited(&front->overload_limit, clock_now_ns(), &skipped))
        log_warn("overloaded: %s (%lld more such lines)", status.msg, (long long)skipped);
    job_refuse(job, ERROR_OVERLOADED, "overloaded: the scheduler has not taken what waits already");
}

static void count_answer(struct front *front, const struct job *job)
{
    struct front_counters *counters = &front->counters;

    if (job->error) {
        counters->num_errors[job->error]++;
    } else if (job->message.type == MESSAGE_GENERATE) {
        counters->num_accepted++;
        counters->num_prompt_tokens += job->num_prompt_tokens;
    } else {
        counters->num_results++;
        counters->num_aborts += job->message.type == MESSAGE_CLIENT_ABORT;
    }
}

/* The end of a job: its answer goes out. */
static void finish(struct front *front, struct client_queue *client, struct job *job)
{
    count_answer(front, job);
    if (job->answer.size)
        answers_send(&front->answers, &front->clients, client,
                     (struct bytes){job->answer.data, job->answer.size});
    job_destroy(&job);
}

/* Lets go of what is done at the head of the client's queue. */
static void release(struct front *front, struct client_queue *client)
{
    struct job *job;

    while ((job = client_queue_pop_done(client))) {
        front->num_pending--;
        front->pending_bytes -= job->cost;
        pass_on(front, job);
        finish(front, client, job);
    }
    client_queue_give(&front->clients, client);
}

static void take_done(struct front *front)
{
    struct job *job = workers_take_done(front->workers);

    while (job) {
        struct job *next = job->next; /* the job may be gone after its release */

        job->is_done = true;
        release(front, job->queue);
        job = next;
    }
}

/* ---- frames of clients ---- */

static void drop_frame(struct front *front, const char *why)
{
    int64_t skipped;

    front->counters.frames_dropped++;
    if (log_limited(&front->garbage_limit, clock_now_ns(), &skipped))
        log_warn("frame dropped from=client: %s (%lld more such lines)", why, (long long)skipped);
}

static void refuse(struct front *front, struct client_queue *client, struct job *job,
                   enum error_code code, const char *text)
{
    job_refuse(job, code, text);
    finish(front, client, job);
}

static void enqueue(struct front *front, struct client_queue *client, struct job *job)
{
    front->num_pending++;
    front->pending_bytes += job->cost;
    client_queue_append(client, job);
}

static uint64_t next_uid(const struct front *front)
{
    return (uint64_t)front->args.instance << INSTANCE_SHIFT | (front->last_uid + 1);
}

/* Whether the job may wait here; if not, it is answered. */
static bool has_room(struct front *front, struct client_queue *client, struct job *job)
{
    size_t max = front->args.max_pending_bytes;
    struct status status;
    int64_t skipped;

    if (job->cost > max) { /* later is no better */
        status = status_error(STATUS_NO_SPACE,
                              "the request takes %zu bytes, at most %zu may be at work here",
                              job->cost, max);
        refuse(front, client, job, ERROR_TOO_LONG, status.msg);
        return false;
    }
    if (job->cost <= max - front->pending_bytes)
        return true;
    if (log_limited(&front->overload_limit, clock_now_ns(), &skipped))
        log_warn("overloaded: pending_bytes=%zu max=%zu (%lld more such lines)",
                 front->pending_bytes, max, (long long)skipped);
    refuse(front, client, job, ERROR_OVERLOADED, "overloaded: too many prompts wait already");
    return false;
}

/* generate, tokenize, render: to the workers, unless there is a reason not to. */
static void take_work(struct front *front, struct client_queue *client, struct job *job)
{
    if (front->is_draining) {
        refuse(front, client, job, ERROR_SHUTTING_DOWN, "the server takes no more requests");
        return;
    }
    if (answers_are_many(client)) {
        refuse(front, client, job, ERROR_OVERLOADED,
               "overloaded: read the answers that wait first");
        return;
    }
    if (!has_room(front, client, job))
        return;
    if (job->message.type == MESSAGE_GENERATE) {
        if (client->peer_size != sizeof(job->client.bytes) || client->peer[0] == 0) {
            refuse(front, client, job, ERROR_INVALID_REQUEST,
                   "a client's identity must be 16 bytes, the first not zero");
            return;
        }
        memcpy(job->client.bytes, client->peer, client->peer_size);
        job->uid = next_uid(front);
        front->last_uid++;
        if (getrandom(&job->seed, sizeof(job->seed), 0) != (ssize_t)sizeof(job->seed))
            job->seed = (uint64_t)clock_now_ns();
        rid_ring_put(front->rids, &job->client, job->rid, job->uid);
    }
    enqueue(front, client, job);
    workers_push(front->workers, job);
}

/* Whether the request of that uid may still be in the client's queue. A uid is known to others than
 * the queue's own client only after its release, and jobs are released in the order of their uids.
 */
static bool is_under_way(const struct client_queue *client, uint64_t uid)
{
    return client->first_job && uid >= client->first_job->uid_mark;
}

/* Passed on behind the request that it names if that is still here; else at once. */
static void take_abort(struct front *front, struct client_queue *client, struct job *job)
{
    const struct client_abort_msg *abort = &job->message.client_abort;
    uint64_t uid = abort->uid;
    struct client_id id;

    if (has_waited_for_clients(front)) {
        refuse(front, client, job, ERROR_SHUTTING_DOWN, "the server stops");
        return;
    }
    if (!abort->has_uid && client->peer_size == sizeof(id.bytes)) {
        memcpy(id.bytes, client->peer, sizeof(id.bytes));
        uid = rid_ring_find(front->rids, &id, abort->target_rid);
    }
    job_answer(job, (struct bytes){0});
    if (uid)
        job_abort(job, uid);
    if (!is_under_way(client, uid)) {
        pass_on(front, job);
        finish(front, client, job);
    } else if (has_room(front, client, job)) {
        job->is_done = true;
        enqueue(front, client, job);
    }
}

static void take_job(struct front *front, struct client_queue *client, struct job *job)
{
    job->run = front->args.run;
    job->now_s = (int64_t)time(NULL);
    job->uid_mark = next_uid(front);
    switch (job->message.type) {
    case MESSAGE_GENERATE:
    case MESSAGE_TOKENIZE:
    case MESSAGE_RENDER:
        take_work(front, client, job);
        break;
    case MESSAGE_CLIENT_ABORT:
        take_abort(front, client, job);
        break;
    case MESSAGE_INFO:
        front_info_write(&front->args, client->num_jobs, &front->text);
        job_answer(job, (struct bytes){(const uint8_t *)front->text.data, front->text.size});
        finish(front, client, job);
        break;
    default:
        refuse(front, client, job, ERROR_INVALID_REQUEST,
               "type: the tokenizer takes generate, tokenize, render, abort (with rid) and info");
        break;
    }
    release(front, client);
}

static void take_frame(struct front *front, const struct link_frame *frame)
{
    struct client_queue *client = client_queue_take(&front->clients, frame->peer);
    struct message_fault fault = {0};
    struct status decoded = status_ok();
    struct job *job = NULL;

    front->counters.frames_in++;
    front->counters.bytes_in += frame->data.size;
    if (!client) {
        drop_frame(front, "no memory for another client");
        return;
    }
    struct status status = job_create(frame->data, &job, &decoded, &fault);
    if (status.code || decoded.code == STATUS_FORMAT) {
        drop_frame(front, status.code ? status.msg : decoded.msg);
        job_destroy(&job);
        client_queue_give(&front->clients, client);
    } else if (decoded.code) {
        refuse(front, client, job,
               decoded.code == STATUS_INVALID     ? ERROR_INVALID_REQUEST
               : decoded.code == STATUS_NO_MEMORY ? ERROR_OVERLOADED
                                                  : ERROR_INTERNAL,
               decoded.msg);
        client_queue_give(&front->clients, client);
    } else {
        take_job(front, client, job);
    }
}

static void take_frames(struct front *front)
{
    struct link_frame frame;
    int num = 0;

    for (; num < MAX_FRAMES_PER_TURN && link_receive(front->endpoint, &frame); num++)
        take_frame(front, &frame);
    front->has_more = num == MAX_FRAMES_PER_TURN;
}

/* ---- life ---- */

static struct status open_links(struct front *front)
{
    const struct front_args *args = &front->args;
    struct status status = link_open(&(struct link_args){.kind = LINK_ROUTER,
                                                         .endpoint = args->endpoint,
                                                         .bind = true,
                                                         .curve_keys = args->curve_keys},
                                     &front->endpoint);

    if (status.code)
        return status;
    return link_open(
        &(struct link_args){.kind = LINK_PUSH,
                            .endpoint = args->scheduler,
                            .peer = "scheduler",
                            .curve_keys = args->curve_keys,
                            .send_mark = SCHEDULER_SEND_MARK,
                            .max_queue_bytes = args->max_unsent_bytes + ABORT_RESERVE_BYTES},
        &front->scheduler);
}

struct status front_open(const struct front_args *args, struct front **out)
{
    struct front *front = calloc(1, sizeof(*front));
    struct status status;

    if (!front)
        return status_error(STATUS_NO_MEMORY, "no memory for clients");
    front->args = *args;
    front->counters.start_ns = clock_now_ns();
    status = rid_ring_create(&front->rids);
    if (status.code == STATUS_OK)
        status = workers_start(args->num_threads, args->model, &front->workers);
    if (status.code == STATUS_OK)
        status = open_links(front);
    if (status.code)
        goto out;
    front->answers.endpoint = front->endpoint;
    *out = front;
    front = NULL;
out:
    front_close(&front);
    return status;
}

/* Jobs in queues: those that are done are the queue's, the others the workers'. The clients of the
 * latter are told. */
static void end_jobs(struct front *front)
{
    static const char text[] = "the server stops";

    for (struct client_queue *client = front->clients.newest; client; client = client->older) {
        struct job *next;
        for (struct job *job = client->first_job; job; job = next) {
            struct message message = {
                .type = MESSAGE_ERROR,
                .error = {.rid = job->rid,
                          .code = ERROR_SHUTTING_DOWN,
                          .message = {(const uint8_t *)text, sizeof(text) - 1}}};
            next = job->next_of_client;
            if (message_encode(&message, &front->frame).code == STATUS_OK)
                answers_send(&front->answers, &front->clients, client,
                             (struct bytes){front->frame.data, front->frame.size});
            if (job->is_done)
                job_destroy(&job);
        }
        client->first_job = NULL;
    }
}

bool front_close(struct front **front_ptr)
{
    struct front *front = *front_ptr;
    bool has_ended = true;

    if (!front)
        return true;
    *front_ptr = NULL;
    end_jobs(front);
    has_ended = workers_stop(&front->workers, THREADS_MS);
    link_close(&front->endpoint, LINGER_MS);
    link_close(&front->scheduler, LINGER_MS);
    client_queues_deinit(&front->clients);
    rid_ring_destroy(&front->rids);
    frame_buffer_deinit(&front->frame);
    json_writer_deinit(&front->text);
    free(front);
    return has_ended;
}

struct link *front_endpoint(const struct front *front)
{
    return front->endpoint;
}

struct link *front_scheduler(const struct front *front)
{
    return front->scheduler;
}

int front_fd(const struct front *front)
{
    return workers_fd(front->workers);
}

/* ---- turns ---- */

void front_turn(struct front *front)
{
    take_frames(front);
    take_done(front);
    retry_blocked(front);
    link_flush(front->scheduler);
}

int front_timeout_ms(const struct front *front)
{
    if (front->has_more) /* then the next turn decides, whether there is another frame or not */
        return 0;
    return front->clients.num_blocked ? ANSWERS_RETRY_MS : -1;
}

void front_drain(struct front *front)
{
    if (front->is_draining)
        return;
    log_info("draining: no more requests are taken pending=%zu", front->num_pending);
    front->is_draining = true;
    front->drain_end_ns = clock_now_ns() + DRAIN_MS * ns_per_ms;
}

bool front_is_drained(const struct front *front)
{
    bool waits_for_clients = front->has_more || front->clients.num_blocked > 0;

    return front->is_draining && front->num_pending == 0 && !link_has_queued(front->scheduler) &&
           (!waits_for_clients || has_waited_for_clients(front));
}

void front_write_stats(const struct front *front, struct json_writer *out)
{
    struct front_state state = {.num_pending = front->num_pending,
                                .pending_bytes = front->pending_bytes,
                                .clients = &front->clients,
                                .queued_bytes = link_queued_bytes(front->scheduler),
                                .answers = &front->answers,
                                .is_draining = front->is_draining};

    front_stats_write(&front->args, &front->counters, &state, clock_now_ns(), out);
}
