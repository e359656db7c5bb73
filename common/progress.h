/*
 * progress.h - one line that grows on a terminal while something slow is done; nothing elsewhere.
 *
 *   loading weights [##########          ]  52 %  1.2 GB/s
 *
 * Drawn to the descriptor named by MINISGL_PROGRESS_FD (by which the launcher lends its terminal to
 * a process whose stderr is a log file), else to stderr, and only if that is a terminal.
 */
#ifndef COMMON_PROGRESS_H
#define COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *title; /* borrowed */
    const char
        *unit; /* "B" prints rates as MB/s; else done/total is shown with this word; borrowed */
    uint64_t total;
    int64_t began_ns, shown_ns;
    int fd; /* -1: draw nothing */
};

void progress_begin(struct progress *progress, const char *title, const char *unit, uint64_t total);

/* Redraws at most ten times a second. */
void progress_update(struct progress *progress, uint64_t done);

/* Leaves a finished line, or wipes a cut one. */
void progress_end(struct progress *progress, bool finished);

#endif
