/*
 * jinja_lexer.c - see jinja_lexer.h.
 *
 *   text  {%- if x -%}  text  {{ y }}  text  {# ... #}  text  {% raw %} ... {% endraw %}
 *   ^ lex_root finds the next opening delimiter, trims the text before it, then
 *           ^ lex_code takes tokens up to the closing one
 */
#include "tokenizer_proc/jinja_lexer.h"

#include <string.h>

#include "tokenizer_proc/jinja_string.h"
#include "tokenizer_proc/jinja_unicode.h"

enum { MAX_NESTED = 200 }; /* brackets open at once */

struct lexer {
    const char *source; /* newlines normalised */
    size_t size, at;
    int32_t line;
    bool line_starting; /* only a newline, or nothing, precedes `at` */
    struct arena *arena;
    struct jinja_token *tokens;
    size_t num_tokens, capacity;
    struct status status;
};

const char *jinja_token_name(enum jinja_token_type type)
{
    static const char *const names[] = {
        "end of template",
        "template data / text",
        "begin of print statement",
        "end of print statement",
        "begin of statement block",
        "end of statement block",
        "name",
        "string",
        "integer",
        "float",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "~",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "=",
        ".",
        ",",
        ":",
        ";",
        "|",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
    };

    return names[type];
}

static bool fail(struct lexer *lexer, const char *what)
{
    if (!lexer->status.code)
        lexer->status = status_error(STATUS_FORMAT, "line %d: %s", (int)lexer->line, what);
    return false;
}

static bool fail_memory(struct lexer *lexer)
{
    lexer->status = status_error(STATUS_NO_MEMORY, "no memory for a chat template");
    return false;
}

static bool add_token(struct lexer *lexer, enum jinja_token_type type, const char *data,
                      size_t size)
{
    if (lexer->num_tokens == lexer->capacity) {
        size_t capacity = lexer->capacity ? lexer->capacity * 2 : 64;
        struct jinja_token *tokens = arena_calloc(lexer->arena, capacity, sizeof(*tokens));
        if (!tokens)
            return fail_memory(lexer);
        if (lexer->num_tokens)
            memcpy(tokens, lexer->tokens, lexer->num_tokens * sizeof(*tokens));
        lexer->tokens = tokens;
        lexer->capacity = capacity;
    }
    lexer->tokens[lexer->num_tokens++] = (struct jinja_token){
        .type = type,
        .line = lexer->line,
        .text = {data, size},
    };
    return true;
}

static bool looking_at(const struct lexer *lexer, size_t at, const char *text)
{
    size_t size = strlen(text);

    return at <= lexer->size && lexer->size - at >= size &&
           memcmp(lexer->source + at, text, size) == 0;
}

static void advance(struct lexer *lexer, size_t to)
{
    for (; lexer->at < to; lexer->at++)
        lexer->line += lexer->source[lexer->at] == '\n';
    if (to > 0)
        lexer->line_starting = lexer->source[to - 1] == '\n';
}

static size_t skip_space(const struct lexer *lexer, size_t at)
{
    while (at < lexer->size) {
        size_t next = at;
        if (!jinja_char_is(jinja_next_char(lexer->source, lexer->size, &next), JINJA_CHAR_SPACE))
            break;
        at = next;
    }
    return at;
}

/* ---- strings and numbers ---- */

