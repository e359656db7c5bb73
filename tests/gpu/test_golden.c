/*
 * test_golden.c - golden answers on a card: float32 through engine, core and captured graphs,
 * against transformers. Sums run in other orders than on the CPU, so answers are compared up to
 * the first near tie.
 */
#include <time.h>

#include "tests/gpu/card_main.h"
#include "tests/unit/engine_rig.h"
#include "tests/unit/golden_file.h"
#include "tests/unit/golden_models.h"

static void check(const char *dir, int32_t page_size, int32_t graph_max_rows, bool is_overlapped)
{
    struct golden golden;
    struct rig rig;

    golden_open(&golden, dir);
    rig_open(&rig, &(struct rig_args){.dir = dir,
                                      .device = ENGINE_CUDA,
                                      .dtype = ENGINE_DTYPE_F32,
                                      .is_overlapped = is_overlapped,
                                      .policy = is_overlapped ? POLICY_MIXED : POLICY_PREFILL_FIRST,
                                      .page_size = page_size,
                                      .chunk = 64,
                                      .max_running = 8,
                                      .num_pages = 4096 / page_size,
                                      .graph_max_rows = graph_max_rows});
    for (int pass = 0; pass < 2; pass++) { /* cold, warm */
        for (int32_t r = 0; r < golden.num_rows; r++)
            rig_submit(&rig, (uint64_t)r + 1, golden.rows[r].input_ids, golden.rows[r].num_input,
                       golden.rows[r].num_output, true);
        rig_run(&rig);
        for (int32_t r = 0; r < golden.num_rows; r++)
            for (int32_t i = 0; i < golden.rows[r].num_sure; i++)
                ck_assert_msg(rig.answers[r].tokens[i] == golden.rows[r].output_ids[i],
                              "%s page %d graphs %d pass %d row %d token %d", dir, page_size,
                              graph_max_rows, pass, r, i);
        rig_check_empty(&rig);
    }
    rig_close(&rig);
    golden_close(&golden);
}

START_TEST(answers_as_transformers)
{
    char dir[1024];

    golden_model_dir(_i, dir, sizeof(dir));
    check(dir, 16, ENGINE_GRAPH_AUTO, true);
    check(dir, 4, 0, false); /* operator by operator */
}
END_TEST

START_TEST(first_logits)
{
    char dir[1024];
    struct golden golden;
    struct rig rig;

    golden_model_dir(_i, dir, sizeof(dir));
    golden_open(&golden, dir);
    rig_open(&rig, &(struct rig_args){.dir = dir,
                                      .device = ENGINE_CUDA,
                                      .dtype = ENGINE_DTYPE_F32,
                                      .page_size = 16,
                                      .chunk = 1024,
                                      .max_running = 4,
                                      .num_pages = 128});
    float *logits = malloc((size_t)rig.model.vocab_size * sizeof(float));
    for (int32_t r = 0; r < golden.num_rows; r++) {
        const struct golden_row *row = &golden.rows[r];
        rig_submit(&rig, (uint64_t)r + 1, row->input_ids, row->num_input, 1, true);
        rig_run(&rig);
        ck_assert_ok(engine_read_logits(rig.engine, 0, logits));
        for (int32_t i = 0; i < row->num_top; i++) /* 1e-3: other orders of float32 sums */
            ck_assert_double_eq_tol((double)logits[row->top_ids[i]], row->top_logits[i], 1e-3);
    }
    free(logits);
    rig_close(&rig);
    golden_close(&golden);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_loop_test(tcase, first_logits, 0, GOLDEN_NUM_MODELS);
    tcase_add_loop_test(tcase, answers_as_transformers, 0, GOLDEN_NUM_MODELS);
}

int main(void)
{
    return card_main("golden", add);
}
