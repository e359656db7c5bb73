/* test_utf8.c - what is valid UTF-8, and characters as their bytes. */
#include "common/utf8.h"

#include <string.h>

#include "tests/unit/check_main.h"

/* The definition, the slow way: a code is encoded, and only that is valid. */
START_TEST(what_is_encoded_is_valid_but_surrogates)
{
    char text[4];

    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        size_t size = utf8_encode(text, code);
        bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
        size_t found = utf8_sequence_size((const uint8_t *)text, size);
        if (found != (is_surrogate ? 0 : size))
            ck_abort_msg("U+%04X: %zu bytes, found %zu", code, size, found);
        if (size > 1 && utf8_sequence_size((const uint8_t *)text, size - 1) != 0)
            ck_abort_msg("U+%04X is valid when cut", code);
    }
}
END_TEST

START_TEST(valid_prefix_ends_at_the_first_fault)
{
    static const struct {
        const char *text;
        size_t prefix;
    } cases[] = {
        {"", 0},
        {"plain text of more than eight bytes", 35},
        {"plain text\xFF and more", 10},
        {"\xC3\xA9t\xC3\xA9", 5},
        {"\xE6\xBC\xA2\xE5\xAD\x97", 6},
        {"\xE6\xBC\xA2\xE5\xAD", 3},
        {"ab\xC0\x80", 2},        /* overlong, of two bytes, */
        {"a\xE0\x9F\xBF", 1},     /* of three */
        {"a\xF0\x8F\xBF\xBF", 1}, /* and of four */
        {"\xED\xA0\x80", 0},      /* a surrogate */
        {"\xED\x9F\xBF", 3},      /* the last character before them */
        {"\xF4\x8F\xBF\xBF", 4},  /* U+10FFFF, */
        {"\xF4\x90\x80\x80", 0},  /* and one beyond */
        {"\xF5\x80\x80\x80", 0},  /* no lead byte */
        {"12345678\x80", 8},      /* a continuation where a character should start */
        {"1234567\xF0\x9F\x98\x80", 11},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size = strlen(cases[i].text);
        ck_assert_uint_eq(utf8_valid_prefix((const uint8_t *)cases[i].text, size), cases[i].prefix);
        ck_assert_int_eq(utf8_is_valid(cases[i].text, size), cases[i].prefix == size);
    }
    ck_assert(utf8_is_valid("a\0b", 3));
}
END_TEST

CHECK_MAIN("utf8", what_is_encoded_is_valid_but_surrogates, valid_prefix_ends_at_the_first_fault)
