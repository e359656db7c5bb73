/* config_dir.c - the files of a model's directory that speak of it: see config.h. */
#include <stdlib.h>

#include "common/arena.h"
#include "common/file.h"
#include "common/json.h"
#include "common/vocabulary.h"
#include "scheduler_proc/config.h"

enum { CONFIG_MAX_BYTES = 16 << 20 };

/* NULL in *out when the file is not there. */
static struct status read_optional(const char *dir, const char *name, struct arena *arena,
                                   struct json_value **out)
{
    struct status status = json_parse_file(dir, name, CONFIG_MAX_BYTES, arena, out);

    if (status.code != STATUS_NOT_FOUND)
        return status;
    *out = NULL;
    return status_ok();
}

/* tokenizer_config.json names the end token by its text; tokenizer.json knows its id. */
static struct status add_tokenizer_eos(struct model_config *config, const char *dir,
                                       struct arena *arena)
{
    struct json_value *root = NULL;
    struct vocabulary vocabulary = {0};
    struct status status = read_optional(dir, "tokenizer_config.json", arena, &root);
    const struct json_value *token = json_get(root, "eos_token");

    if (status.code)
        return status;
    if (token && token->type == JSON_OBJECT)
        token = json_get(token, "content");
    if (!token || token->type != JSON_STRING)
        return status_ok();
    status = vocabulary_open(&vocabulary, dir);
    if (status.code == STATUS_NOT_FOUND)
        return status_ok();
    if (status.code)
        return status;
    int32_t id = vocabulary_find_added(&vocabulary, token->text.data, token->text.size);
    vocabulary_deinit(&vocabulary);
    if (id < 0 || id >= config->vocab_size)
        return status_ok();
    struct json_value value = {.type = JSON_NUMBER, .is_integer = true, .integer = id};
    return model_config_add_eos(config, &value, false);
}

struct status model_config_open(struct model_config *config, const char *dir,
                                int32_t max_seq_len_override)
{
    struct arena arena;
    struct json_value *generation = NULL;
    struct model_config result = {0};
    char path[4096];
    char *data = NULL;
    size_t size = 0;
    struct status status = path_join(dir, "config.json", path, sizeof(path));

    arena_init(&arena, 0, 0);
    if (status.code == STATUS_OK)
        status = file_read(path, CONFIG_MAX_BYTES, &data, &size);
    if (status.code)
        goto out;
    status = status_context(model_config_parse(&result, data, size, max_seq_len_override),
                            "config.json");
    if (status.code)
        goto out;
    status = read_optional(dir, "generation_config.json", &arena, &generation);
    if (status.code)
        goto out;
    status =
        status_context(model_config_add_eos(&result, json_get(generation, "eos_token_id"), true),
                       "generation_config.json");
    if (status.code)
        goto out;
    status = add_tokenizer_eos(&result, dir, &arena);
    if (status.code)
        goto out;
    *config = result;
out:
    free(data);
    arena_deinit(&arena);
    return status;
}
