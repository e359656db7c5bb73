/* status.c - see status.h. */
#include "common/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_CONTEXT = 120 };

/* Shortens msg so that it does not end inside a UTF-8 sequence. */
static void trim_to_character(char *msg)
{
    size_t end = strlen(msg);
    size_t start = end;

    while (start > 0 && ((unsigned char)msg[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)msg[start - 1];
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (end - (start - 1) < want)
        msg[start - 1] = '\0';
}

struct status status_error(enum status_code code, const char *format, ...)
{
    struct status status = {.code = code};
    va_list args;

    va_start(args, format);
    int length = vsnprintf(status.msg, sizeof(status.msg), format, args);
    va_end(args);
    if (length >= (int)sizeof(status.msg))
        trim_to_character(status.msg);
    return status;
}

/* The end of a context that is too long, at a character boundary; *out_mark stands before it. */
static const char *shorten(const char *context, const char **out_mark)
{
    size_t size = strlen(context);

    *out_mark = "";
    if (size <= MAX_CONTEXT)
        return context;
    *out_mark = "...";
    for (context += size - MAX_CONTEXT; ((unsigned char)*context & 0xC0) == 0x80; context++)
        ;
    return context;
}

struct status status_context(struct status status, const char *context)
{
    if (status.code == STATUS_OK)
        return status;
    const char *mark;
    const char *end = shorten(context, &mark);
    return status_error(status.code, "%s%s: %s", mark, end, status.msg);
}

struct status status_errno(int error, const char *what)
{
    enum status_code code = STATUS_IO;

    if (error == ENOENT)
        code = STATUS_NOT_FOUND;
    else if (error == ENOMEM)
        code = STATUS_NO_MEMORY;
    const char *mark;
    const char *end = shorten(what, &mark);
    return status_error(code, "%s%s: %s", mark, end, strerror(error));
}

const char *status_name(enum status_code code)
{
    static const char *const names[] = {
        [STATUS_OK] = "ok",
        [STATUS_INVALID] = "invalid",
        [STATUS_FORMAT] = "format",
        [STATUS_UNSUPPORTED] = "unsupported",
        [STATUS_NOT_FOUND] = "not found",
        [STATUS_NO_SPACE] = "no space",
        [STATUS_NO_MEMORY] = "no memory",
        [STATUS_IO] = "io",
        [STATUS_GONE] = "gone",
        [STATUS_BUSY] = "busy",
        [STATUS_DEVICE] = "device",
        [STATUS_INTERRUPTED] = "interrupted",
    };

    if ((size_t)code >= sizeof(names) / sizeof(names[0]))
        return "unknown";
    return names[code];
}
