/* control_endpoint.c - see control_endpoint.h. */
#include "proto/control_endpoint.h"

#include <string.h>

#include "common/log.h"

enum { MAX_COMMANDS_PER_TURN = 64, LINGER_MS = 100 };

struct status control_endpoint_open(struct control_endpoint *endpoint, const char *address)
{
    struct link *link = NULL;

    *endpoint = (struct control_endpoint){0};
    if (!address)
        return status_ok();
    struct status status =
        link_open(&(struct link_args){.kind = LINK_REP, .endpoint = address, .bind = true}, &link);
    if (status.code == STATUS_INVALID && strncmp(address, "tcp://", 6) == 0) /* it has no keys */
        return status_error(STATUS_INVALID,
                            "%.100s: a control endpoint is ipc:///path, or tcp:// on loopback",
                            address);
    if (status.code)
        return status;
    endpoint->link = link;
    arena_init(&endpoint->arena, 0, 0);
    return status;
}

void control_endpoint_close(struct control_endpoint *endpoint)
{
    if (!endpoint->link)
        return;
    link_close(&endpoint->link, LINGER_MS);
    frame_buffer_deinit(&endpoint->frame);
    json_writer_deinit(&endpoint->info);
    arena_deinit(&endpoint->arena);
}

const char *control_endpoint_address(const struct control_endpoint *endpoint)
{
    return endpoint->link ? link_endpoint(endpoint->link) : "";
}

static struct status set_log_level(const struct bytes *name)
{
    char text[16] = {0};
    enum log_level level;

    if (name->size && name->size < sizeof(text))
        memcpy(text, name->data, name->size);
    if (!log_level_parse(text, &level))
        return status_error(STATUS_INVALID, "level: must be error, warn, info or debug");
    log_set_level(level);
    return status_ok();
}

/* Reads one frame and does what it says. */
static struct status take(struct control_endpoint *endpoint, const struct bytes *frame,
                          control_obey obey, void *process)
{
    struct message message;
    struct message_fault fault = {0};
    struct status status =
        message_decode(frame->data, frame->size, &endpoint->arena, &message, &fault);

    if (status.code)
        return status;
    if (message.type != MESSAGE_CONTROL)
        return status_error(STATUS_INVALID, "type: this is a control endpoint");
    switch (message.control.command) {
    case CONTROL_PING:
        break;
    case CONTROL_LOG_LEVEL:
        return set_log_level(&message.control.level);
    case CONTROL_STATS:
    case CONTROL_DRAIN:
    case CONTROL_FLUSH_CACHE:
    case CONTROL_NORMAL_LOOP:
    case CONTROL_OVERLAP_LOOP:
    case CONTROL_CHECK:
        status = obey(process, message.control.command, &endpoint->info);
        break;
    }
    if (status.code == STATUS_OK && endpoint->info.failed)
        return status_error(STATUS_NO_MEMORY, "no memory for the answer");
    return status;
}

static struct status answer(struct control_endpoint *endpoint, const struct bytes *peer,
                            const struct status *done)
{
    const struct message message = {
        .type = MESSAGE_CONTROL_REPLY,
        .control_reply = {
            .ok = done->code == STATUS_OK,
            .info = {(const uint8_t *)endpoint->info.data, endpoint->info.size},
            .message = {(const uint8_t *)done->msg, strlen(done->msg)},
        }};
    struct status status = message_encode(&message, &endpoint->frame);

    if (status.code == STATUS_OK)
        status = link_send_to(endpoint->link, peer, endpoint->frame.data, endpoint->frame.size);
    return status;
}

void control_endpoint_turn(struct control_endpoint *endpoint, control_obey obey, void *process)
{
    struct link_frame frame;

    if (!endpoint->link)
        return;
    for (int i = 0; i < MAX_COMMANDS_PER_TURN && link_receive(endpoint->link, &frame); i++) {
        arena_reset(&endpoint->arena);
        json_writer_reset(&endpoint->info);
        struct status status = take(endpoint, &frame.data, obey, process);
        status = answer(endpoint, &frame.peer, &status);
        if (status.code)
            log_debug("no answer on the control endpoint: %s", status.msg);
    }
}
