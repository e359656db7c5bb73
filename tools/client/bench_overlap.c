/* bench_overlap.c - see bench_overlap.h. */
#include "tools/client/bench_overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "tools/client/control.h"

enum { ANSWER_TIMEOUT_MS = 5000, NORMAL = 0, OVERLAP = 1 };

static const enum control_command loop_commands[] = {CONTROL_NORMAL_LOOP, CONTROL_OVERLAP_LOOP};

/* What the scheduler says of itself. */
struct scheduler_facts {
    char device[128], dtype[32];
    int64_t weight_bytes;
    bool is_overlapped;
};

static void copy_text(const struct json_value *value, char *out, size_t size)
{
    snprintf(out, size, "%s", value && value->type == JSON_STRING ? value->text.data : "?");
}

static struct status ask_facts(const struct bench *bench, struct scheduler_facts *out)
{
    char *text = NULL;
    struct json_value *stats = NULL;
    struct arena arena;
    struct status status =
        control_ask(bench->server.scheduler_control,
                    &(struct control_msg){.command = CONTROL_STATS}, ANSWER_TIMEOUT_MS, &text);

    arena_init(&arena, 0, 0);
    if (!status.code)
        status = json_parse(text, strlen(text), &arena, &stats);
    if (!status.code) {
        const struct json_value *engine = json_get(stats, "engine");
        const struct json_value *overlap = json_get(stats, "overlap");
        const struct json_value *weights = json_get(engine, "weight_bytes");
        *out = (struct scheduler_facts){.is_overlapped = overlap && overlap->boolean,
                                        .weight_bytes = weights ? weights->integer : 0};
        copy_text(json_get(engine, "device"), out->device, sizeof(out->device));
        copy_text(json_get(engine, "dtype"), out->dtype, sizeof(out->dtype));
    }
    arena_deinit(&arena);
    free(text);
    return status;
}

/* One pass with each loop. */
static struct status run_pair(struct bench *bench, int64_t size, uint64_t pass,
                              struct bench_figures *normal, struct bench_figures *overlap)
{
    struct bench_figures *figures[] = {normal, overlap};
    struct status status = status_ok();

    snprintf(bench->title, sizeof(bench->title), "overlap batch %lld", (long long)size);
    for (int loop = NORMAL; loop <= OVERLAP && !status.code; loop++) {
        status = bench_control(bench, loop_commands[loop]);
        if (!status.code)
            status = bench_once(bench, bench_make_streams, size, pass, figures[loop]);
    }
    return status;
}

static void report(const struct bench *bench, int64_t size,
                   struct bench_figures passes[][BENCH_MAX_PASSES])
{
    const int64_t num_passes = bench->options.passes;
    const size_t step_at = offsetof(struct bench_figures, server_step_ms);
    const size_t rate_at = offsetof(struct bench_figures, tokens_per_s);
    const double normal_ms = bench_median(passes[NORMAL], num_passes, step_at);
    const double overlap_ms = bench_median(passes[OVERLAP], num_passes, step_at);
    const double normal_rate = bench_median(passes[NORMAL], num_passes, rate_at);
    const double overlap_rate = bench_median(passes[OVERLAP], num_passes, rate_at);
    const double gain = overlap_ms > 0 ? normal_ms / overlap_ms : 0;
    struct json_writer out = {0};

    if (!bench->options.json) {
        printf("%8lld %14.3f %14.3f %8.3f %14.0f %14.0f\n", (long long)size, normal_ms, overlap_ms,
               gain, normal_rate, overlap_rate);
        fflush(stdout);
        return;
    }
    json_begin_object(&out);
    json_put_cstring(&out, "load", "overlap");
    json_put_cstring(&out, "model", bench->server.model);
    json_put_int(&out, "weight_bytes", bench->weight_bytes);
    json_put_int(&out, "streams", size);
    json_put_int(&out, "passes", num_passes);
    json_put_double(&out, "normal_ms", normal_ms);
    json_put_double(&out, "overlap_ms", overlap_ms);
    json_put_double(&out, "gain", gain);
    json_put_double(&out, "normal_tokens_per_s", normal_rate);
    json_put_double(&out, "overlap_tokens_per_s", overlap_rate);
    json_end_object(&out);
    if (!out.failed)
        printf("%s\n", out.data);
    fflush(stdout);
    json_writer_deinit(&out);
}

static struct status compare_batch(struct bench *bench, int64_t size)
{
    static struct bench_figures passes[2][BENCH_MAX_PASSES]; /* too large for a stack */
    uint64_t pass = 0;
    struct status status = status_ok();

    for (int64_t i = 0; i < bench->options.warmup && !status.code; i++)
        status = run_pair(bench, size, pass++, &passes[NORMAL][0], &passes[OVERLAP][0]);
    for (int64_t i = 0; i < bench->options.passes && !status.code; i++)
        status = run_pair(bench, size, pass++, &passes[NORMAL][i], &passes[OVERLAP][i]);
    if (!status.code)
        report(bench, size, passes);
    return status;
}

struct status bench_overlap(struct bench *bench)
{
    struct scheduler_facts facts = {0};
    struct status status = ask_facts(bench, &facts);

    if (status.code)
        return status;
    bench->weight_bytes = facts.weight_bytes;
    if (!bench->options.json) {
        printf("%s (%.1f MiB of weights, %s) on %s\n", bench->server.model,
               (double)facts.weight_bytes / (1 << 20), facts.dtype, facts.device);
        printf("%lld tokens in, %lld out, medians of %lld passes\n",
               (long long)bench->options.prompt_tokens, (long long)bench->options.output_tokens,
               (long long)bench->options.passes);
        printf("%8s %14s %14s %8s %14s %14s\n", "streams", "normal ms", "overlap ms", "gain",
               "normal tok/s", "overlap tok/s");
    }
    status = bench_each_batch(bench, compare_batch);
    struct status restored =
        bench_control(bench, loop_commands[facts.is_overlapped ? OVERLAP : NORMAL]);
    return status.code ? status : restored;
}
