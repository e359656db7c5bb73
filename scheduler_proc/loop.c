/*
 * loop.c - see loop.h. Nothing in it blocks but the poller, when there is no work, and the wait for
 * a step.
 */
#include "scheduler_proc/loop.h"

#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "scheduler_proc/loop_internal.h"
#include "scheduler_proc/watchdog.h"

enum {
    MAX_FRAMES_PER_TURN = 1024, /* of one socket, between two steps */
    MAX_ROWS_PER_FRAME = 4096,
    MAX_REPLY_BYTES_PER_FRAME = 8 << 20, /* reply_to of first rows; a link takes 64 MiB at most */
    MAX_UNSENT_BYTES = 32 << 20,         /* beyond: no more requests are read */
    MAX_FRAME_MEMORY = 256 << 20,
    LINGER_MS = 1000,
    WATCH_INTERVAL_MS = 1000, /* of what has no event of its own */
    STALL_INTERVAL_MS = 10,
    LAST_LOOK_MS = 20,        /* what a tokenizer sent before it ended may still be on its way */
    MAX_LAST_LOOKS_MS = 1000, /* and one that does not end does not hold a drain up for longer */
};

/* ---- life ---- */

struct status loop_open(const struct loop_args *args, struct loop **out)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    struct status status;

    if (!loop)
        return status_error(STATUS_NO_MEMORY, "loop: no memory");
    loop->args = *args;
    loop->has_slept = true;
    loop->counters.start_ns = clock_now_ns();
    arena_init(&loop->arena, 0, MAX_FRAME_MEMORY);
    status = link_open(&(struct link_args){.kind = LINK_PULL,
                                           .endpoint = args->endpoint,
                                           .bind = true,
                                           .curve_keys = args->curve_keys},
                       &loop->endpoint);
    if (status.code)
        goto out;
    status = link_open(&(struct link_args){.kind = LINK_PUSH,
                                           .endpoint = args->detokenizer,
                                           .peer = "detokenizer",
                                           .curve_keys = args->curve_keys},
                       &loop->detokenizer);
    if (status.code == STATUS_OK)
        status = control_endpoint_open(&loop->control, args->control);
    if (status.code)
        goto out;
    struct link *links[] = {loop->endpoint, loop->detokenizer, loop->control.link};
    status = link_poller_open(links, loop->control.link ? 3 : 2, &loop->poller);
    if (status.code)
        goto out;
    *out = loop;
    loop = NULL;
out:
    loop_close(&loop);
    return status;
}

void loop_close(struct loop **out_loop)
{
    struct loop *loop = *out_loop;

    if (!loop)
        return;
    link_poller_close(&loop->poller);
    link_close(&loop->endpoint, 0);
    link_close(&loop->detokenizer, LINGER_MS);
    control_endpoint_close(&loop->control);
    frame_buffer_deinit(&loop->frame);
    arena_deinit(&loop->arena);
    free(loop);
    *out_loop = NULL;
}

const char *loop_endpoint(const struct loop *loop)
{
    return link_endpoint(loop->endpoint);
}

const char *loop_control(const struct loop *loop)
{
    return control_endpoint_address(&loop->control);
}

/* ---- receiving ---- */

static void drop_frame(struct loop *loop, const char *why)
{
    int64_t skipped;

    loop->counters.frames_dropped++;
    if (log_limited(&loop->garbage_limit, clock_now_ns(), &skipped))
        log_warn("frame dropped: %s (%lld more such lines)", why, (long long)skipped);
}

static void take_frame(struct loop *loop, const struct bytes *frame)
{
    struct message message;
    struct message_fault fault;

    arena_reset(&loop->arena);
    loop->counters.frames_in++;
    struct status status = message_decode(frame->data, frame->size, &loop->arena, &message, &fault);
    if (status.code) {
        drop_frame(loop, status.msg);
        return;
    }
    if (message.type != MESSAGE_REQUEST && message.type != MESSAGE_ABORT)
        drop_frame(loop, "neither request nor abort");
    else if (message.run && loop->args.run && message.run != loop->args.run)
        drop_frame(loop, "of another run");
    else if (message.type == MESSAGE_REQUEST) {
        loop_trace_arrival(loop, message.request.uid);
        scheduler_submit(loop->scheduler, &message.request);
    } else
        scheduler_abort(loop->scheduler, &message.abort);
}

static bool is_choked(const struct loop *loop)
{
    return link_queued_bytes(loop->detokenizer) > MAX_UNSENT_BYTES;
}

/* A poller would not wait for a socket that has something which is not to be read now. */
static void rest(struct loop *loop, int timeout_ms)
{
    const struct timespec time = {.tv_nsec = STALL_INTERVAL_MS * ns_per_ms};

    if (is_choked(loop))
        nanosleep(&time, NULL);
    else
        link_poller_wait(loop->poller, timeout_ms);
}

