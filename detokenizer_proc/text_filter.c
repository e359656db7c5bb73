/* text_filter.c - see text_filter.h. */
#include "detokenizer_proc/text_filter.h"

#include <stdlib.h>

#include "common/line_filter.h"
#include "detokenizer_proc/stream.h"

/* What one line may take: a tree of JSON values is some 50 times as large as its text. */
enum { ARENA_MAX_SIZE = 1 << 30 };

struct filter {
    enum text_filter kind;
    const struct vocabulary *vocabulary;
};

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

static struct status answer(void *context, const struct json_value *line, struct arena *arena,
                            struct json_writer *out)
{
    const struct filter *filter = context;
    struct input input = {0};
    struct status status = read_input(line, arena, &input);

    if (status.code)
        return status;
    if (filter->kind == TEXT_FILTER_DECODE)
        return write_decode(filter->vocabulary, &input, out);
    return write_pieces(filter->vocabulary, &input, arena, out);
}

static struct line_filter filter_of(struct filter *filter)
{
    return (struct line_filter){.answer = answer,
                                .context = filter,
                                .max_line_bytes = TEXT_FILTER_MAX_LINE,
                                .max_memory = ARENA_MAX_SIZE};
}

struct status text_filter_line(enum text_filter kind, const struct vocabulary *vocabulary,
                               const char *line, size_t size, struct arena *arena,
                               struct json_writer *out)
{
    struct filter filter = {.kind = kind, .vocabulary = vocabulary};
    struct line_filter lines = filter_of(&filter);

    return line_filter_line(&lines, line, size, arena, out);
}

struct status text_filter_run(enum text_filter kind, const struct vocabulary *vocabulary, FILE *in,
                              FILE *out)
{
    struct filter filter = {.kind = kind, .vocabulary = vocabulary};
    struct line_filter lines = filter_of(&filter);

    return line_filter_run(&lines, in, out);
}
