/* transcode.c - see transcode.h. */
#include "tools/msg/transcode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire_reader.h"
#include "proto/wire_writer.h"

/* ---- hexadecimal ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int transcode_unhex(struct json_text text, uint8_t *out, size_t max)
{
    if (text.size % 2 != 0 || text.size / 2 > max)
        return -1;
    for (size_t i = 0; i < text.size; i += 2) {
        int high = hex_digit(text.data[i]), low = hex_digit(text.data[i + 1]);
        if (high < 0 || low < 0)
            return -1;
        out[i / 2] = (uint8_t)(high << 4 | low);
    }
    return (int)(text.size / 2);
}

void transcode_hex(struct json_writer *out, struct bytes bytes)
{
    static const char digits[] = "0123456789abcdef";
    char *text = malloc(2 * bytes.size + 1);

    if (!text) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < bytes.size; i++) {
        text[2 * i] = digits[bytes.data[i] >> 4];
        text[2 * i + 1] = digits[bytes.data[i] & 15];
    }
    json_string(out, text, 2 * bytes.size);
    free(text);
}

/* ---- which keys are special ---- */

static bool is_json_key(struct json_text key)
{
    return json_text_is(key, "messages") || json_text_is(key, "tools") ||
           json_text_is(key, "kwargs") || json_text_is(key, "info");
}

/* ---- JSON to msgpack ---- */

static struct status put_value(struct wire_writer *writer, const struct json_value *value,
                               bool is_request);

static struct bytes bytes_of(struct json_text text)
{
    return (struct bytes){.data = (const uint8_t *)text.data, .size = text.size};
}

/* What is written without fraction and exponent stays an integer as long as 64 bits hold it. */
static void put_number(struct wire_writer *writer, const struct json_value *value)
{
    bool is_whole = value->number > 0 && strspn(value->text.data, "0123456789") >= value->text.size;
    unsigned long long number = 0;

    errno = 0;
    if (!value->is_integer && is_whole)
        number = strtoull(value->text.data, NULL, 10);
    if (value->is_integer)
        wire_put_int(writer, value->integer);
    else if (is_whole && errno == 0)
        wire_put_uint(writer, number);
    else
        msgpack_pack_double(&writer->packer, value->number);
}

static struct status put_hex(struct wire_writer *writer, struct json_text key,
                             struct json_text text)
{
    uint8_t *data = malloc(text.size / 2 + 1);
    int size = data ? transcode_unhex(text, data, text.size / 2) : -1;
    struct status status = status_ok();

    if (size < 0)
        status = status_error(STATUS_INVALID, "%.*s must be hexadecimal", (int)key.size, key.data);
    else
        wire_put_bin(writer, (struct bytes){.data = data, .size = (size_t)size});
    free(data);
    return status;
}

static struct status put_packed_ids(struct wire_writer *writer, const struct json_value *ids)
{
    struct status status = status_ok();
    int32_t *numbers = malloc((ids->num_items + 1) * sizeof(*numbers));

    if (!numbers)
        return status_error(STATUS_NO_MEMORY, "no memory for ids");
    for (size_t i = 0; i < ids->num_items; i++) {
        const struct json_value *item = &ids->items[i];
        if (!item->is_integer || item->integer < INT32_MIN || item->integer > INT32_MAX) {
            status = status_error(STATUS_INVALID, "input_ids[%zu] is no int32", i);
            break;
        }
        numbers[i] = (int32_t)item->integer;
    }
    if (status.code == STATUS_OK)
        wire_put_packed_ids(writer, numbers, ids->num_items);
    free(numbers);
    return status;
}

/* An object as the msgpack bytes of a map, in a bin. */
static struct status put_nested(struct wire_writer *writer, const struct json_value *value)
{
    struct frame_buffer inner = {0};
    struct wire_writer inner_writer;

    wire_writer_init(&inner_writer, &inner);
    struct status status = put_value(&inner_writer, value, false);
    if (status.code == STATUS_OK)
        wire_put_bin(writer, (struct bytes){.data = inner.data, .size = inner.size});
    frame_buffer_deinit(&inner);
    return status;
}

static struct status put_json_text(struct wire_writer *writer, const struct json_value *value)
{
    struct json_writer text = {0};

    json_write_value(&text, value);
    if (!text.failed)
        wire_put_str(writer, (struct bytes){.data = (const uint8_t *)text.data, .size = text.size});
    struct status status =
        text.failed ? status_error(STATUS_NO_MEMORY, "no memory for JSON text") : status_ok();
    json_writer_deinit(&text);
    return status;
}

