/*
 * json.c - see json.h.
 *
 * There is one lexer, the pull reader. json_parse is a loop over it that keeps its own stack, so
 * nesting never recurses.
 */
#include "common/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

/* ---- reader ---- */

static bool fail(struct json_reader *reader, const char *what)
{
    int line = 1, column = 1;

    if (reader->status.code)
        return false;
    for (const char *p = reader->data; p < reader->at; p++) {
        column++;
        if (*p == '\n') {
            line++;
            column = 1;
        }
    }
    reader->status = status_error(STATUS_FORMAT, "line %d, column %d: %s", line, column, what);
    return false;
}

static bool fail_memory(struct json_reader *reader)
{
    if (!reader->status.code)
        reader->status = status_error(STATUS_NO_MEMORY, "no memory for JSON");
    return false;
}

void json_reader_init(struct json_reader *reader, const char *data, size_t size)
{
    *reader = (struct json_reader){.data = data, .at = data, .end = data + size};
    if (size >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0)
        reader->at += 3;
}

void json_reader_deinit(struct json_reader *reader)
{
    free(reader->scratch);
    reader->scratch = NULL;
}

struct status json_reader_status(const struct json_reader *reader)
{
    return reader->status;
}

/* Files are full of newlines and indentation: these go by eight bytes. */
static inline void skip_space(struct json_reader *reader)
{
    const char *p = reader->at, *end = reader->end;

    if (p < end && (unsigned char)*p > ' ')
        return;
    if (p < end && *p == '\n')
        p++;
    while (end - p >= 8) {
        uint64_t others;
        memcpy(&others, p, sizeof(others));
        others ^= 0x2020202020202020u;
        if (others) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            p += __builtin_ctzll(others) / 8; /* those before the first that is no space */
#endif
            break;
        }
        p += sizeof(others);
    }
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    reader->at = p;
}

/* Moves to the first byte of the next value; false at the end of the text. */
static bool start_value(struct json_reader *reader)
{
    if (reader->status.code)
        return false;
    skip_space(reader);
    if (reader->at == reader->end)
        return fail(reader, "text ends where a value should be");
    return true;
}

enum json_type json_peek(struct json_reader *reader)
{
    if (!start_value(reader))
        return JSON_NULL;
    switch (*reader->at) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
    case 'f':
        return JSON_BOOL;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

static bool enter(struct json_reader *reader, char open, const char *what)
{
    if (!start_value(reader))
        return false;
    if (*reader->at != open)
        return fail(reader, what);
    if (reader->depth == JSON_MAX_DEPTH)
        return fail(reader, "nested too deeply");
    reader->need_comma[reader->depth++] = false;
    reader->at++;
    return true;
}

/* At an item of the innermost container, its comma consumed; false at its end, which is consumed
 * too. */
static bool next(struct json_reader *reader, char close)
{
    if (reader->status.code)
        return false;
    skip_space(reader);
    if (reader->at == reader->end)
        return fail(reader, "text ends inside an array or object");
    bool *need_comma = &reader->need_comma[reader->depth - 1];
    if (*reader->at == close) {
        reader->at++;
        reader->depth--;
        return false;
    }
    if (*need_comma) {
        if (*reader->at != ',')
            return fail(reader, "expected a comma or the end of the array or object");
        reader->at++;
        skip_space(reader);
        if (reader->at < reader->end && *reader->at == close)
            return fail(reader, "comma before the end of the array or object");
    }
    *need_comma = true;
    return true;
}

bool json_enter_object(struct json_reader *reader)
{
    return enter(reader, '{', "expected an object");
}

bool json_enter_array(struct json_reader *reader)
{
    return enter(reader, '[', "expected an array");
}

bool json_next_item(struct json_reader *reader)
{
    return next(reader, ']');
}

bool json_next_key(struct json_reader *reader, struct json_text *out)
{
    if (!next(reader, '}') || !json_read_string(reader, out))
        return false;
    skip_space(reader);
    if (reader->at == reader->end || *reader->at != ':')
        return fail(reader, "expected a colon after the key");
    reader->at++;
    return true;
}

/* ASCII that stands for itself in a string. */
static inline bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* Moves past plain characters of a string, up to a quote or a backslash. */
static bool skip_plain(struct json_reader *reader)
{
    const char *p = reader->at, *end = reader->end;

    for (;;) {
        while (p < end && is_plain(*p))
            p++;
        if (p == end) {
            reader->at = p;
            return fail(reader, "text ends inside a string");
        }
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') {
            reader->at = p;
            return true;
        }
        if (c < 0x20) {
            reader->at = p;
            return fail(reader, "raw control character in a string");
        }
        size_t size = utf8_sequence_size((const uint8_t *)p, (size_t)(end - p));
        if (!size) {
            reader->at = p;
            return fail(reader, "invalid UTF-8 in a string");
        }
        p += size;
    }
}

