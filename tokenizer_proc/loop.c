/*
 * loop.c - see loop.h.
 *
 *   frame -> job -> its client's queue -> workers -> done -> released in the client's order:
 *   the frame for the scheduler first, then the answer
 *
 * What needs no work is answered at once: faults, refusals, info. Nothing waits but the poller.
 */
#include "tokenizer_proc/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "proto/link.h"
#include "proto/messages_codec.h"
#include "tokenizer_proc/client_queue.h"
#include "tokenizer_proc/loop_stats.h"
#include "tokenizer_proc/rid_ring.h"
#include "tokenizer_proc/workers.h"

enum {
    MAX_FRAMES_PER_TURN = 64, /* of one socket, so that the others get their turn */
    RETRY_INTERVAL_MS = 20,   /* of a client that does not read its answers */
    MAX_UNSENT_BYTES = 4 << 20,
    MAX_UNSENT_MS = 10000, /* then it has lost them */
    SHUTDOWN_MS = 1200,    /* after a signal */
    THREADS_MS = 300,      /* then for the workers */
    LINGER_MS = 200,
    ABORT_RESERVE_BYTES = 16 << 20, /* of the scheduler's queue, for aborts beyond the bound */
    INSTANCE_SHIFT = 48,
};

static const int64_t ns_per_ms = 1000000;

struct loop {
    struct loop_args args;
    struct link *endpoint, *scheduler, *control; /* owned; control may be NULL */
    struct link_poller *poller;                  /* owned */
    struct workers *workers;                     /* owned */
    struct client_queues clients;
    struct rid_ring *rids; /* owned */
    struct arena arena;    /* of one control frame */
    struct frame_buffer frame;
    struct json_writer text;
    struct loop_counters counters;
    struct log_limit garbage_limit, client_limit, overload_limit;
    size_t num_pending, pending_bytes; /* jobs in queues */
    uint64_t last_uid;                 /* the counter in it */
    int64_t deadline_ns, next_retry_ns;
    bool is_draining;
};

/* ---- answers ---- */

static void lose_answers(struct loop *loop, struct client_queue *client, const char *why)
{
    int64_t skipped;

    while (client_queue_unsent(client).size > 0) {
        client_queue_drop_unsent(&loop->clients, client);
        loop->counters.num_lost_answers++;
    }
    if (log_limited(&loop->client_limit, clock_now_ns(), &skipped))
        log_info("answers to a client lost: %s (%lld more such lines)", why, (long long)skipped);
}

/* What the client does not take now waits in its queue, behind what waits already. */
static void deliver(struct loop *loop, struct client_queue *client,
                    const struct frame_buffer *answer)
{
    struct bytes peer = client_queue_peer(client);
    struct status status = status_ok();

    if (!client->first_unsent)
        status = link_send_to(loop->endpoint, &peer, answer->data, answer->size);
    if (!client->first_unsent && status.code == STATUS_OK) {
        loop->counters.frames_out++;
        loop->counters.bytes_out += answer->size;
        return;
    }
    if (client->first_unsent || status.code == STATUS_NO_SPACE)
        status = client_queue_hold(&loop->clients, client,
                                   (struct bytes){answer->data, answer->size}, clock_now_ns());
    if (status.code) /* gone: there is nobody to tell */
        loop->counters.num_lost_answers++;
}

/* Tries again with what waits. A client that has not read for too long loses it, and its requests.
 */
static void retry_client(struct loop *loop, struct client_queue *client, int64_t now_ns)
{
    struct bytes peer = client_queue_peer(client);
    struct bytes answer;

    while ((answer = client_queue_unsent(client)).size > 0) {
        struct status status = link_send_to(loop->endpoint, &peer, answer.data, answer.size);
        if (status.code == STATUS_NO_SPACE && client->unsent_bytes <= MAX_UNSENT_BYTES &&
            now_ns - client->unsent_since_ns < MAX_UNSENT_MS * ns_per_ms)
            return;
        if (status.code) {
            struct message abort = {
                .type = MESSAGE_ABORT, .run = loop->args.run, .abort = {.by_client = true}};
            lose_answers(loop, client, status.msg);
            if (peer.size != sizeof(abort.abort.client.bytes))
                return;
            memcpy(abort.abort.client.bytes, peer.data, peer.size);
            if (message_encode(&abort, &loop->frame).code ||
                link_send(loop->scheduler, loop->frame.data, loop->frame.size).code)
                log_warn("an abort did not go to the scheduler: its queue is full");
            return;
        }
        loop->counters.frames_out++;
        loop->counters.bytes_out += answer.size;
        client_queue_drop_unsent(&loop->clients, client);
    }
}

