/* split.c - see split.h. */
#include "common/split.h"

#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

enum { MAX_THREADS = 16 };

struct range {
    void (*run)(void *arg, size_t begin, size_t end);
    void *arg;
    size_t begin, end;
};

static void *run_range(void *arg)
{
    const struct range *range = arg;

    range->run(range->arg, range->begin, range->end);
    return NULL;
}

void split_run(void (*run)(void *arg, size_t begin, size_t end), void *arg, size_t count)
{
    struct range ranges[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    bool is_started[MAX_THREADS] = {false};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t num = cpus < 1 ? 1 : cpus > MAX_THREADS ? MAX_THREADS : (size_t)cpus;

    for (size_t i = 0; i < num; i++) {
        ranges[i] = (struct range){run, arg, count * i / num, count * (i + 1) / num};
        if (i > 0)
            is_started[i] = pthread_create(&threads[i], NULL, run_range, &ranges[i]) == 0;
    }
    for (size_t i = 0; i < num; i++) {
        if (is_started[i])
            pthread_join(threads[i], NULL);
        else
            run_range(&ranges[i]);
    }
}
