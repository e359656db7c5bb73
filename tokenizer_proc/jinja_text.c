/*
 * jinja_text.c - what filters and methods of strings share. See jinja_functions.h.
 */
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"
#include "tokenizer_proc/jinja_unicode.h"

bool jinja_want_string(struct jinja_run *run, struct jinja_value value,
                       const struct jinja_string **out)
{
    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value.type != JINJA_STRING)
        return jinja_fail(run, "must be str, not %s", jinja_type_name(value));
    *out = value.string;
    return true;
}

bool jinja_want_int(struct jinja_run *run, struct jinja_value value, int64_t *out)
{
    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_integer(value))
        return jinja_fail(run, "'%s' object cannot be interpreted as an integer",
                          jinja_type_name(value));
    *out = jinja_clamp_int(value);
    return true;
}

/* ---- case ---- */

/* Whether a capital sigma at start is the last letter of its word. */
static bool is_final_sigma(const struct jinja_string *string, size_t start, size_t end)
{
    bool cased_before = false;

    for (size_t at = start; at > 0 && !cased_before;) {
        uint32_t c = jinja_previous_char(string->data, &at);
        if (jinja_char_is(c, JINJA_CHAR_CASE_IGNORABLE))
            continue;
        if (!jinja_char_is(c, JINJA_CHAR_CASED))
            return false;
        cased_before = true;
    }
    while (cased_before && end < string->size) {
        uint32_t c = jinja_next_char(string->data, string->size, &end);
        if (!jinja_char_is(c, JINJA_CHAR_CASE_IGNORABLE))
            return !jinja_char_is(c, JINJA_CHAR_CASED);
    }
    return cased_before;
}

static bool add_mapped(struct jinja_buffer *buffer, const struct jinja_string *string, size_t start,
                       size_t end, enum jinja_case to)
{
    uint32_t mapped[3];
    size_t at = start;
    uint32_t c = jinja_next_char(string->data, string->size, &at);
    bool from_caller = jinja_is_caller_at(string, start);

    if (c == 0x3A3 && to == JINJA_LOWER)
        return jinja_buffer_add_char(buffer, is_final_sigma(string, start, end) ? 0x3C2 : 0x3C3,
                                     from_caller);
    int count = jinja_map_case(c, to, mapped);
    for (int i = 0; i < count; i++) {
        if (!jinja_buffer_add_char(buffer, mapped[i], from_caller))
            return false;
    }
    return true;
}

