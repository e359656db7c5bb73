/*
 * jinja_value.c - truth, iteration, comparison of values. See jinja_value.h.
 */
#include "tokenizer_proc/jinja_value.h"

#include <math.h>

#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_string.h"

enum { RANGE_MAX_ITEMS = 100000 }; /* the sandbox's */

bool jinja_make_undefined(struct jinja_run *run, enum jinja_type object_type,
                          struct jinja_value key, struct jinja_value *out)
{
    struct jinja_undefined *undefined = jinja_alloc(run, 1, sizeof(*undefined));

    if (!undefined)
        return false;
    *undefined = (struct jinja_undefined){.object_type = object_type, .key = key};
    *out = (struct jinja_value){.type = JINJA_UNDEFINED, .undefined = undefined};
    return true;
}

bool jinja_fail_undefined(struct jinja_run *run, struct jinja_value value)
{
    const struct jinja_undefined *why = value.undefined;
    struct jinja_value object = {.type = why->object_type};
    const char *type = jinja_type_name(object);
    int size = 0;
    const char *name = "";

    if (why->key.type == JINJA_STRING) {
        size = why->key.string->size > 60 ? 60 : (int)why->key.string->size;
        name = why->key.string->data;
    }
    if (why->is_unsafe)
        return jinja_fail(run, "access to attribute '%.*s' of '%s' object is unsafe.", size, name,
                          type);
    if (why->object_type == JINJA_MISSING)
        return jinja_fail(run, "'%.*s' is undefined", size, name);
    if (why->key.type == JINJA_INT)
        return jinja_fail(run, "%s object has no element %lld", type, (long long)why->key.integer);
    if (why->key.type != JINJA_STRING)
        return jinja_fail(run, "%s object has no such element", type);
    if (why->object_type == JINJA_NONE)
        return jinja_fail(run, "'None' has no attribute '%.*s'", size, name);
    return jinja_fail(run, "'%s object' has no attribute '%.*s'", type, size, name);
}

const char *jinja_type_name(struct jinja_value value)
{
    static const char *const names[] = {
        [JINJA_MISSING] = "Undefined",
        [JINJA_UNDEFINED] = "Undefined",
        [JINJA_NONE] = "NoneType",
        [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int",
        [JINJA_BIGINT] = "int",
        [JINJA_FLOAT] = "float",
        [JINJA_STRING] = "str",
        [JINJA_LIST] = "list",
        [JINJA_TUPLE] = "tuple",
        [JINJA_VIEW] = "dict view",
        [JINJA_ITERATOR] = "generator",
        [JINJA_RANGE] = "range",
        [JINJA_DICT] = "dict",
        [JINJA_NAMESPACE] = "Namespace",
        [JINJA_MACRO] = "Macro",
        [JINJA_FUNCTION] = "function",
        [JINJA_METHOD] = "method",
        [JINJA_LOOP] = "LoopContext",
        [JINJA_CYCLER] = "Cycler",
        [JINJA_JOINER] = "Joiner",
    };

    return names[value.type];
}

bool jinja_is_true(struct jinja_value value)
{
    switch (value.type) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value.boolean;
    case JINJA_INT:
        return value.integer != 0;
    case JINJA_FLOAT:
        return value.number != 0.0;
    case JINJA_STRING:
        return value.string->size > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return value.list->num_items > 0;
    case JINJA_VIEW:
        return value.view->list.num_items > 0;
    case JINJA_RANGE:
        return value.range->num_items > 0;
    case JINJA_DICT:
        return value.dict->num_items > 0;
    case JINJA_LOOP:
        return true; /* there is a body that runs */
    default:
        return true;
    }
}

/* ---- lists ---- */

struct jinja_list *jinja_make_list(struct jinja_run *run, size_t num_items)
{
    struct jinja_list *list = jinja_alloc(run, 1, sizeof(*list));

    if (!list)
        return NULL;
    list->items = jinja_alloc(run, num_items, sizeof(*list->items));
    if (!list->items)
        return NULL;
    list->num_items = num_items;
    return list;
}

