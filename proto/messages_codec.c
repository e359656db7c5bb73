/*
 * messages_codec.c - frames: the keys that all messages share, and whose table has the others.
 *
 *   {"type": "accepted", "v": 1, ["run": 7,] keys of that type ...}
 *
 * The shared keys are looked for first, wherever they stand; a sender that puts them in front, as
 * this one does, spares the second look at the rest.
 */
#include "proto/messages_codec.h"

#include <string.h>

#include "common/utf8.h"
#include "proto/codec.h"

struct message_name {
    const char *name;
    enum message_type type;
    const struct message_codec *codec;
    enum control_command command; /* MESSAGE_CONTROL */
};

static const struct message_codec no_keys = {0};

static const struct message_name names[] = {
    {"tokens", MESSAGE_TOKENS, &codec_tokens, 0},
    {"deltas", MESSAGE_DELTAS, &codec_deltas, 0},
    {"alive", MESSAGE_ALIVE, &codec_presence, 0},
    {"generate", MESSAGE_GENERATE, &codec_generate, 0},
    {"tokenize", MESSAGE_TOKENIZE, &codec_generate, 0},
    {"render", MESSAGE_RENDER, &codec_generate, 0},
    {"abort", MESSAGE_CLIENT_ABORT, &codec_client_abort, 0},
    {"abort", MESSAGE_ABORT, &codec_abort, 0},
    {"info", MESSAGE_INFO, &codec_info, 0},
    {"accepted", MESSAGE_ACCEPTED, &codec_accepted, 0},
    {"result", MESSAGE_RESULT, &codec_result, 0},
    {"error", MESSAGE_ERROR, &codec_error, 0},
    {"request", MESSAGE_REQUEST, &codec_request, 0},
    {"rejected", MESSAGE_REJECTED, &codec_rejected, 0},
    {"hello", MESSAGE_HELLO, &no_keys, 0},
    {"hello_ok", MESSAGE_HELLO_OK, &codec_presence, 0},
    {"ping", MESSAGE_CONTROL, &codec_control, CONTROL_PING},
    {"stats", MESSAGE_CONTROL, &codec_control, CONTROL_STATS},
    {"drain", MESSAGE_CONTROL, &codec_control, CONTROL_DRAIN},
    {"flush_cache", MESSAGE_CONTROL, &codec_control, CONTROL_FLUSH_CACHE},
    {"log_level", MESSAGE_CONTROL, &codec_control_level, CONTROL_LOG_LEVEL},
    {"normal_loop", MESSAGE_CONTROL, &codec_control, CONTROL_NORMAL_LOOP},
    {"overlap_loop", MESSAGE_CONTROL, &codec_control, CONTROL_OVERLAP_LOOP},
    {"check", MESSAGE_CONTROL, &codec_control, CONTROL_CHECK},
    {"control_reply", MESSAGE_CONTROL_REPLY, &codec_control_reply, 0},
};

enum { NUM_NAMES = sizeof(names) / sizeof(names[0]) };

/* All bodies start where the union does. */
static void *body_of(struct message *message)
{
    return &message->generate;
}

static const struct message_name *name_of(const struct message *message)
{
    for (size_t i = 0; i < NUM_NAMES; i++) {
        if (names[i].type == message->type &&
            (message->type != MESSAGE_CONTROL || names[i].command == message->control.command))
            return &names[i];
    }
    return NULL;
}

struct status message_encode(const struct message *message, struct frame_buffer *out)
{
    const struct message_name *name = name_of(message);
    const void *body = &message->generate;
    struct wire_writer writer;

    if (!name)
        return status_error(STATUS_INVALID, "message type %d is not known", (int)message->type);
    const struct message_codec *codec = name->codec;
    uint64_t set = fields_present(&codec->table, body);
    if (codec->select)
        set = codec->select(body, set);
    struct status status = fields_check(&codec->table, body, set);
    if (status.code)
        return status_context(status, name->name);
    wire_writer_init(&writer, out);
    wire_put_map(&writer, (size_t)__builtin_popcountll(set) + (codec->is_pipe ? 3 : 2));
    wire_put_key(&writer, "type");
    wire_put_key(&writer, name->name);
    wire_put_key(&writer, "v");
    wire_put_uint(&writer, PROTOCOL_VERSION);
    if (codec->is_pipe) {
        wire_put_key(&writer, "run");
        wire_put_uint(&writer, message->run);
    }
    fields_encode(&codec->table, &writer, body, set);
    if (writer.failed)
        return status_error(STATUS_NO_MEMORY, "no memory to encode %s", name->name);
    return status_ok();
}

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

