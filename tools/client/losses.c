/* losses.c - see losses.h. */
#include "tools/client/losses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"

enum {
    SILENCE_MS = 1000, /* then a peer is asked for a sign of life, */
    ASK_AGAIN_MS = 500,
    DETOKENIZER_LOST_MS = 2000, /* and so long after it is lost */
    TOKENIZER_LOST_MS = 3000,
};

static const char rid_prefix[] = "info-";

void losses_init(struct losses *losses, struct call_table *calls, int64_t now_ns)
{
    *losses = (struct losses){
        .calls = calls,
        .front = {.ask_ms = SILENCE_MS, .again_ms = ASK_AGAIN_MS, .answer_ms = TOKENIZER_LOST_MS},
        .reply = {.ask_ms = SILENCE_MS, .again_ms = ASK_AGAIN_MS, .answer_ms = DETOKENIZER_LOST_MS},
    };
    watch_start(&losses->reply, now_ns);
}

/* ---- the life of a call ---- */

void losses_begun(struct losses *losses, struct call *call, bool is_request, int64_t now_ns)
{
    call->is_request = is_request;
    call->order = losses->num_begun++;
    if (losses->num_unanswered++ == 0) {
        watch_start(&losses->front, now_ns);
        losses->info_ns = now_ns;
    }
}

void losses_answered(struct losses *losses, struct call *call)
{
    losses->num_unanswered -= !call->is_answered;
    call->is_answered = true;
}

void losses_ended(struct losses *losses, const struct call *call)
{
    losses->num_unanswered -= !call->is_answered;
    losses->num_lost -= call->is_lost;
}

/* ---- loss ---- */

static void lose(struct losses *losses, struct call *call)
{
    losses->num_lost += !call->is_lost;
    call->is_lost = true;
}

/* Their text comes no more, or not all of it. */
static void lose_requests(struct losses *losses)
{
    struct call *call = call_table_first_open(losses->calls);

    for (; call; call = call_table_next_open(losses->calls, call))
        if (call->is_request)
            lose(losses, call);
}

/* Of the first num_begun calls. */
static void lose_unanswered(struct losses *losses, uint64_t num_begun)
{
    struct call *call = call_table_first_open(losses->calls);

    for (; call; call = call_table_next_open(losses->calls, call))
        if (!call->is_answered && call->order < num_begun)
            lose(losses, call);
}

struct call *losses_next(struct losses *losses)
{
    struct call *call = losses->num_lost ? call_table_first_open(losses->calls) : NULL;

    while (call && !call->is_lost)
        call = call_table_next_open(losses->calls, call);
    return call;
}

/* ---- what arrives ---- */

void losses_heard_front(struct losses *losses, int64_t now_ns)
{
    watch_start(&losses->front, now_ns);
}

/* Another session: the requests of the one before have been ended. Another count: what is missing
 * is not known, so it may be the end of any. */
static void take_presence(struct losses *losses, const struct presence_msg *presence)
{
    if (!presence->session) /* it does not say */
        return;
    if (losses->presence.session && (presence->session != losses->presence.session ||
                                     presence->num_sent != losses->presence.num_sent))
        lose_requests(losses);
    losses->presence = *presence;
}

void losses_heard_reply(struct losses *losses, const struct message *message, int64_t now_ns)
{
    watch_start(&losses->reply, now_ns);
    if (message->type == MESSAGE_HELLO_OK || message->type == MESSAGE_ALIVE)
        take_presence(losses, &message->presence);
    else if (message->type == MESSAGE_DELTAS ||
             (message->type == MESSAGE_ERROR && message->error.uid))
        losses->presence.num_sent++;
}

struct bytes losses_info_rid(const struct losses *losses, char *out)
{
    int size = snprintf(out, LOSSES_RID_BYTES, "%s%llu", rid_prefix,
                        (unsigned long long)losses->num_begun);

    return (struct bytes){(const uint8_t *)out, (size_t)size};
}

/* Answers come in the order of their frames when nothing is at work between: when nothing is of
 * what was sent before the question, whatever of it is not answered was lost. */
void losses_take_info(struct losses *losses, const struct result_msg *result, struct arena *arena)
{
    const size_t prefix = strlen(rid_prefix);
    struct json_value *info = NULL;
    char number[LOSSES_RID_BYTES] = "";

    if (result->rid.size < prefix || result->rid.size >= sizeof(number) ||
        memcmp(result->rid.data, rid_prefix, prefix) != 0 ||
        json_parse((const char *)result->info.data, result->info.size, arena, &info).code)
        return;
    memcpy(number, result->rid.data + prefix, result->rid.size - prefix);
    const struct json_value *pending = json_get(info, "pending");
    if (pending && pending->is_integer && pending->integer == 0)
        lose_unanswered(losses, strtoull(number, NULL, 10));
}

/* ---- what is due ---- */

struct losses_due losses_look_out(struct losses *losses, int64_t now_ns)
{
    struct losses_due due = {.hello = watch_must_ask(&losses->reply, now_ns)};

    if (watch_is_lost(&losses->reply, now_ns))
        lose_requests(losses);
    if (!losses->num_unanswered)
        return due;
    due.info = watch_must_ask(&losses->front, now_ns) ||
               now_ns - losses->info_ns >= SILENCE_MS * ns_per_ms; /* others may be answered */
    if (watch_is_lost(&losses->front, now_ns))
        lose_unanswered(losses, losses->num_begun);
    return due;
}

void losses_said_hello(struct losses *losses, int64_t now_ns)
{
    watch_asked(&losses->reply, now_ns);
}

void losses_said_info(struct losses *losses, int64_t now_ns)
{
    losses->info_ns = now_ns;
    watch_asked(&losses->front, now_ns);
}
