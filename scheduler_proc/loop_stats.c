/* loop_stats.c - see loop_stats.h. */
#include "scheduler_proc/loop_stats.h"

#include "common/clock.h"

static void put(struct json_writer *out, const char *key, int64_t value)
{
    json_key(out, key);
    json_int(out, value);
}

static void put_bool(struct json_writer *out, const char *key, bool value)
{
    json_key(out, key);
    json_bool(out, value);
}

static void put_share(struct json_writer *out, const char *key, int64_t part, int64_t whole)
{
    json_key(out, key);
    json_double(out, whole > 0 ? (double)(part * 10000 / whole) / 10000 : 0);
}

static void put_ms(struct json_writer *out, const char *key, int64_t ns)
{
    json_key(out, key);
    json_double(out, (double)(ns / 1000) / 1000);
}

static void write_requests(const struct scheduler_stats *stats, struct json_writer *out)
{
    put(out, "queued", stats->num_queued);
    put(out, "running", stats->num_running);
    put(out, "waiting_rows", stats->num_waiting_rows);
    put(out, "accepted", stats->num_accepted);
    put(out, "rejected", stats->num_rejected);
    put(out, "finished", stats->num_finished);
    put(out, "aborted", stats->num_aborted);
    put(out, "errors", stats->num_errors);
}

static void write_pages(const struct scheduler_stats *stats, struct json_writer *out)
{
    json_key(out, "pages");
    json_begin_object(out);
    put(out, "free", stats->free_pages);
    put(out, "cached", stats->cached_pages);
    put(out, "private", stats->private_pages);
    put(out, "evictable", stats->evictable_pages);
    put(out, "protected", stats->protected_pages);
    json_end_object(out);
}

static void write_steps(const struct scheduler_stats *stats, const struct step_times *times,
                        struct json_writer *out)
{
    put(out, "steps", stats->num_steps);
    put(out, "prefill_tokens", stats->num_prefill_tokens);
    put(out, "decode_tokens", stats->num_decode_tokens);
    put(out, "wasted_rows", stats->num_wasted_rows);
    put(out, "prompt_tokens", stats->num_prompt_tokens);
    put(out, "cached_tokens", stats->num_cached_tokens);
    put_share(out, "prefix_hit_rate", stats->num_cached_tokens, stats->num_prompt_tokens);
    put_ms(out, "step_ms_p50", step_times_quantile(times, 0.5));
    put_ms(out, "step_ms_p99", step_times_quantile(times, 0.99));
    put_share(out, "device_idle_share", times->idle_ns, times->idle_ns + times->busy_ns);
}

static void write_engine(const struct engine_info *engine, struct json_writer *out)
{
    json_key(out, "engine");
    json_begin_object(out);
    json_key(out, "device");
    json_cstring(out, engine->device_name);
    json_key(out, "dtype");
    json_cstring(out, engine->dtype_name);
    put(out, "num_pages", engine->num_pages);
    put(out, "max_seq_len", engine->max_seq_len);
    put(out, "weight_bytes", (int64_t)engine->weight_bytes);
    put(out, "kv_bytes", (int64_t)engine->kv_bytes);
    put(out, "scratch_bytes", (int64_t)engine->scratch_bytes);
    put(out, "graphs", engine->num_graphs);
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
    json_key(out, "process");
    json_cstring(out, "minisgl-scheduler");
    json_key(out, "uptime_s");
    json_double(out, (double)((clock_now_ns() - counters->start_ns) / 1000000) / 1000);
    put_bool(out, "overlap", state->is_overlapped);
    put_bool(out, "draining", state->is_draining);
    write_requests(&stats, out);
    write_pages(&stats, out);
    write_steps(&stats, times, out);
    put(out, "nan_errors", (int64_t)counters->num_nan);
    put(out, "unsent_bytes", (int64_t)state->unsent_bytes);
    put(out, "frames_in", (int64_t)counters->frames_in);
    put(out, "frames_out", (int64_t)counters->frames_out);
    put(out, "bytes_out", (int64_t)counters->bytes_out);
    put(out, "frames_dropped", (int64_t)counters->frames_dropped);
    write_engine(engine, out);
    json_end_object(out);
}
