/*
 * jinja_print.h - values as text: Python's str(), repr() and json.dumps().
 */
#ifndef TOKENIZER_PROC_JINJA_PRINT_H
#define TOKENIZER_PROC_JINJA_PRINT_H

#include "tokenizer_proc/jinja_string.h"

bool jinja_print(struct jinja_buffer *buffer, struct jinja_value value);
bool jinja_print_repr(struct jinja_buffer *buffer, struct jinja_value value);

/* str() of a value, as a string: itself if it is one. */
bool jinja_to_string(struct jinja_run *run, struct jinja_value value, struct jinja_value *out);

struct jinja_json_style {
    bool ascii; /* escape what is not ASCII */
    bool sort_keys;
    const struct jinja_string *indent; /* NULL: all on one line */
    const struct jinja_string *item_separator, *key_separator;
};
bool jinja_print_json(struct jinja_buffer *buffer, struct jinja_value value,
                      const struct jinja_json_style *style, int level);

/* A copy with & < > " ' as HTML entities, marked as markup. */
bool jinja_escape(struct jinja_run *run, struct jinja_value value, struct jinja_value *out);

/* Sorts items in place, stably, by keys (NULL: by themselves), both of which move; fails where
 * Python cannot compare. */
bool jinja_sort(struct jinja_run *run, struct jinja_value *items, struct jinja_value *keys,
                size_t num_items, bool reverse);

#endif
