/* bench_cuda_rig.c - see bench_cuda_rig.h. */
#include "tests/bench/bench_cuda_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLAYS = 15, MAX_BUFFERS = 512 };

struct rig rig;
static struct event *begin_event, *end_event;
static char **filters;
static int num_filters;
static void *buffers[MAX_BUFFERS];
static int num_buffers;

static void make_noise(uint16_t *out, size_t n)
{
    uint64_t state = 1;

    for (size_t i = 0; i < n; i++) {
        uint64_t z = sample_mix(state += 0x9E3779B97F4A7C15u);
        float sum = -4, value;
        uint32_t bits;

        for (int j = 0; j < 8; j++)
            sum += (float)(z >> 8 * j & 255) / 255;
        value = sum * 1.2f; /* about normal, deviation 1 */
        memcpy(&bits, &value, 4);
        out[i] = (uint16_t)(bits >> 16);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void rig_open(char **names, int num_names)
{
    const struct device_args args = {0};
    struct device_info info;

    filters = names;
    num_filters = num_names;
    rig_ok(backend_open("cuda", &rig.backend));
    rig_ok(rig.backend.device->open(&args, &rig.device));
    rig_ok(rig.backend.device->info(rig.device, &info));
    rig_ok(rig.backend.device->stream_create(rig.device, false, &rig.stream));
    rig_ok(rig.backend.device->event_create(rig.device, &begin_event));
    rig_ok(rig.backend.device->event_create(rig.device, &end_event));
    rig.noise = malloc(RIG_NOISE_SIZE);
    make_noise(rig.noise, RIG_NOISE_SIZE / 2);
    printf("%s\n", info.name);
}

void rig_close(void)
{
    free(rig.noise);
    rig.backend.device->event_destroy(&begin_event);
    rig.backend.device->event_destroy(&end_event);
    rig.backend.device->stream_destroy(&rig.stream);
    rig.backend.device->close(&rig.device);
}

void rig_ok(struct status status)
{
    if (!status.code)
        return;
    fprintf(stderr, "bench_cuda_ops: %s\n", status.msg);
    exit(1);
}

bool rig_wants(const char *name)
{
    for (int i = 0; i < num_filters; i++) {
        if (strncmp(name, filters[i], strlen(filters[i])) == 0)
            return true;
    }
    return num_filters == 0;
}

void *rig_random(size_t size)
{
    void *data = NULL;

    rig_ok(rig.backend.device->alloc(rig.device, size, &data));
    for (size_t at = 0; at < size; at += RIG_NOISE_SIZE)
        rig_ok(rig.backend.device->copy(rig.stream, (char *)data + at, rig.noise,
                                        size - at < RIG_NOISE_SIZE ? size - at : RIG_NOISE_SIZE,
                                        COPY_HOST_TO_DEVICE));
    buffers[num_buffers++] = data;
    return data;
}

void *rig_copy(const void *host, size_t size)
{
    void *data = NULL;

    rig_ok(rig.backend.device->alloc(rig.device, size, &data));
    rig_ok(rig.backend.device->copy(rig.stream, data, host, size, COPY_HOST_TO_DEVICE));
    rig_ok(rig.backend.device->stream_sync(rig.stream));
    buffers[num_buffers++] = data;
    return data;
}

void rig_end_case(void)
{
    rig_ok(rig.backend.device->stream_sync(rig.stream));
    while (num_buffers > 0)
        rig.backend.device->free(rig.device, buffers[--num_buffers]);
}

struct sample_args rig_sample(int32_t rows, float temperature, float top_p, int32_t top_k,
                              const float *logits, void *workspace)
{
    float t[RIG_MAX_ROWS], p[RIG_MAX_ROWS], min_p[RIG_MAX_ROWS] = {0};
    int32_t k[RIG_MAX_ROWS], index[RIG_MAX_ROWS];
    uint64_t seed[RIG_MAX_ROWS];

    for (int32_t r = 0; r < RIG_MAX_ROWS; r++) {
        t[r] = temperature;
        p[r] = top_p;
        k[r] = top_k;
        index[r] = r;
        seed[r] = (uint64_t)r * 77;
    }
    int32_t *index_dev = rig_copy(index, sizeof(index));
    return (struct sample_args){.logits = logits,
                                .num_rows = rows,
                                .vocab_size = RIG_VOCAB,
                                .inputs = {.temperature = rig_copy(t, sizeof(t)),
                                           .top_p = rig_copy(p, sizeof(p)),
                                           .min_p = rig_copy(min_p, sizeof(min_p)),
                                           .top_k = rig_copy(k, sizeof(k)),
                                           .sample_table_idx = index_dev,
                                           .sample_pos = index_dev,
                                           .seed = rig_copy(seed, sizeof(seed)),
                                           .max_rows = RIG_MAX_ROWS},
                                .token_pool = rig_random(RIG_MAX_ROWS * RIG_MAX_ROWS * 4),
                                .token_pool_stride = RIG_MAX_ROWS,
                                .results = rig_random(RIG_MAX_ROWS * 4),
                                .step_counter = rig_random(4),
                                .workspace = workspace};
}

double rig_time(void (*put)(void *state, int i), void *state, int repeats)
{
    const struct device_ops *ops = rig.backend.device;
    struct graph *graph = NULL;
    double us[REPLAYS];

    put(state, 0); /* warm up, and let linear layers choose */
    rig_ok(ops->stream_sync(rig.stream));
    rig_ok(ops->graph_begin(rig.stream));
    for (int i = 0; i < repeats; i++)
        put(state, i);
    rig_ok(ops->graph_end(rig.stream, &graph));
    for (int i = -2; i < REPLAYS; i++) {
        int64_t begin = 0, end = 0;

        rig_ok(ops->event_record(rig.stream, begin_event));
        rig_ok(ops->graph_launch(rig.stream, graph));
        rig_ok(ops->event_record(rig.stream, end_event));
        rig_ok(ops->event_wait(end_event));
        rig_ok(ops->event_time(begin_event, &begin));
        rig_ok(ops->event_time(end_event, &end));
        if (i >= 0)
            us[i] = (double)(end - begin) / 1e3 / repeats;
    }
    ops->graph_destroy(&graph);
    qsort(us, REPLAYS, sizeof(us[0]), compare_doubles);
    return us[REPLAYS / 2];
}

void rig_report(const char *name, double us, double bytes, double flops)
{
    printf("%-44s %10.2f us %7.0f GB/s %3.0f%% %6.0f TFLOP/s %3.0f%%\n", name, us, bytes / us / 1e3,
           bytes / us / 1e3 / 4600 * 100, flops / us / 1e6, flops / us / 1e6 / 989 * 100);
    fflush(stdout);
}
