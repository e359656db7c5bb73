/* test_stream.c - the text of one request, token by token, with vocabularies made by hand. */
#include "detokenizer_proc/stream.h"

#include <string.h>

#include "common/utf8.h"
#include "detokenizer_proc/stop_cache.h"
#include "tests/unit/check_main.h"
#include "tests/unit/hand_vocabulary.h"

#define R "\xEF\xBF\xBD"

static struct stream stream;
static struct vocabulary vocabulary;
static bool matched;

/* What the token gives, as a C string that lives until the next call. */
static const char *feed(int32_t token)
{
    static char out[4096];
    size_t size = stream_feed(&stream, &vocabulary, token, out, &matched);

    ck_assert(utf8_is_valid(out, size));
    out[size] = '\0';
    return out;
}

static const char *flush(void)
{
    static char out[4096];
    size_t size = stream_flush(&stream, out, &matched);

    ck_assert(utf8_is_valid(out, size));
    out[size] = '\0';
    return out;
}

static void open_stream(const char *const *tokens, int32_t num_tokens,
                        const struct stop_match *stop, bool skip_special)
{
    vocabulary = hand_vocabulary(tokens, num_tokens);
    stream_init(&stream, stop, skip_special);
    matched = false;
}

/* DET-01: a character over several tokens comes whole, once, with its last byte. */
START_TEST(character_split_over_tokens)
{
    static const char *const tokens[] = {"\xF0\x9F", "\x91\xA8", "\xE2\x80\x8D", "\xF0",
                                         "\x9F\x91", "\xA9",     "P\xC5",        "\x99"};

    open_stream(tokens, 8, NULL, true);
    ck_assert_str_eq(feed(0), "");
    ck_assert_str_eq(feed(1), "\xF0\x9F\x91\xA8");
    ck_assert_str_eq(feed(2), "\xE2\x80\x8D");
    ck_assert_str_eq(feed(3), "");
    ck_assert_str_eq(feed(4), "");
    ck_assert_str_eq(feed(5), "\xF0\x9F\x91\xA9");
    ck_assert_str_eq(feed(6), "P");
    ck_assert_str_eq(feed(7), "\xC5\x99");
    ck_assert_str_eq(flush(), "");
    vocabulary_deinit(&vocabulary);
}
END_TEST

/* DET-03: nothing is sent twice around an incomplete character. */
START_TEST(incomplete_character_then_text)
{
    static const char *const tokens[] = {"A \xE4\xB8\x96\xE7", "a", "b"};

    open_stream(tokens, 3, NULL, true);
    ck_assert_str_eq(feed(0), "A \xE4\xB8\x96");
    ck_assert_str_eq(feed(1), R "a");
    ck_assert_str_eq(feed(2), "b");
    ck_assert_str_eq(flush(), "");
    vocabulary_deinit(&vocabulary);
}
END_TEST

/* DET-04: what decodes to nothing leaves nothing behind, whatever its number. */
START_TEST(ids_without_text_leave_the_state_alone)
{
    static const char *const tokens[] = {"a", NULL, "\1<pad>", "\xC3"};

    ck_assert_uint_le(sizeof(struct stream), 32);
    open_stream(tokens, 4, NULL, true);
    feed(3);
    struct stream before = stream;
    for (int i = 0; i < 5000; i++) {
        ck_assert_str_eq(feed(2), "");
        ck_assert_str_eq(feed(1), "");
        ck_assert_str_eq(feed(-1), "");
        ck_assert_str_eq(feed(1000000), "");
    }
    ck_assert_mem_eq(&stream.utf8, &before.utf8, sizeof(before.utf8));
    ck_assert_str_eq(flush(), R);
    vocabulary_deinit(&vocabulary);
}
END_TEST

/* DET-06: a first token that starts inside a character. */
START_TEST(text_starts_inside_a_character)
{
    static const char *const tokens[] = {"\x98\x80!", "\xE4"};

    open_stream(tokens, 2, NULL, true);
    ck_assert_str_eq(feed(0), R R "!");
    ck_assert_str_eq(feed(1), "");
    ck_assert_str_eq(flush(), R);
    vocabulary_deinit(&vocabulary);
}
END_TEST

/* DET-10: blanks come as they are. */
START_TEST(blanks_and_punctuation_stay)
{
    static const char *const tokens[] = {" .", "    ", ".", " n't", " Hello"};

    open_stream(tokens, 5, NULL, true);
    ck_assert_str_eq(feed(4), " Hello");
    ck_assert_str_eq(feed(1), "    ");
    ck_assert_str_eq(feed(2), ".");
    ck_assert_str_eq(feed(0), " .");
    ck_assert_str_eq(feed(3), " n't");
    vocabulary_deinit(&vocabulary);
}
END_TEST

START_TEST(special_tokens_are_skipped_or_shown)
{
    static const char *const tokens[] = {"\xE4\xB8", "\1<|im_end|>", "\x96"};

    open_stream(tokens, 3, NULL, true);
    feed(0);
    ck_assert_str_eq(feed(1), "");
    ck_assert_str_eq(feed(2), "\xE4\xB8\x96"); /* the bytes on both sides join */
    vocabulary_deinit(&vocabulary);
    open_stream(tokens, 3, NULL, false);
    feed(0);
    ck_assert_str_eq(feed(1), R "<|im_end|>");
    ck_assert_str_eq(feed(2), R);
    vocabulary_deinit(&vocabulary);
}
END_TEST