static void retry_blocked(struct loop *loop)
{
    int64_t now_ns = clock_now_ns();

    if (!loop->clients.num_blocked || now_ns < loop->next_retry_ns)
        return;
    loop->next_retry_ns = now_ns + RETRY_INTERVAL_MS * ns_per_ms;
    for (struct client_queue *client = loop->clients.newest, *older; client; client = older) {
        older = client->older;
        retry_client(loop, client, now_ns);
        client_queue_give(&loop->clients, client);
    }
}

/* ---- jobs done ---- */

/* Passes a request or an abort on; one that does not go is refused. Aborts may use the reserve. */
static void pass_on(struct loop *loop, struct job *job)
{
    bool is_abort = job->message.type == MESSAGE_CLIENT_ABORT;
    struct status status = status_ok();
    int64_t skipped;

    if (job->request.size == 0)
        return;
    if (!is_abort && link_queued_bytes(loop->scheduler) > loop->args.max_queued_bytes)
        status = status_error(STATUS_NO_SPACE, "the scheduler does not take requests");
    if (status.code == STATUS_OK)
        status = link_send(loop->scheduler, job->request.data, job->request.size);
    if (status.code == STATUS_OK) {
        loop->counters.frames_out++;
        loop->counters.bytes_out += job->request.size;
        return;
    }
    if (log_limited(&loop->overload_limit, clock_now_ns(), &skipped))
        log_warn("overloaded: %s (%lld more such lines)", status.msg, (long long)skipped);
    job_refuse(job, ERROR_OVERLOADED, "overloaded: the scheduler has not taken what waits already");
}

