/* filter_encode.c - see filter_encode.h. */
#include "tokenizer_proc/filter_encode.h"

#include <errno.h>

#include "common/json.h"
#include "tokenizer_proc/line_reader.h"

struct filter {
    struct encoder *encoder;
    struct arena arena;
    struct token_list ids;
    struct json_writer writer;
};

static bool get_flag(const struct json_value *line, const char *key, bool otherwise)
{
    const struct json_value *value = json_get(line, key);

    return value && value->type == JSON_BOOL ? value->boolean : otherwise;
}

static struct status encode_line(struct filter *filter, const struct json_value *line)
{
    const struct json_value *text = json_get(line, "text");

    if (!text || text->type != JSON_STRING)
        return status_error(STATUS_INVALID, "\"text\" must be a string");
    struct encode_args args = {
        .text = text->text.data,
        .size = text->text.size,
        .parse_special = get_flag(line, "parse_special", true),
        .add_special_tokens = get_flag(line, "add_special_tokens", false),
    };
    return encoder_encode(filter->encoder, &args, &filter->ids);
}

/* Puts the answer to one line into the writer. */
static void answer(struct filter *filter, struct status status, const char *data, size_t size)
{
    struct json_writer *writer = &filter->writer;
    struct json_value *line = NULL;

    arena_reset(&filter->arena);
    filter->ids.num_ids = 0;
    if (!status.code)
        status = json_parse(data, size, &filter->arena, &line);
    if (!status.code && line->type != JSON_OBJECT)
        status = status_error(STATUS_FORMAT, "not a JSON object");
    if (!status.code)
        status = encode_line(filter, line);
    json_writer_reset(writer);
    json_begin_object(writer);
    const struct json_value *id = json_get(line, "id");
    if (id) {
        json_key(writer, "id");
        json_write_value(writer, id);
    }
    if (status.code) {
        json_put_cstring(writer, "error", status.msg);
    } else {
        json_key(writer, "ids");
        json_begin_array(writer);
        for (size_t i = 0; i < filter->ids.num_ids; i++)
            json_int(writer, filter->ids.ids[i]);
        json_end_array(writer);
    }
    json_end_object(writer);
}

struct status filter_encode(const struct tokenizer *tokenizer, FILE *in, FILE *out)
{
    struct filter filter = {0};
    struct line_reader lines = {.file = in, .max_size = FILTER_MAX_LINE};
    struct status status = encoder_create(tokenizer, &filter.encoder);

    arena_init(&filter.arena, 0, (size_t)FILTER_MAX_LINE * 16);
    while (!status.code && line_reader_next(&lines)) {
        if (lines.size == 0 && !lines.status.code)
            continue;
        answer(&filter, lines.status, lines.data, lines.size);
        if (filter.writer.failed)
            status = status_error(STATUS_NO_MEMORY, "no memory for an answer");
        else if (fwrite(filter.writer.data, 1, filter.writer.size, out) != filter.writer.size ||
                 fputc('\n', out) == EOF || fflush(out) == EOF)
            status = status_errno(errno, "write");
    }
    if (!status.code && ferror(in))
        status = status_errno(errno, "read");
    line_reader_deinit(&lines);
    token_list_deinit(&filter.ids);
    json_writer_deinit(&filter.writer);
    arena_deinit(&filter.arena);
    encoder_destroy(&filter.encoder);
    return status;
}
