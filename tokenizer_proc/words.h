/*
 * words.h - text without added tokens to ids: pieces, the cache, BPE.
 */
#ifndef TOKENIZER_PROC_WORDS_H
#define TOKENIZER_PROC_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "tokenizer_proc/bpe.h"
#include "tokenizer_proc/piece_cache.h"
#include "tokenizer_proc/token_list.h"
#include "tokenizer_proc/tokenizer_parts.h"

/* One thread's memory for it. */
struct words {
    const struct tokenizer *tokenizer; /* borrowed */
    struct piece_cache cache;
    struct bpe_scratch bpe;
    struct buffer prefixed; /* a text with the space that the pre-tokenizer puts before it */
    struct status status;   /* why the inner functions failed */
};

/* A failed init leaves what deinit takes. */
MUST_CHECK struct status words_init(struct words *words, const struct tokenizer *tokenizer);
void words_deinit(struct words *words);

/* Appends the ids of text[size], which is normalised. */
MUST_CHECK struct status words_encode(struct words *words, const uint8_t *text, size_t size,
                                      struct token_list *out);

/* Gives scratch beyond max_size bytes back. */
void words_trim(struct words *words, size_t max_size);

#endif
