/* main.c - the process minisgl-tokenizer: options and model, then the loop or a filter. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/options.h"
#include "proto/link.h"
#include "tokenizer_proc/filter_chat.h"
#include "tokenizer_proc/filter_encode.h"
#include "tokenizer_proc/loop.h"
#include "tokenizer_proc/workers.h"

enum { NO_FILTER = -1, DEFAULT_MAX_THREADS = 4, MIB = 1 << 20 };

enum filter { FILTER_ENCODE, FILTER_RENDER, FILTER_JINJA };

struct settings {
    const char *model, *template;
    int filter; /* of enum filter, or NO_FILTER */
    struct loop_args loop;
    int64_t run, instance, max_seq_len, num_threads, max_pending_mib, max_unsent_mib;
};

static const char *const filters[] = {"encode", "render", "jinja", NULL}; /* as enum filter */

static const struct option_usage usage = {
    "minisgl-tokenizer", "--model DIR --endpoint ENDPOINT --scheduler ENDPOINT [options]",
    "Takes the requests of clients, checks them, turns their text or messages into token ids, and\n"
    "passes them on to the scheduler. With --filter it reads JSON lines from stdin and writes "
    "them\n"
    "to stdout instead: a line at fault is answered with {\"error\"}; the exit code stays 0.\n"
    "A directory without a tokenizer.json serves token ids only."};

static struct status parse(int argc, char **argv, struct settings *s, bool *out_done)
{
    const struct option_spec specs[] = {
        option_header("Model"),
        option_also(
            "model-path",
            option_string("model", &s->model, "DIR",
                          "Hugging Face directory: config.json, tokenizer.json, chat template")),
        option_choice("filter", &s->filter, "NAME", filters,
                      "encode: {\"text\"} to {\"ids\"}; render: {\"messages\"} to {\"text\"};\n"
                      "jinja: {\"template\", \"context\"} to {\"text\"}"),
        option_string("template", &s->template, "FILE",
                      "chat template, in place of the model's own"),
        option_also(
            "max-seq-len",
            option_int("max-seq-len-override", &s->max_seq_len, "N", 2, 1 << 30,
                       "longest sequence, in place of the model's max_position_embeddings")),
        option_int("tokenizer-threads", &s->num_threads, "N", 1, WORKERS_MAX_THREADS,
                   "prompts that are worked on at a time (as many as CPUs, at most 4)"),
        option_header("Sockets"),
        option_string("endpoint", &s->loop.front.endpoint, "ENDPOINT",
                      "where clients' requests arrive; bound"),
        option_string("scheduler", &s->loop.front.scheduler, "ENDPOINT",
                      "where requests and aborts go; connected"),
        option_string("control", &s->loop.control, "ENDPOINT",
                      "where ping, stats, drain and log_level are taken; bound"),
        option_int("run", &s->run, "N", 0, OPTION_INT_MAX,
                   "number of this run, for the scheduler to know its own; 0 by hand"),
        option_int("instance", &s->instance, "N", 0, UINT16_MAX,
                   "number of this tokenizer, if there are several (1)"),
        option_string("curve-keys", &s->loop.front.curve_keys, "DIR",
                      "CURVE certificates, for tcp beyond loopback (proto/README.md)"),
        option_header("Bounds"),
        option_int("max-pending-mib", &s->max_pending_mib, "N", 1, 1 << 20,
                   "MiB of requests at work here; beyond it they are refused as overloaded (256)"),
        option_int("max-unsent-mib", &s->max_unsent_mib, "N", 1, 1 << 20,
                   "MiB that the scheduler has not taken; beyond it the same (64)"),
        {0},
    };

    return options_parse(argc, argv, &usage, specs, NULL, out_done);
}

/* What options_parse() cannot know. */
static struct status check(struct settings *s)
{
    bool needs_model = s->filter != FILTER_JINJA && (s->filter != FILTER_RENDER || !s->template);
    cpu_set_t cpus;

    if (!s->model && needs_model)
        return status_error(STATUS_INVALID, "--model: missing, the directory of the model");
    if (s->filter != NO_FILTER)
        return status_ok();
    if (!s->loop.front.endpoint)
        return status_error(STATUS_INVALID, "--endpoint: missing, where clients' requests arrive");
    if (!s->loop.front.scheduler)
        return status_error(STATUS_INVALID, "--scheduler: missing, where requests go");
    if (s->num_threads == 0) {
        int num_cpus = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
        s->num_threads = num_cpus < DEFAULT_MAX_THREADS ? num_cpus : DEFAULT_MAX_THREADS;
    }
    s->loop.front.model_dir = s->model;
    s->loop.front.run = (uint64_t)s->run;
    s->loop.front.instance = (uint16_t)s->instance;
    s->loop.front.num_threads = (int)s->num_threads;
    s->loop.front.max_pending_bytes = (size_t)s->max_pending_mib * MIB;
    s->loop.front.max_unsent_bytes = (size_t)s->max_unsent_mib * MIB;
    return status_ok();
}

