/* test_config.c - configs: what is read from either spelling, and what is refused, by its key. */
#include "scheduler_proc/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/unit/check_main.h"
#include "tests/unit/check_status.h"

#define SIZES                                                                                      \
    "\"vocab_size\": 320, \"hidden_size\": 64, \"intermediate_size\": 128, "                       \
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "           \
    "\"max_position_embeddings\": 512"

#define QWEN3 "{\"architectures\": [\"Qwen3ForCausalLM\"], \"head_dim\": 32, " SIZES

static struct model_config config;

static struct status parse(const char *json)
{
    config = (struct model_config){0};
    return model_config_parse(&config, json, strlen(json), 0);
}

START_TEST(sizes_and_defaults)
{
    ck_assert_ok(parse(QWEN3 "}"));
    ck_assert_str_eq(config.architecture, "Qwen3ForCausalLM");
    ck_assert_int_eq(config.head_dim, 32); /* not hidden_size / heads */
    ck_assert(config.qk_norm && !config.qkv_bias && !config.tie_word_embeddings);
    ck_assert_double_eq(config.rope.theta, 10000);
    ck_assert_int_eq((int)config.rope.type, ROPE_DEFAULT);
    ck_assert_int_eq((int)config.dtype, DTYPE_F32);

    ck_assert_ok(parse("{\"architectures\": [\"Qwen2ForCausalLM\"], " SIZES "}"));
    ck_assert_int_eq(config.head_dim, 16);
    ck_assert(config.qkv_bias && !config.o_bias && !config.qk_norm);
}
END_TEST

START_TEST(both_spellings_are_one)
{
    ck_assert_ok(parse(QWEN3 ", \"rope_theta\": 5e5, \"torch_dtype\": \"bfloat16\", "
                             "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
                             "\"original_max_position_embeddings\": 64}}"));
    struct model_config old = config;
    ck_assert_ok(parse("\xEF\xBB\xBF" QWEN3 ", \"dtype\": \"bfloat16\", "
                       "\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
                       "\"rope_theta\": 5e5, \"original_max_position_embeddings\": 64}}"));
    ck_assert_int_eq((int)config.dtype, DTYPE_BF16);
    ck_assert_int_eq((int)old.dtype, DTYPE_BF16);
    ck_assert_double_eq(config.rope.theta, 5e5);
    ck_assert_double_eq(old.rope.theta, 5e5);
    ck_assert_double_eq_tol(old.rope.attention_factor, 0.1 * log(4) + 1, 1e-12);
    ck_assert_double_eq_tol(config.rope.attention_factor, 0.1 * log(4) + 1, 1e-12);
    ck_assert_ok(parse(QWEN3 ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
                             "\"attention_factor\": 1.5}}"));
    ck_assert_double_eq(config.rope.attention_factor, 1.5);
    ck_assert_int_eq(config.rope.original_max_position, 512);
}
END_TEST

START_TEST(layers_of_experts)
{
    ck_assert_ok(parse("{\"architectures\": [\"Qwen3MoeForCausalLM\"], " SIZES
                       ", \"num_experts\": 8, \"num_experts_per_tok\": 2, "
                       "\"moe_intermediate_size\": 32, \"decoder_sparse_step\": 2, "
                       "\"mlp_only_layers\": [3], \"norm_topk_prob\": true}"));
    ck_assert_int_eq(config.num_experts, 8);
    ck_assert(config.norm_topk_prob);
    ck_assert(!config.is_sparse[0] && config.is_sparse[1] && !config.is_sparse[2]);
    ck_assert(!config.is_sparse[3]); /* by mlp_only_layers */
}
END_TEST

