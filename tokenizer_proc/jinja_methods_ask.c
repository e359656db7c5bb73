/*
 * jinja_methods_ask.c - methods that ask about a string: where something is, what it is made of.
 * See jinja_functions.h.
 */
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_string.h"
#include "tokenizer_proc/jinja_unicode.h"

/* ---- find ---- */

size_t jinja_find_back(const struct jinja_string *string, const struct jinja_string *needle,
                       size_t end)
{
    if (needle->size > end)
        return SIZE_MAX;
    for (size_t at = end - needle->size + 1; at > 0; at--) {
        if (memcmp(string->data + at - 1, needle->data, needle->size) == 0)
            return at - 1;
    }
    return SIZE_MAX;
}

/* The part of the string that the arguments start and end choose, in bytes; false in *out_any when
 * start is behind the end of the string. */
static bool read_part(struct jinja_run *run, const struct jinja_call *call, size_t *out_start,
                      size_t *out_end, bool *out_any)
{
    const struct jinja_string *string = call->self.string;
    int64_t length = 0, bounds[2] = {0, INT64_MAX};

    *out_start = 0;
    *out_end = string->size;
    *out_any = true;
    if (call->bound[1].type == JINJA_MISSING && call->bound[2].type == JINJA_MISSING)
        return true;
    if (!jinja_length(run, call->self, &length))
        return false;
    for (int i = 0; i < 2; i++) {
        struct jinja_value value = call->bound[1 + i];
        if (value.type == JINJA_MISSING || value.type == JINJA_NONE)
            continue;
        if (!jinja_want_int(run, value, &bounds[i]))
            return false;
        if (bounds[i] < 0)
            bounds[i] = bounds[i] + length < 0 ? 0 : bounds[i] + length;
    }
    if (bounds[1] > length)
        bounds[1] = length;
    *out_any = bounds[0] <= bounds[1];
    if (*out_any) {
        *out_start = jinja_char_offset(string->data, string->size, (size_t)bounds[0]);
        *out_end = jinja_char_offset(string->data, string->size, (size_t)bounds[1]);
    }
    return true;
}

/* The index, in characters, of the first or last place of the argument; -1. */
static bool find_place(struct jinja_run *run, const struct jinja_call *call, bool last,
                       int64_t *out)
{
    const struct jinja_string *string = call->self.string, *needle = NULL;
    size_t start = 0, end = 0, found = SIZE_MAX;
    bool any = false;

    if (!jinja_want_string(run, call->bound[0], &needle) ||
        !read_part(run, call, &start, &end, &any) || !jinja_step_text(run, string->size) ||
        (last && !jinja_step(run, needle->size / 64 * string->size)))
        return false;
    struct jinja_string part = {.data = string->data, .size = end};
    if (any)
        found = last ? jinja_find_back(&part, needle, end) : jinja_find(&part, needle, start);
    if (found != SIZE_MAX && found < start)
        found = SIZE_MAX;
    *out = found == SIZE_MAX ? -1 : (int64_t)jinja_count_chars(string->data, found);
    return true;
}

static bool find(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    int64_t place = 0;

    if (!find_place(run, call, false, &place))
        return false;
    *out = jinja_int(place);
    return true;
}

static bool rfind(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    int64_t place = 0;

    if (!find_place(run, call, true, &place))
        return false;
    *out = jinja_int(place);
    return true;
}

static bool index_of(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return find(run, call, out) && (out->integer >= 0 || jinja_fail(run, "substring not found"));
}

static bool rindex_of(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return rfind(run, call, out) && (out->integer >= 0 || jinja_fail(run, "substring not found"));
}

static bool count(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string, *needle = NULL;
    size_t start = 0, end = 0;
    int64_t places = 0;
    bool any = false;

    if (!jinja_want_string(run, call->bound[0], &needle) ||
        !read_part(run, call, &start, &end, &any) || !jinja_step_text(run, string->size))
        return false;
    struct jinja_string part = {.data = string->data, .size = end};
    if (any && needle->size == 0) {
        places = (int64_t)jinja_count_chars(string->data + start, end - start) + 1;
    } else if (any) {
        for (size_t at = jinja_find(&part, needle, start); at != SIZE_MAX;
             at = jinja_find(&part, needle, at + needle->size))
            places++;
    }
    *out = jinja_int(places);
    return true;
}

/* One string, or a tuple of which one must fit. */
static bool fits_at_side(struct jinja_run *run, const struct jinja_call *call, bool at_end,
                         struct jinja_value *out)
{
    struct jinja_value choice = call->bound[0];
    struct jinja_list one = {.items = &choice, .num_items = 1};
    const struct jinja_list *choices = choice.type == JINJA_TUPLE ? choice.list : &one;
    size_t start = 0, end = 0;
    bool any = false, fits = false;

    if (!read_part(run, call, &start, &end, &any))
        return false;
    for (size_t i = 0; any && !fits && i < choices->num_items; i++) {
        const struct jinja_string *side = NULL;
        if (!jinja_want_string(run, choices->items[i], &side))
            return false;
        size_t at = at_end ? end - side->size : start;
        fits = side->size <= end - start &&
               memcmp(call->self.string->data + at, side->data, side->size) == 0;
    }
    *out = jinja_bool(fits);
    return true;
}

