/*
 * jinja_eval.c - expressions. See jinja_eval.h.
 */
#include "tokenizer_proc/jinja_eval.h"

#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"

/* ---- scopes ---- */

struct jinja_scope *jinja_make_scope(struct jinja_run *run, struct jinja_scope *parent)
{
    struct jinja_scope *scope = jinja_alloc(run, 1, sizeof(*scope));

    if (scope)
        scope->parent = parent;
    return scope;
}

bool jinja_scope_set(struct jinja_run *run, struct jinja_scope *scope, int32_t symbol,
                     struct jinja_value value)
{
    if (scope->slots) {
        scope->slots[symbol] = value;
        return true;
    }
    for (size_t i = 0; i < scope->num_bindings; i++) {
        if (scope->bindings[i].symbol == symbol) {
            scope->bindings[i].value = value;
            return true;
        }
    }
    if (scope->num_bindings == scope->capacity) {
        size_t capacity = scope->capacity ? scope->capacity * 2 : 6;
        struct jinja_binding *bindings = jinja_alloc(run, capacity, sizeof(*bindings));
        if (!bindings)
            return false;
        if (scope->num_bindings)
            memcpy(bindings, scope->bindings, scope->num_bindings * sizeof(*bindings));
        scope->bindings = bindings;
        scope->capacity = capacity;
    }
    scope->bindings[scope->num_bindings++] = (struct jinja_binding){symbol, value};
    return true;
}

static struct jinja_value scope_get(const struct jinja_scope *scope, int32_t symbol)
{
    for (; !scope->slots; scope = scope->parent) {
        for (size_t i = 0; i < scope->num_bindings; i++) {
            if (scope->bindings[i].symbol == symbol)
                return scope->bindings[i].value;
        }
    }
    return scope->slots[symbol];
}

/* ---- operators ---- */

static bool fail_operands(struct jinja_run *run, char op, struct jinja_value a,
                          struct jinja_value b)
{
    const char *text = op == 'f' ? "//" : op == 'p' ? "** or pow()" : NULL;
    char letter[2] = {op, '\0'};

    if (a.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a);
    if (b.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, b);
    if (op == '+' && (a.type == JINJA_STRING || a.type == JINJA_LIST || a.type == JINJA_TUPLE))
        return jinja_fail(run, "can only concatenate %s (not \"%s\") to %s", jinja_type_name(a),
                          jinja_type_name(b), jinja_type_name(a));
    return jinja_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'",
                      text ? text : letter, jinja_type_name(a), jinja_type_name(b));
}

static bool add_strings(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                        struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    bool markup = a.string->is_markup || b.string->is_markup;

    if (markup && (!jinja_escape(run, a, &a) || !jinja_escape(run, b, &b)))
        return false;
    if (!jinja_buffer_add_string(&buffer, a.string) ||
        !jinja_buffer_add_string(&buffer, b.string) || !jinja_buffer_finish(&buffer, out))
        return false;
    if (markup) {
        struct jinja_string *string = jinja_alloc(run, 1, sizeof(*string));
        if (!string)
            return false;
        *string = *out->string;
        string->is_markup = true;
        out->string = string;
    }
    return true;
}

static bool add_lists(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out)
{
    struct jinja_list *list = jinja_make_list(run, a.list->num_items + b.list->num_items);

    if (!list)
        return false;
    if (a.list->num_items)
        memcpy(list->items, a.list->items, a.list->num_items * sizeof(*list->items));
    if (b.list->num_items)
        memcpy(list->items + a.list->num_items, b.list->items,
               b.list->num_items * sizeof(*list->items));
    *out = (struct jinja_value){.type = a.type, .list = list};
    return true;
}

static bool repeat(struct jinja_run *run, struct jinja_value value, struct jinja_value times,
                   struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    int64_t count = jinja_clamp_int(times);

    if (count < 0)
        count = 0;
    if (value.type == JINJA_STRING)
        return jinja_buffer_add_repeated(&buffer, value.string, count) &&
               jinja_buffer_finish(&buffer, out);
    size_t num_items = value.list->num_items;
    if (num_items == 0)
        count = 0;
    if (count > 0 && (size_t)count > SIZE_MAX / 64 / num_items)
        return jinja_fail_space(run, "a list is too long");
    struct jinja_list *list = jinja_make_list(run, num_items * (size_t)count);
    if (!list)
        return false;
    for (int64_t i = 0; i < count; i++)
        memcpy(list->items + (size_t)i * num_items, value.list->items,
               num_items * sizeof(*list->items));
    *out = (struct jinja_value){.type = value.type, .list = list};
    return true;
}

