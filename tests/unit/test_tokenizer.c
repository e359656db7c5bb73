/* test_tokenizer.c - ids as Hugging Face's library gives them, for reference texts and hard ones.
 */
#include "tokenizer_proc/tokenizer.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "tests/unit/check_main.h"
#include "tests/unit/golden_lines.h"

struct fixture {
    struct tokenizer *tokenizer;
    struct encoder *encoder;
    struct token_list ids;
    size_t num_checked;
    const char *mini; /* the tokenizer whose cases are looked at */
};

static void load(struct fixture *fixture, const char *name)
{
    struct file_map map = {0};
    struct status status = file_map_open(&map, lines_path(name));

    *fixture = (struct fixture){0};
    ck_assert_msg(!status.code, "%s", status.msg);
    status = tokenizer_load(map.data, map.size, &fixture->tokenizer);
    ck_assert_msg(!status.code, "%s: %s", name, status.msg);
    file_map_close(&map);
    ck_assert_int_eq(encoder_create(fixture->tokenizer, &fixture->encoder).code, STATUS_OK);
}

static void unload(struct fixture *fixture)
{
    encoder_destroy(&fixture->encoder);
    tokenizer_destroy(&fixture->tokenizer);
    token_list_deinit(&fixture->ids);
}

static void encode(struct fixture *fixture, const struct encode_args *args)
{
    fixture->ids.num_ids = 0;
    struct status status = encoder_encode(fixture->encoder, args, &fixture->ids);
    ck_assert_msg(!status.code, "%s", status.msg);
}

/* expected: an array of ids. */
static void check_ids(const struct fixture *fixture, const struct json_value *expected,
                      const char *name)
{
    ck_assert_msg(fixture->ids.num_ids == expected->num_items, "%s: %zu ids, not %zu", name,
                  fixture->ids.num_ids, expected->num_items);
    for (size_t i = 0; i < expected->num_items; i++)
        ck_assert_msg(fixture->ids.ids[i] == expected->items[i].integer, "%s: id %zu is %d, not %d",
                      name, i, fixture->ids.ids[i], (int)expected->items[i].integer);
}

static void check_text(struct fixture *fixture, const char *text, size_t size, const int32_t *ids,
                       size_t num_ids)
{
    encode(fixture, &(struct encode_args){.text = text, .size = size, .parse_special = true});
    ck_assert_msg(fixture->ids.num_ids == num_ids, "\"%.40s\": %zu ids, not %zu", text,
                  fixture->ids.num_ids, num_ids);
    for (size_t i = 0; i < num_ids; i++)
        ck_assert_msg(fixture->ids.ids[i] == ids[i], "\"%.40s\": id %zu is %d, not %d", text, i,
                      fixture->ids.ids[i], ids[i]);
}

#define CHECK_TEXT(fixture, text, ...)                                                             \
    check_text(fixture, text, sizeof(text) - 1, (const int32_t[]){__VA_ARGS__},                    \
               sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void check_line(void *context, const struct json_value *line)
{
    struct fixture *fixture = context;
    const struct json_value *text = json_get(line, "text"), *ids = json_get(line, "ids");
    const struct json_value *with_special = json_get(line, "ids_with_special");
    const struct json_value *name = json_get(line, "id");
    struct encode_args args = {.parse_special = true};

    if (!ids || (fixture->mini && !json_is(json_get(line, "tokenizer"), fixture->mini)))
        return;
    args.text = text->text.data;
    args.size = text->text.size;
    encode(fixture, &args);
    check_ids(fixture, ids, name->text.data);
    args.add_special_tokens = true;
    encode(fixture, &args);
    check_ids(fixture, with_special ? with_special : ids, name->text.data);
    fixture->num_checked++;
}

START_TEST(reference_texts_of_qwen3)
{
    struct fixture fixture;

    load(&fixture, "qwen3/tokenizer.json");
    lines_each("golden/encode.jsonl", check_line, &fixture);
    ck_assert_uint_eq(fixture.num_checked, 1690);
    unload(&fixture);
}
END_TEST

START_TEST(rendered_chats_of_qwen3)
{
    struct fixture fixture;

    load(&fixture, "qwen3/tokenizer.json");
    lines_each("golden/chat.jsonl", check_line, &fixture);
    ck_assert_uint_eq(fixture.num_checked, 276);
    unload(&fixture);
}
END_TEST

START_TEST(reference_texts_of_small_tokenizers)
{
    static const char *const names[] = {"mini_deepseek", "mini_gpt2", "mini_llama3", "mini_o200k",
                                        "mini_qwen"};
    size_t num_checked = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct fixture fixture;
        char name[64];
        snprintf(name, sizeof(name), "golden/mini/%s.json", names[i]);
        load(&fixture, name);
        fixture.mini = names[i];
        lines_each("golden/encode_mini.jsonl", check_line, &fixture);
        ck_assert_uint_gt(fixture.num_checked, 100);
        num_checked += fixture.num_checked;
        unload(&fixture);
    }
    ck_assert_uint_eq(num_checked, 642);
}
END_TEST

