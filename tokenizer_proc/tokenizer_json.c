/*
 * tokenizer_json.c - tokenizer.json to a tokenizer: the frame, the added tokens, the model.
 *
 * The file is read once with the pull reader, since vocab and merges are nearly all of it; the
 * small parts become trees for tokenizer_pipeline.c.
 */
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/json.h"
#include "tokenizer_proc/tokenizer_parts.h"
#include "tokenizer_proc/tokenizer_pipeline.h"

struct merge {
    int32_t left, right, result;
};

/* What the pass has found. */
struct load {
    struct tokenizer *tokenizer;
    struct json_reader reader;
    struct arena arena; /* of the small parts */
    struct json_value *normalizer, *pre_tokenizer, *post_processor;
    const char *merges_start, *merges_end; /* when they stand before the vocabulary */
    struct merge *merges;                  /* owned */
    uint32_t num_merges, merges_capacity;
    uint32_t last_result; /* entry of the last merge's result: the next one's often follows it */
    struct buffer pair;   /* bytes of one merge's two sides */
    bool has_model, has_vocab, has_merges, has_unknown_token;
};

/* ---- merges ---- */

static struct status add_merge(struct load *load, size_t left_size, size_t size)
{
    const uint8_t *bytes = load->pair.data;
    const struct vocab_index *index = &load->tokenizer->vocab_index;
    struct merge merge = {
        .left = vocab_index_find(index, bytes, left_size),
        .right = vocab_index_find(index, bytes + left_size, size - left_size),
        .result = vocab_index_find_next(index, bytes, size, &load->last_result),
    };

    if (merge.left < 0 || merge.right < 0 || merge.result < 0)
        return status_error(STATUS_FORMAT,
                            "merge %u is of or to a token that is not in the vocabulary",
                            load->num_merges);
    if (load->num_merges == load->merges_capacity) {
        uint32_t capacity = load->merges_capacity ? load->merges_capacity * 2 : 1024;
        if (capacity > 1u << 28)
            return status_error(STATUS_UNSUPPORTED, "more than 2^27 merges");
        struct merge *merges = realloc(load->merges, capacity * sizeof(*merges));
        if (!merges)
            return status_error(STATUS_NO_MEMORY, "no memory for %u merges", capacity);
        load->merges = merges;
        load->merges_capacity = capacity;
    }
    load->merges[load->num_merges++] = merge;
    joints_add(load->tokenizer->joints, bytes, left_size, bytes + left_size, size - left_size);
    return status_ok();
}

/* Reads one side behind *size bytes of the pair. *out_known false: it is no byte-level text, so no
 * piece can hold it. */
static struct status read_side(struct load *load, struct json_text text, size_t *size,
                               bool *out_known)
{
    struct status status = buffer_reserve(&load->pair, *size + text.size);

    if (status.code)
        return status;
    size_t n = byte_level_decode(text.data, text.size, (uint8_t *)load->pair.data + *size);
    if (n == SIZE_MAX || n == 0)
        *out_known = false;
    else
        *size += n;
    return status;
}

/* A merge is ["a", "b"], or "a b" in older files. */
static struct status read_merge(struct load *load, struct json_reader *reader)
{
    struct json_text text = {0};
    struct status status = status_ok();
    size_t size = 0, left_size = 0;
    bool known = true;
    int num_sides = 0;

    if (json_peek(reader) == JSON_STRING) {
        if (!json_read_string(reader, &text))
            return json_reader_status(reader);
        const char *space = text.size ? memchr(text.data, ' ', text.size) : NULL;
        size_t left = space ? (size_t)(space - text.data) : 0;
        if (!space || memchr(space + 1, ' ', text.size - left - 1))
            return status_error(STATUS_FORMAT, "merge %u is not two parts", load->num_merges);
        status = read_side(load, (struct json_text){text.data, left}, &size, &known);
        left_size = size;
        if (!status.code)
            status =
                read_side(load, (struct json_text){space + 1, text.size - left - 1}, &size, &known);
    } else {
        if (!json_enter_array(reader))
            return json_reader_status(reader);
        while (!status.code && json_next_item(reader) && json_read_string(reader, &text)) {
            if (++num_sides <= 2)
                status = read_side(load, text, &size, &known);
            if (num_sides == 1)
                left_size = size;
        }
        if (status.code || reader->status.code)
            return status.code ? status : json_reader_status(reader);
        if (num_sides != 2)
            return status_error(STATUS_FORMAT, "merge %u is not two parts", load->num_merges);
    }
    if (status.code || !known)
        return status;
    return add_merge(load, left_size, size);
}

static struct status read_merges(struct load *load, struct json_reader *reader)
{
    struct status status = status_ok();

    if (!json_enter_array(reader))
        return json_reader_status(reader);
    while (!status.code && json_next_item(reader))
        status = read_merge(load, reader);
    return status.code ? status : json_reader_status(reader);
}

/* ---- model ---- */