static bool is_sequence(struct jinja_value value)
{
    return value.type == JINJA_STRING || value.type == JINJA_LIST || value.type == JINJA_TUPLE;
}

bool jinja_binary(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b,
                  struct jinja_value *out)
{
    if (jinja_is_number(a) && jinja_is_number(b))
        return jinja_number_op(run, op, a, b, out);
    if (op == '+' && a.type == JINJA_STRING && b.type == JINJA_STRING)
        return add_strings(run, a, b, out);
    if (op == '+' && a.type == b.type && is_sequence(a))
        return add_lists(run, a, b, out);
    if (op == '*' && is_sequence(a) && jinja_is_integer(b))
        return repeat(run, a, b, out);
    if (op == '*' && is_sequence(b) && jinja_is_integer(a))
        return repeat(run, b, a, out);
    if (op == '%' && a.type == JINJA_STRING)
        return jinja_percent_format(run, a.string, b, out);
    return fail_operands(run, op, a, b);
}

static bool is_plain_string(struct jinja_value value)
{
    return value.type == JINJA_STRING && !value.string->is_markup;
}

/* From the left; strings that are added to each other gather in one buffer. */
static bool eval_binary(struct jinja_run *run, struct jinja_scope *scope,
                        const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value left = {0}, right = {0};
    struct jinja_buffer buffer = jinja_buffer_make(run);
    bool gathering = false;

    if (!jinja_eval(run, scope, node->items[0], &left))
        return false;
    for (size_t i = 1; i < node->num_items; i++) {
        char op = node->operators[i - 1];
        if (!jinja_eval(run, scope, node->items[i], &right))
            return false;
        if (op == '+' && is_plain_string(right) && (gathering || is_plain_string(left))) {
            if (!gathering && !jinja_buffer_add_string(&buffer, left.string))
                return false;
            gathering = true;
            if (!jinja_buffer_add_string(&buffer, right.string))
                return false;
            continue;
        }
        if (gathering && !jinja_buffer_finish(&buffer, &left))
            return false;
        gathering = false;
        buffer = jinja_buffer_make(run);
        if (!jinja_binary(run, op, left, right, &left))
            return false;
    }
    if (gathering)
        return jinja_buffer_finish(&buffer, out);
    *out = left;
    return true;
}

static bool compare(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b,
                    bool *out)
{
    bool equal = false;

    switch (op) {
    case '=':
        return jinja_equal(run, a, b, out);
    case '!':
        if (!jinja_equal(run, a, b, out))
            return false;
        *out = !*out;
        return true;
    case '<':
        return jinja_less(run, a, b, out);
    case '>':
        return jinja_less(run, b, a, out);
    case 'i':
        return jinja_contains(run, b, a, out);
    case 'n':
        if (!jinja_contains(run, b, a, out))
            return false;
        *out = !*out;
        return true;
    default: /* <= and >= */
        if (!(op == 'l' ? jinja_less(run, a, b, out) : jinja_less(run, b, a, out)))
            return false;
        if (*out)
            return true;
        if (!jinja_equal(run, a, b, &equal))
            return false;
        *out = equal;
        return true;
    }
}

static bool eval_compare(struct jinja_run *run, struct jinja_scope *scope,
                         const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value left = {0}, right = {0};
    bool holds = true;

    if (!jinja_eval(run, scope, node->items[0], &left))
        return false;
    for (size_t i = 1; holds && i < node->num_items; i++) {
        if (!jinja_eval(run, scope, node->items[i], &right) ||
            !compare(run, node->operators[i - 1], left, right, &holds))
            return false;
        left = right;
    }
    *out = jinja_bool(holds);
    return true;
}

