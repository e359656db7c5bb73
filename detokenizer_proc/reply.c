/* reply.c - see reply.h. */
#include "detokenizer_proc/reply.h"

#include <stdlib.h>
#include <string.h>

struct reply *reply_create(uint64_t uid, struct bytes rid)
{
    struct reply *reply = calloc(1, sizeof(*reply));

    if (!reply)
        return NULL;
    reply->uid = uid;
    reply->rid = malloc(rid.size + 1);
    if (!reply->rid) {
        free(reply);
        return NULL;
    }
    if (rid.size)
        memcpy(reply->rid, rid.data, rid.size);
    reply->rid_size = rid.size;
    return reply;
}

void reply_destroy(struct reply **reply)
{
    if (!*reply)
        return;
    reply_release(*reply);
    free(*reply);
    *reply = NULL;
}

void reply_release(struct reply *reply)
{
    free(reply->rid);
    free(reply->unsent);
    free(reply->unsent_ids);
    reply->rid = NULL;
    reply->unsent = NULL;
    reply->unsent_ids = NULL;
    reply->rid_size = reply->unsent_size = reply->unsent_capacity = 0;
    reply->num_unsent_ids = reply->ids_capacity = 0;
}

/* Makes room for size more elements of element_size behind the used ones. */
static struct status reserve(void **data, size_t *capacity, size_t used, size_t size,
                             size_t element_size)
{
    if (used + size <= *capacity)
        return status_ok();
    size_t wanted = 2 * *capacity > used + size ? 2 * *capacity : used + size;
    void *grown = realloc(*data, wanted * element_size);
    if (!grown)
        return status_error(STATUS_NO_MEMORY, "no memory for %zu bytes of text", wanted);
    *data = grown;
    *capacity = wanted;
    return status_ok();
}

static struct status reserve_text(struct reply *reply, size_t size)
{
    void *data = reply->unsent;
    struct status status = reserve(&data, &reply->unsent_capacity, reply->unsent_size, size, 1);

    reply->unsent = data;
    return status;
}

static struct status reserve_id(struct reply *reply)
{
    void *data = reply->unsent_ids;
    struct status status =
        reserve(&data, &reply->ids_capacity, reply->num_unsent_ids, 1, sizeof(*reply->unsent_ids));

    reply->unsent_ids = data;
    return status;
}

struct status reply_add_token(struct reply *reply, const struct vocabulary *vocabulary,
                              int32_t token, int64_t step_end_ns, bool *out_matched)
{
    struct status status = reserve_text(reply, stream_room(&reply->text, vocabulary, token));

    if (!status.code && reply->want_ids)
        status = reserve_id(reply);
    if (status.code)
        return status;
    if (reply->want_ids)
        reply->unsent_ids[reply->num_unsent_ids++] = token;
    if (reply->usage.completion_tokens++ == 0)
        reply->first_token_ns = step_end_ns;
    reply->last_token_ns = step_end_ns;
    reply->unsent_size += stream_feed(&reply->text, vocabulary, token,
                                      reply->unsent + reply->unsent_size, out_matched);
    return status;
}

struct status reply_flush(struct reply *reply, bool *out_matched)
{
    struct status status = reserve_text(reply, stream_flush_room(&reply->text));

    if (!status.code)
        reply->unsent_size +=
            stream_flush(&reply->text, reply->unsent + reply->unsent_size, out_matched);
    return status;
}

struct delta reply_delta(const struct reply *reply)
{
    struct delta delta = {
        .rid = {reply->rid, reply->rid_size},
        .uid = reply->uid,
        .text = {(const uint8_t *)reply->unsent, reply->unsent_size},
        .ids = reply->unsent_ids,
        .num_ids = (int32_t)reply->num_unsent_ids,
    };

    if (reply->finish == FINISH_NONE)
        return delta;
    delta.finish = reply->finish;
    delta.error = reply->error;
    if (reply->error_message)
        delta.error_message =
            (struct bytes){(const uint8_t *)reply->error_message, strlen(reply->error_message)};
    delta.usage = reply->usage;
    delta.first_token_ns = reply->first_token_ns;
    delta.last_token_ns = reply->last_token_ns;
    return delta;
}

void reply_sent(struct reply *reply)
{
    reply->unsent_size = 0;
    reply->num_unsent_ids = 0;
}
