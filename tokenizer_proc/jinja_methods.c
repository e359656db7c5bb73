/*
 * jinja_methods.c - methods that make something of a string. See jinja_functions.h.
 *
 * Not there: encode, maketrans, translate (bytes and tables are no values here).
 */
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"
#include "tokenizer_proc/jinja_unicode.h"

static bool upper(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_change_case(run, call, out, JINJA_CASE_UPPER);
}

static bool lower(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_change_case(run, call, out, JINJA_CASE_LOWER);
}

static bool title(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_change_case(run, call, out, JINJA_CASE_TITLE);
}

static bool capitalize(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return jinja_change_case(run, call, out, JINJA_CASE_CAPITALIZE);
}

static bool swapcase(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_change_case(run, call, out, JINJA_CASE_SWAP);
}

static bool casefold(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_change_case(run, call, out, JINJA_CASE_FOLD);
}

static bool strip(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_strip(run, call->self.string, call->bound[0], JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT,
                       out);
}

static bool lstrip(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_strip(run, call->self.string, call->bound[0], JINJA_STRIP_LEFT, out);
}

static bool rstrip(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_strip(run, call->self.string, call->bound[0], JINJA_STRIP_RIGHT, out);
}

/* ---- split ---- */

/* An optional limit: -1 for none. */
static bool read_limit(struct jinja_run *run, struct jinja_value value, int64_t *out)
{
    *out = -1;
    return value.type == JINJA_MISSING || jinja_want_int(run, value, out);
}

static bool add_slice(struct jinja_run *run, struct jinja_items *items,
                      const struct jinja_string *string, size_t start, size_t end)
{
    struct jinja_value slice = {0};

    return jinja_make_slice(run, string, start, end, &slice) && jinja_items_add(run, items, slice);
}

static bool finish_list(struct jinja_run *run, struct jinja_items *items, struct jinja_value *out)
{
    return jinja_list_value(run, JINJA_LIST, items->items, items->num_items, out);
}

static size_t skip_class(const struct jinja_string *string, size_t at, bool space)
{
    while (at < string->size) {
        size_t next = at;
        uint32_t c = jinja_next_char(string->data, string->size, &next);
        if (jinja_char_is(c, JINJA_CHAR_SPACE) != space)
            break;
        at = next;
    }
    return at;
}

static size_t skip_class_back(const struct jinja_string *string, size_t at, bool space)
{
    while (at > 0) {
        size_t previous = at;
        uint32_t c = jinja_previous_char(string->data, &previous);
        if (jinja_char_is(c, JINJA_CHAR_SPACE) != space)
            break;
        at = previous;
    }
    return at;
}

/* At runs of white space. */
static bool split_words(struct jinja_run *run, const struct jinja_string *string, int64_t limit,
                        struct jinja_items *items)
{
    size_t at = skip_class(string, 0, true);

    while (at < string->size) {
        size_t end = limit == 0 ? skip_class_back(string, string->size, true)
                                : skip_class(string, at, false);
        if (limit == 0)
            end = string->size;
        if (!add_slice(run, items, string, at, end))
            return false;
        if (limit == 0)
            break;
        limit--;
        at = skip_class(string, end, true);
    }
    return true;
}

static bool split_words_back(struct jinja_run *run, const struct jinja_string *string,
                             int64_t limit, struct jinja_items *items)
{
    size_t at = skip_class_back(string, string->size, true);

    while (at > 0) {
        size_t start = limit == 0 ? 0 : skip_class_back(string, at, false);
        if (!add_slice(run, items, string, start, at))
            return false;
        if (limit == 0)
            break;
        limit--;
        at = skip_class_back(string, start, true);
    }
    return true;
}

static void turn_around(struct jinja_items *items)
{
    for (size_t i = 0; i < items->num_items / 2; i++) {
        struct jinja_value swap = items->items[i];
        items->items[i] = items->items[items->num_items - 1 - i];
        items->items[items->num_items - 1 - i] = swap;
    }
}

/* The separator to split at, NULL for white space. */
static bool read_separator(struct jinja_run *run, struct jinja_value value,
                           const struct jinja_string **out)
{
    *out = NULL;
    if (value.type == JINJA_MISSING || value.type == JINJA_NONE)
        return true;
    if (!jinja_want_string(run, value, out))
        return false;
    return (*out)->size > 0 || jinja_fail(run, "empty separator");
}

static bool split(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string, *separator = NULL;
    struct jinja_items items = {0};
    int64_t limit = -1;
    size_t start = 0;

    if (!read_separator(run, call->bound[0], &separator) ||
        !read_limit(run, call->bound[1], &limit) || !jinja_step_text(run, string->size))
        return false;
    if (!separator)
        return split_words(run, string, limit, &items) && finish_list(run, &items, out);
    for (;;) {
        size_t found = limit == 0 ? SIZE_MAX : jinja_find(string, separator, start);
        if (found == SIZE_MAX)
            break;
        if (!add_slice(run, &items, string, start, found))
            return false;
        start = found + separator->size;
        limit--;
    }
    return add_slice(run, &items, string, start, string->size) && finish_list(run, &items, out);
}

