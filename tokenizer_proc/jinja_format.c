/*
 * jinja_format.c - `format % arguments` and str.format(). See jinja_functions.h.
 *
 * Text of the format keeps its origin; so does text that is put in; padding is the format's.
 */
#include <math.h>

#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"

enum { MAX_WIDTH = 1000000, MAX_PRECISION = 300, NUMBER_SIZE = 700 };

/* How one value is to look. */
struct style {
    const struct jinja_string *fill; /* one character */
    char align;                      /* < > ^ = */
    char sign;                       /* + - or blank; '-' shows the minus alone */
    bool alternate, grouping;        /* # and , */
    int64_t width, precision;        /* precision -1: not given */
    char type;                       /* of the presentation; '\0': the value's own */
};

static const struct jinja_string blank_fill = {.data = " ", .size = 1};
static const struct jinja_string zero_fill = {.data = "0", .size = 1};

/* prefix is the sign and such, which '=' puts before the fill. */
static bool add_padded(struct jinja_buffer *buffer, const struct style *style, const char *prefix,
                       const struct jinja_string *text)
{
    int64_t length = (int64_t)(strlen(prefix) + jinja_count_chars(text->data, text->size));
    int64_t missing = style->width > length ? style->width - length : 0;
    int64_t left = style->align == '>' ? missing : style->align == '^' ? missing / 2 : 0;
    int64_t inner = style->align == '=' ? missing : 0;

    return jinja_buffer_add_repeated(buffer, style->fill, left) &&
           jinja_buffer_add_text(buffer, prefix) &&
           jinja_buffer_add_repeated(buffer, style->fill, inner) &&
           jinja_buffer_add_string(buffer, text) &&
           jinja_buffer_add_repeated(buffer, style->fill, missing - left - inner);
}

static const char *sign_text(const struct style *style, bool negative)
{
    if (negative)
        return "-";
    return style->sign == '+' ? "+" : style->sign == ' ' ? " " : "";
}

/* Commas between groups of three, in the digits before a point. */
static void add_commas(char *text, size_t capacity)
{
    size_t digits = strspn(text, "0123456789"), size = strlen(text);

    for (size_t i = digits; i > 3; i -= 3) {
        if (size + 2 > capacity)
            return;
        memmove(text + i - 2, text + i - 3, size - (i - 3) + 1);
        text[i - 3] = ',';
        size++;
    }
}

static bool add_number(struct jinja_buffer *buffer, const struct style *style, bool negative,
                       const char *base_prefix, const char *text)
{
    char prefix[8];
    struct jinja_string digits = {.data = text, .size = strlen(text)};

    snprintf(prefix, sizeof(prefix), "%s%s", sign_text(style, negative),
             style->alternate ? base_prefix : "");
    return add_padded(buffer, style, prefix, &digits);
}

static bool format_based(struct jinja_buffer *buffer, const struct style *style,
                         struct jinja_value value)
{
    static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    char text[72];
    size_t at = sizeof(text) - 1;
    unsigned base = style->type == 'b' ? 2 : style->type == 'o' ? 8 : 16;
    const char *prefix = style->type == 'b'   ? "0b"
                         : style->type == 'o' ? "0o"
                         : style->type == 'X' ? "0X"
                                              : "0x";

    if (value.type == JINJA_BIGINT)
        return jinja_fail(buffer->run, "an integer is too large for this format");
    int64_t integer = jinja_clamp_int(value);
    uint64_t rest = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    text[at] = '\0';
    do {
        text[--at] = (style->type == 'X' ? upper : lower)[rest % base];
        rest /= base;
    } while (rest);
    return add_number(buffer, style, integer < 0, prefix, text + at);
}

static bool format_int(struct jinja_buffer *buffer, const struct style *style,
                       struct jinja_value value)
{
    size_t capacity = JINJA_BIGINT_TEXT_SIZE * 2;
    char *text = jinja_alloc(buffer->run, capacity, 1);

    if (!text)
        return false;
    if (value.type == JINJA_BOOL)
        value = jinja_int(value.boolean);
    if (strchr("boxX", style->type) && style->type)
        return format_based(buffer, style, value);
    jinja_print_int(value, text);
    bool negative = text[0] == '-';
    if (style->grouping)
        add_commas(text + negative, capacity - 1);
    return add_number(buffer, style, negative, "", text + negative);
}

static bool format_float(struct jinja_buffer *buffer, const struct style *style, double number)
{
    char text[NUMBER_SIZE * 2];
    int precision = style->precision < 0 ? 6 : (int)style->precision;
    bool negative = signbit(number) && !isnan(number);

    number = fabs(number);
    switch (style->type) {
    case 'e':
        snprintf(text, sizeof(text), "%.*e", precision, number);
        break;
    case 'E':
        snprintf(text, sizeof(text), "%.*E", precision, number);
        break;
    case 'f':
    case 'F':
        snprintf(text, sizeof(text), "%.*f", precision, number);
        break;
    case '%':
        snprintf(text, sizeof(text), "%.*f%%", precision, number * 100.0);
        break;
    case 'G':
        snprintf(text, sizeof(text), "%.*G", precision ? precision : 1, number);
        break;
    case 'g':
    case 'n':
        snprintf(text, sizeof(text), "%.*g", precision ? precision : 1, number);
        break;
    default:
        if (style->precision < 0)
            jinja_print_float(number, text);
        else
            snprintf(text, sizeof(text), "%.*g", precision ? precision : 1, number);
        if (isfinite(number) && !strpbrk(text, ".e"))
            strcat(text, ".0");
        break;
    }
    if (style->grouping)
        add_commas(text, sizeof(text) - 1);
    return add_number(buffer, style, negative, "", text);
}

