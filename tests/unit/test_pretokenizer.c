/*
 * test_pretokenizer.c - where each family's pattern cuts. What is expected was taken from the
 * `tokenizers` package; pieces stand apart by "|".
 */
#include "tokenizer_proc/pretokenizer.h"

#include <string.h>

#include "tests/unit/check_main.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define QWEN2                                                                                      \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define LLAMA3                                                                                     \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "                                    \
                 "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define O200K                                                                                      \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"     \
    "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{"   \
    "Lm}\\p{Lo}\\p{M}]*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
#define TEKKEN                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"    \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"   \
    "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
#define DEEPSEEK /* as its file has it: newlines as themselves */                                  \
    "[!\"#$%&'()*+,\\-./"                                                                          \
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"                \
    " ?[\\p{P}\\p{S}]+[\r\n]*" SPACES
#define NUMBERS3 "\\p{N}{1,3}"
#define HAN      "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"

static void check_pieces(const struct pretokenizer *pretokenizer, const char *text,
                         const char *expected)
{
    struct splitter splitter;
    struct buffer prefixed = {0};
    const uint8_t *piece = NULL;
    size_t size = 0, num_found = 0;
    char found[512];

    ck_assert_int_eq(
        splitter_init(&splitter, pretokenizer, &prefixed, (const uint8_t *)text, strlen(text)).code,
        STATUS_OK);
    for (;;) {
        ck_assert_int_eq(splitter_next(&splitter, &piece, &size).code, STATUS_OK);
        if (!piece)
            break;
        if (num_found > 0)
            found[num_found++] = '|';
        memcpy(found + num_found, piece, size);
        num_found += size;
    }
    found[num_found] = '\0';
    buffer_deinit(&prefixed);
    ck_assert_str_eq(found, expected);
}

