/* detokenizer_check.c - what must be true of the detokenizer between two calls. */
#include <assert.h>

#include "detokenizer_proc/detokenizer.h"

static size_t check_client(const struct detokenizer *d, const struct client *client)
{
    size_t num_open = 0, unsent_bytes = 0, refusal_bytes = 0;
    int32_t num_pending = 0;

    assert(key_table_find(&d->clients_by_id, key_of_client(&client->id)) == client);
    assert(client->is_ready || client->blocked_since_ns || !client_has_unsent(client));
    /* Nothing is sent in a stall, so what waited when it began still waits. */
    assert(client->stalled_since_ns >= client->blocked_since_ns);
    assert(client->stalled_bytes <= client->unsent_bytes);
    assert(client->blocked_since_ns || (!client->stalled_since_ns && !client->stalled_bytes));
    for (const struct reply *reply = client->replies; reply; reply = reply->older) {
        assert(reply->client == client);
        assert(reply->is_pending || reply->finish == FINISH_NONE);
        assert(reply->is_pending || !reply->is_streamed || reply_unsent_bytes(reply) == 0);
        assert(reply->is_in_table || reply->finish != FINISH_NONE);
        num_open += reply->finish == FINISH_NONE;
    }
    for (const struct reply *reply = client->first_pending; reply; reply = reply->next_pending) {
        assert(reply->is_pending && reply->client == client);
        unsent_bytes += reply_unsent_bytes(reply);
        num_pending++;
    }
    assert(num_pending == client->num_pending);
    for (const struct refusal *r = client->first_refusal; r; r = r->next)
        refusal_bytes += sizeof(*r) + r->rid_size + r->message_size;
    assert(unsent_bytes == client->unsent_bytes && refusal_bytes == client->refusal_bytes);
    (void)num_pending, (void)unsent_bytes, (void)refusal_bytes;
    return num_open;
}

void detokenizer_check(const struct detokenizer *d)
{
    size_t num_open = 0, num_clients = 0, num_blocked = 0;

    key_table_check(&d->replies_by_uid);
    key_table_check(&d->clients_by_id);
    stop_cache_check(&d->stops);
    for (const struct client *client = d->clients; client; client = client->older) {
        num_open += check_client(d, client);
        num_blocked += client->blocked_since_ns != 0;
        num_clients++;
    }
    assert(num_open == d->num_open && num_blocked == d->num_blocked);
    assert(num_clients == d->clients_by_id.num_values);
    for (size_t i = 0; i < d->replies_by_uid.num_slots; i++) {
        const struct reply *reply = d->replies_by_uid.slots[i].value;
        assert(!reply || (reply->is_in_table && (reply->client || reply->finish != FINISH_NONE)));
        assert(!reply || reply->finish == FINISH_NONE || !reply->text.stop);
        (void)reply;
    }
    (void)num_clients, (void)num_blocked, (void)num_open;
}