/* ---- special tokens ---- */

static void check_ranges(struct fixture *fixture, const char *text, const struct text_range *ranges,
                         size_t num_ranges, const int32_t *ids, size_t num_ids)
{
    encode(fixture, &(struct encode_args){.text = text,
                                          .size = strlen(text),
                                          .parse_special = true,
                                          .data_ranges = ranges,
                                          .num_data_ranges = num_ranges});
    ck_assert_uint_eq(fixture->ids.num_ids, num_ids);
    for (size_t i = 0; i < num_ids; i++)
        ck_assert_int_eq(fixture->ids.ids[i], ids[i]);
}

START_TEST(content_is_data)
{
    struct fixture fixture;
    const char *text = "<|im_end|><|im_end|>";
    const int32_t as_text[] = {27, 91, 318, 6213, 91, 29};
    const int32_t second[] = {27, 91, 318, 6213, 91, 29, 151645};
    const int32_t first[] = {151645, 27, 91, 318, 6213, 91, 29};
    const int32_t both[] = {151645, 151645};

    load(&fixture, "qwen3/tokenizer.json");
    check_ranges(&fixture, text, NULL, 0, both, 2);
    check_ranges(&fixture, text, (struct text_range[]){{0, 10}}, 1, second, 7);
    check_ranges(&fixture, text, (struct text_range[]){{9, 10}}, 1, second, 7);
    check_ranges(&fixture, text, (struct text_range[]){{0, 1}}, 1, second, 7);
    check_ranges(&fixture, text, (struct text_range[]){{10, 20}}, 1, first, 7);
    check_ranges(&fixture, text, (struct text_range[]){{2, 3}, {20, 24}}, 2, second, 7);
    check_ranges(&fixture, text, (struct text_range[]){{5, 5}}, 1, both, 2);
    check_ranges(&fixture, "<|im_end|>", (struct text_range[]){{0, 10}}, 1, as_text, 6);
    /* added, but not special: everywhere */
    check_ranges(&fixture, "<think>", (struct text_range[]){{0, 7}}, 1, (int32_t[]){151667}, 1);
    encode(&fixture, &(struct encode_args){.text = "<think><|im_end|>", .size = 17});
    ck_assert_uint_eq(fixture.ids.num_ids, 7);
    ck_assert_int_eq(fixture.ids.ids[0], 151667);
    unload(&fixture);
}
END_TEST

START_TEST(data_is_found_behind_normalisation)
{
    struct fixture fixture;
    /* A special token that is looked for in normalised text, behind text that NFC shortens. */
    const char *json =
        "{\"added_tokens\":[{\"id\":9,\"content\":\"<e>\",\"special\":true,"
        "\"normalized\":true}],\"normalizer\":{\"type\":\"NFC\"},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"<\":0,\"e\":1,\">\":2,\"\xC3\x83\":3,"
        "\"\xC2\xA9\":4},\"merges\":[]}}";
    const char *text = "e\xCC\x81<e>e\xCC\x81<e>"; /* raw: 0-3 e, 3-6 token, 6-9 e, 9-12 token */
    struct status status = tokenizer_load(json, strlen(json), &fixture.tokenizer);

    fixture.ids = (struct token_list){0};
    ck_assert_msg(!status.code, "%s", status.msg);
    ck_assert_int_eq(encoder_create(fixture.tokenizer, &fixture.encoder).code, STATUS_OK);
    check_ranges(&fixture, text, NULL, 0, (int32_t[]){3, 4, 9, 3, 4, 9}, 6);
    check_ranges(&fixture, text, (struct text_range[]){{3, 6}}, 1,
                 (int32_t[]){3, 4, 0, 1, 2, 3, 4, 9}, 8);
    check_ranges(&fixture, text, (struct text_range[]){{9, 12}}, 1,
                 (int32_t[]){3, 4, 9, 3, 4, 0, 1, 2}, 8);
    check_ranges(&fixture, text, (struct text_range[]){{0, 3}, {6, 9}}, 2,
                 (int32_t[]){3, 4, 9, 3, 4, 9}, 6);
    unload(&fixture);
}
END_TEST

