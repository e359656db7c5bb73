/*
 * jinja_parse_statement.c - statements, and what they assign to. See jinja_parser.h.
 */
#include <string.h>

#include "tokenizer_proc/jinja_parser.h"
#include "tokenizer_proc/jinja_string.h"

/* ---- targets ---- */

static struct jinja_node *parse_target_name(struct jinja_parser *parser, bool with_namespace)
{
    const struct jinja_token *token = jinja_parse_current(parser);
    struct jinja_node *node = NULL;

    if (!jinja_parse_expect(parser, TOKEN_NAME))
        return NULL;
    static const char *const constants[] = {"true", "True", "false", "False", "none", "None"};
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (json_text_is(token->text, constants[i])) {
            jinja_parse_fail(parser, "can't assign to '%s'", constants[i]);
            return NULL;
        }
    }
    node = jinja_parse_node(parser, NODE_NAME);
    if (!node || (node->symbol = jinja_parse_symbol(parser, token->text)) < 0)
        return NULL;
    if (with_namespace && jinja_parse_skip(parser, TOKEN_DOT)) {
        token = jinja_parse_current(parser);
        node->type = NODE_NAMESPACE;
        if (!jinja_parse_expect(parser, TOKEN_NAME))
            return NULL;
    }
    return jinja_parse_text_value(parser, token->text, &node->value) ? node : NULL;
}

/* x, (x, y), x.y: what `set` and `for` assign to; the latter only where with_namespace. */
static struct jinja_node *parse_target(struct jinja_parser *parser, bool with_namespace)
{
    struct jinja_nodes items = {0};
    bool is_tuple = false;

    if (!jinja_parse_enter(parser))
        return NULL;
    do {
        struct jinja_node *item = NULL;
        if (items.num_items > 0 && !jinja_parse_is(parser, TOKEN_NAME) &&
            !jinja_parse_is(parser, TOKEN_LPAREN))
            break;
        if (items.num_items > 0 && jinja_parse_is_name(parser, "in"))
            break;
        if (jinja_parse_skip(parser, TOKEN_LPAREN)) {
            item = parse_target(parser, with_namespace);
            if (!item || !jinja_parse_expect(parser, TOKEN_RPAREN))
                return NULL;
        } else {
            item = parse_target_name(parser, with_namespace);
        }
        if (!jinja_nodes_add(parser, &items, item))
            return NULL;
        if (jinja_parse_is(parser, TOKEN_COMMA))
            is_tuple = true;
    } while (jinja_parse_skip(parser, TOKEN_COMMA));
    parser->depth--;
    if (!is_tuple)
        return items.items[0];
    struct jinja_node *node = jinja_parse_node(parser, NODE_TUPLE);
    if (node) {
        node->items = items.items;
        node->num_items = items.num_items;
    }
    return node;
}

/* ---- message content ---- */

/* Whether an expression is message content, or a part of it: x.content, x['content'] | ..., or a
 * variable set from that. */
static bool is_content(const struct jinja_parser *parser, const struct jinja_node *node)
{
    for (; node; node = node->a) {
        switch (node->type) {
        case NODE_NAME:
            return parser->is_content[node->symbol];
        case NODE_GETATTR:
            if (jinja_string_is(node->value.string, "content"))
                return true;
            break;
        case NODE_GETITEM:
            if (node->b && node->b->type == NODE_CONST && node->b->value.type == JINJA_STRING &&
                jinja_string_is(node->b->value.string, "content"))
                return true;
            break;
        case NODE_FILTER:
            break;
        default:
            return false;
        }
    }
    return false;
}

/* ---- statements ---- */

static struct jinja_node *parse_statement(struct jinja_parser *parser);

static bool expect_block_end(struct jinja_parser *parser)
{
    return jinja_parse_expect(parser, TOKEN_BLOCK_END);
}

/* The body of a block, up to and with the `{% end %}` of that name. */
static struct jinja_node *parse_block_body(struct jinja_parser *parser, const char *end)
{
    jinja_parse_skip(parser, TOKEN_COLON);
    if (!expect_block_end(parser))
        return NULL;
    struct jinja_node *body = jinja_parse_body(parser, end);
    if (!body)
        return NULL;
    parser->at++; /* the name */
    return expect_block_end(parser) ? body : NULL;
}

