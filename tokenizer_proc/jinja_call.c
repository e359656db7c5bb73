/*
 * jinja_call.c - calls: functions with their parameters, macros, recursive loops. See jinja_eval.h
 * and jinja_functions.h.
 */
#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_functions.h"

const struct jinja_function *jinja_find_in(const struct jinja_function *table,
                                           const struct jinja_string *name)
{
    for (; table->name; table++) {
        if (table->name[0] == (name->size ? name->data[0] : '\0') &&
            jinja_string_is(name, table->name))
            return table;
    }
    return NULL;
}

/* The number of the parameter of that name in "a b c ", or -1. */
static int find_parameter(const char *params, const struct jinja_string *name)
{
    int index = 0;

    for (const char *p = params; *p; index++) {
        const char *end = strchr(p, ' ');
        if (name->size == (size_t)(end - p) && memcmp(name->data, p, name->size) == 0 && *p != '-')
            return index;
        p = end + 1;
    }
    return -1;
}

static int count_parameters(const char *params)
{
    int count = 0;

    for (; *params; params++)
        count += *params == ' ';
    return count;
}

bool jinja_call_function(struct jinja_run *run, const struct jinja_function *function,
                         struct jinja_call *call, struct jinja_value *out)
{
    if (!function->params)
        return function->call(run, call, out);
    int num_params = count_parameters(function->params);
    if (call->num_args > (size_t)num_params)
        return jinja_fail(run, "%s() takes at most %d arguments (%zu given)", function->name,
                          num_params, call->num_args);
    for (size_t i = 0; i < call->num_args; i++)
        call->bound[i] = call->args[i];
    for (size_t i = 0; i < call->num_named; i++) {
        const struct jinja_string *name = call->named[i].name.string;
        int index = find_parameter(function->params, name);
        int size = name->size > 40 ? 40 : (int)name->size;
        if (index < 0)
            return jinja_fail(run, "%s() got an unexpected keyword argument '%.*s'", function->name,
                              size, name->data);
        if (call->bound[index].type != JINJA_MISSING)
            return jinja_fail(run, "%s() got multiple values for argument '%.*s'", function->name,
                              size, name->data);
        call->bound[index] = call->named[i].value;
    }
    for (int i = 0; i < function->num_required; i++) {
        if (call->bound[i].type == JINJA_MISSING)
            return jinja_fail(run, "%s() missing %d required positional argument(s)",
                              function->name, function->num_required - i);
    }
    return function->call(run, call, out);
}

/* ---- macros ---- */

static bool fail_macro(struct jinja_run *run, const struct jinja_node *macro, const char *what,
                       const struct jinja_string *name)
{
    const struct jinja_string *macro_name = macro->value.string;

    return jinja_fail(run, "macro '%.*s' %s%s%.*s%s",
                      macro_name->size > 30 ? 30 : (int)macro_name->size, macro_name->data, what,
                      name ? " '" : "", name ? (name->size > 30 ? 30 : (int)name->size) : 0,
                      name ? name->data : "", name ? "'" : "");
}

/* The value given for parameter number i, or MISSING. */
static struct jinja_value given_argument(const struct jinja_node *macro, size_t i,
                                         const struct jinja_call *call)
{
    const struct jinja_string *name = macro->parameters->names[i].string;

    if (i < call->num_args)
        return call->args[i];
    for (size_t k = 0; k < call->num_named; k++) {
        if (jinja_string_equal(call->named[k].name.string, name))
            return call->named[k].value;
    }
    return (struct jinja_value){0};
}

static bool bind_parameters(struct jinja_run *run, struct jinja_scope *scope,
                            const struct jinja_node *macro, const struct jinja_call *call)
{
    const struct jinja_parameters *parameters = macro->parameters;
    size_t first_default = parameters->num_symbols - parameters->num_defaults;

    for (size_t i = 0; i < parameters->num_symbols; i++) {
        struct jinja_value value = given_argument(macro, i, call);
        if (value.type == JINJA_MISSING && i >= first_default) {
            if (!jinja_eval(run, scope, parameters->defaults[i - first_default], &value))
                return false;
        } else if (value.type == JINJA_MISSING) {
            if (!jinja_make_undefined(run, JINJA_MISSING, parameters->names[i], &value))
                return false;
        }
        if (!jinja_scope_set(run, scope, parameters->symbols[i], value))
            return false;
    }
    return true;
}

static bool is_parameter(const struct jinja_parameters *parameters, const struct jinja_string *name)
{
    for (size_t i = 0; i < parameters->num_symbols; i++) {
        if (jinja_string_equal(parameters->names[i].string, name))
            return true;
    }
    return false;
}

