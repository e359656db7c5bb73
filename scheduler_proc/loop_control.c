/* loop_control.c - the control endpoint of the scheduler process. */
#include <stdio.h>
#include <string.h>

#include "scheduler_proc/loop_internal.h"

void loop_drain(struct loop *loop)
{
    if (!loop->is_draining)
        log_info("draining: no new requests are taken");
    loop->is_draining = true;
    scheduler_drain(loop->scheduler);
}

static struct control_reply_msg obey(struct loop *loop, const struct control_msg *control)
{
    static const char bad_level[] = "level must be error, warn, info or debug";
    struct loop_state state = {.is_overlapped = loop->args.is_overlapped,
                               .is_draining = loop->is_draining,
                               .unsent_bytes = link_queued_bytes(loop->detokenizer)};
    struct control_reply_msg reply = {.ok = true};
    enum log_level level = LOG_INFO;
    char name[16];

    switch (control->command) {
    case CONTROL_PING:
        break;
    case CONTROL_STATS:
        loop_stats_write(loop->scheduler, engine_info(loop->engine), &loop->times, &loop->counters,
                         &state, &loop->text);
        reply.info = (struct bytes){(const uint8_t *)loop->text.data, loop->text.size};
        break;
    case CONTROL_DRAIN:
        loop_drain(loop);
        break;
    case CONTROL_FLUSH_CACHE:
        log_info("cache flushed pages=%d", scheduler_flush_cache(loop->scheduler));
        break;
    case CONTROL_LOG_LEVEL:
        snprintf(name, sizeof(name), "%.*s", (int)control->level.size,
                 control->level.size ? (const char *)control->level.data : "");
        reply.ok = log_level_parse(name, &level);
        if (reply.ok)
            log_set_level(level);
        else
            reply.message = (struct bytes){(const uint8_t *)bad_level, sizeof(bad_level) - 1};
        break;
    }
    return reply;
}

void loop_answer_control(struct loop *loop, const struct link_frame *frame)
{
    static const char not_control[] = "not a control message";
    struct message message = {0};
    struct message_fault fault;
    struct message answer = {.type = MESSAGE_CONTROL_REPLY};
    struct bytes peer = {.size = 0};

    arena_reset(&loop->arena);
    /* The peer is borrowed until the link's next call: the answer is one. */
    char *copy = arena_copy(&loop->arena, frame->peer.data, frame->peer.size);
    if (!copy)
        return;
    peer = (struct bytes){(const uint8_t *)copy, frame->peer.size};
    struct status status =
        message_decode(frame->data.data, frame->data.size, &loop->arena, &message, &fault);
    if (status.code)
        answer.control_reply.message =
            (struct bytes){(const uint8_t *)status.msg, strlen(status.msg)};
    else if (message.type != MESSAGE_CONTROL)
        answer.control_reply.message =
            (struct bytes){(const uint8_t *)not_control, sizeof(not_control) - 1};
    else
        answer.control_reply = obey(loop, &message.control);
    status = message_encode(&answer, &loop->frame);
    if (status.code == STATUS_OK)
        status = link_send_to(loop->control, &peer, loop->frame.data, loop->frame.size);
    if (status.code && status.code != STATUS_GONE)
        log_warn("control: %s", status.msg);
}
