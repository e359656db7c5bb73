/*
 * bpe.h - byte pair encoding: a piece of text to token ids, by the model's list of merges.
 *
 * A piece starts as one token per byte. Again and again the pair of neighbours that stands first in
 * the list (of equals, the leftmost) is joined, until no pair is in the list. The result is exactly
 * that; how it is found depends on the length: by looking through a short piece, in windows of a
 * long one, and at worst with a heap, in n log n.
 *
 * struct bpe is immutable once built and may be used by several threads, each with its own scratch.
 */
#ifndef TOKENIZER_PROC_BPE_H
#define TOKENIZER_PROC_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "tokenizer_proc/buffer.h"
#include "tokenizer_proc/token_list.h"

#define BPE_NONE UINT32_MAX

struct bpe_merge {
    int32_t left, right;
    uint32_t rank; /* place in the list; BPE_NONE: an empty slot */
};

struct bpe {
    int32_t byte_tokens[256]; /* -1: no token for this byte, which is left out */
    uint32_t *byte_pairs; /* owned, [65536]: rank of a pair of bytes; first byte in the high half */
    struct bpe_merge *merges; /* owned: hash table, [mask + 1] */
    uint32_t mask;
    int32_t *results; /* owned, [num_merges]: the token that each rank makes */
    uint32_t num_merges;
    bool has_all_bytes; /* each byte has a token */
};

struct bpe_scratch {
    struct buffer symbols, queue;
};

/* Starts a table for at most num_merges merges. byte_tokens is the caller's to fill before. */
MUST_CHECK struct status bpe_init(struct bpe *bpe, uint32_t num_merges);
/* The next merge of the list; a pair that was there before takes the new rank. */
void bpe_add(struct bpe *bpe, int32_t left, int32_t right, int32_t result);
/* Fills what is derived, once all merges are there. */
void bpe_finish(struct bpe *bpe);
void bpe_deinit(struct bpe *bpe);

static inline uint32_t bpe_hash(int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;

    return (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32);
}

/* The rank of a pair, or BPE_NONE. */
static inline uint32_t bpe_find(const struct bpe *bpe, int32_t left, int32_t right)
{
    for (uint32_t i = bpe_hash(left, right) & bpe->mask;; i = (i + 1) & bpe->mask) {
        const struct bpe_merge *merge = &bpe->merges[i];
        if ((merge->left == left && merge->right == right) || merge->rank == BPE_NONE)
            return merge->rank;
    }
}

/* Appends the tokens of piece[size] to out. */
MUST_CHECK struct status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch,
                                    const uint8_t *piece, size_t size, struct token_list *out);
void bpe_scratch_deinit(struct bpe_scratch *scratch);

/* The three ways that bpe_encode chooses from; each gives the same. Short: at most BPE_SHORT_MAX
 * bytes. Windows: *out_done false when they do not do, out is then as before. */
enum { BPE_SHORT_MAX = 64 };
MUST_CHECK struct status bpe_encode_short(const struct bpe *bpe, const uint8_t *piece, size_t size,
                                          struct token_list *out);
MUST_CHECK struct status bpe_encode_windows(const struct bpe *bpe, const uint8_t *piece,
                                            size_t size, struct token_list *out, bool *out_done);
MUST_CHECK struct status bpe_encode_heap(const struct bpe *bpe, struct bpe_scratch *scratch,
                                         const uint8_t *piece, size_t size, struct token_list *out);

#endif
