/*
 * jinja_print_json.c - the tojson filter: Python's json.dumps. See jinja_print.h.
 *
 * What is inside of a caller's string stays the caller's, escapes too; the punctuation around it
 * is the template's.
 */
#include <math.h>

#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"

static bool print_char(struct jinja_buffer *buffer, uint32_t c, bool ascii, bool from_caller)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    char text[16];
    const char *known = c && c < 0x80 ? strchr(from, (int)c) : NULL;

    if (known)
        snprintf(text, sizeof(text), "\\%c", to[known - from]);
    else if (c >= 0x20 && c < 0x7F)
        return jinja_buffer_add_char(buffer, c, from_caller);
    else if (c < 0x20 || (ascii && c < 0x10000))
        snprintf(text, sizeof(text), "\\u%04x", c);
    else if (ascii)
        snprintf(text, sizeof(text), "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                 0xDC00 + ((c - 0x10000) & 0x3FF));
    else
        return jinja_buffer_add_char(buffer, c, from_caller);
    return jinja_buffer_add(buffer, text, strlen(text), from_caller);
}

static bool is_plain(unsigned char c, bool ascii)
{
    return c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !ascii);
}

static bool print_string(struct jinja_buffer *buffer, const struct jinja_string *string, bool ascii)
{
    if (!jinja_buffer_add(buffer, "\"", 1, false))
        return false;
    for (size_t offset = 0; offset < string->size;) {
        size_t end = offset;
        while (end < string->size && is_plain((unsigned char)string->data[end], ascii))
            end++;
        if (end > offset && !jinja_buffer_add_slice(buffer, string, offset, end))
            return false;
        offset = end;
        if (offset == string->size)
            break;
        bool from_caller = jinja_is_caller_at(string, offset);
        uint32_t c = jinja_next_char(string->data, string->size, &offset);
        if (!print_char(buffer, c, ascii, from_caller))
            return false;
    }
    return jinja_buffer_add(buffer, "\"", 1, false);
}

static bool print_scalar(struct jinja_buffer *buffer, struct jinja_value value)
{
    switch (value.type) {
    case JINJA_NONE:
        return jinja_buffer_add_text(buffer, "null");
    case JINJA_BOOL:
        return jinja_buffer_add_text(buffer, value.boolean ? "true" : "false");
    case JINJA_FLOAT:
        if (isnan(value.number))
            return jinja_buffer_add_text(buffer, "NaN");
        if (isinf(value.number))
            return jinja_buffer_add_text(buffer, value.number < 0 ? "-Infinity" : "Infinity");
        return jinja_print_repr(buffer, value);
    case JINJA_INT:
    case JINJA_BIGINT:
        return jinja_print_repr(buffer, value);
    default:
        return jinja_fail(buffer->run, "Object of type %s is not JSON serializable",
                          jinja_type_name(value));
    }
}

static bool start_line(struct jinja_buffer *buffer, const struct jinja_json_style *style, int level)
{
    if (!style->indent)
        return true;
    return jinja_buffer_add(buffer, "\n", 1, false) &&
           jinja_buffer_add_repeated(buffer, style->indent, level);
}

static bool print_list(struct jinja_buffer *buffer, const struct jinja_list *list,
                       const struct jinja_json_style *style, int level)
{
    if (list->num_items == 0)
        return jinja_buffer_add(buffer, "[]", 2, false);
    if (!jinja_buffer_add(buffer, "[", 1, false))
        return false;
    for (size_t i = 0; i < list->num_items; i++) {
        if ((i > 0 && !jinja_buffer_add_string(buffer, style->item_separator)) ||
            !start_line(buffer, style, level + 1) ||
            !jinja_print_json(buffer, list->items[i], style, level + 1))
            return false;
    }
    return start_line(buffer, style, level) && jinja_buffer_add(buffer, "]", 1, false);
}

static bool print_key(struct jinja_buffer *buffer, struct jinja_value key, bool ascii)
{
    if (key.type == JINJA_STRING)
        return print_string(buffer, key.string, ascii);
    if (!jinja_is_number(key) && key.type != JINJA_NONE)
        return jinja_fail(buffer->run, "keys must be str, int, float, bool or None, not %s",
                          jinja_type_name(key));
    return jinja_buffer_add(buffer, "\"", 1, false) && print_scalar(buffer, key) &&
           jinja_buffer_add(buffer, "\"", 1, false);
}

static bool sorted_dict(struct jinja_run *run, const struct jinja_dict *dict,
                        struct jinja_dict *out)
{
    out->num_items = dict->num_items;
    out->keys = jinja_alloc(run, dict->num_items, sizeof(*out->keys));
    out->values = jinja_alloc(run, dict->num_items, sizeof(*out->values));
    if (!out->keys || !out->values)
        return false;
    memcpy(out->keys, dict->keys, dict->num_items * sizeof(*out->keys));
    memcpy(out->values, dict->values, dict->num_items * sizeof(*out->values));
    return jinja_sort(run, out->values, out->keys, out->num_items, false);
}

static bool print_dict(struct jinja_buffer *buffer, const struct jinja_dict *dict,
                       const struct jinja_json_style *style, int level)
{
    struct jinja_dict sorted = {0};

    if (dict->num_items == 0)
        return jinja_buffer_add(buffer, "{}", 2, false);
    if (style->sort_keys) {
        if (!sorted_dict(buffer->run, dict, &sorted))
            return false;
        dict = &sorted;
    }
    if (!jinja_buffer_add(buffer, "{", 1, false))
        return false;
    for (size_t i = 0; i < dict->num_items; i++) {
        if ((i > 0 && !jinja_buffer_add_string(buffer, style->item_separator)) ||
            !start_line(buffer, style, level + 1) ||
            !print_key(buffer, dict->keys[i], style->ascii) ||
            !jinja_buffer_add_string(buffer, style->key_separator) ||
            !jinja_print_json(buffer, dict->values[i], style, level + 1))
            return false;
    }
    return start_line(buffer, style, level) && jinja_buffer_add(buffer, "}", 1, false);
}

bool jinja_print_json(struct jinja_buffer *buffer, struct jinja_value value,
                      const struct jinja_json_style *style, int level)
{
    bool ok = false;

    switch (value.type) {
    case JINJA_STRING:
        return print_string(buffer, value.string, style->ascii);
    case JINJA_LIST:
    case JINJA_TUPLE:
        if (!jinja_enter(buffer->run))
            return false;
        ok = print_list(buffer, value.list, style, level);
        break;
    case JINJA_DICT:
        if (!jinja_enter(buffer->run))
            return false;
        ok = print_dict(buffer, value.dict, style, level);
        break;
    default:
        return print_scalar(buffer, value);
    }
    jinja_leave(buffer->run);
    return ok;
}
