/*
 * fields.h - a msgpack map and a C struct, tied together by a table with one line per key.
 *
 * The table is the specification of a message in code: key, type, range, default, place in the
 * struct. Encoding writes what is required and what differs from its default; decoding ignores keys
 * that the table does not have and refuses what is missing, of a wrong type or out of range. A nil
 * stands for "not given". PROTOCOL.md says the same in words.
 */
#ifndef PROTO_FIELDS_H
#define PROTO_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/status.h"
#include "proto/messages.h"
#include "proto/wire_reader.h"
#include "proto/wire_writer.h"

enum field_kind {
    FIELD_TEXT,        /* struct bytes: UTF-8 of min..max bytes */
    FIELD_BYTES,       /* struct bytes: bin (str accepted) of min..max bytes */
    FIELD_UINT64,      /* uint64_t, at least min */
    FIELD_INT64,       /* int64_t */
    FIELD_INT32,       /* int32_t, min..max */
    FIELD_FLOAT,       /* float, min..max; finite; integers accepted */
    FIELD_BOOL,        /* bool */
    FIELD_TRISTATE,    /* enum tristate; default UNSET */
    FIELD_CLIENT,      /* struct client_id: bin of 16 bytes, the first not zero */
    FIELD_IDS,         /* int32_t pointer and count: array, or bin of little-endian int32 */
    FIELD_PACKED_IDS,  /* the same, written as bin */
    FIELD_TEXTS,       /* struct bytes pointer and count: array of str of 1..max bytes, or one */
    FIELD_ERROR_CODE,  /* enum error_code, by name */
    FIELD_FINISH,      /* enum finish_reason, by name */
    FIELD_CUSTOM,      /* by its own two functions */
    FIELD_UNSUPPORTED, /* refused by name, unless it says what happens anyway (default or nil) */
};

struct field {
    const char *key;
    enum field_kind kind;
    bool required;
    size_t offset;     /* of the value */
    size_t has;        /* HAS(): of a bool that says whether it is there; 0: there is none */
    size_t count;      /* of FIELD_IDS and FIELD_TEXTS: offset of the number of items, */
    size_t count_size; /* and the size of that number: an int32_t or a size_t */
    double min, max;   /* both 0: unbounded */
    double fallback;   /* the value when not given */
    int32_t max_items; /* of FIELD_IDS and FIELD_TEXTS; 0: unbounded */
    struct status (*decode)(struct wire_reader *reader, struct arena *arena, void *body);
    void (*encode)(struct wire_writer *writer, const void *body);
};

/* A place in a struct, as an initialiser; and places that need one more than their offset. */
#define AT(type, member)  .offset = offsetof(struct type, member)
#define HAS(type, member) .has = offsetof(struct type, member) + 1
#define COUNT(type, member)                                                                        \
    .count = offsetof(struct type, member),                                                        \
    .count_size = sizeof(((const struct type *)NULL)->member)

static inline bool field_allows_size(const struct field *field, size_t size)
{
    return (double)size >= field->min && (field->max <= 0 || (double)size <= field->max);
}

enum { MAX_FIELDS = 64 };

struct field_table {
    const struct field *fields;
    size_t num_fields; /* at most MAX_FIELDS */
};

#define FIELD_TABLE(array)                                                                         \
    {                                                                                              \
        .fields = (array), .num_fields = sizeof(array) / sizeof((array)[0])                        \
    }

/* The bit of a key in the sets below; 0 when the table does not have it. */
uint64_t field_bit(const struct field_table *table, const char *key);

/* Puts the fallbacks into a zeroed body. */
void fields_set_fallbacks(const struct field_table *table, void *body);

/*
 * Reads num_pairs pairs into a body that holds the fallbacks. *out_seen: the set of keys given. On
 * an error (STATUS_INVALID, worded for the sender; STATUS_NO_MEMORY) *out_field is the key at
 * fault, or "".
 */
MUST_CHECK struct status fields_decode(const struct field_table *table, struct wire_reader *reader,
                                       uint32_t num_pairs, struct arena *arena, void *body,
                                       uint64_t *out_seen, const char **out_field);

/* The set of keys that are required or differ from their fallback. */
uint64_t fields_present(const struct field_table *table, const void *body);

/* Whether what is variable in the set keeps its bounds (STATUS_INVALID names the key). */
MUST_CHECK struct status fields_check(const struct field_table *table, const void *body,
                                      uint64_t set);

/* Writes the pairs of the set; the caller has written the map's head. */
void fields_encode(const struct field_table *table, struct wire_writer *writer, const void *body,
                   uint64_t set);

#endif
