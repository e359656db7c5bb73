/*
 * added_tokens.h - the tokens that are cut out of a text before anything else sees it.
 *
 * There are two sets: tokens not flagged `normalized` are looked for in the raw text, the others in
 * each normalised piece between. In each set the leftmost match wins, and there the longest.
 *
 * Special tokens may be forbidden: everywhere (parse_special false), or where any byte of the match
 * came from the caller of a chat (data ranges). Source: tokenizers, added_vocabulary.rs.
 */
#ifndef TOKENIZER_PROC_ADDED_TOKENS_H
#define TOKENIZER_PROC_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "tokenizer_proc/nfc.h"
#include "tokenizer_proc/text_range.h"

enum added_token_flag {
    ADDED_TOKEN_SPECIAL = 1 << 0,
    ADDED_TOKEN_NORMALIZED = 1 << 1,
    ADDED_TOKEN_SINGLE_WORD = 1 << 2, /* matches only where no \w touches it */
    ADDED_TOKEN_LSTRIP = 1 << 3,      /* swallows white space before it */
    ADDED_TOKEN_RSTRIP = 1 << 4,      /* and behind it */
};

struct added_token {
    int32_t id;
    unsigned flags;   /* of enum added_token_flag */
    uint8_t *content; /* owned */
    size_t size;
};

struct added_node {
    uint8_t byte;
    int32_t child, sibling; /* first child, next of the same parent; 0: none */
    int32_t token;          /* index of the token that ends here, or -1 */
};

/* A tree of bytes; node 0 is the root. */
struct added_trie {
    struct added_node *nodes; /* owned */
    int32_t num_nodes, capacity;
    int32_t roots[256]; /* the root's child for each first byte; 0: none */
    int num_roots;
    uint8_t first; /* the first byte of all when num_roots is 1 */
};

struct added_tokens {
    struct added_token *tokens; /* owned, [num_tokens] */
    int32_t num_tokens, capacity;
    struct added_trie all;             /* by exact content */
    struct added_trie raw, normalized; /* what is looked for in which text */
};

/* Where special tokens are forbidden. All zero: everywhere. */
struct added_scope {
    bool parse_special;
    const struct text_range *data_ranges; /* ascending, apart; borrowed */
    size_t num_data_ranges;
    size_t offset;         /* of the text being cut, in the text that the ranges count in */
    const struct nfc *nfc; /* what normalised it, or NULL */
};

/* A piece of the text: token -1 for text between tokens. */
struct added_piece {
    size_t start, end;
    int32_t token; /* index into tokens */
};

struct added_cutter {
    const struct added_tokens *added;
    const struct added_trie *trie;
    const struct added_scope *scope;
    const uint8_t *text;
    size_t size;
    size_t split_at;  /* what lies before has been handed out */
    size_t search_at; /* matches are looked for from here */
    struct added_piece next;
    bool has_next;
};

/* Takes a copy of content. A token of the same content is replaced; an empty one is ignored. */
MUST_CHECK struct status added_tokens_add(struct added_tokens *added, int32_t id, unsigned flags,
                                          const char *content, size_t size);

/* Builds what is looked for, once all tokens are there; nfc: normalise the contents of normalised
 * ones. */
MUST_CHECK struct status added_tokens_finish(struct added_tokens *added, bool nfc);
void added_tokens_deinit(struct added_tokens *added);

/* Walks text[size], valid UTF-8, from left to right; trie is one of added's. All is borrowed. */
void added_cutter_init(struct added_cutter *cutter, const struct added_tokens *added,
                       const struct added_trie *trie, const struct added_scope *scope,
                       const uint8_t *text, size_t size);
/* The next piece, never empty text; false at the end. */
bool added_cutter_next(struct added_cutter *cutter, struct added_piece *out);

#endif
