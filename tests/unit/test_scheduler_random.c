/*
 * test_scheduler_random.c - seeded random traffic. MINISGL_RANDOM_STEPS sets the number of steps,
 * MINISGL_RANDOM_SEED the first seed. A seed that fails is printed as its shortest replay, unless
 * MINISGL_RANDOM_SHORTEN is 0.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

#include "tests/unit/check_main.h"
#include "tests/unit/traffic.h"

static sigjmp_buf crashed;

static void on_signal(int number)
{
    siglongjmp(crashed, number);
}

static int64_t setting(const char *name, int64_t value)
{
    const char *text = getenv(name);

    return text ? strtoll(text, NULL, 10) : value;
}

/* true: the seed's run is right. */
static bool run_seed(uint64_t seed, int64_t *num_steps)
{
    static struct traffic traffic;
    static struct traffic_result result;
    int crash = sigsetjmp(crashed, 1);

    if (crash == 0) {
        traffic_make(seed, &traffic);
        traffic_run(&traffic, &result);
        *num_steps += result.num_steps;
        if (result.error[0] == '\0')
            return true;
    }
    signal(SIGABRT, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    if (setting("MINISGL_RANDOM_SHORTEN", 1) == 0)
        return false;
    printf("seed %llu fails: %s\n", (unsigned long long)seed, crash ? "crash" : result.error);
    traffic_make(seed, &traffic);
    traffic_shorten(&traffic);
    printf("shortest replay:\n");
    traffic_print(&traffic);
    if (!crash) {
        traffic_run(&traffic, &result);
        printf("  => %s\n", result.error);
    }
    fflush(stdout);
    return false;
}

START_TEST(random_traffic_is_right)
{
    int64_t max_steps = setting("MINISGL_RANDOM_STEPS", 1000000);
    uint64_t seed = (uint64_t)setting("MINISGL_RANDOM_SEED", 1);
    int64_t num_steps = 0;

    signal(SIGABRT, on_signal);
    signal(SIGSEGV, on_signal);
    for (; num_steps < max_steps; seed++)
        if (!run_seed(seed, &num_steps))
            ck_abort_msg("seed %llu", (unsigned long long)seed);
    printf("%lld steps, last seed %llu\n", (long long)num_steps, (unsigned long long)seed - 1);
}
END_TEST

CHECK_MAIN("scheduler_random", random_traffic_is_right)
