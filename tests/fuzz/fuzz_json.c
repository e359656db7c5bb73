/*
 * fuzz_json.c - JSON from anybody: the tree, the reader that skips and the writer must agree.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool skips(const char *data, size_t size)
{
    struct json_reader reader;

    json_reader_init(&reader, data, size);
    json_skip(&reader);
    json_end(&reader);
    bool ok = !json_reader_status(&reader).code;
    json_reader_deinit(&reader);
    return ok;
}

/* Reads by type what json_peek announces, one level deep. */
static void pull(const char *data, size_t size)
{
    struct json_reader reader;
    struct json_text text = {0};
    int64_t integer = 0;
    struct json_value number;
    bool flag = false;

    json_reader_init(&reader, data, size);
    switch (json_peek(&reader)) {
    case JSON_OBJECT:
        if (json_enter_object(&reader)) {
            while (json_next_key(&reader, &text)) {
                require(text.size == 0 || text.data != NULL);
                json_skip(&reader);
            }
        }
        break;
    case JSON_ARRAY:
        if (json_enter_array(&reader)) {
            while (json_next_item(&reader))
                json_read_number(&reader, &number);
        }
        break;
    case JSON_STRING:
        json_read_string(&reader, &text);
        break;
    case JSON_NUMBER:
        json_read_int(&reader, &integer);
        break;
    case JSON_BOOL:
        json_read_bool(&reader, &flag);
        break;
    case JSON_NULL:
        json_skip(&reader);
        break;
    }
    json_end(&reader);
    json_reader_deinit(&reader);
}

static bool same(const struct json_value *a, const struct json_value *b)
{
    bool equal = a->type == b->type && a->boolean == b->boolean && a->num_items == b->num_items &&
                 a->text.size == b->text.size &&
                 (a->text.size == 0 || memcmp(a->text.data, b->text.data, a->text.size) == 0);

    for (size_t i = 0; equal && i < a->num_items; i++) {
        equal = same(&a->items[i], &b->items[i]);
        if (equal && a->type == JSON_OBJECT)
            equal = a->keys[i].size == b->keys[i].size &&
                    memcmp(a->keys[i].data, b->keys[i].data, a->keys[i].size) == 0;
    }
    return equal;
}

/* Of values with the same key the last is found. */
static void look_up(const struct json_value *value)
{
    for (size_t i = 0; i < value->num_items; i++) {
        look_up(&value->items[i]);
        if (value->type != JSON_OBJECT || strlen(value->keys[i].data) != value->keys[i].size)
            continue;
        const struct json_value *found = json_get(value, value->keys[i].data);
        require(found >= &value->items[i]);
        require(json_text_is(value->keys[found - value->items], value->keys[i].data));
        if (found->type == JSON_STRING)
            require(json_is(found, found->text.data) ==
                    (strlen(found->text.data) == found->text.size));
        else
            require(!json_is(found, ""));
    }
    require(value->type == JSON_OBJECT || !json_get(value, ""));
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    const char *text = (const char *)data;
    struct arena arena;
    struct json_value *value = NULL, *again = NULL;
    struct json_writer writer = {0};

    arena_init(&arena, 0, 0);
    struct status status = json_parse(text, size, &arena, &value);
    require(skips(text, size) == !status.code);
    pull(text, size);
    if (!status.code) {
        json_write_value(&writer, value);
        require(!writer.failed);
        status = json_parse(writer.data, writer.size, &arena, &again);
        require(!status.code && same(value, again));
        look_up(value);
    }
    json_writer_deinit(&writer);
    arena_deinit(&arena);
    return 0;
}
