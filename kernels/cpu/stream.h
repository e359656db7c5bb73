/*
 * stream.h - a stream of the cpu back end: a worker thread and a bounded queue of operations.
 *
 * Whoever has operators of their own for this device (a simulated model) puts them into a stream
 * with cpu_stream_put, and they run in order with all others.
 *
 * A step of a decoder of L layers is about 9 L + 12 operations; the queue holds STREAM_QUEUE_LEN,
 * enough for two steps of 200 layers. When it is full, the caller waits.
 */
#ifndef KERNELS_CPU_STREAM_H
#define KERNELS_CPU_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/device.h"

struct pool;
struct cpu_kernels;

enum { STREAM_QUEUE_LEN = 4096, STREAM_ARGS_SIZE = 240 };

/* Runs on the stream's worker. args is the copy that cpu_stream_put made, aligned to 16. */
typedef void (*cpu_op)(struct stream *stream, const void *args);

/* Copies size <= STREAM_ARGS_SIZE bytes of args. Any thread may call it. The device's op_delay
 * passes before op runs. */
MUST_CHECK struct status cpu_stream_put(struct stream *stream, cpu_op op, const void *args,
                                        size_t size);

/* The same without op_delay, for what is no operation: records and waits of events. */
void cpu_stream_put_undelayed(struct stream *stream, cpu_op op, const void *args, size_t size);

/* What an operator runs with. */
struct pool *cpu_stream_pool(const struct stream *stream);
const struct cpu_kernels *cpu_stream_kernels(const struct stream *stream);

struct stream_config {
    struct pool *pool;                 /* borrowed from the device */
    const struct cpu_kernels *kernels; /* borrowed: the operators for this CPU */
    int64_t op_delay_ns;
    bool op_delay_random;
    uint64_t seed; /* of random delays */
};

MUST_CHECK struct status cpu_stream_create(const struct stream_config *config, struct stream **out);
/* Runs what is queued, then ends the worker. */
void cpu_stream_destroy(struct stream **stream);

/* event.c */
MUST_CHECK struct status cpu_event_create(struct event **out);
/* What is queued may still name it: it goes when the last of that has run. */
void cpu_event_destroy(struct event **event);
void cpu_event_record(struct stream *stream, struct event *event);
void cpu_event_stream_wait(struct stream *stream, struct event *event);
void cpu_event_wait(struct event *event);
int64_t cpu_event_time(struct event *event);

#endif