static bool rsplit(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string, *separator = NULL;
    struct jinja_items items = {0};
    int64_t limit = -1;
    size_t end = string->size;

    if (!read_separator(run, call->bound[0], &separator) ||
        !read_limit(run, call->bound[1], &limit) || !jinja_step_text(run, string->size))
        return false;
    if (separator && !jinja_step(run, separator->size / 64 * string->size))
        return false;
    if (!separator) {
        if (!split_words_back(run, string, limit, &items))
            return false;
        turn_around(&items);
        return finish_list(run, &items, out);
    }
    for (;;) {
        size_t found = limit == 0 ? SIZE_MAX : jinja_find_back(string, separator, end);
        if (found == SIZE_MAX)
            break;
        if (!add_slice(run, &items, string, found + separator->size, end))
            return false;
        end = found;
        limit--;
    }
    if (!add_slice(run, &items, string, 0, end))
        return false;
    turn_around(&items);
    return finish_list(run, &items, out);
}

static bool splitlines(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    struct jinja_items items = {0};

    return jinja_split_lines(run, call->self.string, jinja_is_true(call->bound[0]), &items) &&
           finish_list(run, &items, out);
}

/* (before, separator, after), cut at found; not found: all of it first, or last. */
static bool make_parts(struct jinja_run *run, const struct jinja_string *string,
                       const struct jinja_string *separator, size_t found, bool all_last,
                       struct jinja_value *out)
{
    struct jinja_items items = {0};
    size_t size = string->size;
    size_t cut = found != SIZE_MAX ? found : all_last ? 0 : size;
    size_t resume = found != SIZE_MAX ? found + separator->size : cut;

    return add_slice(run, &items, string, 0, cut) && add_slice(run, &items, string, cut, resume) &&
           add_slice(run, &items, string, resume, size) &&
           jinja_list_value(run, JINJA_TUPLE, items.items, items.num_items, out);
}

static bool partition(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string, *separator = NULL;

    return read_separator(run, call->bound[0], &separator) && separator &&
           make_parts(run, string, separator, jinja_find(string, separator, 0), false, out);
}

static bool rpartition(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string, *separator = NULL;

    return read_separator(run, call->bound[0], &separator) && separator &&
           make_parts(run, string, separator, jinja_find_back(string, separator, string->size),
                      true, out);
}

static bool join(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_list *list = NULL;

    return jinja_iterate(run, call->bound[0], &list) &&
           jinja_join(run, call->self.string, list, false, out);
}

static bool replace(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_string *from = NULL, *to = NULL;
    int64_t limit = -1;

    return jinja_want_string(run, call->bound[0], &from) &&
           jinja_want_string(run, call->bound[1], &to) && read_limit(run, call->bound[2], &limit) &&
           jinja_replace(run, call->self.string, from, to, limit, out);
}

static bool removeprefix(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string, *side = NULL;

    if (!jinja_want_string(run, call->bound[0], &side))
        return false;
    bool fits = side->size <= string->size && memcmp(string->data, side->data, side->size) == 0;
    return jinja_make_slice(run, string, fits ? side->size : 0, string->size, out);
}

static bool removesuffix(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string, *side = NULL;

    if (!jinja_want_string(run, call->bound[0], &side))
        return false;
    size_t rest = string->size - side->size;
    bool fits =
        side->size <= string->size && memcmp(string->data + rest, side->data, side->size) == 0;
    return jinja_make_slice(run, string, 0, fits ? rest : string->size, out);
}

/* ---- padding ---- */

/* left and right: how many fill characters go where. */
static bool pad(struct jinja_run *run, const struct jinja_call *call, int64_t left, int64_t right,
                struct jinja_value *out)
{
    static const struct jinja_string blank = {.data = " ", .size = 1};
    const struct jinja_string *fill = &blank;
    struct jinja_buffer buffer = jinja_buffer_make(run);

    if (call->bound[1].type != JINJA_MISSING && !jinja_want_string(run, call->bound[1], &fill))
        return false;
    if (jinja_count_chars(fill->data, fill->size) != 1)
        return jinja_fail(run, "The fill character must be exactly one character long");
    return jinja_buffer_add_repeated(&buffer, fill, left) &&
           jinja_buffer_add_string(&buffer, call->self.string) &&
           jinja_buffer_add_repeated(&buffer, fill, right) && jinja_buffer_finish(&buffer, out);
}

