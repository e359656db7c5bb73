/*
 * tokenizer_parts.h - what a tokenizer is made of: for the reader of tokenizer.json, which fills
 * it, and the encoder, which uses it.
 */
#ifndef TOKENIZER_PROC_TOKENIZER_PARTS_H
#define TOKENIZER_PROC_TOKENIZER_PARTS_H

#include "common/vocabulary_builder.h"
#include "tokenizer_proc/added_tokens.h"
#include "tokenizer_proc/bpe.h"
#include "tokenizer_proc/joints.h"
#include "tokenizer_proc/pretokenizer.h"
#include "tokenizer_proc/vocab_index.h"

enum { TOKENIZER_MAX_AROUND = 16 };

struct tokenizer {
    int32_t vocab_size;
    bool nfc;
    struct added_tokens added;
    struct pretokenizer pretokenizer;
    struct bpe bpe;
    struct joints *joints;           /* owned; NULL: pieces must not be cut */
    bool ignore_merges;              /* a piece that is a token as a whole is that token */
    struct vocabulary_builder vocab; /* kept with ignore_merges alone */
    struct vocab_index vocab_index;  /* the same */
    int32_t before[TOKENIZER_MAX_AROUND], after[TOKENIZER_MAX_AROUND]; /* add_special_tokens */
    int num_before, num_after;
};

/* Fills a zeroed tokenizer; on an error it is for tokenizer_destroy to clean up. */
MUST_CHECK struct status tokenizer_json_read(struct tokenizer *tokenizer, const char *json,
                                             size_t size);

#endif
