/*
 * jinja_lexer_literals.c - strings with their escapes, and numbers. See jinja_lexer_parts.h.
 */
#include <string.h>

#include "tokenizer_proc/jinja_lexer_parts.h"
#include "tokenizer_proc/jinja_string.h"

/* Hexadecimal digits of a \x, \u or \U escape. */
static bool read_hex(struct lexer *lexer, const char *data, size_t size, size_t count,
                     uint32_t *out)
{
    uint32_t value = 0;

    if (size < count)
        return jinja_lex_fail(lexer, "truncated escape in a string");
    for (size_t i = 0; i < count; i++) {
        char c = data[i];
        uint32_t digit = 0;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return jinja_lex_fail(lexer, "truncated escape in a string");
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

/* The escape behind a backslash: its characters into out, its length into *used. */
static bool read_escape(struct lexer *lexer, const char *data, size_t size, char *out,
                        size_t *out_size, size_t *used)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    uint32_t character = 0;
    size_t digits = data[0] == 'x' ? 2 : data[0] == 'u' ? 4 : data[0] == 'U' ? 8 : 0;
    const char *known = data[0] ? strchr(from, data[0]) : NULL;

    *used = 1;
    *out_size = 0;
    if (data[0] == '\n')
        return true;
    if (known) {
        out[0] = to[known - from];
        *out_size = 1;
        return true;
    }
    if (data[0] >= '0' && data[0] <= '7') {
        for (*used = 0; *used < size && *used < 3 && data[*used] >= '0' && data[*used] <= '7';)
            character = character * 8 + (uint32_t)(data[(*used)++] - '0');
        *out_size = jinja_put_char(out, character);
        return true;
    }
    if (digits) {
        if (!read_hex(lexer, data + 1, size - 1, digits, &character))
            return false;
        *used = 1 + digits;
        if (character > 0x10FFFF)
            return jinja_lex_fail(lexer, "illegal Unicode character in a string");
        if (character >= 0xD800 && character <= 0xDBFF && size >= 11 && data[5] == '\\' &&
            data[6] == 'u') { /* a surrogate pair */
            uint32_t low = 0;
            if (!read_hex(lexer, data + 7, size - 7, 4, &low))
                return false;
            if (low >= 0xDC00 && low <= 0xDFFF) {
                character = 0x10000 + ((character - 0xD800) << 10) + (low - 0xDC00);
                *used = 11;
            }
        }
        *out_size = jinja_put_char(out, character);
        return true;
    }
    if (data[0] == 'N')
        return jinja_lex_fail(lexer, "character names in strings are not supported");
    out[0] = '\\'; /* an unknown escape stays as it is */
    *out_size = 1;
    *used = 0;
    return true;
}

bool jinja_lex_string(struct lexer *lexer)
{
    const char *data = lexer->source + lexer->at;
    size_t size = lexer->size - lexer->at, end = 1, length = 0;

    while (end < size && data[end] != data[0])
        end += data[end] == '\\' ? 2 : 1;
    if (end >= size)
        return jinja_lex_fail(lexer, "unexpected quote: a string does not end");
    char *text = arena_alloc(lexer->arena, end + 4);
    if (!text)
        return jinja_lex_no_memory(lexer);
    for (size_t i = 1; i < end;) {
        if (data[i] != '\\') {
            text[length++] = data[i++];
            continue;
        }
        size_t used = 0, added = 0;
        if (!read_escape(lexer, data + i + 1, end - i - 1, text + length, &added, &used))
            return false;
        length += added;
        i += 1 + used;
    }
    if (!jinja_lex_add(lexer, TOKEN_STRING, text, length))
        return false;
    jinja_lex_advance(lexer, lexer->at + end + 1);
    return true;
}

static bool is_digit(const struct lexer *lexer, size_t at, int base)
{
    if (at >= lexer->size)
        return false;
    char c = lexer->source[at];
    if (base == 16 && (c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return true;
    return c >= '0' && c < '0' + (base < 10 ? base : 10);
}

/* Behind (_?digit)*. */
static size_t skip_digits(const struct lexer *lexer, size_t at, int base)
{
    for (;;) {
        if (is_digit(lexer, at, base))
            at++;
        else if (jinja_lex_at(lexer, at, "_") && is_digit(lexer, at + 1, base))
            at += 2;
        else
            return at;
    }
}

/* Where a float ends that starts here, or 0 if none does. */
static size_t float_end(const struct lexer *lexer, size_t at)
{
    bool is_float = false;

    if (at > 0 && lexer->source[at - 1] == '.')
        return 0;
    at = skip_digits(lexer, at, 10);
    if (jinja_lex_at(lexer, at, ".") && is_digit(lexer, at + 1, 10)) {
        at = skip_digits(lexer, at + 1, 10);
        is_float = true;
    }
    if (at < lexer->size && (lexer->source[at] | 0x20) == 'e') {
        size_t digits = at + 1;
        if (jinja_lex_at(lexer, digits, "+") || jinja_lex_at(lexer, digits, "-"))
            digits++;
        if (is_digit(lexer, digits, 10)) {
            at = skip_digits(lexer, digits, 10);
            is_float = true;
        }
    }
    return is_float ? at : 0;
}

static size_t integer_end(const struct lexer *lexer, size_t at)
{
    char mark = at + 1 < lexer->size ? (char)(lexer->source[at + 1] | 0x20) : '\0';
    int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;

    if (lexer->source[at] != '0')
        return skip_digits(lexer, at, 10);
    if (base) {
        size_t end = skip_digits(lexer, at + 2, base);
        if (end > at + 2)
            return end;
    }
    return skip_digits(lexer, at, 1); /* zeros */
}

bool jinja_lex_number(struct lexer *lexer)
{
    size_t end = float_end(lexer, lexer->at);
    enum jinja_token_type type = end ? TOKEN_FLOAT : TOKEN_INTEGER;

    if (!end)
        end = integer_end(lexer, lexer->at);
    if (!jinja_lex_add(lexer, type, lexer->source + lexer->at, end - lexer->at))
        return false;
    jinja_lex_advance(lexer, end);
    return true;
}
