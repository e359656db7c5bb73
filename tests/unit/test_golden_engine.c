/*
 * test_golden_engine.c - golden answers through engine and core: the ids that Hugging Face gives,
 * whatever the caches, chunks, pages, policies, loops and threads; logits of first steps.
 */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "tests/unit/engine_rig.h"
#include "tests/unit/golden_file.h"
#include "tests/unit/golden_models.h"

static const struct way {
    enum cache_type cache_type;
    int32_t chunk, page_size;
} ways[] = {
    {CACHE_RADIX, 8192, 1}, {CACHE_NAIVE, 5, 1}, {CACHE_RADIX, 7, 4}, {CACHE_RADIX, 64, 16}};

enum { NUM_WAYS = 4 };

static void check_answers(const struct rig *rig, const struct golden *golden, const char *what)
{
    for (int32_t r = 0; r < golden->num_rows; r++) {
        const struct golden_row *row = &golden->rows[r];
        const struct rig_answer *answer = &rig->answers[r];
        ck_assert_msg(answer->finish == FINISH_LENGTH || answer->finish == FINISH_STOP,
                      "%s: row %d ended by %d", what, r, (int)answer->finish);
        if (row->num_sure == row->num_output)
            ck_assert_int_eq(answer->num_tokens, row->num_output);
        for (int32_t i = 0; i < row->num_sure && i < answer->num_tokens; i++)
            ck_assert_msg(answer->tokens[i] == row->output_ids[i], "%s: row %d token %d: %d not %d",
                          what, r, i, answer->tokens[i], row->output_ids[i]);
    }
}

/* Chunks of a lone prompt: all but the last end on a page boundary. */
static int32_t count_chunks(const struct way *way, int32_t num_tokens)
{
    int32_t chunk = way->chunk / way->page_size * way->page_size;

    chunk = chunk < way->page_size ? way->page_size : chunk;
    return (num_tokens + chunk - 1) / chunk;
}

static void submit_all(struct rig *rig, const struct golden *golden, bool ignore_eos)
{
    for (int32_t r = 0; r < golden->num_rows; r++)
        rig_submit(rig, (uint64_t)r + 1, golden->rows[r].input_ids, golden->rows[r].num_input,
                   golden->rows[r].num_output, ignore_eos);
}

/* Cold together, warm together, then (in one loop) each alone. */
static void check_way(int model, const struct way *way, enum policy policy, bool is_overlapped,
                      int32_t threads)
{
    char dir[1024], what[256];
    struct golden golden;
    struct rig rig;
    int32_t num_cached = 0;

    golden_model_dir(model, dir, sizeof(dir));
    snprintf(what, sizeof(what), "%s cache %d chunk %d page %d policy %d overlap %d threads %d",
             golden_model_name(model), (int)way->cache_type, way->chunk, way->page_size,
             (int)policy, is_overlapped, threads);
    golden_open(&golden, dir);
    rig_open(&rig, &(struct rig_args){.dir = dir,
                                      .dtype = ENGINE_DTYPE_F32,
                                      .num_threads = threads,
                                      .cache_type = way->cache_type,
                                      .policy = policy,
                                      .is_overlapped = is_overlapped,
                                      .page_size = way->page_size,
                                      .chunk = way->chunk,
                                      .max_running = 8,
                                      .num_pages = 4096 / way->page_size});
    submit_all(&rig, &golden, model != GOLDEN_DEMO);
    rig_run(&rig);
    check_answers(&rig, &golden, what);
    ck_assert_int_gt(rig.max_rows, 1);
    rig_check_empty(&rig);

    submit_all(&rig, &golden, model != GOLDEN_DEMO);
    rig_run(&rig);
    check_answers(&rig, &golden, what);
    for (int32_t r = 0; r < golden.num_rows; r++)
        num_cached += rig.answers[r].num_cached;
    if (way->cache_type == CACHE_RADIX)
        ck_assert_int_gt(num_cached, 0);
    else
        ck_assert_int_eq(num_cached, 0);
    rig_check_empty(&rig);

    scheduler_flush_cache(rig.scheduler);
    for (int32_t r = 0; model != GOLDEN_DEMO && is_overlapped && r < golden.num_rows; r++) {
        const struct golden_row *row = &golden.rows[r];
        rig.num_prefill_steps = 0;
        rig_submit(&rig, (uint64_t)r + 1, row->input_ids, row->num_input, row->num_output, true);
        rig_run(&rig);
        if (rig.answers[r].num_cached == 0)
            ck_assert_int_eq(rig.num_prefill_steps, count_chunks(way, row->num_input));
    }
    check_answers(&rig, &golden, what);
    rig_check_empty(&rig);
    rig_close(&rig);
    golden_close(&golden);
}

START_TEST(tiny_models_every_way)
{
    const struct way *way = &ways[_i % NUM_WAYS];

    for (int policy = 0; policy < 2; policy++)
        for (int overlap = 0; overlap < 2; overlap++)
            check_way(_i / NUM_WAYS, way, (enum policy)policy, overlap, 1 + (policy ^ overlap));
}
END_TEST

START_TEST(demo_model)
{
    check_way(GOLDEN_DEMO, &ways[_i], (enum policy)(_i / 2), _i % 2 == 0, 1 + _i % 2);
}
END_TEST

