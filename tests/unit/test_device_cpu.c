/* test_device_cpu.c - streams, events and copies of the cpu back end; its thread pool; its count of
 * CPUs. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/stream.h"
#include "kernels/ops.h"
#include "tests/unit/check_main.h"

static const struct device_ops *const dev = &device_cpu;

static struct device *open_device(struct device_args args)
{
    struct device *device = NULL;
    struct status status = dev->open(&args, &device);

    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    return device;
}

static struct stream *open_stream(struct device *device)
{
    struct stream *stream = NULL;

    ck_assert_int_eq(dev->stream_create(device, false, &stream).code, STATUS_OK);
    return stream;
}

static struct event *open_event(struct device *device)
{
    struct event *event = NULL;

    ck_assert_int_eq(dev->event_create(device, &event).code, STATUS_OK);
    return event;
}

/* Of an event that is recorded once: 0 until then. */
static int64_t time_of(struct event *event)
{
    int64_t time_ns = 0;

    ck_assert_int_eq(dev->event_time(event, &time_ns).code, STATUS_OK);
    return time_ns;
}

/* An operation that waits until the test opens it. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool is_open;
};

static void run_gate(struct stream *stream, const void *args)
{
    struct gate *gate = *(struct gate *const *)args;

    (void)stream;
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open)
        pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void put_gate(struct stream *stream, struct gate *gate)
{
    *gate = (struct gate){.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};
    ck_assert_int_eq(cpu_stream_put(stream, run_gate, &gate, sizeof(gate)).code, STATUS_OK);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = true;
    pthread_cond_signal(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

START_TEST(a_stream_runs_in_order)
{
    struct device *device = open_device((struct device_args){.num_threads = 1});
    struct stream *stream = open_stream(device);
    uint8_t *data = NULL, *copy = NULL;

    ck_assert_int_eq(dev->alloc(device, 1000, (void **)&data).code, STATUS_OK);
    ck_assert_int_eq(dev->host_alloc(device, 1000, (void **)&copy).code, STATUS_OK);
    ck_assert_uint_eq((uintptr_t)data % 256, 0);
    for (int i = 0; i < 2 * STREAM_QUEUE_LEN; i++) /* more than the queue holds */
        ck_assert_int_eq(dev->fill(stream, data, (uint8_t)i, 1000).code, STATUS_OK);
    ck_assert_int_eq(dev->fill(stream, data, 7, 500).code, STATUS_OK);
    ck_assert_int_eq(dev->copy(stream, copy, data, 1000, COPY_DEVICE_TO_HOST).code, STATUS_OK);
    ck_assert_int_eq(dev->stream_sync(stream).code, STATUS_OK);
    ck_assert_uint_eq(copy[499], 7);
    ck_assert_uint_eq(copy[999], 0xFF);
    dev->host_free(device, copy);
    dev->free(device, data);
    dev->stream_destroy(&stream);
    dev->close(&device);
    ck_assert_ptr_null(device);
}
END_TEST

START_TEST(an_event_is_done_when_the_work_before_it_is)
{
    struct device *device = open_device((struct device_args){.num_threads = 1});
    struct stream *stream = open_stream(device);
    struct event *event = open_event(device);
    struct gate gate;
    int64_t start = clock_now_ns();

    ck_assert_int_eq(dev->event_wait(event).code, STATUS_OK); /* never recorded */
    put_gate(stream, &gate);
    ck_assert_int_eq(dev->event_record(stream, event).code, STATUS_OK);
    ck_assert_int_eq(time_of(event), 0);
    open_gate(&gate);
    ck_assert_int_eq(dev->event_wait(event).code, STATUS_OK);
    ck_assert_int_ge(time_of(event), start);
    ck_assert_int_le(time_of(event), clock_now_ns());
    dev->event_destroy(&event);
    dev->stream_destroy(&stream);
    dev->close(&device);
}
END_TEST

