/*
 * jinja_access.c - attributes, items and slices. See jinja_eval.h.
 *
 * As in Jinja's sandbox: `x.name` looks for an attribute, then for an item; `x['name']` the other
 * way round; what neither finds is undefined.
 */
#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"

static bool make_method(struct jinja_run *run, struct jinja_value object,
                        const struct jinja_function *function, struct jinja_value *out)
{
    struct jinja_method *method = jinja_alloc(run, 1, sizeof(*method));

    if (!method)
        return false;
    *method = (struct jinja_method){.self = object, .function = function};
    *out = (struct jinja_value){.type = JINJA_METHOD, .method = method};
    return true;
}

/* Neighbours in a loop. */
static bool loop_item(struct jinja_run *run, const struct jinja_loop *loop, bool is_there,
                      size_t index, struct jinja_value name, struct jinja_value *out)
{
    if (!is_there)
        return jinja_make_undefined(run, JINJA_LOOP, name, out);
    *out = loop->items.items[index];
    return true;
}

static bool loop_attribute(struct jinja_run *run, struct jinja_loop *loop, struct jinja_value name,
                           struct jinja_value *out)
{
    const struct jinja_string *text = name.string;
    int64_t index0 = (int64_t)loop->index0;
    bool wants_last = jinja_string_is(text, "last") || jinja_string_is(text, "nextitem");
    bool wants_length = jinja_string_is(text, "length") || jinja_string_is(text, "revindex") ||
                        jinja_string_is(text, "revindex0");

    if ((wants_last && !jinja_loop_look_ahead(run, loop, loop->index0 + 2)) ||
        (wants_length && !jinja_loop_look_ahead(run, loop, SIZE_MAX)))
        return false;
    int64_t length = (int64_t)loop->items.num_items;
    *out = jinja_none();
    if (jinja_string_is(text, "index"))
        *out = jinja_int(index0 + 1);
    else if (jinja_string_is(text, "index0"))
        *out = jinja_int(index0);
    else if (jinja_string_is(text, "first"))
        *out = jinja_bool(index0 == 0);
    else if (jinja_string_is(text, "last"))
        *out = jinja_bool(index0 + 1 == length);
    else if (jinja_string_is(text, "length"))
        *out = jinja_int(length);
    else if (jinja_string_is(text, "revindex"))
        *out = jinja_int(length - index0);
    else if (jinja_string_is(text, "revindex0"))
        *out = jinja_int(length - index0 - 1);
    else if (jinja_string_is(text, "depth"))
        *out = jinja_int((int64_t)loop->depth0 + 1);
    else if (jinja_string_is(text, "depth0"))
        *out = jinja_int((int64_t)loop->depth0);
    else if (jinja_string_is(text, "previtem"))
        return loop_item(run, loop, index0 > 0, loop->index0 - 1, name, out);
    else if (jinja_string_is(text, "nextitem"))
        return loop_item(run, loop, index0 + 1 < length, loop->index0 + 1, name, out);
    return true;
}

static bool macro_attribute(struct jinja_run *run, const struct jinja_macro *macro,
                            struct jinja_value name, struct jinja_value *out)
{
    const struct jinja_parameters *parameters = macro->node->parameters;

    *out = jinja_none();
    if (jinja_string_is(name.string, "name"))
        *out = macro->node->value;
    else if (jinja_string_is(name.string, "arguments"))
        return jinja_list_value(run, JINJA_TUPLE, parameters->names, parameters->num_symbols, out);
    else if (jinja_string_is(name.string, "catch_kwargs"))
        *out = jinja_bool(parameters->uses_kwargs);
    else if (jinja_string_is(name.string, "catch_varargs"))
        *out = jinja_bool(parameters->uses_varargs);
    else if (jinja_string_is(name.string, "caller"))
        *out = jinja_bool(parameters->uses_caller);
    return true;
}

/* Attributes that are no methods; none where there is nothing of that name. */
static bool data_attribute(struct jinja_run *run, struct jinja_value object,
                           struct jinja_value name, struct jinja_value *out)
{
    const struct jinja_value *found = NULL;

