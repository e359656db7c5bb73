/*
 * jinja_eval.h - the evaluator: expressions to values, statements to text.
 *
 * Scopes are lists of bindings, searched from the inside out; the outermost, the template's own,
 * has a slot for every name instead. Recursion is counted by jinja_enter() at each nested
 * expression and statement, which bounds the stack.
 */
#ifndef TOKENIZER_PROC_JINJA_EVAL_H
#define TOKENIZER_PROC_JINJA_EVAL_H

#include "tokenizer_proc/jinja_ast.h"
#include "tokenizer_proc/jinja_string.h"

struct jinja_binding {
    int32_t symbol;
    struct jinja_value value;
};

struct jinja_scope {
    struct jinja_scope *parent; /* NULL: the template's */
    struct jinja_value *slots;  /* of the template's scope: [num_symbols], JINJA_MISSING if free */
    struct jinja_binding *bindings; /* of the others */
    size_t num_bindings, capacity;
    bool is_captured; /* a macro was defined in it: not to be used again */
};

struct jinja_scope *jinja_make_scope(struct jinja_run *run, struct jinja_scope *parent);
bool jinja_scope_set(struct jinja_run *run, struct jinja_scope *scope, int32_t symbol,
                     struct jinja_value value);

bool jinja_eval(struct jinja_run *run, struct jinja_scope *scope, const struct jinja_node *node,
                struct jinja_value *out);
/* A filter chain over a text: `place` is what NODE_PLACE stands for. */
bool jinja_eval_filters(struct jinja_run *run, struct jinja_scope *scope,
                        const struct jinja_node *node, struct jinja_value place,
                        struct jinja_value *out);

/* Runs a statement: prints to run->out; run->flow tells whether a loop is being left. */
bool jinja_exec(struct jinja_run *run, struct jinja_scope *scope, const struct jinja_node *node);
/* The same, but what it prints becomes a string. */
bool jinja_exec_to_string(struct jinja_run *run, struct jinja_scope *scope,
                          const struct jinja_node *node, struct jinja_value *out);
/* Asks the condition of a loop for as many items as it takes to know num_items, or all there are.
 */
bool jinja_loop_look_ahead(struct jinja_run *run, struct jinja_loop *loop, size_t num_items);
/* loop(items) inside of a recursive `for`. */
bool jinja_exec_recursive(struct jinja_run *run, const struct jinja_loop *loop,
                          struct jinja_value over, struct jinja_value *out);

/* One binary operator, as lettered in jinja_ast.h. */
bool jinja_binary(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b,
                  struct jinja_value *out);

/* object.name and object[key]; what is not there is undefined. */
bool jinja_get_attribute(struct jinja_run *run, struct jinja_value object, struct jinja_value name,
                         struct jinja_value *out);
bool jinja_get_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key,
                    struct jinja_value *out);
/* object[start:stop:step]; MISSING where left out. */
bool jinja_get_slice(struct jinja_run *run, struct jinja_value object, struct jinja_value start,
                     struct jinja_value stop, struct jinja_value step, struct jinja_value *out);

/* Evaluates arguments into a call. */
bool jinja_eval_arguments(struct jinja_run *run, struct jinja_scope *scope,
                          const struct jinja_arguments *arguments, struct jinja_call *call);
bool jinja_call_value(struct jinja_run *run, struct jinja_value callee, struct jinja_call *call,
                      struct jinja_value *out);

#endif
