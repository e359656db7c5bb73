/*
 * batch_line.c - see batch_line.h. A key that is not known is refused: a request that asks for what
 * is not there must not be answered as if it had not asked.
 */
#include "tools/client/batch_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct status wrong(const char *key, const char *what)
{
    return status_error(STATUS_INVALID, "%s: must be %s", key, what);
}

static struct status take_int(const struct json_value *value, const char *key, int64_t min,
                              int64_t max, int64_t *out)
{
    if (value->type != JSON_NUMBER || !value->is_integer || value->integer < min ||
        value->integer > max)
        return status_error(STATUS_INVALID, "%s: must be a whole number from %lld to %lld", key,
                            (long long)min, (long long)max);
    *out = value->integer;
    return status_ok();
}

static struct status take_float(const struct json_value *value, const char *key, double max,
                                float *out)
{
    if (value->type != JSON_NUMBER || !(value->number >= 0 && value->number <= max))
        return status_error(STATUS_INVALID, "%s: must be a number from 0 to %g", key, max);
    *out = (float)value->number;
    return status_ok();
}

static struct status take_max_tokens(const struct json_value *value, struct generate_msg *msg)
{
    int64_t max_tokens = 0;
    /* A giant one means "as many as fit", however giant. */
    struct status status = take_int(value, "max_tokens", 1, INT64_MAX, &max_tokens);

    if (status.code)
        return wrong("max_tokens", "a whole number above 0");
    msg->has_max_tokens = true;
    msg->sampling.max_tokens = max_tokens > INT32_MAX ? INT32_MAX : (int32_t)max_tokens;
    return status;
}

static struct status take_top_k(const struct json_value *value, struct generate_msg *msg)
{
    int64_t top_k = 0;
    struct status status = take_int(value, "top_k", -1, INT32_MAX, &top_k);

    msg->sampling.top_k = top_k < 0 ? 0 : (int32_t)top_k;
    return status;
}

/* Beyond int64, too: then JSON has it as it was written. */
static struct status take_seed(const struct json_value *value, struct generate_msg *msg)
{
    char text[24] = "", *end;

    if (value->type == JSON_NUMBER && value->text.size < sizeof(text))
        memcpy(text, value->text.data, value->text.size);
    errno = 0;
    msg->sampling.seed = strtoull(text, &end, 10);
    msg->has_seed = true;
    return text[0] >= '0' && text[0] <= '9' && !*end && !errno
               ? status_ok()
               : wrong("seed", "a whole number from 0 to 18446744073709551615");
}

static struct status take_ids(const struct json_value *value, struct arena *arena,
                              struct generate_msg *msg)
{
    if (value->type != JSON_ARRAY)
        return wrong("input_ids", "an array of token ids");
    int32_t *ids = arena_alloc(arena, (value->num_items + 1) * sizeof(*ids));
    if (!ids)
        return status_error(STATUS_NO_MEMORY, "no memory for %zu ids", value->num_items);
    for (size_t i = 0; i < value->num_items; i++) {
        int64_t id = 0;
        if (take_int(&value->items[i], "input_ids", 0, INT32_MAX, &id).code)
            return wrong("input_ids", "an array of token ids");
        ids[i] = (int32_t)id;
    }
    msg->prompt_kind = PROMPT_IDS;
    msg->input_ids = ids;
    msg->num_input_ids = value->num_items;
    return status_ok();
}

static struct status take_messages(const struct json_value *value, struct arena *arena,
                                   struct generate_msg *msg)
{
    struct json_writer writer = {0};

    if (value->type != JSON_ARRAY)
        return wrong("messages", "an array of {\"role\", \"content\"}");
    json_write_value(&writer, value);
    char *text = writer.failed ? NULL : arena_copy(arena, writer.data, writer.size);
    msg->prompt_kind = PROMPT_MESSAGES;
    msg->messages = (struct bytes){(const uint8_t *)text, writer.size};
    json_writer_deinit(&writer);
    return text ? status_ok() : status_error(STATUS_NO_MEMORY, "no memory for the messages");
}

