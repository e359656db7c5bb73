/*
 * event.c - events of the cpu back end: counts of records put into a stream and of records passed.
 *
 * An event is done when num_done == num_recorded. Each queued record or wait holds a reference, so
 * an event can be destroyed before they have run.
 */
#include <pthread.h>
#include <stdlib.h>

#include "common/clock.h"
#include "kernels/cpu/stream.h"

struct event {
    pthread_mutex_t lock;
    pthread_cond_t done;
    uint64_t num_recorded, num_done;
    int64_t done_ns; /* when the last record was passed */
    int32_t num_refs;
};

/* Queued: the event, and which of its records this is or waits for. */
struct event_op {
    struct event *event;
    uint64_t record;
};

/* Gives back the lock and one reference. */
static void unlock_and_release(struct event *event)
{
    bool is_last = --event->num_refs == 0;

    pthread_mutex_unlock(&event->lock);
    if (!is_last)
        return;
    pthread_cond_destroy(&event->done);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

static void wait_locked(struct event *event, uint64_t record)
{
    while (event->num_done < record)
        pthread_cond_wait(&event->done, &event->lock);
}

static void run_record(struct stream *stream, const void *args)
{
    const struct event_op *op = args;

    (void)stream;
    pthread_mutex_lock(&op->event->lock);
    if (op->event->num_done < op->record) { /* two streams may record the same event */
        op->event->num_done = op->record;
        op->event->done_ns = clock_now_ns();
    }
    pthread_cond_broadcast(&op->event->done);
    unlock_and_release(op->event);
}

static void run_wait(struct stream *stream, const void *args)
{
    const struct event_op *op = args;

    (void)stream;
    pthread_mutex_lock(&op->event->lock);
    wait_locked(op->event, op->record);
    unlock_and_release(op->event);
}

struct status cpu_event_create(struct event **out)
{
    struct event *event = malloc(sizeof(*event));

    if (!event)
        return status_error(STATUS_NO_MEMORY, "event: no memory");
    *event = (struct event){.num_refs = 1};
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->done, NULL);
    *out = event;
    return status_ok();
}

void cpu_event_destroy(struct event **event)
{
    if (!*event)
        return;
    pthread_mutex_lock(&(*event)->lock);
    unlock_and_release(*event);
    *event = NULL;
}

void cpu_event_record(struct stream *stream, struct event *event)
{
    pthread_mutex_lock(&event->lock);
    event->num_refs++;
    struct event_op op = {.event = event, .record = ++event->num_recorded};
    pthread_mutex_unlock(&event->lock);
    cpu_stream_put_undelayed(stream, run_record, &op, sizeof(op));
}

void cpu_event_stream_wait(struct stream *stream, struct event *event)
{
    pthread_mutex_lock(&event->lock);
    struct event_op op = {.event = event, .record = event->num_recorded};
    bool is_done = event->num_done == event->num_recorded;
    if (!is_done)
        event->num_refs++;
    pthread_mutex_unlock(&event->lock);
    if (!is_done)
        cpu_stream_put_undelayed(stream, run_wait, &op, sizeof(op));
}

void cpu_event_wait(struct event *event)
{
    pthread_mutex_lock(&event->lock);
    wait_locked(event, event->num_recorded);
    pthread_mutex_unlock(&event->lock);
}

int64_t cpu_event_time(struct event *event)
{
    pthread_mutex_lock(&event->lock);
    int64_t done_ns = event->done_ns;
    pthread_mutex_unlock(&event->lock);
    return done_ns;
}
