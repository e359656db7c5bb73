/*
 * jinja_parse_expression.c - expressions. See jinja_parser.h.
 *
 * From loose to tight: if-else, or, and, not, comparisons and in, + -, ~, * / // %, **, signs,
 * postfix (. [] ()) with filters and tests. All binary operators go from the left, ** too. One
 * function climbs through the levels, so that nesting costs little stack.
 */
#include <string.h>

#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_parser.h"
#include "tokenizer_proc/jinja_string.h"

enum level {
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_ADD,
    LEVEL_CONCAT,
    LEVEL_MULTIPLY,
    LEVEL_POWER,
    LEVEL_NONE
};

/* ---- atoms ---- */

static struct jinja_node *constant(struct jinja_parser *parser, struct jinja_value value)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_CONST);

    if (node)
        node->value = value;
    return node;
}

static struct jinja_node *text_constant(struct jinja_parser *parser, struct json_text text)
{
    struct jinja_value value = {0};

    return jinja_parse_text_value(parser, text, &value) ? constant(parser, value) : NULL;
}

/* Strings side by side are one. */
static struct jinja_node *parse_strings(struct jinja_parser *parser)
{
    struct json_text text = jinja_parse_current(parser)->text;
    const struct jinja_token *first = jinja_parse_current(parser);
    size_t size = 0, count = 0;

    for (; jinja_parse_is(parser, TOKEN_STRING); parser->at++, count++)
        size += jinja_parse_current(parser)->text.size;
    if (count > 1) {
        char *joined = jinja_parse_alloc(parser, size + 1, 1);
        if (!joined)
            return NULL;
        text = (struct json_text){joined, 0};
        for (size_t i = 0; i < count; i++) {
            memcpy(joined + text.size, first[i].text.data, first[i].text.size);
            text.size += first[i].text.size;
        }
    }
    return text_constant(parser, text);
}

static struct jinja_node *parse_number(struct jinja_parser *parser)
{
    const struct jinja_token *token = jinja_parse_current(parser);
    struct jinja_value value = jinja_none();
    double number = 0.0;
    bool ok = false;

    parser->at++;
    if (token->type == TOKEN_FLOAT) {
        if (!jinja_parse_float(token->text.data, token->text.size, &number)) {
            jinja_parse_fail(parser, "bad number");
            return NULL;
        }
        return constant(parser, jinja_float(number));
    }
    if (!jinja_parse_int(&parser->run, token->text.data, token->text.size, 0, &ok, &value) || !ok) {
        jinja_parse_fail(parser, "bad number");
        return NULL;
    }
    return constant(parser, value);
}

static struct jinja_node *parse_name(struct jinja_parser *parser)
{
    static const struct {
        const char *name;
        struct jinja_value value;
    } constants[] = {
        {"true", {.type = JINJA_BOOL, .boolean = true}},
        {"True", {.type = JINJA_BOOL, .boolean = true}},
        {"false", {.type = JINJA_BOOL}},
        {"False", {.type = JINJA_BOOL}},
        {"none", {.type = JINJA_NONE}},
        {"None", {.type = JINJA_NONE}},
    };
    struct json_text text = jinja_parse_current(parser)->text;

    parser->at++;
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (json_text_is(text, constants[i].name))
            return constant(parser, constants[i].value);
    }
    struct jinja_node *node = jinja_parse_node(parser, NODE_NAME);
    if (!node || !jinja_parse_text_value(parser, text, &node->value))
        return NULL;
    node->symbol = jinja_parse_symbol(parser, text);
    if (node->symbol < 0)
        return NULL;
    if (node->symbol < NUM_FIXED_SYMBOLS)
        parser->mentioned |= 1u << node->symbol;
    return node;
}

/* Behind the opening bracket, up to and with the closing one. */
static struct jinja_node *parse_list(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_LIST);
    struct jinja_nodes items = {0};

    while (node && !jinja_parse_skip(parser, TOKEN_RBRACKET)) {
        if (items.num_items > 0 && !jinja_parse_expect(parser, TOKEN_COMMA))
            return NULL;
        if (items.num_items > 0 && jinja_parse_skip(parser, TOKEN_RBRACKET))
            break;
        if (!jinja_nodes_add(parser, &items, jinja_parse_expression(parser)))
            return NULL;
    }
    if (node) {
        node->items = items.items;
        node->num_items = items.num_items;
    }
    return node;
}