static struct bytes text_bytes(const struct json_value *value)
{
    return (struct bytes){(const uint8_t *)value->text.data, value->text.size};
}

/* One string or an array of them. */
static struct status take_stop(const struct json_value *value, struct arena *arena,
                               struct generate_msg *msg)
{
    bool is_list = value->type == JSON_ARRAY;
    const struct json_value *items = is_list ? value->items : value;
    size_t num = is_list ? value->num_items : 1;

    if (num > MAX_STOP_STRINGS)
        return status_error(STATUS_INVALID, "stop: at most %d strings", MAX_STOP_STRINGS);
    struct bytes *stops = arena_alloc(arena, (num + 1) * sizeof(*stops));
    if (!stops)
        return status_error(STATUS_NO_MEMORY, "no memory for stop strings");
    for (size_t i = 0; i < num; i++) {
        if (items[i].type != JSON_STRING || items[i].text.size == 0 ||
            items[i].text.size > MAX_STOP_STRING_BYTES)
            return status_error(STATUS_INVALID,
                                "stop: must be one or more strings of 1 to %d bytes",
                                MAX_STOP_STRING_BYTES);
        stops[i] = text_bytes(&items[i]);
    }
    msg->stops = stops;
    msg->num_stops = (int32_t)num;
    return status_ok();
}

static struct status take_key(const char *key, const struct json_value *value, struct arena *arena,
                              struct generate_msg *msg, int *num_prompts)
{
    if (strcmp(key, "prompt") == 0 || strcmp(key, "messages") == 0 ||
        strcmp(key, "input_ids") == 0) {
        ++*num_prompts;
        if (key[0] == 'm')
            return take_messages(value, arena, msg);
        if (key[0] == 'i')
            return take_ids(value, arena, msg);
        msg->text = text_bytes(value);
        return value->type == JSON_STRING ? status_ok() : wrong(key, "a string");
    }
    if (strcmp(key, "max_tokens") == 0)
        return take_max_tokens(value, msg);
    if (strcmp(key, "temperature") == 0)
        return take_float(value, key, 100, &msg->sampling.temperature);
    if (strcmp(key, "top_p") == 0)
        return take_float(value, key, 1, &msg->sampling.top_p);
    if (strcmp(key, "min_p") == 0)
        return take_float(value, key, 1, &msg->sampling.min_p);
    if (strcmp(key, "top_k") == 0)
        return take_top_k(value, msg);
    if (strcmp(key, "seed") == 0)
        return take_seed(value, msg);
    if (strcmp(key, "stop") == 0)
        return take_stop(value, arena, msg);
    if (strcmp(key, "ignore_eos") == 0) {
        msg->sampling.ignore_eos = value->boolean;
        return value->type == JSON_BOOL ? status_ok() : wrong(key, "true or false");
    }
    return status_error(STATUS_INVALID, "%.40s: not known", key);
}

struct status batch_line_parse(const char *line, size_t size, struct arena *arena,
                               const struct json_value **out_id, struct generate_msg *out_msg)
{
    struct generate_msg msg = client_generate_defaults();
    struct json_value *value = NULL;
    struct status status = json_parse(line, size, arena, &value);
    int num_prompts = 0;

    *out_id = NULL;
    if (status.code)
        return status;
    if (value->type != JSON_OBJECT)
        return status_error(STATUS_INVALID, "a line must hold an object");
    *out_id = json_get(value, "id");
    for (size_t i = 0; i < value->num_items; i++) {
        const char *key = value->keys[i].data; /* a NUL stands behind it */
        if (value->items[i].type == JSON_NULL || strcmp(key, "id") == 0)
            continue;
        status = take_key(key, &value->items[i], arena, &msg, &num_prompts);
        if (status.code)
            return status;
    }
    if (num_prompts != 1)
        return status_error(STATUS_INVALID,
                            "exactly one of prompt, messages and input_ids must be given, not %d",
                            num_prompts);
    msg.stream = false;
    msg.want_ids = true;
    *out_msg = msg;
    return status_ok();
}
