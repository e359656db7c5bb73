/*
 * jinja_format_brace.c - str.format(). See jinja_functions.h.
 */
#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_format.h"
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static bool read_spec(struct jinja_run *run, const struct jinja_string *spec,
                      struct jinja_style *style, struct jinja_value *fill)
{
    size_t at = 0, first = 0;

    if (spec->size)
        jinja_next_char(spec->data, spec->size, &first);
    if (first < spec->size && strchr("<>=^", spec->data[first]) && spec->data[first]) {
        if (!jinja_make_slice(run, spec, 0, first, fill))
            return false;
        style->fill = fill->string;
        style->align = spec->data[first];
        at = first + 1;
    } else if (spec->size && spec->data[0] && strchr("<>=^", spec->data[0])) {
        style->align = spec->data[at++];
    }
    if (at < spec->size && spec->data[at] && strchr("+- ", spec->data[at]))
        style->sign = spec->data[at++];
    if (at < spec->size && spec->data[at] == '#') {
        style->alternate = true;
        at++;
    }
    if (at < spec->size && spec->data[at] == '0') {
        at++;
        if (!style->align) {
            style->fill = &jinja_zero_fill;
            style->align = '=';
        }
    }
    for (; at < spec->size && spec->data[at] >= '0' && spec->data[at] <= '9'; at++) {
        style->width = style->width * 10 + (spec->data[at] - '0');
        if (style->width > FORMAT_MAX_WIDTH)
            return jinja_fail_space(run, "a format is too wide");
    }
    if (at < spec->size && (spec->data[at] == ',' || spec->data[at] == '_')) {
        if (spec->data[at] == '_')
            return jinja_fail(run, "format: groups with _ are not supported");
        style->grouping = true;
        at++;
    }
    if (at < spec->size && spec->data[at] == '.') {
        style->precision = 0;
        for (at++; at < spec->size && spec->data[at] >= '0' && spec->data[at] <= '9'; at++) {
            style->precision = style->precision * 10 + (spec->data[at] - '0');
            if (style->precision > FORMAT_MAX_WIDTH)
                return jinja_fail_space(run, "a format is too wide");
        }
    }
    if (at < spec->size)
        style->type = spec->data[at++];
    return at == spec->size || jinja_fail(run, "Invalid format specifier");
}

static bool format_field(struct jinja_buffer *buffer, struct jinja_value value,
                         const struct jinja_string *spec)
{
    struct jinja_style style = {.fill = &jinja_blank_fill, .sign = '-', .precision = -1};
    struct jinja_value fill = {0};
    struct jinja_run *run = buffer->run;

    if (spec->size == 0)
        return jinja_print(buffer, value);
    if (!read_spec(run, spec, &style, &fill))
        return false;
    bool number = jinja_is_number(value);
    if (!style.align)
        style.align = number ? '>' : '<';
    if (style.type == 's' || (!number && !style.type)) {
        if (number || style.align == '=')
            return jinja_fail(run, "Unknown format code 's' for object of type '%s'",
                              jinja_type_name(value));
        if (value.type != JINJA_STRING && value.type != JINJA_UNDEFINED)
            return jinja_fail(run, "unsupported format string passed to %s.__format__",
                              jinja_type_name(value));
        return jinja_format_text(buffer, &style, value);
    }
    if (!number || !strchr("bcdoxXneEfFgG%", style.type))
        return jinja_fail(run, "Unknown format code '%c' for object of type '%s'", style.type,
                          jinja_type_name(value));
    bool as_float = value.type == JINJA_FLOAT || (style.type && strchr("eEfFgG%", style.type));
    if (as_float && style.type && strchr("bcdoxX", style.type))
        return jinja_fail(run, "Unknown format code '%c' for object of type 'float'", style.type);
    if (as_float && style.precision > FORMAT_MAX_PRECISION)
        return jinja_fail_space(run, "a format is too wide");
    if (!as_float && style.precision >= 0)
        return jinja_fail(run, "Precision not allowed in integer format specifier");
    if (style.type == 'c')
        return jinja_format_char(buffer, &style, value);
    return as_float ? jinja_format_float(buffer, &style, jinja_to_double(value))
                    : jinja_format_int(buffer, &style, value);
}

struct braces {
    struct jinja_run *run;
    const struct jinja_string *format;
    const struct jinja_call *call;
    size_t next;               /* the number of the next {} */
    bool is_auto, is_numbered; /* which of the two has been seen */
};

