/*
 * link_signals.c - SIGINT and SIGTERM become a flag and an event that a poller can wait for.
 *
 * The handler only stores and writes, both safe at any moment. The state is global since a signal
 * is.
 */
#include "proto/link_signals.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <czmq.h>

#include "proto/link.h"

enum { EXIT_SECOND_SIGNAL = 130 };

static volatile sig_atomic_t first_signal; /* 0: none yet */
static int wake_fd = -1;                   /* an eventfd, open for the life of the process */

/* Only the same signal again is impatience: a launcher passes a SIGTERM on after a terminal has
 * sent its SIGINT to the whole group. */
static void on_signal(int number)
{
    int error = errno;
    uint64_t one = 1;

    if (first_signal == number)
        _exit(EXIT_SECOND_SIGNAL);
    if (first_signal == 0)
        first_signal = number;
    if (wake_fd >= 0 && write(wake_fd, &one, sizeof(one)) < 0)
        errno = error; /* full means that it is readable: nothing is lost */
    errno = error;
}

void link_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    zsys_handler_set(NULL);
    if (wake_fd < 0)
        wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of its write, no end */
}

bool link_interrupted(void)
{
    return first_signal != 0;
}

int link_signals_fd(void)
{
    return wake_fd;
}

void link_signals_drain(void)
{
    uint64_t count;

    if (wake_fd >= 0 && read(wake_fd, &count, sizeof(count)) < 0)
        return; /* nothing was there */
}
