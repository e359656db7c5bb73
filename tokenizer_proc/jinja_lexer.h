/*
 * jinja_lexer.h - a template's source as a list of tokens.
 *
 * White space control is done here: what `-` and `+` beside the delimiters ask for, trim_blocks
 * (the newline behind a block or comment goes) and lstrip_blocks (the blanks before one go, from
 * the start of the line). Newlines become \n, and one at the very end goes. Comments are left out;
 * raw blocks are data.
 */
#ifndef TOKENIZER_PROC_JINJA_LEXER_H
#define TOKENIZER_PROC_JINJA_LEXER_H

#include "common/arena.h"
#include "common/json.h"
#include "common/status.h"

enum jinja_token_type {
    TOKEN_END, /* of the template; there is always one */
    TOKEN_DATA,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING,  /* text has the escapes resolved */
    TOKEN_INTEGER, /* text as written */
    TOKEN_FLOAT,
    TOKEN_ADD,
    TOKEN_SUB,
    TOKEN_MUL,
    TOKEN_DIV,
    TOKEN_FLOORDIV,
    TOKEN_MOD,
    TOKEN_POW,
    TOKEN_TILDE,
    TOKEN_EQ,
    TOKEN_NE,
    TOKEN_LT,
    TOKEN_LE,
    TOKEN_GT,
    TOKEN_GE,
    TOKEN_ASSIGN,
    TOKEN_DOT,
    TOKEN_COMMA,
    TOKEN_COLON,
    TOKEN_SEMICOLON,
    TOKEN_PIPE,
    TOKEN_LPAREN,
    TOKEN_RPAREN,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_LBRACE,
    TOKEN_RBRACE,
};

struct jinja_token {
    enum jinja_token_type type;
    int32_t line;          /* from 1 */
    struct json_text text; /* DATA, NAME, STRING, INTEGER, FLOAT; borrowed from the arena */
};

/* Tokens and texts lie in the arena. Errors (STATUS_FORMAT) name the line. */
MUST_CHECK struct status jinja_lex(const char *source, size_t size, struct arena *arena,
                                   struct jinja_token **out, size_t *out_num_tokens);

/* What a token is called in messages. */
const char *jinja_token_name(enum jinja_token_type type);

#endif
