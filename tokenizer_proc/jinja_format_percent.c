/*
 * jinja_format_percent.c - `format % arguments`. See jinja_functions.h.
 */
#include "tokenizer_proc/jinja_format.h"
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"

struct percent {
    struct jinja_run *run;
    const struct jinja_string *format;
    size_t at;
    struct jinja_value argument;
    struct jinja_list one;           /* the argument, when it is no tuple */
    const struct jinja_list *values; /* taken in turn */
    size_t next;
    bool uses_names;
};

static bool next_value(struct percent *percent, struct jinja_value *out)
{
    if (percent->next >= percent->values->num_items)
        return jinja_fail(percent->run, "not enough arguments for format string");
    *out = percent->values->items[percent->next++];
    return true;
}

static char current(const struct percent *percent)
{
    return percent->at < percent->format->size ? percent->format->data[percent->at] : '\0';
}

/* A number, or * for the next argument. */
static bool read_number(struct percent *percent, int64_t limit, int64_t *out)
{
    struct jinja_value value = {0};

    *out = 0;
    if (current(percent) == '*') {
        percent->at++;
        if (!next_value(percent, &value) || !jinja_want_int(percent->run, value, out))
            return false;
    }
    for (; current(percent) >= '0' && current(percent) <= '9'; percent->at++) {
        if (*out <= limit)
            *out = *out * 10 + (current(percent) - '0');
    }
    if (*out > limit || *out < -limit)
        return jinja_fail_space(percent->run, "a format is too wide");
    return true;
}

/* `(name)` behind the percent sign. */
static bool read_name(struct percent *percent, struct jinja_value *out)
{
    struct jinja_value key = {0};
    size_t start = ++percent->at;

    while (percent->at < percent->format->size && current(percent) != ')')
        percent->at++;
    if (percent->at == percent->format->size)
        return jinja_fail(percent->run, "incomplete format key");
    if (percent->argument.type != JINJA_DICT)
        return jinja_fail(percent->run, "format requires a mapping");
    if (!jinja_make_slice(percent->run, percent->format, start, percent->at++, &key))
        return false;
    const struct jinja_value *found = jinja_dict_get(percent->argument.dict, key);
    if (!found)
        return jinja_fail(percent->run, "a format key is missing");
    *out = *found;
    percent->uses_names = true;
    return true;
}

static bool read_flags(struct percent *percent, struct jinja_style *style)
{
    bool zero = false;

    for (;; percent->at++) {
        char c = current(percent);
        if (c == '-')
            style->align = '<';
        else if (c == '+' || (c == ' ' && style->sign != '+'))
            style->sign = c;
        else if (c == '#')
            style->alternate = true;
        else if (c == '0')
            zero = true;
        else if (c != ' ')
            break;
    }
    if (!read_number(percent, FORMAT_MAX_WIDTH, &style->width))
        return false;
    if (style->width < 0) {
        style->width = -style->width;
        style->align = '<';
    }
    if (current(percent) == '.') {
        percent->at++;
        if (!read_number(percent, FORMAT_MAX_PRECISION, &style->precision))
            return false;
        if (style->precision < 0)
            style->precision = 0;
    }
    while (current(percent) == 'l' || current(percent) == 'h' || current(percent) == 'L')
        percent->at++;
    style->type = current(percent);
    percent->at++;
    if (zero && style->align != '<' && style->type && strchr("diuoxXeEfFgG", style->type)) {
        style->fill = &jinja_zero_fill;
        style->align = '=';
    }
    return true;
}

static bool format_percent_number(struct jinja_buffer *buffer, struct jinja_style *style,
                                  struct jinja_value value)
{
    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(buffer->run, value);
    if (!jinja_is_number(value))
        return jinja_fail(buffer->run, "%%%c format: a real number is required, not %s",
                          style->type, jinja_type_name(value));
    if (strchr("eEfFgG", style->type))
        return jinja_format_float(buffer, style, jinja_to_double(value));
    if (value.type == JINJA_FLOAT && strchr("oxX", style->type))
        return jinja_fail(buffer->run, "%%%c format: an integer is required, not float",
                          style->type);
    if (value.type == JINJA_FLOAT && !jinja_truncate(buffer->run, value.number, &value))
        return false;
    if (strchr("diu", style->type))
        style->type = 'd';
    return jinja_format_int(buffer, style, value);
}

/* Behind the percent sign. */
static bool add_directive(struct percent *percent, struct jinja_buffer *buffer)
{
    struct jinja_style style = {
        .fill = &jinja_blank_fill, .align = '>', .sign = '-', .precision = -1};
    struct jinja_value value = {0};
    bool named = current(percent) == '(';

    if (named && !read_name(percent, &value))
        return false;
    if (!read_flags(percent, &style))
        return false;
    if (style.type == '%')
        return jinja_buffer_add(buffer, "%", 1, false);
    if (!style.type)
        return jinja_fail(percent->run, "incomplete format");
    if (!named && !next_value(percent, &value))
        return false;
    switch (style.type) {
    case 'r':
    case 'a':
        return jinja_format_repr(percent->run, value, &value) &&
               jinja_format_text(buffer, &style, value);
    case 's':
        return jinja_format_text(buffer, &style, value);
    case 'c':
        return jinja_format_char(buffer, &style, value);
    default:
        if (!strchr("diuoxXeEfFgG", style.type))
            return jinja_fail(percent->run, "unsupported format character '%c'", style.type);
        return format_percent_number(buffer, &style, value);
    }
}

bool jinja_percent_format(struct jinja_run *run, const struct jinja_string *format,
                          struct jinja_value argument, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct percent percent = {.run = run, .format = format, .argument = argument};

    percent.one = (struct jinja_list){.items = &percent.argument, .num_items = 1};
    percent.values = argument.type == JINJA_TUPLE ? argument.list : &percent.one;
    while (percent.at < format->size) {
        size_t start = percent.at;
        while (percent.at < format->size && current(&percent) != '%')
            percent.at++;
        if (!jinja_buffer_add_slice(&buffer, format, start, percent.at))
            return false;
        if (percent.at == format->size)
            break;
        percent.at++;
        if (!jinja_step(run, 1) || !add_directive(&percent, &buffer))
            return false;
    }
    /* What can be indexed may also go unused. */
    bool may_go_unused = argument.type == JINJA_DICT || argument.type == JINJA_LIST ||
                         argument.type == JINJA_RANGE || argument.type == JINJA_UNDEFINED;
    bool all_used = percent.uses_names || percent.next == percent.values->num_items ||
                    (may_go_unused && percent.next == 0);
    if (!all_used)
        return jinja_fail(run, "not all arguments converted during string formatting");
    return jinja_buffer_finish(&buffer, out);
}
