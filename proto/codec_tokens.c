/*
 * codec_tokens.c - a step's tokens: the one message that is sent all the time, so its rows are
 * short.
 *
 *   [uid, token, finish]           token: nil for none; finish: nil, or its name
 *   [uid, token, finish, {...}]    the rest by name: reply_to, prompt_tokens and cached_tokens on a
 *                                  uid's first row, error beside the finish "error"
 *
 * Items behind the fourth and unknown keys in it are ignored.
 */
#include "proto/codec.h"

enum {
    MAX_ROWS = 65536,
    MIN_ROW_BYTES = 4, /* the head, a uid, two nils */
};

/* clang-format off */
static const struct field extra_fields[] = {
    {.key = "reply_to", .kind = FIELD_BYTES, AT(token_row, reply_to), HAS(token_row, is_first),
     .max = MAX_REPLY_TO_BYTES},
    {.key = "prompt_tokens", .kind = FIELD_INT32, AT(token_row, num_prompt_tokens), .min = 0,
     .max = INT32_MAX},
    {.key = "cached_tokens", .kind = FIELD_INT32, AT(token_row, num_cached_tokens), .min = 0,
     .max = INT32_MAX},
    {.key = "error", .kind = FIELD_ERROR_CODE, AT(token_row, error)},
};
/* clang-format on */

static const struct field_table extra_table = FIELD_TABLE(extra_fields);

static struct status row_error(int32_t row, const char *what)
{
    return status_error(STATUS_INVALID, "rows[%d]: %s", row, what);
}

static struct status decode_extra(struct wire_reader *reader, struct arena *arena,
                                  struct token_row *row)
{
    struct wire_value head;
    uint64_t seen = 0;
    const char *field;

    if (!wire_next(reader, &head) || (head.type != WIRE_MAP && head.type != WIRE_NIL))
        return status_error(STATUS_INVALID, "the fourth item must be a map");
    if (head.type == WIRE_NIL)
        return status_ok();
    return fields_decode(&extra_table, reader, head.count, arena, row, &seen, &field);
}

static struct status decode_row(struct wire_reader *reader, struct arena *arena, int32_t index,
                                struct token_row *out)
{
    struct wire_value head, uid, token, finish;
    struct token_row row = {.token = TOKEN_NONE};

    if (!wire_next(reader, &head) || head.type != WIRE_ARRAY || head.count < 3)
        return row_error(index, "must be an array of at least three");
    if (!wire_next(reader, &uid) || (uid.type != WIRE_INT && uid.type != WIRE_UINT) ||
        uid.uinteger == 0)
        return row_error(index, "the uid must be an integer above 0");
    row.uid = uid.uinteger;
    if (!wire_next(reader, &token) ||
        (token.type != WIRE_NIL &&
         (token.type != WIRE_INT || token.integer < 0 || token.integer > INT32_MAX)))
        return row_error(index, "the token must be nil or an integer from 0 to 2147483647");
    if (token.type == WIRE_INT)
        row.token = (int32_t)token.integer;
    if (!wire_next(reader, &finish) ||
        (finish.type != WIRE_NIL &&
         (finish.type != WIRE_STR ||
          !finish_reason_parse((const char *)finish.bytes.data, finish.bytes.size, &row.finish))))
        return row_error(index, "the finish must be nil or stop, length, abort or error");
    if (head.count > 3) {
        struct status status = decode_extra(reader, arena, &row);
        if (status.code)
            return row_error(index, status.msg);
    }
    for (uint32_t item = 4; item < head.count; item++) {
        struct wire_value more;
        if (!wire_next(reader, &more) || !wire_skip_rest(reader, &more))
            return row_error(index, "cut or malformed");
    }
    if (row.finish == FINISH_ERROR && row.error == ERROR_NONE)
        row.error = ERROR_INTERNAL;
    *out = row;
    return status_ok();
}

static struct status decode_rows(struct wire_reader *reader, struct arena *arena, void *body)
{
    struct tokens_msg *msg = body;
    struct wire_value head;

    if (!wire_next(reader, &head) || head.type != WIRE_ARRAY || head.count > MAX_ROWS ||
        head.count > (size_t)(reader->end - reader->at) / MIN_ROW_BYTES)
        return status_error(STATUS_INVALID, "rows must be an array of at most %d rows", MAX_ROWS);
    struct token_row *rows = arena_alloc(arena, head.count * sizeof(*rows));
    if (!rows)
        return status_error(STATUS_NO_MEMORY, "no memory for rows");
    for (uint32_t i = 0; i < head.count; i++) {
        struct status status = decode_row(reader, arena, (int32_t)i, &rows[i]);
        if (status.code)
            return status;
    }
    msg->rows = rows;
    msg->num_rows = (int32_t)head.count;
    return status_ok();
}

static void encode_row(struct wire_writer *writer, const struct token_row *row)
{
    uint64_t set = 0;

    if (row->is_first || row->error) {
        set = fields_present(&extra_table, row);
        if (!row->is_first)
            set &= field_bit(&extra_table, "error");
    }
    wire_put_array(writer, set ? 4 : 3);
    wire_put_uint(writer, row->uid);
    if (row->token == TOKEN_NONE)
        wire_put_nil(writer);
    else
        wire_put_int(writer, row->token);
    if (row->finish == FINISH_NONE)
        wire_put_nil(writer);
    else
        wire_put_key(writer, finish_reason_name(row->finish));
    if (set) {
        wire_put_map(writer, (size_t)__builtin_popcountll(set));
        fields_encode(&extra_table, writer, row, set);
    }
}

static void encode_rows(struct wire_writer *writer, const void *body)
{
    const struct tokens_msg *msg = body;

    wire_put_array(writer, (size_t)msg->num_rows);
    for (int32_t i = 0; i < msg->num_rows; i++)
        encode_row(writer, &msg->rows[i]);
}

/* clang-format off */
static const struct field tokens_fields[] = {
    {.key = "step_end_ns", .kind = FIELD_INT64, AT(tokens_msg, step_end_ns)},
    {.key = "rows", .kind = FIELD_CUSTOM, .required = true,
     .decode = decode_rows, .encode = encode_rows},
};
/* clang-format on */

const struct message_codec codec_tokens = {.table = FIELD_TABLE(tokens_fields), .is_pipe = true};
