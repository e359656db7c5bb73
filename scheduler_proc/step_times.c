/* step_times.c - see step_times.h. */
#include "scheduler_proc/step_times.h"

#include <stdlib.h>
#include <string.h>

void step_times_wake(struct step_times *times, int64_t now_ns)
{
    times->work_since_ns = now_ns;
}

void step_times_launch(struct step_times *times, int64_t now_ns)
{
    times->launched_ns[times->num_launched++ % STEP_TIMES_LAUNCHED] = now_ns;
}

void step_times_add(struct step_times *times, int64_t begin_ns, int64_t end_ns)
{
    int64_t launched_ns = times->launched_ns[times->num_steps % STEP_TIMES_LAUNCHED];
    int64_t free_since_ns =
        times->last_end_ns > times->work_since_ns ? times->last_end_ns : times->work_since_ns;

    if (begin_ns > free_since_ns)
        times->idle_ns += begin_ns - free_since_ns;
    if (launched_ns > begin_ns) /* it began before its launch had returned */
        launched_ns = begin_ns;
    if (launched_ns > free_since_ns)
        times->empty_ns += launched_ns - free_since_ns;
    times->busy_ns += end_ns - begin_ns;
    times->last_end_ns = end_ns;
    times->recent_ns[times->num_steps++ % STEP_TIMES_KEPT] = end_ns - begin_ns;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int64_t step_times_quantile(const struct step_times *times, double share)
{
    int64_t sorted[STEP_TIMES_KEPT];
    size_t count = times->num_steps < STEP_TIMES_KEPT ? (size_t)times->num_steps : STEP_TIMES_KEPT;

    if (count == 0)
        return 0;
    memcpy(sorted, times->recent_ns, count * sizeof(sorted[0]));
    qsort(sorted, count, sizeof(sorted[0]), compare);
    return sorted[(size_t)(share * (double)(count - 1))];
}
