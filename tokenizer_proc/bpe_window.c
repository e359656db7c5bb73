/*
 * bpe_window.c - BPE of pieces of any length, in windows that stay in the processor's first cache.
 *
 * In a window the symbols are a linked list in arrays that stay in place; what is joined leaves a
 * hole. A pair's key is its rank, then its place, so the least key is the pair to join. It is found
 * in two steps: the least of each block of keys is kept, and the least of these is looked for.
 *
 * The last tokens of a window may not be those of the piece, so they are encoded again, at the
 * start of the next one. Where the two meet is then checked: tokens are the encoding of their text
 * if each token alone, and each two neighbours, are. For the first merge that crosses a border
 * between two of them would also happen in the text of these two alone: up to then nothing has
 * crossed the borders around them. Should the check fail, the piece is for bpe_encode_heap.
 */
#include "tokenizer_proc/bpe.h"

#include <string.h>

enum {
    PLACE_BITS = 11,
    WINDOW = 1 << PLACE_BITS, /* bytes */
    MARGIN = 256,             /* of them encoded again */
    BLOCK = 32,               /* keys */
    NO_KEY = INT32_MAX,
};

struct window {
    int32_t ids[WINDOW];
    int32_t keys[WINDOW];          /* of the pair that starts here */
    int32_t least[WINDOW / BLOCK]; /* of each block of keys */
    uint16_t next[WINDOW], previous[WINDOW];
    size_t size;
};

static inline int32_t least_of(const int32_t *keys, size_t n)
{
    int32_t least = NO_KEY;

    for (size_t i = 0; i < n; i++)
        least = keys[i] < least ? keys[i] : least;
    return least;
}

static inline void refresh(struct window *window, size_t block)
{
    window->least[block] = least_of(window->keys + block * BLOCK, BLOCK);
}

static inline int32_t make_key(uint32_t rank, size_t at)
{
    return rank == BPE_NONE ? NO_KEY : (int32_t)(rank << PLACE_BITS | (uint32_t)at);
}

static inline int32_t find_key(const struct bpe *bpe, const struct window *window, size_t left,
                               size_t right)
{
    return make_key(bpe_find(bpe, window->ids[left], window->ids[right]), left);
}

/* Joins the pair of this key. */
static void join(const struct bpe *bpe, struct window *window, int32_t key)
{
    size_t at = key & (WINDOW - 1), right = window->next[at], behind = window->next[right];
    size_t left = at > 0 ? window->previous[at] : at;

    window->ids[at] = bpe->results[key >> PLACE_BITS];
    window->next[at] = (uint16_t)behind;
    window->keys[right] = NO_KEY;
    window->keys[at] = NO_KEY;
    if (behind < window->size) {
        window->previous[behind] = (uint16_t)at;
        window->keys[at] = find_key(bpe, window, at, behind);
    }
    if (left < at)
        window->keys[left] = find_key(bpe, window, left, at);
    refresh(window, at / BLOCK);
    if (right / BLOCK != at / BLOCK)
        refresh(window, right / BLOCK);
    if (left / BLOCK != at / BLOCK)
        refresh(window, left / BLOCK);
}

/* Encodes text[size], 1 to WINDOW bytes. */
static void run(const struct bpe *bpe, struct window *window, const uint8_t *text, size_t size)
{
    size_t num_blocks = (size + BLOCK - 1) / BLOCK;
    int32_t key;

    window->size = size;
    for (size_t i = 0; i < size; i++) {
        window->ids[i] = bpe->byte_tokens[text[i]];
        window->next[i] = (uint16_t)(i + 1);
        window->previous[i] = (uint16_t)(i - 1);
        window->keys[i] =
            i + 1 < size ? make_key(bpe->byte_pairs[text[i] << 8 | text[i + 1]], i) : NO_KEY;
    }
    for (size_t i = size; i < num_blocks * BLOCK; i++)
        window->keys[i] = NO_KEY;
    for (size_t block = 0; block < num_blocks; block++)
        refresh(window, block);
    while ((key = least_of(window->least, num_blocks)) != NO_KEY)
        join(bpe, window, key);
}

/* Appends the tokens that lie within the first max bytes, but one at least. */
static struct status keep(const struct window *window, size_t max, struct token_list *out,
                          size_t *out_last, size_t *out_covered)
{
    struct status status = token_list_reserve(out, window->size);
    size_t at = 0;

    if (status.code)
        return status;
    do {
        out->ids[out->num_ids++] = window->ids[at];
        *out_last = window->next[at] - at;
        at = window->next[at];
    } while (at < window->size && window->next[at] <= max);
    *out_covered = at;
    return status;
}

/* Whether text[size] is encoded as these two. */
static bool is_encoded_as(const struct bpe *bpe, struct window *window, const uint8_t *text,
                          size_t size, int32_t first, int32_t second)
{
    if (size > WINDOW)
        return false;
    run(bpe, window, text, size);
    size_t middle = window->next[0];
    return middle < size && window->next[middle] == size && window->ids[0] == first &&
           window->ids[middle] == second;
}

struct status bpe_encode_windows(const struct bpe *bpe, const uint8_t *piece, size_t size,
                                 struct token_list *out, bool *out_done)
{
    struct window window, seam;
    size_t num_before = out->num_ids, last = 0, covered = 0;
    struct status status = status_ok();

    *out_done = false;
    if (!bpe->has_all_bytes || bpe->num_merges >= 1u << (31 - PLACE_BITS))
        return status;
    for (size_t at = 0; at < size; at += covered) {
        size_t window_size = size - at < WINDOW ? size - at : WINDOW;
        run(bpe, &window, piece + at, window_size);
        if (at > 0 && !is_encoded_as(bpe, &seam, piece + at - last, last + window.next[0],
                                     out->ids[out->num_ids - 1], window.ids[0])) {
            out->num_ids = num_before;
            return status;
        }
        status = keep(&window, at + window_size == size ? WINDOW : WINDOW - MARGIN, out, &last,
                      &covered);
        if (status.code)
            return status;
    }
    *out_done = true;
    return status;
}
