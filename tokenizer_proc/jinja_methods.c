/*
 * jinja_methods.c - methods of strings. See jinja_functions.h.
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

static size_t find_back(const struct jinja_string *string, const struct jinja_string *needle,
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
        !read_limit(run, call->bound[1], &limit) || !jinja_step(run, string->size / 64))
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
        !read_limit(run, call->bound[1], &limit) || !jinja_step(run, string->size / 16))
        return false;
    if (!separator) {
        if (!split_words_back(run, string, limit, &items))
            return false;
        turn_around(&items);
        return finish_list(run, &items, out);
    }
    for (;;) {
        size_t found = limit == 0 ? SIZE_MAX : find_back(string, separator, end);
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
           make_parts(run, string, separator, find_back(string, separator, string->size), true,
                      out);
}

static bool join(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_list *list = NULL;

    return jinja_iterate(run, call->bound[0], &list) &&
           jinja_join(run, call->self.string, list, false, out);
}

/* ---- find ---- */

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
        !read_part(run, call, &start, &end, &any) || !jinja_step(run, string->size / 16))
        return false;
    struct jinja_string part = {.data = string->data, .size = end};
    if (any)
        found = last ? find_back(&part, needle, end) : jinja_find(&part, needle, start);
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
        !read_part(run, call, &start, &end, &any) || !jinja_step(run, string->size / 16))
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

/* ---- questions ---- */

/* Whether there is a character, and all have one of the flags. */
static bool all_are(const struct jinja_call *call, uint32_t flags, struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string;
    bool holds = string->size > 0;

    for (size_t offset = 0; holds && offset < string->size;)
        holds = jinja_char_is(jinja_next_char(string->data, string->size, &offset), flags);
    *out = jinja_bool(holds);
    return true;
}

static bool isalpha_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return all_are(call, JINJA_CHAR_ALPHA, out);
}

static bool isalnum_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return all_are(
        call, JINJA_CHAR_ALPHA | JINJA_CHAR_DECIMAL | JINJA_CHAR_DIGIT | JINJA_CHAR_NUMERIC, out);
}

static bool isdigit_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return all_are(call, JINJA_CHAR_DIGIT, out);
}

static bool isdecimal_(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    (void)run;
    return all_are(call, JINJA_CHAR_DECIMAL, out);
}

static bool isnumeric_(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out)
{
    (void)run;
    return all_are(call, JINJA_CHAR_NUMERIC, out);
}

static bool isspace_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    return all_are(call, JINJA_CHAR_SPACE, out);
}

static bool isprintable_(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    (void)run;
    if (call->self.string->size == 0) {
        *out = jinja_bool(true);
        return true;
    }
    return all_are(call, JINJA_CHAR_PRINTABLE, out);
}

static bool isascii_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    bool ascii = true;

    (void)run;
    for (size_t i = 0; i < call->self.string->size; i++)
        ascii = ascii && (unsigned char)call->self.string->data[i] < 0x80;
    *out = jinja_bool(ascii);
    return true;
}

static bool isidentifier_(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string;
    bool holds = string->size > 0;

    (void)run;
    for (size_t start = 0, offset = 0; holds && offset < string->size; start = offset) {
        uint32_t c = jinja_next_char(string->data, string->size, &offset);
        holds = jinja_char_is(c, start == 0 ? JINJA_CHAR_ID_START : JINJA_CHAR_ID_CONTINUE);
    }
    *out = jinja_bool(holds);
    return true;
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
    (void)run;
    *out = jinja_bool(
        all_cased(call->self.string, JINJA_CHAR_UPPER, JINJA_CHAR_LOWER | JINJA_CHAR_TITLE));
    return true;
}

static bool islower_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    (void)run;
    *out = jinja_bool(
        all_cased(call->self.string, JINJA_CHAR_LOWER, JINJA_CHAR_UPPER | JINJA_CHAR_TITLE));
    return true;
}

static bool istitle_(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    const struct jinja_string *string = call->self.string;
    bool any = false, after_cased = false, holds = true;

    (void)run;
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
    return true;
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

const struct jinja_function *jinja_find_string_method(const struct jinja_string *name)
{
    static const struct jinja_function methods[] = {
        {"capitalize", capitalize, "", 0},
        {"casefold", casefold, "", 0},
        {"center", center, "- - ", 1},
        {"count", count, "- - - ", 1},
        {"endswith", endswith, "- - - ", 1},
        {"expandtabs", expandtabs, "tabsize ", 0},
        {"find", find, "- - - ", 1},
        {"format", format, NULL, 0},
        {"format_map", format_map, "- ", 1},
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
        {"join", join, "- ", 1},
        {"ljust", ljust, "- - ", 1},
        {"lower", lower, "", 0},
        {"lstrip", lstrip, "- ", 0},
        {"partition", partition, "- ", 1},
        {"removeprefix", removeprefix, "- ", 1},
        {"removesuffix", removesuffix, "- ", 1},
        {"replace", replace, "- - - ", 2},
        {"rfind", rfind, "- - - ", 1},
        {"rindex", rindex_of, "- - - ", 1},
        {"rjust", rjust, "- - ", 1},
        {"rpartition", rpartition, "- ", 1},
        {"rsplit", rsplit, "sep maxsplit ", 0},
        {"rstrip", rstrip, "- ", 0},
        {"split", split, "sep maxsplit ", 0},
        {"splitlines", splitlines, "keepends ", 0},
        {"startswith", startswith, "- - - ", 1},
        {"strip", strip, "- ", 0},
        {"swapcase", swapcase, "", 0},
        {"title", title, "", 0},
        {"upper", upper, "", 0},
        {"zfill", zfill, "- ", 1},
        {0},
    };

    return jinja_find_in(methods, name);
}