static void count_answer(struct loop *loop, const struct job *job)
{
    struct loop_counters *counters = &loop->counters;

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
static void finish(struct loop *loop, struct client_queue *client, struct job *job)
{
    count_answer(loop, job);
    if (job->answer.size)
        deliver(loop, client, &job->answer);
    job_destroy(job);
}

/* Lets go of what is done at the head of the client's queue. */
static void release(struct loop *loop, struct client_queue *client)
{
    struct job *job;

    while ((job = client_queue_pop_done(client))) {
        loop->num_pending--;
        loop->pending_bytes -= job->cost;
        pass_on(loop, job);
        finish(loop, client, job);
    }
    client_queue_give(&loop->clients, client);
}

static void take_done(struct loop *loop)
{
    struct job *job = workers_take_done(loop->workers);

    while (job) {
        struct job *next = job->next; /* the job may be gone after its release */

        job->is_done = true;
        release(loop, job->queue);
        job = next;
    }
}

/* ---- frames of clients ---- */

static void drop_frame(struct loop *loop, const char *why)
{
    int64_t skipped;

    loop->counters.frames_dropped++;
    if (log_limited(&loop->garbage_limit, clock_now_ns(), &skipped))
        log_warn("frame dropped from=client: %s (%lld more such lines)", why, (long long)skipped);
}

static void refuse(struct loop *loop, struct client_queue *client, struct job *job,
                   enum error_code code, const char *text)
{
    job_refuse(job, code, text);
    finish(loop, client, job);
}

static void enqueue(struct loop *loop, struct client_queue *client, struct job *job)
{
    loop->num_pending++;
    loop->pending_bytes += job->cost;
    client_queue_append(client, job);
}

/* generate, tokenize, render: to the workers, unless there is a reason not to. */
static void take_work(struct loop *loop, struct client_queue *client, struct job *job)
{
    int64_t skipped;

    if (loop->is_draining) {
        refuse(loop, client, job, ERROR_SHUTTING_DOWN, "the server takes no more requests");
        return;
    }
    if (loop->pending_bytes + job->cost > loop->args.max_pending_bytes) {
        if (log_limited(&loop->overload_limit, clock_now_ns(), &skipped))
            log_warn("overloaded: pending_bytes=%zu max=%zu (%lld more such lines)",
                     loop->pending_bytes, loop->args.max_pending_bytes, (long long)skipped);
        refuse(loop, client, job, ERROR_OVERLOADED, "overloaded: too many prompts wait already");
        return;
    }
    if (job->message.type == MESSAGE_GENERATE) {
        if (client->peer_size != sizeof(job->client.bytes) || client->peer[0] == 0) {
            refuse(loop, client, job, ERROR_INVALID_REQUEST,
                   "a client's identity must be 16 bytes, the first not zero");
            return;
        }
        memcpy(job->client.bytes, client->peer, client->peer_size);
        job->uid = (uint64_t)loop->args.instance << INSTANCE_SHIFT | ++loop->last_uid;
        if (getrandom(&job->seed, sizeof(job->seed), 0) != (ssize_t)sizeof(job->seed))
            job->seed = (uint64_t)clock_now_ns();
        rid_ring_put(loop->rids, &job->client, job->rid, job->uid);
    }
    enqueue(loop, client, job);
    workers_push(loop->workers, job);
}

/* Behind the request that it names, if that is still here. */
static void take_abort(struct loop *loop, struct client_queue *client, struct job *job)
{
    const struct client_abort_msg *abort = &job->message.client_abort;
    uint64_t uid = abort->uid;
    struct client_id id;

    if (!abort->has_uid && client->peer_size == sizeof(id.bytes)) {
        memcpy(id.bytes, client->peer, sizeof(id.bytes));
        uid = rid_ring_find(loop->rids, &id, abort->target_rid);
    }
    job_answer(job, (struct bytes){0});
    if (uid)
        job_abort(job, uid);
    job->is_done = true;
    enqueue(loop, client, job);
}

static void take_job(struct loop *loop, struct client_queue *client, struct job *job)
{
    job->run = loop->args.run;
    job->now_s = (int64_t)time(NULL);
    switch (job->message.type) {
    case MESSAGE_GENERATE:
    case MESSAGE_TOKENIZE:
    case MESSAGE_RENDER:
        take_work(loop, client, job);
        break;
    case MESSAGE_CLIENT_ABORT:
        take_abort(loop, client, job);
        break;
    case MESSAGE_INFO:
        loop_info_write(&loop->args, &loop->text);
        job_answer(job, (struct bytes){(const uint8_t *)loop->text.data, loop->text.size});
        finish(loop, client, job);
        break;
    default:
        refuse(loop, client, job, ERROR_INVALID_REQUEST,
               "type: the tokenizer takes generate, tokenize, render, abort (with rid) and info");
        break;
    }
    release(loop, client);
}

static void take_frame(struct loop *loop, const struct link_frame *frame)
{
    struct client_queue *client = client_queue_take(&loop->clients, frame->peer);
    struct message_fault fault = {0};
    struct status decoded = status_ok();
    struct job *job = NULL;

    loop->counters.frames_in++;
    loop->counters.bytes_in += frame->data.size;
    if (!client) {
        drop_frame(loop, "no memory for another client");
        return;
    }
    struct status status = job_create(frame->data, &job, &decoded, &fault);
    if (status.code || decoded.code == STATUS_FORMAT) {
        drop_frame(loop, status.code ? status.msg : decoded.msg);
        job_destroy(job);
        client_queue_give(&loop->clients, client);
    } else if (decoded.code) {
        refuse(loop, client, job,
               decoded.code == STATUS_INVALID ? ERROR_INVALID_REQUEST : ERROR_INTERNAL,
               decoded.msg);
        client_queue_give(&loop->clients, client);
    } else {
        take_job(loop, client, job);
    }
}

static void take_frames(struct loop *loop)
{
    struct link_frame frame;

    for (int i = 0; i < MAX_FRAMES_PER_TURN && link_receive(loop->endpoint, &frame); i++)
        take_frame(loop, &frame);
}

/* ---- control ---- */

static struct status obey(struct loop *loop, const struct control_msg *control,
                          struct bytes *out_info)
{
    struct loop_state state = {.num_pending = loop->num_pending,
                               .pending_bytes = loop->pending_bytes,
                               .num_clients = loop->clients.num_queues,
                               .num_blocked = loop->clients.num_blocked,
                               .queued_bytes = link_queued_bytes(loop->scheduler),
                               .is_draining = loop->is_draining};
    char level_name[16] = {0};
    enum log_level level;

    switch (control->command) {
    case CONTROL_PING:
        return status_ok();
    case CONTROL_STATS:
        loop_stats_write(&loop->args, &loop->counters, &state, clock_now_ns(), &loop->text);
        *out_info = (struct bytes){(const uint8_t *)loop->text.data, loop->text.size};
        return status_ok();
    case CONTROL_DRAIN:
        log_info("draining pending=%zu", loop->num_pending);
        loop->is_draining = true;
        return status_ok();
    case CONTROL_LOG_LEVEL:
        if (control->level.size < sizeof(level_name))
            memcpy(level_name, control->level.data, control->level.size);
        if (!log_level_parse(level_name, &level))
            return status_error(STATUS_INVALID, "level must be error, warn, info or debug");
        log_set_level(level);
        return status_ok();
    case CONTROL_FLUSH_CACHE:
        break;
    }
    return status_error(STATUS_UNSUPPORTED, "the tokenizer has no cache to flush");
}

static void answer_control(struct loop *loop, const struct link_frame *frame)
{
    struct message message, answer = {.type = MESSAGE_CONTROL_REPLY};
    struct message_fault fault = {0};
    struct bytes info = {0};
    struct status status =
        message_decode(frame->data.data, frame->data.size, &loop->arena, &message, &fault);

    if (status.code == STATUS_OK && message.type != MESSAGE_CONTROL)
        status = status_error(STATUS_INVALID, "type: this is a control endpoint");
    if (status.code == STATUS_OK)
        status = obey(loop, &message.control, &info);
    answer.control_reply =
        (struct control_reply_msg){.ok = status.code == STATUS_OK,
                                   .info = info,
                                   .message = {(const uint8_t *)status.msg, strlen(status.msg)}};
    status = message_encode(&answer, &loop->frame);
    if (status.code == STATUS_OK)
        status = link_send_to(loop->control, &frame->peer, loop->frame.data, loop->frame.size);
    if (status.code)
        log_debug("no answer on the control endpoint: %s", status.msg);
}

static void take_control(struct loop *loop)
{
    struct link_frame frame;

    for (int i = 0; loop->control && i < MAX_FRAMES_PER_TURN && link_receive(loop->control, &frame);
         i++) {
        arena_reset(&loop->arena);
        answer_control(loop, &frame);
    }
}

/* ---- life ---- */

static struct status open_links(struct loop *loop)
{
    const struct loop_args *args = &loop->args;
    struct link *links[3];
    struct status status =
        link_open(&(struct link_args){.kind = LINK_ROUTER,
                                      .endpoint = args->endpoint,
                                      .bind = true,
                                      .curve_server_key = args->curve_server_key,
                                      .curve_client_keys = args->curve_client_keys},
                  &loop->endpoint);

    if (status.code == STATUS_OK)
        status = link_open(
            &(struct link_args){.kind = LINK_PUSH,
                                .endpoint = args->scheduler,
                                .max_queue_bytes = args->max_queued_bytes + ABORT_RESERVE_BYTES},
            &loop->scheduler);
    if (status.code == STATUS_OK && args->control)
        status = link_open(
            &(struct link_args){.kind = LINK_REP, .endpoint = args->control, .bind = true},
            &loop->control);
    if (status.code)
        return status;
    links[0] = loop->endpoint;
    links[1] = loop->scheduler;
    links[2] = loop->control;
    status = link_poller_open(links, args->control ? 3 : 2, &loop->poller);
    if (status.code == STATUS_OK)
        link_poller_watch(loop->poller, workers_fd(loop->workers));
    return status;
}

struct status loop_open(const struct loop_args *args, struct loop **out)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    struct status status;

    if (!loop)
        return status_error(STATUS_NO_MEMORY, "no memory for the loop");
    loop->args = *args;
    loop->counters.start_ns = clock_now_ns();
    arena_init(&loop->arena, 0, 0);
    status = rid_ring_create(&loop->rids);
    if (status.code == STATUS_OK)
        status = workers_start(args->num_threads, args->model, &loop->workers);
    if (status.code == STATUS_OK)
        status = open_links(loop);
    if (status.code)
        goto out;
    *out = loop;
    loop = NULL;
out:
    loop_close(&loop);
    return status;
}