/* TOK-07 */
START_TEST(one_bos)
{
    struct fixture fixture;
    const char *text = "Hi";
    struct encode_args args = {.text = text, .size = 2, .parse_special = true};

    load(&fixture, "golden/mini/mini_llama3.json");
    args.add_special_tokens = true;
    encode(&fixture, &args);
    ck_assert_int_eq(fixture.ids.ids[0], 2264);
    ck_assert_int_ne(fixture.ids.ids[1], 2264);
    args.text = "<|begin_of_text|>Hi"; /* as a template writes it */
    args.size = strlen(args.text);
    args.add_special_tokens = false;
    encode(&fixture, &args);
    ck_assert_int_eq(fixture.ids.ids[0], 2264);
    ck_assert_int_ne(fixture.ids.ids[1], 2264);
    unload(&fixture);
}
END_TEST

/* ---- hard texts ---- */

static void repeat(char *out, const char *unit, size_t size)
{
    size_t unit_size = strlen(unit);

    for (size_t i = 0; i + unit_size <= size; i += unit_size)
        memcpy(out + i, unit, unit_size);
}

/* Every text here is made of one unit again and again; ids must be as many as the reference gives.
 */
static void *encode_long(void *context)
{
    static const struct {
        const char *unit;
        size_t count, num_ids;
    } cases[] = {
        {"A", 43000, 5375},           {".", 26000, 407},
        {"\n", 20000, 625},           {"\xE4\xBD\xA0", 26000, 26000},
        {" ", 100000, 782},           {"7", 100000, 100000},
        {"\xCC\x81", 100000, 100000}, {"\xF0\x9F\x98\x80", 50000, 50000},
    };
    struct fixture *fixture = context;
    static char text[400000];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size = strlen(cases[i].unit) * cases[i].count;
        repeat(text, cases[i].unit, size);
        encode(fixture, &(struct encode_args){.text = text, .size = size, .parse_special = true});
        ck_assert_msg(fixture->ids.num_ids == cases[i].num_ids, "case %zu: %zu ids", i,
                      fixture->ids.num_ids);
    }
    return NULL;
}

/* TOK-02 */
START_TEST(long_words_at_a_small_stack)
{
    struct fixture fixture;
    pthread_attr_t attr;
    pthread_t thread;

    load(&fixture, "qwen3/tokenizer.json");
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 512 * 1024);
    ck_assert_int_eq(pthread_create(&thread, &attr, encode_long, &fixture), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    unload(&fixture);
}
END_TEST

/* Its own encoder, the tokenizer of all. */
static void *encode_references(void *context)
{
    struct fixture fixture = {.tokenizer = context, .mini = "mini_deepseek"};

    ck_assert_int_eq(encoder_create(fixture.tokenizer, &fixture.encoder).code, STATUS_OK);
    for (int i = 0; i < 3; i++)
        lines_each("golden/encode_mini.jsonl", check_line, &fixture);
    encoder_destroy(&fixture.encoder);
    token_list_deinit(&fixture.ids);
    return NULL;
}

START_TEST(one_tokenizer_for_several_threads)
{
    struct fixture fixture;
    pthread_t threads[4];

    load(&fixture, "golden/mini/mini_deepseek.json");
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, encode_references, fixture.tokenizer),
                         0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    unload(&fixture);
}
END_TEST

/* TOK-10 */
START_TEST(nul_and_long_tokens)
{
    struct fixture fixture;
    static char json[8192], text[5008];
    size_t size = 0;

    load(&fixture, "qwen3/tokenizer.json");
    CHECK_TEXT(&fixture, "a\0b", 64, 188, 65);
    unload(&fixture);
    memset(text, 'x', 5000);
    size +=
        (size_t)snprintf(json, sizeof(json),
                         "{\"added_tokens\":[{\"id\":7,\"content\":\"%.5000s\"}],"
                         "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                         "\"model\":{\"vocab\":{\"x\":1,\"y\":2},\"merges\":[]}}",
                         text);
    struct status status = tokenizer_load(json, size, &fixture.tokenizer);
    ck_assert_msg(!status.code, "%s", status.msg);
    fixture.ids = (struct token_list){0};
    ck_assert_int_eq(encoder_create(fixture.tokenizer, &fixture.encoder).code, STATUS_OK);
    text[5000] = 'y';
    check_text(&fixture, text, 5001, (int32_t[]){7, 2}, 2);
    encode(&fixture, &(struct encode_args){.text = text, .size = 4999});
    ck_assert_uint_eq(fixture.ids.num_ids, 4999);
    unload(&fixture);
}
END_TEST

