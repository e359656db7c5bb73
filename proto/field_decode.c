/*
 * field_decode.c - the reading half of fields.h: one value per key, checked, or a sentence that
 * says what the key takes and what came instead.
 */
#include <assert.h>
#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "proto/fields.h"

/* As short as it can be told from its neighbours, and from an integer. */
static void describe_float(double number, char *out, size_t out_size)
{
    int size = 0;

    for (int digits = 6; digits <= 17; digits++) {
        size = snprintf(out, out_size, "%.*g", digits, number);
        if (strtod(out, NULL) == number)
            break;
    }
    if (!strpbrk(out, ".en") && size > 0 && (size_t)size + 3 <= out_size)
        strcpy(out + size, ".0");
}

/* What came, in a few words. */
static const char *describe(const struct wire_value *value, char *out, size_t out_size)
{
    static const char *const kinds[] = {
        [WIRE_NIL] = "nil",        [WIRE_STR] = "a string", [WIRE_BIN] = "bytes",
        [WIRE_ARRAY] = "an array", [WIRE_MAP] = "a map",    [WIRE_EXT] = "an extension",
    };

    if (value->type == WIRE_INT)
        snprintf(out, out_size, "%lld", (long long)value->integer);
    else if (value->type == WIRE_UINT)
        snprintf(out, out_size, "%llu", (unsigned long long)value->uinteger);
    else if (value->type == WIRE_FLOAT)
        describe_float(value->number, out, out_size);
    else if (value->type == WIRE_BOOL)
        snprintf(out, out_size, "%s", value->boolean ? "true" : "false");
    else
        snprintf(out, out_size, "%s", kinds[value->type]);
    return out;
}

static struct status refuse(const struct field *field, const struct wire_value *value,
                            const char *what)
{
    char got[32];

    return status_error(STATUS_INVALID, "%s must be %s, not %s", field->key, what,
                        describe(value, got, sizeof(got)));
}

static struct status no_memory(const struct field *field)
{
    return status_error(STATUS_NO_MEMORY, "no memory for %s", field->key);
}

static struct status cut(const struct field *field)
{
    return status_error(STATUS_INVALID, "the frame is cut or malformed in %s", field->key);
}

static struct status size_error(const struct field *field, size_t size)
{
    if ((double)size < field->min)
        return status_error(STATUS_INVALID, "%s must not be empty", field->key);
    return status_error(STATUS_INVALID, "%s must have at most %.0f bytes, not %zu", field->key,
                        field->max, size);
}

static struct status decode_bytes(const struct field *field, const struct wire_value *value,
                                  void *at)
{
    bool is_text = field->kind == FIELD_TEXT;

    if (value->type != WIRE_STR && (is_text || value->type != WIRE_BIN))
        return refuse(field, value, is_text ? "a string" : "bytes");
    if (!field_allows_size(field, value->bytes.size))
        return size_error(field, value->bytes.size);
    if (is_text && !utf8_is_valid(value->bytes.data, value->bytes.size))
        return status_error(STATUS_INVALID, "%s is not valid UTF-8", field->key);
    *(struct bytes *)at = value->bytes;
    return status_ok();
}

static struct status decode_int32(const struct field *field, const struct wire_value *value,
                                  void *at)
{
    bool bounded = field->min < field->max;
    double min = bounded ? field->min : INT32_MIN;
    double max = bounded ? field->max : INT32_MAX;
    char what[64];

    if (value->type == WIRE_INT && (double)value->integer >= min && (double)value->integer <= max) {
        *(int32_t *)at = (int32_t)value->integer;
        return status_ok();
    }
    snprintf(what, sizeof(what), "an integer from %.0f to %.0f", min, max);
    return refuse(field, value, what);
}

static struct status decode_int64(const struct field *field, const struct wire_value *value,
                                  void *at)
{
    if (field->kind == FIELD_INT64) {
        if (value->type != WIRE_INT)
            return refuse(field, value, "an integer of 64 bits");
        *(int64_t *)at = value->integer;
        return status_ok();
    }
    if (value->type != WIRE_UINT && (value->type != WIRE_INT || value->integer < 0))
        return refuse(field, value, "an integer from 0 to 2^64 - 1");
    if (value->uinteger == 0 && field->min > 0)
        return refuse(field, value, "an integer above 0");
    *(uint64_t *)at = value->uinteger;
    return status_ok();
}

static struct status decode_float(const struct field *field, const struct wire_value *value,
                                  void *at)
{
    double number = value->type == WIRE_FLOAT  ? value->number
                    : value->type == WIRE_INT  ? (double)value->integer
                    : value->type == WIRE_UINT ? (double)value->uinteger
                                               : (double)NAN;
    char what[64];

    if (number >= field->min && number <= field->max) { /* false for a NaN */
        *(float *)at = (float)number;
        return status_ok();
    }
    snprintf(what, sizeof(what), "a number from %g to %g", field->min, field->max);
    return refuse(field, value, what);
}

