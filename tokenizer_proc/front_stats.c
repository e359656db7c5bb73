/* front_stats.c - see front_stats.h. */
#include "tokenizer_proc/front_stats.h"

void front_stats_write(const struct front_args *args, const struct front_counters *counters,
                       const struct front_state *state, int64_t now_ns, struct json_writer *out)
{
    json_writer_reset(out);
    json_begin_object(out);
    json_put_cstring(out, "process", "minisgl-tokenizer");
    json_put_double(out, "uptime_s", (double)((now_ns - counters->start_ns) / 1000000) / 1e3);
    json_put_uint(out, "run", args->run);
    json_put_uint(out, "instance", args->instance);
    json_put_uint(out, "threads", (uint64_t)args->num_threads);
    json_put_bool(out, "draining", state->is_draining);
    json_put_uint(out, "accepted", counters->num_accepted);
    json_put_uint(out, "results", counters->num_results);
    json_put_uint(out, "aborts", counters->num_aborts);
    json_put_uint(out, "prompt_tokens", counters->num_prompt_tokens);
    json_key(out, "errors");
    json_begin_object(out);
    for (int code = ERROR_INVALID_REQUEST; code < NUM_ERROR_CODES; code++) {
        if (counters->num_errors[code])
            json_put_uint(out, error_code_name((enum error_code)code), counters->num_errors[code]);
    }
    json_end_object(out);
    json_put_uint(out, "pending", state->num_pending);
    json_put_uint(out, "pending_bytes", state->pending_bytes);
    json_put_uint(out, "clients", state->clients->num_queues);
    json_put_uint(out, "clients_blocked", state->clients->num_blocked);
    json_put_uint(out, "answers_unsent", state->clients->num_unsent);
    json_put_uint(out, "answers_unsent_bytes", state->clients->unsent_bytes);
    json_put_uint(out, "scheduler_queued_bytes", state->queued_bytes);
    json_put_uint(out, "frames_in", counters->frames_in);
    json_put_uint(out, "bytes_in", counters->bytes_in);
    json_put_uint(out, "frames_out", counters->frames_out + state->answers->frames_out);
    json_put_uint(out, "bytes_out", counters->bytes_out + state->answers->bytes_out);
    json_put_uint(out, "frames_dropped", counters->frames_dropped);
    json_put_uint(out, "answers_lost", state->answers->num_lost);
    json_end_object(out);
}

void front_info_write(const struct front_args *args, size_t num_pending, struct json_writer *out)
{
    const struct prompt_model *model = args->model;

    json_writer_reset(out);
    json_begin_object(out);
    json_put_cstring(out, "model", args->model_dir);
    json_put_uint(out, "vocab_size", (uint64_t)model->info.vocab_size);
    json_put_uint(out, "max_seq_len", (uint64_t)model->info.max_seq_len);
    json_put_bool(out, "has_tokenizer", model->tokenizer != NULL);
    json_put_bool(out, "has_chat_template", model->tokenizer && model->chat);
    json_put_uint(out, "pending", num_pending);
    json_put_uint(out, "instance", args->instance);
    json_put_uint(out, "run", args->run);
    json_put_uint(out, "protocol", PROTOCOL_VERSION);
    json_put_cstring(out, "version", MINISGL_VERSION);
    json_end_object(out);
}
