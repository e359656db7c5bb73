/*
 * messages_codec.h - messages to msgpack frames and back. PROTOCOL.md is the specification.
 *
 * Decoding checks every length against the frame before anything is allocated, bounds nesting,
 * ignores unknown keys, and refuses missing ones, wrong types and values out of range, naming the
 * key.
 */
#ifndef PROTO_MESSAGES_CODEC_H
#define PROTO_MESSAGES_CODEC_H

#include "common/arena.h"
#include "common/status.h"
#include "proto/messages.h"

/* Growing output bytes; reused from message to message. */
struct frame_buffer {
    uint8_t *data; /* owned */
    size_t size, capacity;
};

void frame_buffer_deinit(struct frame_buffer *buffer);

/* Replaces the buffer's contents with the encoded message. Fails only for want of memory or
 * over-long fields. */
MUST_CHECK struct status message_encode(const struct message *message, struct frame_buffer *out);

/*
 * Decodes a frame. STATUS_FORMAT: no map, or no type: drop it. STATUS_INVALID: a message of a known
 * or unknown type with something wrong in it; *out_fault then holds its rid if that could be read
 * (empty otherwise), and the key at fault (static text, or ""), so that the sender can be answered.
 */
struct message_fault {
    struct bytes rid;
    const char *field;
};

MUST_CHECK struct status message_decode(const void *data, size_t size, struct arena *arena,
                                        struct message *out, struct message_fault *out_fault);

/* reply_to <-> bytes, with the same rules. */
MUST_CHECK struct status reply_to_encode(const struct reply_to *reply_to, struct frame_buffer *out);
MUST_CHECK struct status reply_to_decode(const void *data, size_t size, struct arena *arena,
                                         struct reply_to *out);

#endif
