/* config.c - config.json: see config.h. */
#include "scheduler_proc/config.h"

#include <math.h>
#include <string.h>

#include "common/arena.h"
#include "common/json.h"

/* Which parts of the decoder an architecture uses. */
struct architecture {
    const char *name;
    bool qkv_bias;
    bool qk_norm;
    bool has_attention_bias; /* the config may ask for biases on q, k, v and o */
    bool has_mlp_bias;
    bool has_experts;
    bool window_needs_switch; /* sliding_window counts only with use_sliding_window */
    bool window_by_layer;     /* and only in some layers: layer_types, max_window_layers */
    int32_t window;           /* when the config gives none, not even null; 0: none */
    int32_t head_dim;         /* when the config gives none; 0: hidden_size / heads */
};

static const struct architecture architectures[] = {
    {.name = "LlamaForCausalLM", .has_attention_bias = true, .has_mlp_bias = true},
    {.name = "MistralForCausalLM", .window = 4096},
    {.name = "Qwen2ForCausalLM",
     .qkv_bias = true,
     .window_needs_switch = true,
     .window_by_layer = true,
     .window = 4096},
    {.name = "Qwen3ForCausalLM",
     .qk_norm = true,
     .has_attention_bias = true,
     .window_needs_switch = true,
     .window_by_layer = true,
     .window = 4096,
     .head_dim = 128},
    {.name = "Qwen3MoeForCausalLM",
     .qk_norm = true,
     .has_attention_bias = true,
     .has_experts = true,
     .window_needs_switch = true,
     .window = 4096},
};

/* ---- values of an object, each with what it must be; the first fault stays ---- */

struct object_reader {
    const struct json_value *object;
    struct status status;
};

static void fail(struct object_reader *in, const char *key, const char *expected)
{
    if (in->status.code == STATUS_OK)
        in->status = status_error(STATUS_INVALID, "%s must be %s", key, expected);
}

/* NULL when absent or null. */
static const struct json_value *find(const struct object_reader *in, const char *key)
{
    const struct json_value *value = json_get(in->object, key);

    return value && value->type != JSON_NULL ? value : NULL;
}

/* An integer in min..max; if absent the default, or with a default below min a fault. */
static int32_t read_int(struct object_reader *in, const char *key, int32_t min, int32_t max,
                        int32_t absent)
{
    const struct json_value *value = find(in, key);
    char expected[96];

    if (!value && absent >= min)
        return absent;
    if (value && value->type == JSON_NUMBER && value->is_integer && value->integer >= min &&
        value->integer <= max)
        return (int32_t)value->integer;
    snprintf(expected, sizeof(expected), "an integer from %d to %d%s", min, max,
             value ? "" : ", and is missing");
    fail(in, key, expected);
    return min;
}

static const double required = (double)NAN; /* in place of a default */

/* A finite number, at least min; if absent the default, or a fault where it is required. */
static double read_double(struct object_reader *in, const char *key, double min, double absent)
{
    const struct json_value *value = find(in, key);
    char expected[96];

    if (!value && !isnan(absent))
        return absent;
    if (value && value->type == JSON_NUMBER && isfinite(value->number) && value->number >= min)
        return value->number;
    snprintf(expected, sizeof(expected), "a number of at least %g%s", min,
             value ? "" : ", and is missing");
    fail(in, key, expected);
    return min;
}

static bool read_bool(struct object_reader *in, const char *key, bool absent)
{
    const struct json_value *value = find(in, key);

    if (!value)
        return absent;
    if (value->type != JSON_BOOL)
        fail(in, key, "true or false");
    return value->boolean;
}

/* Well formed, but the decoder has no such thing. value: of that key, or NULL. */
static void refuse(struct object_reader *in, const char *key, const struct json_value *value,
                   const char *why)
{
    bool has_text = value && (value->type == JSON_STRING || value->type == JSON_NUMBER);

    if (in->status.code)
        return;
    if (has_text)
        in->status =
            status_error(STATUS_UNSUPPORTED, "%s: %.*s %s", key,
                         value->text.size < 40 ? (int)value->text.size : 40, value->text.data, why);
    else
        in->status = status_error(STATUS_UNSUPPORTED, "%s: %s", key, why);
}

/* ---- config.json ---- */

