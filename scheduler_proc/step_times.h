/*
 * step_times.h - how long steps took on the device, and how long it had none to run, or none even
 * in its queue, although there was work: what overlap is there to keep at zero.
 */
#ifndef SCHEDULER_PROC_STEP_TIMES_H
#define SCHEDULER_PROC_STEP_TIMES_H

#include <stdint.h>

enum { STEP_TIMES_KEPT = 512, STEP_TIMES_LAUNCHED = 4 };

struct step_times {
    int64_t recent_ns[STEP_TIMES_KEPT]; /* of the last steps, a ring */
    int64_t num_steps;
    int64_t busy_ns, idle_ns; /* device at work; device waiting while there was work */
    int64_t empty_ns;         /* of idle_ns: until the launch of the next step had ended */
    int64_t launched_ns[STEP_TIMES_LAUNCHED]; /* of the last steps, a ring */
    int64_t num_launched;
    int64_t last_end_ns;
    int64_t work_since_ns; /* when the loop last went from idle to having work */
};

/* The loop has work again after it had none. */
void step_times_wake(struct step_times *times, int64_t now_ns);

/* The next step has been launched. At most STEP_TIMES_LAUNCHED of them have not been added. */
void step_times_launch(struct step_times *times, int64_t now_ns);

/* The oldest launched step that was not added ran from begin to end. */
void step_times_add(struct step_times *times, int64_t begin_ns, int64_t end_ns);

/* The share's quantile of the kept times, 0..1; 0 when there are none. */
int64_t step_times_quantile(const struct step_times *times, double share);

#endif
