/*
 * watchdog.h - says why, where the process would hang or die without a word: a device that never
 * ends a step, and a file of weights that is cut while it is mapped.
 *
 * The only code of the process that runs in signal handlers, SIGALRM's and SIGBUS's.
 */
#ifndef SCHEDULER_PROC_WATCHDOG_H
#define SCHEDULER_PROC_WATCHDOG_H

/* From now on; a step may take so many seconds, 0: for ever. */
void watchdog_open(unsigned step_timeout_s);

/* Around the wait for a step. One that takes longer ends the process, exit code 1, with a line in
 * the log. */
void watchdog_begin_step(void);
void watchdog_end_step(void);

#endif
