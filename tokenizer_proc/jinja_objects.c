/*
 * jinja_objects.c - methods of everything but strings, and the global functions. See
 * jinja_functions.h.
 */
#include <time.h>

#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"

/* ---- dicts and lists ---- */

static bool make_view(struct jinja_run *run, const char *name, struct jinja_value *items,
                      size_t num_items, struct jinja_value *out)
{
    struct jinja_view *view = jinja_alloc(run, 1, sizeof(*view));

    if (!view)
        return false;
    *view = (struct jinja_view){.list = {items, num_items}, .name = name};
    *out = (struct jinja_value){.type = JINJA_VIEW, .view = view};
    return true;
}

static bool dict_keys(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_dict *dict = call->self.dict;

    return make_view(run, "dict_keys", dict->keys, dict->num_items, out);
}

static bool dict_values(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    const struct jinja_dict *dict = call->self.dict;

    return make_view(run, "dict_values", dict->values, dict->num_items, out);
}

static bool dict_items(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    const struct jinja_dict *dict = call->self.dict;
    struct jinja_value *pairs = jinja_alloc(run, dict->num_items, sizeof(*pairs));

    if (!pairs)
        return false;
    for (size_t i = 0; i < dict->num_items; i++) {
        struct jinja_list *pair = jinja_make_list(run, 2);
        if (!pair)
            return false;
        pair->items[0] = dict->keys[i];
        pair->items[1] = dict->values[i];
        pairs[i] = (struct jinja_value){.type = JINJA_TUPLE, .list = pair};
    }
    return make_view(run, "dict_items", pairs, dict->num_items, out);
}

static bool dict_get(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    if (call->bound[0].type == JINJA_LIST || call->bound[0].type == JINJA_DICT)
        return jinja_fail(run, "unhashable type: '%s'", jinja_type_name(call->bound[0]));
    const struct jinja_value *value = jinja_dict_get(call->self.dict, call->bound[0]);
    if (value)
        *out = *value;
    else
        *out = call->bound[1].type == JINJA_MISSING ? jinja_none() : call->bound[1];
    return true;
}

/* Values never change, so a copy is the thing itself. */
static bool copy(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    *out = call->self;
    return true;
}

/* Of lists, tuples and ranges. */
static bool list_count(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    const struct jinja_list *items = NULL;
    int64_t count = 0;
    bool equal = false;

    if (!jinja_iterate(run, call->self, &items))
        return false;
    for (size_t i = 0; i < items->num_items; i++) {
        if (!jinja_equal(run, items->items[i], call->bound[0], &equal))
            return false;
        count += equal;
    }
    *out = jinja_int(count);
    return true;
}

static bool list_index(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    const struct jinja_list *items = NULL;
    bool equal = false;

    if (!jinja_iterate(run, call->self, &items))
        return false;
    for (size_t i = 0; i < items->num_items; i++) {
        if (!jinja_equal(run, items->items[i], call->bound[0], &equal))
            return false;
        if (equal) {
            *out = jinja_int((int64_t)i);
            return true;
        }
    }
    return jinja_fail(run, "value is not in list");
}

/* ---- loops, cyclers ---- */

static bool loop_cycle(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    if (call->num_args == 0)
        return jinja_fail(run, "no items for cycling given");
    *out = call->args[call->self.loop->index0 % call->num_args];
    return true;
}

static bool loop_changed(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_loop *loop = call->self.loop;
    struct jinja_list *list = jinja_make_list(run, call->num_args);
    bool equal = false;

    if (!list)
        return false;
    for (size_t i = 0; i < call->num_args; i++)
        list->items[i] = call->args[i];
    struct jinja_value now = {.type = JINJA_TUPLE, .list = list};
    if (loop->changed.type != JINJA_MISSING && !jinja_equal(run, loop->changed, now, &equal))
        return false;
    loop->changed = now;
    *out = jinja_bool(!equal);
    return true;
}

static bool cycler_next(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_cycler *cycler = call->self.cycler;

    (void)run;
    *out = cycler->list.items[cycler->next];
    cycler->next = (cycler->next + 1) % cycler->list.num_items;
    return true;
}

static bool cycler_reset(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    (void)run;
    call->self.cycler->next = 0;
    *out = jinja_none();
    return true;
}

static bool float_is_integer(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    double number = call->self.number;

    (void)run;
    *out = jinja_bool(number - number == 0.0 && number == (double)(int64_t)number);
    return true;
}

