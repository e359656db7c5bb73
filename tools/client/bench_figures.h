/* bench_figures.h - what one run of a load comes to, and how several runs are told. */
#ifndef TOOLS_CLIENT_BENCH_FIGURES_H
#define TOOLS_CLIENT_BENCH_FIGURES_H

#include "tools/client/bench_load.h"

enum { BENCH_MAX_PASSES = 64 };

struct bench_figures {
    double wall_s, tokens_per_s, prompt_tokens_per_s;
    /* Those that no request has shown are 0. */
    double step_ms;        /* between two tokens of a stream, while all, of one length, decode */
    double server_step_ms; /* the same, by the times that the scheduler gives */
    double ttft_ms[3], tpot_ms[3]; /* p50, p90, p99 */
    double gap_ms[3], gap_max_ms;  /* of the longest pause in each stream */
    double cached_share;
    int64_t prompt_tokens, completion_tokens;
    size_t num_errors;
};

MUST_CHECK struct status bench_measure(const struct bench_run *run, struct bench_figures *out);

/* The median over runs of the double at this offset of struct bench_figures. */
double bench_median(const struct bench_figures *passes, int64_t num_passes, size_t offset);

/* What is to be told of a load. */
struct bench_summary {
    const char *load;
    const struct bench_figures *passes; /* borrowed, [num_passes] */
    int64_t num_passes;
    bool is_cut; /* by Ctrl-C: the only pass holds what had come */
    bool as_json;
};

/* Prints the medians of what was measured: a table, unless no token came, or one line of JSON. */
void bench_report(const struct bench_summary *summary);

#endif
