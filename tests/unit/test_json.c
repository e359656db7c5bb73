/* test_json.c - the reader, the tree and the writer of common/json.h. */
#include "common/json.h"

#include <string.h>

#include "tests/unit/check_main.h"

static struct status parse(const char *text, struct arena *arena, struct json_value **out)
{
    return json_parse(text, strlen(text), arena, out);
}

START_TEST(tree_keeps_order_and_types)
{
    struct arena arena;
    struct json_value *value;

    arena_init(&arena, 0, 0);
    ck_assert_int_eq(parse("{\"b\": [1, -2.5e3, true, null], \"a\": \"x\\n\\u00e9\\ud83d\\ude00\"}",
                           &arena, &value)
                         .code,
                     STATUS_OK);
    ck_assert_int_eq((int)value->num_items, 2);
    ck_assert(json_text_is(value->keys[0], "b"));
    const struct json_value *list = json_get(value, "b");
    ck_assert_int_eq((int)list->num_items, 4);
    ck_assert(list->items[0].is_integer && list->items[0].integer == 1);
    ck_assert(!list->items[1].is_integer);
    ck_assert_double_eq(list->items[1].number, -2500.0);
    ck_assert(list->items[2].boolean);
    ck_assert_int_eq((int)list->items[3].type, JSON_NULL);
    ck_assert(json_is(json_get(value, "a"), "x\n\xC3\xA9\xF0\x9F\x98\x80"));
    ck_assert_ptr_null(json_get(value, "c"));
    arena_deinit(&arena);
}
END_TEST

START_TEST(big_integers_keep_their_digits)
{
    struct arena arena;
    struct json_value *value;

    arena_init(&arena, 0, 0);
    ck_assert_int_eq(parse("9007199254740993", &arena, &value).code, STATUS_OK);
    ck_assert(value->is_integer && value->integer == 9007199254740993);
    ck_assert_int_eq(parse("-9223372036854775808", &arena, &value).code, STATUS_OK);
    ck_assert(value->is_integer && value->integer == INT64_MIN);
    ck_assert_int_eq(parse("123456789012345678901234567890", &arena, &value).code, STATUS_OK);
    ck_assert(!value->is_integer);
    ck_assert(json_text_is(value->text, "123456789012345678901234567890"));
    arena_deinit(&arena);
}
END_TEST

START_TEST(malformed_text_is_refused)
{
    static const char *const bad[] = {
        "",
        "{",
        "[1,]",
        "[1 2]",
        "{\"a\" 1}",
        "{\"a\":1,}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "nul",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\\udc00x\"",
        "\"\\ud83dx\"",
        "\"a\nb\"",
        "\"\xC0\x80\"",
        "\"\xED\xA0\x80\"",
        "\"abc",
        "1 2",
        "NaN",
        "'a'",
        "[1}",
        "{1:2}",
        "\"\xF5\x80\x80\x80\"",
        "-",
    };
    struct arena arena;
    struct json_value *value = NULL;

    arena_init(&arena, 0, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct status status = parse(bad[i], &arena, &value);
        ck_assert_msg(status.code == STATUS_FORMAT, "accepted: %s", bad[i]);
        ck_assert_ptr_null(value);
    }
    arena_deinit(&arena);
}
END_TEST

START_TEST(depth_is_bounded)
{
    enum { DEEP = 100000 };
    static char text[DEEP];
    struct arena arena;
    struct json_value *value;

    arena_init(&arena, 0, 0);
    memset(text, '[', sizeof(text));
    ck_assert_int_eq(json_parse(text, sizeof(text), &arena, &value).code, STATUS_FORMAT);
    struct json_reader reader;
    json_reader_init(&reader, text, sizeof(text));
    ck_assert(!json_skip(&reader));
    json_reader_deinit(&reader);
    arena_deinit(&arena);
}
END_TEST

START_TEST(nul_in_strings_survives)
{
    struct arena arena;
    struct json_value *value;

    arena_init(&arena, 0, 0);
    ck_assert_int_eq(parse("\"a\\u0000b\"", &arena, &value).code, STATUS_OK);
    ck_assert_int_eq((int)value->text.size, 3);
    ck_assert_mem_eq(value->text.data, "a\0b", 4);
    arena_deinit(&arena);
}
END_TEST

