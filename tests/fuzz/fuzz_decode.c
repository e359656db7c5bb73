/*
 * fuzz_decode.c - bytes to text in pieces, with stop strings, against the slow definition of both.
 *
 * Input: number of stop strings (0..3), each behind its size (1..16), then sizes and bytes of the
 * pieces. Checked: every part is valid UTF-8, the parts join to the decode of the whole, which ends
 * before the first stop string if there is one.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "detokenizer_proc/stop_match.h"
#include "detokenizer_proc/utf8_lossy.h"

enum { MAX_STOPS = 3 };

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

static void run(struct input input, const struct stop_match *match, const struct bytes *stops,
                size_t num_stops)
{
    size_t size = (size_t)(input.end - input.at), sent = 0, whole_size;
    char *out = malloc(3 * size + 64), *whole = malloc(3 * size + 64);
    struct utf8_lossy utf8 = {0}, whole_utf8 = {0};
    uint32_t state = 0;
    bool matched = false;

    expect(out && whole);
    whole_size = utf8_lossy_feed(&whole_utf8, input.at, size, whole);
    whole_size += utf8_lossy_flush(&whole_utf8, whole + whole_size);
    expect(utf8_is_valid(whole, whole_size));
    for (bool last = false; !last && !matched;) {
        struct bytes piece = take(&input, 1 + input.at[0] % 7);
        last = input.at == input.end;
        size_t n = utf8_lossy_feed(&utf8, piece.data, piece.size, out + sent);
        if (last)
            n += utf8_lossy_flush(&utf8, out + sent + n);
        n = stop_match_feed(match, &state, out + sent, n, &matched);
        expect(utf8_is_valid(out + sent, n));
        sent += n;
    }
    if (!matched)
        sent += stop_match_flush(match, &state, out + sent);
    size_t found = search(stops, num_stops, whole, whole_size);
    expect(matched == (found != SIZE_MAX));
    expect(sent == (matched ? found : whole_size));
    expect(memcmp(out, whole, sent) == 0);
    free(out);
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};
    struct bytes stops[MAX_STOPS];
    struct stop_match match = {0};
    size_t num_stops = take_number(&input, MAX_STOPS);

    for (size_t i = 0; i < num_stops; i++)
        stops[i] = take(&input, 1 + take_number(&input, 15));
    if (input.at == input.end || stop_match_init(&match, stops, num_stops).code)
        return 0;
    stop_match_check(&match);
    run(input, &match, stops, num_stops);
    stop_match_deinit(&match);
    return 0;
}
