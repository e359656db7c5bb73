/* log.c - see log.h. A line is built in one buffer and written by one call, so that lines never
 * mix. */
#include "common/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static const char *process_name = "minisgl";
static bool use_colour;
static atomic_int current_level = LOG_INFO;

/* Where a standard stream is closed (`>&-`) the next socket would take its number, and what is
 * printed would go there. Reads and writes of these fail instead. */
static void hold_standard_streams(void)
{
    int fd;

    do
        fd = open("/dev/null", O_PATH);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

void log_open(const char *name)
{
    const char *wanted = getenv("LOG_LEVEL");
    enum log_level level;

    hold_standard_streams();
    process_name = name;
    use_colour = isatty(STDERR_FILENO) && !getenv("NO_COLOR");
    if (!wanted || !*wanted)
        return;
    if (log_level_parse(wanted, &level))
        log_set_level(level);
    else
        log_warn("LOG_LEVEL takes one of error, warn, info, debug, not '%.20s'", wanted);
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
    return (enum log_level)atomic_load_explicit(&current_level, memory_order_relaxed);
}

bool log_level_parse(const char *text, enum log_level *out)
{
    for (int i = 0; i <= LOG_DEBUG; i++) {
        if (strcasecmp(text, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

void log_write(enum log_level level, const char *format, ...)
{
    static const char *const colours[] = {"\033[31m", "\033[33m", "", "\033[2m"};
    char line[1024];
    struct timespec now;
    struct tm tm;
    va_list args;

    if (level > log_get_level())
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    size_t size = (size_t)snprintf(
        line, sizeof(line), "%s%s %02d:%02d:%02d.%03ld %s: ", use_colour ? colours[level] : "",
        process_name, tm.tm_hour, tm.tm_min, tm.tm_sec, now.tv_nsec / 1000000, level_names[level]);
    size_t room = sizeof(line) - 8; /* for the end of colour and of line */
    if (size > room)
        size = room;
    va_start(args, format);
    int length = vsnprintf(line + size, room - size, format, args);
    va_end(args);
    size_t start = size;
    if (length > 0)
        size += (size_t)length < room - size ? (size_t)length : room - size - 1;
    for (size_t i = start; i < size; i++) /* one line, whoever wrote what stands in it */
        line[i] = (unsigned char)line[i] < ' ' ? ' ' : line[i];
    if (use_colour && *colours[level]) {
        memcpy(line + size, "\033[0m", 4);
        size += 4;
    }
    line[size++] = '\n';
    for (size_t done = 0; done < size;) {
        ssize_t n = write(STDERR_FILENO, line + done, size - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
}

bool log_limited(struct log_limit *limit, int64_t now_ns, int64_t *out_skipped)
{
    if (limit->last_ns && now_ns - limit->last_ns < 1000000000) {
        limit->skipped++;
        return false;
    }
    *out_skipped = limit->skipped;
    *limit = (struct log_limit){.last_ns = now_ns};
    return true;
}
