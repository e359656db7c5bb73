/*
 * json_tree.c - the tree of json.h, built in a loop over the pull reader that keeps its own stack,
 * so nesting never recurses.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json_internal.h"

/* Items of a container under construction, in a list of doubling arrays. */
struct json_frame {
    struct json_value *container;
    size_t capacity;
};

static bool keep_text(struct json_reader *reader, struct arena *arena, struct json_text *text)
{
    char *copy = arena_copy(arena, text->data, text->size);

    if (!copy)
        return json_fail_memory(reader);
    text->data = copy;
    return true;
}

static bool read_scalar(struct json_reader *reader, struct arena *arena, struct json_value *value)
{
    switch (value->type) {
    case JSON_STRING:
        return json_read_string(reader, &value->text) && keep_text(reader, arena, &value->text);
    case JSON_BOOL:
        return json_read_bool(reader, &value->boolean);
    case JSON_NULL:
        return !reader->status.code && json_skip(reader);
    default:
        return json_read_number(reader, value) && keep_text(reader, arena, &value->text);
    }
}

/* A new item at the end of the frame's container; NULL on an error. */
static struct json_value *add_item(struct json_reader *reader, struct arena *arena,
                                   struct json_frame *frame, struct json_text key)
{
    struct json_value *container = frame->container;
    bool object = container->type == JSON_OBJECT;

    if (container->num_items == frame->capacity) {
        size_t capacity = frame->capacity ? frame->capacity * 2 : 4;
        struct json_value *items = arena_calloc(arena, capacity, sizeof(*items));
        struct json_text *keys = object ? arena_calloc(arena, capacity, sizeof(*keys)) : NULL;
        if (!items || (object && !keys)) {
            json_fail_memory(reader);
            return NULL;
        }
        if (container->num_items) {
            memcpy(items, container->items, container->num_items * sizeof(*items));
            if (object)
                memcpy(keys, container->keys, container->num_items * sizeof(*keys));
        }
        container->items = items;
        container->keys = keys;
        frame->capacity = capacity;
    }
    if (object) {
        if (!keep_text(reader, arena, &key))
            return NULL;
        container->keys[container->num_items] = key;
    }
    return &container->items[container->num_items++];
}

bool json_read_value(struct json_reader *reader, struct arena *arena, struct json_value **out)
{
    struct json_frame frames[JSON_MAX_DEPTH];
    int depth = 0;
    struct json_text key = {0};
    struct json_value *root = arena_calloc(arena, 1, sizeof(*root));
    struct json_value *value = root;

    if (!root)
        return json_fail_memory(reader);
    for (;;) {
        value->type = json_peek(reader);
        if (value->type == JSON_OBJECT || value->type == JSON_ARRAY) {
            bool entered =
                value->type == JSON_OBJECT ? json_enter_object(reader) : json_enter_array(reader);
            if (!entered)
                return false;
            frames[depth++] = (struct json_frame){.container = value};
        } else if (!read_scalar(reader, arena, value)) {
            return false;
        }
        while (depth > 0) { /* leave the containers that end here */
            bool more = frames[depth - 1].container->type == JSON_OBJECT
                            ? json_next_key(reader, &key)
                            : json_next_item(reader);
            if (reader->status.code)
                return false;
            if (more)
                break;
            depth--;
        }
        if (depth == 0)
            break;
        value = add_item(reader, arena, &frames[depth - 1], key);
        if (!value)
            return false;
    }
    *out = root;
    return true;
}

struct status json_parse(const char *data, size_t size, struct arena *arena,
                         struct json_value **out)
{
    struct json_reader reader;
    struct json_value *value = NULL;

    json_reader_init(&reader, data, size);
    if (json_read_value(&reader, arena, &value) && json_end(&reader))
        *out = value;
    struct status status = json_reader_status(&reader);
    json_reader_deinit(&reader);
    return status;
}

const struct json_value *json_get(const struct json_value *value, const char *key)
{
    if (!value || value->type != JSON_OBJECT)
        return NULL;
    for (size_t i = value->num_items; i > 0; i--) {
        if (json_text_is(value->keys[i - 1], key))
            return &value->items[i - 1];
    }
    return NULL;
}

bool json_is(const struct json_value *value, const char *text)
{
    return value && value->type == JSON_STRING && json_text_is(value->text, text);
}

bool json_text_is(struct json_text text, const char *expected)
{
    size_t size = strlen(expected);

    return text.size == size && memcmp(text.data, expected, size) == 0;
}
