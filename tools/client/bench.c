/*
 * bench.c - minisgl bench: loads a running server and prints what a client sees, as a table and as
 * JSON.
 *
 *   offline   the 256 requests of bench_offline256.h, all at once: tokens a second
 *   latency   batches of 1, 16, 64, 256 streams, 128 tokens in, 512 out: milliseconds a step
 *   prefill   64 prompts of 1024 tokens, 1 out: seconds
 *   serve     Poisson arrivals with shared prefixes: percentiles of TTFT and TPOT, and of the
 * longest pause in each stream
 *
 * Each load runs --warmup times unseen, then --passes times with fresh prompts; figures are medians
 * over the passes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "tools/client/bench_load.h"
#include "tools/client/bench_offline256.h"
#include "tools/client/commands.h"

enum { MAX_PASSES = 64, NUM_OFFLINE = sizeof(bench_offline256) / sizeof(bench_offline256[0]) };

struct bench_options {
    struct server_choice choice;
    int64_t passes, warmup, seed, requests, prompt_tokens, output_tokens, prefixes, prefix_tokens;
    double rate, temperature;
    const char *batches;
    bool json;
};

struct bench {
    struct bench_options options;
    struct client *client; /* owned */
    struct server server;
    int32_t id_limit;
    struct json_writer out; /* of one load */
};

static const struct option_usage usage = {
    "minisgl bench", "offline | latency | prefill | serve [options]",
    "Loads a running server with random token ids and prints what the client sees.\n"
    "  offline   256 requests of mixed lengths, all at once\n"
    "  latency   for each of --batches: so many streams, 128 tokens in and 512 out\n"
    "  prefill   64 prompts of 1024 tokens, one token out\n"
    "  serve     arrivals at --rate a second, prompts that share prefixes"};

/* ---- loads ---- */

static struct status make_load(const struct bench *bench, size_t num_requests, uint64_t pass,
                               struct bench_load *out)
{
    *out = (struct bench_load){
        .requests = calloc(num_requests, sizeof(*out->requests)),
        .num_requests = num_requests,
        .id_limit = bench->id_limit,
        .seed = (uint64_t)bench->options.seed * 1000003 + pass,
        .temperature = (float)bench->options.temperature,
    };
    if (!out->requests)
        return status_error(STATUS_NO_MEMORY, "no memory for %zu requests", num_requests);
    return status_ok();
}

static struct status uniform_load(const struct bench *bench, size_t num_requests,
                                  int32_t prompt_tokens, int32_t max_tokens, uint64_t pass,
                                  struct bench_load *out)
{
    struct status status = make_load(bench, num_requests, pass, out);

    for (size_t i = 0; !status.code && i < num_requests; i++)
        out->requests[i] =
            (struct bench_request){.prompt_tokens = prompt_tokens, .max_tokens = max_tokens};
    return status;
}

static struct status offline_load(const struct bench *bench, uint64_t pass, struct bench_load *out)
{
    struct status status = make_load(bench, NUM_OFFLINE, pass, out);

    for (size_t i = 0; !status.code && i < NUM_OFFLINE; i++)
        out->requests[i] =
            (struct bench_request){.prompt_tokens = bench_offline256[i].prompt_tokens,
                                   .max_tokens = bench_offline256[i].output_tokens};
    return status;
}

/* Uniform in (0, 1], from a state. */
static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 1) / 9007199254740992.0;
}

static struct status serve_load(const struct bench *bench, uint64_t pass, struct bench_load *out)
{
    const struct bench_options *o = &bench->options;
    uint64_t state = (uint64_t)o->seed + 77 * pass;
    double now_s = 0;
    struct status status = make_load(bench, (size_t)o->requests, pass, out);

    for (int64_t i = 0; !status.code && i < o->requests; i++) {
        now_s += -log(draw(&state)) / o->rate;
        int32_t own = 1 + (int32_t)(draw(&state) * 2 * (double)o->prompt_tokens);
        out->requests[i] = (struct bench_request){
            .arrival_ns = (int64_t)(now_s * 1e9),
            .prefix = (int32_t)(draw(&state) * (double)o->prefixes * 0.999999),
            .prefix_tokens = (int32_t)o->prefix_tokens,
            .prompt_tokens = (int32_t)o->prefix_tokens + own,
            .max_tokens = 1 + (int32_t)(draw(&state) * 2 * (double)o->output_tokens)};
    }
    return status;
}

