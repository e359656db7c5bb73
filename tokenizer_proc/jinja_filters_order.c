/*
 * jinja_filters_order.c - filters that compare what is in a list: sorting, extremes, groups. See
 * jinja_functions.h.
 */
#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"

/* A list of its own with the items of a value. */
bool jinja_own_list(struct jinja_run *run, struct jinja_value value, struct jinja_list **out)
{
    const struct jinja_list *items = NULL;

    if (!jinja_iterate(run, value, &items))
        return false;
    *out = jinja_make_list(run, items->num_items);
    if (!*out)
        return false;
    if (items->num_items)
        memcpy((*out)->items, items->items, items->num_items * sizeof(*items->items));
    return true;
}

bool jinja_undefined_named(struct jinja_run *run, const char *name, struct jinja_value *out)
{
    struct jinja_value text = {0};

    return jinja_make_text(run, name, &text) && jinja_make_undefined(run, JINJA_MISSING, text, out);
}

/* One part of "a.b.0": a number is an index. */
static bool attribute_part(struct jinja_run *run, struct jinja_value value,
                           const struct jinja_string *path, size_t start, size_t end,
                           struct jinja_value *out)
{
    struct jinja_value key = {0};
    bool digits = end > start;

    for (size_t i = start; i < end; i++)
        digits = digits && path->data[i] >= '0' && path->data[i] <= '9';
    if (digits) {
        bool ok = false;
        if (!jinja_parse_int(run, path->data + start, end - start, 10, &ok, &key))
            return false;
    } else if (!jinja_make_slice(run, path, start, end, &key)) {
        return false;
    }
    return jinja_get_item(run, value, key, out);
}

/* The attribute of an item: a path with dots, or an index; MISSING is the item itself. */
bool jinja_get_path(struct jinja_run *run, struct jinja_value item, struct jinja_value attribute,
                    struct jinja_value fallback, struct jinja_value *out)
{
    bool has_fallback = fallback.type != JINJA_MISSING && fallback.type != JINJA_NONE;

    *out = item;
    if (attribute.type == JINJA_MISSING || attribute.type == JINJA_NONE)
        return true;
    if (attribute.type != JINJA_STRING) {
        if (!jinja_get_item(run, item, attribute, out))
            return false;
        if (has_fallback && out->type == JINJA_UNDEFINED)
            *out = fallback;
        return true;
    }
    const struct jinja_string *path = attribute.string;
    for (size_t start = 0;;) {
        size_t end = start;
        while (end < path->size && path->data[end] != '.')
            end++;
        if (!attribute_part(run, *out, path, start, end, out))
            return false;
        if (has_fallback && out->type == JINJA_UNDEFINED)
            *out = fallback;
        if (end == path->size)
            return true;
        start = end + 1;
    }
}

/* What to compare by: the attribute, in lower case unless case_sensitive. */
bool jinja_get_key(struct jinja_run *run, struct jinja_value item, struct jinja_value attribute,
                   bool case_sensitive, struct jinja_value *out)
{
    if (!jinja_get_path(run, item, attribute, (struct jinja_value){0}, out))
        return false;
    if (out->type == JINJA_STRING && !case_sensitive)
        return jinja_lower(run, *out, out);
    return true;
}

/* ---- order ---- */

/* A list of what to compare by: one key, or for "a,b" both. In a list, equal keys of any type need
 * no order. */
static bool get_sort_key(struct jinja_run *run, struct jinja_value item,
                         struct jinja_value attribute_, bool case_sensitive,
                         struct jinja_value *out)
{
    struct jinja_items keys = {0};
    struct jinja_value part = {0}, key = {0};
    bool is_path = attribute_.type == JINJA_STRING;
    size_t size = is_path ? attribute_.string->size : 0;

