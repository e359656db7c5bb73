/* loop_trace.c - where the loop's time goes: sums for `stats`, and spans for the trace if there is
 * one. */
#include "common/clock.h"
#include "scheduler_proc/loop_internal.h"

static void add_span(struct loop *loop, enum trace_track track, const char *name, int64_t begin_ns,
                     int64_t end_ns, const struct batch *batch, int32_t num_wasted)
{
    trace_add(loop->trace, &(struct trace_span){.track = track,
                                                .name = name,
                                                .begin_ns = begin_ns,
                                                .end_ns = end_ns,
                                                .step = batch ? batch->step : -1,
                                                .num_tokens = batch ? batch->num_tokens : 0,
                                                .num_rows = batch ? batch->num_rows : 0,
                                                .num_wasted = num_wasted});
}

static void end_phase(struct loop *loop, enum loop_phase phase, int64_t begin_ns, int64_t end_ns,
                      const struct batch *batch)
{
    loop->counters.phase_ns[phase] += end_ns - begin_ns;
    add_span(loop, TRACE_SCHEDULER, loop_phase_names[phase], begin_ns, end_ns, batch, 0);
}

void loop_end_phase(struct loop *loop, enum loop_phase phase, int64_t begin_ns,
                    const struct batch *batch)
{
    end_phase(loop, phase, begin_ns, clock_now_ns(), batch);
}

void loop_end_launch(struct loop *loop, int64_t begin_ns, const struct batch *batch)
{
    int64_t uploaded_ns = engine_uploaded_ns(loop->engine), end_ns = clock_now_ns();

    step_times_launch(&loop->times, end_ns);
    end_phase(loop, LOOP_UPLOAD, begin_ns, uploaded_ns, batch);
    end_phase(loop, LOOP_LAUNCH, uploaded_ns, end_ns, batch);
}

void loop_end_process(struct loop *loop, int64_t begin_ns, const struct batch *batch)
{
    int64_t end_ns = clock_now_ns();
    struct scheduler_stats stats;

    loop->counters.phase_ns[LOOP_PROCESS] += end_ns - begin_ns;
    if (!loop->trace)
        return;
    scheduler_get_stats(loop->scheduler, &stats);
    add_span(loop, TRACE_SCHEDULER, loop_phase_names[LOOP_PROCESS], begin_ns, end_ns, batch,
             (int32_t)(stats.num_wasted_rows - loop->num_wasted_traced));
    loop->num_wasted_traced = stats.num_wasted_rows;
    trace_add_pages(loop->trace, &(struct trace_pages){.time_ns = end_ns,
                                                       .free = stats.free_pages,
                                                       .cached = stats.cached_pages,
                                                       .private = stats.private_pages});
}

void loop_trace_device(struct loop *loop, const struct engine_times *times,
                       const struct batch *batch)
{
    add_span(loop, TRACE_DEVICE, batch->is_decode ? "decode" : "prefill", times->begin_ns,
             times->end_ns, batch, 0);
}

void loop_trace_arrival(struct loop *loop, uint64_t uid)
{
    trace_add_request(loop->trace, TRACE_REQUEST_ARRIVAL, uid, clock_now_ns());
}

void loop_trace_refusal(struct loop *loop, uint64_t uid)
{
    trace_add_request(loop->trace, TRACE_REQUEST_END, uid, clock_now_ns());
}

void loop_trace_outputs(struct loop *loop, const struct token_row *rows, int32_t num_rows)
{
    int64_t now_ns;

    if (!loop->trace)
        return;
    now_ns = clock_now_ns();
    for (int32_t i = 0; i < num_rows; i++) {
        if (rows[i].is_first && rows[i].token != TOKEN_NONE)
            trace_add_request(loop->trace, TRACE_REQUEST_FIRST, rows[i].uid, now_ns);
        if (rows[i].finish)
            trace_add_request(loop->trace, TRACE_REQUEST_END, rows[i].uid, now_ns);
    }
}