/* Reads what has arrived, after waiting for it at most that long; -1: without end. */
static void receive(struct loop *loop, int timeout_ms)
{
    struct link_frame frame;
    int64_t begin_ns;

    if (timeout_ms != 0) {
        begin_ns = clock_now_ns();
        rest(loop, timeout_ms);
        loop->has_slept = true;
        loop_end_phase(loop, LOOP_SLEEP, begin_ns, NULL);
    }
    begin_ns = clock_now_ns();
    link_flush(loop->detokenizer);
    control_endpoint_turn(&loop->control, loop_obey, loop);
    for (int i = 0;
         i < MAX_FRAMES_PER_TURN && !is_choked(loop) && link_receive(loop->endpoint, &frame); i++)
        take_frame(loop, &frame.data);
    loop_end_phase(loop, LOOP_RECEIVE, begin_ns, NULL);
}

/* ---- sending ---- */

static void send(struct loop *loop, const struct message *message)
{
    struct status status = message_encode(message, &loop->frame);

    if (status.code == STATUS_OK)
        status = link_send(loop->detokenizer, loop->frame.data, loop->frame.size);
    if (status.code) { /* bounded by is_choked(): out of memory */
        log_error("to the detokenizer: %s", status.msg);
        return;
    }
    loop->counters.frames_out++;
    loop->counters.bytes_out += loop->frame.size;
}

/* Right behind a step: what its result ended as internal, its logits ended. */
static void note_nan(struct loop *loop)
{
    int32_t num_rows = 0;
    const struct token_row *rows = scheduler_outputs(loop->scheduler, &num_rows);
    int64_t skipped;

    for (int32_t i = 0; i < num_rows; i++) {
        if (rows[i].finish != FINISH_ERROR || rows[i].error != ERROR_INTERNAL)
            continue;
        if (log_limited(&loop->nan_limit, clock_now_ns(), &skipped))
            log_error("request ended: NaN among its logits uid=%llu (%lld more such lines)",
                      (unsigned long long)rows[i].uid, (long long)skipped);
    }
}

/* How many of the rows, at least one, make a frame of ordinary size. */
static int32_t count_rows_of_frame(const struct token_row *rows, int32_t num_rows)
{
    size_t num_bytes = 0;
    int32_t n = 0;

    while (n < num_rows && n < MAX_ROWS_PER_FRAME && num_bytes < MAX_REPLY_BYTES_PER_FRAME) {
        num_bytes += rows[n].is_first ? rows[n].reply_to.size : 0;
        n++;
    }
    return n;
}

/* Sends what has been decided since the last time. */
static void publish(struct loop *loop, int64_t now_ns)
{
    int32_t num_rows = 0, num_rejections = 0;
    const struct token_row *rows = scheduler_outputs(loop->scheduler, &num_rows);
    const struct rejected_msg *rejections = scheduler_rejections(loop->scheduler, &num_rejections);

    if (num_rows == 0 && num_rejections == 0)
        return;
    for (int32_t i = 0, count; i < num_rows; i += count) {
        count = count_rows_of_frame(rows + i, num_rows - i);
        send(loop, &(struct message){
                       .type = MESSAGE_TOKENS,
                       .run = loop->args.run,
                       .tokens = {.step_end_ns = now_ns, .num_rows = count, .rows = rows + i}});
    }
    for (int32_t i = 0; i < num_rejections; i++) {
        send(loop, &(struct message){
                       .type = MESSAGE_REJECTED, .run = loop->args.run, .rejected = rejections[i]});
        loop_trace_refusal(loop, rejections[i].uid);
    }
    loop_trace_outputs(loop, rows, num_rows);
    scheduler_clear_outputs(loop->scheduler);
}

/* ---- steps ---- */

/* Forms a step and launches it; *out NULL when there is none to form. */
static struct status launch(struct loop *loop, const struct batch **out)
{
    int64_t begin_ns = clock_now_ns();
    struct status status;

    *out = NULL;
    if (link_has_queued(loop->detokenizer))
        return status_ok();
    const struct batch *batch = scheduler_next_batch(loop->scheduler);
    if (!batch)
        return status_ok();
    if (loop->has_slept)
        step_times_wake(&loop->times, begin_ns);
    loop->has_slept = false;
    loop_end_phase(loop, LOOP_FORM, begin_ns, batch);
    begin_ns = clock_now_ns();
    uint64_t range = engine_range_begin(loop->engine, "launch");
    status = engine_launch(loop->engine, batch);
    engine_range_end(loop->engine, range);
    if (status.code)
        return status;
    loop_end_launch(loop, begin_ns, batch);
    *out = batch;
    return status_ok();
}

/* Waits for the step and hands its tokens to the core. */
static struct status process(struct loop *loop, const struct batch *batch)
{
    const int32_t *tokens = NULL;
    struct engine_times times = {0};
    int64_t begin_ns = clock_now_ns();
    struct status status;
    int64_t now_ns;