/* ---- figures ---- */

struct figures {
    double wall_s, tokens_per_s, prompt_tokens_per_s, step_ms;
    double ttft_ms[3], tpot_ms[3]; /* p50, p90, p99 */
    double gap_ms[3], gap_max_ms;  /* of the longest pause in each stream */
    double cached_share;
    int64_t prompt_tokens, completion_tokens;
    size_t num_errors;
};

static const double quantiles[3] = {0.5, 0.9, 0.99};

static struct status measure(const struct bench_run *run, struct figures *out)
{
    double *ttft = malloc((run->num_samples + 1) * sizeof(*ttft));
    double *tpot = malloc((run->num_samples + 1) * sizeof(*tpot));
    double *gap = malloc((run->num_samples + 1) * sizeof(*gap));
    size_t num_ttft = 0, num_tpot = 0;
    int64_t first_ns = 0, last_ns = 0;
    int32_t longest = 0;

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
        /* Streams that decode together: from when the last of them began to when all ended. */
        first_ns = s->first_ns > first_ns ? s->first_ns : first_ns;
        last_ns = s->last_ns > last_ns ? s->last_ns : last_ns;
        longest = s->completion_tokens > longest ? s->completion_tokens : longest;
    }
    *out = (struct figures){
        .wall_s = run->wall_s,
        .tokens_per_s = (double)run->completion_tokens / run->wall_s,
        .prompt_tokens_per_s = (double)run->prompt_tokens / run->wall_s,
        .step_ms = longest > 1 ? (double)(last_ns - first_ns) / 1e6 / (longest - 1) : 0,
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

/* The median over passes of the number at this offset of struct figures. */
static double median(const struct figures *passes, int64_t num_passes, size_t offset)
{
    double values[MAX_PASSES];

    for (int64_t i = 0; i < num_passes; i++)
        memcpy(&values[i], (const char *)&passes[i] + offset, sizeof(double));
    return bench_quantile(values, (size_t)num_passes, 0.5);
}

static void report(struct bench *bench, const char *load, const struct figures *passes)
{
    static const struct {
        const char *name, *unit;
        size_t offset;
    } rows[] = {
        {"wall", "s", offsetof(struct figures, wall_s)},
        {"output", "tok/s", offsetof(struct figures, tokens_per_s)},
        {"prompt", "tok/s", offsetof(struct figures, prompt_tokens_per_s)},
        {"step", "ms", offsetof(struct figures, step_ms)},
        {"ttft_p50", "ms", offsetof(struct figures, ttft_ms[0])},
        {"ttft_p90", "ms", offsetof(struct figures, ttft_ms[1])},
        {"ttft_p99", "ms", offsetof(struct figures, ttft_ms[2])},
        {"tpot_p50", "ms", offsetof(struct figures, tpot_ms[0])},
        {"tpot_p90", "ms", offsetof(struct figures, tpot_ms[1])},
        {"tpot_p99", "ms", offsetof(struct figures, tpot_ms[2])},
        {"gap_p50", "ms", offsetof(struct figures, gap_ms[0])},
        {"gap_p99", "ms", offsetof(struct figures, gap_ms[2])},
        {"gap_max", "ms", offsetof(struct figures, gap_max_ms)},
        {"cached_share", "", offsetof(struct figures, cached_share)},
    };
    int64_t num_passes = bench->options.passes;
    struct json_writer *out = &bench->out;

    json_begin_object(out);
    json_put_cstring(out, "load", load);
    json_put_int(out, "passes", num_passes);
    json_put_int(out, "prompt_tokens", passes[0].prompt_tokens);
    json_put_int(out, "completion_tokens", passes[0].completion_tokens);
    json_put_int(out, "errors", (int64_t)passes[0].num_errors);
    if (!bench->options.json)
        printf("%s: %lld prompt and %lld output tokens, medians of %lld passes\n", load,
               (long long)passes[0].prompt_tokens, (long long)passes[0].completion_tokens,
               (long long)num_passes);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double value = median(passes, num_passes, rows[i].offset);
        json_put_double(out, rows[i].name, value);
        if (!bench->options.json)
            printf("  %-14s %12.3f %s\n", rows[i].name, value, rows[i].unit);
    }
    json_end_object(out);
    if (bench->options.json && !out->failed)
        printf("%s\n", out->data);
    json_writer_reset(out);
    if (passes[0].num_errors)
        fprintf(stderr, "minisgl bench: %zu requests ended with an error\n", passes[0].num_errors);
    fflush(stdout);
}