static const struct {
    const char *json, *names;
} refused[] = {
    {"", "line 1"},
    {"[]", "object"},
    {"{}", "architectures"},
    {"{\"architectures\": [\"GPT2LMHeadModel\"]}", "GPT2LMHeadModel"},
    {"{\"architectures\": [\"LlamaForCausalLM\"]}", "vocab_size"},
    {QWEN3 ", \"num_attention_heads\": 0}", "num_attention_heads"},
    {QWEN3 ", \"num_attention_heads\": \"4\"}", "num_attention_heads"},
    {QWEN3 ", \"num_attention_heads\": 4.5}", "num_attention_heads"},
    {QWEN3 ", \"num_key_value_heads\": 3}", "num_key_value_heads"},
    {QWEN3 ", \"hidden_size\": NaN}", "line 1"},
    {QWEN3 ", \"head_dim\": 33}", "head_dim"},
    {QWEN3 ", \"hidden_act\": \"gelu\"}", "hidden_act"},
    {QWEN3 ", \"torch_dtype\": \"float64\"}", "dtype"},
    {QWEN3 ", \"rope_scaling\": {\"rope_type\": \"longrope\"}}", "longrope"},
    {QWEN3 ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}}", "low_freq_factor"},
    {QWEN3 ", \"rope_scaling\": 3}", "rope_scaling"},
    {QWEN3 ", \"partial_rotary_factor\": 0.5}", "partial_rotary_factor"},
    {QWEN3 ", \"quantization_config\": {\"quant_method\": \"awq\"}}", "quantization_config"},
    {QWEN3 ", \"layer_types\": [\"linear_attention\"]}", "layer_types"},
    {QWEN3 ", \"layer_types\": {}}", "layer_types"},
    {QWEN3 ", \"eos_token_id\": 320}", "eos_token_id"},
    {QWEN3 ", \"tie_word_embeddings\": 1}", "tie_word_embeddings"},
    {QWEN3 ", \"rms_norm_eps\": 1e999}", "rms_norm_eps"},
    {"{\"architectures\": [\"Qwen3MoeForCausalLM\"], " SIZES "}", "num_experts"},
};

START_TEST(what_the_decoder_lacks_is_refused)
{
    struct status status = parse(refused[_i].json);

    ck_assert_int_ne(status.code, STATUS_OK);
    ck_assert_msg(strstr(status.msg, refused[_i].names) != NULL, "'%s' does not name %s",
                  status.msg, refused[_i].names);
}
END_TEST

#define ARCH(name, sizes) "{\"architectures\": [\"" name "ForCausalLM\"], " sizes
#define LONG                                                                                       \
    "\"vocab_size\": 320, \"hidden_size\": 64, \"intermediate_size\": 128, "                       \
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"max_position_embeddings\": 8192"
#define ON ", \"use_sliding_window\": true"

/* Windows as transformers takes them: who slides, and how far one sees where nothing is said. */
static const struct {
    const char *json;
    int32_t max_seq_len; /* 0: the model's 8192 */
    bool is_refused;
} windows[] = {
    {ARCH("Mistral", LONG) ", \"sliding_window\": 128}", 0, true},
    {ARCH("Mistral", LONG) ", \"sliding_window\": 128}", 129, true},
    {ARCH("Mistral", LONG) ", \"sliding_window\": 128}", 128, false},
    {ARCH("Mistral", LONG) ", \"sliding_window\": null}", 0, false},
    {ARCH("Mistral", LONG) "}", 0, true}, /* 4096 */
    {ARCH("Mistral", LONG) "}", 4096, false},
    {ARCH("Llama", LONG) "}", 0, false},
    {ARCH("Qwen2", LONG) "}", 0, false}, /* the switch is off */
    {ARCH("Qwen2", LONG) ", \"sliding_window\": 128}", 0, false},
    {ARCH("Qwen2", LONG) ON "}", 0, false}, /* but from layer 28 on, of 4 */
    {ARCH("Qwen2", LONG) ON ", \"max_window_layers\": 4}", 0, false},
    {ARCH("Qwen2", LONG) ON ", \"max_window_layers\": 3}", 0, true}, /* 4096 */
    {ARCH("Qwen2", LONG) ON ", \"max_window_layers\": 3}", 4096, false},
    {ARCH("Qwen2", LONG) ON ", \"max_window_layers\": 3, \"sliding_window\": null}", 0, false},
    {ARCH("Qwen3", LONG) ON ", \"max_window_layers\": 0, \"sliding_window\": 128}", 0, true},
    {ARCH("Qwen3", LONG) ON ", \"sliding_window\": 128, \"layer_types\": [\"full_attention\", "
                            "\"sliding_attention\"]}",
     0, true},
    {ARCH("Qwen3", LONG) ON ", \"sliding_window\": 40960, \"layer_types\": "
                            "[\"sliding_attention\"]}",
     4096, false},
    {ARCH("Qwen3", LONG) ON ", \"sliding_window\": 128, \"max_window_layers\": 0, "
                            "\"layer_types\": [\"full_attention\"]}",
     0, false},
    {ARCH("Qwen3", LONG) ", \"layer_types\": [\"sliding_attention\"]}", 0, false},
};