    watchdog_begin_step();
    status = engine_wait(loop->engine, &tokens, &times);
    watchdog_end_step();
    if (status.code)
        return status;
    loop_end_phase(loop, LOOP_WAIT, begin_ns, batch);
    step_times_add(&loop->times, times.begin_ns, times.end_ns);
    loop_trace_device(loop, &times, batch);
    now_ns = clock_now_ns();
    uint64_t range = engine_range_begin(loop->engine, "process");
    struct batch done = *batch; /* the batch is the core's again after finish_step */
    scheduler_finish_step(loop->scheduler, batch, tokens);
    note_nan(loop);
    loop_end_process(loop, now_ns, &done);
    begin_ns = clock_now_ns();
    publish(loop, now_ns);
    loop_end_phase(loop, LOOP_SEND, begin_ns, &done);
    engine_range_end(loop->engine, range);
    return status_ok();
}

/* ---- the loop ---- */

/* A signal starts the shutdown; at the end of its grace what still runs is ended. */
static void heed_signals(struct loop *loop)
{
    int64_t now_ns = clock_now_ns();

    if (link_interrupted() && !loop->deadline_ns) {
        loop_drain(loop);
        loop->deadline_ns = now_ns + loop->args.grace_ns;
    }
    if (loop->deadline_ns && now_ns >= loop->deadline_ns && scheduler_has_work(loop->scheduler)) {
        log_warn("shutdown: ending what still runs after a grace of %lld ms",
                 (long long)(loop->args.grace_ns / ns_per_ms));
        scheduler_end_all(loop->scheduler, ERROR_SHUTTING_DOWN);
        loop->deadline_ns = INT64_MAX; /* once */
    }
}

/* How long receive() may sleep when nothing is on the device and nothing could be formed. */
static int idle_timeout_ms(const struct loop *loop)
{
    if (is_choked(loop))
        return STALL_INTERVAL_MS;
    if (loop->deadline_ns) {
        int64_t left_ms = (loop->deadline_ns - clock_now_ns()) / ns_per_ms + 1;
        return left_ms < 1 ? 1 : left_ms < WATCH_INTERVAL_MS ? (int)left_ms : WATCH_INTERVAL_MS;
    }
    return scheduler_has_work(loop->scheduler) || link_has_queued(loop->detokenizer)
               ? WATCH_INTERVAL_MS
               : -1;
}

/* Nothing is left to do for a drain: it looks for frames once more, until it has found none. */
static bool look_again(struct loop *loop)
{
    int64_t now_ns = clock_now_ns();
    bool is_first = loop->looks_end_ns == 0;

    if (is_first)
        loop->looks_end_ns = now_ns + MAX_LAST_LOOKS_MS * ns_per_ms;
    else if (loop->num_seen == loop->counters.frames_in || now_ns >= loop->looks_end_ns)
        return false;
    loop->num_seen = loop->counters.frames_in;
    return true;
}

static struct status turn_until_done(struct loop *loop)
{
    const struct batch *previous = NULL;
    const struct batch *batch = NULL;
    int timeout_ms = 0;
    struct status status = status_ok();

    for (;;) {
        receive(loop, timeout_ms);
        heed_signals(loop);
        batch = NULL;
        /* Told to change to the normal loop? Then the step that is in flight comes first. */
        if (loop->args.is_overlapped || !previous)
            status = launch(loop, &batch);
        if (status.code)
            return status;
        publish(loop, clock_now_ns());
        if (loop->args.is_overlapped || previous) {
            const struct batch *launched = batch;
            batch = previous; /* to be processed now, while the new one runs */
            previous = launched;
        }
        timeout_ms = 0;
        if (batch)
            status = process(loop, batch);
        else if (!previous && loop->is_draining && !scheduler_has_work(loop->scheduler)) {
            if (!look_again(loop))
                return status;
            timeout_ms = LAST_LOOK_MS;
        } else if (!previous)
            timeout_ms = idle_timeout_ms(loop);
        if (status.code)
            return status;
    }
}

/* Bounded: a detokenizer that takes nothing must not keep us alive. */
static void flush(struct loop *loop)
{
    int64_t deadline_ns = clock_now_ns() + LINGER_MS * ns_per_ms;

    while (!link_flush(loop->detokenizer) && clock_now_ns() < deadline_ns)
        link_poller_wait(loop->poller, STALL_INTERVAL_MS);
}

struct status loop_run(struct loop *loop, struct engine *engine, struct scheduler *scheduler,
                       struct trace *trace)
{
    loop->engine = engine;
    loop->scheduler = scheduler;
    loop->trace = trace;
    struct status status = turn_until_done(loop);
    if (status.code) {
        scheduler_end_all(scheduler, ERROR_INTERNAL);
        publish(loop, clock_now_ns());
    }
    flush(loop);
    return status;
}