static struct jinja_node *parse_dict(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_DICT);
    struct jinja_nodes items = {0};

    while (node && !jinja_parse_skip(parser, TOKEN_RBRACE)) {
        if (items.num_items > 0 && !jinja_parse_expect(parser, TOKEN_COMMA))
            return NULL;
        if (items.num_items > 0 && jinja_parse_skip(parser, TOKEN_RBRACE))
            break;
        if (!jinja_nodes_add(parser, &items, jinja_parse_expression(parser)) ||
            !jinja_parse_expect(parser, TOKEN_COLON) ||
            !jinja_nodes_add(parser, &items, jinja_parse_expression(parser)))
            return NULL;
    }
    if (node) {
        node->items = items.items;
        node->num_items = items.num_items;
    }
    return node;
}

static struct jinja_node *parse_primary(struct jinja_parser *parser)
{
    struct jinja_node *node = NULL;

    switch (jinja_parse_current(parser)->type) {
    case TOKEN_NAME:
        return parse_name(parser);
    case TOKEN_STRING:
        return parse_strings(parser);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
        return parse_number(parser);
    case TOKEN_LPAREN:
        parser->at++;
        node = jinja_parse_tuple(parser, TUPLE_PARENTHESES);
        return node && jinja_parse_expect(parser, TOKEN_RPAREN) ? node : NULL;
    case TOKEN_LBRACKET:
        parser->at++;
        return parse_list(parser);
    case TOKEN_LBRACE:
        parser->at++;
        return parse_dict(parser);
    default:
        jinja_parse_unexpected(parser, "an expression");
        return NULL;
    }
}

/* ---- postfix ---- */

static struct jinja_node *parse_attribute(struct jinja_parser *parser, struct jinja_node *object)
{
    const struct jinja_token *token = jinja_parse_current(parser);
    struct jinja_node *node = NULL;

    if (token->type == TOKEN_INTEGER) {
        node = jinja_parse_node(parser, NODE_GETITEM);
        if (!node)
            return NULL;
        node->a = object;
        node->b = parse_number(parser);
        return node->b ? node : NULL;
    }
    if (!jinja_parse_expect(parser, TOKEN_NAME))
        return NULL;
    node = jinja_parse_node(parser, NODE_GETATTR);
    if (!node || !jinja_parse_text_value(parser, token->text, &node->value))
        return NULL;
    node->a = object;
    return node;
}

static bool at_slice_end(const struct jinja_parser *parser)
{
    return jinja_parse_is(parser, TOKEN_COLON) || jinja_parse_is(parser, TOKEN_RBRACKET) ||
           jinja_parse_is(parser, TOKEN_COMMA);
}

static struct jinja_node *parse_index(struct jinja_parser *parser)
{
    struct jinja_node *first = NULL;

    if (!jinja_parse_is(parser, TOKEN_COLON)) {
        first = jinja_parse_expression(parser);
        if (!first || !jinja_parse_is(parser, TOKEN_COLON))
            return first;
    }
    struct jinja_node *node = jinja_parse_node(parser, NODE_SLICE);
    if (!node)
        return NULL;
    node->a = first;
    parser->at++;
    if (!at_slice_end(parser) && !(node->b = jinja_parse_expression(parser)))
        return NULL;
    if (jinja_parse_skip(parser, TOKEN_COLON) && !at_slice_end(parser) &&
        !(node->c = jinja_parse_expression(parser)))
        return NULL;
    return node;
}

static struct jinja_node *parse_subscript(struct jinja_parser *parser, struct jinja_node *object)
{
    struct jinja_node *node = jinja_parse_node(parser, NODE_GETITEM);
    struct jinja_nodes items = {0};

    while (node && !jinja_parse_skip(parser, TOKEN_RBRACKET)) {
        if (items.num_items > 0 && !jinja_parse_expect(parser, TOKEN_COMMA))
            return NULL;
        if (!jinja_nodes_add(parser, &items, parse_index(parser)))
            return NULL;
    }
    if (!node)
        return NULL;
    node->a = object;
    if (items.num_items == 1) {
        node->b = items.items[0];
        return node;
    }
    node->b = jinja_parse_node(parser, NODE_TUPLE);
    if (!node->b)
        return NULL;
    node->b->items = items.items;
    node->b->num_items = items.num_items;
    return node;
}

