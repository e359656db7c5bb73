/* tokenizer_pipeline.c - see tokenizer_pipeline.h. */
#include "tokenizer_proc/tokenizer_pipeline.h"

#include <string.h>

enum { MAX_DEPTH = 8 }; /* of sequences in sequences */

static bool is_none(const struct json_value *value)
{
    return !value || value->type == JSON_NULL;
}

/* A text for a message; never NULL. */
static const char *text_of(const struct json_value *value)
{
    return value && value->type == JSON_STRING ? value->text.data : "?";
}

static struct status refuse(const char *what, const struct json_value *name)
{
    return status_error(STATUS_UNSUPPORTED, "%s \"%.80s\" is not understood", what, text_of(name));
}

static bool read_flag(const struct json_value *value, const char *key, bool otherwise)
{
    const struct json_value *flag = json_get(value, key);

    return flag && flag->type == JSON_BOOL ? flag->boolean : otherwise;
}

/* What a sequence is made of. */
struct parts {
    const struct json_value *items;
    size_t num_items;
};

static struct status get_parts(const struct json_value *value, const char *key, int depth,
                               struct parts *out)
{
    const struct json_value *parts = json_get(value, key);

    if (!parts || parts->type != JSON_ARRAY)
        return status_error(STATUS_FORMAT, "a Sequence without \"%s\"", key);
    if (depth >= MAX_DEPTH)
        return status_error(STATUS_UNSUPPORTED, "sequences nested more than %d deep", MAX_DEPTH);
    *out = (struct parts){parts->items, parts->num_items};
    return status_ok();
}

/* ---- normalizer ---- */

static struct status read_normalizer(const struct json_value *value, int depth, bool *nfc)
{
    const struct json_value *type = json_get(value, "type");
    struct parts parts = {0};

    if (is_none(value))
        return status_ok();
    if (json_is(type, "NFC")) {
        *nfc = true;
        return status_ok();
    }
    if (!json_is(type, "Sequence"))
        return refuse("normalizer", type);
    struct status status = get_parts(value, "normalizers", depth, &parts);
    for (size_t i = 0; !status.code && i < parts.num_items; i++)
        status = read_normalizer(&parts.items[i], depth + 1, nfc);
    return status;
}

struct status pipeline_read_normalizer(const struct json_value *value, bool *out_nfc)
{
    bool nfc = false;
    struct status status = read_normalizer(value, 0, &nfc);

    if (!status.code)
        *out_nfc = nfc;
    return status;
}

/* ---- pre-tokenizer ---- */

struct pretokenizer_load {
    struct pretokenizer *out;
    bool is_byte_level; /* ByteLevel has been seen: only bytes come behind it */
};

static struct status add_stage(struct pretokenizer_load *load, const struct split_stage *stage)
{
    if (load->out->num_stages == PRETOKENIZER_MAX_STAGES)
        return status_error(STATUS_UNSUPPORTED, "pre_tokenizer of more than %d stages",
                            PRETOKENIZER_MAX_STAGES);
    load->out->stages[load->out->num_stages++] = *stage;
    return status_ok();
}

static struct status read_behavior(const struct json_value *value, enum split_behavior *out)
{
    static const char *const names[] = {
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (json_is(value, names[i])) {
            *out = (enum split_behavior)i;
            return status_ok();
        }
    }
    return refuse("pre_tokenizer Split: behavior", value);
}

static struct status read_split(struct pretokenizer_load *load, const struct json_value *value)
{
    const struct json_value *pattern = json_get(value, "pattern");
    const struct json_value *regex = json_get(pattern, "Regex");
    const struct json_value *literal = json_get(pattern, "String");
    struct split_stage stage = {.invert = read_flag(value, "invert", false)};
    struct status status = read_behavior(json_get(value, "behavior"), &stage.behavior);

    if (status.code)
        return status;
    if (regex && regex->type == JSON_STRING) {
        stage.scan = scanner_find(regex->text.data, regex->text.size);
        if (!stage.scan)
            return refuse("pre_tokenizer Split: pattern", regex);
    } else if (literal && literal->type == JSON_STRING && literal->text.size > 0 &&
               literal->text.size <= PRETOKENIZER_MAX_LITERAL) {
        stage.literal_size = literal->text.size;
        memcpy(stage.literal, literal->text.data, literal->text.size);
    } else {
        return refuse("pre_tokenizer Split: pattern", literal);
    }
    return add_stage(load, &stage);
}

static struct status read_byte_level(struct pretokenizer_load *load, const struct json_value *value)
{
    bool use_regex = read_flag(value, "use_regex", true);
    struct split_stage stage = {
        .scan = use_regex ? scan_gpt2 : scan_all,
        .add_prefix_space = read_flag(value, "add_prefix_space", true),
    };

    load->is_byte_level = true;
    if (!use_regex && !stage.add_prefix_space && load->out->num_stages > 0)
        return status_ok();
    return add_stage(load, &stage);
}