START_TEST(pull_reader_follows_the_text)
{
    const char *text = "\xEF\xBB\xBF{\"skip\": {\"x\": [1, {\"y\": \"\\\"\"}]}, \"n\": 7, "
                       "\"list\": [\"a\", \"b\\t\"]}";
    struct json_reader reader;
    struct json_text key, item;
    int64_t n = 0;
    int items = 0;

    json_reader_init(&reader, text, strlen(text));
    ck_assert(json_enter_object(&reader));
    while (json_next_key(&reader, &key)) {
        if (json_text_is(key, "n")) {
            ck_assert(json_read_int(&reader, &n));
        } else if (json_text_is(key, "list")) {
            ck_assert(json_enter_array(&reader));
            while (json_next_item(&reader)) {
                ck_assert(json_read_string(&reader, &item));
                ck_assert(json_text_is(item, items++ ? "b\t" : "a"));
            }
        } else {
            ck_assert(json_skip(&reader));
        }
    }
    ck_assert(json_end(&reader));
    ck_assert_int_eq(json_reader_status(&reader).code, STATUS_OK);
    ck_assert_int_eq((int)n, 7);
    ck_assert_int_eq(items, 2);
    json_reader_deinit(&reader);
}
END_TEST

START_TEST(errors_name_the_place)
{
    struct arena arena;
    struct json_value *value;

    arena_init(&arena, 0, 0);
    struct status status = parse("{\n  \"a\": tru\n}", &arena, &value);
    ck_assert_ptr_nonnull(strstr(status.msg, "line 2, column 8"));
    arena_deinit(&arena);
}
END_TEST

START_TEST(writer_output_reads_back)
{
    struct json_writer writer = {0};
    struct arena arena;
    struct json_value *value;

    json_begin_object(&writer);
    json_key(&writer, "text");
    json_string(&writer, "q\"\\\n\x01\xC3\xA9\xFF", 8);
    json_key(&writer, "list");
    json_begin_array(&writer);
    json_int(&writer, -5);
    json_double(&writer, 0.1);
    json_bool(&writer, false);
    json_null(&writer);
    json_begin_object(&writer);
    json_end_object(&writer);
    json_end_array(&writer);
    json_end_object(&writer);
    ck_assert(!writer.failed);
    ck_assert_str_eq(writer.data, "{\"text\":\"q\\\"\\\\\\n\\u0001\xC3\xA9\xEF\xBF\xBD\",\"list\":"
                                  "[-5,0.1,false,null,{}]}");
    arena_init(&arena, 0, 0);
    ck_assert_int_eq(json_parse(writer.data, writer.size, &arena, &value).code, STATUS_OK);
    struct json_writer again = {0};
    json_write_value(&again, value);
    ck_assert_str_eq(again.data, writer.data);
    json_writer_deinit(&again);
    json_writer_deinit(&writer);
    arena_deinit(&arena);
}
END_TEST

START_TEST(a_file_is_a_tree)
{
    const char *dir = getenv("MINISGL_TEST_DATA");
    struct arena arena;
    struct json_value *value = NULL;

    arena_init(&arena, 0, 0);
    ck_assert_int_eq(json_parse_file(dir, "none.json", 1 << 20, &arena, &value).code,
                     STATUS_NOT_FOUND);
    ck_assert(json_parse_file(dir, "tiny_models/llama/config.json", 8, &arena, &value).code !=
              STATUS_OK);
    ck_assert_ptr_null(value);
    ck_assert_int_eq(
        json_parse_file(dir, "tiny_models/llama/config.json", 1 << 20, &arena, &value).code,
        STATUS_OK);
    ck_assert(json_is(json_get(value, "model_type"), "llama"));
    arena_deinit(&arena);
}
END_TEST

CHECK_MAIN("json", tree_keeps_order_and_types, big_integers_keep_their_digits,
           malformed_text_is_refused, depth_is_bounded, nul_in_strings_survives,
           pull_reader_follows_the_text, errors_name_the_place, writer_output_reads_back,
           a_file_is_a_tree)
