/* test_utf8_lossy.c - bytes to valid UTF-8, whole and in all pieces. */
#include "detokenizer_proc/utf8_lossy.h"

#include <string.h>

#include "common/utf8.h"
#include "tests/unit/check_main.h"

#define R "\xEF\xBF\xBD"

static const struct {
    const char *bytes, *text;
} cases[] = {
    {"", ""},
    {"plain", "plain"},
    {"caf\xC3\xA9", "caf\xC3\xA9"},
    {"\xE4\xB8\x96", "\xE4\xB8\x96"},
    {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
    {"\x80", R},
    {"\x80\xBF", R R},
    {"\xC0\xAF", R R}, /* overlong */
    {"\xC3", R},
    {"\xC3(", R "("},
    {"\xE4\xB8", R}, /* one maximal part */
    {"\xE4\xB8(", R "("},
    {"\xE4\xB8\xC3\xA9", R "\xC3\xA9"},
    {"\xE0\x80\x80", R R R}, /* overlong */
    {"\xED\xA0\x80", R R R}, /* surrogate */
    {"\xED\x9F\xBF", "\xED\x9F\xBF"},
    {"\xF0\x80\x80\x80", R R R R}, /* overlong */
    {"\xF0\x9F\x98", R},
    {"\xF0\x9F\x98z", R "z"},
    {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
    {"\xF4\x90\x80\x80", R R R R}, /* beyond U+10FFFF */
    {"\xF5\x80", R R},
    {"\xFF\xFE", R R},
    {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A"}, /* Unicode 15, table 3-11 */
};

static size_t feed(struct utf8_lossy *utf8, const char *bytes, size_t size, char *out)
{
    return utf8_lossy_feed(utf8, (const uint8_t *)bytes, size, out);
}

START_TEST(invalid_parts_become_replacements_at_every_cut)
{
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        size_t size = strlen(cases[c].bytes);
        for (size_t cut = 0; cut <= size; cut++) {
            struct utf8_lossy utf8 = {0};
            char out[64];
            size_t n = feed(&utf8, cases[c].bytes, cut, out);
            ck_assert(utf8_is_valid(out, n));
            ck_assert_uint_le(n, utf8_lossy_room(cut));
            n += feed(&utf8, cases[c].bytes + cut, size - cut, out + n);
            n += utf8_lossy_flush(&utf8, out + n);
            ck_assert_uint_eq(n, strlen(cases[c].text));
            ck_assert_mem_eq(out, cases[c].text, n);
        }
    }
}
END_TEST

START_TEST(validity_is_what_passes_unchanged)
{
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
        ck_assert_int_eq(utf8_is_valid(cases[c].bytes, strlen(cases[c].bytes)),
                         strcmp(cases[c].bytes, cases[c].text) == 0);
    ck_assert(utf8_is_valid("a\0b", 3));
}
END_TEST

/* Every sequence of four bytes from a set that holds each kind of byte. */
START_TEST(all_output_is_valid)
{
    static const char kinds[] =
        "A\x80\x8F\x90\x9F\xA0\xBF\xC1\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5";
    size_t n = sizeof(kinds) - 1;

    for (size_t i = 0; i < n * n * n * n; i++) {
        char bytes[4] = {kinds[i % n], kinds[i / n % n], kinds[i / n / n % n],
                         kinds[i / n / n / n]};
        struct utf8_lossy whole = {0}, single = {0};
        char a[32], b[32];
        size_t a_size = feed(&whole, bytes, 4, a), b_size = 0;
        a_size += utf8_lossy_flush(&whole, a + a_size);
        for (size_t k = 0; k < 4; k++)
            b_size += feed(&single, bytes + k, 1, b + b_size);
        b_size += utf8_lossy_flush(&single, b + b_size);
        ck_assert(utf8_is_valid(a, a_size));
        ck_assert_uint_eq(a_size, b_size);
        ck_assert_mem_eq(a, b, a_size);
        if (utf8_is_valid(bytes, 4))
            ck_assert_mem_eq(a, bytes, 4);
    }
}
END_TEST

CHECK_MAIN("utf8_lossy", invalid_parts_become_replacements_at_every_cut,
           validity_is_what_passes_unchanged, all_output_is_valid)
