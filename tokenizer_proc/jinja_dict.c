/*
 * jinja_dict.c - dicts that keep the order of insertion. See jinja_value.h.
 *
 * Small ones are searched from the front; from INDEX_FROM entries on there are slots beside the
 * entries: an open hash table of entry numbers + 1.
 */
#include "common/hash.h"
#include "tokenizer_proc/jinja_string.h"

enum { INDEX_FROM = 16 };

/* Equal keys hash equally: 1, 1.0 and true are one key. Containers hash by their size alone. */
static uint64_t hash_key(struct jinja_value key)
{
    uint64_t hash = hash_start;

    switch (key.type) {
    case JINJA_STRING:
        hash = hash_bytes(hash, key.string->data, key.string->size);
        return hash ^ hash >> 29;
    case JINJA_BOOL:
        return (uint64_t)key.boolean * 0x9E3779B97F4A7C15u >> 7;
    case JINJA_INT:
        return (uint64_t)key.integer * 0x9E3779B97F4A7C15u >> 7;
    case JINJA_FLOAT:
        if (key.number >= -9e18 && key.number <= 9e18)
            return (uint64_t)(int64_t)key.number * 0x9E3779B97F4A7C15u >> 7;
        return 0;
    case JINJA_TUPLE:
        return key.list->num_items;
    default:
        return 0;
    }
}

/* Keys are scalars and tuples of them, so that this needs no run: nothing can fail. */
static bool same_key(struct jinja_value a, struct jinja_value b)
{
    struct jinja_run run = {.max_steps = SIZE_MAX};
    bool equal = false;

    if (a.type == JINJA_STRING && b.type == JINJA_STRING)
        return jinja_string_equal(a.string, b.string);
    if (a.type == JINJA_STRING || b.type == JINJA_STRING)
        return false;
    return jinja_equal(&run, a, b, &equal) && equal;
}

static size_t find_entry(const struct jinja_dict *dict, struct jinja_value key)
{
    if (!dict->slots) {
        for (size_t i = 0; i < dict->num_items; i++) {
            if (same_key(dict->keys[i], key))
                return i;
        }
        return SIZE_MAX;
    }
    size_t slot = (size_t)hash_key(key) & (dict->num_slots - 1);
    for (; dict->slots[slot]; slot = (slot + 1) & (dict->num_slots - 1)) {
        if (same_key(dict->keys[dict->slots[slot] - 1], key))
            return dict->slots[slot] - 1;
    }
    return SIZE_MAX;
}

static void add_slot(struct jinja_dict *dict, size_t entry)
{
    size_t slot = (size_t)hash_key(dict->keys[entry]) & (dict->num_slots - 1);

    while (dict->slots[slot])
        slot = (slot + 1) & (dict->num_slots - 1);
    dict->slots[slot] = (uint32_t)entry + 1;
}

static bool grow(struct jinja_run *run, struct jinja_dict *dict)
{
    size_t capacity = dict->capacity ? dict->capacity * 2 : 4;
    struct jinja_value *keys = jinja_alloc(run, capacity, sizeof(*keys));
    struct jinja_value *values = jinja_alloc(run, capacity, sizeof(*values));

    if (!keys || !values)
        return false;
    if (capacity > UINT32_MAX / 2)
        return jinja_fail_space(run, "a dict is too large");
    if (dict->num_items) {
        memcpy(keys, dict->keys, dict->num_items * sizeof(*keys));
        memcpy(values, dict->values, dict->num_items * sizeof(*values));
    }
    dict->keys = keys;
    dict->values = values;
    dict->capacity = capacity;
    if (capacity <= INDEX_FROM)
        return true;
    dict->num_slots = capacity * 2;
    dict->slots = jinja_alloc(run, dict->num_slots, sizeof(*dict->slots));
    if (!dict->slots)
        return false;
    for (size_t i = 0; i < dict->num_items; i++)
        add_slot(dict, i);
    return true;
}

static bool is_hashable(struct jinja_value key)
{
    switch (key.type) {
    case JINJA_LIST:
    case JINJA_DICT:
    case JINJA_VIEW:
        return false;
    case JINJA_TUPLE:
        for (size_t i = 0; i < key.list->num_items; i++) {
            if (key.list->items[i].type == JINJA_TUPLE || !is_hashable(key.list->items[i]))
                return false;
        }
        return true;
    default:
        return true;
    }
}

bool jinja_make_dict(struct jinja_run *run, struct jinja_value *out)
{
    struct jinja_dict *dict = jinja_alloc(run, 1, sizeof(*dict));

    if (!dict)
        return false;
    *out = (struct jinja_value){.type = JINJA_DICT, .dict = dict};
    return true;
}

bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                    struct jinja_value value)
{
    if (!is_hashable(key))
        return jinja_fail(run, "unhashable type: '%s'", jinja_type_name(key));
    size_t entry = find_entry(dict, key);
    if (entry != SIZE_MAX) {
        dict->values[entry] = value;
        return true;
    }
    if (dict->num_items == dict->capacity && !grow(run, dict))
        return false;
    dict->keys[dict->num_items] = key;
    dict->values[dict->num_items] = value;
    if (dict->slots)
        add_slot(dict, dict->num_items);
    dict->num_items++;
    return true;
}

const struct jinja_value *jinja_dict_get(const struct jinja_dict *dict, struct jinja_value key)
{
    size_t entry = find_entry(dict, key);

    return entry == SIZE_MAX ? NULL : &dict->values[entry];
}

const struct jinja_value *jinja_dict_get_text(const struct jinja_dict *dict, const char *data,
                                              size_t size)
{
    struct jinja_string string = {.data = data, .size = size};

    return jinja_dict_get(dict, (struct jinja_value){.type = JINJA_STRING, .string = &string});
}
