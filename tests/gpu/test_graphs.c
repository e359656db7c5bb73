/*
 * test_graphs.c - captured steps on a card: what a step asks of the device, counted; and the same
 * tokens as operator by operator, at every boundary between two sizes.
 */
#include <math.h>
#include <time.h>

#include "scheduler_proc/engine_internal.h"
#include "tests/gpu/card_main.h"
#include "tests/unit/engine_rig.h"
#include "tests/unit/golden_models.h"

enum { MAX_RUNNING = 72, CHUNK = 600 };

/* ---- a device that counts ---- */

static struct counts {
    int graphs, operators, uploads, downloads, records, waits;
} counts;

static const struct device_ops *real;
static const struct kernels *real_kernels;

static struct status counted_copy(struct stream *stream, void *dst, const void *src, size_t size,
                                  enum copy_kind kind)
{
    counts.uploads += kind == COPY_HOST_TO_DEVICE;
    counts.downloads += kind == COPY_DEVICE_TO_HOST;
    return real->copy(stream, dst, src, size, kind);
}

static struct status counted_graph(struct stream *stream, struct graph *graph)
{
    counts.graphs++;
    return real->graph_launch(stream, graph);
}

static struct status counted_record(struct stream *stream, struct event *event)
{
    counts.records++;
    return real->event_record(stream, event);
}

static struct status counted_wait(struct event *event)
{
    counts.waits++;
    return real->event_wait(event);
}

static struct status counted_begin(struct stream *stream, const struct step_begin_args *args)
{
    counts.operators++; /* the first of a step that is launched operator by operator */
    return real_kernels->step_begin(stream, args);
}

static void count_from_now(struct engine *engine)
{
    static struct device_ops counting;
    static struct kernels counting_kernels;

    if (engine->backend.device != &counting) {
        real = engine->backend.device;
        real_kernels = engine->backend.kernels;
        counting = *real;
        counting.copy = counted_copy;
        counting.graph_launch = counted_graph;
        counting.event_record = counted_record;
        counting.event_wait = counted_wait;
        counting_kernels = *real_kernels;
        counting_kernels.step_begin = counted_begin;
        engine->backend = (struct backend){.device = &counting, .kernels = &counting_kernels};
    }
    counts = (struct counts){0};
}

static void open_rig(struct rig *rig, enum engine_dtype dtype, int32_t graph_max_rows)
{
    char dir[1024];

    golden_model_dir(GOLDEN_DEMO, dir, sizeof(dir));
    rig_open(rig, &(struct rig_args){.dir = dir,
                                     .device = ENGINE_CUDA,
                                     .dtype = dtype,
                                     .policy = POLICY_MIXED,
                                     .cache_type = CACHE_NAIVE,
                                     .page_size = 16,
                                     .chunk = CHUNK,
                                     .max_running = MAX_RUNNING,
                                     .num_pages = 2048,
                                     .graph_max_rows = graph_max_rows});
}

/* Tokens of one seed are the same in every rig. */
static void submit(struct rig *rig, uint64_t uid, int32_t num_ids, int32_t max_tokens)
{
    int32_t ids[CHUNK];

    for (int32_t i = 0; i < num_ids; i++)
        ids[i] = (int32_t)(sample_mix(uid * 1000 + (uint64_t)i) % 1700);
    rig_submit(rig, uid, ids, num_ids, max_tokens, true);
}

static const struct batch *turn(struct rig *rig)
{
    const struct batch *batch = scheduler_next_batch(rig->scheduler);

    ck_assert_ptr_nonnull(batch);
    ck_assert_ok(engine_launch(rig->engine, batch));
    return batch;
}

START_TEST(a_step_is_one_graph_one_upload_one_download)
{
    struct rig rig;

    open_rig(&rig, ENGINE_DTYPE_F32, ENGINE_GRAPH_AUTO);
    for (uint64_t uid = 1; uid <= 5; uid++)
        submit(&rig, uid, 20, 40);
    rig_process(&rig, turn(&rig)); /* the prompts */
    for (int i = 0; i < 10; i++) {
        count_from_now(rig.engine);
        const struct batch *batch = turn(&rig);
        ck_assert(batch->is_decode);
        ck_assert_int_eq(counts.waits, 1); /* for the pinned slot of four steps ago: long done */
        rig_process(&rig, batch);
        ck_assert_int_eq(counts.graphs, 1);
        ck_assert_int_eq(counts.operators, 0);
        ck_assert_int_eq(counts.uploads, 1);
        ck_assert_int_eq(counts.downloads, 1);
        ck_assert_int_eq(counts.records, 2); /* of the upload, and of the step */
        ck_assert_int_eq(counts.waits, 2);   /* for the step */
    }
    submit(&rig, 6, 100, 2); /* beside five streams */
    count_from_now(rig.engine);
    const struct batch *batch = turn(&rig);
    ck_assert_int_eq(batch->num_tokens, 105);
    rig_process(&rig, batch);
    ck_assert_int_eq(counts.graphs, 1);
    ck_assert_int_eq(counts.operators, 0);
    ck_assert_int_eq(counts.uploads, 1);
    ck_assert_int_eq(counts.downloads, 1);
    rig_run(&rig);
    rig_close(&rig);
}
END_TEST

