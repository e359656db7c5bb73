/*
 * bench.c - minisgl bench: loads a running server and prints what a client sees, as a table and as
 * JSON.
 *
 *   offline   the 256 requests of bench_offline256.h, all at once: tokens a second
 *   latency   batches of 1, 16, 64, 256 streams, 128 tokens in, 512 out: milliseconds a step
 *   prefill   64 prompts of 1024 tokens, 1 out: seconds
 *   serve     Poisson arrivals with shared prefixes: percentiles of TTFT and TPOT, and of the
 *             longest pause in each stream
 *   overlap   the batches of latency with either loop of the server: see bench_overlap.h
 *
 * Each load runs --warmup times unseen, then --passes times with fresh prompts; figures are medians
 * over the passes. The cache is emptied before each run: the next bench draws the same prompts.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "tools/client/bench.h"
#include "tools/client/bench_offline256.h"
#include "tools/client/bench_overlap.h"
#include "tools/client/commands.h"
#include "tools/client/control.h"

enum {
    NUM_OFFLINE = sizeof(bench_offline256) / sizeof(bench_offline256[0]),
    ANSWER_TIMEOUT_MS = 5000
};

static const struct option_usage usage = {
    "minisgl bench", "offline | latency | prefill | serve | overlap [options]",
    "Loads a running server with random token ids and prints what the client sees.\n"
    "  offline   256 requests of mixed lengths, all at once: 142,827 tokens in and 133,966 out\n"
    "            in each of the runs, of which there are --warmup and --passes (4)\n"
    "  latency   for each of --batches: so many streams, 128 tokens in and 512 out\n"
    "  prefill   64 prompts of 1024 tokens, one token out\n"
    "  serve     arrivals at --rate a second, prompts that share prefixes\n"
    "  overlap   latency with the server's normal loop and with its overlap loop, in turns;\n"
    "            not with --endpoint, since the server must be on this host\n\n"
    "The prompts are to be computed: before each run the prefix cache of the server is emptied.\n"
    "One that is given by --endpoint keeps its cache, and gets other prompts each time.\n\n"
    "What the table holds, of those that were measured; p50 is the median over requests:\n"
    "  wall          from the first request sent to the last end\n"
    "  output        tokens a second of all answers; prompt: of all prompts\n"
    "  step          streams of one length: time between two tokens while all of them decode\n"
    "  ttft          time to first token: from sending a request to its first token\n"
    "  tpot          time per output token of a request, behind its first\n"
    "  gap           the longest pause within a request's answer\n"
    "  cached_share  of the prompts' tokens, those that came from the prefix cache\n"
    "--json has the same, wall in seconds, all other times in milliseconds; "
    "tools/client/README.md\n"
    "of the sources lists its keys and their units."};

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

/* The first of the list. */
static struct status offline_load(const struct bench *bench, uint64_t pass, struct bench_load *out)
{
    const size_t num_requests = (size_t)bench->options.requests;
    struct status status = make_load(bench, num_requests, pass, out);

    for (size_t i = 0; !status.code && i < num_requests; i++)
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

/* ---- running ---- */

struct status bench_control(const struct bench *bench, enum control_command command)
{
    char *text = NULL;
    struct status status =
        control_ask(bench->server.scheduler_control, &(struct control_msg){.command = command},
                    ANSWER_TIMEOUT_MS, &text);

    free(text);
    return status;
}

struct status bench_once(struct bench *bench, bench_load_maker make, int64_t size, uint64_t pass,
                         struct bench_figures *out)
{
    struct bench_load load = {0};
    struct bench_run run = {0};
    struct progress progress;
    uint64_t num_tokens = 0;
    struct status status = status_ok(), measured = {0};