static bool read_hex4(struct json_reader *reader, uint32_t *out)
{
    uint32_t value = 0;

    if (reader->end - reader->at < 4)
        return fail(reader, "text ends inside an escape");
    for (int i = 0; i < 4; i++) {
        char c = reader->at[i];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A' + 10);
        else
            return fail(reader, "escape \\u needs four hexadecimal digits");
        value = value * 16 + digit;
    }
    reader->at += 4;
    *out = value;
    return true;
}

/* Decodes the escape behind a backslash into out (at most 4 bytes). */
static bool read_escape(struct json_reader *reader, char *out, size_t *out_size)
{
    uint32_t high, low;

    if (reader->at == reader->end)
        return fail(reader, "text ends inside an escape");
    *out_size = 1;
    switch (*reader->at++) {
    case '"':
        *out = '"';
        return true;
    case '\\':
        *out = '\\';
        return true;
    case '/':
        *out = '/';
        return true;
    case 'b':
        *out = '\b';
        return true;
    case 'f':
        *out = '\f';
        return true;
    case 'n':
        *out = '\n';
        return true;
    case 'r':
        *out = '\r';
        return true;
    case 't':
        *out = '\t';
        return true;
    case 'u':
        break;
    default:
        reader->at--;
        return fail(reader, "unknown escape");
    }
    if (!read_hex4(reader, &high))
        return false;
    if (high >= 0xDC00 && high <= 0xDFFF)
        return fail(reader, "lone surrogate");
    if (high >= 0xD800 && high <= 0xDBFF) {
        if (reader->end - reader->at < 2 || reader->at[0] != '\\' || reader->at[1] != 'u')
            return fail(reader, "lone surrogate");
        reader->at += 2;
        if (!read_hex4(reader, &low))
            return false;
        if (low < 0xDC00 || low > 0xDFFF)
            return fail(reader, "lone surrogate");
        high = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    *out_size = utf8_encode(out, high);
    return true;
}

static bool scratch_reserve(struct json_reader *reader, size_t size)
{
    if (size <= reader->scratch_size)
        return true;
    size_t wanted = size < 256 ? 256 : size * 2;
    char *scratch = realloc(reader->scratch, wanted);
    if (!scratch)
        return fail_memory(reader);
    reader->scratch = scratch;
    reader->scratch_size = wanted;
    return true;
}

bool json_read_string(struct json_reader *reader, struct json_text *out)
{
    size_t size = 0;

    if (!start_value(reader))
        return false;
    if (*reader->at != '"')
        return fail(reader, "expected a string");
    const char *start = ++reader->at;
    if (!skip_plain(reader))
        return false;
    if (*reader->at == '"') { /* no escape: borrow */
        *out = (struct json_text){start, (size_t)(reader->at - start)};
        reader->at++;
        return true;
    }
    for (;;) {
        size_t plain = (size_t)(reader->at - start);
        size_t escape_size;
        if (!scratch_reserve(reader, size + plain + 5))
            return false;
        memcpy(reader->scratch + size, start, plain);
        size += plain;
        if (*reader->at++ == '"')
            break;
        if (!read_escape(reader, reader->scratch + size, &escape_size))
            return false;
        size += escape_size;
        start = reader->at;
        if (!skip_plain(reader))
            return false;
    }
    reader->scratch[size] = '\0';
    *out = (struct json_text){reader->scratch, size};
    return true;
}

/* Finds the end of a number that follows the grammar; tells whether it is written as an integer. */
static bool scan_number(struct json_reader *reader, struct json_text *out, bool *out_integer)
{
    if (!start_value(reader))
        return false;
    const char *p = reader->at, *end = reader->end;
    const char *start = p;
    bool integer = true;

    if (p < end && *p == '-')
        p++;
    if (p == end || *p < '0' || *p > '9')
        return fail(reader, "expected a value");
    if (*p == '0') {
        p++;
        if (p < end && *p >= '0' && *p <= '9')
            return fail(reader, "number with a leading zero");
    }
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    if (p < end && *p == '.') {
        integer = false;
        p++;
        if (p == end || *p < '0' || *p > '9')
            return fail(reader, "expected a digit after the decimal point");
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        integer = false;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p == end || *p < '0' || *p > '9')
            return fail(reader, "expected a digit in the exponent");
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    }
    *out = (struct json_text){start, (size_t)(p - start)};
    *out_integer = integer;
    reader->at = p;
    return true;
}

