/*
 * stream.cu - streams, events and captured graphs on the CUDA runtime.
 *
 * An event's time is its distance from the device's base event, added to the host clock at which
 * that one was done. The runtime gives distances as float milliseconds, which are coarse when they
 * are long, so the base is set anew every two seconds.
 */
#include <stdlib.h>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/linear.cuh"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAS_NVTX 1
#else
#define HAS_NVTX 0
#endif

struct event {
    struct device *device;
    cudaEvent_t cuda;
};

struct graph {
    cudaGraphExec_t exec;
    bool is_provisional;
};

enum { BASE_AGE_MS = 2000 };

extern "C" void stream_cuda_destroy(struct stream **stream)
{
    struct stream *s = *stream;

    if (s == NULL)
        return;
    *stream = NULL;
    cudaSetDevice(s->device->ordinal);
    if (s->cuda) {
        cudaStreamSynchronize(s->cuda);
        cudaStreamDestroy(s->cuda);
    }
    cudaFree(s->counters);
    free(s);
}

extern "C" struct status stream_cuda_create(struct device *device, bool high_priority,
                                            struct stream **out)
{
    struct stream *stream = (struct stream *)calloc(1, sizeof(*stream));
    cudaError_t error;
    int low = 0, high = 0;

    if (stream == NULL)
        return status_error(STATUS_NO_MEMORY, "stream: out of memory");
    stream->device = device;
    error = cudaSetDevice(device->ordinal);
    if (!error)
        error = cudaDeviceGetStreamPriorityRange(&low, &high);
    if (!error)
        error = cudaStreamCreateWithPriority(&stream->cuda, cudaStreamNonBlocking,
                                             high_priority ? high : low);
    if (!error)
        error = cudaMalloc((void **)&stream->counters, NUM_COUNTERS * sizeof(int32_t));
    if (!error)
        error = cudaMemsetAsync(stream->counters, 0, NUM_COUNTERS * sizeof(int32_t), stream->cuda);
    if (error) {
        stream_cuda_destroy(&stream);
        return cuda_status(error, "stream");
    }
    *out = stream;
    return status_ok();
}

extern "C" struct status stream_cuda_sync(struct stream *stream)
{
    return cuda_status(cudaStreamSynchronize(stream->cuda), "waiting for a stream");
}

extern "C" struct status stream_cuda_copy(struct stream *stream, void *dst, const void *src,
                                          size_t size, enum copy_kind kind)
{
    enum cudaMemcpyKind cuda_kind =
        kind == COPY_HOST_TO_DEVICE ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;

    if (size == 0)
        return status_ok();
    return cuda_status(cudaMemcpyAsync(dst, src, size, cuda_kind, stream->cuda), "copy");
}

extern "C" struct status stream_cuda_fill(struct stream *stream, void *dst, uint8_t byte,
                                          size_t size)
{
    if (size == 0)
        return status_ok();
    return cuda_status(cudaMemsetAsync(dst, byte, size, stream->cuda), "fill");
}

extern "C" struct status event_cuda_create(struct device *device, struct event **out)
{
    struct event *event = (struct event *)calloc(1, sizeof(*event));
    cudaError_t error;

    if (event == NULL)
        return status_error(STATUS_NO_MEMORY, "event: out of memory");
    event->device = device;
    error = cudaSetDevice(device->ordinal);
    if (!error)
        error = cudaEventCreate(&event->cuda); /* timed, and waited for by spinning */
    if (error) {
        free(event);
        return cuda_status(error, "event");
    }
    *out = event;
    return status_ok();
}

extern "C" void event_cuda_destroy(struct event **event)
{
    if (*event == NULL)
        return;
    cudaEventDestroy((*event)->cuda);
    free(*event);
    *event = NULL;
}

extern "C" struct status event_cuda_record(struct stream *stream, struct event *event)
{
    return cuda_status(cudaEventRecord(event->cuda, stream->cuda), "event record");
}

extern "C" struct status stream_cuda_wait(struct stream *stream, struct event *event)
{
    return cuda_status(cudaStreamWaitEvent(stream->cuda, event->cuda, 0), "stream wait");
}

extern "C" struct status event_cuda_wait(struct event *event)
{
    return cuda_status(cudaEventSynchronize(event->cuda), "waiting for an event");
}

extern "C" struct status event_cuda_time(struct event *event, int64_t *out_ns)
{
    struct device *device = event->device;
    cudaError_t error;
    float ms = 0;

    error = cudaEventElapsedTime(&ms, device->base_event, event->cuda);
    if (error)
        return cuda_status(error, "event time");
    if (ms > BASE_AGE_MS) { /* now negative and short */
        struct status status = device_clock_sync(device);
        if (status.code)
            return status;
        error = cudaEventElapsedTime(&ms, device->base_event, event->cuda);
        if (error)
            return cuda_status(error, "event time");
    }
    *out_ns = device->base_ns + (int64_t)((double)ms * 1e6);
    return status_ok();
}

extern "C" struct status graph_cuda_begin(struct stream *stream)
{
    stream->has_guessed = false;
    return cuda_status(cudaStreamBeginCapture(stream->cuda, cudaStreamCaptureModeThreadLocal),
                       "graph capture");
}

extern "C" struct status graph_cuda_end(struct stream *stream, struct graph **out)
{
    struct graph *graph = (struct graph *)calloc(1, sizeof(*graph));
    cudaGraph_t captured = NULL;
    cudaError_t error;

    error = cudaStreamEndCapture(stream->cuda, &captured);
    if (!error && graph)
        error = cudaGraphInstantiate(&graph->exec, captured, 0);
    if (!error && graph)
        error = cudaGraphUpload(graph->exec, stream->cuda);
    if (captured)
        cudaGraphDestroy(captured);
    if (graph == NULL)
        return status_error(STATUS_NO_MEMORY, "graph: out of memory");
    if (error) {
        graph_cuda_destroy(&graph);
        return cuda_status(error, "graph capture");
    }
    linear_tuner_save(
        stream->device->tuner); /* before serving; what is stored already costs nothing */
    graph->is_provisional = stream->has_guessed;
    *out = graph;
    return status_ok();
}

extern "C" bool graph_cuda_is_provisional(const struct graph *graph)
{
    return graph->is_provisional;
}

extern "C" struct status graph_cuda_launch(struct stream *stream, struct graph *graph)
{
    return cuda_status(cudaGraphLaunch(graph->exec, stream->cuda), "graph launch");
}

extern "C" void graph_cuda_destroy(struct graph **graph)
{
    if (*graph == NULL)
        return;
    if ((*graph)->exec)
        cudaGraphExecDestroy((*graph)->exec);
    free(*graph);
    *graph = NULL;
}

extern "C" uint64_t range_cuda_begin(const char *name)
{
#if HAS_NVTX
    return nvtxRangeStartA(name);
#else
    (void)name;
    return 0;
#endif
}

extern "C" void range_cuda_end(uint64_t range)
{
#if HAS_NVTX
    nvtxRangeEnd(range);
#else
    (void)range;
#endif
}
