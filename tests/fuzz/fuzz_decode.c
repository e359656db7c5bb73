/*
 * fuzz_decode.c - tokens to text, with stop strings, against the slow definition of both.
 *
 * Input: number of stop strings (0..3), plus 4 to skip special tokens; each stop string behind its
 * size (1..16); then the tokens' bytes, of which the first of each gives its size. One that starts
 * with '<' is special. Checked: every part is valid UTF-8 and fits, the parts join to the decode of
 * the whole, which ends before the first stop string if there is one.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "detokenizer_proc/stream.h"

enum { MAX_STOPS = 3, SKIP_SPECIAL = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at, *end;
};

static struct bytes take(struct input *input, size_t size)
{
    size_t left = (size_t)(input->end - input->at);
    struct bytes bytes = {input->at, size < left ? size : left};

    input->at += bytes.size;
    return bytes;
}

static size_t take_number(struct input *input, size_t max)
{
    struct bytes byte = take(input, 1);

    return byte.size ? byte.data[0] % (max + 1) : 0;
}

static void expect(int holds)
{
    if (!holds)
        abort();
}

/* The size of the text before the first of the stop strings; SIZE_MAX when there is none. */
static size_t search(const struct bytes *stops, size_t num_stops, const char *text, size_t size)
{
    for (size_t end = 1; end <= size; end++) {
        size_t longest = 0;
        for (size_t s = 0; s < num_stops; s++) {
            size_t n = stops[s].size;
            if (n <= end && n > longest && memcmp(text + end - n, stops[s].data, n) == 0)
                longest = n;
        }
        if (longest)
            return end - longest;
    }
    return SIZE_MAX;
}

/* Each token once, in the order of their ids, between two that the vocabulary does not have.
 * Returns the size of the text; *out_matched: it ended at a stop string. */
static size_t feed(struct stream *stream, const struct vocabulary *vocabulary, char *out,
                   bool *out_matched)
{
    size_t sent = 0;

    for (int32_t id = -1; id <= vocabulary->num_tokens; id++) {
        size_t room = stream_room(stream, vocabulary, id);
        size_t n = stream_feed(stream, vocabulary, id, out + sent, out_matched);
        expect(n <= room && utf8_is_valid(out + sent, n));
        sent += n;
        if (*out_matched)
            return sent;
    }
    size_t room = stream_flush_room(stream), n = stream_flush(stream, out + sent, out_matched);
    expect(n <= room && utf8_is_valid(out + sent, n));
    return sent + n;
}

static void run(const struct vocabulary *vocabulary, bool skip_special,
                const struct stop_match *match, const struct bytes *stops, size_t num_stops)
{
    size_t size = vocabulary->offsets[vocabulary->num_tokens], whole_size;
    int32_t *ids = malloc((size_t)vocabulary->num_tokens * sizeof(*ids));
    char *out = malloc(3 * size + 64), *whole = NULL;
    struct stream stream;
    bool matched = false;

    expect(ids && out);
    for (int32_t id = 0; id < vocabulary->num_tokens; id++)
        ids[id] = id;
    expect(!stream_decode(vocabulary, ids, (size_t)vocabulary->num_tokens, skip_special, &whole,
                          &whole_size)
                .code);
    expect(utf8_is_valid(whole, whole_size));
    stream_init(&stream, num_stops ? match : NULL, skip_special);
    size_t sent = feed(&stream, vocabulary, out, &matched);
    size_t found = search(stops, num_stops, whole, whole_size);
    expect(matched == (found != SIZE_MAX));
    expect(sent == (matched ? found : whole_size));
    expect(memcmp(out, whole, sent) == 0);
    free(whole);
    free(out);
    free(ids);
}

/* A token for each piece of the input. */
static struct vocabulary cut(struct input input)
{
    size_t size = (size_t)(input.end - input.at);
    struct vocabulary vocabulary = {.offsets = calloc(size + 1, sizeof(*vocabulary.offsets)),
                                    .bytes = malloc(size),
                                    .flags = calloc(size, 1)};

    expect(vocabulary.offsets && vocabulary.bytes && vocabulary.flags);
    memcpy(vocabulary.bytes, input.at, size);
    for (uint32_t at = 0; input.at < input.end; vocabulary.num_tokens++) {
        uint8_t first = input.at[0];
        vocabulary.flags[vocabulary.num_tokens] =
            first == '<' ? VOCABULARY_PRESENT | VOCABULARY_ADDED | VOCABULARY_SPECIAL
                         : VOCABULARY_PRESENT;
        at += (uint32_t)take(&input, 1 + first % 7).size;
        vocabulary.offsets[vocabulary.num_tokens + 1] = at;
    }
    return vocabulary;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};
    struct bytes stops[MAX_STOPS];
    struct stop_match match = {0};
    size_t head = take_number(&input, MAX_STOPS + SKIP_SPECIAL), num_stops = head % SKIP_SPECIAL;

    for (size_t i = 0; i < num_stops; i++)
        stops[i] = take(&input, 1 + take_number(&input, 15));
    if (input.at == input.end || stop_match_init(&match, stops, num_stops).code)
        return 0;
    stop_match_check(&match);
    struct vocabulary vocabulary = cut(input);
    run(&vocabulary, head & SKIP_SPECIAL, &match, stops, num_stops);
    free(vocabulary.offsets);
    free(vocabulary.bytes);
    free(vocabulary.flags);
    stop_match_deinit(&match);
    return 0;
}
