/* trace.c - see trace.h. */
#include "scheduler_proc/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"

enum { BUFFER_SIZE = 1 << 18 };

struct trace {
    FILE *file; /* owned; its error flag remembers a failed write: a trace that is cut is of use,
                 * one with holes is not */
    const char *path; /* borrowed */
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
    trace->path = path;
    setvbuf(trace->file, NULL, _IOFBF, BUFFER_SIZE);
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
    if (!ferror(trace->file))
        fputs("\n]}\n", trace->file);
    int has_failed = ferror(trace->file);
    has_failed |= fclose(trace->file);
    free(trace);
    *out_trace = NULL;
    return has_failed ? status_error(STATUS_IO, "trace: not all of it could be written")
                      : status_ok();
}

/* After each event. */
static void look_at_file(struct trace *trace)
{
    if (ferror(trace->file))
        log_warn("%s: %s: the trace ends here, the server goes on", trace->path, strerror(errno));
}

/* Microseconds, as a number with three decimals. */
#define US_FORMAT   "%lld.%03d"
#define US_ARGS(ns) (long long)((ns) / 1000), (int)((ns) % 1000)

void trace_add(struct trace *trace, const struct trace_span *span)
{
    if (!trace || ferror(trace->file))
        return;
    fprintf(trace->file,
            ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":" US_FORMAT
            ",\"dur\":" US_FORMAT,
            span->name, (int)span->track, US_ARGS(span->begin_ns),
            US_ARGS(span->end_ns - span->begin_ns));
    if (span->step >= 0)
        fprintf(trace->file, ",\"args\":{\"step\":%lld,\"tokens\":%d,\"rows\":%d,\"wasted\":%d}",
                (long long)span->step, span->num_tokens, span->num_rows, span->num_wasted);
    fputs("}", trace->file);
    look_at_file(trace);
}

void trace_add_pages(struct trace *trace, const struct trace_pages *pages)
{
    if (!trace || ferror(trace->file))
        return;
    fprintf(trace->file,
            ",\n{\"name\":\"pages\",\"ph\":\"C\",\"pid\":1,\"ts\":" US_FORMAT
            ",\"args\":{\"free\":%d,\"cached\":%d,\"private\":%d}}",
            US_ARGS(pages->time_ns), pages->free, pages->cached, pages->private);
    look_at_file(trace);
}

void trace_add_request(struct trace *trace, enum trace_request what, uint64_t uid, int64_t time_ns)
{
    static const char phases[] = {
        [TRACE_REQUEST_ARRIVAL] = 'b', [TRACE_REQUEST_FIRST] = 'n', [TRACE_REQUEST_END] = 'e'};

    if (!trace || ferror(trace->file))
        return;
    fprintf(trace->file,
            ",\n{\"name\":\"request\",\"cat\":\"request\",\"ph\":\"%c\",\"pid\":1,\"tid\":%d,"
            "\"id\":\"%llu\",\"ts\":" US_FORMAT "}",
            phases[what], (int)TRACE_SCHEDULER, (unsigned long long)uid, US_ARGS(time_ns));
    look_at_file(trace);
}
