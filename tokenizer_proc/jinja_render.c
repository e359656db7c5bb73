/*
 * jinja_render.c - a rendering from its arguments to its text. See jinja.h.
 */
#include "tokenizer_proc/jinja.h"
#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_functions.h"

/* The value of a name before the template assigns to it: the caller's context, then the variables,
 * then what is built in. */
static bool initial_value(struct jinja_run *run, const struct jinja_args *args,
                          const struct jinja_string *name, struct jinja_value *out)
{
    if (args->context && args->context->type == JSON_OBJECT) {
        for (size_t i = args->context->num_items; i > 0; i--) {
            struct json_text key = args->context->keys[i - 1];
            if (key.size == name->size && memcmp(key.data, name->data, key.size) == 0)
                return jinja_from_json(run, &args->context->items[i - 1], true, out);
        }
    }
    for (size_t i = args->num_variables; i > 0; i--) {
        const struct jinja_variable *variable = &args->variables[i - 1];
        if (jinja_string_is(name, variable->name))
            return jinja_from_json(run, variable->value, variable->from_caller, out);
    }
    const struct jinja_function *function = jinja_find_global(name);
    if (function)
        *out = (struct jinja_value){.type = JINJA_FUNCTION, .function = function};
    return true;
}

static struct jinja_scope *make_root(struct jinja_run *run, const struct jinja_args *args)
{
    struct jinja_scope *root = jinja_make_scope(run, NULL);
    size_t num_symbols = (size_t)run->template->num_symbols;

    if (!root || !(root->slots = jinja_alloc(run, num_symbols, sizeof(*root->slots))))
        return NULL;
    for (size_t i = 0; i < num_symbols; i++) {
        if (!initial_value(run, args, run->template->symbols[i].string, &root->slots[i]))
            return NULL;
    }
    return root;
}

struct status jinja_render(const struct jinja_template *template, const struct jinja_args *args,
                           struct arena *arena, struct jinja_output *out)
{
    static const struct jinja_limits defaults = JINJA_DEFAULT_LIMITS;
    const struct jinja_limits *limits = args->limits.max_steps ? &args->limits : &defaults;
    struct jinja_run run = {
        .template = template,
        .arena = arena,
        .max_steps = limits->max_steps,
        .max_memory = limits->max_memory,
        .max_output = limits->max_output,
        .now = args->now,
    };
    struct jinja_buffer buffer = jinja_buffer_make(&run);

    run.out = &buffer;
    struct jinja_scope *root = make_root(&run, args);
    if (!root || !jinja_exec(&run, root, template->root) ||
        !jinja_buffer_add(&buffer, "", 1, false))
        return run.status;
    *out = (struct jinja_output){
        .text = buffer.data,
        .size = buffer.size - 1,
        .ranges = buffer.ranges,
        .num_ranges = buffer.num_ranges,
    };
    return status_ok();
}

struct status jinja_parse_time(const char *text, size_t size, struct tm *out)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd";
    int fields[6] = {0}, field = 0;

    if (size != sizeof(shape) - 1)
        return status_error(STATUS_INVALID, "a time looks like 2025-01-15T12:34:56");
    for (size_t i = 0; i < size; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        if (shape[i] == 'd' ? !digit : text[i] != shape[i])
            return status_error(STATUS_INVALID, "a time looks like 2025-01-15T12:34:56");
        if (digit)
            fields[field] = fields[field] * 10 + (text[i] - '0');
        else
            field++;
    }
    if (fields[1] < 1 || fields[1] > 12 || fields[2] < 1 || fields[2] > 31 || fields[3] > 23 ||
        fields[4] > 59 || fields[5] > 60)
        return status_error(STATUS_INVALID, "no such time: %.*s", (int)size, text);
    struct tm time = {
        .tm_year = fields[0] - 1900,
        .tm_mon = fields[1] - 1,
        .tm_mday = fields[2],
        .tm_hour = fields[3],
        .tm_min = fields[4],
        .tm_sec = fields[5],
    };
    struct tm normal = time;
    timegm(&normal); /* fills in the day of the week and of the year */
    time.tm_wday = normal.tm_wday;
    time.tm_yday = normal.tm_yday;
    *out = time;
    return status_ok();
}