static bool eval_concat(struct jinja_run *run, struct jinja_scope *scope,
                        const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_value item = {0};

    for (size_t i = 0; i < node->num_items; i++) {
        if (!jinja_eval(run, scope, node->items[i], &item) || !jinja_print(&buffer, item))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

static bool eval_logic(struct jinja_run *run, struct jinja_scope *scope,
                       const struct jinja_node *node, struct jinja_value *out)
{
    bool stops_at = node->type == NODE_OR;

    for (size_t i = 0; i < node->num_items; i++) {
        if (!jinja_eval(run, scope, node->items[i], out))
            return false;
        if (jinja_is_true(*out) == stops_at)
            break;
    }
    return true;
}

static bool eval_sign(struct jinja_run *run, struct jinja_scope *scope,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value value = {0};

    if (!jinja_eval(run, scope, node->a, &value))
        return false;
    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_number(value))
        return jinja_fail(run, "bad operand type for unary %c: '%s'",
                          node->type == NODE_NEG ? '-' : '+', jinja_type_name(value));
    if (node->type == NODE_NEG)
        return jinja_number_negate(run, value, out);
    *out = value.type == JINJA_BOOL ? jinja_int(value.boolean) : value;
    return true;
}

/* ---- atoms ---- */

static bool eval_name(struct jinja_run *run, const struct jinja_scope *scope,
                      const struct jinja_node *node, struct jinja_value *out)
{
    *out = scope_get(scope, node->symbol);
    if (out->type == JINJA_MISSING)
        return jinja_make_undefined(run, JINJA_MISSING, node->value, out);
    return true;
}

static bool eval_list(struct jinja_run *run, struct jinja_scope *scope,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_list *list = jinja_make_list(run, node->num_items);

    if (!list)
        return false;
    for (size_t i = 0; i < node->num_items; i++) {
        if (!jinja_eval(run, scope, node->items[i], &list->items[i]))
            return false;
    }
    *out = (struct jinja_value){.type = node->type == NODE_LIST ? JINJA_LIST : JINJA_TUPLE,
                                .list = list};
    return true;
}

static bool eval_dict(struct jinja_run *run, struct jinja_scope *scope,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value dict = {0}, key = {0}, value = {0};

    if (!jinja_make_dict(run, &dict))
        return false;
    for (size_t i = 0; i + 1 < node->num_items; i += 2) {
        if (!jinja_eval(run, scope, node->items[i], &key) ||
            !jinja_eval(run, scope, node->items[i + 1], &value) ||
            !jinja_dict_set(run, dict.dict, key, value))
            return false;
    }
    *out = dict;
    return true;
}

static bool eval_condition(struct jinja_run *run, struct jinja_scope *scope,
                           const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value test = {0}, name = {0};

    if (!jinja_eval(run, scope, node->b, &test))
        return false;
    if (jinja_is_true(test))
        return jinja_eval(run, scope, node->a, out);
    if (node->c)
        return jinja_eval(run, scope, node->c, out);
    return jinja_make_text(run, "if without else", &name) &&
           jinja_make_undefined(run, JINJA_MISSING, name, out);
}

static bool eval_optional(struct jinja_run *run, struct jinja_scope *scope,
                          const struct jinja_node *node, struct jinja_value *out)
{
    if (node)
        return jinja_eval(run, scope, node, out);
    *out = jinja_none();
    return true;
}

static bool eval_item(struct jinja_run *run, struct jinja_scope *scope,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value object = {0}, key = {0};

    if (!jinja_eval(run, scope, node->a, &object))
        return false;
    if (node->b->type != NODE_SLICE)
        return jinja_eval(run, scope, node->b, &key) && jinja_get_item(run, object, key, out);
    struct jinja_value start = {0}, stop = {0}, step = {0};
    return eval_optional(run, scope, node->b->a, &start) &&
           eval_optional(run, scope, node->b->b, &stop) &&
           eval_optional(run, scope, node->b->c, &step) &&
           jinja_get_slice(run, object, start, stop, step, out);
}

static bool eval_attribute(struct jinja_run *run, struct jinja_scope *scope,
                           const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value object = {0};

    return jinja_eval(run, scope, node->a, &object) &&
           jinja_get_attribute(run, object, node->value, out);
}

/* ---- calls ---- */

bool jinja_eval_arguments(struct jinja_run *run, struct jinja_scope *scope,
                          const struct jinja_arguments *arguments, struct jinja_call *call)
{
    struct jinja_value star = {0}, double_star = {0};
    const struct jinja_list *more = NULL;
    size_t num_args = arguments->num_args, num_named = arguments->num_named;

    if (arguments->star) {
        if (!jinja_eval(run, scope, arguments->star, &star) || !jinja_iterate(run, star, &more))
            return false;
        num_args += more->num_items;
    }
    if (arguments->double_star) {
        if (!jinja_eval(run, scope, arguments->double_star, &double_star))
            return false;
        if (double_star.type != JINJA_DICT)
            return jinja_fail(run, "argument after ** must be a mapping, not %s",
                              jinja_type_name(double_star));
        num_named += double_star.dict->num_items;
    }
    if (num_args == 0 && num_named == 0)
        return true;
    struct jinja_value *args = jinja_alloc(run, num_args, sizeof(*args));
    struct jinja_named *named = jinja_alloc(run, num_named, sizeof(*named));
    if (!args || !named)
        return false;
    for (size_t i = 0; i < arguments->num_args; i++) {
        if (!jinja_eval(run, scope, arguments->args[i], &args[i]))
            return false;
    }
    for (size_t i = arguments->num_args; i < num_args; i++)
        args[i] = more->items[i - arguments->num_args];
    for (size_t i = 0; i < arguments->num_named; i++) {
        named[i].name = arguments->names[i];
        if (!jinja_eval(run, scope, arguments->named[i], &named[i].value))
            return false;
    }
    for (size_t i = arguments->num_named; i < num_named; i++) {
        named[i].name = double_star.dict->keys[i - arguments->num_named];
        named[i].value = double_star.dict->values[i - arguments->num_named];
        if (named[i].name.type != JINJA_STRING)
            return jinja_fail(run, "keywords must be strings");
    }
    call->args = args;
    call->num_args = num_args;
    call->named = named;
    call->num_named = num_named;
    return true;
}

static bool eval_call(struct jinja_run *run, struct jinja_scope *scope,
                      const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value callee = {0};
    struct jinja_call call = {0};

    return jinja_eval(run, scope, node->a, &callee) &&
           jinja_eval_arguments(run, scope, node->arguments, &call) &&
           jinja_call_value(run, callee, &call, out);
}

/* A filter or a test, applied to a value that has been evaluated. */
static bool apply(struct jinja_run *run, struct jinja_scope *scope, const struct jinja_node *node,
                  struct jinja_value self, struct jinja_value *out)
{
    struct jinja_call call = {.self = self};

    if (!node->function)
        return jinja_fail(run, "No %s named '%.*s'.", node->type == NODE_TEST ? "test" : "filter",
                          node->value.string->size > 60 ? 60 : (int)node->value.string->size,
                          node->value.string->data);
    return jinja_eval_arguments(run, scope, node->arguments, &call) &&
           jinja_call_function(run, node->function, &call, out);
}

static bool eval_applied(struct jinja_run *run, struct jinja_scope *scope,
                         const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value self = {0};

    return jinja_eval(run, scope, node->a, &self) && apply(run, scope, node, self, out);
}

bool jinja_eval_filters(struct jinja_run *run, struct jinja_scope *scope,
                        const struct jinja_node *node, struct jinja_value place,
                        struct jinja_value *out)
{
    struct jinja_value self = {0};

    if (node->type == NODE_PLACE) {
        *out = place;
        return true;
    }
    if (!jinja_enter(run) || !jinja_eval_filters(run, scope, node->a, place, &self))
        return false;
    jinja_leave(run);
    return apply(run, scope, node, self, out);
}

static bool eval_not(struct jinja_run *run, struct jinja_scope *scope,
                     const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value value = {0};

    if (!jinja_eval(run, scope, node->a, &value))
        return false;
    *out = jinja_bool(!jinja_is_true(value));
    return true;
}

static bool eval_nested(struct jinja_run *run, struct jinja_scope *scope,
                        const struct jinja_node *node, struct jinja_value *out)
{
    switch (node->type) {
    case NODE_LIST:
    case NODE_TUPLE:
        return eval_list(run, scope, node, out);
    case NODE_DICT:
        return eval_dict(run, scope, node, out);
    case NODE_AND:
    case NODE_OR:
        return eval_logic(run, scope, node, out);
    case NODE_NOT:
        return eval_not(run, scope, node, out);
    case NODE_NEG:
    case NODE_POS:
        return eval_sign(run, scope, node, out);
    case NODE_CONDITION:
        return eval_condition(run, scope, node, out);
    case NODE_COMPARE:
        return eval_compare(run, scope, node, out);
    case NODE_BINARY:
        return eval_binary(run, scope, node, out);
    case NODE_CONCAT:
        return eval_concat(run, scope, node, out);
    case NODE_GETATTR:
        return eval_attribute(run, scope, node, out);
    case NODE_GETITEM:
        return eval_item(run, scope, node, out);
    case NODE_SLICE: /* inside of x[a:b, c]: nothing takes it */
        return jinja_fail(run, "a slice cannot stand here");
    case NODE_CALL:
        return eval_call(run, scope, node, out);
    default:
        return eval_applied(run, scope, node, out);
    }
}

bool jinja_eval(struct jinja_run *run, struct jinja_scope *scope, const struct jinja_node *node,
                struct jinja_value *out)
{
    if (!jinja_step(run, 1))
        return false;
    if (node->type == NODE_CONST) {
        *out = node->value;
        return true;
    }
    if (node->type == NODE_NAME)
        return eval_name(run, scope, node, out);
    if (!jinja_enter(run))
        return false;
    bool ok = eval_nested(run, scope, node, out);
    jinja_leave(run);
    return ok;
}