static struct status put_pair(struct wire_writer *writer, struct json_text key,
                              const struct json_value *value, bool is_request)
{
    wire_put_str(writer, bytes_of(key));
    if (json_text_is(key, "client") && value->type == JSON_STRING)
        return put_hex(writer, key, value->text);
    if (json_text_is(key, "reply_to")) {
        if (value->type == JSON_STRING)
            return put_hex(writer, key, value->text);
        if (value->type == JSON_OBJECT)
            return put_nested(writer, value);
    }
    if (is_request && json_text_is(key, "input_ids") && value->type == JSON_ARRAY)
        return put_packed_ids(writer, value);
    if (is_json_key(key) && (value->type == JSON_ARRAY || value->type == JSON_OBJECT))
        return put_json_text(writer, value);
    return put_value(writer, value, is_request);
}

static struct status put_value(struct wire_writer *writer, const struct json_value *value,
                               bool is_request)
{
    struct status status = status_ok();

    switch (value->type) {
    case JSON_NULL:
        wire_put_nil(writer);
        break;
    case JSON_BOOL:
        wire_put_bool(writer, value->boolean);
        break;
    case JSON_NUMBER:
        put_number(writer, value);
        break;
    case JSON_STRING:
        wire_put_str(writer, bytes_of(value->text));
        break;
    case JSON_ARRAY:
        wire_put_array(writer, value->num_items);
        for (size_t i = 0; i < value->num_items && status.code == STATUS_OK; i++)
            status = put_value(writer, &value->items[i], is_request);
        break;
    case JSON_OBJECT:
        wire_put_map(writer, value->num_items);
        for (size_t i = 0; i < value->num_items && status.code == STATUS_OK; i++)
            status = put_pair(writer, value->keys[i], &value->items[i], is_request);
        break;
    }
    return status;
}

static struct status put_raw(struct json_text hex, struct frame_buffer *out)
{
    struct wire_writer writer;

    /* A bin's own head must not be there: reserve by writing one, then overwrite it. */
    wire_writer_init(&writer, out);
    wire_put_bin(&writer, bytes_of(hex));
    if (writer.failed)
        return status_error(STATUS_NO_MEMORY, "no memory for raw bytes");
    int size = transcode_unhex(hex, out->data, out->capacity);
    if (size < 0)
        return status_error(STATUS_INVALID, "$raw must be hexadecimal");
    out->size = (size_t)size;
    return status_ok();
}

/* A peer is for the router, and a version of null stands for none. */
static bool is_sent(const struct json_value *line, size_t i)
{
    bool is_version = json_text_is(line->keys[i], "v");

    return !json_text_is(line->keys[i], "peer") &&
           !(is_version && line->items[i].type == JSON_NULL);
}

struct status transcode_from_json(const struct json_value *line, struct frame_buffer *out)
{
    const struct json_value *raw = json_get(line, "$raw");
    bool has_version = json_get(line, "v") != NULL;
    bool is_request = json_is(json_get(line, "type"), "request");
    struct status status = status_ok();
    struct wire_writer writer;
    size_t num_pairs = has_version ? 0 : 1;

    if (line->type != JSON_OBJECT)
        return status_error(STATUS_INVALID, "a line must be a JSON object");
    if (raw && raw->type == JSON_STRING)
        return put_raw(raw->text, out);
    for (size_t i = 0; i < line->num_items; i++)
        num_pairs += is_sent(line, i);
    wire_writer_init(&writer, out);
    wire_put_map(&writer, num_pairs);
    for (size_t i = 0; i < line->num_items && status.code == STATUS_OK; i++) {
        if (is_sent(line, i))
            status = put_pair(&writer, line->keys[i], &line->items[i], is_request);
    }
    if (!has_version) {
        wire_put_key(&writer, "v");
        wire_put_int(&writer, PROTOCOL_VERSION);
    }
    if (status.code == STATUS_OK && writer.failed)
        status = status_error(STATUS_NO_MEMORY, "no memory for a frame");
    return status;
}

/* ---- msgpack to JSON ---- */

static bool write_rest(struct wire_reader *reader, const struct wire_value *value,
                       struct json_text key, struct json_writer *out, int depth);

static bool write_next(struct wire_reader *reader, struct json_text key, struct json_writer *out,
                       int depth)
{
    struct wire_value value;

    return wire_next(reader, &value) && write_rest(reader, &value, key, out, depth);
}

