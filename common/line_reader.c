/* line_reader.c - see line_reader.h. */
#include "common/line_reader.h"

#include <stdlib.h>

static bool reserve(struct line_reader *reader)
{
    if (reader->size < reader->capacity)
        return true;
    size_t capacity = reader->capacity ? reader->capacity * 2 : 4096;
    char *data = realloc(reader->data, capacity);
    if (!data)
        return false;
    reader->data = data;
    reader->capacity = capacity;
    return true;
}

bool line_reader_next(struct line_reader *reader)
{
    int c = EOF;
    bool any = false;

    reader->size = 0;
    reader->status = status_ok();
    while ((c = getc_unlocked(reader->file)) != EOF) {
        any = true;
        if (c == '\n')
            break;
        if (reader->status.code)
            continue;
        if (reader->size == reader->max_size)
            reader->status =
                status_error(STATUS_INVALID, "line of more than %zu bytes", reader->max_size);
        else if (!reserve(reader))
            reader->status = status_error(STATUS_NO_MEMORY, "no memory for a line");
        else
            reader->data[reader->size++] = (char)c;
    }
    if (reader->size > 0 && reader->data[reader->size - 1] == '\r')
        reader->size--;
    return any && !ferror(reader->file);
}

void line_reader_deinit(struct line_reader *reader)
{
    free(reader->data);
    reader->data = NULL;
    reader->size = reader->capacity = 0;
}