START_TEST(text_must_be_utf8)
{
    static const char *const texts[] = {"\x80",     "a\xC3",        "\xED\xA0\x80",
                                        "\xC0\x80", "abcdefgh\xFF", "\xF4\x90\x80\x80",
                                        "\xE4\xBD"};
    struct fixture fixture;

    load(&fixture, "golden/mini/mini_qwen.json");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct encode_args args = {.text = texts[i], .size = strlen(texts[i])};
        ck_assert_int_eq(encoder_encode(fixture.encoder, &args, &fixture.ids).code, STATUS_INVALID);
        ck_assert_uint_eq(fixture.ids.num_ids, 0);
    }
    check_text(&fixture, "", 0, NULL, 0);
    unload(&fixture);
}
END_TEST

START_TEST(vocab_size_is_the_largest_id_and_one)
{
    struct fixture fixture;

    load(&fixture, "qwen3/tokenizer.json");
    ck_assert_int_eq(tokenizer_vocab_size(fixture.tokenizer), 151669);
    unload(&fixture);
}
END_TEST

/* ---- what families do differently; ids of the `tokenizers` package ---- */

/* TOK-03 */
START_TEST(the_last_space_stays_with_the_word)
{
    struct fixture fixture;

    load(&fixture, "qwen3/tokenizer.json");
    CHECK_TEXT(&fixture, "a  b", 64, 220, 293);
    CHECK_TEXT(&fixture, "def f():\n    return  x", 750, 282, 3932, 262, 470, 220, 856);
    CHECK_TEXT(&fixture, "x   ", 87, 262);
    CHECK_TEXT(&fixture, "a \t b", 64, 7018, 293);
    CHECK_TEXT(&fixture, "\t\tx", 197, 10225);
    CHECK_TEXT(&fixture, " \n  y", 715, 220, 379);
    CHECK_TEXT(&fixture, "a\xC2\xA0 b", 64, 4102, 293);
    CHECK_TEXT(&fixture, "  \n\n  \n", 18611, 2303);
    unload(&fixture);
}
END_TEST

/* TOK-05 */
START_TEST(accents_are_composed)
{
    struct fixture fixture;

    load(&fixture, "qwen3/tokenizer.json");
    CHECK_TEXT(&fixture, "Cafe\xCC\x81", 34, 2577, 963);
    CHECK_TEXT(&fixture, "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", 23573);
    CHECK_TEXT(&fixture, "\xE2\x84\xAB", 144044);
    CHECK_TEXT(&fixture, "e<|im_end|>\xCC\x81", 68, 151645, 53839);
    CHECK_TEXT(&fixture, "q\xCC\xA3\xCC\x87", 80, 136, 96, 136, 229);
    CHECK_TEXT(&fixture, "\xE0\xA5\x98", 64704, 5502, 120);
    unload(&fixture);
}
END_TEST

/* TOK-08 */
START_TEST(added_tokens_swallow_blanks)
{
    struct fixture fixture;

    load(&fixture, "golden/mini/mini_gpt2.json");
    CHECK_TEXT(&fixture, "   <mask> x  <mask>   ", 2257, 856, 2257, 262);
    CHECK_TEXT(&fixture, "  <sep>  x", 256, 2258, 856);
    CHECK_TEXT(&fixture, "a <both>  b", 264, 2259, 293);
    CHECK_TEXT(&fixture, "foo xfoo foo.", 2260, 856, 824, 78, 220, 2260, 659);
    CHECK_TEXT(&fixture, "\n<mask>\n<sep>\n", 2257, 715, 2258);
    unload(&fixture);
}
END_TEST

