/* model_info.c - see model_info.h. */
#include "tokenizer_proc/model_info.h"

#include "common/json.h"

enum { MAX_CONFIG_BYTES = 16 << 20 };

/* A count under that key, 0 when it is not there. */
static struct status get_count(const struct json_value *config, const char *key, int32_t *out)
{
    const struct json_value *value = json_get(config, key);

    if (!value)
        value = json_get(json_get(config, "text_config"), key);
    if (!value || value->type == JSON_NULL)
        return status_ok();
    if (!value->is_integer || value->integer < 1 || value->integer > INT32_MAX)
        return status_error(STATUS_FORMAT, "config.json: %s must be an integer from 1 to %d", key,
                            INT32_MAX);
    *out = (int32_t)value->integer;
    return status_ok();
}

struct status model_info_read(const char *dir, struct model_info *out)
{
    struct model_info info = {0};
    struct json_value *config = NULL;
    struct arena arena;
    struct status status;

    arena_init(&arena, 0, 0);
    status = json_parse_file(dir, "config.json", MAX_CONFIG_BYTES, &arena, &config);
    if (status.code == STATUS_NOT_FOUND)
        status = status_ok(); /* of NULL every count is 0 */
    if (status.code == STATUS_OK)
        status = get_count(config, "vocab_size", &info.vocab_size);
    if (status.code == STATUS_OK)
        status = get_count(config, "max_position_embeddings", &info.max_seq_len);
    if (status.code == STATUS_OK)
        *out = info;
    arena_deinit(&arena);
    return status;
}
