/*
 * test_storm.c - steps whose sizes change all the time, with aborts and a pool that is too small
 * for all, on a card: each request gets what it got alone, operator by operator, without overlap.
 * So a slot of a ring that is written too early, or a page that is read too late, is a wrong token.
 *
 * MINISGL_STORM_STEPS (10000; below 100: of a smaller model) and MINISGL_STORM_GRAPHS (auto; 0:
 * none) are for tests/gpu/sanitize.sh.
 */
#include <time.h>

#include "tests/gpu/card_main.h"
#include "tests/unit/engine_rig.h"
#include "tests/unit/golden_models.h"

enum {
    MAX_PROMPTS = 64,
    MAX_PROMPT = 160,
    MAX_OUTPUT = 24,
    MAX_RUNNING = 64,
    NUM_PAGES = 160, /* a fifth of what those that run could use */
    PAGE_SIZE = 16,
    CHUNK = 64,
    BATCH_SIZES = 8,
};

static const int32_t batch_sizes[BATCH_SIZES] = {1, 7, 64, 3, 30, 2, 63, 9};

struct prompt {
    int32_t ids[MAX_PROMPT], num_ids;
    int32_t answer[MAX_OUTPUT]; /* of the request alone */
    int32_t num_sure;           /* tokens of it before the first near tie */
};

static uint64_t random_state;
static int model = GOLDEN_DEMO;

static int32_t below(int32_t n)
{
    return (int32_t)(sample_mix(random_state++) % (uint64_t)n);
}

static int64_t number_of(const char *name, int64_t otherwise)
{
    const char *value = getenv(name);

    return value ? strtoll(value, NULL, 10) : otherwise;
}

static void open_rig(struct rig *rig, int32_t graph_max_rows, bool is_overlapped, int32_t num_pages)
{
    char dir[1024];

    golden_model_dir(model, dir, sizeof(dir));
    rig_open(rig, &(struct rig_args){.dir = dir,
                                     .device = ENGINE_CUDA,
                                     .dtype = ENGINE_DTYPE_F32,
                                     .is_overlapped = is_overlapped,
                                     .policy = is_overlapped ? POLICY_MIXED : POLICY_PREFILL_FIRST,
                                     .page_size = PAGE_SIZE,
                                     .chunk = CHUNK,
                                     .max_running = MAX_RUNNING,
                                     .num_pages = num_pages,
                                     .max_seq_len = 256,
                                     .graph_max_rows = graph_max_rows});
}

/* Half of the prompts begin like another one. */
static void make_prompts(struct prompt *prompts, int32_t num_prompts)
{
    for (int32_t p = 0; p < num_prompts; p++) {
        prompts[p].num_ids = 1 + below(below(8) == 0 ? MAX_PROMPT : MAX_PROMPT / 8);
        for (int32_t i = 0; i < MAX_PROMPT; i++)
            prompts[p].ids[i] =
                p % 2 && i < 80 ? prompts[p - 1].ids[i] : below(model == GOLDEN_DEMO ? 1700 : 300);
    }
}

static bool is_near_tie(const float *logits, int32_t n)
{
    float best = logits[0], second = -1e30f;

    for (int32_t i = 1; i < n; i++) {
        if (logits[i] > best) {
            second = best;
            best = logits[i];
        } else if (logits[i] > second) {
            second = logits[i];
        }
    }
    return best - second < 1e-2f;
}

/* Each prompt alone, operator by operator, normal loop. */
static void learn_answers(struct prompt *prompts, int32_t num_prompts)
{
    struct rig rig;

    open_rig(&rig, 0, false, NUM_PAGES);
    float *logits = malloc((size_t)rig.model.vocab_size * sizeof(float));
    for (int32_t p = 0; p < num_prompts; p++) {
        int32_t num_tokens = 0, num_sure = -1;
        rig_submit(&rig, 1, prompts[p].ids, prompts[p].num_ids, MAX_OUTPUT, true);
        while (scheduler_has_work(rig.scheduler)) {
            const struct batch *batch = scheduler_next_batch(rig.scheduler);
            bool samples = batch->rows[0].samples;
            ck_assert_ok(engine_launch(rig.engine, batch));
            if (samples && num_sure < 0) {
                ck_assert_ok(engine_read_logits(rig.engine, 0, logits));
                if (is_near_tie(logits, rig.model.vocab_size))
                    num_sure = num_tokens;
            }
            num_tokens += samples;
            rig_process(&rig, batch);
        }
        memcpy(prompts[p].answer, rig.answers[0].tokens, sizeof(prompts[p].answer));
        prompts[p].num_sure = num_sure < 0 ? MAX_OUTPUT : num_sure;
        fprintf(stderr, "storm: prompt %d of %d alone\n", (int)p + 1, (int)num_prompts);
    }
    free(logits);
    rig_close(&rig);
}

