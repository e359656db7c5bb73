/*
 * chat_template.c - see chat_template.h.
 */
#include "tokenizer_proc/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "tokenizer_proc/jinja.h"

enum {
    MAX_CONFIG_SIZE = 64 * 1024 * 1024, /* bytes: tokenizer_config.json lists all added tokens */
    MAX_PATH_SIZE = 4096,
    MAX_VARIABLES = 16,
};

static const char *const special_names[] = {
    "bos_token", "eos_token", "unk_token",  "sep_token",
    "pad_token", "cls_token", "mask_token", "additional_special_tokens",
};
enum { NUM_SPECIALS = sizeof(special_names) / sizeof(special_names[0]) };

struct chat_template {
    struct arena arena; /* owned: what the specials point to */
    struct jinja_template *main;
    struct jinja_template *tool_use; /* NULL: main serves requests with tools, too */
    const struct json_value *specials[NUM_SPECIALS]; /* NULL: not set */
};

/* ---- files ---- */

/* The JSON object in dir/name, parsed into the arena; NULL if there is no such file. */
static struct status read_json(const char *dir, const char *name, struct arena *arena,
                               const struct json_value **out)
{
    struct json_value *value = NULL;
    struct status status = json_parse_file(dir, name, MAX_CONFIG_SIZE, arena, &value);

    *out = NULL;
    if (status.code)
        return status.code == STATUS_NOT_FOUND ? status_ok() : status;
    if (value->type != JSON_OBJECT)
        return status_error(STATUS_FORMAT, "%s: not a JSON object", name);
    *out = value;
    return status;
}

/* A token as its text: from "<s>" or {"content": "<s>", ...}. */
static const struct json_value *token_text(const struct json_value *value)
{
    if (value && value->type == JSON_OBJECT)
        value = json_get(value, "content");
    return value && value->type == JSON_STRING ? value : NULL;
}

static struct status token_list(const struct json_value *value, struct arena *arena,
                                const struct json_value **out)
{
    struct json_value *list = arena_calloc(arena, 1, sizeof(*list));
    struct json_value *items = arena_calloc(arena, value->num_items, sizeof(*items));

    if (!list || !items)
        return status_error(STATUS_NO_MEMORY, "no memory for special tokens");
    *list = (struct json_value){.type = JSON_ARRAY, .items = items};
    for (size_t i = 0; i < value->num_items; i++) {
        const struct json_value *text = token_text(&value->items[i]);
        if (text)
            items[list->num_items++] = *text;
    }
    *out = list;
    return status_ok();
}

/* Takes the special tokens that are not known yet. */
static struct status take_specials(struct chat_template *template, const struct json_value *config)
{
    for (size_t i = 0; i < NUM_SPECIALS; i++) {
        const struct json_value *value = json_get(config, special_names[i]);
        if (template->specials[i] || !value)
            continue;
        if (value->type != JSON_ARRAY) {
            template->specials[i] = token_text(value);
            continue;
        }
        struct status status = token_list(value, &template->arena, &template->specials[i]);
        if (status.code)
            return status;
    }
    return status_ok();
}

/* ---- finding the template ---- */

static struct status compile(const struct json_value *source, const char *where,
                             struct jinja_template **out)
{
    if (!source || source->type != JSON_STRING)
        return status_error(STATUS_FORMAT, "%s: chat_template is no text", where);
    return status_context(jinja_compile(source->text.data, source->text.size, out), where);
}

/* "chat_template" as a text or as a list of {"name", "template"}. */
static struct status compile_config(struct chat_template *template, const struct json_value *value,
                                    const char *where)
{
    const struct json_value *main = NULL, *tool_use = NULL;

    if (value->type != JSON_ARRAY)
        return compile(value, where, &template->main);
    for (size_t i = 0; i < value->num_items; i++) {
        const struct json_value *item = &value->items[i];
        if (json_is(json_get(item, "name"), "default"))
            main = json_get(item, "template");
        else if (json_is(json_get(item, "name"), "tool_use"))
            tool_use = json_get(item, "template");
    }
    if (!main)
        return status_error(STATUS_UNSUPPORTED, "%s: no chat template is named \"default\"", where);
    struct status status = compile(main, where, &template->main);
    if (!status.code && tool_use)
        status = compile(tool_use, where, &template->tool_use);
    return status;
}

static struct status compile_file(struct chat_template *template, const char *path)
{
    char *source = NULL;
    size_t size = 0;

    struct status status = file_read(path, MAX_CONFIG_SIZE, &source, &size);
    if (status.code)
        return status;
    status = status_context(jinja_compile(source, size, &template->main), path);
    free(source);
    return status;
}

