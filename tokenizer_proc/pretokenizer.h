/*
 * pretokenizer.h - cuts a text into the pieces ("words") that BPE works on, by the model's own
 * pattern.
 *
 * A pre-tokenizer is a row of stages; each cuts what the one before it has left. The patterns that
 * real models use are recognised by their exact text, and each is a scanner written by hand: one
 * look ahead at most, no backtracking beyond it, so time is linear whatever the text. Pieces are
 * ranges of the text; nothing is copied but where a stage puts a space before its text.
 */
#ifndef TOKENIZER_PROC_PRETOKENIZER_H
#define TOKENIZER_PROC_PRETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "tokenizer_proc/buffer.h"
#include "tokenizer_proc/scanners.h"

enum { PRETOKENIZER_MAX_STAGES = 8, PRETOKENIZER_MAX_LITERAL = 32 };

enum split_behavior {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
};

struct split_stage {
    scanner_function *scan; /* NULL: a literal */
    uint8_t literal[PRETOKENIZER_MAX_LITERAL];
    size_t literal_size;
    enum split_behavior behavior;
    bool invert;           /* what the pattern matches counts as not matched, and the reverse */
    bool add_prefix_space; /* its text gets a space before it unless one is there: one stage at most
                            */
};

struct pretokenizer {
    struct split_stage stages[PRETOKENIZER_MAX_STAGES];
    int num_stages; /* at least 1 once loaded */
};

struct split_level {
    const uint8_t *at, *end;
};

/* Walks one text. */
struct splitter {
    const struct pretokenizer *pretokenizer; /* borrowed */
    struct split_level levels[PRETOKENIZER_MAX_STAGES];
    int level;
    struct buffer *prefixed; /* borrowed: where a text with its added space lies */
};

/* Starts on text[size], valid UTF-8. prefixed is scratch that must live as long as the pieces do.
 */
MUST_CHECK struct status splitter_init(struct splitter *splitter,
                                       const struct pretokenizer *pretokenizer,
                                       struct buffer *prefixed, const uint8_t *text, size_t size);

/* The next piece, never empty; *out NULL at the end. Valid until the next call. */
MUST_CHECK struct status splitter_next(struct splitter *splitter, const uint8_t **out,
                                       size_t *out_size);

#endif
