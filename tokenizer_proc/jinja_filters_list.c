/*
 * jinja_filters_list.c - filters that work on lists, dicts and what can be walked through. See
 * jinja_functions.h.
 */
#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"

/* ---- taking parts ---- */

static bool length(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    int64_t count = 0;

    if (!jinja_length(run, call->self, &count))
        return false;
    *out = jinja_int(count);
    return true;
}

static bool first(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_list *items = NULL;

    if (call->self.type == JINJA_ITERATOR) {
        struct jinja_iterator *iterator = call->self.iterator;
        if (iterator->next == iterator->list.num_items)
            return jinja_undefined_named(run, "first item of nothing", out);
        *out = iterator->list.items[iterator->next++];
        return true;
    }
    if (!jinja_iterate(run, call->self, &items))
        return false;
    if (items->num_items == 0)
        return jinja_undefined_named(run, "first item of nothing", out);
    *out = items->items[0];
    return true;
}

static bool last(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_list *items = NULL;

    if (call->self.type == JINJA_ITERATOR)
        return jinja_fail(run, "'generator' object is not reversible");
    if (!jinja_iterate(run, call->self, &items))
        return false;
    if (items->num_items == 0)
        return jinja_undefined_named(run, "last item of nothing", out);
    *out = items->items[items->num_items - 1];
    return true;
}

static bool random_item(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    int64_t count = 0;

    if (!jinja_length(run, call->self, &count))
        return false;
    if (count == 0)
        return jinja_undefined_named(run, "random item of nothing", out);
    /* Anything is random enough; the same template and data give the same text. */
    return jinja_get_item(run, call->self,
                          jinja_int((int64_t)(run->num_steps * 2654435761u % (size_t)count)), out);
}

static bool list(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_list *items = NULL;

    if (!jinja_own_list(run, call->self, &items))
        return false;
    *out = (struct jinja_value){.type = JINJA_LIST, .list = items};
    return true;
}

static bool items(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    static const struct jinja_string name = {.data = "items", .size = 5};
    struct jinja_call method = {.self = call->self};
    struct jinja_value view = {0};
    bool is_unsafe = false;

    if (call->self.type == JINJA_UNDEFINED)
        return jinja_iterator_value(run, NULL, 0, out);
    if (call->self.type != JINJA_DICT)
        return jinja_fail(run, "Can only get item pairs from a mapping.");
    return jinja_call_function(run, jinja_find_method(JINJA_DICT, &name, &is_unsafe), &method,
                               &view) &&
           jinja_iterator_value(run, view.view->list.items, view.view->list.num_items, out);
}

static bool reverse(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_list *turned = NULL;

    if (call->self.type == JINJA_STRING)
        return jinja_get_slice(run, call->self, jinja_none(), jinja_none(), jinja_int(-1), out);
    if (!jinja_own_list(run, call->self, &turned))
        return false;
    for (size_t i = 0; i < turned->num_items / 2; i++) {
        struct jinja_value swap = turned->items[i];
        turned->items[i] = turned->items[turned->num_items - 1 - i];
        turned->items[turned->num_items - 1 - i] = swap;
    }
    if (call->self.type != JINJA_ITERATOR)
        return jinja_iterator_value(run, turned->items, turned->num_items, out);
    *out = (struct jinja_value){.type = JINJA_LIST, .list = turned};
    return true;
}

static bool attribute(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    if (call->self.type == JINJA_DICT && call->bound[0].type == JINJA_STRING) {
        bool is_unsafe = false; /* attributes only: the keys of a dict are items */
        if (!jinja_find_method(JINJA_DICT, call->bound[0].string, &is_unsafe) && !is_unsafe)
            return jinja_make_undefined(run, JINJA_DICT, call->bound[0], out);
    }
    if (call->bound[0].type != JINJA_STRING)
        return jinja_fail(run, "attribute name must be string");
    return jinja_get_attribute(run, call->self, call->bound[0], out);
}

/* ---- rows and columns ---- */

