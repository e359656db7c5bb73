/* input.c - see input.h. */
#include "tools/client/input.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct status input_read(const char *path, size_t max_size, char **out, size_t *out_size)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "r");
    struct status status = status_ok();
    size_t size = 0, capacity = 65536;
    char *text = malloc(capacity);

    if (!file) {
        status = status_errno(errno, path);
        goto out;
    }
    while (text && !feof(file) && !ferror(file)) {
        if (size + 1 == capacity) {
            char *grown = realloc(text, 2 * capacity);
            if (!grown)
                free(text);
            text = grown;
            capacity *= 2;
            continue;
        }
        size += fread(text + size, 1, capacity - size - 1, file);
        if (size > max_size) {
            status =
                status_context(status_error(STATUS_INVALID, "more than %zu bytes", max_size), path);
            goto out;
        }
    }
    if (!text) {
        status = status_context(status_error(STATUS_NO_MEMORY, "no memory for it"), path);
        goto out;
    }
    if (ferror(file)) {
        status = status_errno(errno, path);
        goto out;
    }
    text[size] = '\0';
    *out = text;
    *out_size = size;
    text = NULL;
out:
    free(text);
    if (file && !is_stdin)
        fclose(file);
    return status;
}
