/* jinja_parser.c - a template as a whole, and what all parts of the parser stand on. */
#include "tokenizer_proc/jinja_parser.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_proc/jinja.h"
#include "tokenizer_proc/jinja_string.h"

enum {
    MAX_DEPTH = 100,                     /* of nested expressions and blocks: bounds the stack */
    MAX_TEMPLATE_SIZE = 4 * 1024 * 1024, /* bytes */
};

/* ---- tools ---- */

bool jinja_parse_fail(struct jinja_parser *parser, const char *format, ...)
{
    char text[96];
    va_list args;

    if (parser->status.code)
        return false;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    parser->status =
        status_error(STATUS_FORMAT, "line %d: %s", (int)jinja_parse_current(parser)->line, text);
    return false;
}

bool jinja_parse_enter(struct jinja_parser *parser)
{
    if (parser->depth == MAX_DEPTH)
        return jinja_parse_fail(parser, "nested too deeply");
    parser->depth++;
    return true;
}

void *jinja_parse_alloc(struct jinja_parser *parser, size_t count, size_t size)
{
    void *data = arena_calloc(parser->arena, count, size);

    if (!data && !parser->status.code)
        parser->status = status_error(STATUS_NO_MEMORY, "no memory for a chat template");
    return data;
}

struct jinja_node *jinja_parse_node(struct jinja_parser *parser, enum jinja_node_type type)
{
    struct jinja_node *node = jinja_parse_alloc(parser, 1, sizeof(*node));

    if (node) {
        node->type = type;
        node->line = jinja_parse_current(parser)->line;
    }
    return node;
}

bool jinja_nodes_add(struct jinja_parser *parser, struct jinja_nodes *nodes,
                     struct jinja_node *node)
{
    if (!node)
        return false;
    if (nodes->num_items == nodes->capacity) {
        size_t capacity = nodes->capacity ? nodes->capacity * 2 : 4;
        struct jinja_node **items = jinja_parse_alloc(parser, capacity, sizeof(*items));
        if (!items)
            return false;
        if (nodes->num_items)
            memcpy(items, nodes->items, nodes->num_items * sizeof(*items));
        nodes->items = items;
        nodes->capacity = capacity;
    }
    nodes->items[nodes->num_items++] = node;
    return true;
}

const struct jinja_token *jinja_parse_current(const struct jinja_parser *parser)
{
    return &parser->tokens[parser->at];
}

bool jinja_parse_is(const struct jinja_parser *parser, enum jinja_token_type type)
{
    return jinja_parse_current(parser)->type == type;
}

bool jinja_parse_is_name(const struct jinja_parser *parser, const char *name)
{
    const struct jinja_token *token = jinja_parse_current(parser);

    return token->type == TOKEN_NAME && json_text_is(token->text, name);
}

bool jinja_parse_skip(struct jinja_parser *parser, enum jinja_token_type type)
{
    if (!jinja_parse_is(parser, type) || type == TOKEN_END)
        return false;
    parser->at++;
    return true;
}

bool jinja_parse_skip_name(struct jinja_parser *parser, const char *name)
{
    if (!jinja_parse_is_name(parser, name))
        return false;
    parser->at++;
    return true;
}

bool jinja_parse_unexpected(struct jinja_parser *parser, const char *expected)
{
    const struct jinja_token *token = jinja_parse_current(parser);

    if (token->type == TOKEN_NAME)
        return jinja_parse_fail(parser, "expected %s, got '%.*s'", expected,
                                token->text.size > 30 ? 30 : (int)token->text.size,
                                token->text.data);
    return jinja_parse_fail(parser, "expected %s, got '%s'", expected,
                            jinja_token_name(token->type));
}

bool jinja_parse_expect(struct jinja_parser *parser, enum jinja_token_type type)
{
    if (!jinja_parse_skip(parser, type))
        return jinja_parse_unexpected(parser, jinja_token_name(type));
    return true;
}

bool jinja_parse_text_value(struct jinja_parser *parser, struct json_text text,
                            struct jinja_value *out)
{
    struct jinja_string *string = jinja_parse_alloc(parser, 1, sizeof(*string));

    if (!string)
        return false;
    *string = (struct jinja_string){.data = text.data ? text.data : "", .size = text.size};
    *out = (struct jinja_value){.type = JINJA_STRING, .string = string};
    return true;
}