static bool is_mutating(enum jinja_type type, const struct jinja_string *name)
{
    static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    static const char *const of_lists[] = {"append", "clear",  "pop",    "reverse", "insert",
                                           "sort",   "extend", "remove", NULL};
    const char *const *names = type == JINJA_DICT ? of_dicts : type == JINJA_LIST ? of_lists : NULL;

    for (; names && *names; names++) {
        if (jinja_string_is(name, *names))
            return true;
    }
    return false;
}

const struct jinja_function *jinja_find_method(enum jinja_type type,
                                               const struct jinja_string *name, bool *out_unsafe)
{
    static const struct jinja_function of_dicts[] = {
        {"items", dict_items, "", 0}, {"keys", dict_keys, "", 0}, {"values", dict_values, "", 0},
        {"get", dict_get, "- - ", 1}, {"copy", copy, "", 0},      {0},
    };
    static const struct jinja_function of_lists[] = {
        {"count", list_count, "- ", 1},
        {"index", list_index, "- ", 1},
        {"copy", copy, "", 0},
        {0},
    };
    static const struct jinja_function of_loops[] = {
        {"cycle", loop_cycle, NULL, 0},
        {"changed", loop_changed, NULL, 0},
        {0},
    };
    static const struct jinja_function of_cyclers[] = {
        {"next", cycler_next, "", 0},
        {"reset", cycler_reset, "", 0},
        {0},
    };
    static const struct jinja_function of_floats[] = {
        {"is_integer", float_is_integer, "", 0},
        {0},
    };

    *out_unsafe = is_mutating(type, name);
    switch (type) {
    case JINJA_DICT:
        return jinja_find_in(of_dicts, name);
    case JINJA_LIST:
        return jinja_find_in(of_lists, name);
    case JINJA_TUPLE:
    case JINJA_RANGE:
        return jinja_string_is(name, "copy") ? NULL : jinja_find_in(of_lists, name);
    case JINJA_LOOP:
        return jinja_find_in(of_loops, name);
    case JINJA_CYCLER:
        return jinja_find_in(of_cyclers, name);
    case JINJA_FLOAT:
        return jinja_find_in(of_floats, name);
    default:
        return NULL;
    }
}

/* ---- global functions ---- */

static bool global_range(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    int64_t bounds[3] = {0, 0, 1};
    struct jinja_range *range = jinja_alloc(run, 1, sizeof(*range));
    const struct jinja_list *items = NULL;

    if (!range)
        return false;
    if (call->num_named || call->num_args < 1 || call->num_args > 3)
        return jinja_fail(run, "range expected 1 to 3 arguments");
    for (size_t i = 0; i < call->num_args; i++) {
        if (!jinja_want_int(run, call->args[i], &bounds[i + (call->num_args == 1)]))
            return false;
        if (call->args[i].type == JINJA_BIGINT)
            return jinja_fail_space(run, "a range is too large");
    }
    if (bounds[2] == 0)
        return jinja_fail(run, "range() arg 3 must not be zero");
    range->start = bounds[0];
    range->stop = bounds[1];
    range->step = bounds[2];
    uint64_t distance = 0, step = 0;
    if (range->step > 0 && range->stop > range->start) {
        distance = (uint64_t)range->stop - (uint64_t)range->start;
        step = (uint64_t)range->step;
    } else if (range->step < 0 && range->stop < range->start) {
        distance = (uint64_t)range->start - (uint64_t)range->stop;
        step = 0 - (uint64_t)range->step;
    }
    uint64_t count = step ? (distance - 1) / step + 1 : 0;
    range->num_items = count > INT64_MAX ? INT64_MAX : (int64_t)count;
    *out = (struct jinja_value){.type = JINJA_RANGE, .range = range};
    return range->num_items <= 100000 ? true : jinja_iterate(run, *out, &items);
}

/* dict(mapping, name=value...) into out; the same arguments make a namespace. */
static bool make_mapping(struct jinja_run *run, const struct jinja_call *call, const char *who,
                         struct jinja_value *out)
{
    const struct jinja_list *pairs = NULL, *pair = NULL;

