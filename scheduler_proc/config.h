/*
 * config.h - what a Hugging Face directory says of its model: config.json, generation_config.json,
 * and the tokenizer's own end token.
 *
 * A table of architectures says which parts of the one decoder each uses; the file gives the sizes.
 * Older spellings (rope_theta, rope_scaling, torch_dtype) and newer ones (rope_parameters, dtype)
 * are read alike. What a config asks for and the decoder lacks is refused by its key.
 *
 * Source: Hugging Face transformers, configuration_*.py and modeling_rope_utils.py.
 */
#ifndef SCHEDULER_PROC_CONFIG_H
#define SCHEDULER_PROC_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"
#include "common/status.h"
#include "kernels/ops.h"

enum { MODEL_MAX_EOS_IDS = 64, MODEL_MAX_LAYERS = 1024 };

enum rope_type { ROPE_DEFAULT, ROPE_LLAMA3, ROPE_YARN };

struct rope_config {
    enum rope_type type;
    double theta;
    double factor;                            /* llama3, yarn */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    double attention_factor;                  /* yarn: what cos and sin are multiplied by; else 1 */
    bool truncate;                            /* yarn: the ramp's ends are whole numbers */
    int32_t original_max_position;            /* llama3, yarn */
};

struct model_config {
    const char *architecture; /* static text: "Qwen3ForCausalLM" */
    int32_t vocab_size, hidden_size, intermediate_size, num_layers;
    int32_t num_qo_heads, num_kv_heads, head_dim;
    int32_t max_position_embeddings;
    float rms_norm_eps;
    bool qkv_bias, o_bias, mlp_bias, qk_norm;
    bool tie_word_embeddings;
    enum dtype dtype; /* that config.json names; float32 when it names none */
    struct rope_config rope;
    /* Mixture of experts; num_experts 0: every layer is dense. */
    int32_t num_experts, num_experts_per_tok, moe_intermediate_size;
    bool norm_topk_prob;
    bool is_sparse[MODEL_MAX_LAYERS]; /* layers whose MLP is experts */
    /* End ids: those of generation_config.json, config.json and the tokenizer, each once. */
    int32_t eos_ids[MODEL_MAX_EOS_IDS];
    int32_t num_eos_ids;
    char warning[124]; /* what was left out, or "" */
};

/*
 * Reads the directory. max_seq_len_override 0: none; it matters here for models whose
 * sliding_window is only reached beyond it. Errors name the file and the key.
 */
MUST_CHECK struct status model_config_open(struct model_config *config, const char *dir,
                                           int32_t max_seq_len_override);

/* config.json alone, from its bytes: no file is looked at, end ids are the config's own. */
MUST_CHECK struct status model_config_parse(struct model_config *config, const char *json,
                                            size_t size, int32_t max_seq_len_override);

/*
 * Adds the end ids of an eos_token_id, one or a list, that are not known yet; NULL: none. One that
 * the vocabulary lacks is an error, or with may_skip left out with a warning.
 */
MUST_CHECK struct status model_config_add_eos(struct model_config *config,
                                              const struct json_value *value, bool may_skip);

#endif
