/* client.c - see client.h. */
#include "detokenizer_proc/client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What one frame may hold; a single delta may be larger. */
enum { MAX_MESSAGE_DELTAS = 16384, MAX_MESSAGE_BYTES = 8 << 20 };

struct client *client_create(const struct client_id *id, uint64_t session)
{
    struct client *client = calloc(1, sizeof(*client));

    if (client)
        *client = (struct client){.id = *id, .session = session};
    return client;
}

void client_destroy(struct client **client)
{
    if (!*client)
        return;
    assert(!(*client)->replies && !(*client)->is_ready);
    while ((*client)->first_refusal)
        client_drop_refusal(*client);
    free(*client);
    *client = NULL;
}

void client_attach(struct client *client, struct reply *reply)
{
    reply->client = client;
    reply->newer = NULL;
    reply->older = client->replies;
    if (reply->older)
        reply->older->newer = reply;
    client->replies = reply;
}

static void remove_pending(struct client *client, struct reply *reply)
{
    struct reply *before = NULL;

    if (!reply->is_pending)
        return;
    for (struct reply *at = client->first_pending; at != reply; at = at->next_pending)
        before = at;
    *(before ? &before->next_pending : &client->first_pending) = reply->next_pending;
    if (client->last_pending == reply)
        client->last_pending = before;
    reply->next_pending = NULL;
    reply->is_pending = false;
    client->num_pending--;
}

void client_detach(struct client *client, struct reply *reply)
{
    if (reply->is_pending)
        client->unsent_bytes -= reply_unsent_bytes(reply);
    remove_pending(client, reply);
    *(reply->newer ? &reply->newer->older : &client->replies) = reply->older;
    if (reply->older)
        reply->older->newer = reply->newer;
    reply->newer = reply->older = NULL;
    reply->client = NULL;
}

void client_mark_pending(struct client *client, struct reply *reply, size_t num_bytes)
{
    if (reply->is_pending) {
        client->unsent_bytes += num_bytes;
        return;
    }
    client->unsent_bytes += reply_unsent_bytes(reply);
    *(client->last_pending ? &client->last_pending->next_pending : &client->first_pending) = reply;
    client->last_pending = reply;
    reply->next_pending = NULL;
    reply->is_pending = true;
    client->num_pending++;
}

struct reply *client_take_pending(struct client *client, int32_t n)
{
    struct reply *first = client->first_pending, *last = NULL;

    client->num_pending -= n;
    for (struct reply *reply = first; n > 0; n--) {
        client->unsent_bytes -= reply_unsent_bytes(reply);
        reply->is_pending = false;
        last = reply;
        reply = reply->next_pending;
    }
    if (!last)
        return NULL;
    client->first_pending = last->next_pending;
    if (!client->first_pending)
        client->last_pending = NULL;
    last->next_pending = NULL;
    return first;
}

static size_t refusal_bytes(const struct refusal *refusal)
{
    return sizeof(*refusal) + refusal->rid_size + refusal->message_size;
}

struct status client_add_refusal(struct client *client, uint64_t uid, enum error_code code,
                                 struct bytes rid, struct bytes message)
{
    struct refusal *refusal = malloc(sizeof(*refusal) + rid.size + message.size);

    if (!refusal)
        return status_error(STATUS_NO_MEMORY, "no memory for a refusal");
    *refusal = (struct refusal){
        .uid = uid, .code = code, .rid_size = rid.size, .message_size = message.size};
    if (rid.size)
        memcpy(refusal->bytes, rid.data, rid.size);
    if (message.size)
        memcpy(refusal->bytes + rid.size, message.data, message.size);
    *(client->last_refusal ? &client->last_refusal->next : &client->first_refusal) = refusal;
    client->last_refusal = refusal;
    client->refusal_bytes += refusal_bytes(refusal);
    return status_ok();
}

void client_drop_refusal(struct client *client)
{
    struct refusal *refusal = client->first_refusal;

    client->refusal_bytes -= refusal_bytes(refusal);
    client->first_refusal = refusal->next;
    if (!client->first_refusal)
        client->last_refusal = NULL;
    free(refusal);
}

static struct status build_deltas(struct client *client, struct arena *arena, struct message *out)
{
    int32_t max =
        client->num_pending < MAX_MESSAGE_DELTAS ? client->num_pending : MAX_MESSAGE_DELTAS;
    struct delta *deltas = arena_alloc(arena, (size_t)max * sizeof(*deltas));
    size_t num_bytes = 0;
    int32_t n = 0;

    if (!deltas)
        return status_error(STATUS_NO_MEMORY, "no memory for %d deltas", max);
    for (const struct reply *reply = client->first_pending; n < max; reply = reply->next_pending) {
        deltas[n++] = reply_delta(reply);
        num_bytes += reply_unsent_bytes(reply);
        if (num_bytes > MAX_MESSAGE_BYTES)
            break;
    }
    client->num_in_message = n;
    *out = (struct message){.type = MESSAGE_DELTAS, .deltas = {n, deltas}};
    return status_ok();
}

struct status client_next_message(struct client *client, struct arena *arena, struct message *out)
{
    const struct refusal *refusal = client->first_refusal;

    if (client->owes_hello_ok) {
        *out = (struct message){.type = MESSAGE_HELLO_OK, .presence = client_presence(client)};
        return status_ok();
    }
    if (client->first_pending)
        return build_deltas(client, arena, out);
    *out = (struct message){
        .type = MESSAGE_ERROR,
        .error = {.rid = {refusal->bytes, refusal->rid_size},
                  .uid = refusal->uid,
                  .code = refusal->code,
                  .message = {refusal->bytes + refusal->rid_size, refusal->message_size}}};
    return status_ok();
}