START_TEST(patterns_of_models)
{
    static const struct {
        const char *pattern, *text, *expected;
    } cases[] = {
        {QWEN2, "I'LL don't we'\xC5\xBF x'S", "I|'LL| don|'t| we|'\xC5\xBF| x|'S"},
        {QWEN2, "  a  b\n\n  c \r\n d   ", " | a| | b|\n\n| | c| \r\n| d|   "},
        {QWEN2, "12345\xD9\xA3\xC2\xB2 x2", "1|2|3|4|5|\xD9\xA3|\xC2\xB2| x|2"},
        {QWEN2,
         "HTTPServer's aB\xE3\x81\x82"
         "CD \xC7\x85x\xCA\xB0Y",
         "HTTPServer|'s| aB\xE3\x81\x82"
         "CD| \xC7\x85x\xCA\xB0Y"},
        {QWEN2,
         "a\xCC\x81\xCC\x81 \xCC\x81"
         "b'\xCC\x81",
         "a|\xCC\x81\xCC\x81| \xCC\x81|b|'\xCC\x81"},
        {QWEN2, "!!!\n\n?/\n //\r\n", "!!!\n\n|?/\n| //\r\n"},
        {QWEN2,
         "\002\001a\xE2\x80\x8B"
         "b 7x",
         "\002\001|a|\xE2\x80\x8B"
         "b| |7|x"},
        {QWEN2,
         "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6",
         "\xE4\xBD\xA0\xE5\xA5\xBD|\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6"},
        {QWEN2, "\xC2\xA0x\xE3\x80\x80\xE3\x80\x80y\xC2\x85z",
         "\xC2\xA0x|\xE3\x80\x80|\xE3\x80\x80y|\xC2\x85z"},
        {QWEN2, " 'tis \"q\" (x)[y]", " '|tis| \"|q|\"| (|x|)[|y|]"},
        {LLAMA3, "I'LL don't we'\xC5\xBF x'S", "I|'LL| don|'t| we|'\xC5\xBF| x|'S"},
        {LLAMA3, "  a  b\n\n  c \r\n d   ", " | a| | b|\n\n| | c| \r\n| d|   "},
        {LLAMA3, "12345\xD9\xA3\xC2\xB2 x2", "123|45\xD9\xA3|\xC2\xB2| x|2"},
        {LLAMA3,
         "HTTPServer's aB\xE3\x81\x82"
         "CD \xC7\x85x\xCA\xB0Y",
         "HTTPServer|'s| aB\xE3\x81\x82"
         "CD| \xC7\x85x\xCA\xB0Y"},
        {LLAMA3,
         "a\xCC\x81\xCC\x81 \xCC\x81"
         "b'\xCC\x81",
         "a|\xCC\x81\xCC\x81| \xCC\x81|b|'\xCC\x81"},
        {LLAMA3, "!!!\n\n?/\n //\r\n", "!!!\n\n|?/\n| //\r\n"},
        {LLAMA3,
         "\002\001a\xE2\x80\x8B"
         "b 7x",
         "\002\001|a|\xE2\x80\x8B"
         "b| |7|x"},
        {LLAMA3,
         "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6",
         "\xE4\xBD\xA0\xE5\xA5\xBD|\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6"},
        {LLAMA3, "\xC2\xA0x\xE3\x80\x80\xE3\x80\x80y\xC2\x85z",
         "\xC2\xA0x|\xE3\x80\x80|\xE3\x80\x80y|\xC2\x85z"},
        {LLAMA3, " 'tis \"q\" (x)[y]", " '|tis| \"|q|\"| (|x|)[|y|]"},
        {GPT2, "I'LL don't we'\xC5\xBF x'S", "I|'|LL| don|'t| we|'|\xC5\xBF| x|'|S"},
        {GPT2, "  a  b\n\n  c \r\n d   ", " | a| | b|\n\n | c| \r\n| d|   "},
        {GPT2, "12345\xD9\xA3\xC2\xB2 x2", "12345\xD9\xA3\xC2\xB2| x|2"},
        {GPT2,
         "HTTPServer's aB\xE3\x81\x82"
         "CD \xC7\x85x\xCA\xB0Y",
         "HTTPServer|'s| aB\xE3\x81\x82"
         "CD| \xC7\x85x\xCA\xB0Y"},
        {GPT2,
         "a\xCC\x81\xCC\x81 \xCC\x81"
         "b'\xCC\x81",
         "a|\xCC\x81\xCC\x81| \xCC\x81|b|'\xCC\x81"},
        {GPT2, "!!!\n\n?/\n //\r\n", "!!!|\n|\n|?/|\n| //|\r\n"},
        {GPT2,
         "\002\001a\xE2\x80\x8B"
         "b 7x",
         "\002\001|a|\xE2\x80\x8B|b| 7|x"},
        {GPT2,
         "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6",
         "\xE4\xBD\xA0\xE5\xA5\xBD|\xEF\xBC\x8C|\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6"},
        {GPT2, "\xC2\xA0x\xE3\x80\x80\xE3\x80\x80y\xC2\x85z",
         "\xC2\xA0|x|\xE3\x80\x80|\xE3\x80\x80|y|\xC2\x85|z"},
        {GPT2, " 'tis \"q\" (x)[y]", " '|tis| \"|q|\"| (|x|)[|y|]"},
        {O200K, "I'LL don't we'\xC5\xBF x'S", "I'LL| don't| we'\xC5\xBF| x'S"},
        {O200K, "  a  b\n\n  c \r\n d   ", " | a| | b|\n\n| | c| \r\n| d|   "},
        {O200K, "12345\xD9\xA3\xC2\xB2 x2", "123|45\xD9\xA3|\xC2\xB2| x|2"},
        {O200K,
         "HTTPServer's aB\xE3\x81\x82"
         "CD \xC7\x85x\xCA\xB0Y",
         "HTTPServer's| a|B\xE3\x81\x82|CD| \xC7\x85x\xCA\xB0|Y"},
        {O200K,
         "a\xCC\x81\xCC\x81 \xCC\x81"
         "b'\xCC\x81",
         "a\xCC\x81\xCC\x81| \xCC\x81"
         "b|'\xCC\x81"},
        {O200K, "!!!\n\n?/\n //\r\n", "!!!\n\n|?/\n| //\r\n"},
        {O200K,
         "\002\001a\xE2\x80\x8B"
         "b 7x",
         "\002\001|a|\xE2\x80\x8B"
         "b| |7|x"},
        {O200K,
         "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6",
         "\xE4\xBD\xA0\xE5\xA5\xBD|\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6"},
        {O200K, "\xC2\xA0x\xE3\x80\x80\xE3\x80\x80y\xC2\x85z",
         "\xC2\xA0x|\xE3\x80\x80|\xE3\x80\x80y|\xC2\x85z"},
        {O200K, " 'tis \"q\" (x)[y]", " '|tis| \"|q|\"| (|x|)[|y|]"},
        {TEKKEN, "I'LL don't we'\xC5\xBF x'S", "I|'LL| don|'t| we|'\xC5\xBF| x|'S"},
        {TEKKEN, "  a  b\n\n  c \r\n d   ", " | a| | b|\n\n| | c| \r\n| d|   "},
        {TEKKEN, "12345\xD9\xA3\xC2\xB2 x2", "1|2|3|4|5|\xD9\xA3|\xC2\xB2| x|2"},
        {TEKKEN,
         "HTTPServer's aB\xE3\x81\x82"
         "CD \xC7\x85x\xCA\xB0Y",
         "HTTPServer|'s| a|B\xE3\x81\x82|CD| \xC7\x85x\xCA\xB0|Y"},
        {TEKKEN,
         "a\xCC\x81\xCC\x81 \xCC\x81"
         "b'\xCC\x81",
         "a\xCC\x81\xCC\x81| \xCC\x81"
         "b|'\xCC\x81"},
        {TEKKEN, "!!!\n\n?/\n //\r\n", "!!!\n\n|?/\n| //\r\n"},
        {TEKKEN,
         "\002\001a\xE2\x80\x8B"
         "b 7x",
         "\002\001|a|\xE2\x80\x8B"
         "b| |7|x"},
        {TEKKEN,
         "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6",
         "\xE4\xBD\xA0\xE5\xA5\xBD|\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6"},
        {TEKKEN, "\xC2\xA0x\xE3\x80\x80\xE3\x80\x80y\xC2\x85z",
         "\xC2\xA0x|\xE3\x80\x80|\xE3\x80\x80y|\xC2\x85z"},
        {TEKKEN, " 'tis \"q\" (x)[y]", " '|tis| \"|q|\"| (|x|)[|y|]"},
        {DEEPSEEK, "I'LL don't we'\xC5\xBF x'S", "I|'LL| don|'t| we|'|\xC5\xBF| x|'S"},
        {DEEPSEEK, "  a  b\n\n  c \r\n d   ", " | a| | b|\n\n| | c| \r\n| d|   "},
        {DEEPSEEK, "12345\xD9\xA3\xC2\xB2 x2", "12345\xD9\xA3\xC2\xB2| x|2"},
        {DEEPSEEK,
         "HTTPServer's aB\xE3\x81\x82"
         "CD \xC7\x85x\xCA\xB0Y",
         "HTTPServer|'s| aB\xE3\x81\x82"
         "CD| \xC7\x85x\xCA\xB0Y"},
        {DEEPSEEK,
         "a\xCC\x81\xCC\x81 \xCC\x81"
         "b'\xCC\x81",
         "a\xCC\x81\xCC\x81| \xCC\x81"
         "b|'|\xCC\x81"},
        {DEEPSEEK, "!!!\n\n?/\n //\r\n", "!!!\n\n|?/\n| //\r\n"},
        {DEEPSEEK,
         "\002\001a\xE2\x80\x8B"
         "b 7x",
         "\002|\001a|\xE2\x80\x8B"
         "b| |7x"},
        {DEEPSEEK,
         "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6",
         "\xE4\xBD\xA0\xE5\xA5\xBD|\xEF\xBC\x8C|\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6"},
        {DEEPSEEK, "\xC2\xA0x\xE3\x80\x80\xE3\x80\x80y\xC2\x85z",
         "\xC2\xA0x|\xE3\x80\x80|\xE3\x80\x80y|\xC2\x85z"},
        {DEEPSEEK, " 'tis \"q\" (x)[y]", " '|tis| \"|q|\"| (|x|)[|y|]"},
        {NUMBERS3, "I'LL don't we'\xC5\xBF x'S", "I'LL don't we'\xC5\xBF x'S"},
        {NUMBERS3, "  a  b\n\n  c \r\n d   ", "  a  b\n\n  c \r\n d   "},
        {NUMBERS3, "12345\xD9\xA3\xC2\xB2 x2", "123|45\xD9\xA3|\xC2\xB2| x|2"},
        {NUMBERS3,
         "HTTPServer's aB\xE3\x81\x82"
         "CD \xC7\x85x\xCA\xB0Y",
         "HTTPServer's aB\xE3\x81\x82"
         "CD \xC7\x85x\xCA\xB0Y"},
        {NUMBERS3,
         "a\xCC\x81\xCC\x81 \xCC\x81"
         "b'\xCC\x81",
         "a\xCC\x81\xCC\x81 \xCC\x81"
         "b'\xCC\x81"},
        {NUMBERS3, "!!!\n\n?/\n //\r\n", "!!!\n\n?/\n //\r\n"},
        {NUMBERS3,
         "\002\001a\xE2\x80\x8B"
         "b 7x",
         "\002\001a\xE2\x80\x8B"
         "b |7|x"},
        {NUMBERS3,
         "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6",
         "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6"},
        {NUMBERS3, "\xC2\xA0x\xE3\x80\x80\xE3\x80\x80y\xC2\x85z",
         "\xC2\xA0x\xE3\x80\x80\xE3\x80\x80y\xC2\x85z"},
        {NUMBERS3, " 'tis \"q\" (x)[y]", " 'tis \"q\" (x)[y]"},
        {HAN, "I'LL don't we'\xC5\xBF x'S", "I'LL don't we'\xC5\xBF x'S"},
        {HAN, "  a  b\n\n  c \r\n d   ", "  a  b\n\n  c \r\n d   "},
        {HAN, "12345\xD9\xA3\xC2\xB2 x2", "12345\xD9\xA3\xC2\xB2 x2"},
        {HAN,
         "HTTPServer's aB\xE3\x81\x82"
         "CD \xC7\x85x\xCA\xB0Y",
         "HTTPServer's aB|\xE3\x81\x82|CD \xC7\x85x\xCA\xB0Y"},
        {HAN,
         "a\xCC\x81\xCC\x81 \xCC\x81"
         "b'\xCC\x81",
         "a\xCC\x81\xCC\x81 \xCC\x81"
         "b'\xCC\x81"},
        {HAN, "!!!\n\n?/\n //\r\n", "!!!\n\n?/\n //\r\n"},
        {HAN,
         "\002\001a\xE2\x80\x8B"
         "b 7x",
         "\002\001a\xE2\x80\x8B"
         "b 7x"},
        {HAN,
         "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99"
         "ab\xE9\xBE\xA6",
         "\xE4\xBD\xA0\xE5\xA5\xBD|\xEF\xBC\x8C|\xE3\x81\xAE\xE3\x81\xA7\xE3\x81\x99|"
         "ab\xE9\xBE\xA6"},
        {HAN, "\xC2\xA0x\xE3\x80\x80\xE3\x80\x80y\xC2\x85z",
         "\xC2\xA0x\xE3\x80\x80\xE3\x80\x80y\xC2\x85z"},
        {HAN, " 'tis \"q\" (x)[y]", " 'tis \"q\" (x)[y]"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pretokenizer pretokenizer = {.num_stages = 1};
        pretokenizer.stages[0].scan = scanner_find(cases[i].pattern, strlen(cases[i].pattern));
        ck_assert_msg(pretokenizer.stages[0].scan != NULL, "%s", cases[i].pattern);
        check_pieces(&pretokenizer, cases[i].text, cases[i].expected);
    }
}
END_TEST

START_TEST(behaviors)
{
    static const struct {
        enum split_behavior behavior;
        bool invert;
        const char *text, *expected;
    } cases[] = {
        {SPLIT_REMOVED, false, "ab123456c7", "ab|c"},
        {SPLIT_REMOVED, false, "1234", ""},
        {SPLIT_REMOVED, false, "x", "x"},
        {SPLIT_REMOVED, false, "12a34b", "a|b"},
        {SPLIT_REMOVED, true, "ab123456c7", "123|456|7"},
        {SPLIT_REMOVED, true, "1234", "123|4"},
        {SPLIT_REMOVED, true, "x", ""},
        {SPLIT_REMOVED, true, "12a34b", "12|34"},
        {SPLIT_MERGED_WITH_PREVIOUS, false, "ab123456c7", "ab123|456|c7"},
        {SPLIT_MERGED_WITH_PREVIOUS, false, "1234", "123|4"},
        {SPLIT_MERGED_WITH_PREVIOUS, false, "x", "x"},
        {SPLIT_MERGED_WITH_PREVIOUS, false, "12a34b", "12|a34|b"},
        {SPLIT_MERGED_WITH_PREVIOUS, true, "ab123456c7", "ab|123|456c|7"},
        {SPLIT_MERGED_WITH_PREVIOUS, true, "1234", "123|4"},
        {SPLIT_MERGED_WITH_PREVIOUS, true, "x", "x"},
        {SPLIT_MERGED_WITH_PREVIOUS, true, "12a34b", "12a|34b"},
        {SPLIT_MERGED_WITH_NEXT, false, "ab123456c7", "ab|123|456c|7"},
        {SPLIT_MERGED_WITH_NEXT, false, "1234", "123|4"},
        {SPLIT_MERGED_WITH_NEXT, false, "x", "x"},
        {SPLIT_MERGED_WITH_NEXT, false, "12a34b", "12a|34b"},
        {SPLIT_MERGED_WITH_NEXT, true, "ab123456c7", "ab123|456|c7"},
        {SPLIT_MERGED_WITH_NEXT, true, "1234", "123|4"},
        {SPLIT_MERGED_WITH_NEXT, true, "x", "x"},
        {SPLIT_MERGED_WITH_NEXT, true, "12a34b", "12|a34|b"},
        {SPLIT_CONTIGUOUS, false, "ab123456c7", "ab|123456|c|7"},
        {SPLIT_CONTIGUOUS, false, "1234", "1234"},
        {SPLIT_CONTIGUOUS, false, "x", "x"},
        {SPLIT_CONTIGUOUS, false, "12a34b", "12|a|34|b"},
        {SPLIT_CONTIGUOUS, true, "ab123456c7", "ab|123456|c|7"},
        {SPLIT_CONTIGUOUS, true, "1234", "1234"},
        {SPLIT_CONTIGUOUS, true, "x", "x"},
        {SPLIT_CONTIGUOUS, true, "12a34b", "12|a|34|b"},
        {SPLIT_ISOLATED, false, "ab123456c7", "ab|123|456|c|7"},
        {SPLIT_ISOLATED, false, "1234", "123|4"},
        {SPLIT_ISOLATED, false, "x", "x"},
        {SPLIT_ISOLATED, false, "12a34b", "12|a|34|b"},
        {SPLIT_ISOLATED, true, "ab123456c7", "ab|123|456|c|7"},
        {SPLIT_ISOLATED, true, "1234", "123|4"},
        {SPLIT_ISOLATED, true, "x", "x"},
        {SPLIT_ISOLATED, true, "12a34b", "12|a|34|b"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pretokenizer pretokenizer = {.num_stages = 1};
        pretokenizer.stages[0].scan = scanner_find(NUMBERS3, strlen(NUMBERS3));
        pretokenizer.stages[0].behavior = cases[i].behavior;
        pretokenizer.stages[0].invert = cases[i].invert;
        check_pieces(&pretokenizer, cases[i].text, cases[i].expected);
    }
}
END_TEST

START_TEST(stages_in_a_row)
{
    struct pretokenizer pretokenizer = {.num_stages = 3};

    pretokenizer.stages[0] =
        (struct split_stage){.literal = "--", .literal_size = 2, .behavior = SPLIT_REMOVED};
    pretokenizer.stages[1] = (struct split_stage){.scan = scan_numeric};
    pretokenizer.stages[2] = (struct split_stage){.scan = scan_gpt2, .add_prefix_space = true};
    check_pieces(&pretokenizer, "ab c12--d", " ab| c| 1| 2| d");
    check_pieces(&pretokenizer, "----", "");
    check_pieces(&pretokenizer, "", "");
}
END_TEST

START_TEST(patterns_must_be_exact)
{
    ck_assert(scanner_find("\\p{N}", 5) != NULL);
    ck_assert(scanner_find("\\p{N}", 4) == NULL);
    ck_assert(scanner_find("\\p{N} ", 6) == NULL);
    ck_assert(scanner_find("", 0) == NULL);
}
END_TEST

CHECK_MAIN("pretokenizer", patterns_of_models, behaviors, stages_in_a_row, patterns_must_be_exact)
