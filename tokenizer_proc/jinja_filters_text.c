/*
 * jinja_filters_text.c - filters that work on, or make, a text. See jinja_functions.h.
 */
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

    if (!jinja_to_string(run, call->self, &text) || !jinja_step_text(run, text.string->size))
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
    {"capitalize", capitalize, "", 0},
    {"center", center, "width ", 0},
    {"format", format, NULL, 0},
    {"indent", indent, "width first blank ", 0},
    {"lower", lower, "", 0},
    {"pprint", pprint, "", 0},
    {"replace", replace, "old new count ", 2},
    {"string", to_text, "", 0},
    {"title", title, "", 0},
    {"tojson", tojson, "ensure_ascii indent separators sort_keys ", 0},
    {"trim", trim, "chars ", 0},
    {"truncate", truncate, "length killwords end leeway ", 0},
    {"upper", upper, "", 0},
    {"wordcount", wordcount, "", 0},
    {"wordwrap", jinja_wordwrap, "width break_long_words wrapstring break_on_hyphens ", 0},
    {0},
};