static const struct architecture *read_architecture(struct object_reader *in)
{
    const struct json_value *list = find(in, "architectures");
    const struct json_value *name = NULL;

    if (!list || list->type != JSON_ARRAY || list->num_items == 0 ||
        list->items[0].type != JSON_STRING) {
        fail(in, "architectures", "a list of one name");
        return NULL;
    }
    name = &list->items[0];
    for (size_t i = 0; i < sizeof(architectures) / sizeof(architectures[0]); i++)
        if (json_is(name, architectures[i].name))
            return &architectures[i];
    refuse(in, "architectures", name, "is none of {Llama,Mistral,Qwen2,Qwen3,Qwen3Moe}ForCausalLM");
    return NULL;
}

static enum dtype read_dtype(struct object_reader *in)
{
    const struct json_value *value = find(in, "dtype");

    if (!value)
        value = find(in, "torch_dtype");
    if (!value || json_is(value, "float32"))
        return DTYPE_F32;
    if (json_is(value, "bfloat16"))
        return DTYPE_BF16;
    if (json_is(value, "float16"))
        return DTYPE_F16;
    refuse(in, "dtype", value, "is none of float32, bfloat16, float16");
    return DTYPE_F32;
}

static void read_llama3(struct object_reader *rope, struct rope_config *out)
{
    out->type = ROPE_LLAMA3;
    out->factor = read_double(rope, "factor", 1, required);
    out->low_freq_factor = read_double(rope, "low_freq_factor", 1e-6, required);
    out->high_freq_factor = read_double(rope, "high_freq_factor", 1e-6, required);
    out->original_max_position =
        read_int(rope, "original_max_position_embeddings", 1, INT32_MAX, 0);
    if (out->high_freq_factor < out->low_freq_factor)
        fail(rope, "high_freq_factor", "at least low_freq_factor");
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

/* The attention factor is as given, or from mscale and mscale_all_dim, or 0.1 ln(factor) + 1. */
static void read_yarn(struct object_reader *rope, int32_t max_position, struct rope_config *out)
{
    double mscale = read_double(rope, "mscale", 0, 0);
    double mscale_all_dim = read_double(rope, "mscale_all_dim", 0, 0);

    out->type = ROPE_YARN;
    out->factor = read_double(rope, "factor", 1, required);
    out->beta_fast = read_double(rope, "beta_fast", 1e-6, 32);
    out->beta_slow = read_double(rope, "beta_slow", 1e-6, 1);
    out->truncate = read_bool(rope, "truncate", true);
    out->original_max_position =
        read_int(rope, "original_max_position_embeddings", 1, INT32_MAX, max_position);
    if (out->beta_fast < out->beta_slow)
        fail(rope, "beta_fast", "at least beta_slow");
    out->attention_factor =
        read_double(rope, "attention_factor", 0,
                    mscale > 0 && mscale_all_dim > 0 ? yarn_mscale(out->factor, mscale) /
                                                           yarn_mscale(out->factor, mscale_all_dim)
                                                     : yarn_mscale(out->factor, 1));
}

static void read_rope(struct object_reader *in, int32_t max_position, struct rope_config *out)
{
    const struct json_value *object = find(in, "rope_parameters");
    const struct json_value *type = NULL;
    double theta = read_double(in, "rope_theta", 1, 10000);

    if (!object)
        object = find(in, "rope_scaling");
    *out = (struct rope_config){.type = ROPE_DEFAULT, .theta = theta, .attention_factor = 1};
    if (read_double(in, "partial_rotary_factor", 0, 1) != 1)
        refuse(in, "partial_rotary_factor", find(in, "partial_rotary_factor"),
               "is not 1: only whole heads are rotated");
    if (!object)
        return;
    if (object->type != JSON_OBJECT) {
        fail(in, "rope_parameters (rope_scaling)", "an object");
        return;
    }
    struct object_reader rope = {.object = object, .status = in->status};
    out->theta = read_double(&rope, "rope_theta", 1, theta);
    if (read_double(&rope, "partial_rotary_factor", 0, 1) != 1)
        refuse(&rope, "partial_rotary_factor", find(&rope, "partial_rotary_factor"),
               "is not 1: only whole heads are rotated");
    type = find(&rope, "rope_type");
    if (!type)
        type = find(&rope, "type");
    if (type && json_is(type, "llama3"))
        read_llama3(&rope, out);
    else if (type && json_is(type, "yarn"))
        read_yarn(&rope, max_position, out);
    else if (type && !json_is(type, "default"))
        refuse(&rope, "rope_type", type, "is none of default, llama3, yarn");
    else if (!type && object->num_items > 0 && !find(&rope, "rope_theta"))
        fail(&rope, "rope_type", "given");
    in->status = rope.status;
}

static void read_experts(struct object_reader *in, struct model_config *config)
{
    const struct json_value *dense = find(in, "mlp_only_layers");
    int32_t step = read_int(in, "decoder_sparse_step", 1, MODEL_MAX_LAYERS, 1);

    config->num_experts =
        read_int(in, "num_experts", 1, 65536, read_int(in, "num_local_experts", 0, 65536, 0));
    config->num_experts_per_tok = read_int(in, "num_experts_per_tok", 1, config->num_experts, 0);
    config->moe_intermediate_size = read_int(in, "moe_intermediate_size", 1, 1 << 24, 0);
    config->norm_topk_prob = read_bool(in, "norm_topk_prob", false);
    for (int32_t i = 0; i < config->num_layers; i++)
        config->is_sparse[i] = (i + 1) % step == 0;
    if (!dense)
        return;
    if (dense->type != JSON_ARRAY)
        fail(in, "mlp_only_layers", "a list of layer numbers");
    for (size_t i = 0; dense->type == JSON_ARRAY && i < dense->num_items; i++) {
        const struct json_value *layer = &dense->items[i];
        if (layer->type != JSON_NUMBER || !layer->is_integer || layer->integer < 0 ||
            layer->integer >= config->num_layers)
            fail(in, "mlp_only_layers", "a list of layer numbers");
        else
            config->is_sparse[layer->integer] = false;
    }
}

/* Tokens that a layer with a window sees; 0: there is no window. */
static int32_t read_window(struct object_reader *in, const struct architecture *arch)
{
    if (arch->window_needs_switch && !read_bool(in, "use_sliding_window", false))
        return 0;
    if (!json_get(in->object, "sliding_window"))
        return arch->window;
    return find(in, "sliding_window") ? read_int(in, "sliding_window", 1, INT32_MAX, 0) : 0;
}

/* Whether any layer has the window. */
static bool read_window_layers(struct object_reader *in, const struct architecture *arch,
                               int32_t num_layers)
{
    const struct json_value *layers = find(in, "layer_types");
    bool any = false;

    if (layers && layers->type != JSON_ARRAY)
        fail(in, "layer_types", "a list");
    for (size_t i = 0; layers && layers->type == JSON_ARRAY && i < layers->num_items; i++) {
        const struct json_value *type = &layers->items[i];
        if (json_is(type, "sliding_attention"))
            any = true;
        else if (!json_is(type, "full_attention"))
            refuse(in, "layer_types", type, "is neither full_attention nor sliding_attention");
    }
    if (!arch->window_by_layer)
        return true;
    return layers ? any : read_int(in, "max_window_layers", 0, INT32_MAX, 28) < num_layers;
}

/* A window that no position reaches is none, and so is one that no layer has. */
static void check_window(struct object_reader *in, const struct architecture *arch,
                         int32_t num_layers, int32_t max_seq_len)
{
    int32_t window = read_window(in, arch);
    bool has_layers = read_window_layers(in, arch, num_layers);

    if (in->status.code || window == 0 || window >= max_seq_len || !has_layers)
        return;
    in->status =
        status_error(STATUS_UNSUPPORTED,
                     "sliding_window: %d%s is shorter than the longest sequence, %d (see "
                     "--max-seq-len-override)",
                     window, find(in, "sliding_window") ? "" : ", the default,", max_seq_len);
}

static void read_sizes(struct object_reader *in, const struct architecture *arch,
                       struct model_config *config)
{
    config->vocab_size = read_int(in, "vocab_size", 1, 1 << 24, 0);
    config->hidden_size = read_int(in, "hidden_size", 1, 1 << 20, 0);
    config->num_layers = read_int(in, "num_hidden_layers", 1, MODEL_MAX_LAYERS, 0);
    config->num_qo_heads = read_int(in, "num_attention_heads", 1, 65535, 0);
    config->num_kv_heads =
        read_int(in, "num_key_value_heads", 1, config->num_qo_heads, config->num_qo_heads);
    config->max_position_embeddings = read_int(in, "max_position_embeddings", 2, 1 << 30, 0);
    config->rms_norm_eps = (float)read_double(in, "rms_norm_eps", 0, 1e-6);
    if (config->num_qo_heads % config->num_kv_heads != 0)
        fail(in, "num_attention_heads", "a multiple of num_key_value_heads");
    if (find(in, "head_dim") || arch->head_dim) {
        config->head_dim = read_int(in, "head_dim", 2, 1024, arch->head_dim);
    } else {
        config->head_dim = config->hidden_size / config->num_qo_heads;
        if (config->hidden_size % config->num_qo_heads != 0)
            fail(in, "hidden_size", "a multiple of num_attention_heads where head_dim is missing");
    }
    if (config->head_dim < 2 || config->head_dim % 2 != 0)
        fail(in, "head_dim", "even");
    config->intermediate_size = read_int(in, "intermediate_size", 1, 1 << 24, 0);
}

static void check_unsupported(struct object_reader *in)
{
    static const char *const keys[] = {"quantization_config",    "num_shared_experts",
                                       "n_shared_experts",       "shared_expert_intermediate_size",
                                       "attn_logit_softcapping", "final_logit_softcapping"};
    const struct json_value *act = find(in, "hidden_act");

    if (act && !json_is(act, "silu"))
        refuse(in, "hidden_act", act, "is not silu");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const struct json_value *value = find(in, keys[i]);
        if (value && !(value->type == JSON_NUMBER && value->number == 0))
            refuse(in, keys[i], value, "is given, and the decoder has no such part");
    }
}

