/* json_writer.c - the writer of json.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/utf8.h"

void json_writer_deinit(struct json_writer *writer)
{
    free(writer->data);
    *writer = (struct json_writer){0};
}

void json_writer_reset(struct json_writer *writer)
{
    writer->size = 0;
    writer->need_comma = false;
    writer->failed = false;
}

static void put(struct json_writer *writer, const char *data, size_t size)
{
    if (writer->size + size + 1 > writer->capacity) {
        size_t capacity = (writer->size + size + 1) * 2;
        char *bigger = realloc(writer->data, capacity);
        if (!bigger) {
            writer->failed = true;
            return;
        }
        writer->data = bigger;
        writer->capacity = capacity;
    }
    memcpy(writer->data + writer->size, data, size);
    writer->size += size;
    writer->data[writer->size] = '\0';
}

/* Before each value: the comma that the one before it asks for. */
static void separate(struct json_writer *writer)
{
    if (writer->need_comma)
        put(writer, ",", 1);
    writer->need_comma = true;
}

static void put_escaped(struct json_writer *writer, const char *data, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    size_t start = 0, i = 0;

    put(writer, "\"", 1);
    while (i < size) {
        unsigned char c = (unsigned char)data[i];
        char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        size_t escape_size = 6;
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != 0x7F) {
            i++;
            continue;
        }
        if (c >= 0x80) {
            size_t sequence = utf8_sequence_size((const uint8_t *)data + i, size - i);
            if (sequence) {
                i += sequence;
                continue;
            }
            put(writer, data + start, i - start);
            put(writer, "\xEF\xBF\xBD", 3);
            start = ++i;
            continue;
        }
        static const char short_from[] = "\"\\\b\f\n\r\t";
        static const char short_to[] = "\"\\bfnrt";
        const char *p = c ? strchr(short_from, c) : NULL;
        if (p) {
            escape[1] = short_to[p - short_from];
            escape_size = 2;
        }
        put(writer, data + start, i - start);
        put(writer, escape, escape_size);
        start = ++i;
    }
    put(writer, data + start, i - start);
    put(writer, "\"", 1);
}

void json_begin_object(struct json_writer *writer)
{
    separate(writer);
    put(writer, "{", 1);
    writer->need_comma = false;
}

void json_end_object(struct json_writer *writer)
{
    put(writer, "}", 1);
    writer->need_comma = true;
}

void json_begin_array(struct json_writer *writer)
{
    separate(writer);
    put(writer, "[", 1);
    writer->need_comma = false;
}

void json_end_array(struct json_writer *writer)
{
    put(writer, "]", 1);
    writer->need_comma = true;
}

static void put_key(struct json_writer *writer, const char *data, size_t size)
{
    separate(writer);
    put_escaped(writer, data, size);
    put(writer, ":", 1);
    writer->need_comma = false;
}

void json_key(struct json_writer *writer, const char *key)
{
    put_key(writer, key, strlen(key));
}

void json_string(struct json_writer *writer, const char *data, size_t size)
{
    separate(writer);
    put_escaped(writer, data, size);
}

void json_cstring(struct json_writer *writer, const char *text)
{
    json_string(writer, text, strlen(text));
}

void json_int(struct json_writer *writer, int64_t value)
{
    char text[32];

    separate(writer);
    put(writer, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)value));
}

void json_uint(struct json_writer *writer, uint64_t value)
{
    char text[32];

    separate(writer);
    put(writer, text, (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)value));
}

void json_double(struct json_writer *writer, double value)
{
    char text[40];
    int size = 0;

    if (!isfinite(value)) {
        json_null(writer);
        return;
    }
    for (int digits = 6; digits <= 17; digits += digits < 15 ? 9 : 1) {
        size = snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    separate(writer);
    put(writer, text, (size_t)size);
}

void json_bool(struct json_writer *writer, bool value)
{
    separate(writer);
    put(writer, value ? "true" : "false", value ? 4 : 5);
}

void json_null(struct json_writer *writer)
{
    separate(writer);
    put(writer, "null", 4);
}

/* Recursion is bounded: a tree is at most JSON_MAX_DEPTH deep. */
void json_write_value(struct json_writer *writer, const struct json_value *value)
{
    switch (value->type) {
    case JSON_NULL:
        json_null(writer);
        break;
    case JSON_BOOL:
        json_bool(writer, value->boolean);
        break;
    case JSON_NUMBER:
        separate(writer);
        put(writer, value->text.data, value->text.size);
        break;
    case JSON_STRING:
        json_string(writer, value->text.data, value->text.size);
        break;
    case JSON_ARRAY:
        json_begin_array(writer);
        for (size_t i = 0; i < value->num_items; i++)
            json_write_value(writer, &value->items[i]);
        json_end_array(writer);
        break;
    case JSON_OBJECT:
        json_begin_object(writer);
        for (size_t i = 0; i < value->num_items; i++) {
            put_key(writer, value->keys[i].data, value->keys[i].size);
            json_write_value(writer, &value->items[i]);
        }
        json_end_object(writer);
        break;
    }
}

void json_put_cstring(struct json_writer *writer, const char *key, const char *text)
{
    json_key(writer, key);
    json_cstring(writer, text);
}

void json_put_int(struct json_writer *writer, const char *key, int64_t value)
{
    json_key(writer, key);
    json_int(writer, value);
}

void json_put_uint(struct json_writer *writer, const char *key, uint64_t value)
{
    json_key(writer, key);
    json_uint(writer, value);
}

void json_put_double(struct json_writer *writer, const char *key, double value)
{
    json_key(writer, key);
    json_double(writer, value);
}

void json_put_bool(struct json_writer *writer, const char *key, bool value)
{
    json_key(writer, key);
    json_bool(writer, value);
}
