/* codec_deltas.c - what one step has for one client: a map per request; and signs of life. */
#include "proto/codec.h"

enum {
    MAX_DELTAS = 65536,
    MIN_DELTA_BYTES = 12, /* the head, rid and uid with their keys */
};

/* clang-format off */
static const struct field delta_fields[] = {
    RID_FIELD(delta, true),
    {.key = "uid", .kind = FIELD_UINT64, .required = true, AT(delta, uid), .min = 1},
    {.key = "text", .kind = FIELD_TEXT, AT(delta, text)},
    {.key = "ids", .kind = FIELD_IDS, AT(delta, ids), COUNT(delta, num_ids)},
    {.key = "finish", .kind = FIELD_FINISH, AT(delta, finish)},
    {.key = "error", .kind = FIELD_ERROR_CODE, AT(delta, error)},
    {.key = "message", .kind = FIELD_TEXT, AT(delta, error_message), .max = MAX_ERROR_BYTES},
    {.key = "prompt_tokens", .kind = FIELD_INT32, AT(delta, usage.prompt_tokens), .min = 0,
     .max = INT32_MAX},
    {.key = "completion_tokens", .kind = FIELD_INT32, AT(delta, usage.completion_tokens),
     .min = 0, .max = INT32_MAX},
    {.key = "cached_tokens", .kind = FIELD_INT32, AT(delta, usage.cached_tokens), .min = 0,
     .max = INT32_MAX},
    {.key = "first_token_ns", .kind = FIELD_INT64, AT(delta, first_token_ns)},
    {.key = "last_token_ns", .kind = FIELD_INT64, AT(delta, last_token_ns)},
};
/* clang-format on */

static const struct field_table delta_table = FIELD_TABLE(delta_fields);

static struct status decode_delta(struct wire_reader *reader, struct arena *arena,
                                  struct delta *delta)
{
    struct wire_value head;
    uint64_t seen = 0;
    const char *field;

    if (!wire_next(reader, &head) || head.type != WIRE_MAP)
        return status_error(STATUS_INVALID, "must be a map");
    *delta = (struct delta){0};
    return fields_decode(&delta_table, reader, head.count, arena, delta, &seen, &field);
}

static struct status decode_deltas(struct wire_reader *reader, struct arena *arena, void *body)
{
    struct deltas_msg *msg = body;
    struct wire_value head;

    if (!wire_next(reader, &head) || head.type != WIRE_ARRAY || head.count > MAX_DELTAS ||
        head.count > (size_t)(reader->end - reader->at) / MIN_DELTA_BYTES)
        return status_error(STATUS_INVALID, "deltas must be an array of at most %d maps",
                            MAX_DELTAS);
    struct delta *deltas = arena_alloc(arena, head.count * sizeof(*deltas));
    if (!deltas)
        return status_error(STATUS_NO_MEMORY, "no memory for deltas");
    for (uint32_t i = 0; i < head.count; i++) {
        struct status status = decode_delta(reader, arena, &deltas[i]);
        if (status.code)
            return status_error(status.code, "deltas[%u]: %s", i, status.msg);
    }
    msg->deltas = deltas;
    msg->num_deltas = (int32_t)head.count;
    return status_ok();
}

static void encode_deltas(struct wire_writer *writer, const void *body)
{
    const struct deltas_msg *msg = body;

    wire_put_array(writer, (size_t)msg->num_deltas);
    for (int32_t i = 0; i < msg->num_deltas; i++) {
        uint64_t set = fields_present(&delta_table, &msg->deltas[i]);

        wire_put_map(writer, (size_t)__builtin_popcountll(set));
        fields_encode(&delta_table, writer, &msg->deltas[i], set);
    }
}

/* clang-format off */
static const struct field deltas_fields[] = {
    {.key = "deltas", .kind = FIELD_CUSTOM, .required = true,
     .decode = decode_deltas, .encode = encode_deltas},
};

static const struct field presence_fields[] = {
    {.key = "session", .kind = FIELD_UINT64, AT(presence_msg, session)},
    {.key = "sent", .kind = FIELD_UINT64, AT(presence_msg, num_sent)},
};
/* clang-format on */

const struct message_codec codec_deltas = {.table = FIELD_TABLE(deltas_fields)};
const struct message_codec codec_presence = {.table = FIELD_TABLE(presence_fields)};
