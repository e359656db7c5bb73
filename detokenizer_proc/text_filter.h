/*
 * text_filter.h - the filters `decode` and `stream`: JSON lines in, JSON lines out, no socket.
 *
 *   decode: {"id", "ids", "skip_special_tokens": false}  ->  {"id", "text"}
 *   stream: the same                                     ->  {"id", "pieces"}
 *
 * pieces[k] is what was given after ids[k]; the last one holds the flush too. id is any JSON value
 * and passed through; it is absent where it was. A line at fault becomes {"id", "error"}; an empty
 * one becomes nothing. Each line is written before the next one is read.
 */
#ifndef DETOKENIZER_PROC_TEXT_FILTER_H
#define DETOKENIZER_PROC_TEXT_FILTER_H

#include <stdio.h>

#include "common/json.h"
#include "common/vocabulary.h"

enum text_filter { TEXT_FILTER_DECODE, TEXT_FILTER_STREAM };

enum { TEXT_FILTER_MAX_LINE = 16 << 20 }; /* bytes; a longer line is at fault */

/* One line, without its end, to one JSON object in out, which is reset first. The arena is for
 * scratch; the caller resets it between lines. Fails only for want of memory. */
MUST_CHECK struct status text_filter_line(enum text_filter kind,
                                          const struct vocabulary *vocabulary, const char *line,
                                          size_t size, struct arena *arena,
                                          struct json_writer *out);

/* All lines of in. STATUS_IO when one of the two files fails. */
MUST_CHECK struct status text_filter_run(enum text_filter kind, const struct vocabulary *vocabulary,
                                         FILE *in, FILE *out);

#endif
