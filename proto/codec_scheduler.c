/* codec_scheduler.c - what the scheduler is told and what it turns down. */
#include "proto/codec.h"

/* clang-format off */
static const struct field request_fields[] = {
    {.key = "uid", .kind = FIELD_UINT64, .required = true, AT(request_msg, uid), .min = 1},
    {.key = "client", .kind = FIELD_CLIENT, .required = true, AT(request_msg, client)},
    {.key = "input_ids", .kind = FIELD_PACKED_IDS, .required = true, AT(request_msg, input_ids),
     COUNT(request_msg, num_input_ids)},
    {.key = "max_tokens", .kind = FIELD_INT32,
     .required = true, AT(request_msg, sampling.max_tokens),
     .min = 1, .max = INT32_MAX},
    {.key = "seed", .kind = FIELD_UINT64, .required = true, AT(request_msg, sampling.seed)},
    SAMPLING_FIELDS(request_msg, true),
    {.key = "reply_to", .kind = FIELD_BYTES, .required = true, AT(request_msg, reply_to),
     .max = MAX_REPLY_TO_BYTES},
};

static const struct field abort_fields[] = {
    {.key = "uid", .kind = FIELD_UINT64, AT(abort_msg, uid), .min = 1},
    {.key = "client", .kind = FIELD_CLIENT, AT(abort_msg, client), HAS(abort_msg, by_client)},
};

static const struct field rejected_fields[] = {
    {.key = "uid", .kind = FIELD_UINT64, .required = true, AT(rejected_msg, uid)},
    {.key = "code", .kind = FIELD_ERROR_CODE, .required = true, AT(rejected_msg, code)},
    {.key = "message", .kind = FIELD_TEXT, .required = true, AT(rejected_msg, message),
     .max = MAX_ERROR_BYTES},
    {.key = "reply_to", .kind = FIELD_BYTES, .required = true, AT(rejected_msg, reply_to),
     .max = MAX_REPLY_TO_BYTES},
};

static const struct field reply_to_fields[] = {
    {.key = "client", .kind = FIELD_CLIENT, .required = true, AT(reply_to, client)},
    RID_FIELD(reply_to, true),
    REPLY_FIELDS(reply_to),
};
/* clang-format on */

static const struct field_table reply_to_table = FIELD_TABLE(reply_to_fields);

static struct status finish_request(void *body, uint64_t seen, const char **out_field)
{
    struct request_msg *msg = body;

    (void)seen;
    (void)out_field;
    if (msg->sampling.top_k < 0)
        msg->sampling.top_k = 0;
    return status_ok();
}

static struct status finish_abort(void *body, uint64_t seen, const char **out_field)
{
    const struct abort_msg *msg = body;

    (void)seen;
    if (msg->by_client == (msg->uid != 0)) {
        *out_field = "uid";
        return status_error(STATUS_INVALID, "exactly one of uid and client must be given");
    }
    return status_ok();
}

const struct message_codec codec_request = {
    .table = FIELD_TABLE(request_fields), .is_pipe = true, .finish = finish_request};
const struct message_codec codec_abort = {
    .table = FIELD_TABLE(abort_fields), .is_pipe = true, .finish = finish_abort};
const struct message_codec codec_rejected = {.table = FIELD_TABLE(rejected_fields),
                                             .is_pipe = true};

struct status reply_to_encode(const struct reply_to *reply_to, struct frame_buffer *out)
{
    struct wire_writer writer;
    uint64_t set = fields_present(&reply_to_table, reply_to);
    struct status status = fields_check(&reply_to_table, reply_to, set);

    if (status.code)
        return status;
    wire_writer_init(&writer, out);
    wire_put_map(&writer, (size_t)__builtin_popcountll(set));
    fields_encode(&reply_to_table, &writer, reply_to, set);
    if (writer.failed)
        return status_error(STATUS_NO_MEMORY, "no memory for reply_to");
    if (out->size > MAX_REPLY_TO_BYTES)
        return status_error(STATUS_INVALID, "stop strings and rid take %zu bytes, %d are allowed",
                            out->size, MAX_REPLY_TO_BYTES);
    return status_ok();
}

struct status reply_to_decode(const void *data, size_t size, struct arena *arena,
                              struct reply_to *out)
{
    struct wire_reader reader = wire_reader_of(data, size);
    struct wire_value head;
    struct reply_to reply_to = {0};
    uint64_t seen = 0;
    const char *field;

    if (!wire_next(&reader, &head) || head.type != WIRE_MAP)
        return status_error(STATUS_FORMAT, "reply_to is no map");
    fields_set_fallbacks(&reply_to_table, &reply_to);
    struct status status =
        fields_decode(&reply_to_table, &reader, head.count, arena, &reply_to, &seen, &field);
    if (status.code == STATUS_OK && reader.at != reader.end)
        status = status_error(STATUS_FORMAT, "bytes behind the map");
    if (status.code)
        return status_context(status, "reply_to");
    *out = reply_to;
    return status_ok();
}
