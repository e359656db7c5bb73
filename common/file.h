/*
 * file.h - files as memory: mapped read-only, or read whole.
 */
#ifndef COMMON_FILE_H
#define COMMON_FILE_H

#include <stddef.h>

#include "common/status.h"

struct file_map {
    const void *data; /* owned: the mapping, NULL for an empty file */
    size_t size;      /* bytes */
};

/* Maps a regular file. The error names the path. */
MUST_CHECK struct status file_map_open(struct file_map *map, const char *path);
void file_map_close(struct file_map *map);

/* Reads a file of at most max_size bytes into *out (malloc'ed, a NUL behind it); the caller frees.
 */
MUST_CHECK struct status file_read(const char *path, size_t max_size, char **out, size_t *out_size);

/* "dir/name" into out[out_size]; STATUS_INVALID if it does not fit. */
MUST_CHECK struct status path_join(const char *dir, const char *name, char *out, size_t out_size);

#endif