static struct status find_template(struct chat_template *template, const char *dir,
                                   const struct json_value *config)
{
    char path[MAX_PATH_SIZE];
    const struct json_value *value = json_get(config, "chat_template");

    struct status status = path_join(dir, "chat_template.jinja", path, sizeof(path));
    if (status.code)
        return status;
    status = compile_file(template, path);
    if (status.code != STATUS_NOT_FOUND)
        return status;
    if (value && value->type != JSON_NULL)
        return compile_config(template, value, "tokenizer_config.json");
    status = read_json(dir, "chat_template.json", &template->arena, &config);
    if (status.code)
        return status;
    value = json_get(config, "chat_template");
    if (value && value->type != JSON_NULL)
        return compile_config(template, value, "chat_template.json");
    return status_error(STATUS_NOT_FOUND, "%s: the model has no chat template", dir);
}

static struct status load(struct chat_template *template, const char *path, const char *dir)
{
    const struct json_value *config = NULL, *map = NULL;
    struct status status = status_ok();

    if (dir) {
        status = read_json(dir, "tokenizer_config.json", &template->arena, &config);
        if (!status.code)
            status = read_json(dir, "special_tokens_map.json", &template->arena, &map);
        if (!status.code)
            status = take_specials(template, config);
        if (!status.code)
            status = take_specials(template, map);
        if (status.code)
            return status;
    }
    return path ? compile_file(template, path) : find_template(template, dir, config);
}

static struct status open_template(const char *path, const char *dir, struct chat_template **out)
{
    struct chat_template *template = calloc(1, sizeof(*template));

    if (!template)
        return status_error(STATUS_NO_MEMORY, "no memory for a chat template");
    arena_init(&template->arena, 0, 0);
    struct status status = load(template, path, dir);
    if (status.code) {
        chat_template_destroy(&template);
        return status;
    }
    *out = template;
    return status;
}

struct status chat_template_open(const char *dir, struct chat_template **out)
{
    return open_template(NULL, dir, out);
}

struct status chat_template_open_file(const char *path, const char *dir, struct chat_template **out)
{
    return open_template(path, dir, out);
}

void chat_template_destroy(struct chat_template **template_ptr)
{
    struct chat_template *template = *template_ptr;

    if (!template)
        return;
    jinja_destroy(&template->main);
    jinja_destroy(&template->tool_use);
    arena_deinit(&template->arena);
    free(template);
    *template_ptr = NULL;
}

/* ---- content parts ---- */

/* The texts of a list of parts, side by side. */
static struct status join_parts(const struct json_value *parts, size_t message, struct arena *arena,
                                struct json_text *out)
{
    size_t size = 0;

    for (size_t i = 0; i < parts->num_items; i++) {
        const struct json_value *part = &parts->items[i];
        const struct json_value *text = json_get(part, "text");
        if (part->type == JSON_STRING)
            text = part;
        else if (!json_is(json_get(part, "type"), "text"))
            return status_error(STATUS_INVALID,
                                "messages[%zu].content[%zu]: only parts of type text are supported",
                                message, i);
        if (!text || text->type != JSON_STRING)
            return status_error(STATUS_INVALID, "messages[%zu].content[%zu].text: must be a string",
                                message, i);
        size += text->text.size;
    }
    char *joined = arena_alloc(arena, size + 1);
    if (!joined)
        return status_error(STATUS_NO_MEMORY, "no memory for messages");
    *out = (struct json_text){joined, size};
    for (size_t i = 0; i < parts->num_items; i++) {
        const struct json_value *part = &parts->items[i];
        const struct json_value *text = part->type == JSON_STRING ? part : json_get(part, "text");
        memcpy(joined, text->text.data, text->text.size);
        joined += text->text.size;
    }
    *joined = '\0';
    return status_ok();
}

/* A copy of the message with its content joined, if that is a list. */
static struct status join_message(struct json_value *message, size_t index, struct arena *arena)
{
    const struct json_value *content = json_get(message, "content");

    if (!content || content->type != JSON_ARRAY)
        return status_ok();
    struct json_value *items = arena_calloc(arena, message->num_items, sizeof(*items));
    if (!items)
        return status_error(STATUS_NO_MEMORY, "no memory for messages");
    memcpy(items, message->items, message->num_items * sizeof(*items));
    struct json_value joined = {.type = JSON_STRING};
    struct status status = join_parts(content, index, arena, &joined.text);
    if (status.code)
        return status;
    for (size_t i = 0; i < message->num_items; i++) {
        if (json_text_is(message->keys[i], "content"))
            items[i] = joined;
    }
    message->items = items;
    return status_ok();
}

