/*
 * device.c - the cpu back end's device: host memory, streams that are worker threads, and the pool
 * of threads that operators share.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/stream.h"

enum { ALIGNMENT = 256, MAX_THREADS = 1024 };

struct device {
    struct device_args args;
    struct pool *pool;                 /* owned */
    const struct cpu_kernels *kernels; /* borrowed: static */
    pthread_mutex_t lock;              /* of num_streams */
    uint64_t num_streams;              /* ever created: seeds their random delays */
};

static void device_close(struct device **address)
{
    struct device *device = *address;

    if (!device)
        return;
    pool_destroy(&device->pool);
    pthread_mutex_destroy(&device->lock);
    free(device);
    *address = NULL;
}

static struct status device_open(const struct device_args *args, struct device **out)
{
    struct status status;
    struct device *device = NULL;
    int32_t num_threads = args->num_threads;

    if (num_threads < 0 || num_threads > MAX_THREADS)
        return status_error(STATUS_INVALID, "cpu: %d threads, must be 0 (all) to %d",
                            (int)num_threads, (int)MAX_THREADS);
    if (num_threads == 0)
        num_threads = cpu_count("/proc/self/cgroup", "/sys/fs/cgroup");
    if (num_threads > MAX_THREADS)
        num_threads = MAX_THREADS;
    device = malloc(sizeof(*device));
    if (!device)
        return status_error(STATUS_NO_MEMORY, "cpu: no memory");
    *device = (struct device){.args = *args};
    pthread_mutex_init(&device->lock, NULL);
    status = cpu_kernels_choose(&device->kernels);
    if (status.code)
        goto out;
    status = pool_create(num_threads, &device->pool);
    if (status.code)
        goto out;
    *out = device;
    device = NULL;
out:
    device_close(&device);
    return status;
}

struct pool *cpu_device_pool(struct device *device)
{
    return device->pool;
}

/* The value of "key: n" in a file of such lines, or 0. */
static size_t read_number(const char *path, const char *key)
{
    char line[256];
    size_t len = strlen(key), value = 0;
    FILE *file = fopen(path, "re");

    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, key, len) == 0) {
            value = strtoull(line + len, NULL, 10);
            break;
        }
    }
    fclose(file);
    return value;
}

/* The processor's name as /proc/cpuinfo gives it. */
static void read_cpu_name(char *name, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");

    snprintf(name, size, "CPU");
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon && colon[1] == ' ') {
            line[strcspn(line, "\n")] = '\0';
            snprintf(name, size, "%s", colon + 2);
            break;
        }
    }
    fclose(file);
}

static size_t min_limit(size_t value, const char *path)
{
    size_t limit = read_number(path, "");

    return limit > 0 && limit < value ? limit : value;
}

static struct status device_info(struct device *device, struct device_info *out)
{
    struct device_info info = {.name = ""};
    char name[64];

    read_cpu_name(name, sizeof(name));
    snprintf(info.name, sizeof(info.name), "%s (%d threads, %s)", name,
             (int)pool_num_threads(device->pool), device->kernels->name);
    info.free_bytes = read_number("/proc/meminfo", "MemAvailable:") * 1024;
    size_t used = read_number("/sys/fs/cgroup/memory.current", "");
    size_t cached = read_number("/sys/fs/cgroup/memory.stat", "inactive_file ");
    size_t total = read_number("/proc/meminfo", "MemTotal:") * 1024;
    total = min_limit(total, "/sys/fs/cgroup/memory.max");
    total = min_limit(total, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
    used -= cached < used ? cached : used; /* file pages that go when memory is short */
    size_t room = total > used ? total - used : 0;
    if (room < info.free_bytes)
        info.free_bytes = room;
    *out = info;
    return status_ok();
}

static struct status device_alloc(struct device *device, size_t size, void **out)
{
    (void)device;
    size = size > 0 ? (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    void *data = aligned_alloc(ALIGNMENT, size);
    if (!data)
        return status_error(STATUS_NO_MEMORY, "cpu: no memory for %zu bytes", size);
    *out = data;
    return status_ok();
}

static void device_free(struct device *device, void *data)
{
    (void)device;
    free(data);
}

static struct status stream_create(struct device *device, bool high_priority, struct stream **out)
{
    (void)high_priority; /* the kernel's scheduler shares the CPUs out */
    pthread_mutex_lock(&device->lock);
    uint64_t seed = device->num_streams++;
    pthread_mutex_unlock(&device->lock);
    struct stream_config config = {
        .pool = device->pool,
        .kernels = device->kernels,
        .op_delay_ns = device->args.op_delay_ns,
        .op_delay_random = device->args.op_delay_random,
        .seed = seed,
    };
    return cpu_stream_create(&config, out);
}

static struct status stream_sync(struct stream *stream)
{
    struct event *event = NULL;
    struct status status = cpu_event_create(&event);

