/*
 * golden_lines.h - reads the reference answers under tests/data: JSON lines, each a case.
 */
#ifndef TESTS_UNIT_GOLDEN_LINES_H
#define TESTS_UNIT_GOLDEN_LINES_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/json.h"

/* The path of a file under tests/data, in storage of its own until the next call. */
static inline const char *lines_path(const char *name)
{
    static _Thread_local char path[4096];
    const char *dir = getenv("MINISGL_TEST_DATA");

    ck_assert_ptr_nonnull(dir);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

/* Calls check for every line of a file; returns their number. */
static inline size_t lines_each(const char *name,
                                void (*check)(void *context, const struct json_value *line),
                                void *context)
{
    struct file_map map = {0};
    struct arena arena;
    size_t num_lines = 0;
    struct status status = file_map_open(&map, lines_path(name));

    ck_assert_msg(!status.code, "%s", status.msg);
    arena_init(&arena, 0, 0);
    const char *at = map.data, *end = at + map.size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((newline ? newline : end) - at);
        struct json_value *line = NULL;
        arena_reset(&arena);
        status = json_parse(at, size, &arena, &line);
        ck_assert_msg(!status.code, "%s: line %zu: %s", name, num_lines + 1, status.msg);
        check(context, line);
        num_lines++;
        at += size + 1;
    }
    arena_deinit(&arena);
    file_map_close(&map);
    return num_lines;
}

#endif
