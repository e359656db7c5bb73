/*
 * vocabulary.c - see vocabulary.h.
 *
 * One pass over the file with the pull reader. What belongs to the encoder alone (merges, patterns)
 * is skipped.
 */
#include "common/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/file.h"
#include "common/json.h"
#include "common/vocabulary_builder.h"

/* What the pass has found. */
struct load {
    struct json_reader reader;
    struct arena arena; /* of the small parts */
    struct vocabulary_builder model, added;
    bool *is_special; /* owned, [added.num_entries] */
    size_t special_capacity;
    bool has_decoder;
};

static struct status read_model(struct load *load)
{
    struct json_text key, type = {0};
    struct status status = status_ok();
    bool has_vocab = false, is_bpe = true;

    if (!json_enter_object(&load->reader))
        return json_reader_status(&load->reader);
    while (!status.code && json_next_key(&load->reader, &key)) {
        if (json_text_is(key, "type")) {
            if (json_read_string(&load->reader, &type) && !json_text_is(type, "BPE"))
                status = status_error(STATUS_UNSUPPORTED, "model.type \"%.*s\"",
                                      (int)(type.size < 60 ? type.size : 60), type.data);
        } else if (json_text_is(key, "vocab") && json_peek(&load->reader) == JSON_OBJECT) {
            status = vocabulary_builder_read(&load->model, &load->reader);
            has_vocab = true;
        } else if (json_text_is(key, "vocab")) {
            is_bpe = false;
            json_skip(&load->reader);
        } else {
            json_skip(&load->reader);
        }
    }
    if (status.code || load->reader.status.code)
        return status.code ? status : json_reader_status(&load->reader);
    if (!is_bpe)
        return status_error(STATUS_UNSUPPORTED, "model.vocab that is no object of token to id");
    return has_vocab ? status : status_error(STATUS_FORMAT, "model has no \"vocab\"");
}

static struct status add_token(struct load *load, const struct json_value *token)
{
    const struct json_value *id = json_get(token, "id"), *content = json_get(token, "content");
    const struct json_value *special = json_get(token, "special");

    if (!id || !id->is_integer || !content || content->type != JSON_STRING)
        return status_error(STATUS_FORMAT, "added_tokens: an entry without id or content");
    if (load->added.num_entries == load->special_capacity) {
        size_t capacity = load->special_capacity ? load->special_capacity * 2 : 64;
        bool *larger = realloc(load->is_special, capacity * sizeof(*larger));
        if (!larger)
            return status_error(STATUS_NO_MEMORY, "no memory for added tokens");
        load->is_special = larger;
        load->special_capacity = capacity;
    }
    load->is_special[load->added.num_entries] =
        special && special->type == JSON_BOOL && special->boolean;
    return vocabulary_builder_add(&load->added, id->integer, content->text);
}

static struct status read_added(struct load *load)
{
    struct json_value *token;
    struct status status = status_ok();

    if (!json_enter_array(&load->reader))
        return json_reader_status(&load->reader);
    while (!status.code && json_next_item(&load->reader)) {
        arena_reset(&load->arena);
        if (json_read_value(&load->reader, &load->arena, &token))
            status = add_token(load, token);
    }
    return status.code ? status : json_reader_status(&load->reader);
}

static struct status check_decoder(const struct json_value *decoder)
{
    const struct json_value *type = json_get(decoder, "type");
    const struct json_value *parts = json_get(decoder, "decoders");
    int num_byte_level = 0;

    if (json_is(type, "ByteLevel"))
        return status_ok();
    if (!type || type->type != JSON_STRING)
        return status_error(STATUS_UNSUPPORTED, "decoder: none, where ByteLevel is understood");
    if (!json_is(type, "Sequence") || !parts || parts->type != JSON_ARRAY)
        return status_error(STATUS_UNSUPPORTED, "decoder \"%.60s\"", type->text.data);
    for (size_t i = 0; i < parts->num_items; i++) {
        const struct json_value *part = json_get(&parts->items[i], "type");
        if (json_is(part, "ByteLevel"))
            num_byte_level++;
        else if (!json_is(part, "Fuse")) /* joins what is joined anyway */
            return status_error(STATUS_UNSUPPORTED, "decoder \"%.60s\" in a Sequence",
                                part && part->type == JSON_STRING ? part->text.data : "?");
    }
    return num_byte_level == 1
               ? status_ok()
               : status_error(STATUS_UNSUPPORTED, "decoder Sequence without one ByteLevel");
}

static struct status read_decoder(struct load *load)
{
    struct json_value *decoder = NULL;

    arena_reset(&load->arena);
    if (!json_read_value(&load->reader, &load->arena, &decoder))
        return json_reader_status(&load->reader);
    load->has_decoder = true;
    return check_decoder(decoder);
}

static struct status read_all(struct load *load)
{
    struct json_text key;
    struct status status = status_ok();
    bool has_model = false;