/* Binds what no parameter takes: varargs, kwargs, caller. */
static bool bind_rest(struct jinja_run *run, struct jinja_scope *scope,
                      const struct jinja_node *macro, const struct jinja_call *call)
{
    const struct jinja_parameters *parameters = macro->parameters;
    struct jinja_value kwargs = {0}, varargs = {0}, caller = {0};
    size_t num_params = parameters->num_symbols;
    size_t num_extra = call->num_args > num_params ? call->num_args - num_params : 0;

    if (num_extra && !parameters->uses_varargs)
        return fail_macro(run, macro, "takes not so many arguments", NULL);
    if (!jinja_make_dict(run, &kwargs))
        return false;
    for (size_t i = 0; i < call->num_named; i++) {
        struct jinja_value name = call->named[i].name;
        if (is_parameter(parameters, name.string)) {
            for (size_t k = 0; k < num_params && k < call->num_args; k++) {
                if (jinja_string_equal(parameters->names[k].string, name.string))
                    return fail_macro(run, macro, "got two values for the argument", name.string);
            }
        } else if (jinja_string_is(name.string, "caller") && parameters->uses_caller) {
            caller = call->named[i].value;
        } else if (!parameters->uses_kwargs) {
            return fail_macro(run, macro, "takes no keyword argument", name.string);
        } else if (!jinja_dict_set(run, kwargs.dict, name, call->named[i].value)) {
            return false;
        }
    }
    if (parameters->uses_kwargs && !jinja_scope_set(run, scope, SYMBOL_KWARGS, kwargs))
        return false;
    if (parameters->uses_varargs) {
        struct jinja_list *list = jinja_make_list(run, num_extra);
        if (!list)
            return false;
        for (size_t i = 0; i < num_extra; i++)
            list->items[i] = call->args[num_params + i];
        varargs = (struct jinja_value){.type = JINJA_TUPLE, .list = list};
        if (!jinja_scope_set(run, scope, SYMBOL_VARARGS, varargs))
            return false;
    }
    for (size_t i = 0; i < num_params; i++) {
        if (parameters->symbols[i] == SYMBOL_CALLER)
            return true;
    }
    /* A macro has its own caller, or none: never that of the macro around it. */
    if (parameters->uses_caller && macro->symbol != SYMBOL_CALLER) {
        struct jinja_value name = {0};
        if (caller.type == JINJA_MISSING &&
            (!jinja_make_text(run, "caller", &name) ||
             !jinja_make_undefined(run, JINJA_MISSING, name, &caller)))
            return false;
        return jinja_scope_set(run, scope, SYMBOL_CALLER, caller);
    }
    return true;
}

static bool call_macro(struct jinja_run *run, const struct jinja_macro *macro,
                       const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_scope *scope = jinja_make_scope(run, macro->scope);

    return scope && bind_rest(run, scope, macro->node, call) &&
           bind_parameters(run, scope, macro->node, call) &&
           jinja_exec_to_string(run, scope, macro->node->c, out);
}

/* ---- the rest ---- */

static bool call_loop(struct jinja_run *run, const struct jinja_loop *loop,
                      const struct jinja_call *call, struct jinja_value *out)
{
    if (!loop->node->flag)
        return jinja_fail(run, "The loop must have the 'recursive' marker to be called "
                               "recursively.");
    if (call->num_args != 1 || call->num_named != 0)
        return jinja_fail(run, "loop() takes one argument");
    return jinja_exec_recursive(run, loop, call->args[0], out);
}

/* The first call of a joiner gives nothing, the others its separator. */
static bool call_joiner(struct jinja_run *run, struct jinja_joiner *joiner, struct jinja_value *out)
{
    if (joiner->was_called) {
        *out = joiner->separator;
        return true;
    }
    joiner->was_called = true;
    return jinja_make_text(run, "", out);
}

bool jinja_call_value(struct jinja_run *run, struct jinja_value callee, struct jinja_call *call,
                      struct jinja_value *out)
{
    bool ok = false;

    if (!jinja_enter(run))
        return false;
    switch (callee.type) {
    case JINJA_FUNCTION:
        ok = jinja_call_function(run, callee.function, call, out);
        break;
    case JINJA_METHOD:
        call->self = callee.method->self;
        ok = jinja_call_function(run, callee.method->function, call, out);
        break;
    case JINJA_MACRO:
        ok = call_macro(run, callee.macro, call, out);
        break;
    case JINJA_LOOP:
        ok = call_loop(run, callee.loop, call, out);
        break;
    case JINJA_JOINER:
        ok = call_joiner(run, callee.joiner, out);
        break;
    case JINJA_UNDEFINED:
        ok = jinja_fail_undefined(run, callee);
        break;
    default:
        ok = jinja_fail(run, "'%s' object is not callable", jinja_type_name(callee));
        break;
    }
    jinja_leave(run);
    return ok;
}
