/*
 * joints.h - between which characters a token can lie: where a long piece may be cut before BPE.
 *
 * A merge joins neighbours, so BPE never crosses a place that no merge's result spans, and gives
 * the same on both sides of it alone. Most pairs of Chinese characters, say, stand in no token
 * together: cut there, a long run falls into words that the piece cache knows.
 *
 * The set of pairs is a bitmap by hash: it may say yes for too many, never no for one that is
 * there.
 */
#ifndef TOKENIZER_PROC_JOINTS_H
#define TOKENIZER_PROC_JOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JOINTS_BITS = 19, JOINTS_OPEN_BITS = 13 };

struct joints {
    uint64_t pairs[1 << (JOINTS_BITS - 6)]; /* two characters, both in the token as a whole */
    uint64_t open_left[1 << (JOINTS_OPEN_BITS - 6)];  /* a character behind the end of another */
    uint64_t open_right[1 << (JOINTS_OPEN_BITS - 6)]; /* a character before the start of another */
    uint64_t bytes[65536 / 64]; /* the end of one character and the start of another: two bytes */
};

/* A merge of left and right: what lies at their border is joined. */
void joints_add(struct joints *joints, const uint8_t *left, size_t left_size, const uint8_t *right,
                size_t right_size);

/* A text of at most size bytes at the start of piece[size] (valid UTF-8) that no merge joins to the
 * rest: at least one character. */
size_t joints_cut(const struct joints *joints, const uint8_t *piece, size_t size);

#endif
