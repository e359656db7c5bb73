/* loop_control.c - what the control endpoint of the scheduler process asks of its loop. */
#include "scheduler_proc/loop_internal.h"

void loop_drain(struct loop *loop)
{
    if (!loop->is_draining)
        log_info("draining: no new requests are taken");
    loop->is_draining = true;
    scheduler_drain(loop->scheduler);
}

static void write_stats(const struct loop *loop, struct json_writer *info)
{
    const struct loop_state state = {.is_overlapped = loop->args.is_overlapped,
                                     .is_draining = loop->is_draining,
                                     .unsent_bytes = link_queued_bytes(loop->detokenizer)};

    loop_stats_write(loop->scheduler, engine_info(loop->engine), &loop->times, &loop->counters,
                     &state, info);
}

struct status loop_obey(void *process, enum control_command command, struct json_writer *info)
{
    struct loop *loop = process;

    if (command == CONTROL_STATS)
        write_stats(loop, info);
    else if (command == CONTROL_DRAIN)
        loop_drain(loop);
    else
        log_info("cache flushed pages=%d", scheduler_flush_cache(loop->scheduler));
    return status_ok();
}
