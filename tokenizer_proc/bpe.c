/* bpe.c - see bpe.h. The way for long pieces is in bpe_long.c. */
#include "tokenizer_proc/bpe.h"

#include <stdlib.h>
#include <string.h>

struct status bpe_init(struct bpe *bpe, uint32_t num_merges)
{
    uint32_t slots = 16;

    if (num_merges > 1u << 28)
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

struct status bpe_encode_short(const struct bpe *bpe, const uint8_t *piece, size_t size,
                               struct token_list *out)
{
    uint32_t ranks[BPE_SHORT_MAX]; /* of the pair that starts here; none behind the last */
    uint8_t bytes[BPE_SHORT_MAX];
    struct status status = token_list_reserve(out, size);
    size_t n = 0;

    if (status.code)
        return status;
    int32_t *ids = out->ids + out->num_ids;
    for (size_t i = 0; i < size; i++) {
        if (bpe->byte_tokens[piece[i]] < 0)
            continue;
        bytes[n] = piece[i];
        ids[n++] = bpe->byte_tokens[piece[i]];
    }
    for (size_t i = 0; i + 1 < n; i++)
        ranks[i] = bpe->byte_pairs[bytes[i] << 8 | bytes[i + 1]];
    while (n > 1) {
        uint32_t best = ranks[0];
        for (size_t i = 1; i + 1 < n; i++)
            best = ranks[i] < best ? ranks[i] : best;
        if (best == BPE_NONE)
            break;
        size_t at = 0;
        while (ranks[at] != best)
            at++;
        ids[at] = bpe->results[best];
        n--;
        memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof(*ids));
        if (at + 1 < n) {
            memmove(ranks + at, ranks + at + 1, (n - at - 1) * sizeof(*ranks));
            ranks[at] = bpe_find(bpe, ids[at], ids[at + 1]);
        }
        if (at > 0)
            ranks[at - 1] = bpe_find(bpe, ids[at - 1], ids[at]);
    }
    out->num_ids += n;
    return status;
}

struct status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const uint8_t *piece,
                         size_t size, struct token_list *out)
{
    if (size <= BPE_SHORT_MAX)
        return bpe_encode_short(bpe, piece, size, out);
    return bpe_encode_long(bpe, scratch, piece, size, out);
}

void bpe_scratch_deinit(struct bpe_scratch *scratch)
{
    buffer_deinit(&scratch->symbols);
    buffer_deinit(&scratch->queue);
}