bool jinja_list_value(struct jinja_run *run, enum jinja_type type, struct jinja_value *items,
                      size_t num_items, struct jinja_value *out)
{
    struct jinja_list *list = jinja_alloc(run, 1, sizeof(*list));

    if (!list)
        return false;
    *list = (struct jinja_list){.items = items, .num_items = num_items};
    *out = (struct jinja_value){.type = type, .list = list};
    return true;
}

bool jinja_iterator_value(struct jinja_run *run, struct jinja_value *items, size_t num_items,
                          struct jinja_value *out)
{
    struct jinja_iterator *iterator = jinja_alloc(run, 1, sizeof(*iterator));

    if (!iterator)
        return false;
    iterator->list = (struct jinja_list){.items = items, .num_items = num_items};
    *out = (struct jinja_value){.type = JINJA_ITERATOR, .iterator = iterator};
    return true;
}

bool jinja_items_add(struct jinja_run *run, struct jinja_items *items, struct jinja_value value)
{
    if (items->num_items == items->capacity) {
        size_t capacity = items->capacity ? items->capacity * 2 : 4;
        struct jinja_value *bigger = jinja_alloc(run, capacity, sizeof(*bigger));
        if (!bigger)
            return false;
        if (items->num_items)
            memcpy(bigger, items->items, items->num_items * sizeof(*bigger));
        items->items = bigger;
        items->capacity = capacity;
    }
    items->items[items->num_items++] = value;
    return true;
}

static bool iterate_string(struct jinja_run *run, const struct jinja_string *string,
                           const struct jinja_list **out)
{
    struct jinja_list *list = jinja_make_list(run, jinja_count_chars(string->data, string->size));
    struct jinja_string *plain = jinja_alloc(run, 1, sizeof(*plain)); /* characters are no markup */
    size_t offset = 0, num_items = 0;

    if (!list || !plain)
        return false;
    *plain = *string;
    plain->is_markup = false;
    while (offset < string->size && num_items < list->num_items) {
        size_t start = offset;
        jinja_next_char(string->data, string->size, &offset);
        if (!jinja_make_slice(run, plain, start, offset, &list->items[num_items++]))
            return false;
    }
    list->num_items = num_items;
    *out = list;
    return true;
}

static bool iterate_range(struct jinja_run *run, const struct jinja_range *range,
                          const struct jinja_list **out)
{
    if (range->num_items > RANGE_MAX_ITEMS)
        return jinja_fail(run, "Range too big. The sandbox blocks ranges larger than %d.",
                          RANGE_MAX_ITEMS);
    struct jinja_list *list = jinja_make_list(run, (size_t)range->num_items);
    if (!list)
        return false;
    for (int64_t i = 0; i < range->num_items; i++)
        list->items[i] = jinja_int(range->start + i * range->step);
    *out = list;
    return true;
}

bool jinja_iterate(struct jinja_run *run, struct jinja_value value, const struct jinja_list **out)
{
    static const struct jinja_list empty;
    struct jinja_list *list = NULL;

    switch (value.type) {
    case JINJA_UNDEFINED:
        *out = &empty;
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
        *out = value.list;
        return true;
    case JINJA_VIEW:
        *out = &value.view->list;
        return true;
    case JINJA_STRING:
        return iterate_string(run, value.string, out);
    case JINJA_RANGE:
        return iterate_range(run, value.range, out);
    case JINJA_DICT:
        list = jinja_make_list(run, value.dict->num_items);
        if (!list)
            return false;
        if (value.dict->num_items)
            memcpy(list->items, value.dict->keys, value.dict->num_items * sizeof(*list->items));
        *out = list;
        return true;
    case JINJA_ITERATOR:
        list = jinja_alloc(run, 1, sizeof(*list));
        if (!list)
            return false;
        if (value.iterator->next < value.iterator->list.num_items)
            *list = (struct jinja_list){
                .items = value.iterator->list.items + value.iterator->next,
                .num_items = value.iterator->list.num_items - value.iterator->next,
            };
        value.iterator->next = value.iterator->list.num_items;
        *out = list;
        return true;
    default:
        return jinja_fail(run, "'%s' object is not iterable", jinja_type_name(value));
    }
}

