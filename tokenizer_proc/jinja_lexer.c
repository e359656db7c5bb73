/*
 * jinja_lexer.c - see jinja_lexer.h.
 *
 *   text  {%- if x -%}  text  {{ y }}  text  {# ... #}  text  {% raw %} ... {% endraw %}
 *   ^ lex_root finds the next opening delimiter, trims the text before it, then
 *           ^ lex_code takes tokens up to the closing one
 */
#include "tokenizer_proc/jinja_lexer.h"

#include <string.h>

#include "common/utf8.h"
#include "tokenizer_proc/jinja_lexer_parts.h"
#include "tokenizer_proc/jinja_string.h"
#include "tokenizer_proc/jinja_unicode.h"

enum { MAX_NESTED = 200 }; /* brackets open at once */

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

bool jinja_lex_fail(struct lexer *lexer, const char *what)
{
    if (!lexer->status.code)
        lexer->status = status_error(STATUS_FORMAT, "line %d: %s", (int)lexer->line, what);
    return false;
}

bool jinja_lex_no_memory(struct lexer *lexer)
{
    lexer->status = status_error(STATUS_NO_MEMORY, "no memory for a chat template");
    return false;
}

bool jinja_lex_add(struct lexer *lexer, enum jinja_token_type type, const char *data, size_t size)
{
    if (lexer->num_tokens == lexer->capacity) {
        size_t capacity = lexer->capacity ? lexer->capacity * 2 : 64;
        struct jinja_token *tokens = arena_calloc(lexer->arena, capacity, sizeof(*tokens));
        if (!tokens)
            return jinja_lex_no_memory(lexer);
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

bool jinja_lex_at(const struct lexer *lexer, size_t at, const char *text)
{
    size_t size = strlen(text);

    return at <= lexer->size && lexer->size - at >= size &&
           memcmp(lexer->source + at, text, size) == 0;
}

void jinja_lex_advance(struct lexer *lexer, size_t to)
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

/* ---- names and operators ---- */

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
            return jinja_lex_fail(lexer, "invalid character in identifier");
        end = next;
    }
    if (!jinja_lex_add(lexer, TOKEN_NAME, lexer->source + lexer->at, end - lexer->at))
        return false;
    jinja_lex_advance(lexer, end);
    return true;
}

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
        if (!jinja_lex_at(lexer, lexer->at, operators[i].text))
            continue;
        char c = operators[i].text[0];
        if (c == '(' || c == '[' || c == '{') {
            if (*num_open == MAX_NESTED)
                return jinja_lex_fail(lexer, "brackets are nested too deeply");
            open[(*num_open)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (*num_open == 0 || open[--*num_open] != c)
                return jinja_lex_fail(lexer, "unexpected closing bracket");
        }
        if (!jinja_lex_add(lexer, operators[i].type, NULL, 0))
            return false;
        jinja_lex_advance(lexer, lexer->at + strlen(operators[i].text));
        return true;
    }
    return jinja_lex_fail(lexer, "unexpected character");
}

/* ---- delimiters ---- */

/* Where the closing delimiter at `at` ends with all that it trims, or 0 if there is none. */
static size_t closing_end(const struct lexer *lexer, size_t at, const char *delimiter,
                          bool trims_newline)
{
    bool minus = jinja_lex_at(lexer, at, "-"), plus = trims_newline && jinja_lex_at(lexer, at, "+");

    if (!jinja_lex_at(lexer, at + (minus || plus), delimiter))
        return 0;
    at += strlen(delimiter) + (minus || plus);
    if (minus)
        return skip_space(lexer, at);
    if (trims_newline && !plus && jinja_lex_at(lexer, at, "\n"))
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
            if (!jinja_lex_add(lexer, is_block ? TOKEN_BLOCK_END : TOKEN_VARIABLE_END, NULL, 0))
                return false;
            jinja_lex_advance(lexer, end);
            return true;
        }
        size_t space = skip_space(lexer, lexer->at);
        if (space > lexer->at) {
            jinja_lex_advance(lexer, space);
            continue;
        }
        size_t next = lexer->at;
        uint32_t c = jinja_next_char(lexer->source, lexer->size, &next);
        bool ok = false;
        if (c >= '0' && c <= '9')
            ok = jinja_lex_number(lexer);
        else if (jinja_char_is(c, JINJA_CHAR_WORD))
            ok = lex_name(lexer);
        else if (c == '"' || c == '\'')
            ok = jinja_lex_string(lexer);
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
            jinja_lex_advance(lexer, end);
            return true;
        }
    }
    return jinja_lex_fail(lexer, "missing end of comment tag");
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
    if (kept > 0 && !jinja_lex_add(lexer, TOKEN_DATA, data, kept))
        return false;
    if (end > lexer->at)
        jinja_lex_advance(lexer, end);
    return true;
}

/* The length of `{%` sign `raw` `%}` at `at`, with the white space that its end trims; or 0. */
static size_t raw_begin_size(const struct lexer *lexer, size_t at)
{
    size_t p = at + 2;

    if (jinja_lex_at(lexer, p, "-") || jinja_lex_at(lexer, p, "+"))
        p++;
    p = skip_space(lexer, p);
    if (!jinja_lex_at(lexer, p, "raw"))
        return 0;
    size_t end = closing_end(lexer, skip_space(lexer, p + 3), "%}", false);
    return end ? end - at : 0;
}

static bool lex_raw(struct lexer *lexer)
{
    if (lexer->at == lexer->size)
        return true;
    for (size_t at = lexer->at; at < lexer->size; at++) {
        if (!jinja_lex_at(lexer, at, "{%"))
            continue;
        size_t p = at + 2;
        char sign = p < lexer->size ? lexer->source[p] : '\0';
        if (sign == '-' || sign == '+')
            p++;
        p = skip_space(lexer, p);
        if (!jinja_lex_at(lexer, p, "endraw"))
            continue;
        size_t end = closing_end(lexer, skip_space(lexer, p + 6), "%}", true);
        if (!end)
            continue;
        if (!add_data(lexer, at, sign, true))
            return false;
        jinja_lex_advance(lexer, end);
        return true;
    }
    return jinja_lex_fail(lexer, "missing end of raw directive");
}

static bool lex_root(struct lexer *lexer)
{
    while (lexer->at < lexer->size) {
        size_t open = lexer->at;
        while (open < lexer->size && !jinja_lex_at(lexer, open, "{{") &&
               !jinja_lex_at(lexer, open, "{%") && !jinja_lex_at(lexer, open, "{#"))
            open++;
        if (open == lexer->size)
            return add_data(lexer, open, '+', false);
        char kind = lexer->source[open + 1];
        size_t raw = kind == '%' ? raw_begin_size(lexer, open) : 0;
        char sign = open + 2 < lexer->size ? lexer->source[open + 2] : '\0';
        if (!add_data(lexer, open, sign, kind != '{'))
            return false;
        jinja_lex_advance(lexer, raw ? open + raw : open + 2 + (sign == '-' || sign == '+'));
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
        if (!jinja_lex_add(lexer, kind == '%' ? TOKEN_BLOCK_BEGIN : TOKEN_VARIABLE_BEGIN, NULL,
                           0) ||
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

    if (!utf8_is_valid(source, size))
        return jinja_lex_fail(lexer, "not valid UTF-8");
    if (!copy)
        return jinja_lex_no_memory(lexer);
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
        jinja_lex_add(&lexer, TOKEN_END, NULL, 0)) {
        *out = lexer.tokens;
        *out_num_tokens = lexer.num_tokens;
    }
    return lexer.status;
}
