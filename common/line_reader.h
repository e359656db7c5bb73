/*
 * line_reader.h - lines of a stream, each of bounded length.
 */
#ifndef COMMON_LINE_READER_H
#define COMMON_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/status.h"

/* Starts with file and max_size set and all else zero. */
struct line_reader {
    FILE *file;      /* borrowed */
    size_t max_size; /* bytes of a line, its end not counted */
    char *data;      /* owned: the line without its end (\n or \r\n) */
    size_t size, capacity;
    struct status status; /* of this line: too long (it is skipped), or no memory for it */
};

/* Reads a line; false at the end of the file or when it cannot be read (ferror). The last line
 * needs no newline. */
bool line_reader_next(struct line_reader *reader);
void line_reader_deinit(struct line_reader *reader);

#endif
