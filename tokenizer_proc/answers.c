/* answers.c - see answers.h. */
#include "tokenizer_proc/answers.h"

#include "common/clock.h"

/* For how long it may read nothing; and when so much waits for it. A single answer may be larger.
 * Refusals are small, and more wait only for one that sends on and on without heeding them. */
enum {
    MAX_STALL_MS = 10000,
    MANY_BYTES = 4 << 20,
    MAX_STALL_OF_MANY_MS = 1000,
    MAX_UNSENT = 1 << 18,
};

static struct status send_one(struct answers *answers, const struct client_queue *client,
                              struct bytes answer)
{
    const struct bytes peer = client_queue_peer(client);
    struct status status = link_send_to(answers->endpoint, &peer, answer.data, answer.size);

    if (status.code == STATUS_OK) {
        answers->frames_out++;
        answers->bytes_out += answer.size;
    }
    return status;
}

/* Until the socket takes no more: then NO_SPACE. */
static struct status send_unsent(struct answers *answers, struct client_queues *clients,
                                 struct client_queue *client, int64_t now_ns)
{
    while (client->first_unsent) {
        struct status status = send_one(answers, client, client_queue_unsent(client));
        if (status.code)
            return status;
        client_queue_drop_unsent(clients, client, now_ns);
    }
    return status_ok();
}

void answers_send(struct answers *answers, struct client_queues *clients,
                  struct client_queue *client, struct bytes answer)
{
    int64_t now_ns = clock_now_ns();
    struct status status = send_unsent(answers, clients, client, now_ns);

    if (!client->first_unsent)
        status = send_one(answers, client, answer);
    if (client->first_unsent || status.code == STATUS_NO_SPACE)
        status = client_queue_hold(clients, client, answer, now_ns);
    if (status.code) /* gone: there is nobody to tell */
        answers->num_lost++;
}

static void lose_all(struct answers *answers, struct client_queues *clients,
                     struct client_queue *client, int64_t now_ns, const char *why)
{
    int64_t skipped;

    while (client->first_unsent) {
        client_queue_drop_unsent(clients, client, now_ns);
        answers->num_lost++;
    }
    if (log_limited(&answers->lost_limit, now_ns, &skipped))
        log_info("answers to a client lost: %s (%lld more such lines)", why, (long long)skipped);
}

bool answers_are_many(const struct client_queue *client)
{
    return client->unsent_bytes > MANY_BYTES;
}

static bool is_patient(const struct client_queue *client, int64_t now_ns)
{
    int64_t max_ms = answers_are_many(client) ? MAX_STALL_OF_MANY_MS : MAX_STALL_MS;

    return client->num_unsent <= MAX_UNSENT &&
           now_ns - client->unsent_since_ns < max_ms * ns_per_ms;
}

bool answers_retry(struct answers *answers, struct client_queues *clients,
                   struct client_queue *client, int64_t now_ns)
{
    struct status status = send_unsent(answers, clients, client, now_ns);

    if (!status.code || (status.code == STATUS_NO_SPACE && is_patient(client, now_ns)))
        return true;
    lose_all(answers, clients, client, now_ns, status.msg);
    return false;
}
