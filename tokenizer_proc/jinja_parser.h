/*
 * jinja_parser.h - tokens to a tree; what the parts of the parser share: a template as a whole
 * (jinja_parser.c), statements, expressions, and what takes arguments (jinja_parse_*.c).
 *
 * Functions return NULL or false when parsing failed, with the reason in parser->status.
 */
#ifndef TOKENIZER_PROC_JINJA_PARSER_H
#define TOKENIZER_PROC_JINJA_PARSER_H

#include "tokenizer_proc/jinja_ast.h"
#include "tokenizer_proc/jinja_lexer.h"

struct jinja_parser {
    struct jinja_template *template;
    struct arena *arena;
    const struct jinja_token *tokens; /* the last is TOKEN_END */
    size_t at;
    int depth;                      /* of nested expressions and blocks */
    int loop_depth;                 /* of `for` bodies around, for break and continue */
    uint32_t mentioned;             /* bit per fixed symbol that has been read */
    struct jinja_dict symbol_index; /* name to number */
    struct jinja_value *symbols;
    int32_t num_symbols, symbols_capacity;
    bool *is_content;                 /* [symbols_capacity]: set from message content */
    const struct jinja_node *unknown; /* a filter or test that does not exist, in code that runs
                                         whatever the data are */
    struct jinja_run run;             /* for values made at compile time */
    struct status status;
};

bool jinja_parse_fail(struct jinja_parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool jinja_parse_enter(struct jinja_parser *parser);

void *jinja_parse_alloc(struct jinja_parser *parser, size_t count, size_t size);
struct jinja_node *jinja_parse_node(struct jinja_parser *parser, enum jinja_node_type type);

/* A growing list of nodes. */
struct jinja_nodes {
    struct jinja_node **items;
    size_t num_items, capacity;
};
bool jinja_nodes_add(struct jinja_parser *parser, struct jinja_nodes *nodes,
                     struct jinja_node *node);

const struct jinja_token *jinja_parse_current(const struct jinja_parser *parser);
bool jinja_parse_is(const struct jinja_parser *parser, enum jinja_token_type type);
bool jinja_parse_is_name(const struct jinja_parser *parser, const char *name);
/* Moves on if the current token is that. */
bool jinja_parse_skip(struct jinja_parser *parser, enum jinja_token_type type);
bool jinja_parse_skip_name(struct jinja_parser *parser, const char *name);
bool jinja_parse_expect(struct jinja_parser *parser, enum jinja_token_type type);
bool jinja_parse_unexpected(struct jinja_parser *parser, const char *expected);

/* The number of a variable's name; -1 on failure. */
int32_t jinja_parse_symbol(struct jinja_parser *parser, struct json_text name);
bool jinja_parse_text_value(struct jinja_parser *parser, struct json_text text,
                            struct jinja_value *out);

enum jinja_tuple_flags {
    TUPLE_NO_CONDITION = 1 << 0, /* items are no `a if b` */
    TUPLE_PARENTHESES = 1 << 1,  /* `()` is one */
    TUPLE_STOP_AT_RECURSIVE = 1 << 2,
};

/* Statements up to `{% end`, where end is one of the names given (with a space behind each). The
 * name is left as the current token. */
struct jinja_node *jinja_parse_body(struct jinja_parser *parser, const char *ends);
struct jinja_node *jinja_parse_expression(struct jinja_parser *parser);
/* One expression, or a tuple of them if there is a comma. */
struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, int flags);
/* `| name(...)` any number of times behind node; starts_inline: the first without its bar. */
struct jinja_node *jinja_parse_filters(struct jinja_parser *parser, struct jinja_node *node,
                                       bool starts_inline);
/* `(...)` behind what is called; `is` has been read. */
struct jinja_node *jinja_parse_call(struct jinja_parser *parser, struct jinja_node *callee);
struct jinja_node *jinja_parse_test(struct jinja_parser *parser, struct jinja_node *node);
/* A sign, an atom and what stands behind it; filters and tests only where with_filter. */
struct jinja_node *jinja_parse_unary(struct jinja_parser *parser, bool with_filter);

#endif