/* . [] () any number of times, then filters and tests, each of which may be called. */
static struct jinja_node *parse_postfix(struct jinja_parser *parser, struct jinja_node *node,
                                        bool with_filter)
{
    bool filtered = false;

    while (node) {
        if (jinja_parse_is(parser, TOKEN_LPAREN)) {
            node = jinja_parse_call(parser, node);
        } else if (!filtered && jinja_parse_skip(parser, TOKEN_DOT)) {
            node = parse_attribute(parser, node);
        } else if (!filtered && jinja_parse_skip(parser, TOKEN_LBRACKET)) {
            node = parse_subscript(parser, node);
        } else if (with_filter && jinja_parse_is(parser, TOKEN_PIPE)) {
            filtered = true;
            node = jinja_parse_filters(parser, node, false);
        } else if (with_filter && jinja_parse_skip_name(parser, "is")) {
            filtered = true;
            node = jinja_parse_test(parser, node);
        } else {
            break;
        }
    }
    return node;
}

struct jinja_node *jinja_parse_unary(struct jinja_parser *parser, bool with_filter)
{
    struct jinja_node *node = NULL;

    if (!jinja_parse_enter(parser))
        return NULL;
    if (jinja_parse_is(parser, TOKEN_SUB) || jinja_parse_is(parser, TOKEN_ADD)) {
        node = jinja_parse_node(parser, jinja_parse_is(parser, TOKEN_SUB) ? NODE_NEG : NODE_POS);
        parser->at++;
        if (node && !(node->a = jinja_parse_unary(parser, false)))
            node = NULL;
    } else {
        node = parse_primary(parser);
    }
    parser->depth--;
    return node ? parse_postfix(parser, node, with_filter) : NULL;
}

/* ---- operators ---- */

/* The operator at the current token: its level and letter; the tokens that it takes. */
static enum level current_operator(const struct jinja_parser *parser, char *letter, size_t *length)
{
    static const struct {
        enum jinja_token_type type;
        enum level level;
        char letter;
    } operators[] = {
        {TOKEN_EQ, LEVEL_COMPARE, '='},   {TOKEN_NE, LEVEL_COMPARE, '!'},
        {TOKEN_LT, LEVEL_COMPARE, '<'},   {TOKEN_LE, LEVEL_COMPARE, 'l'},
        {TOKEN_GT, LEVEL_COMPARE, '>'},   {TOKEN_GE, LEVEL_COMPARE, 'g'},
        {TOKEN_ADD, LEVEL_ADD, '+'},      {TOKEN_SUB, LEVEL_ADD, '-'},
        {TOKEN_TILDE, LEVEL_CONCAT, '~'}, {TOKEN_MUL, LEVEL_MULTIPLY, '*'},
        {TOKEN_DIV, LEVEL_MULTIPLY, '/'}, {TOKEN_FLOORDIV, LEVEL_MULTIPLY, 'f'},
        {TOKEN_MOD, LEVEL_MULTIPLY, '%'}, {TOKEN_POW, LEVEL_POWER, 'p'},
    };
    const struct jinja_token *token = jinja_parse_current(parser);

    *length = 1;
    *letter = '\0';
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (token->type == operators[i].type) {
            *letter = operators[i].letter;
            return operators[i].level;
        }
    }
    if (token->type != TOKEN_NAME)
        return LEVEL_NONE;
    if (json_text_is(token->text, "or"))
        return LEVEL_OR;
    if (json_text_is(token->text, "and"))
        return LEVEL_AND;
    if (json_text_is(token->text, "in")) {
        *letter = 'i';
        return LEVEL_COMPARE;
    }
    if (json_text_is(token->text, "not") && token[1].type == TOKEN_NAME &&
        json_text_is(token[1].text, "in")) {
        *letter = 'n';
        *length = 2;
        return LEVEL_COMPARE;
    }
    return LEVEL_NONE;
}

static enum jinja_node_type node_type_of(enum level level)
{
    switch (level) {
    case LEVEL_OR:
        return NODE_OR;
    case LEVEL_AND:
        return NODE_AND;
    case LEVEL_COMPARE:
        return NODE_COMPARE;
    case LEVEL_CONCAT:
        return NODE_CONCAT;
    default:
        return NODE_BINARY;
    }
}

/* Letters of a chain's operators. */
struct letters {
    char *data;
    size_t size, capacity;
};

