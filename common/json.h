/*
 * json.h - strict JSON (RFC 8259), read two ways and written one.
 *
 * json_reader pulls values one after the other out of a buffer without building anything: for files
 * of many megabytes. json_parse builds a tree in an arena: for configs, templates' data, lines of a
 * file. Both refuse invalid UTF-8, lone surrogates, raw control characters, leading zeros, trailing
 * text, and nesting beyond JSON_MAX_DEPTH; a leading byte order mark is skipped. Strings may hold
 * NUL.
 *
 * Why not a library: what a tokenizer.json of 11 MB, exact integers of any size and NUL in strings
 * need together is not to be had from one.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/arena.h"
#include "common/status.h"

enum { JSON_MAX_DEPTH = 256 };

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* Bytes with their count. For strings: UTF-8, escapes resolved, a NUL behind them. */
struct json_text {
    const char *data;
    size_t size;
};

struct json_value {
    enum json_type type;
    bool boolean;
    bool is_integer;       /* JSON_NUMBER written without fraction and exponent, and within int64 */
    int64_t integer;       /* when is_integer */
    double number;         /* JSON_NUMBER: the nearest double; infinite when out of range */
    struct json_text text; /* JSON_STRING: its bytes; JSON_NUMBER: as written */
    size_t num_items;      /* JSON_ARRAY, JSON_OBJECT */
    struct json_value *items; /* [num_items], in the order of the text; borrowed from the arena */
    struct json_text *keys;   /* [num_items], JSON_OBJECT only; a key may stand twice */
};

/* Parses exactly one value. Errors: "line 3, column 7: ..." (STATUS_FORMAT) or STATUS_NO_MEMORY. */
MUST_CHECK struct status json_parse(const char *data, size_t size, struct arena *arena,
                                    struct json_value **out);

/* The same of "dir/name", a file of at most max_size bytes; errors name it. STATUS_NOT_FOUND: there
 * is none. */
MUST_CHECK struct status json_parse_file(const char *dir, const char *name, size_t max_size,
                                         struct arena *arena, struct json_value **out);

/* The last value of that key, as Python's json and most readers take it; NULL when absent or value
 * is no object. value may be NULL. */
const struct json_value *json_get(const struct json_value *value, const char *key);

/* Whether a string value (or text) equals a C string. value may be NULL. */
bool json_is(const struct json_value *value, const char *text);
bool json_text_is(struct json_text text, const char *expected);

/*
 * Pull reader. The order of calls follows the text:
 *
 *   json_reader_init(&r, data, size);
 *   if (json_enter_object(&r))
 *       while (json_next_key(&r, &key))       // false at the end of the object, or on an error
 *           if (json_text_is(key, "vocab")) ... else json_skip(&r);
 *   json_end(&r)                              // only white space may follow
 *   status = json_reader_status(&r)
 *
 * After the first error every call returns false, so checks may be left to the end. Each value must
 * be consumed by exactly one call. Strings without escapes are borrowed from the buffer and have no
 * NUL behind them; those with escapes lie in the reader's scratch until the next call.
 */
struct json_reader {
    const char *data, *at, *end;
    char *scratch; /* owned */
    size_t scratch_size;
    int depth;
    bool need_comma[JSON_MAX_DEPTH]; /* per level: an item has been read */
    struct status status;
};

void json_reader_init(struct json_reader *reader, const char *data, size_t size);
void json_reader_deinit(struct json_reader *reader);
struct status json_reader_status(const struct json_reader *reader);

enum json_type json_peek(struct json_reader *reader); /* of the next value; JSON_NULL on an error */
bool json_enter_object(struct json_reader *reader);
bool json_next_key(struct json_reader *reader, struct json_text *out);
bool json_enter_array(struct json_reader *reader);
bool json_next_item(struct json_reader *reader); /* false at the end of the array, or on an error */
bool json_read_string(struct json_reader *reader, struct json_text *out);
bool json_read_int(struct json_reader *reader, int64_t *out);
/* Any number; out->text is the number as written, borrowed from the buffer. */
bool json_read_number(struct json_reader *reader, struct json_value *out);
bool json_read_bool(struct json_reader *reader, bool *out);
bool json_skip(struct json_reader *reader);
bool json_end(struct json_reader *reader);
/* The next value as a tree in the arena. */
bool json_read_value(struct json_reader *reader, struct arena *arena, struct json_value **out);

/*
 * Writer: builds text in a growing buffer. Commas and colons are its business. ASCII control
 * characters, quotes and backslashes are escaped; everything else is written as UTF-8, invalid
 * bytes as U+FFFD.
 */
struct json_writer {
    char *data; /* owned, NUL behind size */
    size_t size, capacity;
    bool need_comma;
    bool failed; /* out of memory: data is then incomplete */
};

void json_writer_deinit(struct json_writer *writer);
void json_writer_reset(struct json_writer *writer);
void json_begin_object(struct json_writer *writer);
void json_end_object(struct json_writer *writer);
void json_begin_array(struct json_writer *writer);
void json_end_array(struct json_writer *writer);
void json_key(struct json_writer *writer, const char *key);
void json_string(struct json_writer *writer, const char *data, size_t size);
void json_cstring(struct json_writer *writer, const char *text);
void json_int(struct json_writer *writer, int64_t value);
void json_uint(struct json_writer *writer, uint64_t value);
void json_double(struct json_writer *writer,
                 double value); /* shortest that reads back; null if not finite */
void json_bool(struct json_writer *writer, bool value);
void json_null(struct json_writer *writer);
void json_write_value(struct json_writer *writer, const struct json_value *value);

/* A key and its value. */
void json_put_cstring(struct json_writer *writer, const char *key, const char *text);
void json_put_int(struct json_writer *writer, const char *key, int64_t value);
void json_put_uint(struct json_writer *writer, const char *key, uint64_t value);
void json_put_double(struct json_writer *writer, const char *key, double value);
void json_put_bool(struct json_writer *writer, const char *key, bool value);

#endif
