/* loop.c - see loop.h. Nothing waits but the poller. */
#include "tokenizer_proc/loop.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "proto/link.h"
#include "proto/messages_codec.h"

enum {
    MAX_FRAMES_PER_TURN = 64,
    SHUTDOWN_MS = 1000, /* after a signal, for what is under way */
    LINGER_MS = 100,
};

static const int64_t ns_per_ms = 1000000;

struct loop {
    struct front *front;        /* owned */
    struct link *control;       /* owned; may be NULL */
    struct link_poller *poller; /* owned */
    struct arena arena;         /* of one control frame */
    struct frame_buffer frame;
    struct json_writer text;
    int64_t deadline_ns; /* of a shutdown; 0: none */
};

/* ---- control ---- */

static struct status obey(struct loop *loop, const struct control_msg *control,
                          struct bytes *out_info)
{
    char level_name[16] = {0};
    enum log_level level;

    switch (control->command) {
    case CONTROL_PING:
        return status_ok();
    case CONTROL_STATS:
        front_write_stats(loop->front, &loop->text);
        *out_info = (struct bytes){(const uint8_t *)loop->text.data, loop->text.size};
        return status_ok();
    case CONTROL_DRAIN:
        front_drain(loop->front);
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

static struct status open_parts(struct loop *loop, const struct loop_args *args)
{
    struct status status = front_open(&args->front, &loop->front);

    if (status.code == STATUS_OK && args->control)
        status = link_open(
            &(struct link_args){.kind = LINK_REP, .endpoint = args->control, .bind = true},
            &loop->control);
    if (status.code)
        return status;
    struct link *links[] = {front_endpoint(loop->front), front_scheduler(loop->front),
                            loop->control};
    status = link_poller_open(links, args->control ? 3 : 2, &loop->poller);
    if (status.code == STATUS_OK)
        link_poller_watch(loop->poller, front_fd(loop->front));
    return status;
}

struct status loop_open(const struct loop_args *args, struct loop **out)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return status_error(STATUS_NO_MEMORY, "no memory for the loop");
    arena_init(&loop->arena, 0, 0);
    struct status status = open_parts(loop, args);
    if (status.code)
        loop_close(&loop);
    else
        *out = loop;
    return status;
}

bool loop_close(struct loop **loop_ptr)
{
    struct loop *loop = *loop_ptr;

    if (!loop)
        return true;
    *loop_ptr = NULL;
    bool has_ended = front_close(&loop->front);
    link_poller_close(&loop->poller);
    link_close(&loop->control, LINGER_MS);
    frame_buffer_deinit(&loop->frame);
    json_writer_deinit(&loop->text);
    arena_deinit(&loop->arena);
    free(loop);
    return has_ended;
}

const char *loop_endpoint(const struct loop *loop)
{
    return link_endpoint(front_endpoint(loop->front));
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
    front_drain(loop->front);
    loop->deadline_ns = clock_now_ns() + SHUTDOWN_MS * ns_per_ms;
}

static bool is_finished(const struct loop *loop)
{
    return front_is_drained(loop->front) ||
           (loop->deadline_ns && clock_now_ns() >= loop->deadline_ns);
}

static int timeout_ms(const struct loop *loop)
{
    int front_ms = front_timeout_ms(loop->front);

    if (!loop->deadline_ns)
        return front_ms;
    int64_t left_ms = (loop->deadline_ns - clock_now_ns()) / ns_per_ms + 1;
    if (front_ms >= 0 && front_ms < left_ms)
        return front_ms;
    return left_ms > 0 ? (int)left_ms : 0;
}

void loop_run(struct loop *loop)
{
    while (!is_finished(loop)) {
        link_poller_wait(loop->poller, timeout_ms(loop));
        heed_signals(loop);
        take_control(loop);
        front_turn(loop->front);
    }
    log_info("stopped");
}