    if (*bench->server.scheduler_control)
        status = bench_control(bench, CONTROL_FLUSH_CACHE);
    if (!status.code)
        status = make(bench, size, pass, &load);
    if (!status.code) {
        for (size_t i = 0; i < load.num_requests; i++)
            num_tokens += (uint64_t)load.requests[i].max_tokens;
        progress_begin(&progress, bench->title, "tokens", num_tokens);
        load.progress = &progress;
        status = bench_run_load(bench->client, &load, &run);
        progress_end(&progress, false);
    }
    if (!status.code || status.code == STATUS_INTERRUPTED)
        measured = bench_measure(&run, out);
    if (!status.code)
        status = measured;
    if (!bench->num_errors)
        bench->first_error = run.first_error;
    bench->num_errors += run.num_errors;
    bench_run_deinit(&run);
    bench_load_deinit(&load);
    return status;
}

static struct status run_load(struct bench *bench, const char *name, bench_load_maker make,
                              int64_t size)
{
    struct bench_figures passes[BENCH_MAX_PASSES] = {0};
    const int64_t warmup = bench->options.warmup, num_runs = warmup + bench->options.passes;
    int64_t at = 0; /* of the last run's figures: warm-ups write where the first pass does */
    struct status status = status_ok();

    for (int64_t run = 0; run < num_runs && !status.code; run++) {
        at = run < warmup ? 0 : run - warmup;
        snprintf(bench->title, sizeof(bench->title), "%s, run %lld of %lld", name,
                 (long long)run + 1, (long long)num_runs);
        passes[at] = (struct bench_figures){0};
        status = bench_once(bench, make, size, (uint64_t)run, &passes[at]);
    }
    bool is_cut = status.code == STATUS_INTERRUPTED;
    if (status.code && !is_cut)
        return status;
    /* A run that was cut counts only where there is no whole one. */
    int64_t num_passes = is_cut && at > 0 ? at : at + 1;
    bench_report(&(struct bench_summary){.load = name,
                                         .passes = passes,
                                         .num_passes = num_passes,
                                         .is_cut = is_cut && at == 0,
                                         .as_json = bench->options.json});
    return status;
}

static struct status make_offline(const struct bench *bench, int64_t size, uint64_t pass,
                                  struct bench_load *out)
{
    (void)size;
    return offline_load(bench, pass, out);
}

struct status bench_make_streams(const struct bench *bench, int64_t size, uint64_t pass,
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

static struct status run_streams(struct bench *bench, int64_t size)
{
    char name[64];

    snprintf(name, sizeof(name), "latency batch %lld", (long long)size);
    return run_load(bench, name, bench_make_streams, size);
}

/* The next number of "1,16,64", and on to the one behind it; 0: it is none. */
static int64_t take_batch(const char **at)
{
    char *end;
    long size = strtol(*at, &end, 10);

    if (end == *at || size < 1 || size > 100000 || (*end && *end != ','))
        return 0;
    *at = *end ? end + 1 : end;
    return size;
}

static struct status check_batches(const char *batches)
{
    for (const char *at = batches; *at || at == batches;)
        if (!take_batch(&at))
            return status_error(STATUS_INVALID,
                                "--batches takes numbers from 1 on like 1,16,64, not '%.40s'",
                                batches);
    return status_ok();
}

struct status bench_each_batch(struct bench *bench,
                               struct status (*run)(struct bench *bench, int64_t size))
{
    struct status status = status_ok();

    for (const char *at = bench->options.batches; *at && !status.code;)
        status = run(bench, take_batch(&at));
    return status;
}

/* An option that the load does not take is no option: its figures would be taken for others. */
static struct status check_options(const struct bench_options *o, const char *load)
{
    const struct {
        const char *name, *loads;
        bool is_given;
    } options[] = {
        {"batches", "latency, overlap", o->batches != NULL},
        {"requests", "offline, prefill, serve", o->requests > 0},
        {"prompt-tokens", "latency, overlap, prefill, serve", o->prompt_tokens > 0},
        {"output-tokens", "latency, overlap, prefill, serve", o->output_tokens > 0},
        {"rate", "serve", o->rate > 0},
        {"prefixes", "serve", o->prefixes > 0},
        {"prefix-tokens", "serve", o->prefix_tokens >= 0},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (options[i].is_given && !strstr(options[i].loads, load))
            return status_error(STATUS_INVALID, "--%s is for %s, not for %s", options[i].name,
                                options[i].loads, load);
    if (strcmp(load, "offline") == 0 && o->requests > NUM_OFFLINE)
        return status_error(STATUS_INVALID, "--requests %lld: the list of offline has %d",
                            (long long)o->requests, NUM_OFFLINE);
    if (o->choice.endpoints && strcmp(load, "overlap") == 0)
        return status_error(STATUS_INVALID, "overlap needs a server of this host: give --name");
    return o->batches ? check_batches(o->batches) : status_ok();
}

/* Defaults of each load where the command line says nothing. */
static void set_defaults(struct bench_options *o, const char *load)
{
    bool offline = strcmp(load, "offline") == 0;
    bool prefill = strcmp(load, "prefill") == 0, serve = strcmp(load, "serve") == 0;

    if (!o->batches)
        o->batches = "1,16,64,256";
    if (o->prompt_tokens == 0)
        o->prompt_tokens = prefill ? 1024 : serve ? 256 : 128;
    if (o->output_tokens == 0)
        o->output_tokens = prefill ? 1 : serve ? 128 : 512;
    if (o->requests == 0)
        o->requests = offline ? NUM_OFFLINE : prefill ? 64 : 200;
    if (o->rate <= 0)
        o->rate = 4;
    if (o->prefixes == 0)
        o->prefixes = 4;
    if (o->prefix_tokens < 0)
        o->prefix_tokens = 64;
    if (o->seed < 0) /* a cache that cannot be emptied must not know the prompts */
        o->seed = o->choice.endpoints ? clock_now_ns() % 1000000000 : 1;
    if (o->temperature < 0)
        o->temperature = offline ? 0.6 : 0;
}

/* Ids are drawn below the vocabulary's size, or 10,000 as the published benchmark does. */
static struct status learn_vocabulary(struct bench *bench)
{
    struct arena arena;
    struct json_value *info = NULL;

    bench->id_limit = 10000;
    arena_init(&arena, 0, 0);
    struct status status = command_ask_info(bench->client, &arena, &info);
    const struct json_value *size = status.code ? NULL : json_get(info, "vocab_size");
    if (size && size->is_integer && size->integer > 0 && size->integer < bench->id_limit)
        bench->id_limit = (int32_t)size->integer;
    arena_deinit(&arena);
    return status;
}

static struct status run(struct bench *bench, const char *load)
{
    struct status status = command_connect(&bench->options.choice, &bench->server, &bench->client);

    if (!status.code)
        status = learn_vocabulary(bench);
    if (status.code)
        return status;
    set_defaults(&bench->options, load);
    if (strcmp(load, "offline") == 0)
        status = run_load(bench, load, make_offline, 0);
    else if (strcmp(load, "latency") == 0)
        status = bench_each_batch(bench, run_streams);
    else if (strcmp(load, "overlap") == 0)
        status = bench_overlap(bench);
    else if (strcmp(load, "prefill") == 0)
        status = run_load(bench, load, bench_make_streams, bench->options.requests);
    else
        status = run_load(bench, load, make_serve, 0);
    if (!status.code && bench->num_errors)
        return status_error(STATUS_INVALID, "%zu requests ended with an error; the first: %s",
                            bench->num_errors, bench->first_error.msg);
    return status;
}

static bool is_load(const char *name)
{
    static const char *const names[] = {"offline", "latency", "prefill", "serve", "overlap"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

int command_bench(int argc, char **argv)
{
    struct bench bench = {
        .options = {.passes = 3, .warmup = 1, .seed = -1, .prefix_tokens = -1, .temperature = -1}};
    struct bench_options *o = &bench.options;
    struct option_list rest = {0};
    /* clang-format off */
    const struct option_spec specs[] = {
        option_header("The load"),
        option_int("passes", &o->passes, "N", 1, BENCH_MAX_PASSES, "counted runs; figures are their medians (3)"),
        option_int("warmup", &o->warmup, "N", 0, 100, "runs before them (1)"),
        option_int("seed", &o->seed, "S", 0, 1e9, "of prompts and arrivals (1; with --endpoint: by the clock)"),
        option_double("temperature", &o->temperature, "T", 0, 100, "of sampling (0; offline 0.6)"),
        option_string("batches", &o->batches, "N,N", "latency, overlap: streams at a time (1,16,64,256)"),
        option_int("requests", &o->requests, "N", 1, 1e6, "prefill, serve: how many (64, 200);\noffline: the first N of its list (256)"),
        option_int("prompt-tokens", &o->prompt_tokens, "N", 1, 1e6, "latency, overlap, prefill: of each prompt;\nserve: on average (128, 128, 1024, 256)"),
        option_int("output-tokens", &o->output_tokens, "N", 1, 1e6, "latency, overlap, prefill: of each;\nserve: on average (512, 512, 1, 128)"),
        option_double("rate", &o->rate, "R", 0.001, 1e6, "serve: requests a second (4)"),
        option_int("prefixes", &o->prefixes, "N", 1, 1e6, "serve: shared prefixes to choose from (4)"),
        option_int("prefix-tokens", &o->prefix_tokens, "N", 0, 1e6, "serve: tokens of each (64)"),
        option_flag("json", &o->json, "one JSON object for each load, a line each, in place of the table"),
        SERVER_OPTION_SPECS(&o->choice),
        {0},
    };
    /* clang-format on */
    int exit_code = EXIT_USAGE;

    if (command_parse(argc, argv, &usage, specs, &o->choice, &rest, &exit_code))
        goto out;
    if (rest.num_items != 1 || !is_load(rest.items[0])) {
        fprintf(
            stderr,
            "minisgl bench: give one of offline, latency, prefill, serve, overlap (try --help)\n");
        exit_code = EXIT_USAGE;
        goto out;
    }
    struct status status = check_options(o, rest.items[0]);
    if (options_end_here(usage.program, &status, false, &exit_code))
        goto out;
    command_catch_signals();
    status = run(&bench, rest.items[0]);
    exit_code = status.code ? command_fail(status) : EXIT_OK;
out:
    client_close(&bench.client);
    option_list_deinit(&rest);
    return exit_code;
}
