/*
 * workers.h - threads that turn prompts into ids, so that one client's megabyte does not make the
 * others wait.
 *
 * Jobs are begun in the order in which they were pushed and end in any. Whoever pushes takes the
 * done ones back; an eventfd is readable while there are any.
 */
#ifndef TOKENIZER_PROC_WORKERS_H
#define TOKENIZER_PROC_WORKERS_H

#include <stdbool.h>

#include "common/status.h"
#include "tokenizer_proc/job.h"

enum { WORKERS_MAX_THREADS = 64 };

struct workers; /* opaque */

/* The model must outlive the workers. */
MUST_CHECK struct status workers_start(int num_threads, const struct prompt_model *model,
                                       struct workers **out);

/* Ends the threads; jobs that have not begun are destroyed with those not taken back. False: a
 * thread is still at work after timeout_ms, and all memory that it may touch is left to it. */
bool workers_stop(struct workers **workers, int timeout_ms);

/* Hands a job over. */
void workers_push(struct workers *workers, struct job *job);

/* The jobs done since the last call, a list by next in the order of their ends; NULL: none. */
struct job *workers_take_done(struct workers *workers);

/* Readable when there are jobs done. */
int workers_fd(const struct workers *workers);

#endif
