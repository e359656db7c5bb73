/* file.c - see file.h. */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct status open_regular(const char *path, int *out_fd, size_t *out_size)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo would wait for a writer */

    if (fd < 0)
        return status_errno(errno, path);
    if (fstat(fd, &info) < 0) {
        int error = errno;
        close(fd);
        return status_errno(error, path);
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return status_context(status_error(STATUS_INVALID, "not a regular file"), path);
    }
    *out_fd = fd;
    *out_size = (size_t)info.st_size;
    return status_ok();
}

struct status file_map_open(struct file_map *map, const char *path)
{
    int fd = -1;
    size_t size = 0;
    struct status status = open_regular(path, &fd, &size);

    if (status.code)
        return status;
    if (size == 0) {
        close(fd);
        *map = (struct file_map){0};
        return status_ok();
    }
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    close(fd);
    if (data == MAP_FAILED)
        return status_errno(error, path);
    *map = (struct file_map){.data = data, .size = size};
    return status_ok();
}

void file_map_close(struct file_map *map)
{
    if (map->data)
        munmap((void *)(size_t)map->data, map->size);
    *map = (struct file_map){0};
}

struct status file_read(const char *path, size_t max_size, char **out, size_t *out_size)
{
    int fd = -1;
    size_t size = 0;
    struct status status = open_regular(path, &fd, &size);

    if (status.code)
        return status;
    if (size > max_size) {
        close(fd);
        return status_context(
            status_error(STATUS_INVALID, "%zu bytes, more than %zu", size, max_size), path);
    }
    char *data = malloc(size + 1);
    if (!data) {
        close(fd);
        return status_context(status_error(STATUS_NO_MEMORY, "no memory for %zu bytes", size),
                              path);
    }
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            status = status_errno(errno, path);
            break;
        }
        if (n == 0)
            break;
        done += (size_t)n;
    }
    close(fd);
    if (status.code) {
        free(data);
        return status;
    }
    data[done] = '\0';
    *out = data;
    *out_size = done;
    return status_ok();
}

struct status path_join(const char *dir, const char *name, char *out, size_t out_size)
{
    int length = snprintf(out, out_size, "%s/%s", dir, name);

    if (length < 0 || (size_t)length >= out_size)
        return status_error(STATUS_INVALID, "path too long: %.60s.../%.40s", dir, name);
    return status_ok();
}