static struct status join_messages(const struct json_value *messages, struct arena *arena,
                                   const struct json_value **out)
{
    struct json_value *copy = arena_calloc(arena, 1, sizeof(*copy));
    struct json_value *items = arena_calloc(arena, messages->num_items, sizeof(*items));
    struct status status = status_ok();

    if (!copy || !items)
        return status_error(STATUS_NO_MEMORY, "no memory for messages");
    if (messages->num_items)
        memcpy(items, messages->items, messages->num_items * sizeof(*items));
    for (size_t i = 0; i < messages->num_items && !status.code; i++)
        status = join_message(&items[i], i, arena);
    *copy = *messages;
    copy->items = items;
    *out = copy;
    return status;
}

/* ---- rendering ---- */

struct variables {
    struct jinja_variable *items;
    size_t num_items;
};

static void add_variable(struct variables *variables, const char *name,
                         const struct json_value *value, bool from_caller)
{
    variables->items[variables->num_items++] =
        (struct jinja_variable){.name = name, .value = value, .from_caller = from_caller};
}

/* Of two variables with one name the later wins: special tokens, kwargs, then the fixed ones. */
static struct status add_variables(const struct chat_template *template,
                                   const struct chat_args *args, struct arena *arena,
                                   struct variables *out)
{
    const struct json_value *own = args->special_tokens;
    bool has_own = own && own->type == JSON_OBJECT;
    size_t num_kwargs = args->kwargs ? args->kwargs->num_items : 0;
    size_t num_specials = has_own ? own->num_items : NUM_SPECIALS;
    struct json_value *prompt = arena_calloc(arena, 1, sizeof(*prompt));

    out->items =
        arena_calloc(arena, num_kwargs + num_specials + MAX_VARIABLES, sizeof(*out->items));
    if (!prompt || !out->items)
        return status_error(STATUS_NO_MEMORY, "no memory for messages");
    *prompt = (struct json_value){.type = JSON_BOOL, .boolean = args->add_generation_prompt};
    for (size_t i = 0; i < num_specials; i++) {
        if (has_own)
            add_variable(out, own->keys[i].data, &own->items[i], false);
        else if (template->specials[i])
            add_variable(out, special_names[i], template->specials[i], false);
    }
    for (size_t i = 0; i < num_kwargs; i++)
        add_variable(out, args->kwargs->keys[i].data, &args->kwargs->items[i], true);
    add_variable(out, "tools", args->tools, true);
    add_variable(out, "documents", json_get(args->kwargs, "documents"), true);
    add_variable(out, "add_generation_prompt", prompt, true);
    return status_ok();
}

static struct status check_args(const struct chat_args *args)
{
    if (!args->messages || args->messages->type != JSON_ARRAY)
        return status_error(STATUS_INVALID, "messages: must be a list");
    for (size_t i = 0; i < args->messages->num_items; i++) {
        if (args->messages->items[i].type != JSON_OBJECT)
            return status_error(STATUS_INVALID, "messages[%zu]: must be an object", i);
    }
    if (args->tools && args->tools->type != JSON_ARRAY && args->tools->type != JSON_NULL)
        return status_error(STATUS_INVALID, "tools: must be a list");
    if (args->kwargs && args->kwargs->type != JSON_OBJECT && args->kwargs->type != JSON_NULL)
        return status_error(STATUS_INVALID, "kwargs: must be an object");
    if (args->special_tokens && args->special_tokens->type != JSON_OBJECT &&
        args->special_tokens->type != JSON_NULL)
        return status_error(STATUS_INVALID, "special_tokens: must be an object");
    return status_ok();
}

struct status chat_template_render(const struct chat_template *template,
                                   const struct chat_args *args, struct arena *arena,
                                   struct chat_text *out)
{
    const struct json_value *messages = args->messages;
    bool has_tools = args->tools && args->tools->num_items > 0;
    const struct jinja_template *chosen =
        has_tools && template->tool_use ? template->tool_use : template->main;
    struct variables variables = {0};
    struct jinja_output output = {0};

    struct status status = check_args(args);
    if (status.code)
        return status;
    if (args->join_parts && !jinja_loops_over_content(chosen)) {
        status = join_messages(args->messages, arena, &messages);
        if (status.code)
            return status;
    }
    status = add_variables(template, args, arena, &variables);
    if (status.code)
        return status;
    add_variable(&variables, "messages", messages, true);
    struct jinja_args jinja_args = {
        .variables = variables.items,
        .num_variables = variables.num_items,
        .now = args->now,
    };
    status = jinja_render(chosen, &jinja_args, arena, &output);
    if (status.code)
        return status;
    *out = (struct chat_text){output.text, output.size, output.ranges, output.num_ranges};
    return status;
}
