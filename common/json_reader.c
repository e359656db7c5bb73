/* json_reader.c - the pull reader of json.h: the only lexer, which the tree is built with too. */
#include "common/json_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

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
        return json_fail_memory(reader);
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

bool json_read_number(struct json_reader *reader, struct json_value *out)
{
    struct json_value value = {.type = JSON_NUMBER};
    bool integer;

    if (!scan_number(reader, &value.text, &integer) ||
        !text_to_double(reader, value.text, &value.number))
        return false;
    value.is_integer = integer && text_to_int(value.text, &value.integer);
    *out = value;
    return true;
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
