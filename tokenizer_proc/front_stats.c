/* front_stats.c - see front_stats.h. */
#include "tokenizer_proc/front_stats.h"

static void put(struct json_writer *out, const char *key, uint64_t value)
{
    json_key(out, key);
    json_uint(out, value);
}

static void put_bool(struct json_writer *out, const char *key, bool value)
{
    json_key(out, key);
    json_bool(out, value);
}

static void put_text(struct json_writer *out, const char *key, const char *text)
{
    json_key(out, key);
    json_cstring(out, text);
}

void front_stats_write(const struct front_args *args, const struct front_counters *counters,
                       const struct front_state *state, int64_t now_ns, struct json_writer *out)
{
    json_writer_reset(out);
    json_begin_object(out);
    put_text(out, "process", "tokenizer");
    json_key(out, "uptime_s");
    json_double(out, (double)((now_ns - counters->start_ns) / 1000000) / 1e3);
    put(out, "run", args->run);
    put(out, "instance", args->instance);
    put(out, "threads", (uint64_t)args->num_threads);
    put_bool(out, "draining", state->is_draining);
    put(out, "accepted", counters->num_accepted);
    put(out, "results", counters->num_results);
    put(out, "aborts", counters->num_aborts);
    put(out, "prompt_tokens", counters->num_prompt_tokens);
    json_key(out, "errors");
    json_begin_object(out);
    for (int code = ERROR_INVALID_REQUEST; code < NUM_ERROR_CODES; code++) {
        if (counters->num_errors[code])
            put(out, error_code_name((enum error_code)code), counters->num_errors[code]);
    }
    json_end_object(out);
    put(out, "pending", state->num_pending);
    put(out, "pending_bytes", state->pending_bytes);
    put(out, "clients", state->num_clients);
    put(out, "clients_blocked", state->num_blocked);
    put(out, "scheduler_queued_bytes", state->queued_bytes);
    put(out, "frames_in", counters->frames_in);
    put(out, "bytes_in", counters->bytes_in);
    put(out, "frames_out", counters->frames_out);
    put(out, "bytes_out", counters->bytes_out);
    put(out, "frames_dropped", counters->frames_dropped);
    put(out, "answers_lost", counters->num_lost_answers);
    json_end_object(out);
}

void front_info_write(const struct front_args *args, struct json_writer *out)
{
    const struct prompt_model *model = args->model;

    json_writer_reset(out);
    json_begin_object(out);
    put_text(out, "model", args->model_dir);
    put(out, "vocab_size", (uint64_t)model->info.vocab_size);
    put(out, "max_seq_len", (uint64_t)model->info.max_seq_len);
    put_bool(out, "has_tokenizer", model->tokenizer != NULL);
    put_bool(out, "has_chat_template", model->tokenizer && model->chat);
    put(out, "instance", args->instance);
    put(out, "run", args->run);
    put(out, "protocol", PROTOCOL_VERSION);
    put_text(out, "version", MINISGL_VERSION);
    json_end_object(out);
}