    if (status.code)
        return status;
    cpu_event_record(stream, event);
    cpu_event_wait(event);
    cpu_event_destroy(&event);
    return status;
}

struct copy_args {
    void *dst;
    const void *src;
    size_t size;
};

static void run_copy(struct stream *stream, const void *args)
{
    const struct copy_args *a = args;

    (void)stream;
    memmove(a->dst, a->src, a->size);
}

static struct status stream_copy(struct stream *stream, void *dst, const void *src, size_t size,
                                 enum copy_kind kind)
{
    struct copy_args args = {.dst = dst, .src = src, .size = size};

    (void)kind; /* one memory */
    if (size == 0)
        return status_ok();
    return cpu_stream_put(stream, run_copy, &args, sizeof(args));
}

struct fill_args {
    void *dst;
    size_t size;
    uint8_t byte;
};

static void run_fill(struct stream *stream, const void *args)
{
    const struct fill_args *a = args;

    (void)stream;
    memset(a->dst, a->byte, a->size);
}

static struct status stream_fill(struct stream *stream, void *dst, uint8_t byte, size_t size)
{
    struct fill_args args = {.dst = dst, .size = size, .byte = byte};

    if (size == 0)
        return status_ok();
    return cpu_stream_put(stream, run_fill, &args, sizeof(args));
}

struct call_args {
    void (*function)(void *arg);
    void *arg;
};

static void run_call(struct stream *stream, const void *args)
{
    const struct call_args *a = args;

    (void)stream;
    a->function(a->arg);
}

static struct status stream_call(struct stream *stream, void (*function)(void *arg), void *arg)
{
    struct call_args args = {.function = function, .arg = arg};

    return cpu_stream_put(stream, run_call, &args, sizeof(args));
}

static struct status event_create(struct device *device, struct event **out)
{
    (void)device;
    return cpu_event_create(out);
}

static struct status event_record(struct stream *stream, struct event *event)
{
    cpu_event_record(stream, event);
    return status_ok();
}

static struct status stream_wait(struct stream *stream, struct event *event)
{
    cpu_event_stream_wait(stream, event);
    return status_ok();
}

static struct status event_wait(struct event *event)
{
    cpu_event_wait(event);
    return status_ok();
}

static struct status event_time(struct event *event, int64_t *out_ns)
{
    *out_ns = cpu_event_time(event);
    return status_ok();
}

const struct device_ops device_cpu = {
    .name = "cpu",
    .is_host = true,
    .open = device_open,
    .close = device_close,
    .info = device_info,
    .alloc = device_alloc,
    .free = device_free,
    .host_alloc = device_alloc,
    .host_free = device_free,
    .stream_create = stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_sync = stream_sync,
    .copy = stream_copy,
    .fill = stream_fill,
    .call = stream_call,
    .event_create = event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = event_record,
    .stream_wait = stream_wait,
    .event_wait = event_wait,
    .event_time = event_time,
};
