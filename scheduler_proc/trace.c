/* trace.c - see trace.h. */
#include "scheduler_proc/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct trace {
    FILE *file; /* owned */
};

static void name_track(struct trace *trace, enum trace_track track, const char *name)
{
    fprintf(trace->file,
            "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":"
            "\"%s\"}}",
            (int)track, name);
}

struct status trace_open(const char *path, struct trace **out)
{
    struct trace *trace = calloc(1, sizeof(*trace));

    if (!trace)
        return status_error(STATUS_NO_MEMORY, "%s: no memory", path);
    trace->file = fopen(path, "we");
    if (!trace->file) {
        int error = errno;
        free(trace);
        return status_errno(error, path);
    }
    fputs("{\"traceEvents\":[\n", trace->file);
    name_track(trace, TRACE_SCHEDULER, "scheduler");
    fputs(",\n", trace->file);
    name_track(trace, TRACE_DEVICE, "device");
    *out = trace;
    return status_ok();
}

struct status trace_close(struct trace **out_trace)
{
    struct trace *trace = *out_trace;

    if (!trace)
        return status_ok();
    fputs("\n]}\n", trace->file);
    int has_failed = ferror(trace->file);
    has_failed |= fclose(trace->file);
    free(trace);
    *out_trace = NULL;
    return has_failed ? status_error(STATUS_IO, "trace: not all of it could be written")
                      : status_ok();
}

void trace_add(struct trace *trace, const struct trace_span *span)
{
    if (!trace)
        return;
    fprintf(trace->file,
            ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f",
            span->name, (int)span->track, (double)span->begin_ns / 1000,
            (double)(span->end_ns - span->begin_ns) / 1000);
    if (span->step >= 0)
        fprintf(trace->file, ",\"args\":{\"step\":%lld,\"tokens\":%d,\"rows\":%d,\"wasted\":%d}",
                (long long)span->step, span->num_tokens, span->num_rows, span->num_wasted);
    fputs("}", trace->file);
}