bool jinja_length(struct jinja_run *run, struct jinja_value value, int64_t *out)
{
    switch (value.type) {
    case JINJA_UNDEFINED:
        *out = 0;
        return true;
    case JINJA_STRING:
        if (!jinja_step(run, value.string->size / 64))
            return false;
        *out = (int64_t)jinja_count_chars(value.string->data, value.string->size);
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
        *out = (int64_t)value.list->num_items;
        return true;
    case JINJA_VIEW:
        *out = (int64_t)value.view->list.num_items;
        return true;
    case JINJA_RANGE:
        *out = value.range->num_items;
        return true;
    case JINJA_DICT:
        *out = (int64_t)value.dict->num_items;
        return true;
    case JINJA_LOOP:
        if (!jinja_loop_look_ahead(run, value.loop, SIZE_MAX))
            return false;
        *out = (int64_t)value.loop->items.num_items;
        return true;
    default:
        return jinja_fail(run, "object of type '%s' has no len()", jinja_type_name(value));
    }
}

/* ---- comparison ---- */

static bool equal_lists(struct jinja_run *run, const struct jinja_list *a,
                        const struct jinja_list *b, bool *out)
{
    bool equal = a->num_items == b->num_items;

    if (!jinja_enter(run))
        return false;
    for (size_t i = 0; equal && i < a->num_items; i++) {
        if (!jinja_equal(run, a->items[i], b->items[i], &equal))
            return false;
    }
    jinja_leave(run);
    *out = equal;
    return true;
}

static bool equal_dicts(struct jinja_run *run, const struct jinja_dict *a,
                        const struct jinja_dict *b, bool *out)
{
    bool equal = a->num_items == b->num_items;

    if (!jinja_enter(run))
        return false;
    for (size_t i = 0; equal && i < a->num_items; i++) {
        const struct jinja_value *other = jinja_dict_get(b, a->keys[i]);
        if (!other)
            equal = false;
        else if (!jinja_equal(run, a->values[i], *other, &equal))
            return false;
    }
    jinja_leave(run);
    *out = equal;
    return true;
}

bool jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out)
{
    if (!jinja_step(run, 1))
        return false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = jinja_compare_numbers(a, b) == 0;
        return true;
    }
    if (a.type != b.type) {
        *out = false;
        return true;
    }
    switch (a.type) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        *out = true;
        return true;
    case JINJA_STRING:
        if (!jinja_step(run, a.string->size == b.string->size ? a.string->size / 64 : 0))
            return false;
        *out = jinja_string_equal(a.string, b.string);
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return equal_lists(run, a.list, b.list, out);
    case JINJA_VIEW:
        return equal_lists(run, &a.view->list, &b.view->list, out);
    case JINJA_DICT:
        return equal_dicts(run, a.dict, b.dict, out);
    case JINJA_RANGE:
        *out = a.range->num_items == b.range->num_items &&
               (a.range->num_items == 0 || a.range->start == b.range->start) &&
               (a.range->num_items <= 1 || a.range->step == b.range->step);
        return true;
    case JINJA_METHOD:
        *out = a.method == b.method;
        return true;
    default: /* by identity: all of these are pointers */
        *out = (const void *)a.dict == (const void *)b.dict;
        return true;
    }
}

