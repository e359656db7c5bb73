/* main.c - the process minisgl-detokenizer: options, then the loop or a filter. */
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/options.h"
#include "detokenizer_proc/loop.h"
#include "detokenizer_proc/text_filter.h"
#include "proto/link.h"

enum { NO_FILTER = -1 };

struct settings {
    const char *model;
    int filter; /* of enum text_filter, or NO_FILTER */
    struct loop_args loop;
    int64_t run, slow_client_bytes;
    double slow_client_seconds;
};

static const char *const filters[] = {"decode", "stream", NULL}; /* as enum text_filter */

static const struct option_usage usage = {
    "minisgl-detokenizer",
    "--model DIR --endpoint ENDPOINT --input ENDPOINT --scheduler ENDPOINT [options]",
    "Turns the tokens that the scheduler chooses into text, finds stop strings in it, and sends "
    "it\n"
    "to the clients. With --filter it reads JSON lines from stdin and writes them to stdout\n"
    "instead: a line at fault is answered with {\"error\"}; the exit code stays 0."};

static struct status parse(int argc, char **argv, struct settings *s, bool *out_done)
{
    const struct option_spec specs[] = {
        option_header("Model"),
        option_also("model-path",
                    option_string(
                        "model", &s->model, "DIR",
                        "directory of the model; without a tokenizer.json in it ids have no text")),
        option_choice("filter", &s->filter, "NAME", filters,
                      "decode: {\"ids\"} to {\"text\"}; stream: {\"ids\"} to {\"pieces\"}"),
        option_header("Sockets"),
        option_string("input", &s->loop.input, "ENDPOINT",
                      "where the scheduler's tokens arrive; bound"),
        option_string("scheduler", &s->loop.scheduler, "ENDPOINT",
                      "where the scheduler takes aborts; connected"),
        option_string("endpoint", &s->loop.endpoint, "ENDPOINT",
                      "where clients get their text; bound"),
        option_string("control", &s->loop.control, "ENDPOINT",
                      "where ping, stats, drain and log_level are taken; bound"),
        option_int("run", &s->run, "N", 0, OPTION_INT_MAX,
                   "number of this run: frames of another one are dropped; 0 takes all"),
        option_string("curve-keys", &s->loop.curve_keys, "DIR",
                      "CURVE certificates, for tcp beyond loopback (proto/README.md)"),
        option_header("Clients that do not read"),
        option_int("slow-client-bytes", &s->slow_client_bytes, "N", 1024, 1 << 30,
                   "their requests end when so much has come while they took nothing (1 MiB)"),
        option_double("slow-client-seconds", &s->slow_client_seconds, "S", 0.01, 3600,
                      "or when they have taken nothing for so long (10)"),
        {0},
    };

    return options_parse(argc, argv, &usage, specs, NULL, out_done);
}

/* What options_parse() cannot know. */
static struct status check(struct settings *s)
{
    if (!s->model)
        return status_error(STATUS_INVALID, "--model: missing, the directory of the model");
    if (s->filter != NO_FILTER)
        return status_ok();
    if (!s->loop.input)
        return status_error(STATUS_INVALID,
                            "--input: missing, where the scheduler's tokens arrive");
    if (!s->loop.scheduler)
        return status_error(STATUS_INVALID, "--scheduler: missing, where aborts go");
    if (!s->loop.endpoint)
        return status_error(STATUS_INVALID, "--endpoint: missing, where clients get their text");
    s->loop.run = (uint64_t)s->run;
    s->loop.max_unsent_bytes = (size_t)s->slow_client_bytes;
    s->loop.max_stall_ns = (int64_t)(s->slow_client_seconds * 1e9);
    return status_ok();
}

static struct status serve(struct loop_args *args, const struct vocabulary *vocabulary)
{
    struct loop *loop = NULL;

    args->vocabulary = vocabulary;
    link_catch_signals();
    struct status status = loop_open(args, &loop);
    if (status.code)
        return status;
    printf("minisgl-detokenizer ready endpoint=%s input=%s control=%s\n", loop_endpoint(loop),
           loop_input(loop), loop_control(loop));
    fflush(stdout);
    loop_run(loop);
    loop_close(&loop);
    return status;
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .filter = NO_FILTER, .slow_client_bytes = 1 << 20, .slow_client_seconds = 10};
    struct vocabulary vocabulary = {0};
    bool done = false;
    int exit_code;
    struct status status;

    log_open("minisgl-detokenizer");
    status = parse(argc, argv, &settings, &done);
    if (!status.code && !done)
        status = check(&settings);
    if (options_end_here("minisgl-detokenizer", &status, done, &exit_code))
        return exit_code;
    status = vocabulary_open(&vocabulary, settings.model);
    if (status.code == STATUS_NOT_FOUND && settings.filter == NO_FILTER) {
        log_warn("no tokenizer.json in %s: token ids are served without text", settings.model);
        status = status_ok();
    }
    if (!status.code && settings.filter != NO_FILTER)
        status = text_filter_run((enum text_filter)settings.filter, &vocabulary, stdin, stdout);
    else if (!status.code)
        status = serve(&settings.loop, &vocabulary);
    if (status.code)
        log_error("%s", status.msg);
    vocabulary_deinit(&vocabulary);
    return status.code ? EXIT_FAILURE : EXIT_SUCCESS;
}
