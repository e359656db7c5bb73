/*
 * progress.h - one line that grows on a terminal while something slow is done; nothing elsewhere.
 *
 *   loading weights [##########          ]  52 %  614/1180 MiB
 *
 * Drawn to the descriptor named by MINISGL_PROGRESS_FD (by which the launcher lends its terminal to
 * a process whose stderr is a log file), else to stderr, and only if that is a terminal. What is
 * done within 0.2 s is not worth a line. The line keeps within the terminal's columns: a narrow one
 * gets a shorter bar, a very narrow one the figures alone.
 */
#ifndef COMMON_PROGRESS_H
#define COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *title; /* borrowed */
    const char *unit;  /* "B" is shown as MiB, else done/total with this word; borrowed */
    uint64_t total;
    int64_t began_ns, shown_ns;
    bool is_visible; /* the line is on the terminal */
    int fd;          /* -1: draw nothing */
};

void progress_begin(struct progress *progress, const char *title, const char *unit, uint64_t total);

/* Redraws at most ten times a second; the total is left to the end. More than it counts as it. */
void progress_update(struct progress *progress, uint64_t done);

/* Takes the line off the terminal until the next update: before other output to it. */
void progress_hide(struct progress *progress);

/* Leaves a finished line, or wipes a cut one. */
void progress_end(struct progress *progress, bool finished);

#endif
