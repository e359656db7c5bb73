/* bench_figures.c - see bench_figures.h. */
#include "tools/client/bench_figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

static const double quantiles[3] = {0.5, 0.9, 0.99};

/* Of streams that decode together: from when the last of them began to when all had ended. */
struct together {
    int64_t first_ns, last_ns;
};

static void extend(struct together *together, int64_t first_ns, int64_t last_ns)
{
    together->first_ns = first_ns > together->first_ns ? first_ns : together->first_ns;
    together->last_ns = last_ns > together->last_ns ? last_ns : together->last_ns;
}

static double step_ms(const struct together *together, int32_t num_tokens)
{
    return num_tokens > 1
               ? (double)(together->last_ns - together->first_ns) / 1e6 / (num_tokens - 1)
               : 0;
}

struct status bench_measure(const struct bench_run *run, struct bench_figures *out)
{
    double *ttft = malloc((run->num_samples + 1) * sizeof(*ttft));
    double *tpot = malloc((run->num_samples + 1) * sizeof(*tpot));
    double *gap = malloc((run->num_samples + 1) * sizeof(*gap));
    size_t num_ttft = 0, num_tpot = 0;
    struct together at_client = {0}, at_server = {0};
    int32_t longest = 0, shortest = INT32_MAX;

    if (!ttft || !tpot || !gap) {
        free(ttft);
        free(tpot);
        free(gap);
        return status_error(STATUS_NO_MEMORY, "no memory for figures");
    }
    for (size_t i = 0; i < run->num_samples; i++) {
        const struct bench_sample *s = &run->samples[i];
        if (s->error || s->completion_tokens < 1)
            continue;
        ttft[num_ttft++] = (double)(s->first_ns - s->sent_ns) / 1e6;
        if (s->completion_tokens > 1) {
            gap[num_tpot] = (double)s->longest_gap_ns / 1e6;
            tpot[num_tpot++] =
                (double)(s->last_ns - s->first_ns) / 1e6 / (s->completion_tokens - 1);
        }
        extend(&at_client, s->first_ns, s->last_ns);
        extend(&at_server, s->first_token_ns, s->last_token_ns);
        longest = s->completion_tokens > longest ? s->completion_tokens : longest;
        shortest = s->completion_tokens < shortest ? s->completion_tokens : shortest;
    }
    if (shortest != longest)
        longest = 0; /* they did not decode together all the time */
    *out = (struct bench_figures){
        .wall_s = run->wall_s,
        .tokens_per_s = (double)run->completion_tokens / run->wall_s,
        .prompt_tokens_per_s = (double)run->prompt_tokens / run->wall_s,
        .step_ms = step_ms(&at_client, longest),
        .server_step_ms = step_ms(&at_server, longest),
        .cached_share =
            run->prompt_tokens ? (double)run->cached_tokens / (double)run->prompt_tokens : 0,
        .prompt_tokens = run->prompt_tokens,
        .completion_tokens = run->completion_tokens,
        .num_errors = run->num_errors,
    };
    for (int q = 0; q < 3; q++) {
        out->ttft_ms[q] = bench_quantile(ttft, num_ttft, quantiles[q]);
        out->tpot_ms[q] = bench_quantile(tpot, num_tpot, quantiles[q]);
        out->gap_ms[q] = bench_quantile(gap, num_tpot, quantiles[q]);
    }
    out->gap_max_ms = bench_quantile(gap, num_tpot, 1);
    free(ttft);
    free(tpot);
    free(gap);
    return status_ok();
}

double bench_median(const struct bench_figures *passes, int64_t num_passes, size_t offset)
{
    double values[BENCH_MAX_PASSES];

    for (int64_t i = 0; i < num_passes; i++)
        memcpy(&values[i], (const char *)&passes[i] + offset, sizeof(double));
    return bench_quantile(values, (size_t)num_passes, 0.5);
}

/* Of rows that are 0 where nothing was measured. */
static bool is_measured(const char *name, double value)
{
    return value > 0 || strcmp(name, "cached_share") == 0;
}

static void print_heading(const struct bench_summary *summary)
{
    const struct bench_figures *first = &summary->passes[0];

    printf("%s: %lld prompt and %lld output tokens, ", summary->load,
           (long long)first->prompt_tokens, (long long)first->completion_tokens);
    if (summary->is_cut)
        printf("of what had come when it was interrupted\n");
    else
        printf("medians of %lld passes\n", (long long)summary->num_passes);
}

void bench_report(const struct bench_summary *summary)
{
    static const struct {
        const char *name, *unit;
        size_t offset;
    } rows[] = {
        {"wall", "s", offsetof(struct bench_figures, wall_s)},
        {"output", "tok/s", offsetof(struct bench_figures, tokens_per_s)},
        {"prompt", "tok/s", offsetof(struct bench_figures, prompt_tokens_per_s)},
        {"step", "ms", offsetof(struct bench_figures, step_ms)},
        {"ttft_p50", "ms", offsetof(struct bench_figures, ttft_ms[0])},
        {"ttft_p90", "ms", offsetof(struct bench_figures, ttft_ms[1])},
        {"ttft_p99", "ms", offsetof(struct bench_figures, ttft_ms[2])},
        {"tpot_p50", "ms", offsetof(struct bench_figures, tpot_ms[0])},
        {"tpot_p90", "ms", offsetof(struct bench_figures, tpot_ms[1])},
        {"tpot_p99", "ms", offsetof(struct bench_figures, tpot_ms[2])},
        {"gap_p50", "ms", offsetof(struct bench_figures, gap_ms[0])},
        {"gap_p99", "ms", offsetof(struct bench_figures, gap_ms[2])},
        {"gap_max", "ms", offsetof(struct bench_figures, gap_max_ms)},
        {"cached_share", "", offsetof(struct bench_figures, cached_share)},
    };
    const struct bench_figures *passes = summary->passes;
    struct json_writer out = {0};
    size_t num_errors = 0;
    bool has_tokens = false;

    for (int64_t i = 0; i < summary->num_passes; i++) {
        num_errors += passes[i].num_errors;
        has_tokens = has_tokens || passes[i].completion_tokens > 0;
    }
    json_begin_object(&out);
    json_put_cstring(&out, "load", summary->load);
    json_put_int(&out, "passes", summary->num_passes);
    json_put_int(&out, "prompt_tokens", passes[0].prompt_tokens);
    json_put_int(&out, "completion_tokens", passes[0].completion_tokens);
    json_put_int(&out, "errors", (int64_t)num_errors);
    if (summary->is_cut)
        json_put_bool(&out, "interrupted", true);
    if (!summary->as_json && has_tokens)
        print_heading(summary);
    for (size_t i = 0; has_tokens && i < sizeof(rows) / sizeof(rows[0]); i++) {
        double value = bench_median(passes, summary->num_passes, rows[i].offset);
        if (!is_measured(rows[i].name, value))
            continue;
        json_put_double(&out, rows[i].name, value);
        if (!summary->as_json)
            printf("  %-14s %12.3f %s\n", rows[i].name, value, rows[i].unit);
    }
    json_end_object(&out);
    if (summary->as_json && !out.failed)
        printf("%s\n", out.data);
    json_writer_deinit(&out);
    fflush(stdout);
}