struct status model_config_parse(struct model_config *config, const char *json, size_t size,
                                 int32_t max_seq_len_override)
{
    struct arena arena;
    struct json_value *root = NULL;
    const struct architecture *arch = NULL;
    struct model_config result = {0};
    struct status status;

    arena_init(&arena, 0, 0);
    status = json_parse(json, size, &arena, &root);
    if (status.code)
        goto out;
    struct object_reader in = {.object = root, .status = status_ok()};
    if (root->type != JSON_OBJECT) {
        status = status_error(STATUS_INVALID, "must be an object");
        goto out;
    }
    arch = read_architecture(&in);
    if (!arch) {
        status = in.status;
        goto out;
    }
    result.architecture = arch->name;
    read_sizes(&in, arch, &result);
    bool attention_bias = arch->has_attention_bias && read_bool(&in, "attention_bias", false);
    result.qkv_bias = arch->qkv_bias || attention_bias;
    result.o_bias = attention_bias;
    result.mlp_bias = arch->has_mlp_bias && read_bool(&in, "mlp_bias", false);
    result.qk_norm = arch->qk_norm;
    result.tie_word_embeddings = read_bool(&in, "tie_word_embeddings", false);
    result.dtype = read_dtype(&in);
    read_rope(&in, result.max_position_embeddings, &result.rope);
    if (arch->has_experts)
        read_experts(&in, &result);
    check_window(&in, arch, result.num_layers,
                 max_seq_len_override > 0 ? max_seq_len_override : result.max_position_embeddings);
    check_unsupported(&in);
    status = in.status;
    if (status.code == STATUS_OK)
        status = model_config_add_eos(&result, find(&in, "eos_token_id"), false);
    if (status.code == STATUS_OK)
        *config = result;
out:
    arena_deinit(&arena);
    return status;
}