static bool format_text(struct jinja_buffer *buffer, const struct style *style,
                        struct jinja_value value)
{
    struct jinja_value text = {0};

    if (!jinja_to_string(buffer->run, value, &text))
        return false;
    if (style->precision >= 0) {
        size_t end =
            jinja_char_offset(text.string->data, text.string->size, (size_t)style->precision);
        if (!jinja_make_slice(buffer->run, text.string, 0, end, &text))
            return false;
    }
    return add_padded(buffer, style, "", text.string);
}

static bool repr_value(struct jinja_run *run, struct jinja_value value, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);

    return jinja_print_repr(&buffer, value) && jinja_buffer_finish(&buffer, out);
}

static bool format_char(struct jinja_buffer *buffer, const struct style *style,
                        struct jinja_value value)
{
    char data[4];
    struct jinja_string text = {.data = data};
    int64_t code = jinja_is_integer(value) ? jinja_clamp_int(value) : -1;

    if (value.type == JINJA_STRING &&
        jinja_count_chars(value.string->data, value.string->size) == 1)
        return format_text(buffer, style, value);
    if (code < 0 || code > 0x10FFFF)
        return jinja_fail(buffer->run, "%%c requires int or char");
    text.size = jinja_put_char(data, (uint32_t)code);
    return add_padded(buffer, style, "", &text);
}

/* ---- percent ---- */

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

static bool read_flags(struct percent *percent, struct style *style)
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
    if (!read_number(percent, MAX_WIDTH, &style->width))
        return false;
    if (style->width < 0) {
        style->width = -style->width;
        style->align = '<';
    }
    if (current(percent) == '.') {
        percent->at++;
        if (!read_number(percent, MAX_PRECISION, &style->precision))
            return false;
        if (style->precision < 0)
            style->precision = 0;
    }
    while (current(percent) == 'l' || current(percent) == 'h' || current(percent) == 'L')
        percent->at++;
    style->type = current(percent);
    percent->at++;
    if (zero && style->align != '<' && style->type && strchr("diuoxXeEfFgG", style->type)) {
        style->fill = &zero_fill;
        style->align = '=';
    }
    return true;
}

static bool format_percent_number(struct jinja_buffer *buffer, struct style *style,
                                  struct jinja_value value)
{
    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(buffer->run, value);
    if (!jinja_is_number(value))
        return jinja_fail(buffer->run, "%%%c format: a real number is required, not %s",
                          style->type, jinja_type_name(value));
    if (strchr("eEfFgG", style->type))
        return format_float(buffer, style, jinja_to_double(value));
    if (value.type == JINJA_FLOAT && strchr("oxX", style->type))
        return jinja_fail(buffer->run, "%%%c format: an integer is required, not float",
                          style->type);
    if (value.type == JINJA_FLOAT && !jinja_truncate(buffer->run, value.number, &value))
        return false;
    if (strchr("diu", style->type))
        style->type = 'd';
    return format_int(buffer, style, value);
}

/* Behind the percent sign. */
static bool add_directive(struct percent *percent, struct jinja_buffer *buffer)
{
    struct style style = {.fill = &blank_fill, .align = '>', .sign = '-', .precision = -1};
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
        return repr_value(percent->run, value, &value) && format_text(buffer, &style, value);
    case 's':
        return format_text(buffer, &style, value);
    case 'c':
        return format_char(buffer, &style, value);
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
    bool all_used = percent.uses_names || percent.next == percent.values->num_items ||
                    (argument.type == JINJA_DICT && percent.next == 0) ||
                    (argument.type == JINJA_LIST && percent.next == 0) ||
                    (argument.type == JINJA_RANGE && percent.next == 0);
    if (!all_used)
        return jinja_fail(run, "not all arguments converted during string formatting");
    return jinja_buffer_finish(&buffer, out);
}

/* ---- braces ---- */

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static bool read_spec(struct jinja_run *run, const struct jinja_string *spec, struct style *style,
                      struct jinja_value *fill)
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
            style->fill = &zero_fill;
            style->align = '=';
        }
    }
    for (; at < spec->size && spec->data[at] >= '0' && spec->data[at] <= '9'; at++) {
        style->width = style->width * 10 + (spec->data[at] - '0');
        if (style->width > MAX_WIDTH)
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
            if (style->precision > MAX_WIDTH)
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
    struct style style = {.fill = &blank_fill, .sign = '-', .precision = -1};
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
        return format_text(buffer, &style, value);
    }
    if (!number || !strchr("bcdoxXneEfFgG%", style.type))
        return jinja_fail(run, "Unknown format code '%c' for object of type '%s'", style.type,
                          jinja_type_name(value));
    bool as_float = value.type == JINJA_FLOAT || (style.type && strchr("eEfFgG%", style.type));
    if (as_float && style.type && strchr("bcdoxX", style.type))
        return jinja_fail(run, "Unknown format code '%c' for object of type 'float'", style.type);
    if (as_float && style.precision > MAX_PRECISION)
        return jinja_fail_space(run, "a format is too wide");
    if (!as_float && style.precision >= 0)
        return jinja_fail(run, "Precision not allowed in integer format specifier");
    if (style.type == 'c')
        return format_char(buffer, &style, value);
    return as_float ? format_float(buffer, &style, jinja_to_double(value))
                    : format_int(buffer, &style, value);
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
        if (!repr_value(braces->run, value, &value))
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