static struct jinja_node *parse_if(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_IF);
    const struct jinja_node *unknown = parser->unknown;
    struct jinja_nodes items = {0};

    if (!node)
        return NULL;
    for (;;) { /* at a condition */
        if (!jinja_nodes_add(parser, &items, jinja_parse_tuple(parser, TUPLE_NO_CONDITION)))
            return NULL;
        jinja_parse_skip(parser, TOKEN_COLON);
        if (!expect_block_end(parser) ||
            !jinja_nodes_add(parser, &items, jinja_parse_body(parser, "elif else endif ")))
            return NULL;
        if (!jinja_parse_skip_name(parser, "elif"))
            break;
    }
    if (jinja_parse_skip_name(parser, "else")) {
        jinja_parse_skip(parser, TOKEN_COLON);
        if (!expect_block_end(parser) || !(node->c = jinja_parse_body(parser, "endif ")))
            return NULL;
    }
    parser->at++; /* endif */
    parser->unknown = unknown;
    node->items = items.items;
    node->num_items = items.num_items;
    return expect_block_end(parser) ? node : NULL;
}

static struct jinja_node *parse_for(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_FOR);

    if (!node || !(node->a = parse_target(parser, false)))
        return NULL;
    if (!jinja_parse_skip_name(parser, "in")) {
        jinja_parse_unexpected(parser, "'in'");
        return NULL;
    }
    node->b = jinja_parse_tuple(parser, TUPLE_NO_CONDITION | TUPLE_STOP_AT_RECURSIVE);
    if (!node->b)
        return NULL;
    if (is_content(parser, node->b))
        parser->template->loops_over_content = true;
    if (jinja_parse_skip_name(parser, "if") && !(node->e = jinja_parse_expression(parser)))
        return NULL;
    node->flag = jinja_parse_skip_name(parser, "recursive");
    jinja_parse_skip(parser, TOKEN_COLON);
    if (!expect_block_end(parser))
        return NULL;
    parser->loop_depth++;
    node->c = jinja_parse_body(parser, "endfor else ");
    parser->loop_depth--;
    if (!node->c)
        return NULL;
    if (jinja_parse_skip_name(parser, "else")) {
        jinja_parse_skip(parser, TOKEN_COLON);
        if (!expect_block_end(parser) || !(node->d = jinja_parse_body(parser, "endfor ")))
            return NULL;
    }
    parser->at++; /* endfor */
    return expect_block_end(parser) ? node : NULL;
}

static struct jinja_node *parse_set(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_SET);

    if (!node || !(node->a = parse_target(parser, true)))
        return NULL;
    if (jinja_parse_skip(parser, TOKEN_ASSIGN)) {
        node->b = jinja_parse_tuple(parser, 0);
        if (!node->b)
            return NULL;
        if (node->a->type == NODE_NAME && is_content(parser, node->b))
            parser->is_content[node->a->symbol] = true;
        return expect_block_end(parser) ? node : NULL;
    }
    node->type = NODE_SET_BLOCK;
    struct jinja_node *place = jinja_parse_node(parser, NODE_PLACE);
    if (!place || !(node->b = jinja_parse_filters(parser, place, false)))
        return NULL;
    node->c = parse_block_body(parser, "endset ");
    return node->c ? node : NULL;
}

static struct jinja_node *parse_with(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_WITH);
    struct jinja_nodes items = {0};

    while (node && !jinja_parse_is(parser, TOKEN_BLOCK_END)) {
        if (items.num_items > 0 && !jinja_parse_expect(parser, TOKEN_COMMA))
            return NULL;
        struct jinja_node *target = parse_target_name(parser, false);
        if (!jinja_nodes_add(parser, &items, target) || !jinja_parse_expect(parser, TOKEN_ASSIGN) ||
            !jinja_nodes_add(parser, &items, jinja_parse_expression(parser)))
            return NULL;
    }
    if (!node || !(node->c = parse_block_body(parser, "endwith ")))
        return NULL;
    node->items = items.items;
    node->num_items = items.num_items;
    return node;
}

/* `(a, b=1)` behind a macro's name. */
static struct jinja_parameters *parse_parameters(struct jinja_parser *parser)
{
    struct jinja_parameters *parameters = jinja_parse_alloc(parser, 1, sizeof(*parameters));
    struct jinja_nodes names = {0}, defaults = {0};

