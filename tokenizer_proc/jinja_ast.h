/*
 * jinja_ast.h - a compiled template: a tree of nodes, immutable.
 *
 * What the fields of a node hold, by its kind (a missing child is NULL):
 *
 *   CONST        value                        DATA          value: a string
 *   NAME         symbol, value: its name      PRINT         a
 *   LIST, TUPLE  items                        SEQUENCE      items: statements
 *   DICT         items: key, value, ...       IF            items: test, body, ...; c: else
 *   AND, OR      items                        FOR           a: target, b: over, c: body, d: else,
 *   NOT, NEG, POS  a                                          e: condition; flag: recursive
 *   CONDITION    a if b else c                SET           a: target, b: value
 *   COMPARE      items, operators             SET_BLOCK     a: target, c: body, arguments: filters
 *   BINARY       items, operators, from the   WITH          items: target, value, ...; c: body
 *                left                         MACRO         symbol, value: its name; c: body,
 *   CONCAT       items                                        parameters
 *   GETATTR      a . value                    CALL_BLOCK    a: the call, b: MACRO (the caller)
 *   GETITEM      a [b]                        FILTER_BLOCK  c: body, b: filters
 *   SLICE        a : b : c                    SCOPE         c: body, in a scope of its own;
 *                                              flag: that sees the template's names alone
 *   CALL         a (arguments)                BREAK, CONTINUE
 *   FILTER       a | function(arguments)      NAMESPACE     symbol . value, a target of SET
 *   TEST         a is function(arguments)     PLACE         what FILTER_BLOCK and SET_BLOCK filter
 *
 * operators are a string with one letter for each item but the first: + - * / f(loor) % p(ower),
 * and for COMPARE = ! < l(e) > g(e) i(n) n(ot in).
 */
#ifndef TOKENIZER_PROC_JINJA_AST_H
#define TOKENIZER_PROC_JINJA_AST_H

#include "tokenizer_proc/jinja_value.h"

enum jinja_node_type {
    NODE_CONST,
    NODE_NAME,
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT,
    NODE_AND,
    NODE_OR,
    NODE_NOT,
    NODE_NEG,
    NODE_POS,
    NODE_CONDITION,
    NODE_COMPARE,
    NODE_BINARY,
    NODE_CONCAT,
    NODE_GETATTR,
    NODE_GETITEM,
    NODE_SLICE,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_PLACE,
    NODE_DATA,
    NODE_PRINT,
    NODE_SEQUENCE,
    NODE_IF,
    NODE_FOR,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_WITH,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_SCOPE,
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_NAMESPACE,
};

/* f(args..., name=named..., *star, **double_star) */
struct jinja_arguments {
    struct jinja_node **args;
    size_t num_args;
    struct jinja_node **named;
    struct jinja_value *names; /* [num_named] strings */
    size_t num_named;
    struct jinja_node *star, *double_star;
};

/* Of a macro. The last num_defaults parameters have one. */
struct jinja_parameters {
    int32_t *symbols;
    struct jinja_value *names;
    size_t num_symbols;
    struct jinja_node **defaults;
    size_t num_defaults;
    bool uses_caller, uses_varargs, uses_kwargs; /* the body mentions them */
};

struct jinja_node {
    enum jinja_node_type type;
    int32_t line;
    int32_t symbol;
    bool flag;
    struct jinja_value value;
    struct jinja_node *a, *b, *c, *d, *e;
    struct jinja_node **items;
    size_t num_items;
    const char *operators;
    const struct jinja_function *function; /* NULL: value names one that does not exist */
    const struct jinja_arguments *arguments;
    const struct jinja_parameters *parameters;
};

/* Names of variables, by number. The first few are fixed. */
enum { SYMBOL_LOOP, SYMBOL_CALLER, SYMBOL_VARARGS, SYMBOL_KWARGS, NUM_FIXED_SYMBOLS };

struct jinja_template {
    struct arena arena; /* owned: holds everything below */
    const struct jinja_node *root;
    struct jinja_value *symbols; /* [num_symbols] strings */
    int32_t num_symbols;
    bool loops_over_content;
};

#endif