    for (size_t start = 0; start <= size;) {
        size_t end = start;
        while (end < size && attribute_.string->data[end] != ',')
            end++;
        part = attribute_;
        if ((is_path && !jinja_make_slice(run, attribute_.string, start, end, &part)) ||
            !jinja_get_key(run, item, part, case_sensitive, &key) ||
            !jinja_items_add(run, &keys, key))
            return false;
        start = end + 1;
    }
    return jinja_list_value(run, JINJA_LIST, keys.items, keys.num_items, out);
}

static bool make_keys(struct jinja_run *run, const struct jinja_list *from,
                      struct jinja_value attribute_, bool case_sensitive, struct jinja_value **out)
{
    *out = jinja_alloc(run, from->num_items, sizeof(**out));
    if (!*out)
        return false;
    for (size_t i = 0; i < from->num_items; i++) {
        if (!get_sort_key(run, from->items[i], attribute_, case_sensitive, &(*out)[i]))
            return false;
    }
    return true;
}

static bool sort(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_list *sorted = NULL;
    struct jinja_value *keys = NULL;

    if (!jinja_own_list(run, call->self, &sorted) ||
        !make_keys(run, sorted, call->bound[2], jinja_is_true(call->bound[1]), &keys) ||
        !jinja_sort(run, sorted->items, keys, sorted->num_items, jinja_is_true(call->bound[0])))
        return false;
    *out = (struct jinja_value){.type = JINJA_LIST, .list = sorted};
    return true;
}

static bool dictsort(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value by = call->bound[1], pairs = {0};
    static const struct jinja_string items_name = {.data = "items", .size = 5};
    struct jinja_call items_call = {.self = call->self};
    struct jinja_list *sorted = NULL;
    int64_t index = 0;

    if (call->self.type != JINJA_DICT)
        return jinja_fail(run, "dictsort takes a mapping, not %s", jinja_type_name(call->self));
    if (by.type == JINJA_STRING && jinja_string_is(by.string, "value"))
        index = 1;
    else if (by.type != JINJA_MISSING &&
             !(by.type == JINJA_STRING && jinja_string_is(by.string, "key")))
        return jinja_fail(run, "You can only sort by either \"key\" or \"value\"");
    if (!jinja_call_function(run, jinja_find_filter(&items_name), &items_call, &pairs))
        return false;
    if (!jinja_own_list(run, pairs, &sorted))
        return false;
    struct jinja_value *keys = jinja_alloc(run, sorted->num_items, sizeof(*keys));
    if (!keys)
        return false;
    for (size_t i = 0; i < sorted->num_items; i++) {
        if (!jinja_get_key(run, sorted->items[i], jinja_int(index), jinja_is_true(call->bound[0]),
                           &keys[i]))
            return false;
    }
    if (!jinja_sort(run, sorted->items, keys, sorted->num_items, jinja_is_true(call->bound[2])))
        return false;
    *out = (struct jinja_value){.type = JINJA_LIST, .list = sorted};
    return true;
}

static bool extreme(struct jinja_run *run, const struct jinja_call *call, bool wants_max,
                    struct jinja_value *out)
{
    const struct jinja_list *all = NULL;
    struct jinja_value *keys = NULL;
    bool case_sensitive = jinja_is_true(call->bound[0]), less = false;
    size_t best = 0;

    if (!jinja_iterate(run, call->self, &all))
        return false;
    if (all->num_items == 0)
        return jinja_undefined_named(run, "aggregate of nothing", out);
    keys = jinja_alloc(run, all->num_items, sizeof(*keys));
    if (!keys)
        return false;
    for (size_t i = 0; i < all->num_items; i++) {
        if (!jinja_get_key(run, all->items[i], call->bound[1], case_sensitive, &keys[i]))
            return false;
        if (i == 0)
            continue;
        if (!jinja_less(run, wants_max ? keys[best] : keys[i], wants_max ? keys[i] : keys[best],
                        &less))
            return false;
        if (less)
            best = i;
    }
    *out = all->items[best];
    return true;
}

static bool max(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return extreme(run, call, true, out);
}

