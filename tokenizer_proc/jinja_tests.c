/*
 * jinja_tests.c - what stands behind `is`. See jinja_functions.h.
 */
#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"
#include "tokenizer_proc/jinja_unicode.h"

static bool answer(struct jinja_value *out, bool holds)
{
    *out = jinja_bool(holds);
    return true;
}

/* ---- types ---- */

static bool is_boolean(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type == JINJA_BOOL);
}

static bool is_callable(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    enum jinja_type type = call->self.type;

    (void)run;
    return answer(out, type == JINJA_MACRO || type == JINJA_FUNCTION || type == JINJA_METHOD ||
                           type == JINJA_LOOP || type == JINJA_JOINER || type == JINJA_UNDEFINED);
}

static bool is_defined(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type != JINJA_UNDEFINED);
}

static bool is_undefined(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type == JINJA_UNDEFINED);
}

static bool is_false(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type == JINJA_BOOL && !call->self.boolean);
}

static bool is_true(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type == JINJA_BOOL && call->self.boolean);
}

static bool is_none(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type == JINJA_NONE);
}

static bool is_float(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type == JINJA_FLOAT);
}

static bool is_integer(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type == JINJA_INT || call->self.type == JINJA_BIGINT);
}

static bool is_number(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return answer(out, jinja_is_number(call->self));
}

static bool is_string(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type == JINJA_STRING);
}

static bool is_mapping(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type == JINJA_DICT);
}

static bool is_iterable(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    (void)run;
    switch (call->self.type) {
    case JINJA_UNDEFINED:
    case JINJA_STRING:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
    case JINJA_ITERATOR:
    case JINJA_RANGE:
    case JINJA_DICT:
    case JINJA_LOOP:
        return answer(out, true);
    default:
        return answer(out, false);
    }
}

/* Has a length and items. */
static bool is_sequence(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    (void)run;
    switch (call->self.type) {
    case JINJA_UNDEFINED:
    case JINJA_STRING:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_DICT:
        return answer(out, true);
    default:
        return answer(out, false);
    }
}

static bool is_escaped(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    (void)run;
    return answer(out, call->self.type == JINJA_STRING && call->self.string->is_markup);
}

/* ---- text ---- */

static bool ask_method(struct jinja_run *run, const struct jinja_call *call, const char *name,
                       struct jinja_value *out)
{
    struct jinja_string text = {.data = name, .size = strlen(name)};
    struct jinja_call method = {0};

    return jinja_to_string(run, call->self, &method.self) &&
           jinja_call_function(run, jinja_find_string_method(&text), &method, out);
}

static bool is_lower(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return ask_method(run, call, "islower", out);
}

static bool is_upper(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return ask_method(run, call, "isupper", out);
}

static bool is_filter(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    if (call->self.type == JINJA_LIST || call->self.type == JINJA_DICT)
        return jinja_fail(run, "unhashable type: '%s'", jinja_type_name(call->self));
    return answer(out, call->self.type == JINJA_STRING && jinja_find_filter(call->self.string));
}

static bool is_test(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    if (call->self.type == JINJA_LIST || call->self.type == JINJA_DICT)
        return jinja_fail(run, "unhashable type: '%s'", jinja_type_name(call->self));
    return answer(out, call->self.type == JINJA_STRING && jinja_find_test(call->self.string));
}

/* ---- numbers ---- */

/* self % divisor == rest */
static bool has_rest(struct jinja_run *run, struct jinja_value self, struct jinja_value divisor,
                     int64_t rest, struct jinja_value *out)
{
    struct jinja_value left = {0};

    if (!jinja_binary(run, '%', self, divisor, &left))
        return false;
    return answer(out, jinja_is_number(left) && jinja_compare_numbers(left, jinja_int(rest)) == 0);
}

static bool is_even(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return has_rest(run, call->self, jinja_int(2), 0, out);
}

static bool is_odd(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return has_rest(run, call->self, jinja_int(2), 1, out);
}

static bool is_divisible(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    return has_rest(run, call->self, call->bound[0], 0, out);
}

/* ---- comparison ---- */

static bool is_equal(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    bool holds = false;

    return jinja_equal(run, call->self, call->bound[0], &holds) && answer(out, holds);
}

static bool is_unequal(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    bool holds = false;

    return jinja_equal(run, call->self, call->bound[0], &holds) && answer(out, !holds);
}

static bool is_less(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    bool holds = false;

    return jinja_less(run, call->self, call->bound[0], &holds) && answer(out, holds);
}

static bool is_greater(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    bool holds = false;

    return jinja_less(run, call->bound[0], call->self, &holds) && answer(out, holds);
}

static bool is_at_most(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    bool less = false, equal = false;

    return jinja_less(run, call->self, call->bound[0], &less) &&
           jinja_equal(run, call->self, call->bound[0], &equal) && answer(out, less || equal);
}

static bool is_at_least(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    bool less = false, equal = false;

    return jinja_less(run, call->bound[0], call->self, &less) &&
           jinja_equal(run, call->self, call->bound[0], &equal) && answer(out, less || equal);
}

static bool is_in(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    bool holds = false;

    return jinja_contains(run, call->bound[0], call->self, &holds) && answer(out, holds);
}

/* The same object: for values without identity of their own, equality of one type. */
static bool is_same(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value a = call->self, b = call->bound[0];
    bool holds = false;

    if (a.type != b.type)
        return answer(out, false);
    switch (a.type) {
    case JINJA_LIST:
    case JINJA_TUPLE:
        return answer(out, a.list == b.list);
    case JINJA_DICT:
    case JINJA_NAMESPACE:
        return answer(out, a.dict == b.dict);
    default:
        return jinja_equal(run, a, b, &holds) && answer(out, holds);
    }
}

const struct jinja_function *jinja_find_test(const struct jinja_string *name)
{
    static const struct jinja_function tests[] = {
        {"!=", is_unequal, "other ", 1},
        {"<", is_less, "other ", 1},
        {"<=", is_at_most, "other ", 1},
        {"==", is_equal, "other ", 1},
        {">", is_greater, "other ", 1},
        {">=", is_at_least, "other ", 1},
        {"boolean", is_boolean, "", 0},
        {"callable", is_callable, "", 0},
        {"defined", is_defined, "", 0},
        {"divisibleby", is_divisible, "num ", 1},
        {"eq", is_equal, "other ", 1},
        {"equalto", is_equal, "other ", 1},
        {"escaped", is_escaped, "", 0},
        {"even", is_even, "", 0},
        {"false", is_false, "", 0},
        {"filter", is_filter, "", 0},
        {"float", is_float, "", 0},
        {"ge", is_at_least, "other ", 1},
        {"greaterthan", is_greater, "other ", 1},
        {"gt", is_greater, "other ", 1},
        {"in", is_in, "seq ", 1},
        {"integer", is_integer, "", 0},
        {"iterable", is_iterable, "", 0},
        {"le", is_at_most, "other ", 1},
        {"lessthan", is_less, "other ", 1},
        {"lower", is_lower, "", 0},
        {"lt", is_less, "other ", 1},
        {"mapping", is_mapping, "", 0},
        {"ne", is_unequal, "other ", 1},
        {"none", is_none, "", 0},
        {"number", is_number, "", 0},
        {"odd", is_odd, "", 0},
        {"sameas", is_same, "other ", 1},
        {"sequence", is_sequence, "", 0},
        {"string", is_string, "", 0},
        {"test", is_test, "", 0},
        {"true", is_true, "", 0},
        {"undefined", is_undefined, "", 0},
        {"upper", is_upper, "", 0},
        {0},
    };

    return jinja_find_in(tests, name);
}
