/*
 * jinja_lexer_parts.h - what the two halves of the lexer share: the text around the code
 * (jinja_lexer.c), and strings and numbers in it (jinja_lexer_literals.c).
 */
#ifndef TOKENIZER_PROC_JINJA_LEXER_PARTS_H
#define TOKENIZER_PROC_JINJA_LEXER_PARTS_H

#include <stdbool.h>

#include "tokenizer_proc/jinja_lexer.h"

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

/* False, always, with the reason in lexer->status. */
bool jinja_lex_fail(struct lexer *lexer, const char *what);
bool jinja_lex_no_memory(struct lexer *lexer);

bool jinja_lex_add(struct lexer *lexer, enum jinja_token_type type, const char *data, size_t size);
/* Whether the text stands there. */
bool jinja_lex_at(const struct lexer *lexer, size_t at, const char *text);
void jinja_lex_advance(struct lexer *lexer, size_t to);

/* A token each, from its first character. */
bool jinja_lex_string(struct lexer *lexer);
bool jinja_lex_number(struct lexer *lexer);

#endif