static struct stop_match make_stop(const char *text)
{
    struct stop_match stop = {0};
    struct bytes string = {(const uint8_t *)text, strlen(text)};

    ck_assert_int_eq(stop_match_init(&stop, &string, 1).code, STATUS_OK);
    return stop;
}

/* DET-11: no part of a match is sent; what cannot become one is not delayed. */
START_TEST(stop_string_over_tokens)
{
    static const char *const tokens[] = {"ABC ", "DEF", " GHI J", "x DE", "FGH", "IJK"};
    struct stop_match stop = make_stop("DEFGHIJ");

    open_stream(tokens, 6, &stop, true);
    ck_assert_str_eq(feed(0), "ABC ");
    ck_assert_str_eq(feed(1), "");
    ck_assert_str_eq(feed(2), "DEF GHI J");
    ck_assert_str_eq(feed(3), "x ");
    ck_assert_str_eq(feed(4), "");
    ck_assert(!matched);
    ck_assert_str_eq(feed(5), "");
    ck_assert(matched);
    vocabulary_deinit(&vocabulary);
    stop_match_deinit(&stop);
}
END_TEST

START_TEST(held_text_comes_with_the_end)
{
    static const char *const tokens[] = {"the EN", "\xC3"};
    struct stop_match stop = make_stop("END");

    open_stream(tokens, 2, &stop, true);
    ck_assert_str_eq(feed(0), "the ");
    ck_assert_str_eq(feed(1), "");
    ck_assert_str_eq(flush(), "EN" R);
    ck_assert(!matched);
    vocabulary_deinit(&vocabulary);
    stop_match_deinit(&stop);
}
END_TEST

START_TEST(stop_string_over_parts_of_characters)
{
    static const char *const tokens[] = {"a\xE4", "\xB8", "\x96\xE7\x95", "\x8C", "\x96\xE4\xB8"};
    struct stop_match stop = make_stop("\xE4\xB8\x96\xE7\x95\x8C");

    open_stream(tokens, 5, &stop, true);
    ck_assert_str_eq(feed(0), "a");
    ck_assert_str_eq(feed(1), "");
    ck_assert_str_eq(feed(2), "");
    ck_assert_str_eq(feed(3), "");
    ck_assert(matched);
    vocabulary_deinit(&vocabulary);
    stop_match_deinit(&stop);
}
END_TEST

START_TEST(replacement_character_can_be_a_stop_string)
{
    static const char *const tokens[] = {"a\xE4", "b"};
    struct stop_match stop = make_stop(R);

    open_stream(tokens, 2, &stop, true);
    ck_assert_str_eq(feed(0), "a");
    ck_assert_str_eq(flush(), "");
    ck_assert(matched);
    vocabulary_deinit(&vocabulary);
    stop_match_deinit(&stop);
}
END_TEST

/* Random bytes as tokens: the parts join to the decode of all, with and without stop strings that
 * never come. */
START_TEST(parts_join_to_the_whole)
{
    static const uint8_t bytes[] = {'a', 'b', 0x80, 0x96, 0xB8, 0xC3, 0xE4, 0xED, 0xF0, 0x9F, 0};
    struct stop_match stop = make_stop("abababab\xE4\xB8\x96never");
    uint32_t random = 7;

    matched = false;
    vocabulary = byte_vocabulary();
    for (int round = 0; round < 2000; round++) {
        int32_t ids[64];
        char *whole = NULL, parts[1024];
        size_t whole_size = 0, size = 0;
        bool skip = round & 1;
        for (int i = 0; i < 64; i++) {
            random = random * 1664525 + 1013904223;
            uint32_t pick = (random >> 8) % 13;
            ids[i] = pick < 11 ? bytes[pick] : pick == 11 ? 256 : 257;
        }
        ck_assert_int_eq(stream_decode(&vocabulary, ids, 64, skip, &whole, &whole_size).code,
                         STATUS_OK);
        stream_init(&stream, round & 2 ? &stop : NULL, skip);
        for (int i = 0; i < 64; i++) {
            size_t room = stream_room(&stream, &vocabulary, ids[i]);
            size_t n = stream_feed(&stream, &vocabulary, ids[i], parts + size, &matched);
            ck_assert_uint_le(n, room);
            ck_assert(utf8_is_valid(parts + size, n));
            size += n;
        }
        size += stream_flush(&stream, parts + size, &matched);
        ck_assert(!matched);
        ck_assert_uint_eq(size, whole_size);
        ck_assert_mem_eq(parts, whole, size);
        free(whole);
    }
    vocabulary_deinit(&vocabulary);
    stop_match_deinit(&stop);
}
END_TEST

CHECK_MAIN("stream", character_split_over_tokens, incomplete_character_then_text,
           ids_without_text_leave_the_state_alone, text_starts_inside_a_character,
           blanks_and_punctuation_stay, special_tokens_are_skipped_or_shown,
           stop_string_over_tokens, held_text_comes_with_the_end,
           stop_string_over_parts_of_characters, replacement_character_can_be_a_stop_string,
           parts_join_to_the_whole)