struct storm {
    struct rig rig;
    struct prompt *prompts;
    int32_t num_prompts;
    int32_t prompt_of[RIG_MAX_REQS]; /* by uid - 1; -1: it has ended */
    int64_t free_at[RIG_MAX_REQS];   /* the step from which on its uid may be used again */
    bool is_aborted[RIG_MAX_REQS];
    int64_t step;
    int32_t num_live, num_aborts, num_checked, num_ended;
};

static void submit_one(struct storm *storm)
{
    for (int32_t r = 0; r < RIG_MAX_REQS; r++) {
        if (storm->prompt_of[r] >= 0 || storm->step < storm->free_at[r])
            continue;
        int32_t p = storm->prompt_of[r] = below(storm->num_prompts);
        storm->is_aborted[r] = false;
        storm->num_live++;
        rig_submit(&storm->rig, (uint64_t)r + 1, storm->prompts[p].ids, storm->prompts[p].num_ids,
                   1 + below(MAX_OUTPUT), true);
        return;
    }
}

static void abort_one(struct storm *storm)
{
    int32_t r = below(RIG_MAX_REQS);

    if (storm->prompt_of[r] < 0 || storm->rig.answers[r].finish != FINISH_NONE)
        return;
    storm->is_aborted[r] = true;
    storm->num_aborts++;
    scheduler_abort(storm->rig.scheduler, &(struct abort_msg){.uid = (uint64_t)r + 1});
    rig_take_outputs(&storm->rig);
}

/* Requests that have ended are compared, and their uids are free again. */
static void reap(struct storm *storm)
{
    for (int32_t r = 0; r < RIG_MAX_REQS; r++) {
        const struct rig_answer *answer = &storm->rig.answers[r];
        if (storm->prompt_of[r] < 0 || answer->finish == FINISH_NONE)
            continue;
        const struct prompt *prompt = &storm->prompts[storm->prompt_of[r]];
        ck_assert(answer->finish == FINISH_LENGTH ||
                  (storm->is_aborted[r] && answer->finish == FINISH_ABORT));
        for (int32_t i = 0; i < answer->num_tokens && i < prompt->num_sure; i++) {
            ck_assert_msg(answer->tokens[i] == prompt->answer[i],
                          "prompt %d of %d tokens: token %d is %d, alone %d", storm->prompt_of[r],
                          prompt->num_ids, i, answer->tokens[i], prompt->answer[i]);
            storm->num_checked++;
        }
        storm->prompt_of[r] = -1;
        storm->free_at[r] = storm->step + 4; /* steps in flight may still hold it */
        storm->num_live--;
        storm->num_ended++;
    }
}

static void run_storm(struct storm *storm, int64_t num_steps)
{
    const struct batch *previous = NULL;
    struct rig *rig = &storm->rig;

    for (; storm->step < num_steps || scheduler_has_work(rig->scheduler); storm->step++) {
        int32_t wanted = storm->step < num_steps ? batch_sizes[below(BATCH_SIZES)] : 0;
        while (storm->num_live < wanted)
            submit_one(storm);
        for (int32_t i = below(4) == 0 ? below(20) : 0; i > 0; i--)
            abort_one(storm);
        const struct batch *batch = scheduler_next_batch(rig->scheduler);
        if (batch) {
            ck_assert_ok(engine_launch(rig->engine, batch));
            rig_note_batch(rig, batch);
        }
        const struct batch *launched = batch;
        batch = previous;
        previous = launched;
        if (batch)
            rig_process(rig, batch);
        reap(storm);
        if (storm->step % (num_steps / 10 + 1) == 0) /* a sanitizer takes minutes */
            fprintf(stderr, "storm: step %d\n", (int)storm->step);
    }
}

START_TEST(every_request_as_if_alone)
{
    static struct prompt prompts[MAX_PROMPTS];
    static struct storm storm;
    int64_t num_steps = number_of("MINISGL_STORM_STEPS", 10000);
    int32_t graphs = (int32_t)number_of("MINISGL_STORM_GRAPHS", ENGINE_GRAPH_AUTO);

    random_state = 20261130;
    storm.prompts = prompts;
    if (num_steps < 100) /* for racecheck, which takes a second for a step of the demo model */
        model = GOLDEN_QWEN3;
    storm.num_prompts = num_steps < 100 ? 2 : MAX_PROMPTS;
    make_prompts(prompts, storm.num_prompts);
    learn_answers(prompts, storm.num_prompts);
    memset(storm.prompt_of, 0xFF, sizeof(storm.prompt_of));
    open_rig(&storm.rig, graphs, true, NUM_PAGES);
    run_storm(&storm, num_steps);
    rig_check_empty(&storm.rig);
    printf("storm: %d steps of up to %d rows, %d with chunks beside streams; %d requests, %d "
           "aborts, %d tokens compared\n",
           storm.rig.num_steps, storm.rig.max_rows, storm.rig.num_mixed_steps, storm.num_ended,
           storm.num_aborts, storm.num_checked);
    ck_assert_int_ge(storm.rig.num_steps, num_steps / 2);
    ck_assert_int_gt(storm.num_checked, 0);
    rig_close(&storm.rig);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_test(tcase, every_request_as_if_alone);
}

int main(void)
{
    return card_main("storm", add);
}
