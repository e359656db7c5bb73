/*
 * test_stream_golden.c - decode and stream over Qwen3's vocabulary against Hugging Face's answers
 * (tests/data/golden/decode.jsonl).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/json.h"
#include "common/utf8.h"
#include "detokenizer_proc/stream.h"
#include "tests/unit/check_main.h"

static struct vocabulary vocabulary;
static struct arena arena;
static int num_cases[2]; /* decode, stream */

static int32_t *read_ids(const struct json_value *ids)
{
    int32_t *out = arena_alloc(&arena, (ids->num_items + 1) * sizeof(*out));

    for (size_t i = 0; i < ids->num_items; i++)
        out[i] = (int32_t)ids->items[i].integer;
    return out;
}

static void check_decode(const struct json_value *value, const char *id)
{
    const struct json_value *ids = json_get(value, "ids"), *text = json_get(value, "text");
    const struct json_value *skip = json_get(value, "skip_special_tokens");
    char *out = NULL;
    size_t size = 0;

    ck_assert_int_eq(stream_decode(&vocabulary, read_ids(ids), ids->num_items,
                                   skip && skip->boolean, &out, &size)
                         .code,
                     STATUS_OK);
    ck_assert_msg(size == text->text.size && memcmp(out, text->text.data, size) == 0,
                  "%s: \"%s\" instead of \"%s\"", id, out, text->text.data);
    free(out);
}

static void check_stream(const struct json_value *value, const char *id)
{
    const struct json_value *ids = json_get(value, "ids"), *text = json_get(value, "text");
    const struct json_value *max_bytes = json_get(value, "max_bytes");
    const int32_t *tokens = read_ids(ids);
    char *out = malloc(3 * text->text.size + 4096);
    struct stream stream;
    bool matched = false;
    size_t size = 0;

    stream_init(&stream, NULL, false);
    for (size_t i = 0; i < ids->num_items; i++) {
        size_t n = stream_feed(&stream, &vocabulary, tokens[i], out + size, &matched);
        ck_assert_msg(utf8_is_valid(out + size, n), "%s: piece %zu is not UTF-8", id, i);
        size += n;
        ck_assert_msg(!max_bytes || size <= (size_t)max_bytes->items[i].integer,
                      "%s: %zu bytes sent after %zu ids", id, size, i + 1);
        /* At most the start of one character waits. */
        ck_assert_msg(!max_bytes || size + 3 >= (size_t)max_bytes->items[i].integer,
                      "%s: %zu bytes sent after %zu ids", id, size, i + 1);
    }
    size += stream_flush(&stream, out + size, &matched);
    ck_assert_msg(size == text->text.size && memcmp(out, text->text.data, size) == 0,
                  "%s: \"%.*s\" instead of \"%s\"", id, (int)size, out, text->text.data);
    free(out);
}

static void check_line(const char *line, size_t size)
{
    struct json_value *value = NULL;
    struct status status = json_parse(line, size, &arena, &value);

    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    bool is_stream = json_is(json_get(value, "kind"), "stream");
    const char *id = json_get(value, "id")->text.data;
    check_decode(value, id);
    if (is_stream)
        check_stream(value, id);
    num_cases[is_stream]++;
}

START_TEST(decode_and_stream_as_hugging_face)
{
    const char *data = getenv("MINISGL_TEST_DATA");
    char path[512], *lines = NULL;
    size_t size = 0;

    ck_assert_ptr_nonnull(data);
    snprintf(path, sizeof(path), "%s/qwen3", data);
    struct status status = vocabulary_open(&vocabulary, path);
    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    snprintf(path, sizeof(path), "%s/golden/decode.jsonl", data);
    status = file_read(path, 64 << 20, &lines, &size);
    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    arena_init(&arena, 0, 0);
    for (char *line = lines, *end; line < lines + size; line = end + 1) {
        end = strchr(line, '\n');
        if (!end)
            break;
        check_line(line, (size_t)(end - line));
        arena_reset(&arena);
    }
    ck_assert_int_eq(num_cases[0], 513);
    ck_assert_int_eq(num_cases[1], 214);
    arena_deinit(&arena);
    free(lines);
    vocabulary_deinit(&vocabulary);
}
END_TEST

CHECK_MAIN("stream_golden", decode_and_stream_as_hugging_face)
