/*
 * vocab_index.h - from the bytes of a token to its id.
 */
#ifndef TOKENIZER_PROC_VOCAB_INDEX_H
#define TOKENIZER_PROC_VOCAB_INDEX_H

#include <stdint.h>

#include "common/status.h"
#include "common/vocabulary_builder.h"

struct vocab_slot {
    uint32_t entry; /* 1 + place in the builder's entries; 0: empty */
    uint32_t tag;   /* more bits of the hash */
};

struct vocab_index {
    const struct vocabulary_builder *vocab; /* borrowed */
    struct vocab_slot *slots;               /* owned, [mask + 1] */
    uint32_t mask;
    bool has_twins; /* two entries have the same bytes */
};

/* Indexes the byte-level tokens; of two with the same bytes the later one stands. */
MUST_CHECK struct status vocab_index_init(struct vocab_index *index,
                                          const struct vocabulary_builder *vocab);
void vocab_index_deinit(struct vocab_index *index);

/* The id, or -1. */
int32_t vocab_index_find(const struct vocab_index *index, const uint8_t *bytes, size_t size);

/* The same; tries the entry behind *entry first, and sets it to the one found. */
int32_t vocab_index_find_next(const struct vocab_index *index, const uint8_t *bytes, size_t size,
                              uint32_t *entry);

#endif
