/*
 * losses.h - which open calls can have no end of their own any more.
 *
 * Four things take it from them: the detokenizer is silent; it has forgotten this client between
 * two sessions; frames went down with the connection to it; the tokenizer is silent, or has nothing
 * at work though a call has no answer. PROTOCOL.md, section 2, says how a client knows. Sends
 * nothing: the client does, as losses_look_out() says.
 */
#ifndef TOOLS_CLIENT_LOSSES_H
#define TOOLS_CLIENT_LOSSES_H

#include "common/arena.h"
#include "proto/messages.h"
#include "tools/client/calls.h"
#include "tools/client/watch.h"

struct losses {
    struct call_table *calls; /* borrowed */
    struct watch front;       /* the tokenizer, while a call has no answer: `info` asks */
    struct watch reply;       /* the detokenizer, at all times: `hello` asks */
    int64_t info_ns;       /* when it was asked last, or the first call without an answer begun */
    size_t num_unanswered; /* open calls */
    size_t num_lost;       /* the same: those that are to be ended */
    uint64_t num_begun;    /* calls */
    struct presence_msg presence; /* the session, and what has arrived of it */
};

void losses_init(struct losses *losses, struct call_table *calls, int64_t now_ns);

/* The life of a call. */
void losses_begun(struct losses *losses, struct call *call, bool is_request, int64_t now_ns);
void losses_answered(struct losses *losses, struct call *call);
void losses_ended(struct losses *losses, const struct call *call);

/* A frame has arrived: any on front; the message of one on reply. */
void losses_heard_front(struct losses *losses, int64_t now_ns);
void losses_heard_reply(struct losses *losses, const struct message *message, int64_t now_ns);
/* The answer to an `info` of losses_info_rid(); others are ignored. */
void losses_take_info(struct losses *losses, const struct result_msg *result, struct arena *arena);

enum { LOSSES_RID_BYTES = 32 };
/* The rid of the next `info`, in out [LOSSES_RID_BYTES]: it says which calls were begun before. */
struct bytes losses_info_rid(const struct losses *losses, char *out);

/* What is to be sent now. */
struct losses_due {
    bool hello, info;
};
struct losses_due losses_look_out(struct losses *losses, int64_t now_ns);
void losses_said_hello(struct losses *losses, int64_t now_ns);
void losses_said_info(struct losses *losses, int64_t now_ns);

/* A call that is lost, to be ended; NULL: none. */
struct call *losses_next(struct losses *losses);

#endif
