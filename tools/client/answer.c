/* answer.c - see answer.h. */
#include "tools/client/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/client/commands.h"

void answer_deinit(struct answer *answer)
{
    free(answer->text);
    free(answer->ids);
    *answer = (struct answer){0};
}

/* Appends size elements; false when there is no memory. */
static bool append(void **data, size_t *used, size_t *capacity, const void *more, size_t size,
                   size_t element_size)
{
    if (*used + size > *capacity) {
        size_t wanted = 2 * (*used + size);
        void *grown = realloc(*data, wanted * element_size);
        if (!grown)
            return false;
        *data = grown;
        *capacity = wanted;
    }
    if (size)
        memcpy((char *)*data + *used * element_size, more, size * element_size);
    *used += size;
    return true;
}

void answer_fail(struct answer *answer, enum error_code code, const char *message)
{
    answer->error = code;
    snprintf(answer->message, sizeof(answer->message), "%s", message);
}

static void fail_bytes(struct answer *answer, enum error_code code, struct bytes message)
{
    size_t size = message.size < MAX_ERROR_BYTES ? message.size : MAX_ERROR_BYTES;

    answer->error = code ? code : ERROR_INTERNAL;
    if (size)
        memcpy(answer->message, message.data, size);
    answer->message[size] = '\0';
}

void answer_add(struct answer *answer, const struct client_event *event)
{
    const struct delta *delta = event->delta;

    if (event->uid)
        answer->uid = event->uid;
    if (delta) {
        void *text = answer->text, *ids = answer->ids;
        bool fits = append(&text, &answer->text_size, &answer->text_capacity, delta->text.data,
                           delta->text.size, 1);
        answer->text = text;
        fits = append(&ids, &answer->num_ids, &answer->ids_capacity, delta->ids,
                      (size_t)delta->num_ids, sizeof(int32_t)) &&
               fits;
        answer->ids = ids;
        if (!fits)
            answer_fail(answer, ERROR_INTERNAL, "no memory for the answer");
        if (delta->finish) {
            answer->finish = delta->finish;
            answer->usage = delta->usage;
        }
    }
    if (event->kind == CLIENT_ERROR)
        fail_bytes(answer, event->error, event->error_message);
}

bool answer_follow(struct answer *answer, struct client *client, uint64_t call, FILE *out)
{
    struct client_event event;

    while (client_next(client, -1, &event)) {
        if (event.call != call)
            continue;
        if (event.kind == CLIENT_ACCEPTED && answer->is_announced)
            fprintf(stderr, "minisgl: uid=%llu\n", (unsigned long long)event.uid);
        if (out && event.delta && event.delta->text.size) {
            fwrite(event.delta->text.data, 1, event.delta->text.size, out);
            fflush(out);
        }
        answer_add(answer, &event);
        if (event.is_last)
            return true;
    }
    command_abort_call(client, call);
    return false;
}

static void write_error(const struct answer *answer, struct json_writer *out)
{
    json_key(out, "error");
    json_begin_object(out);
    json_put_cstring(out, "code", error_code_name(answer->error));
    json_put_cstring(out, "message", answer->message);
    json_end_object(out);
}

static void write_usage(const struct usage *usage, struct json_writer *out)
{
    json_key(out, "usage");
    json_begin_object(out);
    json_put_int(out, "prompt_tokens", usage->prompt_tokens);
    json_put_int(out, "completion_tokens", usage->completion_tokens);
    json_put_int(out, "cached_tokens", usage->cached_tokens);
    json_end_object(out);
}

void answer_write(const struct answer *answer, const struct json_value *id, bool has_uid,
                  struct json_writer *out)
{
    json_begin_object(out);
    if (id) {
        json_key(out, "id");
        json_write_value(out, id);
    }
    if (has_uid && answer->uid)
        json_put_uint(out, "uid", answer->uid);
    if (answer->error) {
        write_error(answer, out);
    } else {
        json_key(out, "text");
        json_string(out, answer->text ? answer->text : "", answer->text_size);
        json_key(out, "output_ids");
        json_begin_array(out);
        for (size_t i = 0; i < answer->num_ids; i++)
            json_int(out, answer->ids[i]);
        json_end_array(out);
        json_put_cstring(out, "finish_reason", finish_reason_name(answer->finish));
        write_usage(&answer->usage, out);
    }
    json_end_object(out);
}
