/* loop.c - see loop.h. Nothing waits but the poller. */
#include "tokenizer_proc/loop.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "proto/control_endpoint.h"
#include "proto/link.h"

enum { SHUTDOWN_MS = 1000 }; /* after a signal, for what is under way */

struct loop {
    struct front *front;             /* owned */
    struct control_endpoint control; /* owned */
    struct link_poller *poller;      /* owned */
    int64_t deadline_ns;             /* of a shutdown; 0: none */
};

/* ---- control ---- */

static struct status obey(void *process, enum control_command command, struct json_writer *info)
{
    struct loop *loop = process;

    if (command == CONTROL_STATS)
        front_write_stats(loop->front, info);
    else if (command == CONTROL_DRAIN)
        front_drain(loop->front);
    else
        return status_error(STATUS_UNSUPPORTED,
                            "command: the tokenizer has neither the cache nor the loop of steps");
    return status_ok();
}

/* ---- life ---- */

static struct status open_parts(struct loop *loop, const struct loop_args *args)
{
    struct status status = front_open(&args->front, &loop->front);

    if (status.code == STATUS_OK)
        status = control_endpoint_open(&loop->control, args->control);
    if (status.code)
        return status;
    struct link *links[] = {front_endpoint(loop->front), front_scheduler(loop->front),
                            loop->control.link};
    status = link_poller_open(links, loop->control.link ? 3 : 2, &loop->poller);
    if (status.code == STATUS_OK)
        link_poller_watch(loop->poller, front_fd(loop->front));
    return status;
}

struct status loop_open(const struct loop_args *args, struct loop **out)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return status_error(STATUS_NO_MEMORY, "no memory for the loop");
    struct status status = open_parts(loop, args);
    if (status.code)
        loop_close(&loop);
    else
        *out = loop;
    return status;
}

bool loop_close(struct loop **loop_ptr)
{
    struct loop *loop = *loop_ptr;

    if (!loop)
        return true;
    *loop_ptr = NULL;
    bool has_ended = front_close(&loop->front);
    link_poller_close(&loop->poller);
    control_endpoint_close(&loop->control);
    free(loop);
    return has_ended;
}

const char *loop_endpoint(const struct loop *loop)
{
    return link_endpoint(front_endpoint(loop->front));
}

const char *loop_control(const struct loop *loop)
{
    return control_endpoint_address(&loop->control);
}

/* ---- the loop ---- */

static void heed_signals(struct loop *loop)
{
    if (!link_interrupted() || loop->deadline_ns)
        return;
    front_drain(loop->front);
    loop->deadline_ns = clock_now_ns() + SHUTDOWN_MS * ns_per_ms;
}

static bool is_finished(const struct loop *loop)
{
    return front_is_drained(loop->front) ||
           (loop->deadline_ns && clock_now_ns() >= loop->deadline_ns);
}

static int timeout_ms(const struct loop *loop)
{
    int front_ms = front_timeout_ms(loop->front);

    if (!loop->deadline_ns)
        return front_ms;
    int64_t left_ms = (loop->deadline_ns - clock_now_ns()) / ns_per_ms + 1;
    if (front_ms >= 0 && front_ms < left_ms)
        return front_ms;
    return left_ms > 0 ? (int)left_ms : 0;
}

void loop_run(struct loop *loop)
{
    while (!is_finished(loop)) {
        link_poller_wait(loop->poller, timeout_ms(loop));
        heed_signals(loop);
        control_endpoint_turn(&loop->control, obey, loop);
        front_turn(loop->front);
    }
    log_info("stopped");
}
