/* bench.h - what the loads of `minisgl bench` share: bench.c chooses, bench_overlap.c is one of
 * them. */
#ifndef TOOLS_CLIENT_BENCH_H
#define TOOLS_CLIENT_BENCH_H

#include "tools/client/bench_figures.h"
#include "tools/client/bench_load.h"
#include "tools/client/server.h"

/* Not given until bench.c fills in what the load takes for a default: numbers of 0 (prefix_tokens,
 * seed and temperature: below 0), batches NULL. */
struct bench_options {
    struct server_choice choice;
    int64_t passes, warmup, seed, requests, prompt_tokens, output_tokens, prefixes, prefix_tokens;
    double rate, temperature;
    const char *batches; /* "1,16,64": checked */
    bool json;
};

struct bench {
    struct bench_options options;
    struct client *client; /* owned */
    struct server server;
    char title[64]; /* of the run that is under way, for its progress bar */
    int32_t id_limit;
    int64_t weight_bytes;      /* of the model; known to overlap alone */
    size_t num_errors;         /* requests of all runs that ended with one */
    struct status first_error; /* worded for people */
};

/* Fills a load of that size; pass makes its prompts fresh. */
typedef struct status (*bench_load_maker)(const struct bench *bench, int64_t size, uint64_t pass,
                                          struct bench_load *out);

/* So many streams of --prompt-tokens and --output-tokens. */
MUST_CHECK struct status bench_make_streams(const struct bench *bench, int64_t size, uint64_t pass,
                                            struct bench_load *out);

/* One run of a load, with a progress bar. The server's prefix cache is emptied before it, where its
 * control endpoint is known: the prompts are to be computed. STATUS_INTERRUPTED: *out is of what
 * had come. */
MUST_CHECK struct status bench_once(struct bench *bench, bench_load_maker make, int64_t size,
                                    uint64_t pass, struct bench_figures *out);

/* The control endpoint of the scheduler is told this. */
MUST_CHECK struct status bench_control(const struct bench *bench, enum control_command command);

/* Calls run for each number of --batches. */
MUST_CHECK struct status bench_each_batch(struct bench *bench,
                                          struct status (*run)(struct bench *bench, int64_t size));

#endif
