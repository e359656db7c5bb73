/*
 * jinja_filters_text.c - filters that work on, or make, a text or a number. See jinja_functions.h.
 */
#include <math.h>
#include <stdlib.h>

#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"
#include "tokenizer_proc/jinja_unicode.h"

/* ---- case and white space ---- */

static bool upper(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_change_case(run, call, out, JINJA_CASE_UPPER);
}

static bool lower(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_change_case(run, call, out, JINJA_CASE_LOWER);
}

static bool capitalize(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return jinja_change_case(run, call, out, JINJA_CASE_CAPITALIZE);
}

static bool starts_word(uint32_t c)
{
    return jinja_char_is(c, JINJA_CHAR_SPACE) || c == '-' || c == '(' || c == '{' || c == '[' ||
           c == '<';
}

/* Unlike the method: words are cut at white space and opening brackets only. */
static bool title(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_value text = {0}, piece = {0};
    size_t end = 0;

    if (!jinja_to_string(run, call->self, &text))
        return false;
    const struct jinja_string *string = text.string;
    for (size_t start = 0; start < string->size; start = end) {
        struct jinja_call part = {0};
        end = start;
        jinja_next_char(string->data, string->size, &end);
        if (!jinja_make_slice(run, string, start, end, &part.self) ||
            !jinja_change_case(run, &part, &piece, JINJA_CASE_UPPER) ||
            !jinja_buffer_add_string(&buffer, piece.string))
            return false;
        bool in_gap = starts_word((unsigned char)string->data[start]);
        size_t rest = end;
        while (end < string->size) {
            size_t next = end;
            uint32_t c = jinja_next_char(string->data, string->size, &next);
            if (starts_word(c) != in_gap)
                break;
            end = next;
        }
        if (!jinja_make_slice(run, string, rest, end, &part.self) ||
            !jinja_change_case(run, &part, &piece, JINJA_CASE_LOWER) ||
            !jinja_buffer_add_string(&buffer, piece.string))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

static bool trim(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value text = {0};

    return jinja_to_string(run, call->self, &text) &&
           jinja_strip(run, text.string, call->bound[0], JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT, out);
}

static bool center(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    static const struct jinja_string name = {.data = "center", .size = 6};
    struct jinja_call method = {.args = call->args, .num_args = call->num_args};
    struct jinja_value width =
        call->bound[0].type == JINJA_MISSING ? jinja_int(80) : call->bound[0];

    method.args = &width;
    method.num_args = 1;
    return jinja_to_string(run, call->self, &method.self) &&
           jinja_call_function(run, jinja_find_string_method(&name), &method, out);
}

static bool replace(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value text = {0}, from = {0}, to = {0};
    int64_t count = -1;

    if (call->bound[2].type != JINJA_MISSING && call->bound[2].type != JINJA_NONE &&
        !jinja_want_int(run, call->bound[2], &count))
        return false;
    return jinja_to_string(run, call->self, &text) && jinja_to_string(run, call->bound[0], &from) &&
           jinja_to_string(run, call->bound[1], &to) &&
           jinja_replace(run, text.string, from.string, to.string, count, out);
}

static bool indent(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    const struct jinja_string *string = NULL, *margin = NULL;
    static const struct jinja_string blank = {.data = " ", .size = 1};
    struct jinja_items lines = {0};
    int64_t width = 4;
    bool first = jinja_is_true(call->bound[1]), blanks = jinja_is_true(call->bound[2]);

    if (!jinja_want_string(run, call->self, &string))
        return false;
    if (call->bound[0].type == JINJA_STRING) {
        margin = call->bound[0].string;
        width = 1;
    } else if (call->bound[0].type != JINJA_MISSING &&
               !jinja_want_int(run, call->bound[0], &width)) {
        return false;
    }
    if (!jinja_split_lines(run, string, false, &lines))
        return false;
    struct jinja_value empty = {0};
    bool ends_line = string->size && string->data[string->size - 1] == '\n';
    if ((lines.num_items == 0 || ends_line) &&
        (!jinja_make_text(run, "", &empty) || !jinja_items_add(run, &lines, empty)))
        return false;
    for (size_t i = 0; i < lines.num_items; i++) {
        const struct jinja_string *line = lines.items[i].string;
        bool wants = i == 0 ? first : blanks || line->size > 0;
        if ((i > 0 && !jinja_buffer_add(&buffer, "\n", 1, false)) ||
            (wants && !jinja_buffer_add_repeated(&buffer, margin ? margin : &blank, width)) ||
            !jinja_buffer_add_string(&buffer, line))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

static bool truncate(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    static const struct jinja_string dots = {.data = "...", .size = 3};
    struct jinja_buffer buffer = jinja_buffer_make(run);
    const struct jinja_string *string = NULL, *end = &dots;
    int64_t length = 255, leeway = 5, size = 0;

    if ((call->bound[0].type != JINJA_MISSING && !jinja_want_int(run, call->bound[0], &length)) ||
        (call->bound[2].type != JINJA_MISSING && !jinja_want_string(run, call->bound[2], &end)) ||
        (call->bound[3].type != JINJA_MISSING && call->bound[3].type != JINJA_NONE &&
         !jinja_want_int(run, call->bound[3], &leeway)))
        return false;
    int64_t end_length = (int64_t)jinja_count_chars(end->data, end->size);
    if (length < end_length || leeway < 0)
        return jinja_fail(run, "expected length >= %lld, got %lld", (long long)end_length,
                          (long long)length);
    if (!jinja_length(run, call->self, &size))
        return false;
    if (length >= size || leeway >= size - length) { /* short enough, whatever it is */
        *out = call->self;
        return true;
    }
    if (!jinja_want_string(run, call->self, &string))
        return false;
    size_t cut = jinja_char_offset(string->data, string->size, (size_t)(length - end_length));
    if (!jinja_is_true(call->bound[1])) { /* not inside of a word */
        size_t blank = cut;
        while (blank > 0 && string->data[blank - 1] != ' ')
            blank--;
        if (blank > 0)
            cut = blank - 1;
    }
    return jinja_buffer_add_slice(&buffer, string, 0, cut) &&
           jinja_buffer_add_string(&buffer, end) && jinja_buffer_finish(&buffer, out);
}

static bool wordcount(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value text = {0};
    int64_t count = 0;
    bool in_word = false;

    if (!jinja_to_string(run, call->self, &text))
        return false;
    for (size_t at = 0; at < text.string->size;) {
        bool word = jinja_char_is(jinja_next_char(text.string->data, text.string->size, &at),
                                  JINJA_CHAR_WORD);
        count += word && !in_word;
        in_word = word;
    }
    *out = jinja_int(count);
    return true;
}

/* ---- markup ---- */

static bool escape(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_escape(run, call->self, out);
}

static bool set_markup(struct jinja_run *run, struct jinja_value *value, bool is_markup)
{
    struct jinja_string *string = jinja_alloc(run, 1, sizeof(*string));

    if (!string)
        return false;
    *string = *value->string;
    string->is_markup = is_markup;
    value->string = string;
    return true;
}

static bool forceescape(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_value text = {0};

    return jinja_to_string(run, call->self, &text) && set_markup(run, &text, false) &&
           jinja_escape(run, text, out);
}

static bool safe(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_to_string(run, call->self, out) && set_markup(run, out, true);
}

/* Finds <...> or <!-- ... --> at or behind *start; false if there is none. */
static bool find_tag(const struct jinja_string *string, const char *open, const char *close,
                     size_t *start, size_t *end)
{
    struct jinja_string opening = {.data = open, .size = strlen(open)};
    struct jinja_string closing = {.data = close, .size = strlen(close)};

    *start = jinja_find(string, &opening, *start);
    if (*start == SIZE_MAX)
        return false;
    *end = jinja_find(string, &closing, *start + opening.size);
    if (*end == SIZE_MAX)
        return false;
    *end += closing.size;
    return true;
}

static bool remove_tags(struct jinja_run *run, const char *open, const char *close,
                        struct jinja_value *text)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    const struct jinja_string *string = text->string;
    size_t kept = 0, start = 0, end = 0;

    while (find_tag(string, open, close, &start, &end)) {
        if (!jinja_buffer_add_slice(&buffer, string, kept, start))
            return false;
        kept = start = end;
    }
    return jinja_buffer_add_slice(&buffer, string, kept, string->size) &&
           jinja_buffer_finish(&buffer, text);
}

/* Runs of white space become one blank; the named entities become their characters. */
static bool striptags(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    static const struct {
        const char *entity, *character;
    } entities[] = {{"&lt;", "<"},  {"&gt;", ">"},   {"&quot;", "\""},       {"&#34;", "\""},
                    {"&#39;", "'"}, {"&apos;", "'"}, {"&nbsp;", "\xC2\xA0"}, {"&amp;", "&"}};
    static const struct jinja_string blank = {.data = " ", .size = 1};
    static const struct jinja_string split_name = {.data = "split", .size = 5};
    struct jinja_call split = {0};
    struct jinja_value text = {0}, words = {0};

    if (!jinja_to_string(run, call->self, &text) || !remove_tags(run, "<!--", "-->", &text) ||
        !remove_tags(run, "<", ">", &text))
        return false;
    split.self = text;
    if (!jinja_call_function(run, jinja_find_string_method(&split_name), &split, &words) ||
        !jinja_join(run, &blank, words.list, true, &text))
        return false;
    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++) {
        struct jinja_string from = {.data = entities[i].entity, .size = strlen(entities[i].entity)};
        struct jinja_string to = {.data = entities[i].character,
                                  .size = strlen(entities[i].character),
                                  .origin = jinja_has_caller(text.string) ? JINJA_FROM_CALLER
                                                                          : JINJA_FROM_TEMPLATE};
        if (!jinja_replace(run, text.string, &from, &to, -1, &text))
            return false;
    }
    *out = text;
    return true;
}

static bool xmlattr(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_value key = {0}, value = {0};

    if (call->self.type != JINJA_DICT)
        return jinja_fail(run, "xmlattr takes a mapping, not %s", jinja_type_name(call->self));
    const struct jinja_dict *dict = call->self.dict;
    bool space = call->bound[0].type == JINJA_MISSING || jinja_is_true(call->bound[0]);
    for (size_t i = 0; i < dict->num_items; i++) {
        if (dict->values[i].type == JINJA_NONE || dict->values[i].type == JINJA_UNDEFINED)
            continue;
        if (!jinja_to_string(run, dict->keys[i], &key))
            return false;
        for (size_t at = 0; at < key.string->size; at++) {
            if (strchr(" \t\n\r\f\v/>=", key.string->data[at]))
                return jinja_fail(run, "Invalid character in attribute name");
        }
        if (!jinja_escape(run, key, &key) || !jinja_escape(run, dict->values[i], &value) ||
            ((space || buffer.size > 0) && !jinja_buffer_add_text(&buffer, " ")) ||
            !jinja_buffer_add_string(&buffer, key.string) ||
            !jinja_buffer_add_text(&buffer, "=\"") ||
            !jinja_buffer_add_string(&buffer, value.string) ||
            !jinja_buffer_add_text(&buffer, "\""))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

static bool add_url_text(struct jinja_buffer *buffer, struct jinja_value value, bool in_query)
{
    struct jinja_value text = {0};

    if (!jinja_to_string(buffer->run, value, &text))
        return false;
    for (size_t i = 0; i < text.string->size; i++) {
        char c = text.string->data[i], escaped[4];
        bool from_caller = jinja_is_caller_at(text.string, i);
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("_.-~", c)) || (c == '/' && !in_query);
        if (plain)
            snprintf(escaped, sizeof(escaped), "%c", c);
        else if (c == ' ' && in_query)
            snprintf(escaped, sizeof(escaped), "+");
        else
            snprintf(escaped, sizeof(escaped), "%%%02X", (unsigned)(unsigned char)c);
        if (!jinja_buffer_add(buffer, escaped, strlen(escaped), from_caller))
            return false;
    }
    return true;
}

static bool urlencode(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    const struct jinja_list *pairs = NULL, *pair = NULL;
    struct jinja_value value = call->self;

    if (value.type == JINJA_DICT) {
        static const struct jinja_string items_name = {.data = "items", .size = 5};
        struct jinja_call items = {.self = value};
        bool unsafe = false;
        if (!jinja_call_function(run, jinja_find_method(JINJA_DICT, &items_name, &unsafe), &items,
                                 &value))
            return false;
    } else if (value.type == JINJA_STRING || jinja_is_number(value) || value.type == JINJA_NONE) {
        return add_url_text(&buffer, value, false) && jinja_buffer_finish(&buffer, out);
    }
    if (!jinja_iterate(run, value, &pairs))
        return false;
    for (size_t i = 0; i < pairs->num_items; i++) {
        if (!jinja_iterate(run, pairs->items[i], &pair))
            return false;
        if (pair->num_items != 2)
            return jinja_fail(run, "urlencode takes pairs");
        if ((i > 0 && !jinja_buffer_add_text(&buffer, "&")) ||
            !add_url_text(&buffer, pair->items[0], true) || !jinja_buffer_add_text(&buffer, "=") ||
            !add_url_text(&buffer, pair->items[1], true))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

/* ---- numbers ---- */

static bool absolute(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value value = call->self;

    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_number(value))
        return jinja_fail(run, "bad operand type for abs(): '%s'", jinja_type_name(value));
    if (value.type == JINJA_FLOAT) {
        *out = jinja_float(fabs(value.number));
        return true;
    }
    if (jinja_compare_numbers(value, jinja_int(0)) < 0)
        return jinja_number_negate(run, value, out);
    *out = value.type == JINJA_BOOL ? jinja_int(value.boolean) : value;
    return true;
}

static bool to_int(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value value = call->self;
    int64_t base = 10;
    bool ok = false;

    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (call->bound[1].type != JINJA_MISSING && !jinja_want_int(run, call->bound[1], &base))
        return false;
    *out = call->bound[0].type == JINJA_MISSING ? jinja_int(0) : call->bound[0];
    if (value.type == JINJA_STRING) {
        double number = 0.0;
        if (base != 0 && (base < 2 || base > 36))
            base = 10;
        struct jinja_value parsed = {0};
        if (!jinja_parse_int(run, value.string->data, value.string->size, (int)base, &ok, &parsed))
            return false;
        if (ok) {
            *out = parsed;
            return true;
        }
        if (!jinja_parse_float(value.string->data, value.string->size, &number) ||
            !isfinite(number))
            return true;
        return jinja_truncate(run, number, out);
    }
    if (value.type == JINJA_FLOAT)
        return isfinite(value.number) ? jinja_truncate(run, value.number, out) : true;
    if (jinja_is_integer(value))
        *out = value.type == JINJA_BOOL ? jinja_int(value.boolean) : value;
    return true;
}

static bool to_float(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value value = call->self;
    double number = 0.0;

    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    *out = call->bound[0].type == JINJA_MISSING ? jinja_float(0.0) : call->bound[0];
    if (jinja_is_number(value))
        *out = jinja_float(jinja_to_double(value));
    else if (value.type == JINJA_STRING &&
             jinja_parse_float(value.string->data, value.string->size, &number))
        *out = jinja_float(number);
    return true;
}

/* Python's round(): to the nearest, halves to even, as the decimal digits say. */
static double round_common(double number, int64_t precision)
{
    char text[400];

    if (precision > 22 || !isfinite(number))
        return number;
    if (precision < 0) {
        double power = pow(10.0, (double)-precision);
        return isfinite(power) ? rint(number / power) * power : 0.0;
    }
    snprintf(text, sizeof(text), "%.*f", (int)precision, number);
    return strtod(text, NULL);
}

static bool round_number(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_value value = call->self;
    int64_t precision = 0;
    const struct jinja_string *method = NULL;
    static const struct jinja_string common = {.data = "common", .size = 6};

    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    method = &common;
    if (call->bound[0].type != JINJA_MISSING && !jinja_want_int(run, call->bound[0], &precision))
        return false;
    if (call->bound[1].type != JINJA_MISSING && !jinja_want_string(run, call->bound[1], &method))
        return false;
    bool up = jinja_string_is(method, "ceil"), down = jinja_string_is(method, "floor");
    if (!up && !down && !jinja_string_is(method, "common"))
        return jinja_fail(run, "method must be common, ceil or floor");
    if (!jinja_is_number(value))
        return jinja_fail(run, "type %s doesn't define __round__ method", jinja_type_name(value));
    if (!up && !down) {
        if (jinja_is_integer(value) && precision >= 0) {
            *out = value.type == JINJA_BOOL ? jinja_int(value.boolean) : value;
            return true;
        }
        double rounded = round_common(jinja_to_double(value), precision);
        if (jinja_is_integer(value))
            return jinja_truncate(run, rounded, out);
        *out = jinja_float(rounded);
        return true;
    }
    double power = pow(10.0, (double)precision);
    double scaled = jinja_to_double(value) * power;
    *out = jinja_float((up ? ceil(scaled) : floor(scaled)) / power);
    if (!isfinite(out->number))
        return jinja_fail(run, "cannot convert float infinity to integer");
    return true;
}

static bool filesizeformat(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool is_binary = jinja_is_true(call->bound[0]);
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_value value = {0};
    double base = is_binary ? 1024.0 : 1000.0, unit = base;
    char text[400];
    int i = 0;

    struct jinja_call number = {.self = call->self};
    number.bound[0] = jinja_none();
    if (!to_float(run, &number, &value))
        return false;
    if (value.type != JINJA_FLOAT)
        return jinja_fail(run, "could not convert to float");
    if (value.number == 1.0) {
        snprintf(text, sizeof(text), "1 Byte");
    } else if (value.number < base) {
        snprintf(text, sizeof(text), "%.0f Bytes", trunc(value.number));
    } else {
        for (unit = base * base; i < 7 && value.number >= unit; i++)
            unit *= base;
        snprintf(text, sizeof(text), "%.1f %s", base * value.number / unit,
                 is_binary ? binary[i] : decimal[i]);
    }
    return jinja_buffer_add_text(&buffer, text) && jinja_buffer_finish(&buffer, out);
}

/* ---- to text ---- */

static bool to_text(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_to_string(run, call->self, out);
}

static bool pprint(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);

    return jinja_print_repr(&buffer, call->self) && jinja_buffer_finish(&buffer, out);
}

static bool format(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value text = {0}, argument = {0};

    if (call->num_args && call->num_named)
        return jinja_fail(run, "can't handle positional and keyword arguments at the same time");
    if (!jinja_to_string(run, call->self, &text))
        return false;
    if (call->num_named) {
        if (!jinja_make_dict(run, &argument))
            return false;
        for (size_t i = 0; i < call->num_named; i++) {
            if (!jinja_dict_set(run, argument.dict, call->named[i].name, call->named[i].value))
                return false;
        }
        return jinja_percent_format(run, text.string, argument, out);
    }
    struct jinja_list *list = jinja_make_list(run, call->num_args);
    if (!list)
        return false;
    for (size_t i = 0; i < call->num_args; i++)
        list->items[i] = call->args[i];
    argument = (struct jinja_value){.type = JINJA_TUPLE, .list = list};
    return jinja_percent_format(run, text.string, argument, out);
}

/* The indent of tojson: NULL for none, or a text made of blanks. */
static bool read_indent(struct jinja_run *run, struct jinja_value value,
                        const struct jinja_string **out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    static const struct jinja_string blank = {.data = " ", .size = 1};
    struct jinja_value text = {0};
    int64_t width = 0;

    *out = NULL;
    if (value.type == JINJA_MISSING || value.type == JINJA_NONE)
        return true;
    if (value.type == JINJA_STRING) {
        *out = value.string;
        return true;
    }
    if (!jinja_want_int(run, value, &width) || !jinja_buffer_add_repeated(&buffer, &blank, width) ||
        !jinja_buffer_finish(&buffer, &text))
        return false;
    *out = text.string;
    return true;
}

static bool tojson(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    static const struct jinja_string comma = {.data = ",", .size = 1};
    static const struct jinja_string comma_blank = {.data = ", ", .size = 2};
    static const struct jinja_string colon_blank = {.data = ": ", .size = 2};
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_json_style style = {
        .ascii = jinja_is_true(call->bound[0]),
        .sort_keys = jinja_is_true(call->bound[3]),
        .key_separator = &colon_blank,
    };
    const struct jinja_list *pair = NULL;

    if (!read_indent(run, call->bound[1], &style.indent))
        return false;
    style.item_separator = style.indent ? &comma : &comma_blank;
    if (call->bound[2].type != JINJA_MISSING && call->bound[2].type != JINJA_NONE) {
        if (!jinja_iterate(run, call->bound[2], &pair))
            return false;
        if (pair->num_items != 2)
            return jinja_fail(run, "separators must be a pair");
        if (!jinja_want_string(run, pair->items[0], &style.item_separator) ||
            !jinja_want_string(run, pair->items[1], &style.key_separator))
            return false;
    }
    return jinja_print_json(&buffer, call->self, &style, 0) && jinja_buffer_finish(&buffer, out);
}

const struct jinja_function jinja_text_filters[] = {
    {"abs", absolute, "", 0},
    {"capitalize", capitalize, "", 0},
    {"center", center, "width ", 0},
    {"e", escape, "", 0},
    {"escape", escape, "", 0},
    {"filesizeformat", filesizeformat, "binary ", 0},
    {"float", to_float, "default ", 0},
    {"forceescape", forceescape, "", 0},
    {"format", format, NULL, 0},
    {"indent", indent, "width first blank ", 0},
    {"int", to_int, "default base ", 0},
    {"lower", lower, "", 0},
    {"pprint", pprint, "", 0},
    {"replace", replace, "old new count ", 2},
    {"round", round_number, "precision method ", 0},
    {"safe", safe, "", 0},
    {"string", to_text, "", 0},
    {"striptags", striptags, "", 0},
    {"title", title, "", 0},
    {"tojson", tojson, "ensure_ascii indent separators sort_keys ", 0},
    {"trim", trim, "chars ", 0},
    {"truncate", truncate, "length killwords end leeway ", 0},
    {"upper", upper, "", 0},
    {"urlencode", urlencode, "", 0},
    {"wordcount", wordcount, "", 0},
    {"wordwrap", jinja_wordwrap, "width break_long_words wrapstring break_on_hyphens ", 0},
    {"xmlattr", xmlattr, "autospace ", 0},
    {0},
};
