/*
 * jinja_functions.h - what is built in and can be called: filters, tests, methods, globals.
 *
 * Each is a row of a table in its file; NULL where there is none of that name.
 */
#ifndef TOKENIZER_PROC_JINJA_FUNCTIONS_H
#define TOKENIZER_PROC_JINJA_FUNCTIONS_H

#include "tokenizer_proc/jinja_value.h"

const struct jinja_function *jinja_find_filter(const struct jinja_string *name);
const struct jinja_function *jinja_find_test(const struct jinja_string *name);
const struct jinja_function *jinja_find_global(const struct jinja_string *name);
const struct jinja_function *jinja_find_string_method(const struct jinja_string *name);
/* Of everything but strings; *out_unsafe when the sandbox keeps it away. */
const struct jinja_function *jinja_find_method(enum jinja_type type,
                                               const struct jinja_string *name, bool *out_unsafe);

/* The filters, by what they work on. */
extern const struct jinja_function jinja_list_filters[], jinja_order_filters[];
extern const struct jinja_function jinja_text_filters[], jinja_number_filters[];
extern const struct jinja_function jinja_markup_filters[];
/* The methods of strings: those that make something of it, and those that ask. */
extern const struct jinja_function jinja_string_changes[], jinja_string_questions[];
/* The row of that name in a table that ends with a NULL name. */
const struct jinja_function *jinja_find_in(const struct jinja_function *table,
                                           const struct jinja_string *name);

/* Binds the arguments to the function's parameters and calls it. */
bool jinja_call_function(struct jinja_run *run, const struct jinja_function *function,
                         struct jinja_call *call, struct jinja_value *out);

/* Shared by filters and methods of one name. */
bool jinja_change_case(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out, int how);
enum {
    JINJA_CASE_UPPER,
    JINJA_CASE_LOWER,
    JINJA_CASE_TITLE,
    JINJA_CASE_CAPITALIZE,
    JINJA_CASE_SWAP,
    JINJA_CASE_FOLD
};
enum { JINJA_STRIP_LEFT = 1, JINJA_STRIP_RIGHT = 2 };
/* chars MISSING or none: white space. */
bool jinja_strip(struct jinja_run *run, const struct jinja_string *string, struct jinja_value chars,
                 int sides, struct jinja_value *out);
bool jinja_replace(struct jinja_run *run, const struct jinja_string *string,
                   const struct jinja_string *from, const struct jinja_string *to, int64_t count,
                   struct jinja_value *out);
bool jinja_join(struct jinja_run *run, const struct jinja_string *separator,
                const struct jinja_list *list, bool convert, struct jinja_value *out);
bool jinja_split_lines(struct jinja_run *run, const struct jinja_string *string, bool keep_ends,
                       struct jinja_items *out);
bool jinja_lower(struct jinja_run *run, struct jinja_value value, struct jinja_value *out);

bool jinja_wordwrap(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out);

/* `format % argument`, and str.format(). */
bool jinja_percent_format(struct jinja_run *run, const struct jinja_string *format,
                          struct jinja_value argument, struct jinja_value *out);
bool jinja_brace_format(struct jinja_run *run, const struct jinja_string *format,
                        const struct jinja_call *call, struct jinja_value *out);

/* A list of its own with the items of a value. */
bool jinja_own_list(struct jinja_run *run, struct jinja_value value, struct jinja_list **out);
/* Undefined, with a name for the message. */
bool jinja_undefined_named(struct jinja_run *run, const char *name, struct jinja_value *out);
/* The attribute of an item: a path with dots, or an index; MISSING is the item itself. fallback, if
 * not MISSING or none, stands for each part of the path that is undefined. */
bool jinja_get_path(struct jinja_run *run, struct jinja_value item, struct jinja_value attribute,
                    struct jinja_value fallback, struct jinja_value *out);
/* What to compare by: the attribute, in lower case unless case_sensitive. */
bool jinja_get_key(struct jinja_run *run, struct jinja_value item, struct jinja_value attribute,
                   bool case_sensitive, struct jinja_value *out);

/* Where needle was last, ending at or before end; SIZE_MAX. */
size_t jinja_find_back(const struct jinja_string *string, const struct jinja_string *needle,
                       size_t end);

/* An argument that must be a string, or an integer; fails with the function's complaint. */
bool jinja_want_string(struct jinja_run *run, struct jinja_value value,
                       const struct jinja_string **out);
bool jinja_want_int(struct jinja_run *run, struct jinja_value value, int64_t *out);

#endif
