/*
 * watch.h - how long a peer has been silent: when to ask it for a sign of life, and when it is
 * lost. Numbers only; who asks, and how, is the caller's business.
 */
#ifndef TOOLS_CLIENT_WATCH_H
#define TOOLS_CLIENT_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct watch {
    int64_t heard_ns;                    /* when it was heard, or when its silence began to count */
    int64_t first_asked_ns, asked_ns;    /* since then; 0: not asked */
    int64_t ask_ms, again_ms, answer_ms; /* of silence until it is asked; from one question to the
                                            next; from the first one until it is lost */
};

/* It was heard; or nothing is expected of it before now. */
void watch_start(struct watch *watch, int64_t now_ns);

bool watch_must_ask(const struct watch *watch, int64_t now_ns);
void watch_asked(struct watch *watch, int64_t now_ns);

/* Never before it has been asked, so one that has not looked for long finds nobody lost. */
bool watch_is_lost(const struct watch *watch, int64_t now_ns);

#endif