/* The shared keys. */
struct frame_head {
    const struct message_name *name; /* NULL: the type is not known */
    bool has_type, has_version, has_run;
    struct bytes rid; /* as far as the look went */
    uint64_t version; /* 0 for what is no number */
    uint64_t run;
};

static const struct message_name *find_name(struct bytes type)
{
    for (size_t i = 0; i < NUM_NAMES; i++) {
        if (is_text(type, names[i].name))
            return &names[i];
    }
    return NULL;
}

/* "abort" stands for two messages: a client's has a rid. So that one is looked at to the end. */
static bool is_head_complete(const struct frame_head *head)
{
    if (!head->has_type || !head->has_version || !head->name ||
        head->name->type == MESSAGE_CLIENT_ABORT)
        return false;
    return head->has_run || !head->name->codec->is_pipe;
}

/* Looks at num_pairs pairs until everything shared is known, or to the end, or to the cut. */
static void scan_head(struct wire_reader reader, uint32_t num_pairs, bool to_the_end,
                      struct frame_head *head)
{
    for (uint32_t pair = 0; pair < num_pairs; pair++) {
        struct wire_value key, value;

        if (!to_the_end && is_head_complete(head))
            return;
        if (!wire_next(&reader, &key) || key.type != WIRE_STR || !wire_next(&reader, &value) ||
            !wire_skip_rest(&reader, &value))
            return;
        bool is_number = value.type == WIRE_INT || value.type == WIRE_UINT;
        if (is_text(key.bytes, "type") && value.type == WIRE_STR) {
            head->has_type = true;
            head->name = find_name(value.bytes);
        } else if (is_text(key.bytes, "v")) {
            head->has_version = true;
            head->version = is_number ? value.uinteger : 0;
        } else if (is_text(key.bytes, "run") && is_number) {
            head->has_run = true;
            head->run = value.uinteger;
        } else if (is_text(key.bytes, "rid") && value.type == WIRE_STR &&
                   value.bytes.size <= MAX_RID_BYTES &&
                   utf8_is_valid(value.bytes.data, value.bytes.size)) {
            head->rid = value.bytes;
        }
    }
}

/* The body, by the table of its type. */
static struct status decode_body(const struct message_codec *codec, struct wire_reader *reader,
                                 uint32_t num_pairs, struct arena *arena, struct message *message,
                                 const char **out_field)
{
    uint64_t seen = 0;
    struct status status;

    fields_set_fallbacks(&codec->table, body_of(message));
    status =
        fields_decode(&codec->table, reader, num_pairs, arena, body_of(message), &seen, out_field);
    if (status.code == STATUS_OK && reader->at != reader->end)
        status = status_error(STATUS_INVALID, "there are bytes behind the map");
    if (status.code == STATUS_OK && codec->finish)
        status = codec->finish(body_of(message), seen, out_field);
    return status;
}

static struct status check_head(const struct frame_head *head, const char **out_field)
{
    *out_field = "type";
    if (!head->name)
        return status_error(STATUS_INVALID, "this type of message is not known");
    *out_field = "v";
    if (!head->has_version)
        return status_error(STATUS_INVALID, "v is missing");
    if (head->version != PROTOCOL_VERSION)
        return status_error(STATUS_INVALID, "v must be %d: no other version is spoken here",
                            PROTOCOL_VERSION);
    return status_ok();
}

struct status message_decode(const void *data, size_t size, struct arena *arena,
                             struct message *out, struct message_fault *out_fault)
{
    struct wire_reader reader = wire_reader_of(data, size);
    struct wire_value map = {0};
    struct frame_head head = {0};
    struct message message = {0};
    const char *field = "";

    *out_fault = (struct message_fault){.field = ""};
    if (!wire_next(&reader, &map) || map.type != WIRE_MAP)
        return status_error(STATUS_FORMAT, "a frame of %zu bytes is no msgpack map", size);
    scan_head(reader, map.count, false, &head);
    if (!head.has_type)
        return status_error(STATUS_FORMAT, "a frame of %zu bytes has no type", size);
    struct status status = check_head(&head, &field);
    if (status.code == STATUS_OK) {
        if (head.name->type == MESSAGE_CLIENT_ABORT && head.rid.size == 0)
            head.name = name_of(&(struct message){.type = MESSAGE_ABORT});
        message = (struct message){.type = head.name->type, .run = head.run};
        status = decode_body(head.name->codec, &reader, map.count, arena, &message, &field);
    }
    if (status.code) {
        reader = wire_reader_of(data, size);
        if (wire_next(&reader, &map))
            scan_head(reader, map.count, true, &head);
        *out_fault = (struct message_fault){.rid = head.rid, .field = field};
        return status;
    }
    if (message.type == MESSAGE_CONTROL)
        message.control.command = head.name->command;
    *out = message;
    return status_ok();
}