    if (!parameters || !jinja_parse_expect(parser, TOKEN_LPAREN))
        return NULL;
    while (!jinja_parse_skip(parser, TOKEN_RPAREN)) {
        if (names.num_items > 0 && !jinja_parse_expect(parser, TOKEN_COMMA))
            return NULL;
        if (!jinja_nodes_add(parser, &names, parse_target_name(parser, false)))
            return NULL;
        if (jinja_parse_skip(parser, TOKEN_ASSIGN)) {
            if (!jinja_nodes_add(parser, &defaults, jinja_parse_expression(parser)))
                return NULL;
        } else if (defaults.num_items > 0) {
            jinja_parse_fail(parser, "non-default argument follows default argument");
            return NULL;
        }
    }
    size_t count = names.num_items;
    parameters->symbols = jinja_parse_alloc(parser, count, sizeof(*parameters->symbols));
    parameters->names = jinja_parse_alloc(parser, count, sizeof(*parameters->names));
    if (!parameters->symbols || !parameters->names)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        parameters->symbols[i] = names.items[i]->symbol;
        parameters->names[i] = names.items[i]->value;
    }
    parameters->num_symbols = count;
    parameters->defaults = defaults.items;
    parameters->num_defaults = defaults.num_items;
    return parameters;
}

/* The body of a macro or a call block, noting which of the special names it mentions. */
static bool parse_macro_body(struct jinja_parser *parser, struct jinja_node *macro,
                             struct jinja_parameters *parameters, const char *end)
{
    uint32_t mentioned = parser->mentioned;
    int loop_depth = parser->loop_depth;

    parser->mentioned = 0;
    parser->loop_depth = 0;
    macro->c = parse_block_body(parser, end);
    parser->loop_depth = loop_depth;
    parameters->uses_caller = parser->mentioned >> SYMBOL_CALLER & 1;
    parameters->uses_varargs = parser->mentioned >> SYMBOL_VARARGS & 1;
    parameters->uses_kwargs = parser->mentioned >> SYMBOL_KWARGS & 1;
    parser->mentioned |= mentioned;
    macro->parameters = parameters;
    return macro->c != NULL;
}

static struct jinja_node *parse_macro(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_MACRO);
    struct jinja_node *name = node ? parse_target_name(parser, false) : NULL;

    if (!name)
        return NULL;
    node->symbol = name->symbol;
    node->value = name->value;
    struct jinja_parameters *parameters = parse_parameters(parser);
    if (!parameters || !parse_macro_body(parser, node, parameters, "endmacro "))
        return NULL;
    return node;
}

static struct jinja_node *parse_call_block(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_CALL_BLOCK);
    struct jinja_node *macro = jinja_parse_node(parser, NODE_MACRO);
    struct jinja_parameters *parameters = NULL;

    if (!node || !macro ||
        !jinja_parse_text_value(parser, (struct json_text){"caller", 6}, &macro->value))
        return NULL;
    macro->symbol = SYMBOL_CALLER;
    if (jinja_parse_is(parser, TOKEN_LPAREN))
        parameters = parse_parameters(parser);
    else
        parameters = jinja_parse_alloc(parser, 1, sizeof(*parameters));
    if (!parameters || !(node->a = jinja_parse_expression(parser)))
        return NULL;
    if (node->a->type != NODE_CALL) {
        jinja_parse_fail(parser, "expected call");
        return NULL;
    }
    node->b = macro;
    return parse_macro_body(parser, macro, parameters, "endcall ") ? node : NULL;
}

static struct jinja_node *parse_filter_block(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_FILTER_BLOCK);
    struct jinja_node *place = jinja_parse_node(parser, NODE_PLACE);

    if (!node || !place || !(node->b = jinja_parse_filters(parser, place, true)))
        return NULL;
    node->c = parse_block_body(parser, "endfilter ");
    return node->c ? node : NULL;
}