/* What must be null, false, zero or empty: everything else would change the result. */
static struct status expect_nothing(struct load *load, const char *name)
{
    struct json_value *value;

    if (!json_read_value(&load->reader, &load->arena, &value))
        return json_reader_status(&load->reader);
    if (value->type == JSON_NULL || (value->type == JSON_BOOL && !value->boolean) ||
        (value->type == JSON_NUMBER && !(value->number < 0 || value->number > 0)) ||
        (value->type == JSON_STRING && value->text.size == 0))
        return status_ok();
    return status_error(STATUS_UNSUPPORTED, "model.%s is set", name);
}

static struct status read_type(struct load *load)
{
    struct json_text type;

    if (!json_read_string(&load->reader, &type))
        return json_reader_status(&load->reader);
    if (json_text_is(type, "BPE"))
        return status_ok();
    return status_error(STATUS_UNSUPPORTED, "model.type \"%.*s\"",
                        (int)(type.size < 60 ? type.size : 60), type.data);
}

static struct status read_vocab(struct load *load)
{
    struct tokenizer *tokenizer = load->tokenizer;

    if (load->has_vocab)
        return status_error(STATUS_FORMAT, "model.vocab stands twice");
    if (json_peek(&load->reader) != JSON_OBJECT && !load->reader.status.code)
        return status_error(STATUS_UNSUPPORTED, "model.vocab that is no object of token to id");
    load->has_vocab = true;
    struct status status = vocabulary_builder_read(&tokenizer->vocab, &load->reader);
    if (!status.code)
        status = vocab_index_init(&tokenizer->vocab_index, &tokenizer->vocab);
    return status;
}

static struct status start_merges(struct load *load)
{
    if (load->has_merges)
        return status_error(STATUS_FORMAT, "model.merges stands twice");
    load->has_merges = true;
    if (load->has_vocab)
        return read_merges(load, &load->reader);
    json_peek(&load->reader); /* moves to its first byte */
    load->merges_start = load->reader.at;
    json_skip(&load->reader);
    load->merges_end = load->reader.at;
    return json_reader_status(&load->reader);
}

static struct status read_model(struct load *load)
{
    static const char *const nothing[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix", "byte_fallback"};
    struct json_text key;
    struct json_value *unknown;
    struct status status = status_ok();

    if (load->has_model)
        return status_error(STATUS_FORMAT, "model stands twice");
    load->has_model = true;
    if (!json_enter_object(&load->reader))
        return json_reader_status(&load->reader);
    while (!status.code && json_next_key(&load->reader, &key)) {
        const char *must_be_nothing = NULL;
        for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
            if (json_text_is(key, nothing[i]))
                must_be_nothing = nothing[i];
        }
        if (must_be_nothing) {
            status = expect_nothing(load, must_be_nothing);
        } else if (json_text_is(key, "type")) {
            status = read_type(load);
        } else if (json_text_is(key, "unk_token")) {
            if (json_read_value(&load->reader, &load->arena, &unknown))
                load->has_unknown_token = unknown->type != JSON_NULL;
        } else if (json_text_is(key, "ignore_merges")) {
            if (json_peek(&load->reader) == JSON_BOOL)
                json_read_bool(&load->reader, &load->tokenizer->ignore_merges);
            else
                json_skip(&load->reader);
        } else if (json_text_is(key, "vocab")) {
            status = read_vocab(load);
        } else if (json_text_is(key, "merges")) {
            status = start_merges(load);
        } else {
            json_skip(&load->reader);
        }
    }
    if (status.code || load->reader.status.code)
        return status.code ? status : json_reader_status(&load->reader);
    if (!load->has_vocab || !load->has_merges)
        return status_error(STATUS_FORMAT, "model without vocab and merges");
    if (load->merges_start) {
        struct json_reader reader;
        json_reader_init(&reader, load->merges_start,
                         (size_t)(load->merges_end - load->merges_start));
        status = read_merges(load, &reader);
        json_reader_deinit(&reader);
    }
    return status;
}

/* ---- added tokens ---- */

static struct status add_added_token(struct load *load, const struct json_value *token)
{
    static const struct {
        const char *key;
        unsigned flag;
    } keys[] = {
        {"special", ADDED_TOKEN_SPECIAL},         {"normalized", ADDED_TOKEN_NORMALIZED},
        {"single_word", ADDED_TOKEN_SINGLE_WORD}, {"lstrip", ADDED_TOKEN_LSTRIP},
        {"rstrip", ADDED_TOKEN_RSTRIP},
    };
    const struct json_value *id = json_get(token, "id"), *content = json_get(token, "content");
    unsigned flags = 0;

