/* loop_stats.c - see loop_stats.h. */
#include "detokenizer_proc/loop_stats.h"

static void write_finished(const struct detokenizer_stats *stats, struct json_writer *out)
{
    json_key(out, "finished");
    json_begin_object(out);
    for (int reason = FINISH_STOP; reason <= FINISH_ERROR; reason++)
        json_put_uint(out, finish_reason_name((enum finish_reason)reason),
                      stats->num_finished[reason]);
    json_end_object(out);
}

void loop_stats_write(const struct detokenizer *d, const struct loop_counters *counters,
                      int64_t now_ns, struct json_writer *out)
{
    const struct detokenizer_stats *stats = &d->stats;
    size_t unsent_bytes = 0;

    for (const struct client *client = d->clients; client; client = client->older)
        unsent_bytes += client->unsent_bytes + client->refusal_bytes;
    json_writer_reset(out);
    json_begin_object(out);
    json_put_cstring(out, "process", "minisgl-detokenizer");
    json_put_double(out, "uptime_s", (double)(now_ns - counters->start_ns) / 1e9);
    json_put_uint(out, "clients", d->clients_by_id.num_values);
    json_put_uint(out, "blocked_clients", d->num_blocked);
    json_put_uint(out, "open_requests", d->num_open);
    json_put_uint(out, "tombstones", d->replies_by_uid.num_values - d->num_open);
    json_put_uint(out, "unsent_bytes", unsent_bytes);
    json_put_uint(out, "stop_automata", d->stops.num_entries);
    json_put_uint(out, "requests", stats->num_requests);
    write_finished(stats, out);
    json_put_uint(out, "stop_strings_found", stats->num_stop_strings);
    json_put_uint(out, "refused", stats->num_refused);
    json_put_uint(out, "tokens", stats->num_tokens);
    json_put_uint(out, "text_bytes", stats->text_bytes);
    json_put_uint(out, "aborts_sent", stats->num_aborts);
    json_put_uint(out, "slow_clients", stats->num_slow);
    json_put_uint(out, "gone_clients", stats->num_gone);
    json_put_uint(out, "strangers", stats->num_strangers);
    json_put_uint(out, "frames_in", counters->frames_in);
    json_put_uint(out, "frames_out", counters->frames_out);
    json_put_uint(out, "bytes_in", counters->bytes_in);
    json_put_uint(out, "bytes_out", counters->bytes_out);
    json_put_uint(out, "frames_dropped", counters->frames_dropped);
    json_end_object(out);
}