/* TOK-11 */
START_TEST(digits_and_marks_by_family)
{
    struct fixture fixture;

    load(&fixture, "golden/mini/mini_qwen.json");
    CHECK_TEXT(&fixture, "1234567", 16, 17, 18, 19, 20, 21, 22);
    CHECK_TEXT(&fixture, "\xD9\xA1\xD9\xA2\xD9\xA3\xD9\xA4", 149, 94, 149, 95, 149, 96, 149, 97);
    CHECK_TEXT(&fixture, "x\xC2\xB2", 87, 126, 110);
    CHECK_TEXT(&fixture, "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87",
               156, 97, 101, 156, 97, 106, 156, 97, 116, 156, 98, 235, 156, 97, 97, 156, 98, 229);
    unload(&fixture);
    load(&fixture, "golden/mini/mini_llama3.json");
    CHECK_TEXT(&fixture, "1234567", 2260, 19, 20, 21, 22);
    CHECK_TEXT(&fixture, "\xD9\xA1\xD9\xA2\xD9\xA3\xD9\xA4", 149, 94, 149, 95, 149, 96, 149, 97);
    CHECK_TEXT(&fixture, "x\xC2\xB2", 87, 126, 110);
    CHECK_TEXT(&fixture, "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87",
               156, 97, 101, 156, 97, 106, 156, 97, 116, 156, 98, 235, 156, 97, 97, 156, 98, 229);
    unload(&fixture);
    load(&fixture, "golden/mini/mini_gpt2.json");
    CHECK_TEXT(&fixture, "1234567", 220, 16, 17, 18, 19, 20, 21, 22);
    CHECK_TEXT(&fixture, "\xD9\xA1\xD9\xA2\xD9\xA3\xD9\xA4", 220, 149, 94, 149, 95, 149, 96, 149,
               97);
    CHECK_TEXT(&fixture, "x\xC2\xB2", 856, 126, 110);
    CHECK_TEXT(&fixture, "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87",
               220, 156, 97, 101, 156, 97, 106, 156, 97, 116, 156, 98, 235, 156, 97, 97, 156, 98,
               229);
    unload(&fixture);
    load(&fixture, "golden/mini/mini_deepseek.json");
    CHECK_TEXT(&fixture, "1234567", 16, 17, 18, 19, 20, 21, 22);
    CHECK_TEXT(&fixture, "\xD9\xA1\xD9\xA2\xD9\xA3\xD9\xA4", 149, 94, 149, 95, 149, 96, 149, 97);
    CHECK_TEXT(&fixture, "x\xC2\xB2", 87, 126, 110);
    CHECK_TEXT(&fixture, "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87",
               156, 97, 101, 156, 97, 106, 156, 97, 116, 156, 98, 235, 156, 97, 97, 156, 98, 229);
    unload(&fixture);
    load(&fixture, "golden/mini/mini_o200k.json");
    CHECK_TEXT(&fixture, "1234567", 16, 17, 18, 19, 20, 21, 22);
    CHECK_TEXT(&fixture, "\xD9\xA1\xD9\xA2\xD9\xA3\xD9\xA4", 149, 94, 149, 95, 149, 96, 149, 97);
    CHECK_TEXT(&fixture, "x\xC2\xB2", 87, 126, 110);
    CHECK_TEXT(&fixture, "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87",
               156, 97, 101, 156, 97, 106, 156, 97, 116, 156, 98, 235, 156, 97, 97, 156, 98, 229);
    unload(&fixture);
}
END_TEST

/* ---- files that are refused ---- */

#define MODEL                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\",\"b\"]]}"
#define BYTES "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"

