/*
 * device.h - all that the engine sees of a device: buffers, copies, streams, events, captured
 * graphs.
 *
 * Two back ends fill struct device_ops: cpu/device.c, where a stream is a worker thread with a
 * queue, so that events are really waited for; and cuda/device.cu on the CUDA runtime. They differ
 * in speed, never in meaning.
 *
 * Work put into one stream runs in order; work in two streams is unordered unless an event orders
 * it. Every enqueueing call returns before the work is done. A failure of the device itself is
 * STATUS_DEVICE, from the call or from any later one, and stays.
 */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct device; /* opaque: one opened device of a back end */
struct stream; /* opaque: created by device_ops.stream_create */
struct event;  /* opaque */
struct graph;  /* opaque: captured work, replayed by one call */

enum copy_kind { COPY_HOST_TO_DEVICE, COPY_DEVICE_TO_HOST };

struct device_args {
    int32_t ordinal; /* cuda: which card */
    int32_t
        num_threads; /* cpu: of the pool that operators share; 0: as many as the process may use */
    int64_t op_delay_ns;  /* cpu, for tests: put before every queued operation; 0: none */
    bool op_delay_random; /* uniform in [0, 2 * op_delay_ns) instead of fixed */
};

/* How much of a buffer a part takes whose neighbours are to be aligned as buffers are. */
static inline size_t device_align(size_t size)
{
    return (size + 255) / 256 * 256;
}

struct device_info {
    char name[96]; /* "AMD EPYC (2 threads, avx512_bf16)", "NVIDIA H200" */
    size_t free_bytes;
};

struct device_ops {
    const char *name; /* "cpu", "cuda" */
    bool is_host;     /* device memory is host memory: mapped weights may be used in place */

    struct status (*open)(const struct device_args *args, struct device **out);
    void (*close)(struct device **device); /* waits for all work; NULL inside is allowed */
    struct status (*info)(struct device *device, struct device_info *out);

    /* Device memory, aligned to 256 bytes, contents undefined. */
    struct status (*alloc)(struct device *device, size_t size, void **out);
    void (*free)(struct device *device, void *data);
    /* Host memory that copies may run from and to asynchronously (pinned on cuda). */
    struct status (*host_alloc)(struct device *device, size_t size, void **out);
    void (*host_free)(struct device *device, void *data);

    /* high_priority: its small kernels and copies overtake those of other streams where the device
     * can. */
    struct status (*stream_create)(struct device *device, bool high_priority, struct stream **out);
    void (*stream_destroy)(struct stream **stream);
    struct status (*stream_sync)(struct stream *stream); /* the host waits for all of it */

    /* Host memory must stay unwritten (unread) until the copy is done. */
    struct status (*copy)(struct stream *stream, void *dst, const void *src, size_t size,
                          enum copy_kind kind);
    struct status (*fill)(struct stream *stream, void *dst, uint8_t byte, size_t size);

    /*
     * Runs function(arg) in the stream, in its turn. Where the device is the host (else NULL); arg
     * stays valid until it has run.
     */
    struct status (*call)(struct stream *stream, void (*function)(void *arg), void *arg);

    struct status (*event_create)(struct device *device, struct event **out);
    void (*event_destroy)(struct event **event);
    struct status (*event_record)(struct stream *stream, struct event *event);
    /* Work put into the stream after this runs after the event's last record. The host does not
     * wait. */
    struct status (*stream_wait)(struct stream *stream, struct event *event);
    /* The host waits for the event's last record: on a condition variable (cpu), spinning (cuda).
     * An event never recorded is done. */
    struct status (*event_wait)(struct event *event);
    /* When it was done, on clock_now_ns()'s clock (cuda: mapped, good to some microseconds). Only
     * for a done event. */
    struct status (*event_time)(struct event *event, int64_t *out_ns);

    /*
     * Graphs, NULL where the back end has none. Between begin and end, what is put into the stream
     * is recorded, not run: operators only. One replay runs it all in order.
     */
    struct status (*graph_begin)(struct stream *stream);
    struct status (*graph_end)(struct stream *stream, struct graph **out);
    /* Whether an operator in it had no chance to choose its fastest way, which it does at a first
     * run outside a capture: then run the work once and capture it again. */
    bool (*graph_is_provisional)(const struct graph *graph);
    struct status (*graph_launch)(struct stream *stream, struct graph *graph);
    void (*graph_destroy)(struct graph **graph);

    /* For a profiler that looks on: names what the host does, or waits for, between the two calls.
     * Ranges may overlap. NULL where there is no such profiler. */
    uint64_t (*range_begin)(const char *name);
    void (*range_end)(uint64_t range);
};

#endif