static struct status decode_client(const struct field *field, const struct wire_value *value,
                                   void *at)
{
    if (value->type != WIRE_BIN || value->bytes.size != sizeof(struct client_id) ||
        value->bytes.data[0] == 0)
        return refuse(field, value, "16 bytes, the first not zero");
    memcpy(at, value->bytes.data, sizeof(struct client_id));
    return status_ok();
}

static void set_count(const struct field *field, void *body, size_t count)
{
    void *at = (char *)body + field->count;

    if (field->count_size == sizeof(int32_t))
        *(int32_t *)at = (int32_t)count;
    else
        *(size_t *)at = count;
}

static struct status unpack_ids(const struct field *field, const struct wire_value *value,
                                int32_t *ids, size_t num_ids)
{
    for (size_t i = 0; i < num_ids; i++) {
        uint32_t word;

        memcpy(&word, value->bytes.data + i * sizeof(word), sizeof(word));
        ids[i] = (int32_t)le32toh(word);
        if (ids[i] < 0)
            return status_error(STATUS_INVALID, "%s[%zu] must be an integer from 0 to 2147483647",
                                field->key, i);
    }
    return status_ok();
}

static struct status read_ids(const struct field *field, struct wire_reader *reader, int32_t *ids,
                              size_t num_ids)
{
    struct wire_value item;

    for (size_t i = 0; i < num_ids; i++) {
        if (!wire_next(reader, &item))
            return cut(field);
        if (item.type != WIRE_INT || item.integer < 0 || item.integer > INT32_MAX)
            return status_error(STATUS_INVALID, "%s[%zu] must be an integer from 0 to 2147483647",
                                field->key, i);
        ids[i] = (int32_t)item.integer;
    }
    return status_ok();
}

static struct status decode_ids(const struct field *field, struct wire_reader *reader,
                                const struct wire_value *value, struct arena *arena, void *body)
{
    bool is_packed = value->type == WIRE_BIN;
    size_t num_ids = is_packed ? value->bytes.size / sizeof(int32_t) : value->count;
    struct status status;

    if ((!is_packed && value->type != WIRE_ARRAY) ||
        (is_packed && value->bytes.size % sizeof(int32_t) != 0))
        return refuse(field, value, "an array of token ids");
    if (num_ids > INT32_MAX || (field->max_items && num_ids > (size_t)field->max_items))
        return status_error(STATUS_INVALID, "%s must have at most %d items, not %zu", field->key,
                            field->max_items, num_ids);
    int32_t *ids = arena_alloc(arena, num_ids * sizeof(*ids));
    if (!ids)
        return no_memory(field);
    status =
        is_packed ? unpack_ids(field, value, ids, num_ids) : read_ids(field, reader, ids, num_ids);
    if (status.code)
        return status;
    *(const int32_t **)(void *)((char *)body + field->offset) = ids;
    set_count(field, body, num_ids);
    return status_ok();
}

static struct status decode_texts(const struct field *field, struct wire_reader *reader,
                                  const struct wire_value *value, struct arena *arena, void *body)
{
    bool is_one = value->type == WIRE_STR;
    size_t count = is_one ? 1 : value->count;
    struct wire_value item = *value;

    if (!is_one && value->type != WIRE_ARRAY)
        return refuse(field, value, "a string or an array of strings");
    if (count > (size_t)field->max_items)
        return status_error(STATUS_INVALID, "%s must have at most %d items, not %zu", field->key,
                            field->max_items, count);
    struct bytes *texts = arena_alloc(arena, count * sizeof(*texts));
    if (!texts)
        return no_memory(field);
    for (size_t i = 0; i < count; i++) {
        if (!is_one && !wire_next(reader, &item))
            return cut(field);
        if (item.type != WIRE_STR || !utf8_is_valid(item.bytes.data, item.bytes.size))
            return status_error(STATUS_INVALID, "%s[%zu] must be a string of valid UTF-8",
                                field->key, i);
        if (!field_allows_size(field, item.bytes.size))
            return size_error(field, item.bytes.size);
        texts[i] = item.bytes;
    }
    *(const struct bytes **)(void *)((char *)body + field->offset) = texts;
    set_count(field, body, count);
    return status_ok();
}

static struct status decode_name(const struct field *field, const struct wire_value *value,
                                 void *at)
{
    const char *text = (const char *)value->bytes.data;
    bool is_finish = field->kind == FIELD_FINISH;

    if (value->type == WIRE_STR && (is_finish ? finish_reason_parse(text, value->bytes.size, at)
                                              : error_code_parse(text, value->bytes.size, at)))
        return status_ok();
    return refuse(field, value, is_finish ? "a finish reason" : "an error code");
}

/* What nothing is done about may be sent as long as it asks for nothing: nil, the value that means
 * "off", nothing in a list. */
