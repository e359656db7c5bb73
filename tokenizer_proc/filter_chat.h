/*
 * filter_chat.h - `minisgl-tokenizer --filter render` and `--filter jinja`: JSON lines in, JSON
 * lines out.
 *
 *     render   {"id": any, "messages": [...], "tools": [...], "add_generation_prompt": true,
 *               "kwargs": {...}, "special_tokens": {...}, "now": "2025-01-15T12:34:56"}
 *     jinja    {"id": any, "template": "...", "context": {...}, "now": "2025-01-15T12:34:56"}
 *     both     {"id": any, "text": "..."}   or   {"id": any, "error": "..."}
 *
 * One line out for each line in, in that order. A line that is too long or no JSON is answered with
 * an error, and the next one is read. Empty lines are skipped. With "ranges": true in the line, the
 * answer has "ranges": [[start, end], ...] too: the bytes that came from the caller.
 */
#ifndef TOKENIZER_PROC_FILTER_CHAT_H
#define TOKENIZER_PROC_FILTER_CHAT_H

#include <stdio.h>

#include "common/status.h"
#include "tokenizer_proc/chat_template.h"

/* Run until the end of in. An error is one of reading, writing or memory, never of a line. */
MUST_CHECK struct status filter_render(struct chat_template *template, FILE *in, FILE *out);
MUST_CHECK struct status filter_jinja(FILE *in, FILE *out);

#endif
