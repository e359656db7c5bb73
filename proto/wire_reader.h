/*
 * wire_reader.h - msgpack values, pulled one after the other out of a frame. Nothing is allocated.
 *
 * Every length is checked against what is left of the frame before it is believed: a string must
 * lie inside it, an array of n must have n bytes left, a map of n 2 n. So whoever sizes an array by
 * a count spends at most a constant times the frame. Why not the library's unpacker: it builds a
 * tree on the heap first, whose size the sender chooses.
 */
#ifndef PROTO_WIRE_READER_H
#define PROTO_WIRE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/messages.h"

enum { WIRE_MAX_DEPTH = 32 }; /* of values that nobody asked for and that are skipped */

enum wire_type {
    WIRE_NIL,
    WIRE_BOOL,
    WIRE_INT,  /* within int64 */
    WIRE_UINT, /* above int64 */
    WIRE_FLOAT,
    WIRE_STR,
    WIRE_BIN,
    WIRE_ARRAY, /* only its head is read: count values follow */
    WIRE_MAP,   /* only its head is read: count pairs follow */
    WIRE_EXT,
};

struct wire_value {
    enum wire_type type;
    bool boolean;       /* WIRE_BOOL */
    uint32_t count;     /* WIRE_ARRAY, WIRE_MAP */
    int64_t integer;    /* WIRE_INT */
    uint64_t uinteger;  /* WIRE_UINT, and WIRE_INT that is not negative */
    double number;      /* WIRE_FLOAT */
    struct bytes bytes; /* WIRE_STR, WIRE_BIN, WIRE_EXT: inside the frame */
};

struct wire_reader {
    const uint8_t *at, *end; /* borrowed: the frame */
};

static inline struct wire_reader wire_reader_of(const void *data, size_t size)
{
    const uint8_t *at = data ? data : (const void *)"";

    return (struct wire_reader){.at = at, .end = at + size};
}

/* The next value, or the head of the next array or map. False when the frame is cut or no msgpack;
 * the reader then stays unusable. */
bool wire_next(struct wire_reader *reader, struct wire_value *out);

/* Skips what is left of a value whose head has been read; false also beyond WIRE_MAX_DEPTH. */
bool wire_skip_rest(struct wire_reader *reader, const struct wire_value *value);

#endif
