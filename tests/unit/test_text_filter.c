/* test_text_filter.c - the filters decode and stream, line by line. */
#include "detokenizer_proc/text_filter.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/check_main.h"
#include "tests/unit/hand_vocabulary.h"

static const char *const tokens[] = {"Hello", "\xE4\xB8", "\x96", "\1<eos>", NULL};

static const struct {
    enum text_filter filter;
    const char *in, *out;
} cases[] = {
    {TEXT_FILTER_DECODE, "{\"id\": 7, \"ids\": [0, 1, 2, 3]}",
     "{\"id\":7,\"text\":\"Hello\xE4\xB8\x96<eos>\"}"},
    {TEXT_FILTER_DECODE, "{\"ids\": [0, 3], \"skip_special_tokens\": true}",
     "{\"text\":\"Hello\"}"},
    {TEXT_FILTER_DECODE, "{\"id\": [1, \"x\"], \"ids\": []}", "{\"id\":[1,\"x\"],\"text\":\"\"}"},
    {TEXT_FILTER_DECODE, "{\"ids\": [4, -1, 99999999999, 0]}", "{\"text\":\"Hello\"}"},
    {TEXT_FILTER_STREAM, "{\"id\": \"s\", \"ids\": [0, 1, 2, 1]}",
     "{\"id\":\"s\",\"pieces\":[\"Hello\",\"\",\"\xE4\xB8\x96\",\"\xEF\xBF\xBD\"]}"},
    {TEXT_FILTER_STREAM, "{\"ids\": []}", "{\"pieces\":[]}"},
    {TEXT_FILTER_DECODE, "{\"id\": 1}",
     "{\"id\":1,\"error\":\"ids: must be an array of integers\"}"},
    {TEXT_FILTER_STREAM, "{\"id\": 1, \"ids\": [1, 2.5]}",
     "{\"id\":1,\"error\":\"ids[1]: must be an integer\"}"},
    {TEXT_FILTER_STREAM, "{\"ids\": [1], \"skip_special_tokens\": 1}",
     "{\"error\":\"skip_special_tokens: must be true or false\"}"},
    {TEXT_FILTER_DECODE, "[1]", "{\"error\":\"a line must hold an object\"}"},
};

START_TEST(lines)
{
    struct vocabulary vocabulary = hand_vocabulary(tokens, 5);
    struct json_writer writer = {0};
    struct arena arena;

    arena_init(&arena, 0, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(text_filter_line(cases[i].filter, &vocabulary, cases[i].in,
                                          strlen(cases[i].in), &arena, &writer)
                             .code,
                         STATUS_OK);
        ck_assert_str_eq(writer.data, cases[i].out);
        arena_reset(&arena);
    }
    arena_deinit(&arena);
    json_writer_deinit(&writer);
    vocabulary_deinit(&vocabulary);
}
END_TEST

START_TEST(one_line_out_for_each_line_in)
{
    static char in[] = "{\"ids\": [0]}\r\n\n{broken\n{\"ids\": [0, 0]}";
    struct vocabulary vocabulary = hand_vocabulary(tokens, 5);
    char *out = NULL;
    size_t out_size = 0;
    FILE *from = fmemopen(in, strlen(in), "r"), *to = open_memstream(&out, &out_size);

    ck_assert_int_eq(text_filter_run(TEXT_FILTER_DECODE, &vocabulary, from, to).code, STATUS_OK);
    fclose(from);
    fclose(to);
    ck_assert_ptr_nonnull(strstr(out, "{\"text\":\"Hello\"}\n{\"error\":\"line 1, column"));
    ck_assert_ptr_nonnull(strstr(out, "\"}\n{\"text\":\"HelloHello\"}\n"));
    free(out);
    vocabulary_deinit(&vocabulary);
}
END_TEST

START_TEST(long_line_is_an_error_of_its_own)
{
    struct vocabulary vocabulary = hand_vocabulary(tokens, 5);
    size_t size = TEXT_FILTER_MAX_LINE + 100;
    char *in = malloc(size), *out = NULL;
    size_t out_size = 0;

    memset(in, ' ', size);
    in[0] = '{';
    memcpy(in + size - 13, "\n{\"ids\": [0]}", 13);
    FILE *from = fmemopen(in, size, "r"), *to = open_memstream(&out, &out_size);
    ck_assert_int_eq(text_filter_run(TEXT_FILTER_DECODE, &vocabulary, from, to).code, STATUS_OK);
    fclose(from);
    fclose(to);
    ck_assert_str_eq(out, "{\"error\":\"line of more than 16777216 bytes\"}\n{\"text\":\"Hello\"}\n");
    free(in);
    free(out);
    vocabulary_deinit(&vocabulary);
}
END_TEST

CHECK_MAIN("text_filter", lines, one_line_out_for_each_line_in, long_line_is_an_error_of_its_own)