bool jinja_less(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out)
{
    if (!jinja_step(run, 1))
        return false;
    if (a.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a);
    if (b.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, b);
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = jinja_compare_numbers(a, b) == -1;
        return true;
    }
    if (a.type == JINJA_STRING && b.type == JINJA_STRING) {
        size_t size = a.string->size < b.string->size ? a.string->size : b.string->size;
        int order = size ? memcmp(a.string->data, b.string->data, size) : 0;
        *out = order < 0 || (order == 0 && a.string->size < b.string->size);
        return jinja_step(run, size / 64);
    }
    if (a.type != b.type || (a.type != JINJA_LIST && a.type != JINJA_TUPLE))
        return jinja_fail(run, "'<' not supported between instances of '%s' and '%s'",
                          jinja_type_name(a), jinja_type_name(b));
    for (size_t i = 0; i < a.list->num_items && i < b.list->num_items; i++) {
        bool equal = false;
        if (!jinja_equal(run, a.list->items[i], b.list->items[i], &equal))
            return false;
        if (equal)
            continue;
        if (!jinja_enter(run) || !jinja_less(run, a.list->items[i], b.list->items[i], out))
            return false;
        jinja_leave(run);
        return true;
    }
    *out = a.list->num_items < b.list->num_items;
    return true;
}

bool jinja_contains(struct jinja_run *run, struct jinja_value container, struct jinja_value item,
                    bool *out)
{
    const struct jinja_list *list = NULL;
    bool found = false;

    switch (container.type) {
    case JINJA_STRING:
        if (item.type == JINJA_UNDEFINED)
            return jinja_fail_undefined(run, item);
        if (item.type != JINJA_STRING)
            return jinja_fail(run, "'in <string>' requires string as left operand, not %s",
                              jinja_type_name(item));
        *out = jinja_find(container.string, item.string, 0) != SIZE_MAX;
        return jinja_step(run, container.string->size / 64);
    case JINJA_DICT:
        if (item.type == JINJA_LIST || item.type == JINJA_DICT)
            return jinja_fail(run, "unhashable type: '%s'", jinja_type_name(item));
        *out = jinja_dict_get(container.dict, item) != NULL;
        return jinja_step(run, item.type == JINJA_STRING ? item.string->size / 64 : 1);
    case JINJA_UNDEFINED:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
    case JINJA_RANGE:
    case JINJA_ITERATOR:
        if (!jinja_iterate(run, container, &list))
            return false;
        for (size_t i = 0; !found && i < list->num_items; i++) {
            if (!jinja_equal(run, list->items[i], item, &found))
                return false;
        }
        *out = found;
        return true;
    default:
        return jinja_fail(run, "argument of type '%s' is not iterable", jinja_type_name(container));
    }
}

/* ---- from JSON ---- */

bool jinja_from_json(struct jinja_run *run, const struct json_value *json, bool from_caller,
                     struct jinja_value *out)
{
    enum jinja_origin origin = from_caller ? JINJA_FROM_CALLER : JINJA_FROM_TEMPLATE;
    struct jinja_value key = {0}, value = {0};

    if (!json || json->type == JSON_NULL) {
        *out = jinja_none();
        return true;
    }
    switch (json->type) {
    case JSON_BOOL:
        *out = jinja_bool(json->boolean);
        return true;
    case JSON_NUMBER:
        return jinja_number_from_json(run, json, out);
    case JSON_STRING:
        return jinja_make_string(run, json->text.data, json->text.size,
                                 json->text.size ? origin : JINJA_FROM_TEMPLATE, out);
    case JSON_ARRAY: {
        struct jinja_list *list = jinja_make_list(run, json->num_items);
        if (!list)
            return false;
        for (size_t i = 0; i < json->num_items; i++) {
            if (!jinja_from_json(run, &json->items[i], from_caller, &list->items[i]))
                return false;
        }
        *out = (struct jinja_value){.type = JINJA_LIST, .list = list};
        return true;
    }
    default:
        if (!jinja_make_dict(run, out))
            return false;
        for (size_t i = 0; i < json->num_items; i++) {
            if (!jinja_make_string(run, json->keys[i].data, json->keys[i].size, origin, &key) ||
                !jinja_from_json(run, &json->items[i], from_caller, &value) ||
                !jinja_dict_set(run, out->dict, key, value))
                return false;
        }
        return true;
    }
}