static bool batch(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_list *all = NULL;
    struct jinja_items rows = {0};
    int64_t width = 0;

    if (!jinja_want_int(run, call->bound[0], &width) || !jinja_iterate(run, call->self, &all))
        return false;
    if (width == 0 && all->num_items) { /* as Jinja2's loop has it */
        struct jinja_value empty = {0};
        if (!jinja_list_value(run, JINJA_LIST, NULL, 0, &empty) ||
            !jinja_items_add(run, &rows, empty))
            return false;
    }
    size_t step = width < 1 ? (all->num_items ? all->num_items : 1) : (size_t)width;
    for (size_t start = 0; start < all->num_items; start += step) {
        struct jinja_items row = {0};
        struct jinja_value value = {0};
        for (size_t i = start; i < all->num_items && i - start < step; i++) {
            if (!jinja_items_add(run, &row, all->items[i]))
                return false;
        }
        while (call->bound[1].type != JINJA_MISSING && call->bound[1].type != JINJA_NONE &&
               width > 0 && row.num_items < step) {
            if (!jinja_items_add(run, &row, call->bound[1]))
                return false;
        }
        if (!jinja_list_value(run, JINJA_LIST, row.items, row.num_items, &value) ||
            !jinja_items_add(run, &rows, value))
            return false;
    }
    return jinja_iterator_value(run, rows.items, rows.num_items, out);
}

static bool slice(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_list *all = NULL;
    struct jinja_items columns = {0};
    int64_t count = 0;
    size_t start = 0;

    if (!jinja_want_int(run, call->bound[0], &count) || !jinja_iterate(run, call->self, &all))
        return false;
    if (count == 0)
        return jinja_fail(run, "integer division or modulo by zero");
    for (int64_t i = 0; i < count; i++) {
        struct jinja_items column = {0};
        struct jinja_value value = {0};
        bool has_extra = (size_t)i < all->num_items % (size_t)count;
        size_t end = start + all->num_items / (size_t)count + has_extra;
        for (; start < end; start++) {
            if (!jinja_items_add(run, &column, all->items[start]))
                return false;
        }
        if (call->bound[1].type != JINJA_MISSING && call->bound[1].type != JINJA_NONE &&
            !has_extra && !jinja_items_add(run, &column, call->bound[1]))
            return false;
        if (!jinja_list_value(run, JINJA_LIST, column.items, column.num_items, &value) ||
            !jinja_items_add(run, &columns, value))
            return false;
    }
    return jinja_iterator_value(run, columns.items, columns.num_items, out);
}

/* ---- map, select ---- */

static bool join(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_list *all = NULL;
    struct jinja_value separator = {0};

    if (!jinja_iterate(run, call->self, &all))
        return false;
    if (call->bound[0].type == JINJA_MISSING ? !jinja_make_text(run, "", &separator)
                                             : !jinja_to_string(run, call->bound[0], &separator))
        return false;
    if (call->bound[1].type != JINJA_MISSING && call->bound[1].type != JINJA_NONE) {
        struct jinja_list *values = jinja_make_list(run, all->num_items);
        if (!values)
            return false;
        for (size_t i = 0; i < all->num_items; i++) {
            if (!jinja_get_path(run, all->items[i], call->bound[1], (struct jinja_value){0},
                                &values->items[i]))
                return false;
        }
        all = values;
    }
    return jinja_join(run, separator.string, all, true, out);
}

static const struct jinja_value *find_named(const struct jinja_call *call, const char *name)
{
    for (size_t i = 0; i < call->num_named; i++) {
        if (jinja_string_is(call->named[i].name.string, name))
            return &call->named[i].value;
    }
    return NULL;
}

/* map(attribute='x', default=y) */
static bool map_attribute(struct jinja_run *run, const struct jinja_call *call,
                          const struct jinja_list *all, struct jinja_value *values)
{
    const struct jinja_value *path = find_named(call, "attribute");
    const struct jinja_value *fallback = find_named(call, "default");

    if (!path)
        return jinja_fail(run, "map requires a filter argument");
    if (call->num_named > (fallback ? 2 : 1))
        return jinja_fail(run, "map() got an unexpected keyword argument");
    for (size_t i = 0; i < all->num_items; i++) {
        if (!jinja_get_path(run, all->items[i], *path,
                            fallback ? *fallback : (struct jinja_value){0}, &values[i]))
            return false;
    }
    return true;
}

