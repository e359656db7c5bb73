/*
 * log.h - one line to stderr for each event that an operator can act on.
 *
 *   minisgl-scheduler 12:34:56.789 warn: request refused uid=7 prompt_len=513 max_seq_len=512
 *
 * The process name comes first, facts stand as key=value. Colour only on a terminal. Never one line
 * per token or per refused frame without log_limited().
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* The first call of a program. name: borrowed for the life of the process. The level is taken from
 * LOG_LEVEL if that names one; what it does not know it warns of. Standard streams that are closed
 * are held, so that nothing else becomes one. */
void log_open(const char *name);
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* false when text is none of error, warn, info, debug (any case). */
bool log_level_parse(const char *text, enum log_level *out);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

/*
 * A budget of lines for one kind of event. log_limited() is true when a line may be written at
 * now_ns: at most one a second; *out_skipped is how many were held back since the last one.
 */
struct log_limit {
    int64_t last_ns;
    int64_t skipped;
};

bool log_limited(struct log_limit *limit, int64_t now_ns, int64_t *out_skipped);

#endif
