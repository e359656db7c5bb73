/*
 * test_bfloat16.c - bfloat16 against float32 on a card: how far the logits of first steps are
 * apart, and greedy tokens that are the same wherever the two best logits are further apart than
 * that, with overlap on and off, alone and in company.
 */
#include <math.h>
#include <time.h>

#include "tests/gpu/card_main.h"
#include "tests/unit/engine_rig.h"
#include "tests/unit/golden_file.h"
#include "tests/unit/golden_models.h"

enum { MAX_ROWS = 64, MAX_STEPS = 48 };

/* What float32 says: each row's tokens, and by how much the best logit leads at each. */
struct truth {
    int32_t num_tokens[MAX_ROWS];
    int32_t tokens[MAX_ROWS][MAX_STEPS];
    double margins[MAX_ROWS][MAX_STEPS];
    float *first[MAX_ROWS]; /* owned: logits of the first step */
};

static void open_rig(struct rig *rig, const char *dir, enum engine_dtype dtype, bool is_overlapped)
{
    rig_open(rig, &(struct rig_args){.dir = dir,
                                     .device = ENGINE_CUDA,
                                     .dtype = dtype,
                                     .is_overlapped = is_overlapped,
                                     .policy = is_overlapped ? POLICY_MIXED : POLICY_PREFILL_FIRST,
                                     .cache_type = CACHE_NAIVE,
                                     .page_size = 16,
                                     .chunk = 1024,
                                     .max_running = MAX_ROWS,
                                     .num_pages = 2048,
                                     .graph_max_rows = ENGINE_GRAPH_AUTO});
}

static void submit_row(struct rig *rig, const struct golden *golden, int32_t r)
{
    const struct golden_row *row = &golden->rows[r];
    int32_t num = row->num_output < MAX_STEPS ? row->num_output : MAX_STEPS;

    rig_submit(rig, (uint64_t)r + 1, row->input_ids, row->num_input, num, true);
}

static double lead_of_the_best(const float *logits, int32_t n)
{
    double best = -INFINITY, second = -INFINITY;

    for (int32_t i = 0; i < n; i++) {
        double x = (double)logits[i];
        if (x > best) {
            second = best;
            best = x;
        } else if (x > second) {
            second = x;
        }
    }
    return best - second;
}

/* Row after row, step after step, each looked at. */
static void learn_truth(const char *dir, const struct golden *golden, struct truth *out)
{
    struct rig rig;

    open_rig(&rig, dir, ENGINE_DTYPE_F32, false);
    size_t size = (size_t)rig.model.vocab_size * sizeof(float);
    float *logits = malloc(size);
    for (int32_t r = 0; r < golden->num_rows; r++) {
        int32_t step = 0;
        submit_row(&rig, golden, r);
        while (scheduler_has_work(rig.scheduler)) {
            const struct batch *batch = scheduler_next_batch(rig.scheduler);
            ck_assert_ok(engine_launch(rig.engine, batch));
            ck_assert_ok(engine_read_logits(rig.engine, 0, logits));
            rig_process(&rig, batch);
            if (step == 0) {
                out->first[r] = malloc(size);
                memcpy(out->first[r], logits, size);
            }
            out->margins[r][step++] = lead_of_the_best(logits, rig.model.vocab_size);
        }
        out->num_tokens[r] = rig.answers[r].num_tokens;
        ck_assert_int_eq(step, out->num_tokens[r]);
        memcpy(out->tokens[r], rig.answers[r].tokens, (size_t)step * sizeof(int32_t));
    }
    free(logits);
    rig_close(&rig);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* First logits of each row alone; returns the largest distance of any logit. */
static double check_first_logits(struct rig *rig, const struct golden *golden,
                                 const struct truth *truth, const char *dir, bool is_dense)
{
    int32_t vocab_size = rig->model.vocab_size;
    float *logits = malloc((size_t)vocab_size * sizeof(float));
    double errors[MAX_ROWS], largest = 0;

    for (int32_t r = 0; r < golden->num_rows; r++) {
        double difference = 0, norm = 0;
        const struct golden_row *row = &golden->rows[r];
        rig_submit(rig, (uint64_t)r + 1, row->input_ids, row->num_input, 1, true);
        rig_run(rig);
        ck_assert_ok(engine_read_logits(rig->engine, 0, logits));
        for (int32_t i = 0; i < vocab_size; i++) {
            double x = (double)truth->first[r][i], d = (double)logits[i] - x;
            difference += d * d;
            norm += x * x;
            largest = fabs(d) > largest ? fabs(d) : largest;
        }
        errors[r] = sqrt(difference / norm);
    }
    qsort(errors, (size_t)golden->num_rows, sizeof(double), compare_doubles);
    double median = errors[golden->num_rows / 2];
    printf("%s: first logits differ by %.2e (median), %.2e (most), largest %.3f\n", dir, median,
           errors[golden->num_rows - 1], largest);
    if (is_dense) /* a router may flip */
        ck_assert_msg(median <= 2e-2, "%s: first logits differ by %.2e", dir, median);
    free(logits);
    return largest;
}

/* Up to the first near tie of each row; returns how many tokens were compared. */
static int32_t check_tokens(const struct rig *rig, const struct golden *golden,
                            const struct truth *truth, double error, const char *what)
{
    int32_t count = 0;

    for (int32_t r = 0; r < golden->num_rows; r++) {
        const struct rig_answer *answer = &rig->answers[r];
        if (answer->num_tokens == 0) /* not asked for */
            continue;
        for (int32_t i = 0; i < truth->num_tokens[r] && truth->margins[r][i] > error; i++) {
            ck_assert_msg(answer->tokens[i] == truth->tokens[r][i],
                          "%s: row %d token %d: %d not %d, which leads by %.3f", what, r, i,
                          answer->tokens[i], truth->tokens[r][i], truth->margins[r][i]);
            count++;
        }
    }
    return count;
}

START_TEST(as_float32_but_for_near_ties)
{
    char dir[1024];
    struct golden golden;
    static struct truth truth;
    int32_t count = 0;

    golden_model_dir(_i, dir, sizeof(dir));
    golden_open(&golden, dir);
    learn_truth(dir, &golden, &truth);
    for (int is_overlapped = 0; is_overlapped < 2; is_overlapped++) {
        struct rig rig;
        open_rig(&rig, dir, ENGINE_DTYPE_BF16, is_overlapped);
        bool is_dense = rig.model.num_experts == 0;
        /* Both of the two best may be off, and later steps read a cache that is off too. */
        double error = 3 * check_first_logits(&rig, &golden, &truth, dir, is_dense);
        for (int32_t r = 0; r < golden.num_rows && is_dense; r++) {
            memset(rig.answers, 0, RIG_MAX_REQS * sizeof(rig.answers[0]));
            submit_row(&rig, &golden, r);
            rig_run(&rig);
            count += check_tokens(&rig, &golden, &truth, error, "alone");
        }
        for (int32_t r = 0; r < golden.num_rows && is_dense; r++)
            submit_row(&rig, &golden, r);
        rig_run(&rig);
        if (is_dense)
            count += check_tokens(&rig, &golden, &truth, error, "in company");
        rig_close(&rig);
        ck_assert(!is_dense || count > 0);
    }
    printf("%s: %d tokens are the same\n", dir, count);
    for (int32_t r = 0; r < golden.num_rows; r++)
        free(truth.first[r]);
    golden_close(&golden);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_loop_test(tcase, as_float32_but_for_near_ties, 0, GOLDEN_NUM_MODELS);
}

int main(void)
{
    return card_main("bfloat16", add);
}
