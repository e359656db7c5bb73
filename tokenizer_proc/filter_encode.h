/*
 * filter_encode.h - `minisgl-tokenizer --filter encode`: JSON lines in, JSON lines out.
 *
 *     {"id": any, "text": "...", "add_special_tokens": false, "parse_special": true}
 *     {"id": any, "ids": [1, 2]}   or   {"id": any, "error": "..."}
 *
 * One line out for each line in, in that order; only "text" must be there. A line that is too long
 * or no JSON is answered with an error, and the next one is read. Empty lines are skipped.
 */
#ifndef TOKENIZER_PROC_FILTER_ENCODE_H
#define TOKENIZER_PROC_FILTER_ENCODE_H

#include <stdio.h>

#include "common/status.h"
#include "tokenizer_proc/tokenizer.h"

enum { FILTER_MAX_LINE = 64 << 20 }; /* bytes */

/* Runs until the end of in. An error is one of reading, writing or memory, never of a line. */
MUST_CHECK struct status filter_encode(const struct tokenizer *tokenizer, FILE *in, FILE *out);

#endif
