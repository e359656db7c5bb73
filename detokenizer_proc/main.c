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

static const struct option_usage usage = {"minisgl-detokenizer", "--model DIR [options]",
                                          "Turns the tokens that the scheduler chooses into text, "
                                          "finds stop strings in it, and sends it\n"
                                          "to the clients. With --filter it reads JSON lines from "
                                          "stdin and writes them to stdout instead."};

static struct status parse(int argc, char **argv, struct settings *s, bool *out_done)
{
    const struct option_spec specs[] = {
        {.name = "Model", .type = OPTION_HEADER},
        {.name = "model",
         .alias = "model-path",
         .type = OPTION_STRING,
         .value = &s->model,
         .metavar = "DIR",
         .help = "directory of the model; without a tokenizer.json in it ids have no text"},
        {.name = "filter",
         .type = OPTION_CHOICE,
         .value = &s->filter,
         .metavar = "NAME",
         .choices = filters,
         .help = "decode: {\"ids\"} to {\"text\"}; stream: {\"ids\"} to {\"pieces\"}"},
        {.name = "Sockets", .type = OPTION_HEADER},
        {.name = "input",
         .type = OPTION_STRING,
         .value = &s->loop.input,
         .metavar = "ENDPOINT",
         .help = "where the scheduler's tokens arrive; bound"},
        {.name = "scheduler",
         .type = OPTION_STRING,
         .value = &s->loop.scheduler,
         .metavar = "ENDPOINT",
         .help = "where the scheduler takes aborts; connected"},
        {.name = "endpoint",
         .type = OPTION_STRING,
         .value = &s->loop.endpoint,
         .metavar = "ENDPOINT",
         .help = "where clients get their text; bound"},
        {.name = "control",
         .type = OPTION_STRING,
         .value = &s->loop.control,
         .metavar = "ENDPOINT",
         .help = "where ping, stats, drain and log_level are taken; bound"},
        {.name = "run",
         .type = OPTION_INT,
         .value = &s->run,
         .metavar = "N",
         .min = 0,
         .max = OPTION_INT_MAX,
         .help = "number of this run: frames of another one are dropped; 0 takes all"},
        {.name = "curve-server-key",
         .type = OPTION_STRING,
         .value = &s->loop.curve_server_key,
         .metavar = "FILE",
         .help = "the server's CURVE certificate, for tcp beyond loopback"},
        {.name = "curve-client-keys",
         .type = OPTION_STRING,
         .value = &s->loop.curve_client_keys,
         .metavar = "DIR",
         .help = "the clients' public certificates"},
        {.name = "Clients that do not read", .type = OPTION_HEADER},
        {.name = "slow-client-bytes",
         .type = OPTION_INT,
         .value = &s->slow_client_bytes,
         .metavar = "N",
         .min = 1024,
         .max = 1 << 30,
         .help = "their requests end when so much text waits (1 MiB)"},
        {.name = "slow-client-seconds",
         .type = OPTION_DOUBLE,
         .value = &s->slow_client_seconds,
         .metavar = "S",
         .min = 0.01,
         .max = 3600,
         .help = "or when they have taken nothing for so long (10)"},
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
