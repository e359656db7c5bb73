/*
 * jinja.h - Jinja templates as chat models use them: compiled once, rendered many times.
 *
 * The language is that of python3-jinja2 3.1 with the settings of Hugging Face transformers: the
 * immutable sandbox, trim_blocks and lstrip_blocks on, autoescape off, `break`, `continue` and
 * `generation` blocks, raise_exception, strftime_now, and tojson as Python's json.dumps with
 * ensure_ascii=False. README.md lists what is left out.
 *
 * Every string knows which of its bytes came from the caller and which from the template, through
 * every filter, slice, method and concatenation; where an operation mixes them beyond telling, its
 * result counts as the caller's. So the rendered text comes with the list of the caller's bytes.
 *
 * A template is immutable once compiled: any number of threads may render it at the same time. All
 * that a rendering allocates lies in the arena that it is given. Steps, nesting, memory and output
 * are bounded (struct jinja_limits); a bound that is met ends the rendering with STATUS_NO_SPACE.
 * Stack use is bounded too: 256 KiB suffice for any template and any data.
 */
#ifndef TOKENIZER_PROC_JINJA_H
#define TOKENIZER_PROC_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "common/arena.h"
#include "common/json.h"
#include "common/status.h"
#include "tokenizer_proc/text_range.h"

struct jinja_template;

struct jinja_limits {
    size_t max_steps;  /* nodes evaluated, and for what they do to texts and lists in proportion */
    size_t max_memory; /* bytes taken from the arena */
    size_t max_output; /* bytes of the rendered text */
};

/* Far beyond what any chat needs, and over within a second or two. */
#define JINJA_DEFAULT_LIMITS                                                                       \
    {                                                                                              \
        .max_steps = 10000000, .max_memory = (size_t)1 << 30, .max_output = (size_t)1 << 28        \
    }

/* A variable for the template. */
struct jinja_variable {
    const char *name;
    const struct json_value *value; /* NULL is none */
    bool from_caller;               /* its strings are marked as the caller's */
};

struct jinja_args {
    const struct jinja_variable *variables; /* of two with one name the later wins */
    size_t num_variables;
    const struct json_value *context; /* NULL, or an object: a variable for each member, all from
                                         the caller, and stronger than variables */
    struct tm now;                    /* what strftime_now sees */
    struct jinja_limits limits;       /* all zero stands for JINJA_DEFAULT_LIMITS */
};

/* A rendered text: UTF-8, may hold NUL, a NUL behind it. */
struct jinja_output {
    const char *text; /* borrowed from the arena, as the ranges */
    size_t size;
    const struct text_range *ranges; /* the caller's bytes */
    size_t num_ranges;
};

/* Compiles size bytes of UTF-8 (copied). Errors (STATUS_FORMAT) name the line. */
MUST_CHECK struct status jinja_compile(const char *source, size_t size,
                                       struct jinja_template **out);
void jinja_destroy(struct jinja_template **template);

/* Whether the template itself walks through message content given as a list of parts: there is a
 * `for` over something called `content`. */
bool jinja_loops_over_content(const struct jinja_template *template);

/*
 * Renders into the arena. Errors: STATUS_INVALID with the words of the template's raise_exception,
 * or of what failed in it (with the line); STATUS_NO_SPACE for a bound that was met;
 * STATUS_NO_MEMORY.
 */
MUST_CHECK struct status jinja_render(const struct jinja_template *template,
                                      const struct jinja_args *args, struct arena *arena,
                                      struct jinja_output *out);

/* "2025-01-15T12:34:56" as a time; STATUS_INVALID for anything else. */
MUST_CHECK struct status jinja_parse_time(const char *text, size_t size, struct tm *out);

#endif
