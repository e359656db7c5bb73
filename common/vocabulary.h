/*
 * vocabulary.h - what each token id stands for, as bytes: the half of a tokenizer.json that text
 * output needs.
 *
 * For byte-level BPE: the byte-to-character mapping of GPT-2 is undone at load, so a token's bytes
 * are what the decoder emits; added tokens stand for their content. Ids that no token has decode to
 * nothing. The file's decoder decides; one that is not understood is refused by name.
 */
#ifndef COMMON_VOCABULARY_H
#define COMMON_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum vocabulary_flag {
    VOCABULARY_PRESENT = 1 << 0, /* a token has this id */
    VOCABULARY_ADDED = 1 << 1,   /* it stands in added_tokens */
    VOCABULARY_SPECIAL = 1 << 2, /* and is flagged special there: skip_special_tokens drops it */
};

struct vocabulary {
    int32_t num_tokens; /* largest id + 1 */
    uint32_t *offsets;  /* owned, [num_tokens + 1]: where each token's bytes start */
    uint8_t *bytes;     /* owned */
    uint8_t *flags;     /* owned, [num_tokens], of enum vocabulary_flag */
};

/* Reads tokenizer.json from its bytes. Errors name what is wrong in it. */
MUST_CHECK struct status vocabulary_load(struct vocabulary *vocabulary, const char *json,
                                         size_t size);

/* Reads "dir/tokenizer.json". STATUS_NOT_FOUND when there is none: then ids are served without
 * text. */
MUST_CHECK struct status vocabulary_open(struct vocabulary *vocabulary, const char *dir);
void vocabulary_deinit(struct vocabulary *vocabulary);

/* The token's bytes (borrowed) and their number; 0 bytes for ids that no token has, negative ones
 * too. */
static inline size_t vocabulary_bytes(const struct vocabulary *vocabulary, int32_t token,
                                      const uint8_t **out)
{
    if (token < 0 || token >= vocabulary->num_tokens) {
        *out = NULL;
        return 0;
    }
    *out = vocabulary->bytes + vocabulary->offsets[token];
    return vocabulary->offsets[token + 1] - vocabulary->offsets[token];
}

static inline bool vocabulary_is_special(const struct vocabulary *vocabulary, int32_t token)
{
    return token >= 0 && token < vocabulary->num_tokens &&
           (vocabulary->flags[token] & VOCABULARY_SPECIAL) != 0;
}

/* The id of an added token by its exact content, or -1. */
int32_t vocabulary_find_added(const struct vocabulary *vocabulary, const char *content,
                              size_t size);

#endif
