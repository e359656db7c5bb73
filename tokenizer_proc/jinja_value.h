/*
 * jinja_value.h - the values of a running template, and the run that they belong to.
 *
 * A value is 16 bytes and copied freely; what it points to lies in the run's arena (or in the
 * compiled template) and is never changed once visible, but for namespaces, iterators, cyclers and
 * joiners. Functions that can fail return false with the reason in run->status.
 */
#ifndef TOKENIZER_PROC_JINJA_VALUE_H
#define TOKENIZER_PROC_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/arena.h"
#include "common/json.h"
#include "common/status.h"
#include "tokenizer_proc/text_range.h"

struct jinja_node;
struct jinja_run;
struct jinja_scope;
struct jinja_template;
struct jinja_buffer;

enum jinja_type {
    JINJA_MISSING, /* no value at all: an argument not given, a name not bound */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_BIGINT, /* an integer beyond int64 */
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_VIEW,     /* keys(), values(), items() of a dict: has a length, but no index */
    JINJA_ITERATOR, /* a generator: read once, has no length */
    JINJA_RANGE,
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_MACRO,
    JINJA_FUNCTION,
    JINJA_METHOD,
    JINJA_LOOP,
    JINJA_CYCLER,
    JINJA_JOINER,
};

enum jinja_origin {
    JINJA_FROM_TEMPLATE,
    JINJA_FROM_CALLER,
    JINJA_MIXED, /* ranges tell */
};

struct jinja_string {
    const char *data; /* UTF-8, no NUL behind it */
    size_t size;
    const struct text_range *ranges; /* JINJA_MIXED: the caller's bytes */
    size_t num_ranges;
    enum jinja_origin origin;
    bool is_markup; /* made by the filters safe and escape: `+` escapes what is added to it */
};

struct jinja_value {
    enum jinja_type type;
    union {
        bool boolean;
        int64_t integer;
        double number;
        const struct jinja_bigint *big;
        const struct jinja_string *string;
        const struct jinja_list *list; /* JINJA_LIST, JINJA_TUPLE */
        const struct jinja_view *view;
        struct jinja_iterator *iterator;
        const struct jinja_range *range;
        struct jinja_dict *dict; /* JINJA_DICT, JINJA_NAMESPACE */
        const struct jinja_macro *macro;
        const struct jinja_function *function;
        const struct jinja_method *method;
        struct jinja_loop *loop;
        struct jinja_cycler *cycler;
        struct jinja_joiner *joiner;
        const struct jinja_undefined *undefined;
    };
};

struct jinja_list {
    struct jinja_value *items; /* [num_items] */
    size_t num_items;
};

/* A growing list. */
struct jinja_items {
    struct jinja_value *items;
    size_t num_items, capacity;
};

struct jinja_view {
    struct jinja_list list;
    const char *name; /* "dict_keys" */
};

struct jinja_iterator {
    struct jinja_list list;
    size_t next; /* items before it have been read */
};

struct jinja_range {
    int64_t start, stop, step;
    int64_t num_items;
};

/* Keys in the order of their insertion; an index over them from 16 entries on. */
struct jinja_dict {
    struct jinja_value *keys, *values; /* [num_items] of [capacity] */
    size_t num_items, capacity;
    uint32_t *slots; /* NULL, or [num_slots] of entry + 1, 0 where free */
    size_t num_slots;
};

/* Why a value is undefined, for the message when somebody uses it. */
struct jinja_undefined {
    enum jinja_type object_type; /* JINJA_MISSING: a variable */
    bool is_unsafe;              /* an attribute that the sandbox keeps away */
    struct jinja_value key;      /* its name, or index */
};

struct jinja_macro {
    const struct jinja_node *node;
    struct jinja_scope *scope; /* where it was defined */
};

/* A keyword argument. */
struct jinja_named {
    struct jinja_value name; /* a string */
    struct jinja_value value;
};

enum { JINJA_MAX_PARAMS = 6 };

struct jinja_call {
    struct jinja_value self; /* of a filter, test or method: what it is applied to */
    const struct jinja_value *args;
    size_t num_args;
    const struct jinja_named *named;
    size_t num_named;
    struct jinja_value bound[JINJA_MAX_PARAMS]; /* args by parameter; JINJA_MISSING if not given */
};

typedef bool (*jinja_function_call)(struct jinja_run *run, const struct jinja_call *call,
                                    struct jinja_value *out);

/* Something built in that can be called: a filter, a test, a method, a global function. */
struct jinja_function {
    const char *name;
    jinja_function_call call;
    const char *params; /* names with a space behind each ("width first "), "-" for one that takes
                           no keyword; NULL: takes anything, and looks at args and named itself */
    int num_required;
};

struct jinja_method {
    struct jinja_value self;
    const struct jinja_function *function;
};

