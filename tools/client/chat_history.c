/* chat_history.c - see chat_history.h. */
#include "tools/client/chat_history.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"

void chat_history_deinit(struct chat_history *history)
{
    json_writer_deinit(&history->text);
}

void chat_history_clear(struct chat_history *history)
{
    json_writer_reset(&history->text);
}

void chat_history_add(struct chat_history *history, const char *role, const char *text, size_t size)
{
    struct json_writer *out = &history->text;

    if (out->size == 0)
        json_begin_array(out);
    json_begin_object(out);
    json_put_cstring(out, "role", role);
    json_key(out, "content");
    json_string(out, text, size);
    json_end_object(out);
}

struct bytes chat_history_messages(struct chat_history *history)
{
    struct json_writer *out = &history->text;
    size_t size = out->size;

    json_end_array(out);
    struct bytes messages = {(const uint8_t *)out->data, out->size};
    out->size = size; /* the next message goes where the bracket is */
    out->need_comma = true;
    return messages;
}

void chat_history_cut(struct chat_history *history, size_t size)
{
    if (size == 0) {
        json_writer_reset(&history->text);
        return;
    }
    history->text.size = size;
    history->text.need_comma = true;
}
