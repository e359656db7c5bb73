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

static void choose_loop(struct loop *loop, bool is_overlapped)
{
    loop->args.is_overlapped = is_overlapped;
    log_info("loop overlap=%s", is_overlapped ? "yes" : "no");
}

/* On request only: its time grows with all that is held. */
static struct status check(const struct loop *loop)
{
    struct status status = scheduler_check(loop->scheduler);

    if (status.code)
        log_error("check: %s", status.msg);
    return status;
}

struct status loop_obey(void *process, enum control_command command, struct json_writer *info)
{
    struct loop *loop = process;

    switch (command) {
    case CONTROL_STATS:
        write_stats(loop, info);
        break;
    case CONTROL_DRAIN:
        loop_drain(loop);
        break;
    case CONTROL_FLUSH_CACHE:
        log_info("cache flushed pages=%d", scheduler_flush_cache(loop->scheduler));
        break;
    case CONTROL_NORMAL_LOOP:
        choose_loop(loop, false);
        break;
    case CONTROL_OVERLAP_LOOP:
        choose_loop(loop, true);
        break;
    case CONTROL_CHECK:
        return check(loop);
    case CONTROL_PING: /* answered before they come here */
    case CONTROL_LOG_LEVEL:
        break;
    }
    return status_ok();
}
