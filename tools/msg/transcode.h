/*
 * transcode.h - msgpack frames to JSON and back, key by key, whatever message it is or is not.
 *
 * No message is checked: wrong ones are to be sent too. What JSON lacks:
 *   client                           hexadecimal text, for its 16 bytes
 *   input_ids of a request           an array; bin on the wire
 *   reply_to                         an object: the map inside; or hexadecimal text
 *   messages, tools, kwargs, info    the JSON value; text on the wire
 *   other bins                       hexadecimal text (they cannot be sent)
 *   {"$raw": "9191"}                 as a whole line: these bytes, no map at all
 * A line without "v" gets the version of the protocol; "v": null leaves it out.
 */
#ifndef TOOLS_MSG_TRANSCODE_H
#define TOOLS_MSG_TRANSCODE_H

#include <stdint.h>

#include "common/arena.h"
#include "common/json.h"
#include "common/status.h"
#include "proto/messages_codec.h"

/* One JSON object into a frame. */
MUST_CHECK struct status transcode_from_json(const struct json_value *line,
                                             struct frame_buffer *out);

/* A frame into the pairs of a JSON object that the caller has begun; STATUS_FORMAT when it is no
 * map (nothing is then written). */
MUST_CHECK struct status transcode_to_json(struct bytes frame, struct json_writer *out);

/* Hexadecimal text into out[max]; the number of bytes, or -1 when it is none or too long. */
int transcode_unhex(struct json_text text, uint8_t *out, size_t max);
void transcode_hex(struct json_writer *out, struct bytes bytes);

#endif