START_TEST(a_window_counts_where_it_is_reached)
{
    struct status status = model_config_parse(&config, windows[_i].json, strlen(windows[_i].json),
                                              windows[_i].max_seq_len);

    if (windows[_i].is_refused)
        ck_assert_fails(status, STATUS_UNSUPPORTED, "sliding_window");
    else
        ck_assert_ok(status);
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
    size_t size = 5 << 20;
    char *deep = malloc(size);

    memset(deep, '[', size);
    ck_assert_int_eq(model_config_parse(&config, deep, size, 0).code, STATUS_FORMAT);
    free(deep);
}
END_TEST

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

START_TEST(end_ids_of_all_files_together)
{
    char dir[] = "/tmp/minisgl-config-XXXXXX", command[64];

    ck_assert_ptr_nonnull(mkdtemp(dir));
    write_file(dir, "config.json", QWEN3 ", \"eos_token_id\": 3}");
    write_file(dir, "generation_config.json", "{\"eos_token_id\": [1, 106, 3]}");
    ck_assert_ok(model_config_open(&config, dir, 0));
    ck_assert_int_eq(config.num_eos_ids, 3);
    ck_assert_int_eq(config.eos_ids[0], 3);
    ck_assert_int_eq(config.eos_ids[1], 1);
    ck_assert_int_eq(config.eos_ids[2], 106);
    ck_assert_str_eq(config.warning, "");
    write_file(dir, "generation_config.json", "{\"eos_token_id\": [7, 320]}"); /* no such id */
    ck_assert_ok(model_config_open(&config, dir, 0));
    ck_assert_int_eq(config.num_eos_ids, 2);
    ck_assert_int_eq(config.eos_ids[1], 7);
    ck_assert_ptr_nonnull(strstr(config.warning, "320"));
    write_file(dir, "generation_config.json", "{\"eos_token_id\": \"x\"}");
    ck_assert_fails(model_config_open(&config, dir, 0), STATUS_INVALID, "generation_config.json");
    snprintf(command, sizeof(command), "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);

    snprintf(command, sizeof(command), "%s", "/nowhere");
    ck_assert_fails(model_config_open(&config, command, 0), STATUS_NOT_FOUND, "config.json");
}
END_TEST

START_TEST(the_tokenizers_end_token_counts)
{
    char dir[1024];

    snprintf(dir, sizeof(dir), "%s/../../tools/demo_model", getenv("MINISGL_TEST_DATA"));
    ck_assert_ok(model_config_open(&config, dir, 0));
    ck_assert_int_eq(config.num_eos_ids, 2); /* 1790 stands in all three files */
    ck_assert_int_eq(config.eos_ids[0], 1790);
    ck_assert_int_eq(config.eos_ids[1], 1788);
}
END_TEST

/* config.json as it was published, whole. */
static const struct {
    const char *name, *architecture;
    int32_t vocab_size, hidden_size, intermediate_size, num_layers, num_qo_heads, num_kv_heads;
    int32_t head_dim, max_position, eos_id;
    double theta;
    float eps;
    bool qkv_bias, qk_norm, tied;
    enum rope_type rope;
    int32_t num_experts, num_experts_per_tok, moe_intermediate_size;
} published[] = {
    {"qwen2.5_7b_instruct",
     "Qwen2ForCausalLM",
     152064,
     3584,
     18944,
     28,
     28,
     4,
     128,
     32768,
     151645,
     1e6,
     1e-6f,
     true,
     false,
     false,
     ROPE_DEFAULT,
     0,
     0,
     0},
    {"qwen3_8b",
     "Qwen3ForCausalLM",
     151936,
     4096,
     12288,
     36,
     32,
     8,
     128,
     40960,
     151645,
     1e6,
     1e-6f,
     false,
     true,
     false,
     ROPE_DEFAULT,
     0,
     0,
     0},
    {"qwen3_30b_a3b",
     "Qwen3MoeForCausalLM",
     151936,
     2048,
     6144,
     48,
     32,
     4,
     128,
     40960,
     151645,
     1e6,
     1e-6f,
     false,
     true,
     false,
     ROPE_DEFAULT,
     128,
     8,
     768},
    {"llama3.2_1b_instruct",
     "LlamaForCausalLM",
     128256,
     2048,
     8192,
     16,
     32,
     8,
     64,
     131072,
     128001,
     5e5,
     1e-5f,
     false,
     false,
     true,
     ROPE_LLAMA3,
     0,
     0,
     0},
    {"mistral_7b_v0.3",
     "MistralForCausalLM",
     32768,
     4096,
     14336,
     32,
     32,
     8,
     128,
     32768,
     2,
     1e6,
     1e-5f,
     false,
     false,
     false,
     ROPE_DEFAULT,
     0,
     0,
     0},
    {"mistral_nemo_2407",
     "MistralForCausalLM",
     131072,
     5120,
     14336,
     40,
     32,
     8,
     128,
     1024000,
     2,
     1e6,
     1e-5f,
     false,
     false,
     false,
     ROPE_DEFAULT,
     0,
     0,
     0},
    {"smollm2_1.7b",
     "LlamaForCausalLM",
     49152,
     2048,
     8192,
     24,
     32,
     32,
     64,
     8192,
     0,
     130000,
     1e-5f,
     false,
     false,
     true,
     ROPE_DEFAULT,
     0,
     0,
     0},
};

START_TEST(published_configs_are_read_whole)
{
    char path[1024];
    char *json = NULL;
    size_t size = 0;

    snprintf(path, sizeof(path), "%s/configs/%s.json", getenv("MINISGL_TEST_DATA"),
             published[_i].name);
    ck_assert_ok(file_read(path, 1 << 20, &json, &size));
    ck_assert_ok(model_config_parse(&config, json, size, 0));
    free(json);
    ck_assert_str_eq(config.architecture, published[_i].architecture);
    ck_assert_int_eq(config.vocab_size, published[_i].vocab_size);
    ck_assert_int_eq(config.hidden_size, published[_i].hidden_size);
    ck_assert_int_eq(config.intermediate_size, published[_i].intermediate_size);
    ck_assert_int_eq(config.num_layers, published[_i].num_layers);
    ck_assert_int_eq(config.num_qo_heads, published[_i].num_qo_heads);
    ck_assert_int_eq(config.num_kv_heads, published[_i].num_kv_heads);
    ck_assert_int_eq(config.head_dim, published[_i].head_dim);
    ck_assert_int_eq(config.max_position_embeddings, published[_i].max_position);
    ck_assert_int_eq(config.eos_ids[0], published[_i].eos_id);
    ck_assert_double_eq(config.rope.theta, published[_i].theta);
    ck_assert_double_eq((double)config.rms_norm_eps, (double)published[_i].eps);
    ck_assert(config.qkv_bias == published[_i].qkv_bias && !config.o_bias && !config.mlp_bias);
    ck_assert(config.qk_norm == published[_i].qk_norm);
    ck_assert(config.tie_word_embeddings == published[_i].tied);
    ck_assert_int_eq((int)config.dtype, DTYPE_BF16);
    ck_assert_int_eq((int)config.rope.type, (int)published[_i].rope);
    ck_assert_int_eq(config.num_experts, published[_i].num_experts);
    ck_assert_int_eq(config.num_experts_per_tok, published[_i].num_experts_per_tok);
    ck_assert_int_eq(config.moe_intermediate_size, published[_i].moe_intermediate_size);
    for (int32_t i = 0; i < config.num_layers; i++)
        ck_assert(config.is_sparse[i] == (published[_i].num_experts > 0));
}
END_TEST

START_TEST(llama3_stretches_as_published)
{
    char path[1024];
    char *json = NULL;
    size_t size = 0;

    snprintf(path, sizeof(path), "%s/configs/llama3.2_1b_instruct.json",
             getenv("MINISGL_TEST_DATA"));
    ck_assert_ok(file_read(path, 1 << 20, &json, &size));
    ck_assert_ok(model_config_parse(&config, json, size, 0));
    free(json);
    ck_assert_double_eq(config.rope.factor, 32);
    ck_assert_double_eq(config.rope.low_freq_factor, 1);
    ck_assert_double_eq(config.rope.high_freq_factor, 4);
    ck_assert_int_eq(config.rope.original_max_position, 8192);
    ck_assert_int_eq(config.num_eos_ids, 3);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("config");

    tcase_add_test(tcase, sizes_and_defaults);
    tcase_add_test(tcase, both_spellings_are_one);
    tcase_add_test(tcase, layers_of_experts);
    tcase_add_loop_test(tcase, what_the_decoder_lacks_is_refused, 0,
                        sizeof(refused) / sizeof(refused[0]));
    tcase_add_loop_test(tcase, a_window_counts_where_it_is_reached, 0,
                        sizeof(windows) / sizeof(windows[0]));
    tcase_add_loop_test(tcase, published_configs_are_read_whole, 0,
                        sizeof(published) / sizeof(published[0]));
    tcase_add_test(tcase, llama3_stretches_as_published);
    tcase_add_test(tcase, deep_nesting_is_refused);
    tcase_add_test(tcase, end_ids_of_all_files_together);
    tcase_add_test(tcase, the_tokenizers_end_token_counts);
    return check_run_case("config", tcase);
}