/* What of the model there is, owned; zero is nothing. */
struct model_parts {
    struct tokenizer *tokenizer;
    struct chat_template *chat;
};

static struct status open_chat(const struct settings *s, struct chat_template **out)
{
    return s->template ? chat_template_open_file(s->template, s->model, out)
                       : chat_template_open(s->model, out);
}

/* A template that is not there or that is not understood takes nothing from those who send text. */
static struct status open_chat_if_any(const struct settings *s, struct model_parts *parts,
                                      struct prompt_model *out)
{
    struct status status = open_chat(s, &parts->chat);

    out->chat = parts->chat;
    if (status.code == STATUS_NOT_FOUND && !s->template)
        out->chat_status = status_error(STATUS_NOT_FOUND, "this model has no chat template");
    else if (status.code && !s->template)
        out->chat_status = status;
    else
        return status;
    log_warn("messages are not taken: %s", out->chat_status.msg);
    return status_ok();
}

/* The model's parts as the process needs them: all but the numbers in config.json may be missing.
 */
static struct status open_model(const struct settings *s, struct model_parts *parts,
                                struct prompt_model *out)
{
    struct status status = model_info_read(s->model, &out->info);

    if (status.code)
        return status;
    if (s->max_seq_len)
        out->info.max_seq_len = (int32_t)s->max_seq_len;
    status = tokenizer_open(s->model, &parts->tokenizer);
    if (status.code == STATUS_NOT_FOUND && out->info.vocab_size > 0) {
        log_warn("no tokenizer.json in %s: only requests of token ids are taken", s->model);
        return status_ok();
    }
    if (status.code == STATUS_NOT_FOUND)
        return status_context(
            status_error(STATUS_NOT_FOUND,
                         "neither tokenizer.json nor config.json with vocab_size"),
            s->model);
    if (status.code)
        return status;
    out->tokenizer = parts->tokenizer;
    if (out->info.vocab_size == 0)
        out->info.vocab_size = tokenizer_vocab_size(parts->tokenizer);
    return open_chat_if_any(s, parts, out);
}

static struct status run_filter(const struct settings *s, struct model_parts *parts)
{
    struct status status;

    switch ((enum filter)s->filter) {
    case FILTER_ENCODE:
        status = tokenizer_open(s->model, &parts->tokenizer);
        return status.code ? status : filter_encode(parts->tokenizer, stdin, stdout);
    case FILTER_RENDER:
        status = open_chat(s, &parts->chat);
        return status.code ? status : filter_render(parts->chat, stdin, stdout);
    case FILTER_JINJA:
        break;
    }
    return filter_jinja(stdin, stdout);
}

/* *out_has_ended as loop_close() has it. */
static struct status serve(struct loop_args *args, const struct prompt_model *model,
                           bool *out_has_ended)
{
    struct loop *loop = NULL;
    struct status status;

    args->front.model = model;
    link_catch_signals();
    status = loop_open(args, &loop);
    if (status.code)
        return status;
    printf("minisgl-tokenizer ready endpoint=%s control=%s\n", loop_endpoint(loop),
           loop_control(loop));
    fflush(stdout);
    loop_run(loop);
    *out_has_ended = loop_close(&loop);
    return status_ok();
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .filter = NO_FILTER, .instance = 1, .max_pending_mib = 256, .max_unsent_mib = 64};
    /* Static: a worker that did not end in time still reads them while the process exits. */
    static struct model_parts parts;
    static struct prompt_model model;
    bool is_done = false, has_ended = true;
    int exit_code;
    struct status status;

    log_open("minisgl-tokenizer");
    status = parse(argc, argv, &settings, &is_done);
    if (status.code == STATUS_OK && !is_done)
        status = check(&settings);
    if (options_end_here("minisgl-tokenizer", &status, is_done, &exit_code))
        return exit_code;
    if (settings.filter != NO_FILTER)
        status = run_filter(&settings, &parts);
    else
        status = open_model(&settings, &parts, &model);
    if (status.code == STATUS_OK && settings.filter == NO_FILTER)
        status = serve(&settings.loop, &model, &has_ended);
    if (status.code)
        log_error("%s", status.msg);
    if (has_ended) {
        chat_template_destroy(&parts.chat);
        tokenizer_destroy(&parts.tokenizer);
    }
    return status.code ? EXIT_FAILURE : EXIT_SUCCESS;
}
