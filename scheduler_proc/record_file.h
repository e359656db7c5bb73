/*
 * record_file.h - the core's log in a file: --record writes one, --replay checks one.
 */
#ifndef SCHEDULER_PROC_RECORD_FILE_H
#define SCHEDULER_PROC_RECORD_FILE_H

#include "common/status.h"
#include "scheduler_proc/scheduler.h"

struct record_file; /* opaque */

/* Makes the file, for its owner only (prompts are in it), and records the scheduler into it. When
 * it cannot be written any more, a log line says so at once, and nothing more is written. path:
 * borrowed until the close. */
MUST_CHECK struct status record_file_open(const char *path, struct scheduler *scheduler,
                                          struct record_file **out);
/* STATUS_IO if anything of it could not be written. The scheduler must not be called any more. */
MUST_CHECK struct status record_file_close(struct record_file **file);

/* Replays a recorded file and says on stdout what it held. */
MUST_CHECK struct status record_file_replay(const char *path);

#endif
