/*
 * bench_detokenize.c - tokens a second through the detokenizer's core: 256 interleaved streams,
 * each with one stop string, one thread.
 *
 *   bench_detokenize [DIR]    the vocabulary of DIR/tokenizer.json; without it one made up here
 *
 * Each stream gets a token in turn, as in a step of the scheduler. The rate is printed for each
 * quarter of the streams' length: it must not fall.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "detokenizer_proc/stop_cache.h"
#include "detokenizer_proc/stream.h"

enum { NUM_STREAMS = 256, NUM_STEPS = 40000, NUM_QUARTERS = 4, NUM_MADE_UP = 50000 };

static uint64_t random_state = 88172645463325252u;

static uint32_t draw(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % n;
}

/* Words of 1 to 10 letters, a tenth of them parts of CJK characters. */
static struct status make_up(struct vocabulary *out)
{
    struct vocabulary v = {.num_tokens = NUM_MADE_UP};

    v.offsets = calloc(NUM_MADE_UP + 1, sizeof(*v.offsets));
    v.bytes = malloc(NUM_MADE_UP * 12);
    v.flags = calloc(NUM_MADE_UP, 1);
    if (!v.offsets || !v.bytes || !v.flags) {
        vocabulary_deinit(&v);
        return status_error(STATUS_NO_MEMORY, "no memory for a vocabulary");
    }
    for (int i = 0; i < NUM_MADE_UP; i++) {
        uint32_t at = v.offsets[i], size = 1 + draw(10);
        v.flags[i] = VOCABULARY_PRESENT;
        v.bytes[at] = ' ';
        for (uint32_t k = 1; k < size; k++)
            v.bytes[at + k] = (uint8_t)('a' + draw(26));
        if (i % 10 == 0) {
            static const uint8_t character[] = {0xE4, 0xB8, 0x96, 0xE7, 0x95, 0x8C};
            size = 1 + draw(6);
            memcpy(v.bytes + at, character, size);
        }
        v.offsets[i + 1] = at + size;
    }
    *out = v;
    return status_ok();
}

static struct stream streams[NUM_STREAMS];

/* Returns the bytes that came out. */
static size_t run_steps(const struct vocabulary *vocabulary, const int32_t *ids, size_t num_ids,
                        int num_steps, char *out)
{
    size_t size = 0, next = 0;
    bool matched = false;

    for (int step = 0; step < num_steps; step++) {
        for (int s = 0; s < NUM_STREAMS; s++) {
            size += stream_feed(&streams[s], vocabulary, ids[next], out, &matched);
            next = next + 1 == num_ids ? 0 : next + 1;
        }
    }
    return size;
}

int main(int argc, char **argv)
{
    enum { NUM_IDS = 100003 };
    static char out[1 << 20];
    static int32_t ids[NUM_IDS];
    struct status status;
    struct vocabulary vocabulary = {0};
    struct stop_cache cache = {0};
    const struct bytes stop = {(const uint8_t *)"\nQuestion:", 10};
    const struct stop_match *match = NULL;

    status = argc > 1 ? vocabulary_open(&vocabulary, argv[1]) : make_up(&vocabulary);
    if (!status.code)
        status = stop_cache_init(&cache, 16);
    for (int i = 0; i < NUM_STREAMS && !status.code; i++) {
        status = stop_cache_take(&cache, &stop, 1, &match);
        stream_init(&streams[i], match, true);
    }
    if (status.code) {
        fprintf(stderr, "bench_detokenize: %s\n", status.msg);
        goto out;
    }
    for (int i = 0; i < NUM_IDS; i++)
        ids[i] = (int32_t)draw((uint32_t)vocabulary.num_tokens);
    for (int quarter = 1; quarter <= NUM_QUARTERS; quarter++) {
        int64_t start_ns = clock_now_ns();
        size_t size = run_steps(&vocabulary, ids, NUM_IDS, NUM_STEPS / NUM_QUARTERS, out);
        double seconds = (double)(clock_now_ns() - start_ns) / 1e9;
        double tokens = (double)NUM_STREAMS * NUM_STEPS / NUM_QUARTERS;
        printf("quarter %d: %.2f M tokens/s, %.0f MB/s of text\n", quarter, tokens / seconds / 1e6,
               (double)size / seconds / 1e6);
    }
out:
    stop_cache_deinit(&cache);
    vocabulary_deinit(&vocabulary);
    return status.code ? 1 : 0;
}
