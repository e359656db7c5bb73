/*
 * jinja_parse_call.c - what takes arguments: calls, filters, tests. See jinja_parser.h.
 */
#include <string.h>

#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_parser.h"
#include "tokenizer_proc/jinja_string.h"

struct argument_lists {
    struct jinja_nodes args, named;
    struct jinja_value *names;
    size_t names_capacity;
};

static bool add_named(struct jinja_parser *parser, struct argument_lists *lists,
                      struct json_text name)
{
    if (lists->named.num_items == lists->names_capacity) {
        size_t capacity = lists->names_capacity ? lists->names_capacity * 2 : 4;
        struct jinja_value *names = jinja_parse_alloc(parser, capacity, sizeof(*names));
        if (!names)
            return false;
        if (lists->names_capacity)
            memcpy(names, lists->names, lists->names_capacity * sizeof(*names));
        lists->names = names;
        lists->names_capacity = capacity;
    }
    struct jinja_value *slot = &lists->names[lists->named.num_items];
    return jinja_parse_text_value(parser, name, slot) &&
           jinja_nodes_add(parser, &lists->named, jinja_parse_expression(parser));
}

static bool parse_argument(struct jinja_parser *parser, struct argument_lists *lists,
                           struct jinja_arguments *out)
{
    const struct jinja_token *token = jinja_parse_current(parser);

    if (jinja_parse_skip(parser, TOKEN_MUL)) {
        if (out->star || out->double_star)
            return jinja_parse_fail(parser, "invalid syntax for function call expression");
        out->star = jinja_parse_expression(parser);
        return out->star != NULL;
    }
    if (jinja_parse_skip(parser, TOKEN_POW)) {
        if (out->double_star)
            return jinja_parse_fail(parser, "invalid syntax for function call expression");
        out->double_star = jinja_parse_expression(parser);
        return out->double_star != NULL;
    }
    if (token->type == TOKEN_NAME && token[1].type == TOKEN_ASSIGN) {
        if (out->double_star)
            return jinja_parse_fail(parser, "invalid syntax for function call expression");
        parser->at += 2;
        return add_named(parser, lists, token->text);
    }
    if (out->star || out->double_star || lists->named.num_items)
        return jinja_parse_fail(parser, "invalid syntax for function call expression");
    return jinja_nodes_add(parser, &lists->args, jinja_parse_expression(parser));
}

/* At the opening parenthesis. */
static const struct jinja_arguments *parse_arguments(struct jinja_parser *parser)
{
    struct jinja_arguments *arguments = jinja_parse_alloc(parser, 1, sizeof(*arguments));
    struct argument_lists lists = {0};
    bool need_comma = false;

    if (!arguments || !jinja_parse_expect(parser, TOKEN_LPAREN))
        return NULL;
    while (!jinja_parse_skip(parser, TOKEN_RPAREN)) {
        if (need_comma && !jinja_parse_expect(parser, TOKEN_COMMA))
            return NULL;
        if (need_comma && jinja_parse_skip(parser, TOKEN_RPAREN))
            break;
        if (!parse_argument(parser, &lists, arguments))
            return NULL;
        need_comma = true;
    }
    arguments->args = lists.args.items;
    arguments->num_args = lists.args.num_items;
    arguments->named = lists.named.items;
    arguments->num_named = lists.named.num_items;
    arguments->names = lists.names;
    return arguments;
}

struct jinja_node *jinja_parse_call(struct jinja_parser *parser, struct jinja_node *callee)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_CALL);

    if (!node)
        return NULL;
    node->a = callee;
    node->arguments = parse_arguments(parser);
    return node->arguments ? node : NULL;
}

/* A name, or several with dots between. */
static bool parse_dotted_name(struct jinja_parser *parser, struct jinja_value *out)
{
    const struct jinja_token *token = jinja_parse_current(parser);
    struct jinja_buffer buffer = jinja_buffer_make(&parser->run);

    if (!jinja_parse_expect(parser, TOKEN_NAME))
        return false;
    jinja_buffer_add(&buffer, token->text.data, token->text.size, false);
    while (jinja_parse_skip(parser, TOKEN_DOT)) {
        token = jinja_parse_current(parser);
        if (!jinja_parse_expect(parser, TOKEN_NAME))
            return false;
        jinja_buffer_add(&buffer, ".", 1, false);
        jinja_buffer_add(&buffer, token->text.data, token->text.size, false);
    }
    return jinja_buffer_finish(&buffer, out) ||
           jinja_parse_fail(parser, "no memory for a chat template");
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *parser, struct jinja_node *node,
                                       bool starts_inline)
{
    static const struct jinja_arguments none;

    while (starts_inline || jinja_parse_skip(parser, TOKEN_PIPE)) {
        struct jinja_node *filter = jinja_parse_node(parser, NODE_FILTER);
        starts_inline = false;
        if (!filter || !parse_dotted_name(parser, &filter->value))
            return NULL;
        filter->a = node;
        filter->function = jinja_find_filter(filter->value.string);
        if (!filter->function && !parser->unknown)
            parser->unknown = filter;
        filter->arguments = jinja_parse_is(parser, TOKEN_LPAREN) ? parse_arguments(parser) : &none;
        if (!filter->arguments)
            return NULL;
        node = filter;
    }
    return node;
}

/* `is not divisibleby 3`: the argument may stand without parentheses. */
static const struct jinja_arguments *parse_test_argument(struct jinja_parser *parser)
{
    struct jinja_arguments *arguments = jinja_parse_alloc(parser, 1, sizeof(*arguments));
    struct jinja_nodes args = {0};

    if (!arguments)
        return NULL;
    switch (jinja_parse_current(parser)->type) {
    case TOKEN_LPAREN:
        return parse_arguments(parser);
    case TOKEN_NAME:
        if (jinja_parse_is_name(parser, "else") || jinja_parse_is_name(parser, "or") ||
            jinja_parse_is_name(parser, "and"))
            return arguments;
        if (jinja_parse_is_name(parser, "is")) {
            jinja_parse_fail(parser, "You cannot chain multiple tests with is");
            return NULL;
        }
        break;
    case TOKEN_STRING:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
    case TOKEN_LBRACKET:
    case TOKEN_LBRACE:
        break;
    default:
        return arguments;
    }
    struct jinja_node *node = jinja_parse_unary(parser, false);
    if (!jinja_nodes_add(parser, &args, node))
        return NULL;
    arguments->args = args.items;
    arguments->num_args = args.num_items;
    return arguments;
}

struct jinja_node *jinja_parse_test(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node *test = jinja_parse_node(parser, NODE_TEST);

    if (!test)
        return NULL;
    bool negated = jinja_parse_skip_name(parser, "not");
    if (!parse_dotted_name(parser, &test->value))
        return NULL;
    test->a = node;
    test->function = jinja_find_test(test->value.string);
    if (!test->function && !parser->unknown)
        parser->unknown = test;
    test->arguments = parse_test_argument(parser);
    if (!test->arguments)
        return NULL;
    if (!negated)
        return test;
    struct jinja_node *negation = jinja_parse_node(parser, NODE_NOT);
    if (negation)
        negation->a = test;
    return negation;
}
