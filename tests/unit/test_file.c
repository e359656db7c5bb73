/* test_file.c - files as memory, and what is no file. */
#include "common/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/check_main.h"

static char folder[] = "/tmp/minisgl-file-XXXXXX";
static char path[128];

static const char *in_folder(const char *name)
{
    ck_assert_int_eq(path_join(folder, name, path, sizeof(path)).code, STATUS_OK);
    return path;
}

static void make_folder(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

START_TEST(mapped_and_read_are_the_bytes)
{
    struct file_map map;
    char *data = NULL;
    size_t size = 0;

    make_folder();
    FILE *file = fopen(in_folder("data"), "w");
    ck_assert_ptr_nonnull(file);
    fwrite("a\0b", 1, 3, file);
    fclose(file);
    ck_assert_int_eq(file_map_open(&map, path).code, STATUS_OK);
    ck_assert_uint_eq(map.size, 3);
    ck_assert_mem_eq(map.data, "a\0b", 3);
    file_map_close(&map);
    ck_assert_int_eq(file_read(path, 3, &data, &size).code, STATUS_OK);
    ck_assert_uint_eq(size, 3);
    ck_assert_mem_eq(data, "a\0b", 4);
    free(data);
    ck_assert_int_eq(file_read(path, 2, &data, &size).code, STATUS_INVALID);
    unlink(path);
    rmdir(folder);
}
END_TEST

START_TEST(what_is_no_file_is_refused_at_once)
{
    struct file_map map;

    make_folder();
    ck_assert_int_eq(file_map_open(&map, folder).code, STATUS_INVALID);
    ck_assert_int_eq(file_map_open(&map, in_folder("none")).code, STATUS_NOT_FOUND);
    ck_assert_int_eq(mkfifo(in_folder("fifo"), 0600), 0);
    struct status status = file_map_open(&map, path); /* nobody writes to it: must not wait */
    ck_assert_int_eq(status.code, STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(status.msg, "fifo: not a regular file"));
    unlink(path);
    rmdir(folder);
}
END_TEST

CHECK_MAIN("file", mapped_and_read_are_the_bytes, what_is_no_file_is_refused_at_once)