struct status model_config_add_eos(struct model_config *config, const struct json_value *value,
                                   bool may_skip)
{
    size_t count = value && value->type == JSON_ARRAY ? value->num_items : 1;

    if (!value || value->type == JSON_NULL)
        return status_ok();
    for (size_t i = 0; i < count; i++) {
        const struct json_value *id = value->type == JSON_ARRAY ? &value->items[i] : value;
        bool is_id = id->type == JSON_NUMBER && id->is_integer && id->integer >= 0;
        bool is_known = false;
        if (is_id && may_skip && id->integer >= config->vocab_size) {
            snprintf(config->warning, sizeof(config->warning),
                     "eos_token_id %lld is left out: vocab_size is %d", (long long)id->integer,
                     config->vocab_size);
            continue;
        }
        if (!is_id || id->integer >= config->vocab_size)
            return status_error(STATUS_INVALID,
                                "eos_token_id must be an id below vocab_size (%d) or a list of ids",
                                config->vocab_size);
        for (int32_t j = 0; j < config->num_eos_ids; j++)
            is_known |= config->eos_ids[j] == id->integer;
        if (is_known)
            continue;
        if (config->num_eos_ids == MODEL_MAX_EOS_IDS)
            return status_error(STATUS_UNSUPPORTED, "eos_token_id: more than %d ids",
                                MODEL_MAX_EOS_IDS);
        config->eos_ids[config->num_eos_ids++] = (int32_t)id->integer;
    }
    return status_ok();
}
