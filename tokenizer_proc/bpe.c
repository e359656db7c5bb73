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

/* Whether the rank of a pair is always above the ranks that make its parts. */
static struct status find_order(struct bpe *bpe)
{
    int32_t num_tokens = 0;

    bpe->is_ordered = true;
    for (uint32_t rank = 0; rank < bpe->num_merges; rank++) {
        if (bpe->results[rank] >= num_tokens)
            num_tokens = bpe->results[rank] + 1;
    }
    uint32_t *last_made = calloc((size_t)num_tokens + 1, sizeof(*last_made)); /* 1 + rank */
    if (!last_made)
        return status_error(STATUS_NO_MEMORY, "no memory for merges");
    for (uint32_t i = 0; i <= bpe->mask; i++) {
        uint32_t rank = bpe->merges[i].rank;
        if (rank == BPE_NONE)
            continue;
        uint32_t *made = &last_made[bpe->results[rank]];
        if (*made < rank + 1)
            *made = rank + 1;
    }
    for (uint32_t i = 0; i <= bpe->mask; i++) {
        const struct bpe_merge *merge = &bpe->merges[i];
        if (merge->rank == BPE_NONE)
            continue;
        if ((merge->left < num_tokens && last_made[merge->left] > merge->rank) ||
            (merge->right < num_tokens && last_made[merge->right] > merge->rank))
            bpe->is_ordered = false;
    }
    free(last_made);
    return status_ok();
}

struct status bpe_finish(struct bpe *bpe)
{
    for (int a = 0; a < 256; a++) {
        for (int b = 0; b < 256; b++)
            bpe->byte_pairs[a << 8 | b] = bpe_find(bpe, bpe->byte_tokens[a], bpe->byte_tokens[b]);
    }
    return find_order(bpe);
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