/* `block name` without inheritance is its body. */
static struct jinja_node *parse_named_block(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_SCOPE);
    struct json_text name = jinja_parse_current(parser)->text;

    if (!node || !jinja_parse_expect(parser, TOKEN_NAME))
        return NULL;
    node->flag = !jinja_parse_skip_name(parser, "scoped");
    jinja_parse_skip_name(parser, "required");
    jinja_parse_skip(parser, TOKEN_COLON);
    if (!expect_block_end(parser) || !(node->c = jinja_parse_body(parser, "endblock ")))
        return NULL;
    parser->at++; /* endblock */
    if (jinja_parse_is(parser, TOKEN_NAME)) {
        struct json_text end = jinja_parse_current(parser)->text;
        if (end.size == name.size && memcmp(end.data, name.data, name.size) == 0)
            parser->at++;
    }
    return expect_block_end(parser) ? node : NULL;
}

static struct jinja_node *parse_generation(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_SCOPE);

    if (!node || !(node->c = parse_block_body(parser, "endgeneration ")))
        return NULL;
    return node;
}

static struct jinja_node *parse_loop_control(struct jinja_parser *parser, enum jinja_node_type type)
{
    if (parser->loop_depth == 0) {
        jinja_parse_fail(parser, "break and continue need a loop");
        return NULL;
    }
    struct jinja_node *node = jinja_parse_node(parser, type);
    return node && expect_block_end(parser) ? node : NULL;
}

/* Behind `{%`. */
static struct jinja_node *parse_statement(struct jinja_parser *parser)
{
    if (jinja_parse_skip_name(parser, "if"))
        return parse_if(parser);
    if (jinja_parse_skip_name(parser, "for"))
        return parse_for(parser);
    if (jinja_parse_skip_name(parser, "set"))
        return parse_set(parser);
    if (jinja_parse_skip_name(parser, "with"))
        return parse_with(parser);
    if (jinja_parse_skip_name(parser, "macro"))
        return parse_macro(parser);
    if (jinja_parse_skip_name(parser, "call"))
        return parse_call_block(parser);
    if (jinja_parse_skip_name(parser, "filter"))
        return parse_filter_block(parser);
    if (jinja_parse_skip_name(parser, "block"))
        return parse_named_block(parser);
    if (jinja_parse_skip_name(parser, "generation"))
        return parse_generation(parser);
    if (jinja_parse_skip_name(parser, "break"))
        return parse_loop_control(parser, NODE_BREAK);
    if (jinja_parse_skip_name(parser, "continue"))
        return parse_loop_control(parser, NODE_CONTINUE);
    jinja_parse_unexpected(parser, "a known tag");
    return NULL;
}

static bool is_one_of(struct json_text name, const char *names)
{
    for (const char *p = names; *p; p = strchr(p, ' ') + 1) {
        size_t size = (size_t)(strchr(p, ' ') - p);
        if (name.size == size && memcmp(name.data, p, size) == 0)
            return true;
    }
    return false;
}

static struct jinja_node *parse_print(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_PRINT);

    if (!node || !(node->a = jinja_parse_tuple(parser, 0)) ||
        !jinja_parse_expect(parser, TOKEN_VARIABLE_END))
        return NULL;
    return node;
}

static struct jinja_node *parse_data(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_DATA);

    if (!node || !jinja_parse_text_value(parser, jinja_parse_current(parser)->text, &node->value))
        return NULL;
    parser->at++;
    return node;
}

struct jinja_node *jinja_parse_body(struct jinja_parser *parser, const char *ends)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_SEQUENCE), *item = NULL;
    struct jinja_nodes items = {0};

    if (!node || !jinja_parse_enter(parser))
        return NULL;
    for (;;) {
        if (jinja_parse_is(parser, TOKEN_END)) {
            if (!*ends)
                break;
            jinja_parse_fail(parser, "unexpected end of template, looking for: %s", ends);
            return NULL;
        }
        if (jinja_parse_is(parser, TOKEN_DATA)) {
            item = parse_data(parser);
        } else if (jinja_parse_skip(parser, TOKEN_VARIABLE_BEGIN)) {
            item = parse_print(parser);
        } else if (!jinja_parse_expect(parser, TOKEN_BLOCK_BEGIN)) {
            return NULL;
        } else if (jinja_parse_is(parser, TOKEN_NAME) &&
                   is_one_of(jinja_parse_current(parser)->text, ends)) {
            break;
        } else {
            item = parse_statement(parser);
        }
        if (!jinja_nodes_add(parser, &items, item))
            return NULL;
    }
    parser->depth--;
    node->items = items.items;
    node->num_items = items.num_items;
    return node;
}