static struct status read_digits(struct pretokenizer_load *load, const struct json_value *value)
{
    struct split_stage stage = {
        .scan = scan_numeric,
        .behavior =
            read_flag(value, "individual_digits", false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS,
    };

    return add_stage(load, &stage);
}

static struct status read_pretokenizer(struct pretokenizer_load *load,
                                       const struct json_value *value, int depth)
{
    const struct json_value *type = json_get(value, "type");
    struct parts parts = {0};

    if (json_is(type, "Sequence")) {
        struct status status = get_parts(value, "pretokenizers", depth, &parts);
        for (size_t i = 0; !status.code && i < parts.num_items; i++)
            status = read_pretokenizer(load, &parts.items[i], depth + 1);
        return status;
    }
    if (load->is_byte_level)
        return status_error(STATUS_UNSUPPORTED, "pre_tokenizer \"%.60s\" behind ByteLevel",
                            text_of(type));
    if (json_is(type, "Split"))
        return read_split(load, value);
    if (json_is(type, "ByteLevel"))
        return read_byte_level(load, value);
    if (json_is(type, "Digits"))
        return read_digits(load, value);
    return refuse("pre_tokenizer", type);
}

struct status pipeline_read_pretokenizer(const struct json_value *value, struct pretokenizer *out)
{
    struct pretokenizer_load load = {.out = out};

    out->num_stages = 0;
    if (!is_none(value)) {
        struct status status = read_pretokenizer(&load, value, 0);
        if (status.code)
            return status;
    }
    if (!load.is_byte_level)
        return status_error(STATUS_UNSUPPORTED, "pre_tokenizer without ByteLevel");
    return status_ok();
}

/* ---- post-processor ---- */

static struct status add_around(int32_t *list, int *num, size_t at, const struct json_value *ids)
{
    if (!ids || ids->type != JSON_ARRAY)
        return status_error(STATUS_FORMAT, "TemplateProcessing: a special token without ids");
    if (ids->num_items + (size_t)*num > TOKENIZER_MAX_AROUND)
        return status_error(STATUS_UNSUPPORTED, "TemplateProcessing: more than %d special tokens",
                            TOKENIZER_MAX_AROUND);
    memmove(list + at + ids->num_items, list + at, ((size_t)*num - at) * sizeof(*list));
    for (size_t i = 0; i < ids->num_items; i++) {
        const struct json_value *id = &ids->items[i];
        if (!id->is_integer || id->integer < 0 || id->integer >= VOCABULARY_MAX_TOKENS)
            return status_error(STATUS_FORMAT, "TemplateProcessing: an id out of range");
        list[at + i] = (int32_t)id->integer;
    }
    *num += (int)ids->num_items;
    return status_ok();
}

/* A template stands around what the processors before it have put together. */
static struct status read_template(const struct json_value *value, struct tokenizer *out)
{
    const struct json_value *single = json_get(value, "single");
    const struct json_value *specials = json_get(value, "special_tokens");
    struct status status = status_ok();
    bool is_behind = false;
    size_t num_before = 0;

    if (!single || single->type != JSON_ARRAY)
        return status_error(STATUS_FORMAT, "TemplateProcessing without \"single\"");
    for (size_t i = 0; !status.code && i < single->num_items; i++) {
        const struct json_value *special = json_get(&single->items[i], "SpecialToken");
        const struct json_value *sequence = json_get(&single->items[i], "Sequence");
        const struct json_value *name = json_get(special, "id");
        if (sequence && json_is(json_get(sequence, "id"), "A") && !is_behind) {
            is_behind = true;
        } else if (name && name->type == JSON_STRING && !sequence) {
            const struct json_value *ids = json_get(json_get(specials, name->text.data), "ids");
            if (is_behind) {
                status = add_around(out->after, &out->num_after, (size_t)out->num_after, ids);
            } else {
                int before = out->num_before;
                status = add_around(out->before, &out->num_before, num_before, ids);
                num_before += (size_t)(out->num_before - before);
            }
        } else {
            status = status_error(STATUS_UNSUPPORTED,
                                  "TemplateProcessing: \"single\" is not one A among tokens");
        }
    }
    if (!status.code && !is_behind)
        status = status_error(STATUS_UNSUPPORTED, "TemplateProcessing: \"single\" without A");
    return status;
}

static struct status read_post_processor(const struct json_value *value, int depth,
                                         struct tokenizer *out)
{
    const struct json_value *type = json_get(value, "type");
    struct parts parts = {0};

    if (is_none(value) || json_is(type, "ByteLevel")) /* which moves offsets only */
        return status_ok();
    if (json_is(type, "TemplateProcessing"))
        return read_template(value, out);
    if (!json_is(type, "Sequence"))
        return refuse("post_processor", type);
    struct status status = get_parts(value, "processors", depth, &parts);
    for (size_t i = 0; !status.code && i < parts.num_items; i++)
        status = read_post_processor(&parts.items[i], depth + 1, out);
    return status;
}

struct status pipeline_read_post_processor(const struct json_value *value, struct tokenizer *out)
{
    return read_post_processor(value, 0, out);
}
