/* test_filter_encode.c - JSON lines in, JSON lines out. */
#include "tokenizer_proc/filter_encode.h"

#include <string.h>

#include "tests/unit/check_main.h"
#include "tests/unit/golden_lines.h"
#include "common/line_reader.h"

/* What the filter answers; to be freed. */
static char *run(const char *in, size_t size)
{
    struct file_map map = {0};
    struct tokenizer *tokenizer = NULL;
    char *answer = NULL;
    size_t answer_size = 0;

    ck_assert_int_eq(file_map_open(&map, lines_path("golden/mini/mini_llama3.json")).code,
                     STATUS_OK);
    ck_assert_int_eq(tokenizer_load(map.data, map.size, &tokenizer).code, STATUS_OK);
    file_map_close(&map);
    FILE *from = fmemopen((void *)(size_t)in, size, "r");
    FILE *to = open_memstream(&answer, &answer_size);
    struct status status = filter_encode(tokenizer, from, to);
    ck_assert_msg(!status.code, "%s", status.msg);
    fclose(from);
    fclose(to);
    tokenizer_destroy(&tokenizer);
    return answer;
}

START_TEST(one_answer_a_line)
{
    const char *in = "{\"id\":[1,\"a\"],\"text\":\"Hi\"}\n"
                     "\n"
                     "{\"text\":\"Hi\",\"add_special_tokens\":true,\"id\":null}\r\n"
                     "nonsense\n"
                     "{\"id\":7}\n"
                     "{\"id\":8,\"text\":3}\n"
                     "[]\n"
                     "{\"text\":\"<|eot_id|>\"}\n"
                     "{\"text\":\"\"}";
    char *out = run(in, strlen(in));
    const char *expected[] = {
        "{\"id\":[1,\"a\"],\"ids\":[39,72]}\n",
        "{\"id\":null,\"ids\":[2264,39,72]}\n",
        "{\"error\":\"line 1, column 2: expected a value\"}\n",
        "{\"id\":7,\"error\":\"\\\"text\\\" must be a string\"}\n",
        "{\"id\":8,\"error\":\"\\\"text\\\" must be a string\"}\n",
        "{\"error\":\"a line must hold an object\"}\n",
        "{\"ids\":[2268]}\n",
        "{\"ids\":[]}\n",
    };
    const char *at = out;

    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        size_t size = strlen(expected[i]);
        if (i == 2) /* the words of a JSON error are not this module's */
            ck_assert_int_eq(strncmp(at, "{\"error\":\"line 1", 16), 0);
        else
            ck_assert_msg(strncmp(at, expected[i], size) == 0, "line %zu: %.60s", i, at);
        at = strchr(at, '\n') + 1;
    }
    ck_assert_str_eq(at, "");
    free(out);
}
END_TEST

START_TEST(special_tokens_may_be_text)
{
    const char *in = "{\"text\":\"<|eot_id|>\",\"parse_special\":false}\n";
    char *out = run(in, strlen(in));

    ck_assert(strstr(out, "2268") == NULL);
    free(out);
}
END_TEST

START_TEST(lines_are_bounded)
{
    const char *in = "abcd\nabcde\n\nabc\r\nab";
    FILE *file = fmemopen((void *)(size_t)in, strlen(in), "r");
    struct line_reader lines = {.file = file, .max_size = 4};
    static const struct {
        const char *text;
        enum status_code code;
    } expected[] = {
        {"abcd", STATUS_OK}, {"abcd", STATUS_INVALID}, {"", STATUS_OK},
        {"abc", STATUS_OK},  {"ab", STATUS_OK},
    };

    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        ck_assert(line_reader_next(&lines));
        ck_assert_int_eq(lines.status.code, expected[i].code);
        if (!lines.status.code) {
            ck_assert_uint_eq(lines.size, strlen(expected[i].text));
            ck_assert_int_eq(lines.size ? memcmp(lines.data, expected[i].text, lines.size) : 0, 0);
        }
    }
    ck_assert(!line_reader_next(&lines));
    line_reader_deinit(&lines);
    fclose(file);
}
END_TEST

CHECK_MAIN("filter_encode", one_answer_a_line, special_tokens_may_be_text, lines_are_bounded)
