/*
 * stream.c - see stream.h.
 *
 * A ring of slots between any number of putters, who take turns under a lock, and the one worker,
 * who takes none while there is work:
 *
 *     num_run <= num_put <= num_run + STREAM_QUEUE_LEN
 *
 * Either side announces that it sleeps before it looks for the last time, so no wake-up is lost
 * and none is sent in vain.
 */
#include "kernels/cpu/stream.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "kernels/ops.h"

struct slot {
    cpu_op op;
    bool delayed;
    _Alignas(16) char args[STREAM_ARGS_SIZE];
};

struct stream {
    struct stream_config config;
    struct slot *slots; /* owned: [STREAM_QUEUE_LEN] */
    pthread_t worker;
    uint64_t random_state;

    pthread_mutex_t lock;
    pthread_cond_t has_work, has_room;
    atomic_bool stop;
    _Alignas(64) atomic_uint_least64_t num_put;
    _Alignas(64) atomic_uint_least64_t num_run;
    _Alignas(64) atomic_bool worker_sleeps;
    atomic_bool putter_sleeps;
};

static void pass_delay(struct stream *stream)
{
    int64_t delay = stream->config.op_delay_ns;

    if (delay <= 0)
        return;
    if (stream->config.op_delay_random) {
        stream->random_state += 0x9E3779B97F4A7C15u;
        delay = (int64_t)(sample_mix(stream->random_state) % (uint64_t)(2 * delay));
    }
    int64_t until = clock_now_ns() + delay;
    struct timespec time = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        continue; /* a signal */
}

/* Sleeps until there is work: false when the stream ends instead. */
static bool wait_for_work(struct stream *stream, uint64_t num_run)
{
    pthread_mutex_lock(&stream->lock);
    atomic_store(&stream->worker_sleeps, true);
    while (atomic_load(&stream->num_put) == num_run && !atomic_load(&stream->stop))
        pthread_cond_wait(&stream->has_work, &stream->lock);
    atomic_store(&stream->worker_sleeps, false);
    pthread_mutex_unlock(&stream->lock);
    return atomic_load(&stream->num_put) != num_run;
}

static void *worker_main(void *arg)
{
    struct stream *stream = arg;

    for (uint64_t num_run = 0;; num_run++) {
        if (atomic_load_explicit(&stream->num_put, memory_order_acquire) == num_run &&
            !wait_for_work(stream, num_run))
            return NULL;
        const struct slot *slot = &stream->slots[num_run % STREAM_QUEUE_LEN];
        if (slot->delayed)
            pass_delay(stream);
        slot->op(stream, slot->args);
        atomic_store(&stream->num_run, num_run + 1);
        if (atomic_load(&stream->putter_sleeps)) {
            pthread_mutex_lock(&stream->lock);
            pthread_cond_broadcast(&stream->has_room);
            pthread_mutex_unlock(&stream->lock);
        }
    }
}

static void put(struct stream *stream, cpu_op op, const void *args, size_t size, bool delayed)
{
    pthread_mutex_lock(&stream->lock);
    uint64_t num_put = atomic_load_explicit(&stream->num_put, memory_order_relaxed);
    if (num_put - atomic_load_explicit(&stream->num_run, memory_order_acquire) >=
        STREAM_QUEUE_LEN) {
        atomic_store(&stream->putter_sleeps, true);
        while ((num_put = atomic_load(&stream->num_put)) - atomic_load(&stream->num_run) >=
               STREAM_QUEUE_LEN)
            pthread_cond_wait(&stream->has_room, &stream->lock);
        atomic_store(&stream->putter_sleeps, false);
    }
    struct slot *slot = &stream->slots[num_put % STREAM_QUEUE_LEN];
    slot->op = op;
    slot->delayed = delayed;
    memcpy(slot->args, args, size);
    atomic_store(&stream->num_put, num_put + 1);
    if (atomic_load(&stream->worker_sleeps))
        pthread_cond_signal(&stream->has_work);
    pthread_mutex_unlock(&stream->lock);
}

struct status cpu_stream_put(struct stream *stream, cpu_op op, const void *args, size_t size)
{
    if (size > STREAM_ARGS_SIZE)
        return status_error(STATUS_INVALID, "an operation's arguments are %zu bytes, at most %d",
                            size, STREAM_ARGS_SIZE);
    put(stream, op, args, size, true);
    return status_ok();
}

void cpu_stream_put_undelayed(struct stream *stream, cpu_op op, const void *args, size_t size)
{
    assert(size <= STREAM_ARGS_SIZE);
    put(stream, op, args, size, false);
}

struct pool *cpu_stream_pool(const struct stream *stream)
{
    return stream->config.pool;
}

const struct cpu_kernels *cpu_stream_kernels(const struct stream *stream)
{
    return stream->config.kernels;
}

struct status cpu_stream_create(const struct stream_config *config, struct stream **out)
{
    struct stream *stream = aligned_alloc(64, (sizeof(*stream) + 63) / 64 * 64);
    struct slot *slots = aligned_alloc(64, sizeof(*slots) * STREAM_QUEUE_LEN);

    if (!stream || !slots) {
        free(slots);
        free(stream);
        return status_error(STATUS_NO_MEMORY, "stream: no memory");
    }
    *stream = (struct stream){.config = *config, .slots = slots, .random_state = config->seed};
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->has_work, NULL);
    pthread_cond_init(&stream->has_room, NULL);
    int error = pthread_create(&stream->worker, NULL, worker_main, stream);
    if (error) {
        free(slots);
        free(stream);
        return status_errno(error, "stream: pthread_create");
    }
    *out = stream;
    return status_ok();
}

void cpu_stream_destroy(struct stream **address)
{
    struct stream *stream = *address;

    if (!stream)
        return;
    pthread_mutex_lock(&stream->lock);
    atomic_store(&stream->stop, true);
    pthread_cond_signal(&stream->has_work);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->worker, NULL);
    pthread_cond_destroy(&stream->has_room);
    pthread_cond_destroy(&stream->has_work);
    pthread_mutex_destroy(&stream->lock);
    free(stream->slots);
    free(stream);
    *address = NULL;
}
