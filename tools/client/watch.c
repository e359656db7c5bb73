/* watch.c - see watch.h. */
#include "tools/client/watch.h"

#include "common/clock.h"

void watch_start(struct watch *watch, int64_t now_ns)
{
    watch->heard_ns = now_ns;
    watch->first_asked_ns = watch->asked_ns = 0;
}

bool watch_must_ask(const struct watch *watch, int64_t now_ns)
{
    if (watch->asked_ns)
        return now_ns - watch->asked_ns >= watch->again_ms * ns_per_ms;
    return now_ns - watch->heard_ns >= watch->ask_ms * ns_per_ms;
}

void watch_asked(struct watch *watch, int64_t now_ns)
{
    watch->asked_ns = now_ns;
    if (!watch->first_asked_ns)
        watch->first_asked_ns = now_ns;
}

bool watch_is_lost(const struct watch *watch, int64_t now_ns)
{
    return watch->first_asked_ns && now_ns - watch->first_asked_ns >= watch->answer_ms * ns_per_ms;
}
