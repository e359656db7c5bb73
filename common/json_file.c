/*
 * json_file.c - the tree of a file.
 */
#include <stdlib.h>

#include "common/file.h"
#include "common/json.h"

struct status json_parse_file(const char *dir, const char *name, size_t max_size,
                              struct arena *arena, struct json_value **out)
{
    char path[4096];
    char *text = NULL;
    size_t size = 0;
    struct status status = path_join(dir, name, path, sizeof(path));

    if (!status.code)
        status = file_read(path, max_size, &text, &size);
    if (status.code)
        return status;
    status = status_context(json_parse(text, size, arena, out), name);
    free(text);
    return status;
}
