/* control.c - see control.h. */
#include "tools/client/control.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "proto/link.h"
#include "proto/messages_codec.h"

static struct status take_answer(const struct message *answer, char **out)
{
    const struct control_reply_msg *reply = &answer->control_reply;

    if (answer->type == MESSAGE_ERROR)
        return status_error(STATUS_INVALID, "%.*s", (int)answer->error.message.size,
                            (const char *)answer->error.message.data);
    if (answer->type != MESSAGE_CONTROL_REPLY)
        return status_error(STATUS_FORMAT, "the answer is no control_reply");
    if (!reply->ok)
        return status_error(STATUS_INVALID, "%.*s", (int)reply->message.size,
                            (const char *)reply->message.data);
    char *text = malloc(reply->info.size + 1);
    if (!text)
        return status_error(STATUS_NO_MEMORY, "no memory for the answer");
    if (reply->info.size)
        memcpy(text, reply->info.data, reply->info.size);
    text[reply->info.size] = '\0';
    *out = text;
    return status_ok();
}

/* Waits for one frame. */
static struct status wait_answer(struct link *link, int timeout_ms, struct link_frame *out)
{
    int64_t deadline_ns = clock_now_ns() + (int64_t)timeout_ms * 1000000, left_ns;
    struct link_poller *poller = NULL;
    struct status status = link_poller_open(&link, 1, &poller);

    if (status.code)
        return status;
    while (!link_receive(link, out)) {
        left_ns = deadline_ns - clock_now_ns();
        if (left_ns <= 0) {
            status = status_error(STATUS_GONE, "%.80s: no answer", link_endpoint(link));
            break;
        }
        link_poller_wait(poller, (int)(left_ns / 1000000) + 1);
    }
    link_poller_close(&poller);
    return status;
}

struct status control_ask(const char *endpoint, const struct control_msg *control, int timeout_ms,
                          char **out)
{
    const struct message question = {.type = MESSAGE_CONTROL, .control = *control};
    struct message answer;
    struct message_fault fault;
    struct link *link = NULL;
    struct link_frame frame;
    struct frame_buffer buffer = {0};
    struct arena arena;
    struct status status;

    arena_init(&arena, 0, 0);
    status = message_encode(&question, &buffer);
    if (!status.code)
        status = link_open(&(struct link_args){.kind = LINK_REQ, .endpoint = endpoint}, &link);
    if (!status.code)
        status = link_send(link, buffer.data, buffer.size);
    if (!status.code)
        status = wait_answer(link, timeout_ms, &frame);
    if (!status.code)
        status = message_decode(frame.data.data, frame.data.size, &arena, &answer, &fault);
    if (!status.code)
        status = take_answer(&answer, out);
    link_close(&link, 0);
    frame_buffer_deinit(&buffer);
    arena_deinit(&arena);
    return status;
}
