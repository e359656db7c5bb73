/* record_file.c - see record_file.h. */
#include "scheduler_proc/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "scheduler_proc/record.h"

struct record_file {
    FILE *file;       /* owned; its error flag remembers a failed write */
    const char *path; /* borrowed */
};

static void write_to(void *context, const void *data, size_t size)
{
    struct record_file *file = context;

    if (ferror(file->file)) /* a record that is cut replays, one with holes does not */
        return;
    fwrite(data, 1, size, file->file);
    if (ferror(file->file))
        log_warn("%s: %s: the record ends here, the server goes on", file->path, strerror(errno));
}

struct status record_file_open(const char *path, struct scheduler *scheduler,
                               struct record_file **out)
{
    struct record_file *file = calloc(1, sizeof(*file));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int error = errno;

    if (file && fd >= 0)
        file->file = fdopen(fd, "w");
    if (!file || !file->file) {
        if (fd >= 0)
            close(fd);
        free(file);
        return fd < 0 ? status_errno(error, path)
                      : status_error(STATUS_NO_MEMORY, "%s: no memory", path);
    }
    file->path = path;
    scheduler_record_to(scheduler, &(struct record_sink){.write = write_to, .context = file});
    *out = file;
    return status_ok();
}

struct status record_file_close(struct record_file **out_file)
{
    struct record_file *file = *out_file;

    if (!file)
        return status_ok();
    int has_failed = ferror(file->file);
    has_failed |= fclose(file->file);
    free(file);
    *out_file = NULL;
    return has_failed ? status_error(STATUS_IO, "record: not all of it could be written")
                      : status_ok();
}

struct status record_file_replay(const char *path)
{
    struct file_map map = {0};
    struct replay_result result = {0};
    struct status status = file_map_open(&map, path);

    if (status.code)
        return status;
    status = status_context(replay_run(map.data, map.size, &result), path);
    if (!status.code || result.num_steps > 0)
        printf("%lld steps, %lld requests, %lld tokens%s: %s\n", (long long)result.num_steps,
               (long long)result.num_requests, (long long)result.num_tokens,
               result.is_cut ? " (the last record is cut)" : "",
               status.code ? "then something else" : "the same again");
    file_map_close(&map);
    return status;
}