static bool write_pairs(struct wire_reader *reader, uint32_t num_pairs, struct json_writer *out,
                        int depth)
{
    for (uint32_t i = 0; i < num_pairs; i++) {
        struct wire_value key;
        char name[256];

        if (!wire_next(reader, &key) || key.type != WIRE_STR || key.bytes.size >= sizeof(name) ||
            memchr(key.bytes.data, 0, key.bytes.size))
            return false;
        memcpy(name, key.bytes.data, key.bytes.size);
        name[key.bytes.size] = '\0';
        json_key(out, name);
        if (!write_next(reader, (struct json_text){.data = name, .size = key.bytes.size}, out,
                        depth))
            return false;
    }
    return true;
}

static void write_ids(struct bytes bytes, struct json_writer *out)
{
    json_begin_array(out);
    for (size_t at = 0; at + 4 <= bytes.size; at += 4) {
        const uint8_t *word = bytes.data + at;
        uint32_t id = (uint32_t)word[0] | (uint32_t)word[1] << 8 | (uint32_t)word[2] << 16 |
                      (uint32_t)word[3] << 24;
        json_int(out, (int32_t)id);
    }
    json_end_array(out);
}

/* reply_to as the map that it is, or in hexadecimal when it is none. */
static void write_nested(struct bytes bytes, struct json_writer *out, int depth)
{
    struct wire_reader reader = wire_reader_of(bytes.data, bytes.size);
    struct wire_value head;
    size_t start = out->size;
    bool need_comma = out->need_comma;

    if (wire_next(&reader, &head) && head.type == WIRE_MAP &&
        write_rest(&reader, &head, (struct json_text){0}, out, depth + 1) &&
        reader.at == reader.end)
        return;
    out->size = start;
    out->need_comma = need_comma;
    transcode_hex(out, bytes);
}

static void write_json_text(struct bytes text, struct json_writer *out)
{
    struct arena arena;
    struct json_value *value = NULL;

    arena_init(&arena, 0, 0);
    if (json_parse((const char *)text.data, text.size, &arena, &value).code == STATUS_OK)
        json_write_value(out, value);
    else
        json_string(out, (const char *)text.data, text.size);
    arena_deinit(&arena);
}

static bool write_rest(struct wire_reader *reader, const struct wire_value *value,
                       struct json_text key, struct json_writer *out, int depth)
{
    bool is_whole = true;

    if (depth > WIRE_MAX_DEPTH)
        return false;
    switch (value->type) {
    case WIRE_NIL:
        json_null(out);
        break;
    case WIRE_BOOL:
        json_bool(out, value->boolean);
        break;
    case WIRE_INT:
        json_int(out, value->integer);
        break;
    case WIRE_UINT:
        json_uint(out, value->uinteger);
        break;
    case WIRE_FLOAT:
        json_double(out, value->number);
        break;
    case WIRE_STR:
        if (is_json_key(key))
            write_json_text(value->bytes, out);
        else
            json_string(out, (const char *)value->bytes.data, value->bytes.size);
        break;
    case WIRE_BIN:
        if (json_text_is(key, "reply_to"))
            write_nested(value->bytes, out, depth);
        else if (json_text_is(key, "input_ids") || json_text_is(key, "ids"))
            write_ids(value->bytes, out);
        else
            transcode_hex(out, value->bytes);
        break;
    case WIRE_EXT:
        transcode_hex(out, value->bytes);
        break;
    case WIRE_ARRAY:
        json_begin_array(out);
        for (uint32_t i = 0; i < value->count && is_whole; i++)
            is_whole = write_next(reader, (struct json_text){0}, out, depth + 1);
        json_end_array(out);
        break;
    case WIRE_MAP:
        json_begin_object(out);
        is_whole = write_pairs(reader, value->count, out, depth + 1);
        json_end_object(out);
        break;
    }
    return is_whole;
}

struct status transcode_to_json(struct bytes frame, struct json_writer *out)
{
    struct wire_reader reader = wire_reader_of(frame.data, frame.size);
    struct wire_value head;
    size_t start = out->size;
    bool need_comma = out->need_comma;

    if (wire_next(&reader, &head) && head.type == WIRE_MAP &&
        write_pairs(&reader, head.count, out, 1) && reader.at == reader.end)
        return status_ok();
    out->size = start;
    out->need_comma = need_comma;
    return status_error(STATUS_FORMAT, "a frame of %zu bytes is no map", frame.size);
}
