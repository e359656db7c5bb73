/* bpe.c - see bpe.h. The ways for long pieces are in bpe_window.c and bpe_heap.c. */
#include "tokenizer_proc/bpe.h"

#include <stdlib.h>
#include <string.h>

struct status bpe_init(struct bpe *bpe, uint32_t num_merges)
{
    uint32_t slots = 16;

    if (num_merges >= 1u << 25) /* a key of 31 bits holds a rank and a place */
        return status_error(STATUS_UNSUPPORTED, "%u merges", num_merges);
    while (slots / 8 * 5 < num_merges) /* at most 5/8 full */
        slots *= 2;
    bpe->merges = malloc(slots * sizeof(*bpe->merges));
    bpe->results = malloc((num_merges + 1) * sizeof(*bpe->results));
    bpe->byte_pairs = malloc(65536 * sizeof(*bpe->byte_pairs));
    if (!bpe->merges || !bpe->results || !bpe->byte_pairs) {
        bpe_deinit(bpe);
        return status_error(STATUS_NO_MEMORY, "no memory for %u merges", num_merges);
    }
    for (uint32_t i = 0; i < slots; i++)
        bpe->merges[i] = (struct bpe_merge){.left = -1, .right = -1, .rank = BPE_NONE};
    bpe->mask = slots - 1;
    bpe->num_merges = 0;
    return status_ok();
}

void bpe_add(struct bpe *bpe, int32_t left, int32_t right, int32_t result)
{
    uint32_t i = bpe_hash(left, right) & bpe->mask;

    while (bpe->merges[i].rank != BPE_NONE &&
           (bpe->merges[i].left != left || bpe->merges[i].right != right))
        i = (i + 1) & bpe->mask;
    bpe->merges[i] = (struct bpe_merge){left, right, bpe->num_merges};
    bpe->results[bpe->num_merges++] = result;
}

void bpe_finish(struct bpe *bpe)
{
    bpe->has_all_bytes = true;
    for (int a = 0; a < 256; a++) {
        if (bpe->byte_tokens[a] < 0)
            bpe->has_all_bytes = false;
        for (int b = 0; b < 256; b++)
            bpe->byte_pairs[a << 8 | b] = bpe_find(bpe, bpe->byte_tokens[a], bpe->byte_tokens[b]);
    }
}

void bpe_deinit(struct bpe *bpe)
{
    free(bpe->byte_pairs);
    free(bpe->merges);
    free(bpe->results);
    bpe->byte_pairs = NULL;
    bpe->merges = NULL;
    bpe->results = NULL;
}

/* A short piece is a linked list in arrays that stay in place; what is joined leaves a hole. A
 * pair's key is its rank, then its place: the least key is the pair to join. */
enum { PLACE_BITS = 6, NO_KEY = INT32_MAX };

static inline int32_t make_key(uint32_t rank, size_t at)
{
    return rank == BPE_NONE ? NO_KEY : (int32_t)(rank << PLACE_BITS | (uint32_t)at);
}

static inline int32_t least_key(const int32_t *keys, size_t n)
{
    int32_t least = NO_KEY;

    for (size_t i = 0; i < n; i++)
        least = keys[i] < least ? keys[i] : least;
    return least;
}

struct status bpe_encode_short(const struct bpe *bpe, const uint8_t *piece, size_t size,
                               struct token_list *out)
{
    int32_t ids[BPE_SHORT_MAX], keys[BPE_SHORT_MAX]; /* of the pair that starts here */
    uint8_t bytes[BPE_SHORT_MAX], next[BPE_SHORT_MAX], previous[BPE_SHORT_MAX];
    struct status status = token_list_reserve(out, size);
    size_t n = 0;

    if (status.code)
        return status;
    for (size_t i = 0; i < size; i++) {
        if (bpe->byte_tokens[piece[i]] < 0)
            continue;
        bytes[n] = piece[i];
        ids[n] = bpe->byte_tokens[piece[i]];
        next[n] = (uint8_t)(n + 1);
        previous[n] = (uint8_t)(n - 1);
        n++;
    }
    for (size_t i = 0; i + 1 < n; i++)
        keys[i] = make_key(bpe->byte_pairs[bytes[i] << 8 | bytes[i + 1]], i);
    for (size_t num_keys = n > 0 ? n - 1 : 0;;) {
        int32_t least = least_key(keys, num_keys);
        if (least == NO_KEY)
            break;
        size_t at = least & ((1 << PLACE_BITS) - 1);
        size_t right = next[at], behind = next[right];
        ids[at] = bpe->results[least >> PLACE_BITS];
        next[at] = (uint8_t)behind;
        if (right < num_keys)
            keys[right] = NO_KEY;
        keys[at] = NO_KEY;
        if (behind < n) {
            previous[behind] = (uint8_t)at;
            keys[at] = make_key(bpe_find(bpe, ids[at], ids[behind]), at);
        }
        if (at > 0) {
            size_t left = previous[at];
            keys[left] = make_key(bpe_find(bpe, ids[left], ids[at]), left);
        }
    }
    for (size_t i = 0; i < n; i = next[i])
        out->ids[out->num_ids++] = ids[i];
    return status;
}

struct status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const uint8_t *piece,
                         size_t size, struct token_list *out)
{
    bool done = false;

    if (size <= BPE_SHORT_MAX)
        return bpe_encode_short(bpe, piece, size, out);
    struct status status = bpe_encode_windows(bpe, piece, size, out, &done);
    if (!status.code && !done)
        status = bpe_encode_heap(bpe, scratch, piece, size, out);
    return status;
}

void bpe_scratch_deinit(struct bpe_scratch *scratch)
{
    buffer_deinit(&scratch->symbols);
    buffer_deinit(&scratch->queue);
}