    if (!json_enter_object(&load->reader))
        return json_reader_status(&load->reader);
    while (!status.code && json_next_key(&load->reader, &key)) {
        if (json_text_is(key, "model")) {
            status = read_model(load);
            has_model = true;
        } else if (json_text_is(key, "added_tokens") && json_peek(&load->reader) == JSON_ARRAY) {
            status = read_added(load);
        } else if (json_text_is(key, "decoder")) {
            status = read_decoder(load);
        } else {
            json_skip(&load->reader);
        }
    }
    if (status.code)
        return status;
    if (!json_end(&load->reader))
        return json_reader_status(&load->reader);
    if (!has_model)
        return status_error(STATUS_FORMAT, "no \"model\"");
    return load->has_decoder
               ? status
               : status_error(STATUS_UNSUPPORTED, "decoder: none, where ByteLevel is understood");
}

/* Lays the tokens out by id; where two have the same id, the later in the file stands, and an added
 * token before one of the model. */
static struct status lay_out(const struct load *load, struct vocabulary *out)
{
    const struct vocabulary_builder *builders[] = {&load->model, &load->added};
    int32_t num_tokens = load->model.num_tokens > load->added.num_tokens ? load->model.num_tokens
                                                                         : load->added.num_tokens;
    size_t size = (size_t)num_tokens, at = 0;
    struct status status = status_ok();
    /* which entry each id has: 0 none, 1 + index, behind the model's the added ones */
    uint32_t *chosen = calloc(size + 1, sizeof(*chosen));
    uint32_t *offsets = malloc((size + 1) * sizeof(*offsets));
    uint8_t *bytes = malloc(load->model.num_bytes + load->added.num_bytes + 1);
    uint8_t *flags = calloc(size + 1, 1);

    if (!chosen || !offsets || !bytes || !flags) {
        status = status_error(STATUS_NO_MEMORY, "no memory for a vocabulary of %d", num_tokens);
        goto out;
    }
    for (size_t b = 0, base = 1; b < 2; base += builders[b++]->num_entries) {
        for (size_t i = 0; i < builders[b]->num_entries; i++) {
            int32_t id = builders[b]->entries[i].id;
            chosen[id] = (uint32_t)(base + i);
            flags[id] = VOCABULARY_PRESENT;
            if (b == 1)
                flags[id] |= VOCABULARY_ADDED | (load->is_special[i] ? VOCABULARY_SPECIAL : 0);
        }
    }
    for (size_t id = 0; id < size; id++) {
        offsets[id] = (uint32_t)at;
        if (!chosen[id])
            continue;
        size_t i = chosen[id] - 1;
        const struct vocabulary_builder *builder = builders[i >= load->model.num_entries];
        if (i >= load->model.num_entries)
            i -= load->model.num_entries;
        memcpy(bytes + at, builder->bytes + builder->entries[i].offset, builder->entries[i].size);
        at += builder->entries[i].size;
    }
    offsets[size] = (uint32_t)at;
    *out = (struct vocabulary){
        .num_tokens = num_tokens, .offsets = offsets, .bytes = bytes, .flags = flags};
    offsets = NULL;
    bytes = flags = NULL;
out:
    free(chosen);
    free(offsets);
    free(bytes);
    free(flags);
    return status;
}

struct status vocabulary_load(struct vocabulary *vocabulary, const char *json, size_t size)
{
    struct load load = {0};

    json_reader_init(&load.reader, json, size);
    arena_init(&load.arena, 0, 0);
    struct status status = read_all(&load);
    if (!status.code)
        status = lay_out(&load, vocabulary);
    vocabulary_builder_deinit(&load.model);
    vocabulary_builder_deinit(&load.added);
    free(load.is_special);
    arena_deinit(&load.arena);
    json_reader_deinit(&load.reader);
    return status;
}

struct status vocabulary_open(struct vocabulary *vocabulary, const char *dir)
{
    char path[4096];
    struct file_map map = {0};
    struct status status = path_join(dir, "tokenizer.json", path, sizeof(path));

    if (!status.code)
        status = file_map_open(&map, path);
    if (status.code)
        return status;
    status = status_context(vocabulary_load(vocabulary, map.data, map.size), path);
    file_map_close(&map);
    return status;
}

void vocabulary_deinit(struct vocabulary *vocabulary)
{
    free(vocabulary->offsets);
    free(vocabulary->bytes);
    free(vocabulary->flags);
    *vocabulary = (struct vocabulary){0};
}

int32_t vocabulary_find_added(const struct vocabulary *vocabulary, const char *content, size_t size)
{
    for (int32_t id = 0; id < vocabulary->num_tokens; id++) {
        const uint8_t *bytes;
        if (vocabulary->flags[id] & VOCABULARY_ADDED &&
            vocabulary_bytes(vocabulary, id, &bytes) == size && memcmp(bytes, content, size) == 0)
            return id;
    }
    return -1;
}
