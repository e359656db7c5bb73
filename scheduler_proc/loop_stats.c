/* loop_stats.c - see loop_stats.h. */
#include "scheduler_proc/loop_stats.h"

#include "common/clock.h"

static void put_share(struct json_writer *out, const char *key, int64_t part, int64_t whole)
{
    json_put_double(out, key, whole > 0 ? (double)(part * 10000 / whole) / 10000 : 0);
}

static void put_ms(struct json_writer *out, const char *key, int64_t ns)
{
    json_put_double(out, key, (double)(ns / 1000) / 1000);
}

static void write_requests(const struct scheduler_stats *stats, struct json_writer *out)
{
    json_put_int(out, "queued", stats->num_queued);
    json_put_int(out, "running", stats->num_running);
    json_put_int(out, "waiting_rows", stats->num_waiting_rows);
    json_put_int(out, "accepted", stats->num_accepted);
    json_put_int(out, "rejected", stats->num_rejected);
    json_put_int(out, "finished", stats->num_finished);
    json_put_int(out, "aborted", stats->num_aborted);
    json_put_int(out, "errors", stats->num_errors);
}

static void write_pages(const struct scheduler_stats *stats, struct json_writer *out)
{
    json_key(out, "pages");
    json_begin_object(out);
    json_put_int(out, "free", stats->free_pages);
    json_put_int(out, "cached", stats->cached_pages);
    json_put_int(out, "private", stats->private_pages);
    json_put_int(out, "evictable", stats->evictable_pages);
    json_put_int(out, "protected", stats->protected_pages);
    json_end_object(out);
}

const char *const loop_phase_names[LOOP_NUM_PHASES] = {"sleep",  "receive", "form",    "upload",
                                                       "launch", "wait",    "process", "send"};

/* By phase, but for the sleep. */
static void write_cpu(const struct loop_counters *counters, int64_t num_steps,
                      struct json_writer *out)
{
    json_key(out, "cpu_us_per_step");
    json_begin_object(out);
    for (int i = LOOP_RECEIVE; i < LOOP_NUM_PHASES; i++)
        json_put_double(out, loop_phase_names[i],
                        num_steps > 0 ? (double)(counters->phase_ns[i] / num_steps) / 1000 : 0);
    json_end_object(out);
}

static void write_steps(const struct scheduler_stats *stats, const struct step_times *times,
                        struct json_writer *out)
{
    json_put_int(out, "steps", stats->num_steps);
    json_put_int(out, "prefill_tokens", stats->num_prefill_tokens);
    json_put_int(out, "decode_tokens", stats->num_decode_tokens);
    json_put_int(out, "wasted_rows", stats->num_wasted_rows);
    json_put_int(out, "prompt_tokens", stats->num_prompt_tokens);
    json_put_int(out, "cached_tokens", stats->num_cached_tokens);
    put_share(out, "prefix_hit_rate", stats->num_cached_tokens, stats->num_prompt_tokens);
    put_ms(out, "step_ms_p50", step_times_quantile(times, 0.5));
    put_ms(out, "step_ms_p99", step_times_quantile(times, 0.99));
    put_share(out, "device_idle_share", times->idle_ns, times->idle_ns + times->busy_ns);
    put_share(out, "queue_empty_share", times->empty_ns, times->idle_ns + times->busy_ns);
}

static void write_engine(const struct engine_info *engine, struct json_writer *out)
{
    json_key(out, "engine");
    json_begin_object(out);
    json_put_cstring(out, "device", engine->device_name);
    json_put_cstring(out, "dtype", engine->dtype_name);
    json_put_int(out, "num_pages", engine->num_pages);
    json_put_int(out, "max_seq_len", engine->max_seq_len);
    json_put_int(out, "weight_bytes", (int64_t)engine->weight_bytes);
    json_put_int(out, "kv_bytes", (int64_t)engine->kv_bytes);
    json_put_int(out, "scratch_bytes", (int64_t)engine->scratch_bytes);
    json_put_int(out, "graphs", engine->num_graphs);
    json_end_object(out);
}

void loop_stats_write(const struct scheduler *scheduler, const struct engine_info *engine,
                      const struct step_times *times, const struct loop_counters *counters,
                      const struct loop_state *state, struct json_writer *out)
{
    struct scheduler_stats stats = {0};

    scheduler_get_stats(scheduler, &stats);
    json_writer_reset(out);
    json_begin_object(out);
    json_put_cstring(out, "process", "minisgl-scheduler");
    json_put_double(out, "uptime_s",
                    (double)((clock_now_ns() - counters->start_ns) / 1000000) / 1000);
    json_put_bool(out, "overlap", state->is_overlapped);
    json_put_bool(out, "draining", state->is_draining);
    write_requests(&stats, out);
    write_pages(&stats, out);
    write_steps(&stats, times, out);
    write_cpu(counters, stats.num_steps, out);
    json_put_int(out, "nan_errors", stats.num_nan);
    json_put_int(out, "unsent_bytes", (int64_t)state->unsent_bytes);
    json_put_int(out, "frames_in", (int64_t)counters->frames_in);
    json_put_int(out, "frames_out", (int64_t)counters->frames_out);
    json_put_int(out, "bytes_out", (int64_t)counters->bytes_out);
    json_put_int(out, "frames_dropped", (int64_t)counters->frames_dropped);
    write_engine(engine, out);
    json_end_object(out);
}
