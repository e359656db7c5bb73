/* input.h - the text of a file, a pipe, or stdin, whole. */
#ifndef TOOLS_CLIENT_INPUT_H
#define TOOLS_CLIENT_INPUT_H

#include <stddef.h>

#include "common/status.h"

/* path "-": stdin. *out is malloc'ed, a NUL behind it; the caller frees. */
MUST_CHECK struct status input_read(const char *path, size_t max_size, char **out,
                                    size_t *out_size);

#endif
