/*
 * wire_writer.h - msgpack values into a frame buffer, through the library's packer.
 *
 * The only failure is want of memory. It sticks: the writer then swallows the rest, and the caller
 * looks at failed once, at the end.
 */
#ifndef PROTO_WIRE_WRITER_H
#define PROTO_WIRE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <msgpack.h>

#include "proto/messages_codec.h"

struct wire_writer {
    msgpack_packer packer;
    struct frame_buffer *out; /* borrowed */
    bool failed;
};

/* Starts an empty frame in out. The writer must not move while it is in use. */
void wire_writer_init(struct wire_writer *writer, struct frame_buffer *out);

void wire_put_map(struct wire_writer *writer, size_t num_pairs);
void wire_put_array(struct wire_writer *writer, size_t num_items);
void wire_put_key(struct wire_writer *writer, const char *key);
void wire_put_str(struct wire_writer *writer, struct bytes text);
void wire_put_bin(struct wire_writer *writer, struct bytes bytes);
void wire_put_int(struct wire_writer *writer, int64_t value);
void wire_put_uint(struct wire_writer *writer, uint64_t value);
void wire_put_float(struct wire_writer *writer, float value);
void wire_put_bool(struct wire_writer *writer, bool value);
void wire_put_nil(struct wire_writer *writer);
/* Token ids as an array, or as a bin of little-endian int32. */
void wire_put_ids(struct wire_writer *writer, const int32_t *ids, size_t num_ids);
void wire_put_packed_ids(struct wire_writer *writer, const int32_t *ids, size_t num_ids);

#endif
