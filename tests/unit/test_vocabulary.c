/* test_vocabulary.c - ids to bytes, from tokenizer.json. */
#include "common/vocabulary.h"

#include <string.h>

#include "common/vocabulary_builder.h"
#include "tests/unit/check_main.h"
#include "tests/unit/golden_lines.h"
#include "tests/unit/small_tokenizer.h"

static struct vocabulary load(const char *name)
{
    struct vocabulary vocabulary = {0};
    struct file_map map = {0};
    struct status status = file_map_open(&map, lines_path(name));

    ck_assert_msg(!status.code, "%s", status.msg);
    status = vocabulary_load(&vocabulary, map.data, map.size);
    ck_assert_msg(!status.code, "%s: %s", name, status.msg);
    file_map_close(&map);
    return vocabulary;
}

static void check_bytes(const struct vocabulary *vocabulary, int32_t token, const char *bytes,
                        size_t size)
{
    const uint8_t *found = NULL;
    size_t found_size = vocabulary_bytes(vocabulary, token, &found);

    ck_assert_msg(found_size == size, "token %d: %zu bytes, not %zu", token, found_size, size);
    ck_assert_int_eq(size ? memcmp(found, bytes, size) : 0, 0);
}

START_TEST(tokens_of_qwen3)
{
    struct vocabulary vocabulary = load("qwen3/tokenizer.json");

    ck_assert_int_eq(vocabulary.num_tokens, 151669);
    check_bytes(&vocabulary, 0, "!", 1);
    check_bytes(&vocabulary, 785, "The", 3);
    check_bytes(&vocabulary, 279, " the", 4);
    check_bytes(&vocabulary, 198, "\n", 1);
    check_bytes(&vocabulary, 188, "\0", 1);
    check_bytes(&vocabulary, 151645, "<|im_end|>", 10);
    check_bytes(&vocabulary, 151667, "<think>", 7);
    check_bytes(&vocabulary, 151669, "", 0);
    check_bytes(&vocabulary, -1, "", 0);
    ck_assert(vocabulary_is_special(&vocabulary, 151645));
    ck_assert(!vocabulary_is_special(&vocabulary, 151667));
    ck_assert(!vocabulary_is_special(&vocabulary, 785));
    ck_assert(!vocabulary_is_special(&vocabulary, -1));
    ck_assert_int_eq(vocabulary_find_added(&vocabulary, "<think>", 7), 151667);
    ck_assert_int_eq(vocabulary_find_added(&vocabulary, "The", 3), -1);
    vocabulary_deinit(&vocabulary);
}
END_TEST

struct decoding {
    struct vocabulary vocabulary;
    const char *mini;
    size_t num_checked;
};

/* Where the whole is valid UTF-8, the tokens' bytes side by side are the decoded text. */
static void check_line(void *context, const struct json_value *line)
{
    struct decoding *decoding = context;
    const struct json_value *ids = json_get(line, "ids");
    const struct json_value *decoded = json_get(line, "decoded"),
                            *skip = json_get(line, "decoded_skip");
    static char text[2][1 << 20];
    size_t size[2] = {0, 0};

    if (!json_is(json_get(line, "tokenizer"), decoding->mini))
        return;
    for (size_t i = 0; i < ids->num_items; i++) {
        int32_t id = (int32_t)ids->items[i].integer;
        const uint8_t *bytes = NULL;
        size_t n = vocabulary_bytes(&decoding->vocabulary, id, &bytes);
        for (int s = 0; s < 2; s++) {
            if (n && !(s == 1 && vocabulary_is_special(&decoding->vocabulary, id)))
                memcpy(text[s] + size[s], bytes, n);
            if (!(s == 1 && vocabulary_is_special(&decoding->vocabulary, id)))
                size[s] += n;
        }
    }
    if (memmem(decoded->text.data, decoded->text.size, "\xEF\xBF\xBD", 3))
        return;
    const struct json_value *expected[] = {decoded, skip};
    for (int s = 0; s < 2; s++) {
        const struct json_value *id = json_get(line, "id");
        ck_assert_msg(size[s] == expected[s]->text.size &&
                          memcmp(text[s], expected[s]->text.data, size[s]) == 0,
                      "%s: \"%.*s\"", id->text.data, (int)size[s], text[s]);
    }
    decoding->num_checked++;
}

START_TEST(tokens_side_by_side_are_the_text)
{
    static const char *const names[] = {"mini_deepseek", "mini_gpt2", "mini_llama3", "mini_o200k",
                                        "mini_qwen"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct decoding decoding = {.mini = names[i]};
        char name[64];
        snprintf(name, sizeof(name), "golden/mini/%s.json", names[i]);
        decoding.vocabulary = load(name);
        lines_each("golden/encode_mini.jsonl", check_line, &decoding);
        ck_assert_uint_gt(decoding.num_checked, 80);
        vocabulary_deinit(&decoding.vocabulary);
    }
}
END_TEST