/* Hexadecimal digits of a \x, \u or \U escape. */
static bool read_hex(struct lexer *lexer, const char *data, size_t size, size_t count,
                     uint32_t *out)
{
    uint32_t value = 0;

    if (size < count)
        return fail(lexer, "truncated escape in a string");
    for (size_t i = 0; i < count; i++) {
        char c = data[i];
        uint32_t digit = 0;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return fail(lexer, "truncated escape in a string");
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
            return fail(lexer, "illegal Unicode character in a string");
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
        return fail(lexer, "character names in strings are not supported");
    out[0] = '\\'; /* an unknown escape stays as it is */
    *out_size = 1;
    *used = 0;
    return true;
}

static bool lex_string(struct lexer *lexer)
{
    const char *data = lexer->source + lexer->at;
    size_t size = lexer->size - lexer->at, end = 1, length = 0;

    while (end < size && data[end] != data[0])
        end += data[end] == '\\' ? 2 : 1;
    if (end >= size)
        return fail(lexer, "unexpected quote: a string does not end");
    char *text = arena_alloc(lexer->arena, end + 4);
    if (!text)
        return fail_memory(lexer);
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
    if (!add_token(lexer, TOKEN_STRING, text, length))
        return false;
    advance(lexer, lexer->at + end + 1);
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
        else if (looking_at(lexer, at, "_") && is_digit(lexer, at + 1, base))
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
    if (looking_at(lexer, at, ".") && is_digit(lexer, at + 1, 10)) {
        at = skip_digits(lexer, at + 1, 10);
        is_float = true;
    }
    if (at < lexer->size && (lexer->source[at] | 0x20) == 'e') {
        size_t digits = at + 1;
        if (looking_at(lexer, digits, "+") || looking_at(lexer, digits, "-"))
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

static bool lex_number(struct lexer *lexer)
{
    size_t end = float_end(lexer, lexer->at);
    enum jinja_token_type type = end ? TOKEN_FLOAT : TOKEN_INTEGER;

    if (!end)
        end = integer_end(lexer, lexer->at);
    if (!add_token(lexer, type, lexer->source + lexer->at, end - lexer->at))
        return false;
    advance(lexer, end);
    return true;
}

static bool lex_name(struct lexer *lexer)
{
    size_t end = lexer->at;

    while (end < lexer->size) {
        size_t next = end;
        uint32_t c = jinja_next_char(lexer->source, lexer->size, &next);
        uint32_t wanted = end == lexer->at ? JINJA_CHAR_ID_START : JINJA_CHAR_ID_CONTINUE;
        if (!jinja_char_is(c, JINJA_CHAR_WORD))
            break;
        if (!jinja_char_is(c, wanted) && c != '_')
            return fail(lexer, "invalid character in identifier");
        end = next;
    }
    if (!add_token(lexer, TOKEN_NAME, lexer->source + lexer->at, end - lexer->at))
        return false;
    advance(lexer, end);
    return true;
}

/* ---- operators ---- */

static bool lex_operator(struct lexer *lexer, char *open, int *num_open)
{
    static const struct {
        char text[3];
        enum jinja_token_type type;
    } operators[] = {
        {"//", TOKEN_FLOORDIV}, {"**", TOKEN_POW},      {"==", TOKEN_EQ},    {"!=", TOKEN_NE},
        {">=", TOKEN_GE},       {"<=", TOKEN_LE},       {"+", TOKEN_ADD},    {"-", TOKEN_SUB},
        {"/", TOKEN_DIV},       {"*", TOKEN_MUL},       {"%", TOKEN_MOD},    {"~", TOKEN_TILDE},
        {"[", TOKEN_LBRACKET},  {"]", TOKEN_RBRACKET},  {"(", TOKEN_LPAREN}, {")", TOKEN_RPAREN},
        {"{", TOKEN_LBRACE},    {"}", TOKEN_RBRACE},    {">", TOKEN_GT},     {"<", TOKEN_LT},
        {"=", TOKEN_ASSIGN},    {".", TOKEN_DOT},       {":", TOKEN_COLON},  {"|", TOKEN_PIPE},
        {",", TOKEN_COMMA},     {";", TOKEN_SEMICOLON},
    };

    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (!looking_at(lexer, lexer->at, operators[i].text))
            continue;
        char c = operators[i].text[0];
        if (c == '(' || c == '[' || c == '{') {
            if (*num_open == MAX_NESTED)
                return fail(lexer, "brackets are nested too deeply");
            open[(*num_open)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (*num_open == 0 || open[--*num_open] != c)
                return fail(lexer, "unexpected closing bracket");
        }
        if (!add_token(lexer, operators[i].type, NULL, 0))
            return false;
        advance(lexer, lexer->at + strlen(operators[i].text));
        return true;
    }
    return fail(lexer, "unexpected character");
}

/* ---- delimiters ---- */

/* Where the closing delimiter at `at` ends with all that it trims, or 0 if there is none. */
static size_t closing_end(const struct lexer *lexer, size_t at, const char *delimiter,
                          bool trims_newline)
{
    bool minus = looking_at(lexer, at, "-"), plus = trims_newline && looking_at(lexer, at, "+");

    if (!looking_at(lexer, at + (minus || plus), delimiter))
        return 0;
    at += strlen(delimiter) + (minus || plus);
    if (minus)
        return skip_space(lexer, at);
    if (trims_newline && !plus && looking_at(lexer, at, "\n"))
        at++;
    return at;
}

/* Tokens up to the closing delimiter. */
static bool lex_code(struct lexer *lexer, bool is_block)
{
    char open[MAX_NESTED];
    int num_open = 0;

    while (lexer->at < lexer->size) {
        size_t end = 0;
        if (num_open == 0)
            end = closing_end(lexer, lexer->at, is_block ? "%}" : "}}", is_block);
        if (end) {
            if (!add_token(lexer, is_block ? TOKEN_BLOCK_END : TOKEN_VARIABLE_END, NULL, 0))
                return false;
            advance(lexer, end);
            return true;
        }
        size_t space = skip_space(lexer, lexer->at);
        if (space > lexer->at) {
            advance(lexer, space);
            continue;
        }
        size_t next = lexer->at;
        uint32_t c = jinja_next_char(lexer->source, lexer->size, &next);
        bool ok = false;
        if (c >= '0' && c <= '9')
            ok = lex_number(lexer);
        else if (jinja_char_is(c, JINJA_CHAR_WORD))
            ok = lex_name(lexer);
        else if (c == '"' || c == '\'')
            ok = lex_string(lexer);
        else
            ok = lex_operator(lexer, open, &num_open);
        if (!ok)
            return false;
    }
    return true; /* the parser says what is missing */
}

static bool lex_comment(struct lexer *lexer)
{
    if (lexer->at == lexer->size)
        return true;
    for (size_t at = lexer->at; at < lexer->size; at++) {
        size_t end = closing_end(lexer, at, "#}", true);
        if (end) {
            advance(lexer, end);
            return true;
        }
    }
    return fail(lexer, "missing end of comment tag");
}

/* The text before an opening delimiter, trimmed as its sign asks for. */
static bool add_data(struct lexer *lexer, size_t end, char sign, bool strips_blanks)
{
    const char *data = lexer->source + lexer->at;
    size_t size = end - lexer->at, kept = size;

    if (sign == '-') {
        while (kept > 0) {
            size_t previous = kept;
            if (!jinja_char_is(jinja_previous_char(data, &previous), JINJA_CHAR_SPACE))
                break;
            kept = previous;
        }
    } else if (sign != '+' && strips_blanks) {
        size_t start = size;
        while (start > 0 && data[start - 1] != '\n') {
            size_t previous = start;
            if (!jinja_char_is(jinja_previous_char(data, &previous), JINJA_CHAR_SPACE))
                break;
            start = previous;
        }
        if (start > 0 ? data[start - 1] == '\n' : lexer->line_starting)
            kept = start;
    }
    if (kept > 0 && !add_token(lexer, TOKEN_DATA, data, kept))
        return false;
    if (end > lexer->at)
        advance(lexer, end);
    return true;
}

/* The length of `{%` sign `raw` `%}` at `at`, with the white space that its end trims; or 0. */
static size_t raw_begin_size(const struct lexer *lexer, size_t at)
{
    size_t p = at + 2;

    if (looking_at(lexer, p, "-") || looking_at(lexer, p, "+"))
        p++;
    p = skip_space(lexer, p);
    if (!looking_at(lexer, p, "raw"))
        return 0;
    size_t end = closing_end(lexer, skip_space(lexer, p + 3), "%}", false);
    return end ? end - at : 0;
}

static bool lex_raw(struct lexer *lexer)
{
    if (lexer->at == lexer->size)
        return true;
    for (size_t at = lexer->at; at < lexer->size; at++) {
        if (!looking_at(lexer, at, "{%"))
            continue;
        size_t p = at + 2;
        char sign = p < lexer->size ? lexer->source[p] : '\0';
        if (sign == '-' || sign == '+')
            p++;
        p = skip_space(lexer, p);
        if (!looking_at(lexer, p, "endraw"))
            continue;
        size_t end = closing_end(lexer, skip_space(lexer, p + 6), "%}", true);
        if (!end)
            continue;
        if (!add_data(lexer, at, sign, true))
            return false;
        advance(lexer, end);
        return true;
    }
    return fail(lexer, "missing end of raw directive");
}

static bool lex_root(struct lexer *lexer)
{
    while (lexer->at < lexer->size) {
        size_t open = lexer->at;
        while (open < lexer->size && !looking_at(lexer, open, "{{") &&
               !looking_at(lexer, open, "{%") && !looking_at(lexer, open, "{#"))
            open++;
        if (open == lexer->size)
            return add_data(lexer, open, '+', false);
        char kind = lexer->source[open + 1];
        size_t raw = kind == '%' ? raw_begin_size(lexer, open) : 0;
        char sign = open + 2 < lexer->size ? lexer->source[open + 2] : '\0';
        if (!add_data(lexer, open, sign, kind != '{'))
            return false;
        advance(lexer, raw ? open + raw : open + 2 + (sign == '-' || sign == '+'));
        if (raw) {
            if (!lex_raw(lexer))
                return false;
            continue;
        }
        if (kind == '#') {
            if (!lex_comment(lexer))
                return false;
            continue;
        }
        if (!add_token(lexer, kind == '%' ? TOKEN_BLOCK_BEGIN : TOKEN_VARIABLE_BEGIN, NULL, 0) ||
            !lex_code(lexer, kind == '%'))
            return false;
    }
    return true;
}

/* A copy with \n for \r\n and \r, less a newline at the end. */
static bool normalise(struct lexer *lexer, const char *source, size_t size)
{
    char *copy = arena_alloc(lexer->arena, size + 1);
    size_t length = 0;

    if (!jinja_is_utf8(source, size))
        return fail(lexer, "not valid UTF-8");
    if (!copy)
        return fail_memory(lexer);
    for (size_t i = 0; i < size; i++) {
        if (source[i] == '\r' && i + 1 < size && source[i + 1] == '\n')
            continue;
        copy[length++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (length > 0 && copy[length - 1] == '\n')
        length--;
    lexer->source = copy;
    lexer->size = length;
    return true;
}

struct status jinja_lex(const char *source, size_t size, struct arena *arena,
                        struct jinja_token **out, size_t *out_num_tokens)
{
    struct lexer lexer = {.line = 1, .line_starting = true, .arena = arena};

    if (normalise(&lexer, source, size) && lex_root(&lexer) &&
        add_token(&lexer, TOKEN_END, NULL, 0)) {
        *out = lexer.tokens;
        *out_num_tokens = lexer.num_tokens;
    }
    return lexer.status;
}
