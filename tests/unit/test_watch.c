/* test_watch.c - when a silent peer is asked, and when it is lost. */
#include "tools/client/watch.h"

#include "common/clock.h"
#include "tests/unit/check_main.h"

static struct watch watch;

static void start(void)
{
    watch = (struct watch){.ask_ms = 1000, .again_ms = 500, .answer_ms = 3000};
    watch_start(&watch, 0);
}

START_TEST(is_asked_after_a_silence_and_again)
{
    start();
    ck_assert(!watch_must_ask(&watch, 999 * ns_per_ms));
    ck_assert(watch_must_ask(&watch, 1000 * ns_per_ms));
    watch_asked(&watch, 1000 * ns_per_ms);
    ck_assert(!watch_must_ask(&watch, 1499 * ns_per_ms));
    ck_assert(watch_must_ask(&watch, 1500 * ns_per_ms));
    watch_start(&watch, 1501 * ns_per_ms);
    ck_assert(!watch_must_ask(&watch, 2500 * ns_per_ms));
}
END_TEST

START_TEST(is_lost_only_when_asked)
{
    start();
    ck_assert(!watch_is_lost(&watch, 60000 * ns_per_ms)); /* nobody has looked */
    watch_asked(&watch, 60000 * ns_per_ms);
    watch_asked(&watch, 62900 * ns_per_ms);
    ck_assert(!watch_is_lost(&watch, 62999 * ns_per_ms));
    ck_assert(watch_is_lost(&watch, 63000 * ns_per_ms));
    watch_start(&watch, 63001 * ns_per_ms);
    ck_assert(!watch_is_lost(&watch, 63001 * ns_per_ms));
}
END_TEST

CHECK_MAIN("watch", is_asked_after_a_silence_and_again, is_lost_only_when_asked)
