/*
 * jinja_print.c - str() and repr(). See jinja_print.h.
 */
#include "tokenizer_proc/jinja_print.h"

#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_unicode.h"

static bool print_number(struct jinja_buffer *buffer, struct jinja_value value)
{
    char text[32];
    size_t size = value.type == JINJA_INT ? jinja_print_int(value, text)
                                          : jinja_print_float(value.number, text);

    return jinja_buffer_add(buffer, text, size, false);
}

static bool print_bigint(struct jinja_buffer *buffer, struct jinja_value value)
{
    char *text = jinja_alloc(buffer->run, JINJA_BIGINT_TEXT_SIZE, 1);
    size_t num_limbs = (size_t)value.big->num_limbs;

    return text && jinja_step(buffer->run, num_limbs * num_limbs / 16) &&
           jinja_buffer_add(buffer, text, jinja_print_int(value, text), false);
}

static bool print_range(struct jinja_buffer *buffer, const struct jinja_range *range)
{
    char text[96];

    if (range->step == 1)
        snprintf(text, sizeof(text), "range(%lld, %lld)", (long long)range->start,
                 (long long)range->stop);
    else
        snprintf(text, sizeof(text), "range(%lld, %lld, %lld)", (long long)range->start,
                 (long long)range->stop, (long long)range->step);
    return jinja_buffer_add_text(buffer, text);
}

static bool print_items(struct jinja_buffer *buffer, const struct jinja_list *list,
                        const char *open, const char *close)
{
    if (!jinja_enter(buffer->run) || !jinja_buffer_add_text(buffer, open))
        return false;
    for (size_t i = 0; i < list->num_items; i++) {
        if ((i > 0 && !jinja_buffer_add(buffer, ", ", 2, false)) ||
            !jinja_print_repr(buffer, list->items[i]))
            return false;
    }
    jinja_leave(buffer->run);
    return jinja_buffer_add_text(buffer, close);
}

static bool print_dict(struct jinja_buffer *buffer, const struct jinja_dict *dict, const char *open,
                       const char *close)
{
    if (!jinja_enter(buffer->run) || !jinja_buffer_add_text(buffer, open))
        return false;
    for (size_t i = 0; i < dict->num_items; i++) {
        if ((i > 0 && !jinja_buffer_add(buffer, ", ", 2, false)) ||
            !jinja_print_repr(buffer, dict->keys[i]) || !jinja_buffer_add(buffer, ": ", 2, false) ||
            !jinja_print_repr(buffer, dict->values[i]))
            return false;
    }
    jinja_leave(buffer->run);
    return jinja_buffer_add_text(buffer, close);
}