    if (call->num_args > 1)
        return jinja_fail(run, "%s expected at most 1 argument, got %zu", who, call->num_args);
    if (!jinja_make_dict(run, out))
        return false;
    if (call->num_args == 1 && call->args[0].type == JINJA_DICT) {
        const struct jinja_dict *dict = call->args[0].dict;
        for (size_t i = 0; i < dict->num_items; i++) {
            if (!jinja_dict_set(run, out->dict, dict->keys[i], dict->values[i]))
                return false;
        }
    } else if (call->num_args == 1) {
        if (!jinja_iterate(run, call->args[0], &pairs))
            return false;
        for (size_t i = 0; i < pairs->num_items; i++) {
            if (!jinja_iterate(run, pairs->items[i], &pair))
                return false;
            if (pair->num_items != 2)
                return jinja_fail(run,
                                  "dictionary update sequence element #%zu has length %zu; 2 "
                                  "is required",
                                  i, pair->num_items);
            if (!jinja_dict_set(run, out->dict, pair->items[0], pair->items[1]))
                return false;
        }
    }
    for (size_t i = 0; i < call->num_named; i++) {
        if (!jinja_dict_set(run, out->dict, call->named[i].name, call->named[i].value))
            return false;
    }
    return true;
}

static bool global_dict(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    return make_mapping(run, call, "dict", out);
}

static bool global_namespace(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out)
{
    if (!make_mapping(run, call, "namespace", out))
        return false;
    out->type = JINJA_NAMESPACE;
    return true;
}

static bool global_cycler(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_cycler *cycler = jinja_alloc(run, 1, sizeof(*cycler));

    if (!cycler)
        return false;
    if (call->num_args == 0 || call->num_named)
        return jinja_fail(run, "at least one item has to be provided");
    cycler->list.items = jinja_alloc(run, call->num_args, sizeof(*cycler->list.items));
    if (!cycler->list.items)
        return false;
    memcpy(cycler->list.items, call->args, call->num_args * sizeof(*call->args));
    cycler->list.num_items = call->num_args;
    *out = (struct jinja_value){.type = JINJA_CYCLER, .cycler = cycler};
    return true;
}

static bool global_joiner(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    struct jinja_joiner *joiner = jinja_alloc(run, 1, sizeof(*joiner));

    if (!joiner)
        return false;
    joiner->separator = call->bound[0];
    if (joiner->separator.type == JINJA_MISSING && !jinja_make_text(run, ", ", &joiner->separator))
        return false;
    *out = (struct jinja_value){.type = JINJA_JOINER, .joiner = joiner};
    return true;
}

static bool global_lipsum(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    (void)call, (void)out;
    return jinja_fail(run, "lipsum() is not supported");
}

static bool raise_exception(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out)
{
    struct jinja_value text = {0};

    if (!jinja_to_string(run, call->bound[0], &text))
        return false;
    size_t size = text.string->size > 200 ? 200 : text.string->size;
    (void)out;
    return jinja_fail(run, "%.*s", (int)size, text.string->data);
}

/* One directive of strftime(), or a plain character, to the buffer. */
static bool add_time(struct jinja_buffer *buffer, const char *directive, bool from_caller)
{
    char text[128];
    size_t size = 0;

    if (strchr("zZ", directive[1])) /* the time has no zone */
        return true;
    if (directive[1] == 'f')
        return jinja_buffer_add(buffer, "000000", 6, from_caller);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size = strftime(text, sizeof(text), directive, &buffer->run->now);
#pragma GCC diagnostic pop
    return jinja_buffer_add(buffer, text, size, from_caller);
}

static bool strftime_now(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    const struct jinja_string *format = NULL;

    if (!jinja_want_string(run, call->bound[0], &format))
        return false;
    for (size_t i = 0; i < format->size; i++) {
        char directive[4] = {format->data[i], '\0', '\0', '\0'};
        bool from_caller = jinja_is_caller_at(format, i);
        if (format->data[i] != '%' || i + 1 == format->size) {
            if (!jinja_buffer_add(&buffer, directive, 1, from_caller))
                return false;
            continue;
        }
        size_t length = 1;
        if (strchr("-_0^#EO", format->data[i + 1]) && format->data[i + 1] && i + 2 < format->size)
            directive[length++] = format->data[++i];
        directive[length] = format->data[++i];
        if (!add_time(&buffer, directive, from_caller))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

const struct jinja_function *jinja_find_global(const struct jinja_string *name)
{
    static const struct jinja_function globals[] = {
        {"range", global_range, NULL, 0},
        {"dict", global_dict, NULL, 0},
        {"namespace", global_namespace, NULL, 0},
        {"cycler", global_cycler, NULL, 0},
        {"joiner", global_joiner, "sep ", 0},
        {"lipsum", global_lipsum, NULL, 0},
        {"raise_exception", raise_exception, "message ", 1},
        {"strftime_now", strftime_now, "format ", 1},
        {0},
    };

    return jinja_find_in(globals, name);
}
