/*
 * scanners.h - the patterns of real models' pre-tokenizers, as functions.
 *
 * A scanner looks at a text that starts at p, and says where its first segment ends: a match, or
 * the text up to the next match. Every text is valid UTF-8 and not empty.
 */
#ifndef TOKENIZER_PROC_SCANNERS_H
#define TOKENIZER_PROC_SCANNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef const uint8_t *scanner_function(const uint8_t *p, const uint8_t *end, bool *out_match);

/* The scanner for a regular expression, by its exact text; NULL if it is not known. */
scanner_function *scanner_find(const char *pattern, size_t size);

const uint8_t *scan_gpt2(const uint8_t *p, const uint8_t *end, bool *out_match);
const uint8_t *scan_numeric(const uint8_t *p, const uint8_t *end, bool *out_match); /* Digits */
const uint8_t *scan_all(const uint8_t *p, const uint8_t *end, bool *out_match);     /* no cut */

#endif
