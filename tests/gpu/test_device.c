/*
 * test_device.c - the CUDA device's streams, events, clock and captured graphs.
 */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tests/gpu/rig.h"

START_TEST(events_order_two_streams)
{
    enum { SIZE = 64 << 20 };
    struct rig_side *cuda = &rig[RIG_CUDA];
    const struct device_ops *ops = cuda->backend.device;
    struct stream *copies = NULL;
    struct event *filled = NULL;
    void *dev = NULL, *host = NULL;

    rig_ok(ops->stream_create(cuda->device, true, &copies));
    rig_ok(ops->event_create(cuda->device, &filled));
    rig_ok(ops->event_wait(filled)); /* never recorded: it does not wait */
    rig_ok(ops->alloc(cuda->device, SIZE, &dev));
    rig_ok(ops->host_alloc(cuda->device, SIZE, &host));
    for (int round = 1; round < 6; round++) {
        for (int i = 0; i < 20; i++)
            rig_ok(ops->fill(cuda->stream, dev, (uint8_t)(i + round), SIZE));
        rig_ok(ops->event_record(cuda->stream, filled));
        rig_ok(ops->stream_wait(copies, filled));
        rig_ok(ops->copy(copies, host, dev, SIZE, COPY_DEVICE_TO_HOST));
        rig_ok(ops->stream_sync(copies));
        ck_assert_int_eq(((unsigned char *)host)[SIZE - 1], 19 + round);
    }
    ops->host_free(cuda->device, host);
    ops->free(cuda->device, dev);
    ops->event_destroy(&filled);
    ops->stream_destroy(&copies);
}
END_TEST

START_TEST(event_time_is_on_the_hosts_clock)
{
    enum { SLACK_NS = 2000000 };
    struct rig_side *cuda = &rig[RIG_CUDA];
    const struct device_ops *ops = cuda->backend.device;
    struct event *event = NULL;
    int64_t time = 0;

    rig_ok(ops->event_create(cuda->device, &event));
    for (int i = 0; i < 100; i++) {
        int64_t before = clock_now_ns();

        rig_ok(ops->event_record(cuda->stream, event));
        rig_ok(ops->event_wait(event));
        rig_ok(ops->event_time(event, &time));
        ck_assert_int_ge(time, before - SLACK_NS);
        ck_assert_int_le(time, clock_now_ns() + SLACK_NS);
    }
    ops->event_destroy(&event);
}
END_TEST

START_TEST(graph_replays_operators)
{
    enum { TOKENS = 3, HIDDEN = 1024, LAYERS = 20 };
    struct rig_side *cuda = &rig[RIG_CUDA];
    const struct device_ops *ops = cuda->backend.device;
    struct twin x = twin_random(DTYPE_BF16, TOKENS * HIDDEN, 1);
    struct twin y = twin_random(DTYPE_BF16, TOKENS * HIDDEN, 1);
    struct twin weight = twin_random(DTYPE_BF16, HIDDEN, 1);
    void *data = malloc(HIDDEN * HIDDEN * 2);
    struct linear_weight *linear[RIG_NUM] = {NULL};
    struct graph *graph = NULL;

    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < HIDDEN * HIDDEN; i++)
        rig_set_element(data, DTYPE_BF16, i, 0.03f * rig_normal());
    for (int s = 0; s < RIG_NUM; s++) {
        const struct linear_part part = {.data = data, .dtype = DTYPE_BF16, .n = HIDDEN};
        const struct linear_source source = {
            .parts = &part, .num_parts = 1, .k = HIDDEN, .dtype = DTYPE_BF16};

        rig_ok(rig[s].backend.kernels->linear_create(rig[s].stream, &source, &linear[s]));
        if (s == RIG_CUDA)
            rig_ok(ops->graph_begin(cuda->stream));
        for (int layer = 0; layer < LAYERS; layer++) {
            const struct rmsnorm_args norm = {.dtype = DTYPE_BF16,
                                              .y = x.at[s],
                                              .x = y.at[s],
                                              .weight = weight.at[s],
                                              .num_rows = TOKENS,
                                              .hidden_size = HIDDEN,
                                              .eps = 1e-6f};
            const struct linear_args args = {.weight = linear[s],
                                             .y = y.at[s],
                                             .x = x.at[s],
                                             .y_dtype = DTYPE_BF16,
                                             .num_tokens = TOKENS,
                                             .accumulate = true};
            rig_ok(rig[s].backend.kernels->rmsnorm(rig[s].stream, &norm));
            rig_ok(rig[s].backend.kernels->linear(rig[s].stream, &args));
        }
    }
    rig_ok(ops->graph_end(cuda->stream, &graph));
    rig_ok(ops->graph_launch(cuda->stream, graph));
    twin_compare(&y, DTYPE_BF16, TOKENS * HIDDEN, 2e-2, "a graph of 40 operators");
    ops->graph_destroy(&graph);
    for (int s = 0; s < RIG_NUM; s++)
        rig[s].backend.kernels->linear_destroy(&linear[s]);
    free(data);
}
END_TEST

RIG_MAIN("device", events_order_two_streams, event_time_is_on_the_hosts_clock,
         graph_replays_operators)
