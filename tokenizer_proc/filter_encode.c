/* filter_encode.c - see filter_encode.h. */
#include "tokenizer_proc/filter_encode.h"

#include "common/line_filter.h"

struct filter {
    struct encoder *encoder;
    struct token_list ids;
};

static bool get_flag(const struct json_value *line, const char *key, bool otherwise)
{
    const struct json_value *value = json_get(line, key);

    return value && value->type == JSON_BOOL ? value->boolean : otherwise;
}

static struct status answer(void *context, const struct json_value *line, struct arena *arena,
                            struct json_writer *out)
{
    struct filter *filter = context;

    const struct json_value *text = json_get(line, "text");

    if (!text || text->type != JSON_STRING)
        return status_error(STATUS_INVALID, "\"text\" must be a string");
    struct encode_args args = {
        .text = text->text.data,
        .size = text->text.size,
        .parse_special = get_flag(line, "parse_special", true),
        .add_special_tokens = get_flag(line, "add_special_tokens", false),
    };
    (void)arena;
    filter->ids.num_ids = 0;
    struct status status = encoder_encode(filter->encoder, &args, &filter->ids);
    if (status.code)
        return status;
    json_key(out, "ids");
    json_begin_array(out);
    for (size_t i = 0; i < filter->ids.num_ids; i++)
        json_int(out, filter->ids.ids[i]);
    json_end_array(out);
    return status;
}

struct status filter_encode(const struct tokenizer *tokenizer, FILE *in, FILE *out)
{
    struct filter filter = {0};
    struct status status = encoder_create(tokenizer, &filter.encoder);

    if (!status.code)
        status = line_filter_run(&(struct line_filter){.answer = answer,
                                                       .context = &filter,
                                                       .max_line_bytes = FILTER_MAX_LINE,
                                                       .max_memory = (size_t)FILTER_MAX_LINE * 16},
                                 in, out);
    token_list_deinit(&filter.ids);
    encoder_destroy(&filter.encoder);
    return status;
}