/* A device that is now ahead, now behind: both loops and policies give the same tokens. */
START_TEST(random_delays_change_no_answer)
{
    const struct way *way = &ways[2];
    char dir[1024];
    struct golden golden;
    struct rig rig;

    golden_model_dir(GOLDEN_DEMO, dir, sizeof(dir));
    golden_open(&golden, dir);
    rig_open(&rig, &(struct rig_args){.dir = dir,
                                      .dtype = ENGINE_DTYPE_F32,
                                      .num_threads = 2,
                                      .cache_type = way->cache_type,
                                      .policy = (enum policy)(_i / 2),
                                      .is_overlapped = _i % 2 == 0,
                                      .page_size = way->page_size,
                                      .chunk = way->chunk,
                                      .max_running = 8,
                                      .num_pages = 4096 / way->page_size,
                                      .op_delay_ns = 20000,
                                      .op_delay_random = true});
    submit_all(&rig, &golden, false);
    rig_run(&rig);
    check_answers(&rig, &golden, "random delays");
    rig_check_empty(&rig);
    rig_close(&rig);
    golden_close(&golden);
}
END_TEST

/* The first step's 16 largest logits, through the core. */
static void check_logits(const char *dir, const char *golden_dir)
{
    struct golden golden;
    struct rig rig;

    golden_open(&golden, golden_dir);
    rig_open(&rig, &(struct rig_args){.dir = dir,
                                      .dtype = ENGINE_DTYPE_F32,
                                      .page_size = 4,
                                      .chunk = 1024,
                                      .max_running = 4,
                                      .num_pages = 512});
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

START_TEST(logits_of_first_steps)
{
    char dir[1024];

    golden_model_dir(_i, dir, sizeof(dir));
    check_logits(dir, dir);
}
END_TEST

static float *first_logits(const char *dir, enum engine_dtype dtype, const struct golden *golden,
                           int32_t *out_vocab_size)
{
    struct rig rig;

    rig_open(&rig, &(struct rig_args){.dir = dir,
                                      .dtype = dtype,
                                      .page_size = 16,
                                      .chunk = 1024,
                                      .max_running = 4,
                                      .num_pages = 128});
    int32_t vocab_size = *out_vocab_size = rig.model.vocab_size;
    float *logits = malloc((size_t)golden->num_rows * vocab_size * sizeof(float));
    for (int32_t r = 0; r < golden->num_rows; r++) {
        rig_submit(&rig, (uint64_t)r + 1, golden->rows[r].input_ids, golden->rows[r].num_input, 1,
                   true);
        rig_run(&rig);
        ck_assert_ok(engine_read_logits(rig.engine, 0, logits + (size_t)r * vocab_size));
    }
    rig_close(&rig);
    return logits;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* ||bfloat16 - float32|| / ||float32|| of the first step's logits: 8 bits of mantissa through some
 * dozen layers. */
static void check_bfloat16(const char *dir, const char *golden_dir)
{
    struct golden golden;
    double errors[64];
    int32_t vocab_size = 0;

    golden_open(&golden, golden_dir);
    float *wide = first_logits(dir, ENGINE_DTYPE_F32, &golden, &vocab_size);
    float *narrow = first_logits(dir, ENGINE_DTYPE_BF16, &golden, &vocab_size);
    for (int32_t r = 0; r < golden.num_rows; r++) {
        double difference = 0, norm = 0;
        for (size_t i = (size_t)r * vocab_size; i < (size_t)(r + 1) * vocab_size; i++) {
            difference += (double)(narrow[i] - wide[i]) * (double)(narrow[i] - wide[i]);
            norm += (double)wide[i] * (double)wide[i];
        }
        errors[r] = sqrt(difference / norm);
    }
    qsort(errors, (size_t)golden.num_rows, sizeof(double), compare_doubles);
    printf("%s: bfloat16 error median %.4f largest %.4f\n", dir, errors[golden.num_rows / 2],
           errors[golden.num_rows - 1]);
    ck_assert_double_le(errors[golden.num_rows / 2], 2e-2);
    ck_assert_double_le(errors[golden.num_rows - 1], 6e-2);
    free(wide);
    free(narrow);
    golden_close(&golden);
}

START_TEST(bfloat16_stays_near_float32)
{
    char dir[1024];

    golden_model_dir(GOLDEN_DEMO, dir, sizeof(dir));
    check_bfloat16(dir, dir);
}
END_TEST

/* MINISGL_SMOLLM2 names a directory of that model, where there is one: tests/e2e has it fetched. */
START_TEST(smollm2)
{
    const char *model = getenv("MINISGL_SMOLLM2");
    char dir[1024];

    if (!model)
        return;
    snprintf(dir, sizeof(dir), "%s/smollm2", getenv("MINISGL_TEST_DATA"));
    check_logits(model, dir);
    check_bfloat16(model, dir);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden_engine");
    TCase *tcase = tcase_create("golden_engine");

    tcase_set_timeout(tcase, 1200);
    tcase_add_loop_test(tcase, tiny_models_every_way, 0, GOLDEN_NUM_TINY * NUM_WAYS);
    tcase_add_loop_test(tcase, demo_model, 0, NUM_WAYS);
    tcase_add_loop_test(tcase, random_delays_change_no_answer, 0, 4);
    tcase_add_loop_test(tcase, logits_of_first_steps, 0, GOLDEN_NUM_MODELS);
    tcase_add_test(tcase, bfloat16_stays_near_float32);
    suite_add_tcase(suite, tcase);
    TCase *real = tcase_create("smollm2");
    tcase_set_timeout(real, 1200);
    tcase_add_test(real, smollm2);
    suite_add_tcase(suite, real);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
