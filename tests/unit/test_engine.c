/* test_engine.c - the engine without the scheduler's core: batches made by hand. */
#include "scheduler_proc/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler_proc/engine_internal.h"
#include "tests/unit/check_main.h"
#include "tests/unit/golden_file.h"
#include "tests/unit/golden_models.h"

enum { PAGE_SIZE = 4, MAX_TOKENS = 1024 };

struct rig {
    struct model_config model;
    struct engine *engine;
};

static void rig_open(struct rig *rig, const char *dir, enum engine_device device, int32_t threads)
{
    struct batch_limits limits = {.max_rows = 8,
                                  .max_tokens = 600 + 8,
                                  .max_token_spans = 8,
                                  .max_page_spans = 8,
                                  .max_values = 4096};

    ck_assert_ok(model_config_open(&rig->model, dir, 0));
    struct engine_config config = {.device = device,
                                   .dtype = ENGINE_DTYPE_F32,
                                   .model_dir = dir,
                                   .model = &rig->model,
                                   .num_threads = threads,
                                   .max_running_reqs = 8,
                                   .max_prefill_tokens = 600,
                                   .page_size = PAGE_SIZE,
                                   .num_pages = 256,
                                   .graph_max_rows = ENGINE_GRAPH_AUTO};
    ck_assert_ok(engine_create(&config, &rig->engine));
    ck_assert_ok(engine_prepare(rig->engine, &limits));
}

/* Row 3 of the tables, pages from 17 on: a prompt in one step, then one token a step. */
static void answer_alone(struct rig *rig, const struct golden_row *golden, int32_t *out,
                         float *logits)
{
    int32_t values[MAX_TOKENS], positions[MAX_TOKENS], out_loc[MAX_TOKENS];
    int32_t num_pages = (golden->num_input + golden->num_output + PAGE_SIZE - 1) / PAGE_SIZE;
    struct step_span tokens = {.table_idx = 3, .len = golden->num_input};
    struct step_span pages = {.table_idx = 3, .len = num_pages, .value = golden->num_input};
    int32_t len = 0;

    memcpy(values, golden->input_ids, (size_t)golden->num_input * sizeof(int32_t));
    for (int32_t i = 0; i < num_pages; i++)
        values[golden->num_input + i] = 17 + i;
    for (int32_t i = 0; i < golden->num_output; i++) {
        int32_t extend_len = i == 0 ? golden->num_input : 1;
        struct batch_row row = {
            .table_idx = 3, .start = len, .extend_len = extend_len, .samples = true, .top_p = 1};
        struct batch batch = {.step = i,
                              .num_rows = 1,
                              .num_tokens = extend_len,
                              .max_extend_len = extend_len,
                              .max_kv_len = len + extend_len,
                              .is_decode = extend_len == 1,
                              .rows = &row,
                              .positions = positions,
                              .out_loc = out_loc,
                              .token_spans = &tokens,
                              .page_spans = &pages,
                              .num_token_spans = i == 0,
                              .num_page_spans = i == 0,
                              .values = values,
                              .num_values = i == 0 ? golden->num_input + num_pages : 0};
        const int32_t *result = NULL;
        struct engine_times times;
        for (int32_t j = 0; j < extend_len; j++, len++) {
            positions[j] = len;
            out_loc[j] = 17 * PAGE_SIZE + len;
        }
        ck_assert_ok(engine_launch(rig->engine, &batch));
        ck_assert_ok(engine_wait(rig->engine, &result, &times));
        out[i] = result[0];
        if (i == 0 && logits)
            ck_assert_ok(engine_read_logits(rig->engine, 0, logits));
    }
}