/* ---- graphs and operators agree ---- */

struct pair {
    struct rig eager, captured;
    float *logits[2];
    double tolerance;
};

/* The logits of the last step's row, from both. */
static void compare_logits(struct pair *pair, int32_t row, int32_t num_tokens)
{
    double difference = 0, norm = 0;
    int32_t vocab_size = pair->eager.model.vocab_size;

    ck_assert_ok(engine_read_logits(pair->eager.engine, row, pair->logits[0]));
    ck_assert_ok(engine_read_logits(pair->captured.engine, row, pair->logits[1]));
    for (int32_t i = 0; i < vocab_size; i++) {
        double x = (double)pair->logits[0][i], y = (double)pair->logits[1][i];
        difference += (x - y) * (x - y);
        norm += x * x;
    }
    ck_assert_msg(sqrt(difference) <= pair->tolerance * sqrt(norm),
                  "a step of %d tokens, row %d: logits differ by %.2e of their norm", num_tokens,
                  row, sqrt(difference / norm));
}

/* A step of so many tokens: a prompt beside streams (none of them: alone). */
static void compare_step(struct pair *pair, int32_t num_streams, int32_t num_tokens)
{
    struct rig *rigs[2] = {&pair->eager, &pair->captured};
    uint64_t prompt = (uint64_t)num_streams + 1;
    int num_graphs = 0;

    for (int i = 0; i < 2; i++) {
        for (int32_t s = 0; s < num_streams; s++)
            submit(rigs[i], (uint64_t)s + 1, 3 + s % 10, 6);
        for (int step = 0; step < 2 && num_streams > 0; step++)
            rig_process(rigs[i], turn(rigs[i]));
        submit(rigs[i], prompt, num_tokens - num_streams, 3);
        count_from_now(pair->captured.engine);
        const struct batch *batch = turn(rigs[i]);
        ck_assert_int_eq(batch->num_tokens, num_tokens);
        ck_assert_int_eq(batch->num_rows, num_streams + 1);
        num_graphs = counts.graphs;
        rig_process(rigs[i], batch);
    }
    ck_assert_int_eq(num_graphs, num_tokens <= 512); /* of the captured one, which came last */
    for (int32_t r = 0; r <= num_streams; r++)
        compare_logits(pair, r, num_tokens);
    for (int i = 0; i < 2; i++) {
        rig_run(rigs[i]);
        rig_check_empty(rigs[i]);
    }
    if (pair->tolerance > 1e-3) /* bfloat16: near ties are many */
        return;
    for (uint64_t r = 0; r < prompt; r++) {
        const struct rig_answer *a = &pair->eager.answers[r], *b = &pair->captured.answers[r];
        ck_assert_int_eq(a->num_tokens, b->num_tokens);
        ck_assert_mem_eq(a->tokens, b->tokens, (size_t)a->num_tokens * sizeof(int32_t));
    }
}

/* At each size, and one token above it. */
static void compare_boundaries(enum engine_dtype dtype, double tolerance)
{
    struct pair pair = {.tolerance = tolerance};
    struct engine_graph_size sizes[ENGINE_MAX_GRAPHS];
    int32_t num_sizes = engine_graph_sizes(MAX_RUNNING, CHUNK + MAX_RUNNING, sizes);
    int32_t last = 0;

    open_rig(&pair.eager, dtype, 0);
    open_rig(&pair.captured, dtype, ENGINE_GRAPH_AUTO);
    for (int i = 0; i < 2; i++)
        pair.logits[i] = malloc((size_t)pair.eager.model.vocab_size * sizeof(float));
    for (int32_t i = 0; i < num_sizes; i++) {
        if (!sizes[i].is_mixed || sizes[i].num_tokens == last)
            continue;
        last = sizes[i].num_tokens;
        for (int32_t n = last; n <= last + 1; n++) {
            compare_step(&pair, 0, n);
            compare_step(&pair, 7, n); /* 8 rows: none is padding in the smallest */
            if (n > 64)
                compare_step(&pair, 8 + n % 50, n);
        }
    }
    compare_step(&pair, MAX_RUNNING - 1, 200); /* every row there is */
    for (int i = 0; i < 2; i++)
        free(pair.logits[i]);
    rig_close(&pair.eager);
    rig_close(&pair.captured);
}

START_TEST(boundaries_in_float32)
{
    compare_boundaries(ENGINE_DTYPE_F32, 1e-4); /* sums in another order */
}
END_TEST

START_TEST(boundaries_in_bfloat16)
{
    compare_boundaries(ENGINE_DTYPE_BF16, 2e-2); /* roundings of six layers in another order */
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_test(tcase, a_step_is_one_graph_one_upload_one_download);
    tcase_add_test(tcase, boundaries_in_float32);
    tcase_add_test(tcase, boundaries_in_bfloat16);
}

int main(void)
{
    setenv("MINISGL_CUDA_NO_TIMING", "1", 1); /* operator by operator each step is a new shape */
    return card_main("graphs", add);
}
