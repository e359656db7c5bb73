/* generation_config.c - see generation_config.h. */
#include "tools/client/generation_config.h"

#include "common/json.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

static void take_number(const struct json_value *config, const char *key, double *out)
{
    const struct json_value *value = json_get(config, key);

    if (*out < 0 && value && value->type == JSON_NUMBER && value->number >= 0)
        *out = value->number;
}

static void take_config(const struct json_value *config, struct request_options *options)
{
    const struct json_value *samples = json_get(config, "do_sample");
    const struct json_value *top_k = json_get(config, "top_k");

    if (!samples || samples->type != JSON_BOOL || !samples->boolean)
        return; /* greedy, as without a file */
    if (options->temperature < 0 && !json_get(config, "temperature"))
        options->temperature = 1;
    take_number(config, "temperature", &options->temperature);
    take_number(config, "top_p", &options->top_p);
    take_number(config, "min_p", &options->min_p);
    if (options->top_k < -1 && top_k && top_k->type == JSON_NUMBER && top_k->is_integer &&
        top_k->integer >= 0 && top_k->integer <= INT32_MAX)
        options->top_k = top_k->integer;
}

struct status generation_config_apply(const char *model, struct request_options *options)
{
    struct json_value *config = NULL;
    struct arena arena;

    arena_init(&arena, 0, 0);
    struct status status =
        json_parse_file(model, "generation_config.json", MAX_CONFIG_BYTES, &arena, &config);
    if (!status.code)
        take_config(config, options);
    arena_deinit(&arena);
    return status;
}