int32_t jinja_parse_symbol(struct jinja_parser *parser, struct json_text name)
{
    const struct jinja_value *known =
        jinja_dict_get_text(&parser->symbol_index, name.data, name.size);
    struct jinja_value text = {0};

    if (known)
        return (int32_t)known->integer;
    if (parser->num_symbols == parser->symbols_capacity) {
        int32_t capacity = parser->symbols_capacity ? parser->symbols_capacity * 2 : 32;
        size_t used = (size_t)parser->num_symbols;
        struct jinja_value *symbols = jinja_parse_alloc(parser, (size_t)capacity, sizeof(*symbols));
        bool *is_content = jinja_parse_alloc(parser, (size_t)capacity, sizeof(*is_content));
        if (!symbols || !is_content)
            return -1;
        if (used) {
            memcpy(symbols, parser->symbols, used * sizeof(*symbols));
            memcpy(is_content, parser->is_content, used * sizeof(*is_content));
        }
        parser->symbols = symbols;
        parser->is_content = is_content;
        parser->symbols_capacity = capacity;
    }
    if (!jinja_parse_text_value(parser, name, &text))
        return -1;
    if (!jinja_dict_set(&parser->run, &parser->symbol_index, text,
                        jinja_int(parser->num_symbols))) {
        jinja_parse_fail(parser, "no memory for a chat template");
        return -1;
    }
    parser->symbols[parser->num_symbols] = text;
    parser->is_content[parser->num_symbols] = json_text_is(name, "content");
    return parser->num_symbols++;
}

/* ---- templates ---- */

static bool add_fixed_symbols(struct jinja_parser *parser)
{
    static const char *const names[NUM_FIXED_SYMBOLS] = {"loop", "caller", "varargs", "kwargs"};

    for (size_t i = 0; i < NUM_FIXED_SYMBOLS; i++) {
        if (jinja_parse_symbol(parser, (struct json_text){names[i], strlen(names[i])}) < 0)
            return false;
    }
    return true;
}

static struct status parse_template(struct jinja_template *template, const char *source,
                                    size_t size)
{
    struct jinja_token *tokens = NULL;
    size_t num_tokens = 0;

    struct status status = jinja_lex(source, size, &template->arena, &tokens, &num_tokens);
    if (status.code)
        return status;
    struct jinja_parser parser = {
        .template = template,
        .arena = &template->arena,
        .tokens = tokens,
        .run = {.arena = &template->arena, .max_steps = SIZE_MAX, .max_memory = SIZE_MAX},
    };
    if (add_fixed_symbols(&parser))
        template->root = jinja_parse_body(&parser, "");
    if (!parser.status.code && parser.unknown) {
        const struct jinja_string *name = parser.unknown->value.string;
        return status_error(STATUS_FORMAT, "line %d: no %s named '%.*s'", (int)parser.unknown->line,
                            parser.unknown->type == NODE_TEST ? "test" : "filter",
                            name->size > 60 ? 60 : (int)name->size, name->data);
    }
    if (!parser.status.code && !template->root)
        return status_error(STATUS_NO_MEMORY, "no memory for a chat template");
    template->symbols = parser.symbols;
    template->num_symbols = parser.num_symbols;
    return parser.status;
}

struct status jinja_compile(const char *source, size_t size, struct jinja_template **out)
{
    struct status status;
    struct jinja_template *template = NULL;

    if (size > MAX_TEMPLATE_SIZE)
        return status_error(STATUS_INVALID, "a template of %zu bytes is too long", size);
    template = calloc(1, sizeof(*template));
    if (!template)
        return status_error(STATUS_NO_MEMORY, "no memory for a chat template");
    arena_init(&template->arena, 0, 0);
    status = parse_template(template, source, size);
    if (status.code)
        goto out;
    *out = template;
    template = NULL;
out:
    jinja_destroy(&template);
    return status;
}

void jinja_destroy(struct jinja_template **template_ptr)
{
    struct jinja_template *template = *template_ptr;

    if (!template)
        return;
    arena_deinit(&template->arena);
    free(template);
    *template_ptr = NULL;
}

bool jinja_loops_over_content(const struct jinja_template *template)
{
    return template->loops_over_content;
}