static bool map(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_list *all = NULL;
    const struct jinja_string *name = NULL;

    if (!jinja_is_true(call->self)) /* none, too */
        return jinja_iterator_value(run, NULL, 0, out);
    if (!jinja_iterate(run, call->self, &all))
        return false;
    struct jinja_value *values = jinja_alloc(run, all->num_items, sizeof(*values));
    if (!values)
        return false;
    if (call->num_args == 0) {
        if (!map_attribute(run, call, all, values))
            return false;
        return jinja_iterator_value(run, values, all->num_items, out);
    }
    if (!jinja_want_string(run, call->args[0], &name))
        return false;
    const struct jinja_function *function = jinja_find_filter(name);
    if (!function)
        return jinja_fail(run, "No filter named '%.*s'.", name->size > 60 ? 60 : (int)name->size,
                          name->data);
    if (!jinja_enter(run))
        return false;
    for (size_t i = 0; i < all->num_items; i++) {
        struct jinja_call each = {.self = all->items[i],
                                  .args = call->args + 1,
                                  .num_args = call->num_args - 1,
                                  .named = call->named,
                                  .num_named = call->num_named};
        if (!jinja_step(run, 1) || !jinja_call_function(run, function, &each, &values[i]))
            return false;
    }
    jinja_leave(run);
    return jinja_iterator_value(run, values, all->num_items, out);
}

/* Keeps the items (or their attribute: skip 1) for which the named test gives `wanted`. */
static bool choose(struct jinja_run *run, const struct jinja_call *call, size_t skip, bool wanted,
                   struct jinja_value *out)
{
    const struct jinja_list *all = NULL;
    const struct jinja_function *test = NULL;
    const struct jinja_string *name = NULL;
    struct jinja_items kept = {0};

    if (!jinja_is_true(call->self)) /* none, too */
        return jinja_iterator_value(run, NULL, 0, out);
    if (call->num_args < skip)
        return jinja_fail(run, "Missing parameter for attribute name");
    if (!jinja_iterate(run, call->self, &all))
        return false;
    if (call->num_args > skip) {
        if (!jinja_want_string(run, call->args[skip], &name))
            return false;
        test = jinja_find_test(name);
        if (!test)
            return jinja_fail(run, "No test named '%.*s'.", name->size > 60 ? 60 : (int)name->size,
                              name->data);
    }
    for (size_t i = 0; i < all->num_items; i++) {
        struct jinja_call each = {0};
        struct jinja_value holds = {0};
        if (!jinja_step(run, 1) ||
            !jinja_get_path(run, all->items[i], skip ? call->args[0] : (struct jinja_value){0},
                            (struct jinja_value){0}, &each.self))
            return false;
        holds = each.self;
        if (test) {
            each.args = call->args + skip + 1;
            each.num_args = call->num_args - skip - 1;
            each.named = call->named;
            each.num_named = call->num_named;
            if (!jinja_call_function(run, test, &each, &holds))
                return false;
        }
        if (jinja_is_true(holds) == wanted && !jinja_items_add(run, &kept, all->items[i]))
            return false;
    }
    return jinja_iterator_value(run, kept.items, kept.num_items, out);
}

static bool select_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return choose(run, call, 0, true, out);
}

static bool reject(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return choose(run, call, 0, false, out);
}

static bool selectattr(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return choose(run, call, 1, true, out);
}

static bool rejectattr(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return choose(run, call, 1, false, out);
}

static bool default_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    bool falsy = jinja_is_true(call->bound[1]) && !jinja_is_true(call->self);

    *out = call->self;
    if (call->self.type != JINJA_UNDEFINED && !falsy)
        return true;
    if (call->bound[0].type == JINJA_MISSING)
        return jinja_make_text(run, "", out);
    *out = call->bound[0];
    return true;
}

const struct jinja_function jinja_list_filters[] = {
    {"attr", attribute, "name ", 1},
    {"batch", batch, "linecount fill_with ", 1},
    {"count", length, "", 0},
    {"d", default_, "default_value boolean ", 0},
    {"default", default_, "default_value boolean ", 0},
    {"first", first, "", 0},
    {"items", items, "", 0},
    {"join", join, "d attribute ", 0},
    {"last", last, "", 0},
    {"length", length, "", 0},
    {"list", list, "", 0},
    {"map", map, NULL, 0},
    {"random", random_item, "", 0},
    {"reject", reject, NULL, 0},
    {"rejectattr", rejectattr, NULL, 0},
    {"reverse", reverse, "", 0},
    {"select", select_, NULL, 0},
    {"selectattr", selectattr, NULL, 0},
    {"slice", slice, "slices fill_with ", 1},
    {0},
};

const struct jinja_function *jinja_find_filter(const struct jinja_string *name)
{
    static const struct jinja_function *const tables[] = {
        jinja_list_filters,   jinja_text_filters,   jinja_order_filters,
        jinja_number_filters, jinja_markup_filters,
    };
    const struct jinja_function *function = NULL;

    for (size_t i = 0; !function && i < sizeof(tables) / sizeof(tables[0]); i++)
        function = jinja_find_in(tables[i], name);
    return function;
}