    *out = jinja_none();
    switch (object.type) {
    case JINJA_NAMESPACE:
        found = jinja_dict_get(object.dict, name);
        if (found)
            *out = *found;
        else
            return jinja_make_undefined(run, object.type, name, out);
        return true;
    case JINJA_LOOP:
        return loop_attribute(run, object.loop, name, out);
    case JINJA_MACRO:
        return macro_attribute(run, object.macro, name, out);
    case JINJA_CYCLER:
        if (jinja_string_is(name.string, "current"))
            *out = object.cycler->list.items[object.cycler->next];
        return true;
    case JINJA_RANGE:
        if (jinja_string_is(name.string, "start"))
            *out = jinja_int(object.range->start);
        else if (jinja_string_is(name.string, "stop"))
            *out = jinja_int(object.range->stop);
        else if (jinja_string_is(name.string, "step"))
            *out = jinja_int(object.range->step);
        return true;
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_BIGINT:
        if (jinja_string_is(name.string, "real") || jinja_string_is(name.string, "numerator"))
            *out = object.type == JINJA_BOOL ? jinja_int(object.boolean) : object;
        else if (jinja_string_is(name.string, "imag"))
            *out = jinja_int(0);
        else if (jinja_string_is(name.string, "denominator"))
            *out = jinja_int(1);
        return true;
    case JINJA_FLOAT:
        if (jinja_string_is(name.string, "real"))
            *out = object;
        else if (jinja_string_is(name.string, "imag"))
            *out = jinja_float(0.0);
        return true;
    case JINJA_TUPLE: /* of the filter groupby */
        if (object.list->num_items == 2 && jinja_string_is(name.string, "grouper"))
            *out = object.list->items[0];
        else if (object.list->num_items == 2 && jinja_string_is(name.string, "list"))
            *out = object.list->items[1];
        return true;
    default:
        return true;
    }
}

static bool find_attribute(struct jinja_run *run, struct jinja_value object,
                           struct jinja_value name, bool *out_found, struct jinja_value *out)
{
    bool is_unsafe = false;
    const struct jinja_function *function =
        object.type == JINJA_STRING ? jinja_find_string_method(name.string)
                                    : jinja_find_method(object.type, name.string, &is_unsafe);

    *out_found = true;
    if (function)
        return make_method(run, object, function, out);
    if (is_unsafe) {
        struct jinja_undefined *undefined = jinja_alloc(run, 1, sizeof(*undefined));
        if (!undefined)
            return false;
        *undefined =
            (struct jinja_undefined){.object_type = object.type, .is_unsafe = true, .key = name};
        *out = (struct jinja_value){.type = JINJA_UNDEFINED, .undefined = undefined};
        return true;
    }
    if (!data_attribute(run, object, name, out))
        return false;
    *out_found =
        out->type != JINJA_NONE || object.type == JINJA_NAMESPACE || object.type == JINJA_LOOP;
    if (object.type == JINJA_LOOP && out->type == JINJA_NONE)
        *out_found =
            jinja_string_is(name.string, "previtem") || jinja_string_is(name.string, "nextitem");
    return true;
}

/* The item itself, if there is one; *out_found tells. */
static bool find_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key,
                      bool *out_found, struct jinja_value *out)
{
    int64_t length = 0, index = 0;
    const struct jinja_value *value = NULL;

    *out_found = false;
    if (object.type == JINJA_DICT) {
        if (key.type == JINJA_STRING && !jinja_step(run, key.string->size / 64))
            return false;
        value = jinja_dict_get(object.dict, key);
        if (value) {
            *out = *value;
            *out_found = true;
        }
        return true;
    }
    if (!jinja_is_integer(key) || key.type == JINJA_BIGINT)
        return true;
    if (object.type != JINJA_STRING && object.type != JINJA_LIST && object.type != JINJA_TUPLE &&
        object.type != JINJA_RANGE)
        return true;
    if (!jinja_length(run, object, &length))
        return false;
    index = jinja_clamp_int(key);
    if (index < 0)
        index += length;
    if (index < 0 || index >= length)
        return true;
    *out_found = true;
    if (object.type == JINJA_RANGE) {
        *out = jinja_int(object.range->start + index * object.range->step);
    } else if (object.type == JINJA_STRING) {
        const struct jinja_string *string = object.string;
        size_t start = jinja_char_offset(string->data, string->size, (size_t)index), end = start;
        jinja_next_char(string->data, string->size, &end);
        return jinja_make_slice(run, string, start, end, out);
    } else {
        *out = object.list->items[index];
    }
    return true;
}

bool jinja_get_attribute(struct jinja_run *run, struct jinja_value object, struct jinja_value name,
                         struct jinja_value *out)
{
    bool found = false;

    if (object.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (!find_attribute(run, object, name, &found, out))
        return false;
    if (!found && !find_item(run, object, name, &found, out))
        return false;
    return found || jinja_make_undefined(run, object.type, name, out);
}

bool jinja_get_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key,
                    struct jinja_value *out)
{
    bool found = false;