START_TEST(a_stream_waits_for_the_event_of_another)
{
    struct device *device = open_device((struct device_args){.num_threads = 1});
    struct stream *first = open_stream(device), *second = open_stream(device);
    struct event *ready = open_event(device), *end = open_event(device);
    struct gate gate;
    int value = 0, copy = 0;

    put_gate(first, &gate);
    ck_assert_int_eq(dev->fill(first, &value, 1, sizeof(value)).code, STATUS_OK);
    ck_assert_int_eq(dev->event_record(first, ready).code, STATUS_OK);
    ck_assert_int_eq(dev->stream_wait(second, ready).code, STATUS_OK);
    dev->event_destroy(&ready); /* what is queued still holds it */
    ck_assert_int_eq(dev->copy(second, &copy, &value, sizeof(copy), COPY_DEVICE_TO_HOST).code,
                     STATUS_OK);
    ck_assert_int_eq(dev->event_record(second, end).code, STATUS_OK);
    ck_assert_int_eq(time_of(end), 0);
    open_gate(&gate);
    ck_assert_int_eq(dev->event_wait(end).code, STATUS_OK);
    ck_assert_int_eq(copy, 0x01010101);
    dev->event_destroy(&end);
    dev->stream_destroy(&second);
    dev->stream_destroy(&first);
    dev->close(&device);
}
END_TEST

START_TEST(a_record_is_waited_for_again)
{
    struct device *device = open_device((struct device_args){.num_threads = 1});
    struct stream *stream = open_stream(device);
    struct event *event = open_event(device);

    for (int i = 0; i < 1000; i++) {
        int value = 0;
        ck_assert_int_eq(dev->fill(stream, &value, 0xFF, sizeof(value)).code, STATUS_OK);
        ck_assert_int_eq(dev->event_record(stream, event).code, STATUS_OK);
        ck_assert_int_eq(dev->event_wait(event).code, STATUS_OK);
        ck_assert_int_eq(value, -1);
    }
    dev->event_destroy(&event);
    dev->stream_destroy(&stream);
    dev->close(&device);
}
END_TEST

enum { NUM_OPS = 20, DELAY_NS = 2000000 };

/* Fixed delays: the time is known; random ones: the order stays. Returns how long putting took. */
static int64_t check_delay(bool random_delay)
{
    struct device *device = open_device((struct device_args){
        .num_threads = 1, .op_delay_ns = DELAY_NS, .op_delay_random = random_delay});
    struct stream *stream = open_stream(device);
    uint8_t data = 0;
    int64_t start = clock_now_ns();

    for (int i = 1; i <= NUM_OPS; i++)
        ck_assert_int_eq(dev->fill(stream, &data, (uint8_t)i, 1).code, STATUS_OK);
    int64_t put_ns = clock_now_ns() - start;
    ck_assert_int_eq(dev->stream_sync(stream).code, STATUS_OK);
    if (!random_delay)
        ck_assert_int_ge(clock_now_ns() - start, NUM_OPS * (int64_t)DELAY_NS);
    ck_assert_uint_eq(data, NUM_OPS);
    dev->stream_destroy(&stream);
    dev->close(&device);
    return put_ns;
}

/* Putting takes none of it; the host may stand still within some of the attempts. */
START_TEST(op_delay_holds_the_device_and_not_the_host)
{
    for (int random_delay = 0; random_delay <= 1; random_delay++) {
        int64_t best_ns = INT64_MAX;
        for (int i = 0; i < 5; i++) {
            int64_t put_ns = check_delay(random_delay);
            best_ns = put_ns < best_ns ? put_ns : best_ns;
        }
        ck_assert_int_lt(best_ns, NUM_OPS * (int64_t)DELAY_NS / 2);
    }
}
END_TEST

START_TEST(info_names_the_cpu_and_its_memory)
{
    struct device *device = open_device((struct device_args){.num_threads = 2});
    struct device_info info = {.name = ""};

    ck_assert_int_eq(dev->info(device, &info).code, STATUS_OK);
    ck_assert_ptr_nonnull(strstr(info.name, "2 threads"));
    ck_assert_uint_gt(info.free_bytes, 0);
    dev->close(&device);
}
END_TEST

START_TEST(a_wrong_number_of_threads_is_refused)
{
    struct device *device = NULL;
    struct device_args args = {.num_threads = -1};

    ck_assert_int_eq(dev->open(&args, &device).code, STATUS_INVALID);
    ck_assert_ptr_null(device);
}
END_TEST

START_TEST(a_back_end_is_found_by_name)
{
    struct backend backend = {0};

    ck_assert_int_eq(backend_open("cpu", &backend).code, STATUS_OK);
    ck_assert_str_eq(backend.device->name, "cpu");
    ck_assert_str_eq(backend.kernels->name, "cpu");
    ck_assert_int_eq(backend_open("abacus", &backend).code, STATUS_UNSUPPORTED);
    ck_assert_int_eq(setenv("MINISGL_CUDA_MODULE", "/nonexistent/module.so", 1), 0);
    struct status status = backend_open("cuda", &backend);
    ck_assert_int_eq(status.code, STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(status.msg, "/nonexistent/module.so"));
}
END_TEST

