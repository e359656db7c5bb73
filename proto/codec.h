/*
 * codec.h - what messages_codec.c must know of each message: inside proto/ only.
 *
 * A family of messages has a file of its own, with the tables of their keys. The keys that all
 * messages share (type, v, run) are messages_codec.c's business.
 */
#ifndef PROTO_CODEC_H
#define PROTO_CODEC_H

#include "proto/fields.h"

struct message_codec {
    struct field_table table;
    bool is_pipe; /* between the server's processes: carries the run number */
    /* Or NULL: what the table cannot say, after decoding; may change the body. */
    struct status (*finish)(void *body, uint64_t seen, const char **out_field);
    /* Or NULL: changes the set of keys to be written, before encoding. */
    uint64_t (*select)(const void *body, uint64_t set);
};

/* codec_client.c */
extern const struct message_codec codec_generate; /* tokenize and render too */
extern const struct message_codec codec_client_abort;
extern const struct message_codec codec_info;
extern const struct message_codec codec_accepted;
extern const struct message_codec codec_result;
extern const struct message_codec codec_error;

/* codec_scheduler.c */
extern const struct message_codec codec_request;
extern const struct message_codec codec_abort;
extern const struct message_codec codec_rejected;

/* codec_tokens.c, codec_deltas.c */
extern const struct message_codec codec_tokens;
extern const struct message_codec codec_deltas;
extern const struct message_codec codec_presence; /* hello_ok, alive */

/* codec_control.c */
extern const struct message_codec codec_control;
extern const struct message_codec codec_control_level;
extern const struct message_codec codec_control_reply;

/* clang-format off */

/*
 * The keys of struct sampling inside struct owner, where it is the member `sampling`. is_required:
 * the scheduler is told everything, a client says what it likes.
 */
#define SAMPLING_FIELDS(owner, is_required)                                                        \
    {.key = "temperature", .kind = FIELD_FLOAT, .required = (is_required),                         \
     AT(owner, sampling.temperature), .min = 0, .max = 100},                                       \
    {.key = "top_k", .kind = FIELD_INT32, .required = (is_required),                               \
     AT(owner, sampling.top_k), .min = -1, .max = INT32_MAX},                                      \
    {.key = "top_p", .kind = FIELD_FLOAT, .required = (is_required),                               \
     AT(owner, sampling.top_p), .min = 0, .max = 1, .fallback = 1},                                \
    {.key = "min_p", .kind = FIELD_FLOAT, .required = (is_required),                               \
     AT(owner, sampling.min_p), .min = 0, .max = 1},                                               \
    {.key = "ignore_eos", .kind = FIELD_BOOL, .required = (is_required),                           \
     AT(owner, sampling.ignore_eos)},                                                              \
    {.key = "stop_token_ids", .kind = FIELD_IDS, AT(owner, sampling.stop_token_ids),               \
     COUNT(owner, sampling.num_stop_token_ids), .max_items = MAX_STOP_TOKEN_IDS}

/* The client's name for a request. */
#define RID_FIELD(owner, is_required)                                                              \
    {.key = "rid", .kind = FIELD_TEXT, .required = (is_required), AT(owner, rid),                  \
     .min = 1, .max = MAX_RID_BYTES}

/* What the detokenizer needs to know, in reply_to as in generate. */
#define REPLY_FIELDS(owner)                                                                        \
    {.key = "stop", .kind = FIELD_TEXTS, AT(owner, stops), COUNT(owner, num_stops),                \
     .min = 1, .max = MAX_STOP_STRING_BYTES, .max_items = MAX_STOP_STRINGS},                       \
    {.key = "skip_special", .kind = FIELD_BOOL, AT(owner, skip_special), .fallback = 1},           \
    {.key = "want_ids", .kind = FIELD_BOOL, AT(owner, want_ids)},                                  \
    {.key = "stream", .kind = FIELD_BOOL, AT(owner, stream), .fallback = 1}

/* clang-format on */

#endif