static void check_golden(const char *dir)
{
    struct golden golden;
    struct rig rig = {0};
    int32_t out[MAX_TOKENS];

    golden_open(&golden, dir);
    rig_open(&rig, dir, ENGINE_CPU, 2);
    float *logits = malloc((size_t)rig.model.vocab_size * sizeof(float));
    for (int32_t r = 0; r < golden.num_rows; r++) {
        const struct golden_row *row = &golden.rows[r];
        answer_alone(&rig, row, out, logits);
        for (int32_t i = 0; i < row->num_top; i++)
            ck_assert_double_eq_tol((double)logits[row->top_ids[i]], row->top_logits[i], 1e-3);
        for (int32_t i = 0; i < row->num_sure; i++)
            ck_assert_msg(out[i] == row->output_ids[i], "%s row %d token %d: %d, not %d", dir, r, i,
                          out[i], row->output_ids[i]);
    }
    free(logits);
    engine_destroy(&rig.engine);
    golden_close(&golden);
}

START_TEST(tiny_models_answer_as_transformers)
{
    char dir[1024];

    golden_model_dir(_i, dir, sizeof(dir));
    check_golden(dir);
}
END_TEST

START_TEST(sizes_of_captured_steps)
{
    static const int32_t max_rows[] = {0, 1, 4, 8, 72, 256, 512};
    static const int32_t max_tokens[] = {5, 16, 72, 500, 512, 8448};
    struct engine_graph_size sizes[ENGINE_MAX_GRAPHS];

    for (size_t i = 0; i < sizeof(max_rows) / sizeof(max_rows[0]); i++)
        for (size_t j = 0; j < sizeof(max_tokens) / sizeof(max_tokens[0]); j++) {
            int32_t most = 0, count = engine_graph_sizes(max_rows[i], max_tokens[j], sizes);
            ck_assert_int_le(count, ENGINE_MAX_GRAPHS);
            for (int32_t k = 0; k < count; k++) {
                ck_assert_int_le(sizes[k].num_rows, max_rows[i]);
                ck_assert_int_le(sizes[k].num_rows, sizes[k].num_tokens);
                if (!sizes[k].is_mixed)
                    continue;
                ck_assert_int_le(sizes[k].num_tokens, max_tokens[j]);
                most = sizes[k].num_tokens > most ? sizes[k].num_tokens : most;
            }
            int32_t limit = max_tokens[j] < 512 ? max_tokens[j] : 512;
            ck_assert_int_eq(most, max_rows[i] ? limit : 0);
            ck_assert_int_eq(count == 0, max_rows[i] == 0);
        }
}
END_TEST

/* A header of odd size: every tensor stands unaligned in its file, and nothing is copied for it
 * but what the decoder reads in place. */
START_TEST(an_unaligned_file_answers_the_same)
{
    char dir[] = "/tmp/minisgl-engine-XXXXXX", command[2048], path[64];
    uint8_t size[8] = {0};

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(command, sizeof(command), "cp %s/tiny_models/%s/* %s", getenv("MINISGL_TEST_DATA"),
             _i ? "llama" : "qwen2", dir);
    ck_assert_int_eq(system(command), 0);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    size_t length = (size_t)ftell(file);
    char *bytes = malloc(length);
    rewind(file);
    ck_assert_uint_eq(fread(bytes, 1, length, file), length);
    fclose(file);
    memcpy(size, bytes, 8);
    size_t header = (size_t)size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16;
    size_t larger = header + 1 + header % 2; /* odd */
    for (int i = 0; i < 3; i++)
        size[i] = (uint8_t)(larger >> 8 * i);
    file = fopen(path, "wb");
    fwrite(size, 1, 8, file);
    fwrite(bytes + 8, 1, header, file);
    for (size_t i = header; i < larger; i++)
        fputc(' ', file);
    fwrite(bytes + 8 + header, 1, length - 8 - header, file);
    ck_assert_int_eq(fclose(file), 0);
    free(bytes);
    check_golden(dir);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("engine");

    tcase_add_loop_test(tcase, tiny_models_answer_as_transformers, 0, GOLDEN_NUM_TINY);
    tcase_add_loop_test(tcase, an_unaligned_file_answers_the_same, 0, 2);
    tcase_add_test(tcase, sizes_of_captured_steps);
    return check_run_case("engine", tcase);
}