START_TEST(what_is_not_understood_is_refused_by_name)
{
    static const struct {
        const char *json;
        enum status_code code;
        const char *name; /* stands in the message */
    } cases[] = {
        {"{" BYTES "," MODEL "}", STATUS_OK, ""},
        {"{" BYTES ",\"normalizer\":{\"type\":\"Lowercase\"}," MODEL "}", STATUS_UNSUPPORTED,
         "Lowercase"},
        {"{" BYTES
         ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"}]}," MODEL "}",
         STATUS_UNSUPPORTED, "NFKC"},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\"}," MODEL "}", STATUS_UNSUPPORTED, "Metaspace"},
        {"{" MODEL "}", STATUS_UNSUPPORTED, "ByteLevel"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
         "\"pattern\":"
         "{\"Regex\":\"\\\\p{Han}+\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\"}]}," MODEL
         "}",
         STATUS_UNSUPPORTED, "\\p{Han}+"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
         "\"pattern\":"
         "{\"Regex\":\"\\\\p{N}\"},\"behavior\":\"Sideways\"},{\"type\":\"ByteLevel\"}]}," MODEL
         "}",
         STATUS_UNSUPPORTED, "Sideways"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},"
         "{\"type\":\"Digits\"}]}," MODEL "}",
         STATUS_UNSUPPORTED, "Digits"},
        {"{" BYTES ",\"post_processor\":{\"type\":\"BertProcessing\"}," MODEL "}",
         STATUS_UNSUPPORTED, "BertProcessing"},
        {"{" BYTES ",\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", STATUS_UNSUPPORTED,
         "Unigram"},
        {"{" BYTES ",\"model\":{\"byte_fallback\":true,\"vocab\":{},\"merges\":[]}}",
         STATUS_UNSUPPORTED, "byte_fallback"},
        {"{" BYTES ",\"model\":{\"dropout\":0.1,\"vocab\":{},\"merges\":[]}}", STATUS_UNSUPPORTED,
         "dropout"},
        {"{" BYTES ",\"model\":{\"end_of_word_suffix\":\"</w>\",\"vocab\":{},\"merges\":[]}}",
         STATUS_UNSUPPORTED, "end_of_word_suffix"},
        {"{" BYTES ",\"model\":{\"unk_token\":\"a\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         STATUS_UNSUPPORTED, "unk_token"},
        {"{" BYTES ",\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"b\"]]}}", STATUS_FORMAT,
         "merge 0"},
        {"{" BYTES ",\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b c\"]}}", STATUS_FORMAT,
         "merge 0"},
        {"{" BYTES ",\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", STATUS_UNSUPPORTED, "\"a\""},
        {"{" BYTES ",\"model\":{\"vocab\":{\"a\":4194304},\"merges\":[]}}", STATUS_UNSUPPORTED,
         "\"a\""},
        {"{" BYTES "}", STATUS_FORMAT, "model"},
        {"{" BYTES ",\"model\":{\"vocab\":{\"a\":0}}}", STATUS_FORMAT, "merges"},
        {"{" BYTES "," MODEL, STATUS_FORMAT, "line 1"},
        {"[]", STATUS_FORMAT, "object"},
        {"", STATUS_FORMAT, "line 1"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tokenizer *tokenizer = NULL;
        struct status status = tokenizer_load(cases[i].json, strlen(cases[i].json), &tokenizer);
        ck_assert_msg(status.code == cases[i].code, "%s: %s", cases[i].json, status.msg);
        ck_assert_msg(strstr(status.msg, cases[i].name), "%s: %s", cases[i].json, status.msg);
        tokenizer_destroy(&tokenizer);
    }
}
END_TEST

START_TEST(merges_may_stand_before_the_vocabulary)
{
    struct fixture fixture = {0};
    const char *json = "{" BYTES ",\"model\":{\"merges\":[\"a b\",[\"ab\",\"a\"]],\"vocab\":"
                       "{\"a\":0,\"b\":1,\"ab\":2,\"aba\":3}}}";
    struct status status = tokenizer_load(json, strlen(json), &fixture.tokenizer);

    ck_assert_msg(!status.code, "%s", status.msg);
    ck_assert_int_eq(encoder_create(fixture.tokenizer, &fixture.encoder).code, STATUS_OK);
    CHECK_TEXT(&fixture, "abaab", 3, 2);
    CHECK_TEXT(&fixture, "xbx", 1); /* no token for x: left out, as in the reference */
    unload(&fixture);
}
END_TEST

START_TEST(a_file_cut_anywhere_is_an_error)
{
    struct file_map map = {0};

    ck_assert_int_eq(file_map_open(&map, lines_path("golden/mini/mini_llama3.json")).code,
                     STATUS_OK);
    for (size_t size = 0; size < map.size - 1; size += size < 4000 ? 1 : 997) {
        struct tokenizer *tokenizer = NULL;
        struct status status = tokenizer_load(map.data, size, &tokenizer);
        ck_assert_int_eq(status.code, STATUS_FORMAT);
    }
    file_map_close(&map);
}
END_TEST

CHECK_MAIN("tokenizer", reference_texts_of_qwen3, rendered_chats_of_qwen3,
           reference_texts_of_small_tokenizers, content_is_data, data_is_found_behind_normalisation,
           one_bos, long_words_at_a_small_stack, one_tokenizer_for_several_threads,
           nul_and_long_tokens, text_must_be_utf8, vocab_size_is_the_largest_id_and_one,
           the_last_space_stays_with_the_word, accents_are_composed, added_tokens_swallow_blanks,
           digits_and_marks_by_family, what_is_not_understood_is_refused_by_name,
           merges_may_stand_before_the_vocabulary, a_file_cut_anywhere_is_an_error)
