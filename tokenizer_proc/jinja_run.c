/*
 * jinja_run.c - the bookkeeping of one rendering: its failure, its memory, its limits. See
 * jinja_value.h.
 */
#include <stdarg.h>
#include <string.h>

#include "tokenizer_proc/jinja_value.h"

enum {
    MAX_DEPTH = 250,         /* of nested evaluation: keeps the stack below 256 KiB */
    BYTES_PER_STEP = 16,     /* of memory taken */
    BYTES_PER_CHAR_STEP = 4, /* of text walked through character by character */
};

bool jinja_fail(struct jinja_run *run, const char *format, ...)
{
    char text[sizeof(run->status.msg)];
    va_list args;

    if (run->status.code)
        return false;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    run->status = status_error(STATUS_INVALID, "%s", text);
    return false;
}

bool jinja_fail_space(struct jinja_run *run, const char *what)
{
    if (!run->status.code)
        run->status = status_error(STATUS_NO_SPACE, "chat template: %s", what);
    return false;
}

bool jinja_step(struct jinja_run *run, size_t steps)
{
    run->num_steps += steps;
    if (run->num_steps > run->max_steps)
        return jinja_fail_space(run, "takes too many steps");
    return true;
}

bool jinja_step_text(struct jinja_run *run, size_t size)
{
    return jinja_step(run, size / BYTES_PER_CHAR_STEP);
}

void *jinja_alloc(struct jinja_run *run, size_t count, size_t size)
{
    if (count && size > SIZE_MAX / 2 / count) {
        jinja_fail_space(run, "takes too much memory");
        return NULL;
    }
    size_t bytes = count * size;
    if (!jinja_step(run, 1 + bytes / BYTES_PER_STEP))
        return NULL;
    if (bytes > run->max_memory - run->memory) {
        jinja_fail_space(run, "takes too much memory");
        return NULL;
    }
    run->memory += bytes;
    void *data = arena_calloc(run->arena, count, size);
    if (!data && !run->status.code)
        run->status = status_error(STATUS_NO_MEMORY, "no memory for a chat template");
    return data;
}

bool jinja_enter(struct jinja_run *run)
{
    if (run->depth == MAX_DEPTH)
        return jinja_fail_space(run, "is nested too deeply");
    run->depth++;
    return true;
}

void jinja_leave(struct jinja_run *run)
{
    run->depth--;
}