/* Jobs in queues: those that are done are the queue's, the others the workers'. The clients of the
 * latter are told. */
static void end_jobs(struct loop *loop)
{
    static const char text[] = "the server stops";

    for (struct client_queue *client = loop->clients.newest; client; client = client->older) {
        struct job *next;
        for (struct job *job = client->first_job; job; job = next) {
            struct message message = {
                .type = MESSAGE_ERROR,
                .error = {.rid = job->rid,
                          .code = ERROR_SHUTTING_DOWN,
                          .message = {(const uint8_t *)text, sizeof(text) - 1}}};
            next = job->next_of_client;
            if (message_encode(&message, &loop->frame).code == STATUS_OK)
                deliver(loop, client, &loop->frame);
            if (job->is_done)
                job_destroy(job);
        }
        client->first_job = NULL;
    }
}

bool loop_close(struct loop **loop_ptr)
{
    struct loop *loop = *loop_ptr;
    bool has_ended = true;

    if (!loop)
        return true;
    *loop_ptr = NULL;
    end_jobs(loop);
    has_ended = workers_stop(&loop->workers, THREADS_MS);
    link_poller_close(&loop->poller);
    link_close(&loop->control, LINGER_MS);
    link_close(&loop->endpoint, LINGER_MS);
    link_close(&loop->scheduler, LINGER_MS);
    client_queues_deinit(&loop->clients);
    rid_ring_destroy(loop->rids);
    frame_buffer_deinit(&loop->frame);
    json_writer_deinit(&loop->text);
    arena_deinit(&loop->arena);
    free(loop);
    return has_ended;
}