static bool startswith(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return fits_at_side(run, call, false, out);
}

static bool endswith(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return fits_at_side(run, call, true, out);
}

/* ---- questions ---- */

/* Whether there is a character, and all have one of the flags. */
static bool all_are(struct jinja_run *run, const struct jinja_call *call, uint32_t flags,
                    struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string;
    bool holds = string->size > 0;

    for (size_t offset = 0; holds && offset < string->size;)
        holds = jinja_char_is(jinja_next_char(string->data, string->size, &offset), flags);
    *out = jinja_bool(holds);
    return jinja_step_text(run, string->size);
}

static bool isalpha_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return all_are(run, call, JINJA_CHAR_ALPHA, out);
}

static bool isalnum_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return all_are(run, call,
                   JINJA_CHAR_ALPHA | JINJA_CHAR_DECIMAL | JINJA_CHAR_DIGIT | JINJA_CHAR_NUMERIC,
                   out);
}

static bool isdigit_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return all_are(run, call, JINJA_CHAR_DIGIT, out);
}

static bool isdecimal_(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return all_are(run, call, JINJA_CHAR_DECIMAL, out);
}

static bool isnumeric_(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    return all_are(run, call, JINJA_CHAR_NUMERIC, out);
}

static bool isspace_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return all_are(run, call, JINJA_CHAR_SPACE, out);
}

static bool isprintable_(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    if (call->self.string->size == 0) {
        *out = jinja_bool(true);
        return true;
    }
    return all_are(run, call, JINJA_CHAR_PRINTABLE, out);
}

static bool isascii_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    bool ascii = true;

    for (size_t i = 0; i < call->self.string->size; i++)
        ascii = ascii && (unsigned char)call->self.string->data[i] < 0x80;
    *out = jinja_bool(ascii);
    return jinja_step_text(run, call->self.string->size);
}

static bool isidentifier_(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string;
    bool holds = string->size > 0;

    for (size_t start = 0, offset = 0; holds && offset < string->size; start = offset) {
        uint32_t c = jinja_next_char(string->data, string->size, &offset);
        holds = jinja_char_is(c, start == 0 ? JINJA_CHAR_ID_START : JINJA_CHAR_ID_CONTINUE);
    }
    *out = jinja_bool(holds);
    return jinja_step_text(run, call->self.string->size);
}

/* Some letter of that case, none of the other. */
static bool all_cased(const struct jinja_string *string, uint32_t wanted, uint32_t unwanted)
{
    bool any = false;

    for (size_t offset = 0; offset < string->size;) {
        uint32_t c = jinja_next_char(string->data, string->size, &offset);
        if (jinja_char_is(c, unwanted))
            return false;
        any = any || jinja_char_is(c, wanted);
    }
    return any;
}

static bool isupper_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    *out = jinja_bool(
        all_cased(call->self.string, JINJA_CHAR_UPPER, JINJA_CHAR_LOWER | JINJA_CHAR_TITLE));
    return jinja_step_text(run, call->self.string->size);
}

static bool islower_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    *out = jinja_bool(
        all_cased(call->self.string, JINJA_CHAR_LOWER, JINJA_CHAR_UPPER | JINJA_CHAR_TITLE));
    return jinja_step_text(run, call->self.string->size);
}

static bool istitle_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string;
    bool any = false, after_cased = false, holds = true;

    for (size_t offset = 0; holds && offset < string->size;) {
        uint32_t flags = jinja_char_flags(jinja_next_char(string->data, string->size, &offset));
        bool upper_case = (flags & (JINJA_CHAR_UPPER | JINJA_CHAR_TITLE)) != 0;
        bool lower_case = (flags & JINJA_CHAR_LOWER) != 0;
        if (upper_case || lower_case) {
            holds = upper_case != after_cased;
            any = true;
        }
        after_cased = upper_case || lower_case;
    }
    *out = jinja_bool(any && holds);
    return jinja_step_text(run, call->self.string->size);
}

const struct jinja_function jinja_string_questions[] = {
    {"count", count, "- - - ", 1},
    {"endswith", endswith, "- - - ", 1},
    {"find", find, "- - - ", 1},
    {"index", index_of, "- - - ", 1},
    {"isalnum", isalnum_, "", 0},
    {"isalpha", isalpha_, "", 0},
    {"isascii", isascii_, "", 0},
    {"isdecimal", isdecimal_, "", 0},
    {"isdigit", isdigit_, "", 0},
    {"isidentifier", isidentifier_, "", 0},
    {"islower", islower_, "", 0},
    {"isnumeric", isnumeric_, "", 0},
    {"isprintable", isprintable_, "", 0},
    {"isspace", isspace_, "", 0},
    {"istitle", istitle_, "", 0},
    {"isupper", isupper_, "", 0},
    {"rfind", rfind, "- - - ", 1},
    {"rindex", rindex_of, "- - - ", 1},
    {"startswith", startswith, "- - - ", 1},
    {0},
};
