/* test_config.c - configs: what is read from either spelling, and what is refused, by its key. */
#include "scheduler_proc/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    {QWEN3 ", \"use_sliding_window\": true, \"sliding_window\": 128}", "sliding_window"},
    {QWEN3 ", \"layer_types\": [\"linear_attention\"]}", "layer_types"},
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

START_TEST(a_window_that_no_position_reaches_is_none)
{
    static const char json[] =
        "{\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": 128, " SIZES "}";

    ck_assert_fails(model_config_parse(&config, json, sizeof(json) - 1, 0), STATUS_UNSUPPORTED,
                    "sliding_window");
    ck_assert_ok(model_config_parse(&config, json, sizeof(json) - 1, 128));
    ck_assert_ok(parse(QWEN3 ", \"sliding_window\": 128}")); /* Qwen has a switch, here off */
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

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tcase = tcase_create("config");

    tcase_add_test(tcase, sizes_and_defaults);
    tcase_add_test(tcase, both_spellings_are_one);
    tcase_add_test(tcase, layers_of_experts);
    tcase_add_loop_test(tcase, what_the_decoder_lacks_is_refused, 0,
                        sizeof(refused) / sizeof(refused[0]));
    tcase_add_test(tcase, a_window_that_no_position_reaches_is_none);
    tcase_add_test(tcase, deep_nesting_is_refused);
    tcase_add_test(tcase, end_ids_of_all_files_together);
    tcase_add_test(tcase, the_tokenizers_end_token_counts);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