static bool missing_width(struct jinja_run *run, const struct jinja_call *call, int64_t *out_width,
                          int64_t *out)
{
    int64_t length = 0;

    if (!jinja_want_int(run, call->bound[0], out_width) || !jinja_length(run, call->self, &length))
        return false;
    *out = *out_width > length ? *out_width - length : 0;
    return true;
}

static bool ljust(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    int64_t width = 0, missing = 0;

    return missing_width(run, call, &width, &missing) && pad(run, call, 0, missing, out);
}

static bool rjust(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    int64_t width = 0, missing = 0;

    return missing_width(run, call, &width, &missing) && pad(run, call, missing, 0, out);
}

static bool center(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    int64_t width = 0, missing = 0;

    if (!missing_width(run, call, &width, &missing))
        return false;
    int64_t left = missing / 2 + (missing & width & 1); /* Python's choice */
    return pad(run, call, left, missing - left, out);
}

static bool zfill(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    static const struct jinja_string zero = {.data = "0", .size = 1};
    const struct jinja_string *string = call->self.string;
    struct jinja_buffer buffer = jinja_buffer_make(run);
    int64_t width = 0, missing = 0;

    if (!missing_width(run, call, &width, &missing))
        return false;
    size_t sign = string->size && (string->data[0] == '-' || string->data[0] == '+');
    return jinja_buffer_add_slice(&buffer, string, 0, sign) &&
           jinja_buffer_add_repeated(&buffer, &zero, missing) &&
           jinja_buffer_add_slice(&buffer, string, sign, string->size) &&
           jinja_buffer_finish(&buffer, out);
}

static bool expandtabs(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    static const struct jinja_string blank = {.data = " ", .size = 1};
    const struct jinja_string *string = call->self.string;
    struct jinja_buffer buffer = jinja_buffer_make(run);
    int64_t width = 8, column = 0;

    if (call->bound[0].type != JINJA_MISSING && !jinja_want_int(run, call->bound[0], &width))
        return false;
    for (size_t end = 0, start = 0; start < string->size; start = end) {
        uint32_t c = jinja_next_char(string->data, string->size, &end);
        if (c == '\t') {
            int64_t blanks = width > 0 ? width - column % width : 0;
            column += blanks;
            if (!jinja_buffer_add_repeated(&buffer, &blank, blanks))
                return false;
            continue;
        }
        column = c == '\n' || c == '\r' ? 0 : column + 1;
        if (!jinja_buffer_add_slice(&buffer, string, start, end))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

static bool format(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_brace_format(run, call->self.string, call, out);
}

static bool format_map(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    struct jinja_call mapped = {.self = call->self};

    if (call->bound[0].type != JINJA_DICT)
        return jinja_fail(run, "format_map() takes a mapping");
    const struct jinja_dict *dict = call->bound[0].dict;
    struct jinja_named *named = jinja_alloc(run, dict->num_items, sizeof(*named));
    if (!named)
        return false;
    for (size_t i = 0; i < dict->num_items; i++) {
        if (dict->keys[i].type != JINJA_STRING)
            continue;
        named[mapped.num_named++] = (struct jinja_named){dict->keys[i], dict->values[i]};
    }
    mapped.named = named;
    return jinja_brace_format(run, call->self.string, &mapped, out);
}

const struct jinja_function jinja_string_changes[] = {
    {"capitalize", capitalize, "", 0},
    {"casefold", casefold, "", 0},
    {"center", center, "- - ", 1},
    {"expandtabs", expandtabs, "tabsize ", 0},
    {"format", format, NULL, 0},
    {"format_map", format_map, "- ", 1},
    {"join", join, "- ", 1},
    {"ljust", ljust, "- - ", 1},
    {"lower", lower, "", 0},
    {"lstrip", lstrip, "- ", 0},
    {"partition", partition, "- ", 1},
    {"removeprefix", removeprefix, "- ", 1},
    {"removesuffix", removesuffix, "- ", 1},
    {"replace", replace, "- - - ", 2},
    {"rjust", rjust, "- - ", 1},
    {"rpartition", rpartition, "- ", 1},
    {"rsplit", rsplit, "sep maxsplit ", 0},
    {"rstrip", rstrip, "- ", 0},
    {"split", split, "sep maxsplit ", 0},
    {"splitlines", splitlines, "keepends ", 0},
    {"strip", strip, "- ", 0},
    {"swapcase", swapcase, "", 0},
    {"title", title, "", 0},
    {"upper", upper, "", 0},
    {"zfill", zfill, "- ", 1},
    {0},
};

const struct jinja_function *jinja_find_string_method(const struct jinja_string *name)
{
    const struct jinja_function *function = jinja_find_in(jinja_string_changes, name);

    return function ? function : jinja_find_in(jinja_string_questions, name);
}
