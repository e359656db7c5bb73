/*
 * bench_load.h - a list of requests with the times at which they arrive, sent to a server, and what
 * the client saw of each.
 *
 * Prompts are token ids, drawn from (seed, request, position) alone, so that a load can be
 * repeated, or made fresh by another seed. Tokens are counted as the server reports them with each
 * request's end.
 */
#ifndef TOOLS_CLIENT_BENCH_LOAD_H
#define TOOLS_CLIENT_BENCH_LOAD_H

#include "common/progress.h"
#include "tools/client/client.h"

struct bench_request {
    int64_t arrival_ns; /* after the start of the run */
    int32_t prompt_tokens, max_tokens;
    int32_t prefix, prefix_tokens; /* the first prefix_tokens are those of this shared prefix */
};

struct bench_load {
    struct bench_request *requests; /* owned, by arrival */
    size_t num_requests;
    int32_t id_limit; /* ids are drawn below it */
    uint64_t seed;
    float temperature;
    struct progress *progress; /* borrowed: told of the tokens that have come; NULL: nobody is */
};

struct bench_sample {
    int64_t sent_ns, first_ns, last_ns; /* at the client; first: of the first delta with a token */
    int64_t longest_gap_ns;             /* between two deltas */
    int64_t first_token_ns, last_token_ns; /* at the server */
    int32_t completion_tokens;             /* until the end: those that have come */
    int32_t prompt_tokens, cached_tokens;  /* known with the end */
    bool is_done;
    enum error_code error;
};

struct bench_run {
    struct bench_sample *samples; /* owned, [num_requests] */
    size_t num_samples, num_errors;
    struct status first_error; /* if there are any: code and message of the first */
    double wall_s;             /* from the first send to the last end */
    int64_t prompt_tokens, completion_tokens, cached_tokens;
    uint64_t tokens_seen; /* also of requests that have not ended */
};

void bench_load_deinit(struct bench_load *load);
void bench_run_deinit(struct bench_run *run);

/* Sends the load and waits for every end. STATUS_INTERRUPTED on Ctrl-C: then *out is what has come
 * until then. STATUS_GONE when the server was lost. */
MUST_CHECK struct status bench_run_load(struct client *client, const struct bench_load *load,
                                        struct bench_run *out);

/* The q-quantile (0..1) of values, which are sorted in place; 0 of none. */
double bench_quantile(double *values, size_t num_values, double q);

#endif