static bool min(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return extreme(run, call, false, out);
}

static bool sum(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_list *all = NULL;
    struct jinja_value total = call->bound[1].type == JINJA_MISSING ? jinja_int(0) : call->bound[1];
    struct jinja_value value = {0};

    if (total.type == JINJA_STRING)
        return jinja_fail(run, "sum() can't sum strings [use ''.join(seq) instead]");
    if (!jinja_iterate(run, call->self, &all))
        return false;
    for (size_t i = 0; i < all->num_items; i++) {
        if (!jinja_get_path(run, all->items[i], call->bound[0], (struct jinja_value){0}, &value) ||
            !jinja_binary(run, '+', total, value, &total))
            return false;
    }
    *out = total;
    return true;
}

static bool unique(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_list *all = NULL;
    struct jinja_value seen = {0}, key = {0};
    struct jinja_items kept = {0};

    if (!jinja_iterate(run, call->self, &all) || !jinja_make_dict(run, &seen))
        return false;
    for (size_t i = 0; i < all->num_items; i++) {
        if (!jinja_get_key(run, all->items[i], call->bound[1], jinja_is_true(call->bound[0]), &key))
            return false;
        size_t before = seen.dict->num_items;
        if (!jinja_dict_set(run, seen.dict, key, jinja_none()))
            return false;
        if (seen.dict->num_items > before && !jinja_items_add(run, &kept, all->items[i]))
            return false;
    }
    return jinja_iterator_value(run, kept.items, kept.num_items, out);
}

/* ---- groups ---- */

static bool add_group(struct jinja_run *run, struct jinja_items *groups, struct jinja_value key,
                      struct jinja_value *members, size_t num_members)
{
    struct jinja_list *pair = jinja_make_list(run, 2);

    if (!pair)
        return false;
    pair->items[0] = key;
    if (!jinja_list_value(run, JINJA_LIST, members, num_members, &pair->items[1]))
        return false;
    return jinja_items_add(run, groups, (struct jinja_value){.type = JINJA_TUPLE, .list = pair});
}

static bool groupby(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_list *all = NULL;
    struct jinja_items groups = {0};
    bool case_sensitive = jinja_is_true(call->bound[2]), equal = false;

    if (!jinja_own_list(run, call->self, &all))
        return false;
    struct jinja_value *keys = jinja_alloc(run, all->num_items, sizeof(*keys));
    if (!keys)
        return false;
    for (size_t i = 0; i < all->num_items; i++) {
        if (!jinja_get_path(run, all->items[i], call->bound[0], call->bound[1], &keys[i]) ||
            (keys[i].type == JINJA_STRING && !case_sensitive &&
             !jinja_lower(run, keys[i], &keys[i])))
            return false;
    }
    if (!jinja_sort(run, all->items, keys, all->num_items, false))
        return false;
    for (size_t start = 0, end = 0; start < all->num_items; start = end) {
        struct jinja_value key = {0};
        for (end = start + 1, equal = true; end < all->num_items; end += equal) {
            if (!jinja_equal(run, keys[start], keys[end], &equal))
                return false;
            if (!equal)
                break;
        }
        if (!jinja_get_path(run, all->items[start], call->bound[0], call->bound[1], &key) ||
            !add_group(run, &groups, key, all->items + start, end - start))
            return false;
    }
    return jinja_list_value(run, JINJA_LIST, groups.items, groups.num_items, out);
}

const struct jinja_function jinja_order_filters[] = {
    {"dictsort", dictsort, "case_sensitive by reverse ", 0},
    {"groupby", groupby, "attribute default case_sensitive ", 1},
    {"max", max, "case_sensitive attribute ", 0},
    {"min", min, "case_sensitive attribute ", 0},
    {"sort", sort, "reverse case_sensitive attribute ", 0},
    {"sum", sum, "attribute start ", 0},
    {"unique", unique, "case_sensitive attribute ", 0},
    {0},
};