/* False when the digits do not fit into int64. */
static bool text_to_int(struct json_text text, int64_t *out)
{
    bool negative = text.data[0] == '-';
    uint64_t limit = negative ? (uint64_t)1 << 63 : ((uint64_t)1 << 63) - 1;
    uint64_t value = 0;

    for (size_t i = negative; i < text.size; i++) {
        uint64_t digit = (uint64_t)(text.data[i] - '0');
        if (value > (limit - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* strtod needs a NUL, which a borrowed text lacks. */
static bool text_to_double(struct json_reader *reader, struct json_text text, double *out)
{
    if (!scratch_reserve(reader, text.size + 1))
        return false;
    memcpy(reader->scratch, text.data, text.size);
    reader->scratch[text.size] = '\0';
    *out = strtod(reader->scratch, NULL);
    return true;
}

/* A number of a few digits, as nearly all are; false leaves everything to the full reader. */
static bool read_small_int(struct json_reader *reader, int64_t *out)
{
    const char *p = reader->at, *end = reader->end;
    int64_t value = 0;

    while (p < end && *p >= '0' && *p <= '9' && p - reader->at < 16)
        value = value * 10 + (*p++ - '0');
    if (p == reader->at || p == end || (*reader->at == '0' && p - reader->at > 1) ||
        (*p >= '0' && *p <= '9') || *p == '.' || *p == 'e' || *p == 'E')
        return false;
    reader->at = p;
    *out = value;
    return true;
}

bool json_read_int(struct json_reader *reader, int64_t *out)
{
    struct json_text text;
    bool integer;

    if (!start_value(reader))
        return false;
    if (read_small_int(reader, out))
        return true;
    if (!scan_number(reader, &text, &integer))
        return false;
    if (!integer || !text_to_int(text, out))
        return fail(reader, "expected an integer of at most 64 bits");
    return true;
}

bool json_read_double(struct json_reader *reader, double *out)
{
    struct json_text text;
    bool integer;

    return scan_number(reader, &text, &integer) && text_to_double(reader, text, out);
}

static bool read_word(struct json_reader *reader, const char *word)
{
    size_t size = strlen(word);

    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, word, size) != 0)
        return fail(reader, "expected a value");
    reader->at += size;
    return true;
}

bool json_read_bool(struct json_reader *reader, bool *out)
{
    if (!start_value(reader))
        return false;
    if (*reader->at != 't' && *reader->at != 'f')
        return fail(reader, "expected true or false");
    bool value = *reader->at == 't';
    if (!read_word(reader, value ? "true" : "false"))
        return false;
    *out = value;
    return true;
}

bool json_skip(struct json_reader *reader)
{
    char open[JSON_MAX_DEPTH]; /* the kind of each container entered here */
    int base = reader->depth;
    struct json_text text;
    bool flag;

    for (;;) {
        switch (json_peek(reader)) {
        case JSON_OBJECT:
            if (json_enter_object(reader))
                open[reader->depth - 1] = '{';
            break;
        case JSON_ARRAY:
            if (json_enter_array(reader))
                open[reader->depth - 1] = '[';
            break;
        case JSON_STRING:
            json_read_string(reader, &text);
            break;
        case JSON_BOOL:
            json_read_bool(reader, &flag);
            break;
        case JSON_NULL:
            if (!reader->status.code)
                read_word(reader, "null");
            break;
        case JSON_NUMBER:
            scan_number(reader, &text, &flag);
            break;
        }
        while (!reader->status.code && reader->depth > base) {
            bool more = open[reader->depth - 1] == '{' ? json_next_key(reader, &text)
                                                       : json_next_item(reader);
            if (more)
                break;
        }
        if (reader->status.code)
            return false;
        if (reader->depth == base)
            return true;
    }
}

bool json_end(struct json_reader *reader)
{
    if (reader->status.code)
        return false;
    skip_space(reader);
    if (reader->at != reader->end)
        return fail(reader, "text behind the value");
    return true;
}

/* ---- tree ---- */

/* Items of a container under construction, in a list of doubling arrays. */
struct json_frame {
    struct json_value *container;
    size_t capacity;
};

static bool keep_text(struct json_reader *reader, struct arena *arena, struct json_text *text)
{
    char *copy = arena_copy(arena, text->data, text->size);

    if (!copy)
        return fail_memory(reader);
    text->data = copy;
    return true;
}

static bool read_scalar(struct json_reader *reader, struct arena *arena, struct json_value *value)
{
    bool integer;

    switch (value->type) {
    case JSON_STRING:
        return json_read_string(reader, &value->text) && keep_text(reader, arena, &value->text);
    case JSON_BOOL:
        return json_read_bool(reader, &value->boolean);
    case JSON_NULL:
        return !reader->status.code && read_word(reader, "null");
    default:
        if (!scan_number(reader, &value->text, &integer) ||
            !text_to_double(reader, value->text, &value->number))
            return false;
        value->is_integer = integer && text_to_int(value->text, &value->integer);
        return keep_text(reader, arena, &value->text);
    }
}

/* A new item at the end of the frame's container; NULL on an error. */
static struct json_value *add_item(struct json_reader *reader, struct arena *arena,
                                   struct json_frame *frame, struct json_text key)
{
    struct json_value *container = frame->container;
    bool object = container->type == JSON_OBJECT;

    if (container->num_items == frame->capacity) {
        size_t capacity = frame->capacity ? frame->capacity * 2 : 4;
        struct json_value *items = arena_calloc(arena, capacity, sizeof(*items));
        struct json_text *keys = object ? arena_calloc(arena, capacity, sizeof(*keys)) : NULL;
        if (!items || (object && !keys)) {
            fail_memory(reader);
            return NULL;
        }
        if (container->num_items) {
            memcpy(items, container->items, container->num_items * sizeof(*items));
            if (object)
                memcpy(keys, container->keys, container->num_items * sizeof(*keys));
        }
        container->items = items;
        container->keys = keys;
        frame->capacity = capacity;
    }
    if (object) {
        if (!keep_text(reader, arena, &key))
            return NULL;
        container->keys[container->num_items] = key;
    }
    return &container->items[container->num_items++];
}

bool json_read_value(struct json_reader *reader, struct arena *arena, struct json_value **out)
{
    struct json_frame frames[JSON_MAX_DEPTH];
    int depth = 0;
    struct json_text key = {0};
    struct json_value *root = arena_calloc(arena, 1, sizeof(*root));
    struct json_value *value = root;

    if (!root)
        return fail_memory(reader);
    for (;;) {
        value->type = json_peek(reader);
        if (value->type == JSON_OBJECT || value->type == JSON_ARRAY) {
            bool entered =
                value->type == JSON_OBJECT ? json_enter_object(reader) : json_enter_array(reader);
            if (!entered)
                return false;
            frames[depth++] = (struct json_frame){.container = value};
        } else if (!read_scalar(reader, arena, value)) {
            return false;
        }
        while (depth > 0) { /* leave the containers that end here */
            bool more = frames[depth - 1].container->type == JSON_OBJECT
                            ? json_next_key(reader, &key)
                            : json_next_item(reader);
            if (reader->status.code)
                return false;
            if (more)
                break;
            depth--;
        }
        if (depth == 0)
            break;
        value = add_item(reader, arena, &frames[depth - 1], key);
        if (!value)
            return false;
    }
    *out = root;
    return true;
}

struct status json_parse(const char *data, size_t size, struct arena *arena,
                         struct json_value **out)
{
    struct json_reader reader;
    struct json_value *value = NULL;

    json_reader_init(&reader, data, size);
    if (json_read_value(&reader, arena, &value) && json_end(&reader))
        *out = value;
    struct status status = json_reader_status(&reader);
    json_reader_deinit(&reader);
    return status;
}

const struct json_value *json_get(const struct json_value *value, const char *key)
{
    if (!value || value->type != JSON_OBJECT)
        return NULL;
    for (size_t i = value->num_items; i > 0; i--) {
        if (json_text_is(value->keys[i - 1], key))
            return &value->items[i - 1];
    }
    return NULL;
}

bool json_is(const struct json_value *value, const char *text)
{
    return value && value->type == JSON_STRING && json_text_is(value->text, text);
}

bool json_text_is(struct json_text text, const char *expected)
{
    size_t size = strlen(expected);

    return text.size == size && memcmp(text.data, expected, size) == 0;
}

/* ---- writer ---- */

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
