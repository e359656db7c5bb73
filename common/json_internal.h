/* json_internal.h - what the files of the JSON reader share. */
#ifndef COMMON_JSON_INTERNAL_H
#define COMMON_JSON_INTERNAL_H

#include "common/json.h"

/* Sets the reader's status, if it has none; false. */
static inline bool json_fail_memory(struct json_reader *reader)
{
    if (!reader->status.code)
        reader->status = status_error(STATUS_NO_MEMORY, "no memory for JSON");
    return false;
}

#endif
