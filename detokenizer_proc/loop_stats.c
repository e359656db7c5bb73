/* loop_stats.c - see loop_stats.h. */
#include "detokenizer_proc/loop_stats.h"

static void put(struct json_writer *out, const char *key, uint64_t value)
{
    json_key(out, key);
    json_uint(out, value);
}

static void write_finished(const struct detokenizer_stats *stats, struct json_writer *out)
{
    json_key(out, "finished");
    json_begin_object(out);
    for (int reason = FINISH_STOP; reason <= FINISH_ERROR; reason++)
        put(out, finish_reason_name((enum finish_reason)reason), stats->num_finished[reason]);
    json_end_object(out);
}

void loop_stats_write(const struct detokenizer *d, const struct loop_counters *counters,
                      int64_t now_ns, struct json_writer *out)
{
    const struct detokenizer_stats *stats = &d->stats;
    size_t unsent_bytes = 0;

    for (const struct client *client = d->clients; client; client = client->older)
        unsent_bytes += client->unsent_bytes;
    json_writer_reset(out);
    json_begin_object(out);
    json_key(out, "process");
    json_cstring(out, "minisgl-detokenizer");
    json_key(out, "uptime_s");
    json_double(out, (double)(now_ns - counters->start_ns) / 1e9);
    put(out, "clients", d->clients_by_id.num_values);
    put(out, "blocked_clients", d->num_blocked);
    put(out, "open_requests", d->num_open);
    put(out, "tombstones", d->replies_by_uid.num_values - d->num_open);
    put(out, "unsent_bytes", unsent_bytes);
    put(out, "stop_automata", d->stops.num_entries);
    put(out, "requests", stats->num_requests);
    write_finished(stats, out);
    put(out, "stop_strings_found", stats->num_stop_strings);
    put(out, "refused", stats->num_refused);
    put(out, "tokens", stats->num_tokens);
    put(out, "text_bytes", stats->text_bytes);
    put(out, "aborts_sent", stats->num_aborts);
    put(out, "slow_clients", stats->num_slow);
    put(out, "gone_clients", stats->num_gone);
    put(out, "strangers", stats->num_strangers);
    put(out, "frames_in", counters->frames_in);
    put(out, "frames_out", counters->frames_out);
    put(out, "bytes_in", counters->bytes_in);
    put(out, "bytes_out", counters->bytes_out);
    put(out, "frames_dropped", counters->frames_dropped);
    json_end_object(out);
}