    if (object.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (!find_item(run, object, key, &found, out))
        return false;
    if (!found && key.type == JINJA_STRING && !find_attribute(run, object, key, &found, out))
        return false;
    return found || jinja_make_undefined(run, object.type, key, out);
}

/* ---- slices ---- */

static bool slice_bound(struct jinja_run *run, struct jinja_value value, int64_t length,
                        int64_t low, int64_t high, int64_t missing, int64_t *out)
{
    if (value.type == JINJA_NONE || value.type == JINJA_MISSING) {
        *out = missing;
        return true;
    }
    if (!jinja_is_integer(value))
        return jinja_fail(run,
                          "slice indices must be integers or None or have an __index__ method");
    int64_t bound = jinja_clamp_int(value);
    if (bound < 0)
        bound += length;
    *out = bound < low ? low : bound > high ? high : bound;
    return true;
}

static bool slice_string(struct jinja_run *run, const struct jinja_string *string, int64_t start,
                         int64_t count, int64_t step, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_value whole = {.type = JINJA_STRING, .string = string};
    const struct jinja_list *chars = NULL;

    if (step == 1 || count <= 1) {
        size_t from = jinja_char_offset(string->data, string->size, (size_t)start);
        size_t size = jinja_char_offset(string->data + from, string->size - from, (size_t)count);
        return jinja_make_slice(run, string, from, from + (count > 0 ? size : 0), out);
    }
    if (!jinja_iterate(run, whole, &chars))
        return false;
    for (int64_t i = 0; i < count; i++) {
        if (!jinja_buffer_add_string(&buffer, chars->items[start + i * step].string))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

/* A slice of a range is a range. */
static bool slice_range(struct jinja_run *run, const struct jinja_range *range, int64_t from,
                        int64_t to, int64_t by, int64_t count, struct jinja_value *out)
{
    struct jinja_range *slice = jinja_alloc(run, 1, sizeof(*slice));

    if (!slice || __builtin_mul_overflow(range->step, by, &by))
        return jinja_fail_space(run, "a range is too large");
    *slice = (struct jinja_range){
        .start = range->start + from * range->step,
        .stop = range->start + to * range->step,
        .step = by,
        .num_items = count,
    };
    *out = (struct jinja_value){.type = JINJA_RANGE, .range = slice};
    return true;
}

bool jinja_get_slice(struct jinja_run *run, struct jinja_value object, struct jinja_value start,
                     struct jinja_value stop, struct jinja_value step, struct jinja_value *out)
{
    int64_t length = 0, from = 0, to = 0, by = 1, count = 0;

    if (object.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (object.type != JINJA_STRING && object.type != JINJA_LIST && object.type != JINJA_TUPLE &&
        object.type != JINJA_RANGE)
        return jinja_fail(run, "'%s' object is not subscriptable", jinja_type_name(object));
    if (step.type != JINJA_NONE && step.type != JINJA_MISSING) {
        if (!jinja_is_integer(step))
            return jinja_fail(run,
                              "slice indices must be integers or None or have an __index__ method");
        by = jinja_clamp_int(step);
        if (by == 0)
            return jinja_fail(run, "slice step cannot be zero");
        if (by == INT64_MIN)
            by++;
    }
    if (!jinja_length(run, object, &length))
        return false;
    int64_t low = by < 0 ? -1 : 0, high = by < 0 ? length - 1 : length;
    if (!slice_bound(run, start, length, low, high, by < 0 ? high : low, &from) ||
        !slice_bound(run, stop, length, low, high, by < 0 ? low : high, &to))
        return false;
    if (by > 0 && to > from)
        count = (to - from - 1) / by + 1;
    else if (by < 0 && from > to)
        count = (from - to - 1) / -by + 1;
    if (object.type == JINJA_STRING)
        return slice_string(run, object.string, count > 0 ? from : 0, count, by, out);
    if (object.type == JINJA_RANGE)
        return slice_range(run, object.range, from, to, by, count, out);
    const struct jinja_list *items = NULL;
    enum jinja_type type = object.type == JINJA_TUPLE ? JINJA_TUPLE : JINJA_LIST;
    if (!jinja_iterate(run, object, &items))
        return false;
    if (by == 1)
        return jinja_list_value(run, type, items->items + (count > 0 ? from : 0), (size_t)count,
                                out);
    struct jinja_list *list = jinja_make_list(run, (size_t)count);
    if (!list)
        return false;
    for (int64_t i = 0; i < count; i++)
        list->items[i] = items->items[from + i * by];
    *out = (struct jinja_value){.type = type, .list = list};
    return true;
}
