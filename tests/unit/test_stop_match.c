/* test_stop_match.c - stop strings over texts that come in pieces. */
#include "detokenizer_proc/stop_match.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/check_main.h"

enum { MAX_STOPS = 8 };

static struct stop_match match;

static void init(const char *const *stops)
{
    struct bytes strings[MAX_STOPS];
    size_t n = 0;

    for (; stops[n]; n++)
        strings[n] = (struct bytes){(const uint8_t *)stops[n], strlen(stops[n])};
    ck_assert_int_eq(stop_match_init(&match, strings, n).code, STATUS_OK);
    stop_match_check(&match);
}

/* Feeds text in pieces of at most piece bytes; what comes out is in out, a C string. */
static bool run(const char *text, size_t piece, char *out)
{
    uint32_t state = 0;
    size_t size = strlen(text), done = 0, sent = 0;
    bool matched = false;

    while (done < size && !matched) {
        size_t n = size - done < piece ? size - done : piece;
        memcpy(out + sent, text + done, n);
        sent += stop_match_feed(&match, &state, out + sent, n, &matched);
        done += n;
    }
    if (!matched)
        sent += stop_match_flush(&match, &state, out + sent);
    out[sent] = '\0';
    return matched;
}

static const struct {
    const char *stops[MAX_STOPS];
    const char *text, *out;
    bool matched;
} cases[] = {
    {{"END"}, "the END of it", "the ", true},
    {{"END"}, "the EN of it", "the EN of it", false},
    {{"END"}, "EEND", "E", true},
    {{"END"}, "the EN", "the EN", false},
    {{"aab"}, "aaab", "a", true},
    {{"aabaac"}, "aabaabaac", "aab", true},
    {{"abcd", "bc"}, "abcd", "a", true},      /* the earliest end */
    {{"abcd", "bcd", "d"}, "abcd", "", true}, /* of those, the longest */
    {{"d", "bcd"}, "abcd", "a", true},
    {{"a", "ab", "abc"}, "xabc", "x", true},
    {{"x", "x", "x"}, "abx", "ab", true}, /* twice the same */
    {{"he", "she", "his", "hers"}, "ushers", "u", true},
    {{"\n\n"}, "a\nb\n\nc", "a\nb", true},
    {{"DEFGHIJ"}, "ABC DEF GHI J", "ABC DEF GHI J", false}, /* DET-11 */
    {{"DEFGHIJ"}, "ABC DEFGHIJ", "ABC ", true},
    {{"\xE4\xB8\x96\xE7\x95\x8C"}, "\xE4\xB8\x96\xE4\xB8\x96\xE7\x95\x8C", "\xE4\xB8\x96", true},
    {{"\xC3\xA9"}, "\xC3\xA8\xC3\xA9", "\xC3\xA8", true}, /* they share their first byte */
};

START_TEST(first_match_in_pieces_of_any_size)
{
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        init(cases[c].stops);
        for (size_t piece = 1; piece <= strlen(cases[c].text); piece++) {
            char out[256];
            ck_assert_int_eq(run(cases[c].text, piece, out), cases[c].matched);
            ck_assert_str_eq(out, cases[c].out);
        }
        stop_match_deinit(&match);
    }
}
END_TEST

START_TEST(only_what_may_become_a_match_is_held)
{
    static const char *const stops[] = {"DEFGHIJ", NULL};
    static const char text[] = "ABC DEF GHI J DEFGHI";
    static const size_t held[] = {0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6};
    uint32_t state = 0;
    bool matched = false;

    init(stops);
    /* held is given for "ABC DEF GHI J " and "DEFGHI" behind it */
    for (size_t i = 0; i < 20; i++) {
        char out[32] = {text[i]};
        stop_match_feed(&match, &state, out, 1, &matched);
        ck_assert(!matched);
        ck_assert_uint_eq(stop_match_held(&match, state), held[i]);
    }
    stop_match_deinit(&match);
}
END_TEST

