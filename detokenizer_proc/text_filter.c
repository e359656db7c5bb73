/* text_filter.c - see text_filter.h. */
#include "detokenizer_proc/text_filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "detokenizer_proc/stream.h"

/* What one line may take: a tree of JSON values is some 50 times as large as its text. */
enum { ARENA_MAX_SIZE = 1 << 30 };

struct input {
    int32_t *ids; /* in the arena */
    size_t num_ids;
    bool skip_special;
};

/* A number beyond int32 is beyond every vocabulary too, so it stays an id of no token. */
static struct status read_ids(const struct json_value *ids, struct arena *arena,
                              struct input *input)
{
    if (!ids || ids->type != JSON_ARRAY)
        return status_error(STATUS_INVALID, "ids: must be an array of integers");
    input->ids = arena_alloc(arena, (ids->num_items + 1) * sizeof(int32_t));
    if (!input->ids)
        return status_error(STATUS_NO_MEMORY, "no memory for %zu ids", ids->num_items);
    input->num_ids = ids->num_items;
    for (size_t i = 0; i < ids->num_items; i++) {
        const struct json_value *id = &ids->items[i];
        if (id->type != JSON_NUMBER || !id->is_integer)
            return status_error(STATUS_INVALID, "ids[%zu]: must be an integer", i);
        bool fits = id->integer >= 0 && id->integer <= INT32_MAX;
        input->ids[i] = fits ? (int32_t)id->integer : -1;
    }
    return status_ok();
}

static struct status read_input(const struct json_value *line, struct arena *arena,
                                struct input *input)
{
    const struct json_value *skip = json_get(line, "skip_special_tokens");

    if (line->type != JSON_OBJECT)
        return status_error(STATUS_INVALID, "a line must hold an object");
    if (skip && skip->type != JSON_BOOL)
        return status_error(STATUS_INVALID, "skip_special_tokens: must be true or false");
    input->skip_special = skip && skip->boolean;
    return read_ids(json_get(line, "ids"), arena, input);
}

static struct status write_decode(const struct vocabulary *vocabulary, const struct input *input,
                                  struct json_writer *out)
{
    char *text = NULL;
    size_t size = 0;
    struct status status =
        stream_decode(vocabulary, input->ids, input->num_ids, input->skip_special, &text, &size);

    if (status.code)
        return status;
    json_key(out, "text");
    json_string(out, text, size);
    free(text);
    return status;
}

/* The most bytes that a piece may have, the flush with it. */
static size_t piece_room(const struct vocabulary *vocabulary, const struct input *input)
{
    const uint8_t *bytes;
    size_t longest = 0;

    for (size_t i = 0; i < input->num_ids; i++) {
        size_t size = vocabulary_bytes(vocabulary, input->ids[i], &bytes);
        longest = size > longest ? size : longest;
    }
    return utf8_lossy_room(longest) + UTF8_LOSSY_FLUSH_ROOM;
}

static struct status write_pieces(const struct vocabulary *vocabulary, const struct input *input,
                                  struct arena *arena, struct json_writer *out)
{
    struct stream stream;
    bool matched = false;
    char *piece = arena_alloc(arena, piece_room(vocabulary, input));

    if (!piece)
        return status_error(STATUS_NO_MEMORY, "no memory for a piece of text");
    stream_init(&stream, NULL, input->skip_special);
    json_key(out, "pieces");
    json_begin_array(out);
    for (size_t i = 0; i < input->num_ids; i++) {
        size_t size = stream_feed(&stream, vocabulary, input->ids[i], piece, &matched);
        if (i + 1 == input->num_ids)
            size += stream_flush(&stream, piece + size, &matched);
        json_string(out, piece, size);
    }
    json_end_array(out);
    return status_ok();
}

static void begin_line(struct json_writer *out, const struct json_value *id)
{
    json_writer_reset(out);
    json_begin_object(out);
    if (id) {
        json_key(out, "id");
        json_write_value(out, id);
    }
}

struct status text_filter_line(enum text_filter filter, const struct vocabulary *vocabulary,
                               const char *line, size_t size, struct arena *arena,
                               struct json_writer *out)
{
    struct json_value *value = NULL;
    struct input input = {0};
    struct status status = json_parse(line, size, arena, &value);

    if (!status.code)
        status = read_input(value, arena, &input);
    begin_line(out, json_get(value, "id"));
    if (!status.code) {
        if (filter == TEXT_FILTER_DECODE)
            status = write_decode(vocabulary, &input, out);
        else
            status = write_pieces(vocabulary, &input, arena, out);
    }
    if (status.code) {
        begin_line(out, json_get(value, "id"));
        json_put_cstring(out, "error", status.msg);
    }
    json_end_object(out);
    return out->failed ? status_error(STATUS_NO_MEMORY, "no memory for a line") : status_ok();
}

static void write_too_long(struct json_writer *out)
{
    begin_line(out, NULL);
    json_put_cstring(out, "error", "the line is too long");
    json_end_object(out);
}

struct line {
    char *data; /* owned */
    size_t size, capacity;
    bool too_long; /* data holds its start, the rest has been read over */
};

static bool line_grow(struct line *line)
{
    size_t capacity = line->capacity ? 2 * line->capacity : 4096;
    char *data = realloc(line->data, capacity);

    if (!data)
        return false;
    line->data = data;
    line->capacity = capacity;
    return true;
}

/* Reads up to a line feed, which is left out; false at the end of the file. */
static bool read_line(FILE *in, struct line *line)
{
    int c;

    line->size = 0;
    line->too_long = false;
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
        if (line->size == TEXT_FILTER_MAX_LINE ||
            (line->size == line->capacity && !line_grow(line)))
            line->too_long = true;
        if (!line->too_long)
            line->data[line->size++] = (char)c;
    }
    return c != EOF || line->size > 0;
}

static bool is_blank(const struct line *line)
{
    for (size_t i = 0; i < line->size; i++)
        if (line->data[i] != ' ' && line->data[i] != '\t' && line->data[i] != '\r')
            return false;
    return true;
}

struct status text_filter_run(enum text_filter filter, const struct vocabulary *vocabulary,
                              FILE *in, FILE *out)
{
    struct status status = status_ok();
    struct line line = {0};
    struct json_writer writer = {0};
    struct arena arena;

    arena_init(&arena, 0, ARENA_MAX_SIZE);
    while (read_line(in, &line)) {
        if (is_blank(&line))
            continue;
        arena_reset(&arena);
        if (line.too_long)
            write_too_long(&writer);
        else
            status = text_filter_line(filter, vocabulary, line.data, line.size, &arena, &writer);
        if (status.code)
            goto out;
        fwrite(writer.data, 1, writer.size, out);
        if (fputc('\n', out) == EOF || fflush(out) == EOF) {
            status = status_errno(errno, "writing a line");
            goto out;
        }
    }
    if (ferror(in))
        status = status_errno(errno, "reading a line");
out:
    arena_deinit(&arena);
    json_writer_deinit(&writer);
    free(line.data);
    return status;
}