bool jinja_change_case(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out, int how)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_value text = {0};
    bool after_cased = false;

    if (!jinja_to_string(run, call->self, &text))
        return false;
    const struct jinja_string *string = text.string;
    if (!jinja_step_text(run, string->size))
        return false;
    for (size_t end = 0, start = 0; start < string->size; start = end) {
        enum jinja_case to = how == JINJA_CASE_UPPER ? JINJA_UPPER : JINJA_LOWER;
        uint32_t c = jinja_next_char(string->data, string->size, &end);
        if (how == JINJA_CASE_FOLD)
            to = JINJA_FOLD;
        else if (how == JINJA_CASE_TITLE && !after_cased)
            to = JINJA_TITLE;
        else if (how == JINJA_CASE_CAPITALIZE && start == 0)
            to = JINJA_TITLE;
        else if (how == JINJA_CASE_SWAP && jinja_char_is(c, JINJA_CHAR_LOWER))
            to = JINJA_UPPER;
        after_cased = jinja_char_is(c, JINJA_CHAR_UPPER | JINJA_CHAR_LOWER | JINJA_CHAR_TITLE);
        if (!add_mapped(&buffer, string, start, end, to))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

bool jinja_lower(struct jinja_run *run, struct jinja_value value, struct jinja_value *out)
{
    struct jinja_call call = {.self = value};

    return jinja_change_case(run, &call, out, JINJA_CASE_LOWER);
}

/* ---- strip, replace, join ---- */

static bool is_stripped(uint32_t c, const struct jinja_string *chars)
{
    if (!chars)
        return jinja_char_is(c, JINJA_CHAR_SPACE);
    for (size_t offset = 0; offset < chars->size;) {
        if (jinja_next_char(chars->data, chars->size, &offset) == c)
            return true;
    }
    return false;
}

bool jinja_strip(struct jinja_run *run, const struct jinja_string *string, struct jinja_value chars,
                 int sides, struct jinja_value *out)
{
    const struct jinja_string *set = NULL;
    size_t start = 0, end = string->size;

    if (chars.type != JINJA_MISSING && chars.type != JINJA_NONE &&
        !jinja_want_string(run, chars, &set))
        return false;
    while (sides & JINJA_STRIP_LEFT && start < end) {
        size_t next = start;
        if (!is_stripped(jinja_next_char(string->data, end, &next), set))
            break;
        start = next;
    }
    while (sides & JINJA_STRIP_RIGHT && end > start) {
        size_t previous = end;
        if (!is_stripped(jinja_previous_char(string->data, &previous), set))
            break;
        end = previous;
    }
    size_t num_stripped = start + (string->size - end);
    return jinja_step_text(run, num_stripped * (set ? 1 + set->size : 1)) &&
           jinja_make_slice(run, string, start, end, out);
}

/* An empty `from` matches before each character and at the end. */
static bool replace_empty(struct jinja_run *run, const struct jinja_string *string,
                          const struct jinja_string *to, int64_t count, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    size_t offset = 0;

    while (count != 0) {
        if (!jinja_buffer_add_string(&buffer, to))
            return false;
        count--;
        if (offset == string->size)
            break;
        size_t start = offset;
        jinja_next_char(string->data, string->size, &offset);
        if (!jinja_buffer_add_slice(&buffer, string, start, offset))
            return false;
    }
    return jinja_buffer_add_slice(&buffer, string, offset, string->size) &&
           jinja_buffer_finish(&buffer, out);
}

bool jinja_replace(struct jinja_run *run, const struct jinja_string *string,
                   const struct jinja_string *from, const struct jinja_string *to, int64_t count,
                   struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    size_t offset = 0;

    if (from->size == 0)
        return replace_empty(run, string, to, count, out);
    size_t found = count ? jinja_find(string, from, 0) : SIZE_MAX;
    if (found == SIZE_MAX) {
        *out = (struct jinja_value){.type = JINJA_STRING, .string = string};
        return jinja_step(run, string->size / 64);
    }
    while (count != 0 && found != SIZE_MAX) {
        if (!jinja_buffer_add_slice(&buffer, string, offset, found) ||
            !jinja_buffer_add_string(&buffer, to))
            return false;
        offset = found + from->size;
        count--;
        found = jinja_find(string, from, offset);
    }
    return jinja_buffer_add_slice(&buffer, string, offset, string->size) &&
           jinja_buffer_finish(&buffer, out);
}

bool jinja_join(struct jinja_run *run, const struct jinja_string *separator,
                const struct jinja_list *list, bool convert, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);

    for (size_t i = 0; i < list->num_items; i++) {
        if (!convert && list->items[i].type != JINJA_STRING)
            return jinja_fail(run, "sequence item %zu: expected str instance, %s found", i,
                              jinja_type_name(list->items[i]));
        if ((i > 0 && !jinja_buffer_add_string(&buffer, separator)) ||
            !jinja_print(&buffer, list->items[i]))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

/* ---- lines ---- */

static bool is_line_end(uint32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

bool jinja_split_lines(struct jinja_run *run, const struct jinja_string *string, bool keep_ends,
                       struct jinja_items *out)
{
    struct jinja_value line = {0};
    size_t start = 0, at = 0;

    if (!jinja_step_text(run, string->size))
        return false;
    while (at < string->size) {
        size_t end = at;
        uint32_t c = jinja_next_char(string->data, string->size, &at);
        if (!is_line_end(c))
            continue;
        if (c == '\r' && at < string->size && string->data[at] == '\n')
            at++;
        if (!jinja_make_slice(run, string, start, keep_ends ? at : end, &line) ||
            !jinja_items_add(run, out, line))
            return false;
        start = at;
    }
    if (start == string->size)
        return true;
    return jinja_make_slice(run, string, start, string->size, &line) &&
           jinja_items_add(run, out, line);
}