/* What a character looks like inside of quotes. */
static bool print_quoted_char(struct jinja_buffer *buffer, uint32_t c, char quote, bool from_caller)
{
    char text[16];

    if (c == '\n' || c == '\r' || c == '\t')
        snprintf(text, sizeof(text), "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (c == (uint32_t)quote || c == '\\')
        snprintf(text, sizeof(text), "\\%c", (char)c);
    else if (jinja_char_is(c, JINJA_CHAR_PRINTABLE))
        return jinja_buffer_add_char(buffer, c, from_caller);
    else if (c < 0x100)
        snprintf(text, sizeof(text), "\\x%02x", c);
    else if (c < 0x10000)
        snprintf(text, sizeof(text), "\\u%04x", c);
    else
        snprintf(text, sizeof(text), "\\U%08x", c);
    return jinja_buffer_add(buffer, text, strlen(text), from_caller);
}

static bool print_quoted(struct jinja_buffer *buffer, const struct jinja_string *string)
{
    bool has_single = string->size && memchr(string->data, '\'', string->size);
    bool has_double = string->size && memchr(string->data, '"', string->size);
    char quote = has_single && !has_double ? '"' : '\'';

    if ((string->is_markup && !jinja_buffer_add_text(buffer, "Markup(")) ||
        !jinja_buffer_add(buffer, &quote, 1, false))
        return false;
    for (size_t offset = 0; offset < string->size;) {
        bool from_caller = jinja_is_caller_at(string, offset);
        uint32_t c = jinja_next_char(string->data, string->size, &offset);
        if (!print_quoted_char(buffer, c, quote, from_caller))
            return false;
    }
    return jinja_buffer_add(buffer, &quote, 1, false) &&
           (!string->is_markup || jinja_buffer_add_text(buffer, ")"));
}

static bool print_macro(struct jinja_buffer *buffer, const struct jinja_macro *macro)
{
    return jinja_buffer_add_text(buffer, "<Macro ") &&
           print_quoted(buffer, macro->node->value.string) && jinja_buffer_add_text(buffer, ">");
}

static bool print_view(struct jinja_buffer *buffer, const struct jinja_view *view)
{
    return jinja_buffer_add_text(buffer, view->name) &&
           print_items(buffer, &view->list, "([", "])");
}

static bool print_loop(struct jinja_buffer *buffer, struct jinja_loop *loop)
{
    char text[64];

    if (!jinja_loop_look_ahead(buffer->run, loop, SIZE_MAX))
        return false;
    snprintf(text, sizeof(text), "<LoopContext %zu/%zu>", loop->index0 + 1, loop->items.num_items);
    return jinja_buffer_add_text(buffer, text);
}

bool jinja_print_repr(struct jinja_buffer *buffer, struct jinja_value value)
{
    switch (value.type) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
        return jinja_buffer_add_text(buffer, "Undefined");
    case JINJA_NONE:
        return jinja_buffer_add(buffer, "None", 4, false);
    case JINJA_BOOL:
        return jinja_buffer_add_text(buffer, value.boolean ? "True" : "False");
    case JINJA_INT:
    case JINJA_FLOAT:
        return print_number(buffer, value);
    case JINJA_BIGINT:
        return print_bigint(buffer, value);
    case JINJA_STRING:
        return print_quoted(buffer, value.string);
    case JINJA_LIST:
        return print_items(buffer, value.list, "[", "]");
    case JINJA_TUPLE:
        return print_items(buffer, value.list, "(", value.list->num_items == 1 ? ",)" : ")");
    case JINJA_VIEW:
        return print_view(buffer, value.view);
    case JINJA_RANGE:
        return print_range(buffer, value.range);
    case JINJA_DICT:
        return print_dict(buffer, value.dict, "{", "}");
    case JINJA_NAMESPACE:
        return print_dict(buffer, value.dict, "<Namespace {", "}>");
    case JINJA_MACRO:
        return print_macro(buffer, value.macro);
    case JINJA_LOOP:
        return print_loop(buffer, value.loop);
    default:
        return jinja_buffer_add_text(buffer, "<") &&
               jinja_buffer_add_text(buffer, jinja_type_name(value)) &&
               jinja_buffer_add_text(buffer, " object>");
    }
}

bool jinja_print(struct jinja_buffer *buffer, struct jinja_value value)
{
    if (value.type == JINJA_STRING)
        return jinja_buffer_add_string(buffer, value.string);
    if (value.type == JINJA_UNDEFINED)
        return true;
    return jinja_print_repr(buffer, value);
}

bool jinja_to_string(struct jinja_run *run, struct jinja_value value, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);

    if (value.type == JINJA_STRING) {
        *out = value;
        return true;
    }
    return jinja_print(&buffer, value) && jinja_buffer_finish(&buffer, out);
}

bool jinja_escape(struct jinja_run *run, struct jinja_value value, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);

    if (!jinja_to_string(run, value, &value))
        return false;
    const struct jinja_string *string = value.string;
    if (string->is_markup) {
        *out = value;
        return true;
    }
    for (size_t i = 0; i < string->size; i++) {
        const char *entity = NULL;
        switch (string->data[i]) {
        case '&':
            entity = "&amp;";
            break;
        case '<':
            entity = "&lt;";
            break;
        case '>':
            entity = "&gt;";
            break;
        case '"':
            entity = "&#34;";
            break;
        case '\'':
            entity = "&#39;";
            break;
        default:
            break;
        }
        bool from_caller = jinja_is_caller_at(string, i);
        if (!jinja_buffer_add(&buffer, entity ? entity : &string->data[i],
                              entity ? strlen(entity) : 1, from_caller))
            return false;
    }
    if (!jinja_buffer_finish(&buffer, out))
        return false;
    struct jinja_string *markup = jinja_alloc(run, 1, sizeof(*markup));
    if (!markup)
        return false;
    *markup = *out->string;
    markup->is_markup = true;
    out->string = markup;
    return true;
}