/* A `for` under way. Its condition is asked when an item is wanted, not before: it may look at
 * what the body has changed. */
struct jinja_loop {
    struct jinja_items items; /* known so far to take part; all, without a condition */
    const struct jinja_list *source;
    size_t next_source; /* items of source before it have been asked */
    size_t index0, depth0;
    const struct jinja_node *node;
    struct jinja_scope *scope;           /* around the `for` */
    struct jinja_scope *condition_scope; /* NULL: no condition */
    struct jinja_value changed;          /* what changed() saw last, as a tuple */
};

struct jinja_cycler {
    struct jinja_list list;
    size_t next;
};

struct jinja_joiner {
    struct jinja_value separator;
    bool was_called;
};

enum jinja_flow { JINJA_GO_ON, JINJA_BREAK, JINJA_CONTINUE };

/* One rendering. */
struct jinja_run {
    const struct jinja_template *template;
    struct arena *arena; /* borrowed */
    struct status status;
    size_t max_steps, max_memory, max_output;
    size_t num_steps, memory;
    int depth;                /* of nested evaluation */
    struct jinja_buffer *out; /* where statements print */
    struct tm now;
    enum jinja_flow flow; /* why statements are being left */
};

/* Fails the run: false, always. Only the first failure is kept. */
bool jinja_fail(struct jinja_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool jinja_fail_space(struct jinja_run *run, const char *what);

/* Zeroed memory, counted against the limits; NULL fails the run. */
void *jinja_alloc(struct jinja_run *run, size_t count, size_t size);

/* Counts work; false when the limit is met. */
bool jinja_step(struct jinja_run *run, size_t steps);

/* The same for a walk through the characters of a text of that many bytes. */
bool jinja_step_text(struct jinja_run *run, size_t size);

/* Around each level of recursion. */
bool jinja_enter(struct jinja_run *run);
void jinja_leave(struct jinja_run *run);

static inline struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.type = JINJA_NONE};
}

static inline struct jinja_value jinja_bool(bool value)
{
    return (struct jinja_value){.type = JINJA_BOOL, .boolean = value};
}

static inline struct jinja_value jinja_int(int64_t value)
{
    return (struct jinja_value){.type = JINJA_INT, .integer = value};
}

static inline struct jinja_value jinja_float(double value)
{
    return (struct jinja_value){.type = JINJA_FLOAT, .number = value};
}

static inline bool jinja_is_integer(struct jinja_value value)
{
    return value.type == JINJA_INT || value.type == JINJA_BIGINT || value.type == JINJA_BOOL;
}

static inline bool jinja_is_number(struct jinja_value value)
{
    return jinja_is_integer(value) || value.type == JINJA_FLOAT;
}

/* An undefined value; object_type JINJA_MISSING is a variable. */
bool jinja_make_undefined(struct jinja_run *run, enum jinja_type object_type,
                          struct jinja_value key, struct jinja_value *out);
/* Fails with what the undefined value stands for. */
bool jinja_fail_undefined(struct jinja_run *run, struct jinja_value value);

/* Python's name of the type: "str". */
const char *jinja_type_name(struct jinja_value value);

bool jinja_is_true(struct jinja_value value);

/* A list of num_items items to fill. */
struct jinja_list *jinja_make_list(struct jinja_run *run, size_t num_items);
bool jinja_list_value(struct jinja_run *run, enum jinja_type type, struct jinja_value *items,
                      size_t num_items, struct jinja_value *out);
bool jinja_iterator_value(struct jinja_run *run, struct jinja_value *items, size_t num_items,
                          struct jinja_value *out);

/* All items that iterating gives, as a list (shared with the value where it is one). */
bool jinja_iterate(struct jinja_run *run, struct jinja_value value, const struct jinja_list **out);

/* len(); fails for what has none. */
bool jinja_length(struct jinja_run *run, struct jinja_value value, int64_t *out);

/* Adds to a growing list. */
bool jinja_items_add(struct jinja_run *run, struct jinja_items *items, struct jinja_value value);

bool jinja_make_dict(struct jinja_run *run, struct jinja_value *out);
/* Sets or replaces; fails for a key that cannot be one. */
bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                    struct jinja_value value);
/* The value of a key, or NULL. */
const struct jinja_value *jinja_dict_get(const struct jinja_dict *dict, struct jinja_value key);
const struct jinja_value *jinja_dict_get_text(const struct jinja_dict *dict, const char *data,
                                              size_t size);

/* Python's == and < ; the latter fails where Python does. */
bool jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out);
bool jinja_less(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out);
/* `item in container`. */
bool jinja_contains(struct jinja_run *run, struct jinja_value container, struct jinja_value item,
                    bool *out);

/* A JSON value as a template's. */
bool jinja_from_json(struct jinja_run *run, const struct json_value *json, bool from_caller,
                     struct jinja_value *out);

#endif