/* ---- running ---- */

typedef struct status (*load_maker)(const struct bench *bench, int64_t size, uint64_t pass,
                                    struct bench_load *out);

static struct status run_once(struct bench *bench, load_maker make, int64_t size, uint64_t pass,
                              struct figures *out)
{
    struct bench_load load = {0};
    struct bench_run run = {0};
    struct status status = make(bench, size, pass, &load);

    if (!status.code)
        status = bench_run_load(bench->client, &load, &run);
    if (!status.code)
        status = measure(&run, out);
    bench_run_deinit(&run);
    bench_load_deinit(&load);
    return status;
}

static struct status run_load(struct bench *bench, const char *name, load_maker make, int64_t size)
{
    struct figures passes[MAX_PASSES] = {0};
    uint64_t pass = 0;
    struct status status = status_ok();

    for (int64_t i = 0; i < bench->options.warmup && !status.code; i++)
        status = run_once(bench, make, size, pass++, &passes[0]);
    for (int64_t i = 0; i < bench->options.passes && !status.code; i++)
        status = run_once(bench, make, size, pass++, &passes[i]);
    if (!status.code)
        report(bench, name, passes);
    return status;
}

static struct status make_offline(const struct bench *bench, int64_t size, uint64_t pass,
                                  struct bench_load *out)
{
    (void)size;
    return offline_load(bench, pass, out);
}

static struct status make_latency(const struct bench *bench, int64_t size, uint64_t pass,
                                  struct bench_load *out)
{
    return uniform_load(bench, (size_t)size, (int32_t)bench->options.prompt_tokens,
                        (int32_t)bench->options.output_tokens, pass, out);
}

static struct status make_serve(const struct bench *bench, int64_t size, uint64_t pass,
                                struct bench_load *out)
{
    (void)size;
    return serve_load(bench, pass, out);
}

static struct status run_latency(struct bench *bench)
{
    struct status status = status_ok();

    for (const char *at = bench->options.batches; *at && !status.code;) {
        char name[64];
        char *end;
        long size = strtol(at, &end, 10);
        if (end == at || size < 1 || size > 100000 || (*end && *end != ','))
            return status_error(STATUS_INVALID, "--batches takes numbers like 1,16,64, not '%.40s'",
                                bench->options.batches);
        snprintf(name, sizeof(name), "latency batch %ld", size);
        status = run_load(bench, name, make_latency, size);
        at = *end ? end + 1 : end;
    }
    return status;
}

/* Defaults of each load where the command line says nothing (0). */
static void set_defaults(struct bench_options *o, const char *load)
{
    bool prefill = strcmp(load, "prefill") == 0, serve = strcmp(load, "serve") == 0;

    if (o->prompt_tokens == 0)
        o->prompt_tokens = prefill ? 1024 : serve ? 256 : 128;
    if (o->output_tokens == 0)
        o->output_tokens = prefill ? 1 : serve ? 128 : 512;
    if (o->requests == 0)
        o->requests = prefill ? 64 : 200;
    if (o->temperature < 0)
        o->temperature = strcmp(load, "offline") == 0 ? 0.6 : 0;
}

