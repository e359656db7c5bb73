/* record_format.h - what record.c writes and replay.c reads. */
#ifndef SCHEDULER_PROC_RECORD_FORMAT_H
#define SCHEDULER_PROC_RECORD_FORMAT_H

#define RECORD_MAGIC "MSGLLOG1"

enum record_kind {
    RECORD_SUBMIT = 1,
    RECORD_ABORT,
    RECORD_ABORT_CLIENT,
    RECORD_END_ALL,
    RECORD_DRAIN,
    RECORD_FLUSH_CACHE,
    RECORD_BATCH,    /* digest */
    RECORD_NO_BATCH, /* next_batch was asked and had none: it may still have moved the cache */
    RECORD_FINISH_STEP,
};

#endif