enum { NUM_TASKS = 1000 };

struct counts {
    struct pool *pool;
    atomic_int by_task[NUM_TASKS];
    int by_thread[8]; /* written by the thread alone */
};

static void count_task(void *arg, int32_t task, int32_t thread)
{
    struct counts *counts = arg;

    atomic_fetch_add(&counts->by_task[task], 1);
    counts->by_thread[thread]++;
    *(int *)pool_scratch(counts->pool, thread) = task;
}

START_TEST(a_pool_runs_each_task_once)
{
    static struct counts counts;

    for (int32_t num_threads = 1; num_threads <= 8; num_threads *= 2) {
        ck_assert_int_eq(pool_create(num_threads, &counts.pool).code, STATUS_OK);
        for (int round = 1; round <= 200; round++) {
            int sum = 0;
            memset(counts.by_thread, 0, sizeof(counts.by_thread));
            for (int i = 0; i < NUM_TASKS; i++)
                atomic_store(&counts.by_task[i], 0);
            if (round % 50 == 0) { /* let the workers fall asleep */
                struct timespec pause = {.tv_nsec = 2000000};
                nanosleep(&pause, NULL);
            }
            pool_run(counts.pool, round * 5, count_task, &counts);
            for (int i = 0; i < NUM_TASKS; i++)
                ck_assert_int_eq(atomic_load(&counts.by_task[i]), i < round * 5);
            for (int i = 0; i < 8; i++)
                sum += counts.by_thread[i];
            ck_assert_int_eq(sum, round * 5);
        }
        pool_destroy(&counts.pool);
        ck_assert_ptr_null(counts.pool);
    }
}
END_TEST

/* A folder with files, as a cgroup mount has them. */
static void write_file(const char *root, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(cpus_are_cut_by_quotas)
{
    static const struct {
        const char *groups;
        const char *file, *text, *file2, *text2;
        int32_t max;
    } cases[] = {
        {"0::/a/b\n", "v2/cpu.max", "max 100000\n", "v2/unused", "", 1024},
        {"0::/a/b\n", "a/cpu.max", "100000 100000\n", "a/b/cpu.max", "max 100000\n", 1},
        {"0::/a/b\n", "a/b/cpu.max", "50000 100000\n", "a/unused", "", 1},
        {"0::/\n", "cpu.max", "100000 100000\n", "unused", "", 1},
        {"0::/not/mounted\n", "cpu.max", "1000 100000\n", "unused", "", 1},
        {"5:memory:/x\n4:cpu,cpuacct:/g\n", "cpu,cpuacct/g/cpu.cfs_quota_us", "100000\n",
         "cpu,cpuacct/g/cpu.cfs_period_us", "100000\n", 1},
        {"4:cpu:/g\n", "cpu/g/cpu.cfs_quota_us", "-1\n", "cpu/g/cpu.cfs_period_us", "100000\n",
         1024},
        {"nonsense\n", "cpu.max", "1000 100000\n", "unused", "", 1024},
    };
    int32_t all = cpu_count("/nonexistent", "/nonexistent");

    ck_assert_int_ge(all, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char root[] = "/tmp/test_device_cpu.XXXXXX", file[64], command[64];
        ck_assert_ptr_nonnull(mkdtemp(root));
        write_file(root, cases[i].file, cases[i].text);
        write_file(root, cases[i].file2, cases[i].text2);
        write_file(root, "self_cgroup", cases[i].groups);
        snprintf(file, sizeof(file), "%s/self_cgroup", root);
        ck_assert_int_eq(cpu_count(file, root), all < cases[i].max ? all : cases[i].max);
        snprintf(command, sizeof(command), "rm -r %s", root);
        ck_assert_int_eq(system(command), 0);
    }
}
END_TEST

CHECK_MAIN("device_cpu", a_stream_runs_in_order, an_event_is_done_when_the_work_before_it_is,
           a_stream_waits_for_the_event_of_another, a_record_is_waited_for_again,
           op_delay_holds_the_device_and_not_the_host, info_names_the_cpu_and_its_memory,
           a_wrong_number_of_threads_is_refused, a_back_end_is_found_by_name,
           a_pool_runs_each_task_once, cpus_are_cut_by_quotas)