static bool add_letter(struct jinja_parser *parser, struct letters *letters, char letter)
{
    if (letters->size == letters->capacity) {
        size_t capacity = letters->capacity ? letters->capacity * 2 : 8;
        char *data = jinja_parse_alloc(parser, capacity, 1);
        if (!data)
            return false;
        if (letters->size)
            memcpy(data, letters->data, letters->size);
        letters->data = data;
        letters->capacity = capacity;
    }
    letters->data[letters->size++] = letter;
    return true;
}

static struct jinja_node *parse_binary(struct jinja_parser *parser, enum level lowest);

/* left op right op right ...: all operators of one level, in one node. */
static struct jinja_node *parse_chain(struct jinja_parser *parser, struct jinja_node *left,
                                      enum level level)
{
    struct jinja_node *node = jinja_parse_node(parser, node_type_of(level));
    struct jinja_nodes items = {0};
    struct letters letters = {0};
    char letter = '\0';
    size_t length = 0;

    if (!node || !jinja_nodes_add(parser, &items, left))
        return NULL;
    while (current_operator(parser, &letter, &length) == level) {
        parser->at += length;
        if (!add_letter(parser, &letters, letter) ||
            !jinja_nodes_add(parser, &items, parse_binary(parser, level + 1)))
            return NULL;
    }
    node->items = items.items;
    node->num_items = items.num_items;
    node->operators = letters.data;
    return node;
}

static struct jinja_node *parse_binary(struct jinja_parser *parser, enum level lowest)
{
    struct jinja_node *left = NULL;
    char letter = '\0';
    size_t length = 0;

    if (lowest <= LEVEL_NOT && jinja_parse_skip_name(parser, "not")) {
        left = jinja_parse_node(parser, NODE_NOT);
        if (!left || !jinja_parse_enter(parser))
            return NULL;
        left->a = parse_binary(parser, LEVEL_NOT);
        parser->depth--;
        if (!left->a)
            return NULL;
    } else {
        left = jinja_parse_unary(parser, true);
    }
    while (left) {
        enum level level = current_operator(parser, &letter, &length);
        if (level == LEVEL_NONE || level < lowest)
            break;
        left = parse_chain(parser, left, level);
    }
    return left;
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *parser)
{
    const struct jinja_node *unknown = parser->unknown;

    if (!jinja_parse_enter(parser))
        return NULL;
    struct jinja_node *node = parse_binary(parser, LEVEL_OR);
    while (node && jinja_parse_skip_name(parser, "if")) {
        struct jinja_node *condition = jinja_parse_node(parser, NODE_CONDITION);
        if (!condition || !(condition->b = parse_binary(parser, LEVEL_OR)))
            return NULL;
        if (jinja_parse_skip_name(parser, "else") &&
            !(condition->c = jinja_parse_expression(parser)))
            return NULL;
        condition->a = node;
        node = condition;
        parser->unknown = unknown; /* what is conditional may lack its filters until it runs */
    }
    parser->depth--;
    return node;
}

static bool at_tuple_end(const struct jinja_parser *parser, int flags)
{
    switch (jinja_parse_current(parser)->type) {
    case TOKEN_VARIABLE_END:
    case TOKEN_BLOCK_END:
    case TOKEN_RPAREN:
        return true;
    default:
        return flags & TUPLE_STOP_AT_RECURSIVE && jinja_parse_is_name(parser, "recursive");
    }
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, int flags)
{
    struct jinja_nodes items = {0};
    bool is_tuple = false;

    while (!at_tuple_end(parser, flags)) {
        if (!jinja_nodes_add(parser, &items,
                             flags & TUPLE_NO_CONDITION ? parse_binary(parser, LEVEL_OR)
                                                        : jinja_parse_expression(parser)))
            return NULL;
        if (!jinja_parse_skip(parser, TOKEN_COMMA)) {
            if (!is_tuple)
                return items.items[0];
            break;
        }
        is_tuple = true;
    }
    if (items.num_items == 0 && !(flags & TUPLE_PARENTHESES)) {
        jinja_parse_unexpected(parser, "an expression");
        return NULL;
    }
    struct jinja_node *node = jinja_parse_node(parser, NODE_TUPLE);
    if (!node)
        return NULL;
    node->items = items.items;
    node->num_items = items.num_items;
    return node;
}
