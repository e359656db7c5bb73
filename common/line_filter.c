/* line_filter.c - see line_filter.h. */
#include "common/line_filter.h"

#include <errno.h>
#include <string.h>

#include "common/line_reader.h"

static void begin(struct json_writer *out, const struct json_value *line)
{
    const struct json_value *id = json_get(line, "id");

    json_writer_reset(out);
    json_begin_object(out);
    if (id) {
        json_key(out, "id");
        json_write_value(out, id);
    }
}

static struct status end(struct json_writer *out)
{
    json_end_object(out);
    return out->failed ? status_error(STATUS_NO_MEMORY, "no memory for an answer") : status_ok();
}

static struct status put_error(struct json_writer *out, const struct json_value *line,
                               const struct status *status)
{
    begin(out, line);
    json_put_cstring(out, "error", status->msg);
    return end(out);
}

struct status line_filter_line(const struct line_filter *filter, const char *line, size_t size,
                               struct arena *arena, struct json_writer *out)
{
    struct json_value *value = NULL;
    struct status status = json_parse(line, size, arena, &value);

    if (!status.code && value->type != JSON_OBJECT)
        status = status_error(STATUS_FORMAT, "a line must hold an object");
    if (!status.code) {
        begin(out, value);
        status = filter->answer(filter->context, value, arena, out);
    }
    return status.code ? put_error(out, value, &status) : end(out);
}

static bool is_blank(const struct line_reader *lines)
{
    size_t i = 0;

    while (i < lines->size && memchr(" \t\r", lines->data[i], 3))
        i++;
    return i == lines->size;
}

static struct status write_line(const struct json_writer *text, FILE *out)
{
    if (fwrite(text->data, 1, text->size, out) != text->size || fputc('\n', out) == EOF ||
        fflush(out) == EOF)
        return status_errno(errno, "write");
    return status_ok();
}

struct status line_filter_run(const struct line_filter *filter, FILE *in, FILE *out)
{
    struct line_reader lines = {.file = in, .max_size = filter->max_line_bytes};
    struct status status = status_ok();
    struct json_writer text = {0};
    struct arena arena;

    arena_init(&arena, 0, filter->max_memory);
    while (!status.code && line_reader_next(&lines)) {
        if (!lines.status.code && is_blank(&lines))
            continue;
        arena_reset(&arena);
        if (lines.status.code)
            status = put_error(&text, NULL, &lines.status);
        else
            status = line_filter_line(filter, lines.data, lines.size, &arena, &text);
        if (!status.code)
            status = write_line(&text, out);
    }
    if (!status.code && ferror(in))
        status = status_errno(errno, "read");
    line_reader_deinit(&lines);
    json_writer_deinit(&text);
    arena_deinit(&arena);
    return status;
}
