/* fields.c - tables of keys: defaults, what is present, encoding. Decoding: field_decode.c. */
#include "proto/fields.h"

#include <string.h>

static const void *place(const void *body, size_t offset)
{
    return (const char *)body + offset;
}

static const struct bytes *bytes_at(const void *body, const struct field *field)
{
    return place(body, field->offset);
}

static int32_t int32_at(const void *body, const struct field *field)
{
    return *(const int32_t *)place(body, field->offset);
}

static size_t count_at(const void *body, const struct field *field)
{
    if (field->count_size == sizeof(int32_t)) {
        int32_t count = *(const int32_t *)place(body, field->count);
        return count > 0 ? (size_t)count : 0;
    }
    return *(const size_t *)place(body, field->count);
}

/* What pointer fields point at; typed by their kind. */
static const int32_t *ids_at(const void *body, const struct field *field)
{
    return *(const int32_t *const *)place(body, field->offset);
}

static const struct bytes *texts_at(const void *body, const struct field *field)
{
    return *(const struct bytes *const *)place(body, field->offset);
}

uint64_t field_bit(const struct field_table *table, const char *key)
{
    for (size_t i = 0; i < table->num_fields; i++) {
        if (strcmp(table->fields[i].key, key) == 0)
            return UINT64_C(1) << i;
    }
    return 0;
}

void fields_set_fallbacks(const struct field_table *table, void *body)
{
    for (size_t i = 0; i < table->num_fields; i++) {
        const struct field *field = &table->fields[i];
        void *at = (char *)body + field->offset;

        if (field->fallback < 0 || field->fallback > 0) {
            if (field->kind == FIELD_FLOAT)
                *(float *)at = (float)field->fallback;
            else if (field->kind == FIELD_INT32)
                *(int32_t *)at = (int32_t)field->fallback;
            else if (field->kind == FIELD_BOOL)
                *(bool *)at = true;
            else if (field->kind == FIELD_TRISTATE)
                *(enum tristate *)at = UNSET;
        }
    }
}

/* Whether the value differs from what stands there when it is not given. */
static bool is_given(const struct field *field, const void *body)
{
    const void *at = place(body, field->offset);
    float number;

    if (field->has)
        return *(const bool *)place(body, field->has - 1);
    switch (field->kind) {
    case FIELD_TEXT:
    case FIELD_BYTES:
        return bytes_at(body, field)->size > 0;
    case FIELD_UINT64:
        return *(const uint64_t *)at != 0;
    case FIELD_INT64:
        return *(const int64_t *)at != 0;
    case FIELD_INT32:
        return int32_at(body, field) != (int32_t)field->fallback;
    case FIELD_FLOAT:
        number = *(const float *)at;
        return number < (float)field->fallback || number > (float)field->fallback;
    case FIELD_BOOL:
        return *(const bool *)at != (field->fallback > 0);
    case FIELD_TRISTATE:
        return *(const enum tristate *)at != UNSET;
    case FIELD_IDS:
    case FIELD_PACKED_IDS:
    case FIELD_TEXTS:
        return count_at(body, field) > 0;
    case FIELD_ERROR_CODE:
        return *(const enum error_code *)at != ERROR_NONE;
    case FIELD_FINISH:
        return *(const enum finish_reason *)at != FINISH_NONE;
    case FIELD_CLIENT:
    case FIELD_CUSTOM:
        return true;
    case FIELD_UNSUPPORTED:
        break;
    }
    return false;
}

uint64_t fields_present(const struct field_table *table, const void *body)
{
    uint64_t set = 0;

    for (size_t i = 0; i < table->num_fields; i++) {
        const struct field *field = &table->fields[i];
        if (field->required || is_given(field, body))
            set |= UINT64_C(1) << i;
    }
    return set;
}

static bool is_encodable(const struct field *field, const void *body)
{
    size_t count;

    switch (field->kind) {
    case FIELD_TEXT:
    case FIELD_BYTES:
        return field_allows_size(field, bytes_at(body, field)->size);
    case FIELD_IDS:
    case FIELD_PACKED_IDS:
        count = count_at(body, field);
        return field->max_items == 0 || count <= (size_t)field->max_items;
    case FIELD_TEXTS:
        count = count_at(body, field);
        if (field->max_items && count > (size_t)field->max_items)
            return false;
        for (size_t i = 0; i < count; i++) {
            if (!field_allows_size(field, texts_at(body, field)[i].size))
                return false;
        }
        return true;
    default:
        return true;
    }
}

struct status fields_check(const struct field_table *table, const void *body, uint64_t set)
{
    for (size_t i = 0; i < table->num_fields; i++) {
        const struct field *field = &table->fields[i];
        if ((set >> i & 1) && !is_encodable(field, body))
            return status_error(STATUS_INVALID, "%s is missing, too long or has too many items",
                                field->key);
    }
    return status_ok();
}

static void encode_texts(const struct field *field, struct wire_writer *writer, const void *body)
{
    size_t count = count_at(body, field);

    wire_put_array(writer, count);
    for (size_t i = 0; i < count; i++)
        wire_put_str(writer, texts_at(body, field)[i]);
}

static void encode_error_code(struct wire_writer *writer, enum error_code code)
{
    const char *name = error_code_name(code);

    wire_put_key(writer, name[0] ? name : error_code_name(ERROR_INTERNAL));
}

static void encode_value(const struct field *field, struct wire_writer *writer, const void *body)
{
    const void *at = place(body, field->offset);

    /* clang-format off */
    switch (field->kind) {
    case FIELD_TEXT: wire_put_str(writer, *bytes_at(body, field)); return;
    case FIELD_BYTES: wire_put_bin(writer, *bytes_at(body, field)); return;
    case FIELD_UINT64: wire_put_uint(writer, *(const uint64_t *)at); return;
    case FIELD_INT64: wire_put_int(writer, *(const int64_t *)at); return;
    case FIELD_INT32: wire_put_int(writer, int32_at(body, field)); return;
    case FIELD_FLOAT: wire_put_float(writer, *(const float *)at); return;
    case FIELD_BOOL: wire_put_bool(writer, *(const bool *)at); return;
    case FIELD_TRISTATE: wire_put_bool(writer, *(const enum tristate *)at == YES); return;
    case FIELD_CLIENT: wire_put_bin(writer, (struct bytes){at, sizeof(struct client_id)}); return;
    case FIELD_IDS: wire_put_ids(writer, ids_at(body, field), count_at(body, field)); return;
    case FIELD_PACKED_IDS:
        wire_put_packed_ids(writer, ids_at(body, field), count_at(body, field));
        return;
    case FIELD_TEXTS: encode_texts(field, writer, body); return;
    case FIELD_ERROR_CODE: encode_error_code(writer, *(const enum error_code *)at); return;
    case FIELD_FINISH:
        wire_put_key(writer, finish_reason_name(*(const enum finish_reason *)at));
        return;
    case FIELD_CUSTOM: field->encode(writer, body); return;
    case FIELD_UNSUPPORTED: return;
    }
    /* clang-format on */
}

void fields_encode(const struct field_table *table, struct wire_writer *writer, const void *body,
                   uint64_t set)
{
    for (size_t i = 0; set >> i && i < table->num_fields; i++) {
        const struct field *field = &table->fields[i];
        if (set >> i & 1) {
            wire_put_key(writer, field->key);
            encode_value(field, writer, body);
        }
    }
}
