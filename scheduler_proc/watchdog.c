/* watchdog.c - see watchdog.h. A handler may call write() and little else. */
#include "scheduler_proc/watchdog.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned step_timeout_s; /* set before the handlers are */

static void say(const char *text, size_t size)
{
    if (write(STDERR_FILENO, text, size) < 0)
        return; /* there is nobody else to tell */
}

static void on_alarm(int number)
{
    static const char text[] = "minisgl-scheduler error: a step has not ended within "
                               "--step-timeout: the device hangs\n";

    (void)number;
    say(text, sizeof(text) - 1);
    _exit(EXIT_FAILURE);
}

/* Returns to the access that failed, which then ends the process with the signal. */
static void on_bus_error(int number)
{
    static const char text[] = "minisgl-scheduler error: a file of the model was cut, or its disk "
                               "failed, while it was in use\n";

    (void)number;
    say(text, sizeof(text) - 1);
}

void watchdog_open(unsigned timeout_s)
{
    const struct sigaction alarm_action = {.sa_handler = on_alarm};
    const struct sigaction bus_action = {.sa_handler = on_bus_error, .sa_flags = SA_RESETHAND};

    step_timeout_s = timeout_s;
    sigaction(SIGALRM, &alarm_action, NULL); /* neither can fail: both signals may be caught */
    sigaction(SIGBUS, &bus_action, NULL);
}

void watchdog_begin_step(void)
{
    if (step_timeout_s)
        alarm(step_timeout_s);
}

void watchdog_end_step(void)
{
    if (step_timeout_s)
        alarm(0);
}