START_TEST(long_stop_string_does_not_hold_ordinary_text)
{
    char stop[1025] = {0};
    const char *const stops[] = {stop, NULL};
    uint32_t state = 0;
    bool matched = false;

    memset(stop, 'q', 1000);
    init(stops);
    for (int i = 0; i < 5000; i++) {
        char out[1025] = "text";
        ck_assert_uint_eq(stop_match_feed(&match, &state, out, 4, &matched), 4);
        ck_assert_str_eq(out, "text");
    }
    /* 999 of its 1000 characters are held, and all are given when it does not come. */
    for (int i = 0; i < 999; i++) {
        char out[1025] = "q";
        ck_assert_uint_eq(stop_match_feed(&match, &state, out, 1, &matched), 0);
    }
    char out[1025] = "!";
    ck_assert_uint_eq(stop_match_feed(&match, &state, out, 1, &matched), 1000);
    ck_assert_int_eq(out[0], 'q');
    ck_assert_int_eq(out[998], 'q');
    ck_assert_int_eq(out[999], '!');
    ck_assert(!matched);
    stop_match_deinit(&match);
}
END_TEST

START_TEST(empty_and_broken_strings_are_refused)
{
    const struct bytes empty = {(const uint8_t *)"", 0};
    const struct bytes broken = {(const uint8_t *)"a\xE4\xB8", 3};

    ck_assert_int_eq(stop_match_init(&match, &empty, 1).code, STATUS_INVALID);
    ck_assert_int_eq(stop_match_init(&match, &broken, 1).code, STATUS_INVALID);
    ck_assert_ptr_null(match.nodes);
}
END_TEST

/* ---- against a search that tries everything ---- */

static uint32_t random_state = 1;

static uint32_t draw(uint32_t n)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % n;
}

static void draw_text(char *out, size_t size, uint32_t alphabet)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (char)('a' + draw(alphabet));
    out[size] = '\0';
}

/* The length of the text before the first match; -1 when there is none. */
static int search(const char *const *stops, const char *text)
{
    for (size_t end = 1; end <= strlen(text); end++) {
        size_t longest = 0;
        for (size_t s = 0; stops[s]; s++) {
            size_t n = strlen(stops[s]);
            if (n <= end && n > longest && memcmp(text + end - n, stops[s], n) == 0)
                longest = n;
        }
        if (longest)
            return (int)(end - longest);
    }
    return -1;
}

/* The longest end of text[0..size) that starts a stop string without being one. */
static size_t longest_start(const char *const *stops, const char *text, size_t size)
{
    for (size_t n = size; n > 0; n--)
        for (size_t s = 0; stops[s]; s++)
            if (strlen(stops[s]) > n && memcmp(text + size - n, stops[s], n) == 0)
                return n;
    return 0;
}

START_TEST(random_texts_agree_with_plain_search)
{
    for (int round = 0; round < 20000; round++) {
        char buffers[MAX_STOPS][12], text[48], out[64];
        const char *stops[MAX_STOPS] = {0};
        uint32_t alphabet = 1 + draw(4);
        size_t num_stops = 1 + draw(MAX_STOPS - 1), sent = 0;
        uint32_t state = 0;
        bool matched = false;
        for (size_t s = 0; s < num_stops; s++) {
            draw_text(buffers[s], 1 + draw(10), alphabet);
            stops[s] = buffers[s];
        }
        size_t size = draw(40);
        draw_text(text, size, alphabet);
        init(stops);
        int expected = search(stops, text);
        for (size_t done = 0; done < size && !matched;) {
            size_t n = 1 + draw(5);
            n = n < size - done ? n : size - done;
            memcpy(out + sent, text + done, n);
            sent += stop_match_feed(&match, &state, out + sent, n, &matched);
            done += n;
            if (!matched)
                ck_assert_uint_eq(sent, done - longest_start(stops, text, done));
        }
        if (!matched)
            sent += stop_match_flush(&match, &state, out + sent);
        ck_assert_int_eq(matched, expected >= 0);
        ck_assert_uint_eq(sent, matched ? (size_t)expected : size);
        ck_assert_mem_eq(out, text, sent);
        stop_match_deinit(&match);
    }
}
END_TEST

CHECK_MAIN("stop_match", first_match_in_pieces_of_any_size, only_what_may_become_a_match_is_held,
           long_stop_string_does_not_hold_ordinary_text, empty_and_broken_strings_are_refused,
           random_texts_agree_with_plain_search)