    if (!id || !id->is_integer || !content || content->type != JSON_STRING)
        return status_error(STATUS_FORMAT, "added_tokens: an entry without id or content");
    if (id->integer < 0 || id->integer >= VOCABULARY_MAX_TOKENS)
        return status_error(STATUS_UNSUPPORTED, "added token \"%.40s\": id %lld",
                            content->text.data, (long long)id->integer);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const struct json_value *flag = json_get(token, keys[i].key);
        if (flag && flag->type == JSON_BOOL && flag->boolean)
            flags |= keys[i].flag;
    }
    if (id->integer >= load->tokenizer->vocab_size)
        load->tokenizer->vocab_size = (int32_t)id->integer + 1;
    return added_tokens_add(&load->tokenizer->added, (int32_t)id->integer, flags,
                            content->text.data, content->text.size);
}

static struct status read_added_tokens(struct load *load)
{
    struct json_value *token;
    struct arena arena;
    struct status status = status_ok();

    if (json_peek(&load->reader) != JSON_ARRAY) {
        json_skip(&load->reader);
        return json_reader_status(&load->reader);
    }
    arena_init(&arena, 0, 0);
    if (json_enter_array(&load->reader)) {
        while (!status.code && json_next_item(&load->reader)) {
            arena_reset(&arena);
            if (json_read_value(&load->reader, &arena, &token))
                status = add_added_token(load, token);
        }
    }
    arena_deinit(&arena);
    return status.code ? status : json_reader_status(&load->reader);
}

/* ---- the whole ---- */

static struct status read_parts(struct load *load)
{
    struct json_text key;
    struct status status = status_ok();

    if (!json_enter_object(&load->reader))
        return json_reader_status(&load->reader);
    while (!status.code && json_next_key(&load->reader, &key)) {
        if (json_text_is(key, "model"))
            status = read_model(load);
        else if (json_text_is(key, "added_tokens"))
            status = read_added_tokens(load);
        else if (json_text_is(key, "normalizer"))
            json_read_value(&load->reader, &load->arena, &load->normalizer);
        else if (json_text_is(key, "pre_tokenizer"))
            json_read_value(&load->reader, &load->arena, &load->pre_tokenizer);
        else if (json_text_is(key, "post_processor"))
            json_read_value(&load->reader, &load->arena, &load->post_processor);
        else
            json_skip(&load->reader);
    }
    if (status.code)
        return status;
    json_end(&load->reader);
    status = json_reader_status(&load->reader);
    if (!status.code && !load->has_model)
        status = status_error(STATUS_FORMAT, "no \"model\"");
    return status;
}

static struct status build_bpe(struct load *load)
{
    struct tokenizer *tokenizer = load->tokenizer;
    struct bpe *bpe = &tokenizer->bpe;
    struct status status = bpe_init(bpe, load->num_merges);

    if (status.code)
        return status;
    for (int byte = 0; byte < 256; byte++) {
        bpe->byte_tokens[byte] =
            vocab_index_find(&tokenizer->vocab_index, &(uint8_t){(uint8_t)byte}, 1);
        if (bpe->byte_tokens[byte] < 0 && load->has_unknown_token)
            return status_error(STATUS_UNSUPPORTED,
                                "model.unk_token is set and byte 0x%02X has no token", byte);
    }
    for (uint32_t i = 0; i < load->num_merges; i++)
        bpe_add(bpe, load->merges[i].left, load->merges[i].right, load->merges[i].result);
    bpe_finish(bpe);
    if (!bpe->has_all_bytes) { /* what is left out brings its neighbours together */
        free(tokenizer->joints);
        tokenizer->joints = NULL;
    }
    return status;
}

static struct status build(struct load *load)
{
    struct tokenizer *tokenizer = load->tokenizer;
    struct status status = pipeline_read_normalizer(load->normalizer, &tokenizer->nfc);

    if (!status.code)
        status = pipeline_read_pretokenizer(load->pre_tokenizer, &tokenizer->pretokenizer);
    if (!status.code)
        status = pipeline_read_post_processor(load->post_processor, tokenizer);
    if (!status.code)
        status = added_tokens_finish(&tokenizer->added, tokenizer->nfc);
    if (!status.code)
        status = build_bpe(load);
    if (tokenizer->vocab.num_tokens > tokenizer->vocab_size)
        tokenizer->vocab_size = tokenizer->vocab.num_tokens;
    if (!tokenizer->ignore_merges) {
        vocab_index_deinit(&tokenizer->vocab_index);
        vocabulary_builder_deinit(&tokenizer->vocab);
    }
    return status;
}

struct status tokenizer_json_read(struct tokenizer *tokenizer, const char *json, size_t size)
{
    struct load load = {.tokenizer = tokenizer};

    tokenizer->joints = calloc(1, sizeof(*tokenizer->joints));
    if (!tokenizer->joints)
        return status_error(STATUS_NO_MEMORY, "no memory for a tokenizer");
    json_reader_init(&load.reader, json, size);
    arena_init(&load.arena, 0, 0);
    struct status status = read_parts(&load);
    if (!status.code)
        status = build(&load);
    free(load.merges);
    buffer_deinit(&load.pair);
    arena_deinit(&load.arena);
    json_reader_deinit(&load.reader);
    return status;
}
