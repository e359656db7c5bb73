/* wire_reader.c - see wire_reader.h. The format: github.com/msgpack/msgpack, spec.md. */
#include "proto/wire_reader.h"

#include <string.h>

static uint64_t big_endian(const uint8_t *data, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value = value << 8 | data[i];
    return value;
}

/* A big-endian number of size bytes. */
static bool take_number(struct wire_reader *reader, size_t size, uint64_t *out)
{
    if ((size_t)(reader->end - reader->at) < size)
        return false;
    *out = big_endian(reader->at, size);
    reader->at += size;
    return true;
}

static bool take_bytes(struct wire_reader *reader, uint64_t size, enum wire_type type,
                       struct wire_value *out)
{
    if ((uint64_t)(reader->end - reader->at) < size)
        return false;
    out->type = type;
    out->bytes = (struct bytes){.data = reader->at, .size = (size_t)size};
    reader->at += size;
    return true;
}

static bool take_count(struct wire_reader *reader, uint64_t count, enum wire_type type,
                       struct wire_value *out)
{
    uint64_t least = type == WIRE_MAP ? 2 * count : count; /* bytes: each value has one at least */

    if ((uint64_t)(reader->end - reader->at) < least)
        return false;
    out->type = type;
    out->count = (uint32_t)count;
    return true;
}

static void set_uint(struct wire_value *out, uint64_t value)
{
    out->uinteger = value;
    out->integer = value <= INT64_MAX ? (int64_t)value : 0;
    out->type = value <= INT64_MAX ? WIRE_INT : WIRE_UINT;
}

static void set_int(struct wire_value *out, int64_t value)
{
    out->type = WIRE_INT;
    out->integer = value;
    out->uinteger = value >= 0 ? (uint64_t)value : 0;
}

static double float_of_bits(uint64_t bits, size_t size)
{
    double wide;
    float narrow;
    uint32_t narrow_bits = (uint32_t)bits;

    if (size == sizeof(wide)) {
        memcpy(&wide, &bits, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, &narrow_bits, sizeof(narrow));
    return (double)narrow;
}

/* Heads 0xca..0xd3: the numbers that stand behind their head. */
static bool set_number(uint8_t head, uint64_t number, size_t width, struct wire_value *out)
{
    if (head < 0xcc) {
        out->type = WIRE_FLOAT;
        out->number = float_of_bits(number, width);
    } else if (head < 0xd0) {
        set_uint(out, number);
    } else {
        int unused = 64 - 8 * (int)width; /* the sign bit goes to the top, and comes back */
        set_int(out, (int64_t)(number << unused) >> unused);
    }
    return true;
}

/* Heads 0xc0..0xdf: everything whose size or value does not fit into the head itself. */
static bool next_long(struct wire_reader *reader, uint8_t head, struct wire_value *out)
{
    static const uint8_t widths[32] = {
        [0x04] = 1, [0x05] = 2, [0x06] = 4,             /* bin */
        [0x07] = 1, [0x08] = 2, [0x09] = 4,             /* ext */
        [0x0a] = 4, [0x0b] = 8,                         /* float */
        [0x0c] = 1, [0x0d] = 2, [0x0e] = 4, [0x0f] = 8, /* uint */
        [0x10] = 1, [0x11] = 2, [0x12] = 4, [0x13] = 8, /* int */
        [0x19] = 1, [0x1a] = 2, [0x1b] = 4,             /* str */
        [0x1c] = 2, [0x1d] = 4, [0x1e] = 2, [0x1f] = 4, /* array, map */
    };
    size_t width = widths[head & 0x1f];
    uint64_t number = 0;

    if (!take_number(reader, width, &number))
        return false;
    switch (head) {
    case 0xc0:
        out->type = WIRE_NIL;
        return true;
    case 0xc2:
    case 0xc3:
        out->type = WIRE_BOOL;
        out->boolean = head == 0xc3;
        return true;
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return take_bytes(reader, number, WIRE_BIN, out);
    case 0xc7:
    case 0xc8:
    case 0xc9:
        return take_bytes(reader, number + 1, WIRE_EXT, out); /* with its type byte */
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        return take_bytes(reader, (1U << (head - 0xd4)) + 1, WIRE_EXT, out);
    case 0xd9:
    case 0xda:
    case 0xdb:
        return take_bytes(reader, number, WIRE_STR, out);
    case 0xdc:
    case 0xdd:
        return take_count(reader, number, WIRE_ARRAY, out);
    case 0xde:
    case 0xdf:
        return take_count(reader, number, WIRE_MAP, out);
    default: /* 0xc1 is no msgpack */
        return head != 0xc1 && set_number(head, number, width, out);
    }
}

bool wire_next(struct wire_reader *reader, struct wire_value *out)
{
    if (reader->at == reader->end)
        return false;
    uint8_t head = *reader->at++;
    if (head < 0x80) {
        set_int(out, head);
        return true;
    }
    if (head < 0x90)
        return take_count(reader, head & 0x0f, WIRE_MAP, out);
    if (head < 0xa0)
        return take_count(reader, head & 0x0f, WIRE_ARRAY, out);
    if (head < 0xc0)
        return take_bytes(reader, head & 0x1f, WIRE_STR, out);
    if (head >= 0xe0) {
        set_int(out, (int8_t)head);
        return true;
    }
    return next_long(reader, head, out);
}

static uint64_t num_children(const struct wire_value *value)
{
    if (value->type == WIRE_ARRAY)
        return value->count;
    return value->type == WIRE_MAP ? 2 * (uint64_t)value->count : 0;
}

bool wire_skip_rest(struct wire_reader *reader, const struct wire_value *value)
{
    uint64_t left[WIRE_MAX_DEPTH]; /* per open level: values still to come */
    int depth = 0;
    struct wire_value next;

    left[0] = num_children(value);
    while (depth >= 0) {
        if (left[depth] == 0) {
            depth--;
            continue;
        }
        left[depth]--;
        if (!wire_next(reader, &next))
            return false;
        if (num_children(&next) > 0) {
            if (++depth == WIRE_MAX_DEPTH)
                return false;
            left[depth] = num_children(&next);
        }
    }
    return true;
}
