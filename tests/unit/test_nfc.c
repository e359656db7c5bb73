/* test_nfc.c - normalisation form C, and where its bytes came from. */
#include "tokenizer_proc/nfc.h"

#include <string.h>

#include "common/utf8.h"
#include "tests/unit/check_main.h"
#include "tests/unit/golden_lines.h"
#include "tokenizer_proc/unicode.h"

static struct nfc nfc;

static void normalize(const char *text, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)text;
    struct status status = nfc_normalize(&nfc, bytes, size, nfc_find_unstable(bytes, size));

    ck_assert_msg(!status.code, "%s", status.msg);
}

static void check_becomes(const char *text, const char *expected)
{
    normalize(text, strlen(text));
    ck_assert_msg(nfc.size == strlen(expected) && memcmp(nfc.text.data, expected, nfc.size) == 0,
                  "\"%s\" became \"%.*s\"", text, (int)nfc.size, (const char *)nfc.text.data);
}

START_TEST(characters_are_composed)
{
    check_becomes("Cafe\u0301!", "Caf\u00e9!");
    check_becomes("e\u0301", "\u00e9");
    check_becomes("\u212b", "\u00c5");               /* angstrom sign */
    check_becomes("\u1112\u1161\u11ab", "\ud55c");   /* jamo */
    check_becomes("\ud558\u11ab", "\ud55c");         /* a syllable and a final consonant */
    check_becomes("q\u0307\u0323", "q\u0323\u0307"); /* ordered, nothing to compose */
    check_becomes("a\u0323\u0302", "\u1ead");        /* twice */
    check_becomes("a\u0302\u0323", "\u1ead");        /* in either order */
    check_becomes("a\u0315\u0300", "\u00e0\u0315");  /* over a mark of a higher class */
    check_becomes("\u0958", "\u0915\u093c");         /* excluded from composition */
    check_becomes("\u0344", "\u0308\u0301");         /* a mark that is two */
    check_becomes("\u0301a", "\u0301a");             /* nothing to stand on */
    check_becomes("\u09c7\u09be", "\u09cb");         /* two starters */
    check_becomes("<\u0338", "\u226e");
    check_becomes("a\u1dfa\u0301", "a\u1dfa\u0301"); /* newer than Unicode 9.0: blocks nothing */
    check_becomes("", "");
    check_becomes("plain", "plain");
}
END_TEST

/* All decompositions of the reference: what NFC makes of them, by hand from the same file. */
START_TEST(every_composition)
{
    struct file_map map = {0};
    struct arena arena;
    struct json_value *ref = NULL;

    ck_assert_int_eq(file_map_open(&map, lines_path("golden/unicode_ref.json")).code, STATUS_OK);
    arena_init(&arena, 0, 0);
    ck_assert_int_eq(json_parse(map.data, map.size, &arena, &ref).code, STATUS_OK);
    const struct json_value *compositions = json_get(json_get(ref, "nfc"), "comp");
    ck_assert_uint_eq(compositions->num_items, UNICODE_NUM_COMPOSITIONS);
    for (size_t i = 0; i < compositions->num_items; i++) {
        const struct json_value *triple = compositions->items[i].items;
        char text[16], expected[8];
        size_t size = utf8_encode(text, (uint32_t)triple[0].integer);
        size += utf8_encode(text + size, (uint32_t)triple[1].integer);
        text[size] = '\0';
        expected[utf8_encode(expected, (uint32_t)triple[2].integer)] = '\0';
        check_becomes(expected, expected);
        check_becomes(text, expected);
    }
    arena_deinit(&arena);
    file_map_close(&map);
}
END_TEST

START_TEST(long_runs_of_marks)
{
    enum { NUM_MARKS = 100000 };
    static char text[2 * NUM_MARKS + 1];

    text[0] = 'x';
    for (size_t i = 0; i < NUM_MARKS; i++)
        memcpy(text + 1 + 2 * i, i % 2 ? "\u0323" : "\u0301", 2);
    normalize(text, sizeof(text));
    ck_assert_uint_eq(nfc.size, sizeof(text));
    const char *out = nfc.text.data; /* those below, then those above */
    ck_assert_int_eq(memcmp(out, "x\u0323\u0323", 5), 0);
    ck_assert_int_eq(memcmp(out + nfc.size - 4, "\u0301\u0301", 4), 0);
}
END_TEST

START_TEST(bytes_know_their_source)
{
    size_t start, end;

    normalize("abe\u0301cde\u0301f", 11); /* to: a b e' c d e' f */
    ck_assert_uint_eq(nfc.size, 9);
    nfc_source(&nfc, 0, 2, &start, &end);
    ck_assert(start == 0 && end == 2);
    nfc_source(&nfc, 2, 4, &start, &end);
    ck_assert(start == 2 && end == 5);
    nfc_source(&nfc, 4, 6, &start, &end);
    ck_assert(start == 5 && end == 7);
    nfc_source(&nfc, 3, 5, &start, &end);
    ck_assert(start == 2 && end == 6);
    nfc_source(&nfc, 8, 9, &start, &end);
    ck_assert(start == 10 && end == 11);
    nfc_source(&nfc, 0, 9, &start, &end);
    ck_assert(start == 0 && end == 11);
}
END_TEST

CHECK_MAIN("nfc", characters_are_composed, every_composition, long_runs_of_marks,
           bytes_know_their_source)
