/*
 * jinja_wordwrap.c - the filter wordwrap: lines of at most so many characters. See
 * jinja_functions.h.
 *
 * A line is cut into chunks (white space, words, parts of hyphenated words, dashes), and chunks are
 * laid into lines as long as they fit, as Python's textwrap does.
 */
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_print.h"
#include "tokenizer_proc/jinja_unicode.h"

struct wrap {
    struct jinja_run *run;
    const struct jinja_string *string; /* the line being wrapped */
    uint32_t *chars;                   /* [num_chars]: its characters */
    size_t *offsets;                   /* [num_chars + 1]: where they start */
    size_t num_chars;
    size_t width;
    bool breaks_words, breaks_hyphens;
    const struct jinja_string *newline;
    struct jinja_buffer *out;
};

static bool is_space(uint32_t c)
{
    return (c >= '\t' && c <= '\r') || c == ' ';
}

static bool is_letter(uint32_t c)
{
    return jinja_char_is(c, JINJA_CHAR_WORD) && !jinja_char_is(c, JINJA_CHAR_DECIMAL);
}

static bool is_word_or_punctuation(uint32_t c)
{
    return jinja_char_is(c, JINJA_CHAR_WORD) || (c && c < 0x80 && strchr("!\"'&.,?", (int)c));
}

/* Behind two or more dashes that start at `at` and join words; at if there are none. */
static size_t dashes_end(const struct wrap *wrap, size_t at)
{
    size_t end = at;

    if (at == 0 || !is_word_or_punctuation(wrap->chars[at - 1]))
        return at;
    while (end < wrap->num_chars && wrap->chars[end] == '-')
        end++;
    bool joins =
        end >= at + 2 && end < wrap->num_chars && jinja_char_is(wrap->chars[end], JINJA_CHAR_WORD);
    return joins ? end : at;
}

/* Whether a word may be cut behind the hyphen at `at`. */
static bool is_soft_hyphen(const struct wrap *wrap, size_t at)
{
    const uint32_t *chars = wrap->chars;
    size_t next = at + 1;

    if (chars[at] != '-' || at < 2)
        return false;
    bool before = is_letter(chars[at - 1]) && is_letter(chars[at - 2]);
    if (at >= 3 && is_word_or_punctuation(chars[at - 1]) && chars[at - 2] == '-' &&
        is_letter(chars[at - 3]))
        before = true;
    if (!before || next >= wrap->num_chars || !is_letter(chars[next]))
        return false;
    next++;
    if (next < wrap->num_chars && chars[next] == '-')
        next++;
    return next < wrap->num_chars && is_letter(chars[next]);
}

/* Where the chunk at `at` ends; a longer one than max_length is not followed to its end. */
static size_t chunk_end(const struct wrap *wrap, size_t at, size_t max_length)
{
    bool space = is_space(wrap->chars[at]);
    size_t end = at + 1;

    if (!space && wrap->breaks_hyphens && dashes_end(wrap, at) > at)
        return dashes_end(wrap, at);
    for (; end < wrap->num_chars && is_space(wrap->chars[end]) == space; end++) {
        if (end - at > max_length)
            break;
        if (space || !wrap->breaks_hyphens)
            continue;
        if (dashes_end(wrap, end) > end)
            break;
        if (is_soft_hyphen(wrap, end))
            return end + 1;
    }
    return end;
}

/* How much of a chunk that is longer than a line goes into the room left. */
static size_t long_chunk_end(const struct wrap *wrap, size_t at, size_t room)
{
    size_t end = at + room;

    if (!wrap->breaks_hyphens)
        return end;
    for (size_t hyphen = end; hyphen > at + 1; hyphen--) {
        if (wrap->chars[hyphen - 1] != '-')
            continue;
        for (size_t i = at; i < hyphen - 1; i++) {
            if (wrap->chars[i] != '-')
                return hyphen;
        }
        break;
    }
    return end;
}

static bool add_line(struct wrap *wrap, size_t start, size_t end, bool *is_first)
{
    if (!*is_first && !jinja_buffer_add_string(wrap->out, wrap->newline))
        return false;
    *is_first = false;
    return jinja_buffer_add_slice(wrap->out, wrap->string, wrap->offsets[start],
                                  wrap->offsets[end]);
}

static bool lay_out(struct wrap *wrap)
{
    bool is_first = true;

    for (size_t at = 0; at < wrap->num_chars;) {
        if (!is_first && is_space(wrap->chars[at])) {
            at = chunk_end(wrap, at, SIZE_MAX);
            if (at == wrap->num_chars)
                break;
        }
        size_t end = at, last = at; /* last: where the last chunk of the line starts */
        while (end < wrap->num_chars && chunk_end(wrap, end, wrap->width) - at <= wrap->width) {
            last = end;
            end = chunk_end(wrap, end, wrap->width);
        }
        if (end < wrap->num_chars && chunk_end(wrap, end, wrap->width) - end > wrap->width) {
            size_t room = wrap->width - (end - at);
            if (wrap->breaks_words) { /* without room, too: then blanks before it stay */
                last = end;
                end = long_chunk_end(wrap, end, room);
            } else if (end == at) {
                last = end;
                end = chunk_end(wrap, end, SIZE_MAX);
            }
        }
        size_t shown = last < end && is_space(wrap->chars[last]) ? last : end;
        if (!jinja_step(wrap->run, end - at) ||
            (shown > at && !add_line(wrap, at, shown, &is_first)))
            return false;
        at = end;
    }
    return true;
}

static bool wrap_line(struct wrap *wrap, const struct jinja_string *line)
{
    size_t offset = 0, count = 0, size = jinja_count_chars(line->data, line->size);

    wrap->string = line;
    wrap->chars = jinja_alloc(wrap->run, size, sizeof(*wrap->chars));
    wrap->offsets = jinja_alloc(wrap->run, size + 1, sizeof(*wrap->offsets));
    if (!wrap->chars || !wrap->offsets)
        return false;
    while (offset < line->size && count < size) {
        wrap->offsets[count] = offset;
        wrap->chars[count++] = jinja_next_char(line->data, line->size, &offset);
    }
    wrap->offsets[count] = line->size;
    wrap->num_chars = count;
    return lay_out(wrap);
}

bool jinja_wordwrap(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    static const struct jinja_string newline = {.data = "\n", .size = 1};
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct wrap wrap = {.run = run, .newline = &newline, .out = &buffer};
    const struct jinja_string *string = NULL;
    struct jinja_items lines = {0};
    int64_t width = 79;

    if (!jinja_want_string(run, call->self, &string) ||
        (call->bound[0].type != JINJA_MISSING && !jinja_want_int(run, call->bound[0], &width)) ||
        (call->bound[2].type != JINJA_MISSING && call->bound[2].type != JINJA_NONE &&
         !jinja_want_string(run, call->bound[2], &wrap.newline)))
        return false;
    if (width <= 0)
        return jinja_fail(run, "invalid width %lld (must be > 0)", (long long)width);
    wrap.width = (size_t)width;
    wrap.breaks_words = call->bound[1].type == JINJA_MISSING || jinja_is_true(call->bound[1]);
    wrap.breaks_hyphens = call->bound[3].type == JINJA_MISSING || jinja_is_true(call->bound[3]);
    if (!jinja_split_lines(run, string, false, &lines))
        return false;
    for (size_t i = 0; i < lines.num_items; i++) {
        if ((i > 0 && !jinja_buffer_add_string(&buffer, wrap.newline)) ||
            !wrap_line(&wrap, lines.items[i].string))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}