/* The argument that a field starts with: nothing, a number or a name. */
static bool find_argument(struct braces *braces, size_t start, size_t end, struct jinja_value *out)
{
    const char *name = braces->format->data + start;
    size_t size = end - start, index = 0;
    bool digits = size > 0;

    for (size_t i = 0; i < size; i++) {
        digits = digits && name[i] >= '0' && name[i] <= '9';
        if (digits && index < 1000000)
            index = index * 10 + (size_t)(name[i] - '0');
    }
    if (size == 0 || digits) {
        braces->is_auto = braces->is_auto || size == 0;
        braces->is_numbered = braces->is_numbered || size > 0;
        if (braces->is_auto && braces->is_numbered)
            return jinja_fail(braces->run, "cannot switch from manual field specification to "
                                           "automatic field numbering");
        if (size == 0)
            index = braces->next++;
        if (index >= braces->call->num_args)
            return jinja_fail(
                braces->run, "Replacement index %zu out of range for positional args tuple", index);
        *out = braces->call->args[index];
        return true;
    }
    for (size_t i = 0; i < braces->call->num_named; i++) {
        const struct jinja_string *known = braces->call->named[i].name.string;
        if (known->size == size && memcmp(known->data, name, size) == 0) {
            *out = braces->call->named[i].value;
            return true;
        }
    }
    return jinja_fail(braces->run, "no argument '%.*s' for the format", size > 40 ? 40 : (int)size,
                      name);
}

/* What follows the name: .attribute and [key], up to end. */
static bool follow_path(struct braces *braces, size_t at, size_t end, struct jinja_value *value)
{
    const char *data = braces->format->data;

    while (at < end) {
        bool is_item = data[at] == '[';
        size_t start = ++at;
        struct jinja_value key = {0};
        while (at < end && (is_item ? data[at] != ']' : data[at] != '.' && data[at] != '['))
            at++;
        if (!jinja_make_slice(braces->run, braces->format, start, at, &key))
            return false;
        if (is_item) {
            bool ok = false;
            struct jinja_value index = {0};
            if (!jinja_parse_int(braces->run, data + start, at - start, 10, &ok, &index) ||
                !jinja_get_item(braces->run, *value, ok ? index : key, value))
                return false;
            at++;
        } else if (!jinja_get_attribute(braces->run, *value, key, value)) {
            return false;
        }
        if (value->type == JINJA_UNDEFINED)
            return jinja_fail_undefined(braces->run, *value);
    }
    return true;
}

/* A field from behind its { to before its }. */
static bool add_field(struct braces *braces, struct jinja_buffer *buffer, size_t start, size_t end)
{
    const char *data = braces->format->data;
    size_t name_end = start, path_end = 0;
    struct jinja_value value = {0}, spec = {0};
    bool in_brackets = false;
    char conversion = '\0';

    while (name_end < end && !strchr(".[!:", data[name_end]))
        name_end++;
    for (path_end = name_end; path_end < end; path_end++) {
        if (data[path_end] == '[' || data[path_end] == ']')
            in_brackets = data[path_end] == '[';
        if (!in_brackets && (data[path_end] == '!' || data[path_end] == ':'))
            break;
    }
    if (!find_argument(braces, start, name_end, &value) ||
        !follow_path(braces, name_end, path_end, &value))
        return false;
    if (path_end < end && data[path_end] == '!') {
        if (path_end + 1 == end || (path_end + 2 < end && data[path_end + 2] != ':'))
            return jinja_fail(braces->run, "expected ':' after conversion specifier");
        conversion = data[path_end + 1];
        path_end += 2;
    }
    if (conversion == 'r' || conversion == 'a') {
        if (!jinja_format_repr(braces->run, value, &value))
            return false;
    } else if (conversion == 's') {
        if (!jinja_to_string(braces->run, value, &value))
            return false;
    } else if (conversion) {
        return jinja_fail(braces->run, "Unknown conversion specifier");
    }
    size_t spec_start = path_end < end ? path_end + 1 : end;
    if (memchr(data + spec_start, '{', end - spec_start))
        return jinja_fail(braces->run, "format: fields inside of a field are not supported");
    return jinja_make_slice(braces->run, braces->format, spec_start, end, &spec) &&
           format_field(buffer, value, spec.string);
}

bool jinja_brace_format(struct jinja_run *run, const struct jinja_string *format,
                        const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct braces braces = {.run = run, .format = format, .call = call};
    const char *data = format->data;

    for (size_t at = 0; at < format->size;) {
        size_t start = at;
        while (at < format->size && data[at] != '{' && data[at] != '}')
            at++;
        if (!jinja_buffer_add_slice(&buffer, format, start, at))
            return false;
        if (at == format->size)
            break;
        if (at + 1 < format->size && data[at + 1] == data[at]) {
            if (!jinja_buffer_add_slice(&buffer, format, at, at + 1))
                return false;
            at += 2;
            continue;
        }
        if (data[at] == '}')
            return jinja_fail(run, "Single '}' encountered in format string");
        size_t end = at + 1;
        for (int depth = 1; end < format->size; end++) {
            depth += (data[end] == '{') - (data[end] == '}');
            if (depth == 0)
                break;
        }
        if (end == format->size)
            return jinja_fail(run, "expected '}' before end of string");
        if (!jinja_step(run, 1) || !add_field(&braces, &buffer, at + 1, end))
            return false;
        at = end + 1;
    }
    return jinja_buffer_finish(&buffer, out);
}