static struct status decode_unsupported(const struct field *field, struct wire_reader *reader,
                                        const struct wire_value *value)
{
    double off = field->fallback;
    bool is_number = value->type == WIRE_INT || value->type == WIRE_FLOAT;
    double number = value->type == WIRE_INT ? (double)value->integer : value->number;

    if ((is_number && number >= off && number <= off) ||
        (value->type == WIRE_BOOL && !value->boolean) ||
        ((value->type == WIRE_ARRAY || value->type == WIRE_MAP) && value->count == 0))
        return wire_skip_rest(reader, value) ? status_ok() : cut(field);
    return status_error(STATUS_INVALID, "%s is not supported", field->key);
}

static struct status decode_value(const struct field *field, struct wire_reader *reader,
                                  const struct wire_value *value, struct arena *arena, void *body)
{
    void *at = (char *)body + field->offset;

    switch (field->kind) {
    case FIELD_TEXT:
    case FIELD_BYTES:
        return decode_bytes(field, value, at);
    case FIELD_UINT64:
    case FIELD_INT64:
        return decode_int64(field, value, at);
    case FIELD_INT32:
        return decode_int32(field, value, at);
    case FIELD_FLOAT:
        return decode_float(field, value, at);
    case FIELD_BOOL:
        if (value->type != WIRE_BOOL)
            return refuse(field, value, "true or false");
        *(bool *)at = value->boolean;
        return status_ok();
    case FIELD_TRISTATE:
        if (value->type != WIRE_BOOL)
            return refuse(field, value, "true or false");
        *(enum tristate *)at = value->boolean ? YES : NO;
        return status_ok();
    case FIELD_CLIENT:
        return decode_client(field, value, at);
    case FIELD_IDS:
    case FIELD_PACKED_IDS:
        return decode_ids(field, reader, value, arena, body);
    case FIELD_TEXTS:
        return decode_texts(field, reader, value, arena, body);
    case FIELD_ERROR_CODE:
    case FIELD_FINISH:
        return decode_name(field, value, at);
    case FIELD_UNSUPPORTED:
        return decode_unsupported(field, reader, value);
    case FIELD_CUSTOM:
        break; /* reads its own head */
    }
    return field->decode(reader, arena, body);
}

/* The index of the key, tried first where the last one's successor is: senders keep the order. */
static size_t find_field(const struct field_table *table, struct bytes key, size_t guess)
{
    for (size_t n = 0; n < table->num_fields; n++) {
        size_t i = guess + n < table->num_fields ? guess + n : guess + n - table->num_fields;
        const char *name = table->fields[i].key;

        if (name[0] == (char)key.data[0] && strlen(name) == key.size &&
            memcmp(name, key.data, key.size) == 0)
            return i;
    }
    return table->num_fields;
}

static struct status decode_pair(const struct field *field, struct wire_reader *reader,
                                 struct arena *arena, void *body, bool *out_given)
{
    const uint8_t *start = reader->at;
    struct wire_value value = {0};
    struct status status;

    if (!wire_next(reader, &value))
        return cut(field);
    *out_given = value.type != WIRE_NIL;
    if (!*out_given)
        return status_ok();
    if (field->kind == FIELD_CUSTOM)
        reader->at = start;
    status = decode_value(field, reader, &value, arena, body);
    if (status.code == STATUS_OK && field->has)
        *(bool *)((char *)body + field->has - 1) = true;
    return status;
}

struct status fields_decode(const struct field_table *table, struct wire_reader *reader,
                            uint32_t num_pairs, struct arena *arena, void *body, uint64_t *out_seen,
                            const char **out_field)
{
    struct status status;
    uint64_t seen = 0;
    size_t guess = 0;

    assert(table->num_fields <= MAX_FIELDS); /* a bit each in seen */
    *out_field = "";
    for (uint32_t pair = 0; pair < num_pairs; pair++) {
        struct wire_value key;
        bool is_given = false;

        if (!wire_next(reader, &key))
            return status_error(STATUS_INVALID, "the frame is cut or malformed");
        if (key.type != WIRE_STR)
            return status_error(STATUS_INVALID, "a key must be a string");
        size_t i = key.bytes.size ? find_field(table, key.bytes, guess) : table->num_fields;
        if (i == table->num_fields) {
            struct wire_value value;

            if (!wire_next(reader, &value) || !wire_skip_rest(reader, &value))
                return status_error(STATUS_INVALID, "the frame is cut, malformed or too deep");
            continue;
        }
        *out_field = table->fields[i].key;
        status = decode_pair(&table->fields[i], reader, arena, body, &is_given);
        if (status.code)
            return status;
        if (is_given)
            seen |= UINT64_C(1) << i;
        guess = i + 1 < table->num_fields ? i + 1 : 0;
    }
    for (size_t i = 0; i < table->num_fields; i++) {
        *out_field = table->fields[i].key;
        if (table->fields[i].required && !(seen >> i & 1))
            return status_error(STATUS_INVALID, "%s is missing", *out_field);
    }
    *out_field = "";
    *out_seen = seen;
    return status_ok();
}
