/* codec_control.c - what every process answers on its control endpoint. */
#include "proto/codec.h"

enum { MAX_LEVEL_BYTES = 16 };

/* clang-format off */
static const struct field level_fields[] = {
    {.key = "level", .kind = FIELD_TEXT, .required = true, AT(control_msg, level), .min = 1,
     .max = MAX_LEVEL_BYTES},
};

static const struct field reply_fields[] = {
    {.key = "ok", .kind = FIELD_BOOL, .required = true, AT(control_reply_msg, ok)},
    {.key = "info", .kind = FIELD_TEXT, AT(control_reply_msg, info)},
    {.key = "message", .kind = FIELD_TEXT, AT(control_reply_msg, message), .max = MAX_ERROR_BYTES},
};
/* clang-format on */

const struct message_codec codec_control = {0}; /* its type says it all */
const struct message_codec codec_control_level = {.table = FIELD_TABLE(level_fields)};
const struct message_codec codec_control_reply = {.table = FIELD_TABLE(reply_fields)};
