/*
 * chat_template.h - a model's chat template: messages to the text that the model reads.
 *
 * It is found as Hugging Face transformers finds it: chat_template.jinja, else "chat_template" of
 * tokenizer_config.json (a text, or a list of named ones: "tool_use" serves requests with tools,
 * "default" all others), else chat_template.json. The tokenizer's special tokens (bos_token,
 * eos_token, ... of tokenizer_config.json, or of special_tokens_map.json) are its variables, beside
 * messages, tools, documents (none), add_generation_prompt and what the request gives in kwargs.
 *
 * An open template is immutable: any number of threads may render it at the same time.
 */
#ifndef TOKENIZER_PROC_CHAT_TEMPLATE_H
#define TOKENIZER_PROC_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "common/arena.h"
#include "common/json.h"
#include "common/status.h"
#include "tokenizer_proc/text_range.h"

struct chat_template;

struct chat_args {
    const struct json_value *messages;       /* an array of objects */
    const struct json_value *tools;          /* an array, or NULL */
    const struct json_value *kwargs;         /* an object, or NULL */
    const struct json_value *special_tokens; /* an object instead of the model's own, or NULL */
    bool add_generation_prompt;
    /* Content given as a list of text parts becomes one text, the parts side by side, unless the
     * template walks through such a list itself. Else the template sees what is there. */
    bool join_parts;
    struct tm now; /* what strftime_now sees */
};

/* The text, a NUL behind it, and which of its bytes the caller wrote; all borrowed from the
 * arena. */
struct chat_text {
    const char *text;
    size_t size;
    const struct text_range *ranges;
    size_t num_ranges;
};

/* Opens the template of a model's directory; a directory without one gives STATUS_NOT_FOUND. */
MUST_CHECK struct status chat_template_open(const char *dir, struct chat_template **out);
/* The same with the template in the file at path, and the special tokens of dir (NULL: none). */
MUST_CHECK struct status chat_template_open_file(const char *path, const char *dir,
                                                 struct chat_template **out);
void chat_template_destroy(struct chat_template **template);

/*
 * Renders into the arena. STATUS_INVALID: the template refuses these messages, in its own words
 * (raise_exception), or fails on them. STATUS_NO_SPACE: it takes too much time, memory or nesting.
 */
MUST_CHECK struct status chat_template_render(const struct chat_template *template,
                                              const struct chat_args *args, struct arena *arena,
                                              struct chat_text *out);

#endif