START_TEST(bytes_and_their_characters)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[2];
        uint8_t bytes[2];
        size_t size = small_character(byte, text);
        ck_assert_uint_eq(byte_level_decode(text, size, bytes), 1);
        ck_assert_uint_eq(bytes[0], byte);
    }
    uint8_t bytes[8];
    ck_assert_uint_eq(byte_level_decode(" ", 1, bytes), SIZE_MAX);
    ck_assert_uint_eq(byte_level_decode("\xC2\xA0", 2, bytes), SIZE_MAX);
    ck_assert_uint_eq(byte_level_decode("\xC2\xAD", 2, bytes), SIZE_MAX);
    ck_assert_uint_eq(byte_level_decode("\xC5\x84", 2, bytes), SIZE_MAX);
    ck_assert_uint_eq(byte_level_decode("\xE4\xBD\xA0", 3, bytes), SIZE_MAX);
    ck_assert_uint_eq(byte_level_decode("a\x7F", 2, bytes), SIZE_MAX);
}
END_TEST

#define MODEL   "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u0120b\":3},\"merges\":[]}"
#define DECODER "\"decoder\":{\"type\":\"ByteLevel\"}"

START_TEST(added_tokens_take_their_ids)
{
    const char *json = "{\"added_tokens\":[{\"id\":1,\"content\":\"<x y>\",\"special\":true},"
                       "{\"id\":3,\"content\":\"caf\xC3\xA9\"}]," DECODER "," MODEL "}";
    struct vocabulary vocabulary = {0};
    struct status status = vocabulary_load(&vocabulary, json, strlen(json));

    ck_assert_msg(!status.code, "%s", status.msg);
    ck_assert_int_eq(vocabulary.num_tokens, 4);
    check_bytes(&vocabulary, 0, "a", 1);
    check_bytes(&vocabulary, 1, "<x y>", 5);
    check_bytes(&vocabulary, 2, "", 0);
    check_bytes(&vocabulary, 3, "caf\xE9", 4); /* the decoder takes each character for a byte */
    ck_assert_int_eq(vocabulary.flags[2], 0);
    ck_assert_int_eq(vocabulary.flags[3], VOCABULARY_PRESENT | VOCABULARY_ADDED);
    vocabulary_deinit(&vocabulary);
}
END_TEST

START_TEST(what_is_not_understood_is_refused_by_name)
{
    static const struct {
        const char *json;
        enum status_code code;
        const char *name;
    } cases[] = {
        {"{" DECODER "," MODEL "}", STATUS_OK, ""},
        {"{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},{\"type\":"
         "\"Fuse\"}]}," MODEL "}",
         STATUS_OK, ""},
        {"{" MODEL "}", STATUS_UNSUPPORTED, "decoder"},
        {"{\"decoder\":null," MODEL "}", STATUS_UNSUPPORTED, "decoder"},
        {"{\"decoder\":{\"type\":\"WordPiece\"}," MODEL "}", STATUS_UNSUPPORTED, "WordPiece"},
        {"{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"}]}," MODEL
         "}",
         STATUS_UNSUPPORTED, "ByteFallback"},
        {"{" DECODER ",\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", STATUS_UNSUPPORTED,
         "WordLevel"},
        {"{" DECODER ",\"model\":{\"vocab\":[]}}", STATUS_UNSUPPORTED, "vocab"},
        {"{" DECODER ",\"model\":{\"type\":\"BPE\"}}", STATUS_FORMAT, "vocab"},
        {"{" DECODER "}", STATUS_FORMAT, "model"},
        {"{" DECODER ",\"added_tokens\":[{\"id\":1}]," MODEL "}", STATUS_FORMAT, "added_tokens"},
        {"{" DECODER ",\"added_tokens\":[{\"id\":99999999,\"content\":\"<a>\"}]," MODEL "}",
         STATUS_UNSUPPORTED, "<a>"},
        {"{" DECODER "," MODEL, STATUS_FORMAT, "line 1"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vocabulary vocabulary = {0};
        struct status status = vocabulary_load(&vocabulary, cases[i].json, strlen(cases[i].json));
        ck_assert_msg(status.code == cases[i].code, "%s: %s", cases[i].json, status.msg);
        ck_assert_msg(strstr(status.msg, cases[i].name), "%s: %s", cases[i].json, status.msg);
        vocabulary_deinit(&vocabulary);
    }
}
END_TEST

START_TEST(a_directory_without_the_file)
{
    struct vocabulary vocabulary = {0};

    ck_assert_int_eq(vocabulary_open(&vocabulary, "/nonexistent").code, STATUS_NOT_FOUND);
}
END_TEST

CHECK_MAIN("vocabulary", tokens_of_qwen3, tokens_side_by_side_are_the_text,
           bytes_and_their_characters, added_tokens_take_their_ids,
           what_is_not_understood_is_refused_by_name, a_directory_without_the_file)