const char *loop_endpoint(const struct loop *loop)
{
    return link_endpoint(loop->endpoint);
}

const char *loop_control(const struct loop *loop)
{
    return loop->control ? link_endpoint(loop->control) : "";
}

/* ---- the loop ---- */

static void heed_signals(struct loop *loop)
{
    if (!link_interrupted() || loop->deadline_ns)
        return;
    log_info("stopping pending=%zu", loop->num_pending);
    loop->is_draining = true;
    loop->deadline_ns = clock_now_ns() + SHUTDOWN_MS * ns_per_ms;
}

static bool is_finished(const struct loop *loop)
{
    if (!loop->is_draining)
        return false;
    if (loop->deadline_ns && clock_now_ns() >= loop->deadline_ns)
        return true;
    return loop->num_pending == 0 && loop->clients.num_blocked == 0 &&
           !link_has_queued(loop->scheduler);
}

static int timeout_ms(const struct loop *loop)
{
    int64_t left_ms;

    if (loop->clients.num_blocked)
        return RETRY_INTERVAL_MS;
    if (!loop->deadline_ns)
        return -1;
    left_ms = (loop->deadline_ns - clock_now_ns()) / ns_per_ms + 1;
    return left_ms > 0 ? (int)left_ms : 0;
}

void loop_run(struct loop *loop)
{
    while (!is_finished(loop)) {
        link_poller_wait(loop->poller, timeout_ms(loop));
        heed_signals(loop);
        take_control(loop);
        take_frames(loop);
        take_done(loop);
        retry_blocked(loop);
        link_flush(loop->scheduler);
    }
    log_info("stopped accepted=%llu", (unsigned long long)loop->counters.num_accepted);
}