/* Ids are drawn below the vocabulary's size, or 10,000 as the published benchmark does. */
static void learn_vocabulary(struct bench *bench)
{
    struct client_event event;
    struct arena arena;
    struct json_value *info = NULL;
    uint64_t call;
    int64_t size = 0;

    bench->id_limit = 10000;
    if (client_info(bench->client, NULL, &call).code || !client_next(bench->client, 3000, &event) ||
        event.kind != CLIENT_RESULT)
        return;
    arena_init(&arena, 0, 0);
    if (!json_parse((const char *)event.result->info.data, event.result->info.size, &arena, &info)
             .code) {
        const struct json_value *value = json_get(info, "vocab_size");
        size = value && value->is_integer ? value->integer : 0;
    }
    if (size > 0 && size < bench->id_limit)
        bench->id_limit = (int32_t)size;
    arena_deinit(&arena);
}

static struct status run(struct bench *bench, const char *load)
{
    struct status status = command_connect(&bench->options.choice, &bench->server, &bench->client);

    if (status.code)
        return status;
    learn_vocabulary(bench);
    set_defaults(&bench->options, load);
    if (strcmp(load, "offline") == 0)
        return run_load(bench, load, make_offline, 0);
    if (strcmp(load, "latency") == 0)
        return run_latency(bench);
    if (strcmp(load, "prefill") == 0)
        return run_load(bench, load, make_latency, bench->options.requests);
    return run_load(bench, load, make_serve, 0);
}

static bool is_load(const char *name)
{
    static const char *const names[] = {"offline", "latency", "prefill", "serve"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

int command_bench(int argc, char **argv)
{
    struct bench bench = {.options = {.passes = 3,
                                      .warmup = 1,
                                      .seed = 1,
                                      .rate = 4,
                                      .prefixes = 4,
                                      .prefix_tokens = 64,
                                      .temperature = -1,
                                      .batches = "1,16,64,256"}};
    struct bench_options *o = &bench.options;
    struct option_list rest = {0};
    /* clang-format off */
    const struct option_spec specs[] = {
        option_header("The load"),
        option_int("passes", &o->passes, "N", 1, MAX_PASSES, "counted runs; figures are their medians (3)"),
        option_int("warmup", &o->warmup, "N", 0, 100, "runs before them (1)"),
        option_int("seed", &o->seed, "S", 0, 1e9, "of prompts and arrivals (1)"),
        option_double("temperature", &o->temperature, "T", 0, 100, "of sampling (0; offline 0.6)"),
        option_string("batches", &o->batches, "N,N", "latency: streams at a time (1,16,64,256)"),
        option_int("requests", &o->requests, "N", 1, 1e6, "prefill, serve: how many (64, 200)"),
        option_int("prompt-tokens", &o->prompt_tokens, "N", 1, 1e6, "latency, prefill: of each prompt; serve: on average (128, 1024, 256)"),
        option_int("output-tokens", &o->output_tokens, "N", 1, 1e6, "latency: of each; serve: on average (512, 128)"),
        option_double("rate", &o->rate, "R", 0.001, 1e6, "serve: requests a second (4)"),
        option_int("prefixes", &o->prefixes, "N", 1, 1e6, "serve: shared prefixes to choose from (4)"),
        option_int("prefix-tokens", &o->prefix_tokens, "N", 0, 1e6, "serve: tokens of each (64)"),
        option_flag("json", &o->json, "one JSON object for each load, a line each, in place of the table"),
        SERVER_OPTION_SPECS(&o->choice),
        {0},
    };
    /* clang-format on */
    int exit_code = EXIT_USAGE;

    if (command_parse(argc, argv, &usage, specs, &rest, &exit_code))
        goto out;
    if (rest.num_items != 1 || !is_load(rest.items[0])) {
        fprintf(stderr,
                "minisgl bench: give one of offline, latency, prefill, serve (try --help)\n");
        exit_code = EXIT_USAGE;
        goto out;
    }
    command_catch_signals();
    struct status status = run(&bench, rest.items[0]);
    exit_code = status.code ? command_fail(status) : EXIT_OK;
out:
    client_close(&bench.client);
    json_writer_deinit(&bench.out);
    option_list_deinit(&rest);
    return exit_code;
}
