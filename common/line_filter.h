/*
 * line_filter.h - JSON lines in, JSON lines out: the frame of every filter.
 *
 *     {"id": any, ...}   ->   {"id": any, the answer's keys}   or   {"id": any, "error": "..."}
 *
 * One line out for each line in, in that order, written before the next one is read. id is absent
 * where it was. A line that is too long, no JSON or no object is answered with an error; a blank
 * one is skipped.
 */
#ifndef COMMON_LINE_FILTER_H
#define COMMON_LINE_FILTER_H

#include <stdio.h>

#include "common/arena.h"
#include "common/json.h"
#include "common/status.h"

/* Writes the keys of the answer to a line (an object) into the object that is open in out. What it
 * has written when it fails is dropped. */
typedef struct status (*line_filter_answer)(void *context, const struct json_value *line,
                                            struct arena *arena, struct json_writer *out);

struct line_filter {
    line_filter_answer answer;
    void *context;         /* borrowed: answer's */
    size_t max_line_bytes; /* a longer line is at fault */
    size_t max_memory;     /* of the arena, for one line; 0: unbounded */
};

/* One line, without its end, to one object in out, which is reset first. The caller resets the
 * arena between lines. Fails only for want of memory. */
MUST_CHECK struct status line_filter_line(const struct line_filter *filter, const char *line,
                                          size_t size, struct arena *arena,
                                          struct json_writer *out);

/* All lines of in. An error is one of reading, writing or memory, never of a line. */
MUST_CHECK struct status line_filter_run(const struct line_filter *filter, FILE *in, FILE *out);

#endif
