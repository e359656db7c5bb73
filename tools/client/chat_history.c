/* chat_history.c - see chat_history.h. */
#include "tools/client/chat_history.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

void chat_history_deinit(struct chat_history *history)
{
    json_writer_deinit(&history->text);
}

void chat_history_clear(struct chat_history *history)
{
    json_writer_reset(&history->text);
}

void chat_history_add(struct chat_history *history, const char *role, const char *text, size_t size)
{
    struct json_writer *out = &history->text;

    if (out->size == 0)
        json_begin_array(out);
    json_begin_object(out);
    json_put_cstring(out, "role", role);
    json_key(out, "content");
    json_string(out, text, size);
    json_end_object(out);
}

struct bytes chat_history_messages(struct chat_history *history)
{
    struct json_writer *out = &history->text;
    size_t size = out->size;

    json_end_array(out);
    struct bytes messages = {(const uint8_t *)out->data, out->size};
    out->size = size; /* the next message goes where the bracket is */
    out->need_comma = true;
    return messages;
}

void chat_history_cut(struct chat_history *history, size_t size)
{
    if (size == 0) {
        json_writer_reset(&history->text);
        return;
    }
    history->text.size = size;
    history->text.need_comma = true;
}

static void take_number(const struct json_value *config, const char *key, double *out)
{
    const struct json_value *value = json_get(config, key);

    if (*out < 0 && value && value->type == JSON_NUMBER && value->number >= 0)
        *out = value->number;
}

static void take_config(const struct json_value *config, struct request_options *options)
{
    const struct json_value *samples = json_get(config, "do_sample");
    const struct json_value *top_k = json_get(config, "top_k");

    if (!samples || samples->type != JSON_BOOL || !samples->boolean)
        return; /* greedy, as without a file */
    if (options->temperature < 0 && !json_get(config, "temperature"))
        options->temperature = 1;
    take_number(config, "temperature", &options->temperature);
    take_number(config, "top_p", &options->top_p);
    take_number(config, "min_p", &options->min_p);
    if (options->top_k < -1 && top_k && top_k->type == JSON_NUMBER && top_k->is_integer &&
        top_k->integer >= 0 && top_k->integer <= INT32_MAX)
        options->top_k = top_k->integer;
}

void chat_sampling_defaults(const char *model, struct request_options *options)
{
    struct json_value *config = NULL;
    struct arena arena;

    arena_init(&arena, 0, 0);
    if (*model &&
        !json_parse_file(model, "generation_config.json", MAX_CONFIG_BYTES, &arena, &config).code)
        take_config(config, options);
    arena_deinit(&arena);
}
