/* main.c - the process minisgl-scheduler: options, model, then the loop. */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "proto/link.h"
#include "scheduler_proc/loop.h"
#include "scheduler_proc/record_file.h"

enum { EXIT_USAGE = 2 };

/* Options as they are parsed; OPTION_INT wants int64_t. */
struct settings {
    const char *model, *trace, *record, *replay;
    struct loop_args loop;
    int device, dtype, cache_type, policy; /* indices into the lists below */
    bool dummy_weights;
    int64_t run, ordinal, threads, max_running, max_seq_len, max_prefill, num_pages, page_size;
    int64_t graph_max_rows, max_queued, sim_step_us, sim_token_ns, op_delay_us;
    double memory_ratio, grace_s;
};

static const char *const devices[] = {"cpu", "cuda", "sim", NULL};         /* enum engine_device */
static const char *const dtypes[] = {"auto", "float32", "bfloat16", NULL}; /* enum engine_dtype */
static const char *const cache_types[] = {"radix", "naive", NULL};         /* enum cache_type */
static const char *const policies[] = {"prefill-first", "mixed", NULL};    /* enum policy */

static const struct option_usage usage = {
    "minisgl-scheduler", "--model DIR --endpoint ENDPOINT --detokenizer ENDPOINT [options]",
    "Batches requests, runs the model on the device, and sends the chosen tokens on."};

static struct status parse(int argc, char **argv, struct settings *s, bool *out_done)
{
    const struct option_spec specs[] = {
        {.name = "Model", .type = OPTION_HEADER},
        {.name = "model",
         .alias = "model-path",
         .type = OPTION_STRING,
         .value = &s->model,
         .metavar = "DIR",
         .help = "Hugging Face directory: config.json and safetensors"},
        {.name = "device",
         .type = OPTION_CHOICE,
         .value = &s->device,
         .metavar = "NAME",
         .choices = devices,
         .help = "cpu (default), cuda, or sim: a simulated model on the cpu"},
        {.name = "dtype",
         .type = OPTION_CHOICE,
         .value = &s->dtype,
         .metavar = "TYPE",
         .choices = dtypes,
         .help = "auto (default): float32 files stay, 16-bit ones run as bfloat16"},
        {.name = "dummy-weights",
         .alias = "dummy-weight",
         .type = OPTION_FLAG,
         .value = &s->dummy_weights,
         .help = "random weights of config.json's shape"},
        {.name = "Batches and memory", .type = OPTION_HEADER},
        {.name = "max-running-requests",
         .type = OPTION_INT,
         .value = &s->max_running,
         .metavar = "N",
         .min = 1,
         .max = 65536,
         .help = "requests that run at a time (256)"},
        {.name = "max-queued",
         .type = OPTION_INT,
         .value = &s->max_queued,
         .metavar = "N",
         .min = 1,
         .max = 1 << 24,
         .help = "requests that may wait; beyond it they are refused as overloaded (4096)"},
        {.name = "max-seq-len-override",
         .type = OPTION_INT,
         .value = &s->max_seq_len,
         .metavar = "N",
         .min = 2,
         .max = 1 << 30,
         .help = "longest sequence, in place of the model's max_position_embeddings"},
        {.name = "max-prefill-length",
         .alias = "max-extend-length",
         .type = OPTION_INT,
         .value = &s->max_prefill,
         .metavar = "N",
         .min = 1,
         .max = 1 << 20,
         .help = "prompt tokens of one step; longer prompts run in chunks (8192)"},
        {.name = "policy",
         .type = OPTION_CHOICE,
         .value = &s->policy,
         .metavar = "NAME",
         .choices = policies,
         .help = "prefill-first (default), or mixed: prompts and streams in one step"},
        {.name = "cache-type",
         .type = OPTION_CHOICE,
         .value = &s->cache_type,
         .metavar = "NAME",
         .choices = cache_types,
         .help = "radix (default): prompts share prefixes; naive: they do not"},
        {.name = "page-size",
         .type = OPTION_INT,
         .value = &s->page_size,
         .metavar = "N",
         .min = 1,
         .max = 65536,
         .help = "tokens of a page of the KV cache (16)"},
        {.name = "num-pages",
         .type = OPTION_INT,
         .value = &s->num_pages,
         .metavar = "N",
         .min = 2,
         .max = 1 << 30,
         .help = "pages of the KV cache, in place of what memory allows"},
        {.name = "memory-ratio",
         .type = OPTION_DOUBLE,
         .value = &s->memory_ratio,
         .metavar = "R",
         .min = 0.01,
         .max = 1,
         .help = "of the device's free memory, for weights and KV cache; cuda only (0.9)"},
        {.name = "cuda-graph-max-bs",
         .alias = "graph",
         .type = OPTION_INT,
         .value = &s->graph_max_rows,
         .metavar = "N",
         .min = 0,
         .max = 512,
         .help = "largest decode batch that is captured as a graph; 0: none (256)"},
        {.name = "threads",
         .type = OPTION_INT,
         .value = &s->threads,
         .metavar = "N",
         .min = 1,
         .max = 1024,
         .help = "of the cpu's operators (as many as the process may use)"},
        {.name = "device-ordinal",
         .type = OPTION_INT,
         .value = &s->ordinal,
         .metavar = "N",
         .min = 0,
         .max = 255,
         .help = "which card (0)"},
        {.name = "Sockets", .type = OPTION_HEADER},
        {.name = "endpoint",
         .type = OPTION_STRING,
         .value = &s->loop.endpoint,
         .metavar = "ENDPOINT",
         .help = "where requests and aborts arrive; bound"},
        {.name = "detokenizer",
         .type = OPTION_STRING,
         .value = &s->loop.detokenizer,
         .metavar = "ENDPOINT",
         .help = "where tokens go; connected"},
        {.name = "control",
         .type = OPTION_STRING,
         .value = &s->loop.control,
         .metavar = "ENDPOINT",
         .help = "where ping, stats, drain, flush_cache and log_level are taken; bound"},
        {.name = "run",
         .type = OPTION_INT,
         .value = &s->run,
         .metavar = "N",
         .min = 0,
         .max = 9007199254740992.0,
         .help = "number of this run: frames of another one are dropped; 0 takes all"},
        {.name = "curve-server-key",
         .type = OPTION_STRING,
         .value = &s->loop.curve_server_key,
         .metavar = "FILE",
         .help = "CURVE certificate, for tcp beyond loopback"},
        {.name = "curve-client-keys",
         .type = OPTION_STRING,
         .value = &s->loop.curve_client_keys,
         .metavar = "PATH",
         .help = "the peers' public certificates"},
        {.name = "shutdown-grace",
         .type = OPTION_DOUBLE,
         .value = &s->grace_s,
         .metavar = "S",
         .min = 0,
         .max = 86400,
         .help = "how long running requests may go on after SIGTERM (10)"},
        {.name = "For study and tests", .type = OPTION_HEADER},
        {.name = "trace",
         .type = OPTION_STRING,
         .value = &s->trace,
         .metavar = "FILE",
         .help = "writes what ran when, for ui.perfetto.dev or tools/timeline"},
        {.name = "record",
         .type = OPTION_STRING,
         .value = &s->record,
         .metavar = "FILE",
         .help = "writes all that the core is told, prompts too"},
        {.name = "replay",
         .type = OPTION_STRING,
         .value = &s->replay,
         .metavar = "FILE",
         .help = "takes the steps of a recorded file again, alone, and says whether they are the "
                 "same"},
        {.name = "sim-step-us",
         .type = OPTION_INT,
         .value = &s->sim_step_us,
         .metavar = "N",
         .min = 0,
         .max = 60000000,
         .help = "sim: microseconds of each step (1000)"},
        {.name = "sim-token-ns",
         .type = OPTION_INT,
         .value = &s->sim_token_ns,
         .metavar = "N",
         .min = 0,
         .max = 1000000000,
         .help = "sim: and nanoseconds for each token that it computes (0)"},
        {.name = "op-delay-us",
         .type = OPTION_INT,
         .value = &s->op_delay_us,
         .metavar = "N",
         .min = 0,
         .max = 10000000,
         .help = "cpu and sim: microseconds put before each operation of the device (0)"},
        {0},
    };

    return options_parse(argc, argv, &usage, specs, NULL, out_done);
}

/* What options_parse() cannot know. */
static struct status check(struct settings *s)
{
    const char *overlap = getenv("MINISGL_DISABLE_OVERLAP_SCHEDULING");

    if (s->replay)
        return status_ok();
    if (!s->model)
        return status_error(STATUS_INVALID, "--model: missing, the directory of the model");
    if (!s->loop.endpoint)
        return status_error(STATUS_INVALID, "--endpoint: missing, where requests arrive");
    if (!s->loop.detokenizer)
        return status_error(STATUS_INVALID, "--detokenizer: missing, where tokens go");
    s->loop.run = (uint64_t)s->run;
    s->loop.grace_ns = (int64_t)(s->grace_s * 1e9);
    s->loop.is_overlapped =
        !overlap || (strcasecmp(overlap, "1") != 0 && strcasecmp(overlap, "true") != 0 &&
                     strcasecmp(overlap, "yes") != 0);
    return status_ok();
}

static void log_start(const struct settings *s, const struct model_config *model,
                      const struct engine_info *info, int64_t began_ns)
{
    const double mib = 1 << 20;

    for (size_t i = 0; i < sizeof(info->warnings) / sizeof(info->warnings[0]); i++)
        if (info->warnings[i][0])
            log_warn("%s", info->warnings[i]);
    log_info("model architecture=%s layers=%d hidden_size=%d dtype=%s weights=%.1f MiB",
             model->architecture, model->num_layers, model->hidden_size, info->dtype_name,
             (double)info->weight_bytes / mib);
    log_info("memory kv_cache=%.1f MiB pages=%d page_size=%lld max_seq_len=%d workspace=%.1f MiB",
             (double)info->kv_bytes / mib, info->num_pages, (long long)s->page_size,
             info->max_seq_len, (double)info->scratch_bytes / mib);
    log_info("device=\"%s\" cache=%s policy=%s overlap=%s max_running=%lld graphs=%d start_ms=%lld",
             info->device_name, cache_types[s->cache_type], policies[s->policy],
             s->loop.is_overlapped ? "yes" : "no", (long long)s->max_running, info->num_graphs,
             (long long)((clock_now_ns() - began_ns) / 1000000));
}

static struct status make_engine(const struct settings *s, const struct model_config *model,
                                 struct engine **out)
{
    return engine_create(&(struct engine_config){.device = (enum engine_device)s->device,
                                                 .dtype = (enum engine_dtype)s->dtype,
                                                 .model_dir = s->model,
                                                 .model = model,
                                                 .dummy_weights = s->dummy_weights,
                                                 .ordinal = (int32_t)s->ordinal,
                                                 .num_threads = (int32_t)s->threads,
                                                 .max_running_reqs = (int32_t)s->max_running,
                                                 .max_prefill_tokens = (int32_t)s->max_prefill,
                                                 .page_size = (int32_t)s->page_size,
                                                 .num_pages = (int32_t)s->num_pages,
                                                 .max_seq_len_override = (int32_t)s->max_seq_len,
                                                 .memory_ratio = s->memory_ratio,
                                                 .graph_max_rows = (int32_t)s->graph_max_rows,
                                                 .sim = {.step_ns = s->sim_step_us * 1000,
                                                         .token_ns = s->sim_token_ns},
                                                 .op_delay_ns = s->op_delay_us * 1000},
                         out);
}

static struct status make_scheduler(const struct settings *s, const struct model_config *model,
                                    const struct engine_info *info, struct scheduler **out)
{
    return scheduler_create(
        &(struct scheduler_config){.page_size = (int32_t)s->page_size,
                                   .num_pages = info->num_pages,
                                   .max_running_reqs = (int32_t)s->max_running,
                                   .max_seq_len = info->max_seq_len,
                                   .max_prefill_tokens = (int32_t)s->max_prefill,
                                   .max_queued = (int32_t)s->max_queued,
                                   .vocab_size = model->vocab_size,
                                   .cache_type = (enum cache_type)s->cache_type,
                                   .policy = (enum policy)s->policy,
                                   .eos_ids = model->eos_ids,
                                   .num_eos_ids = model->num_eos_ids},
        out);
}

/* The first thing that went wrong stays. */
static struct status close_files(struct status status, struct trace **trace,
                                 struct record_file **record)
{
    struct status trace_status = trace_close(trace);
    struct status record_status = record_file_close(record);

    if (status.code)
        return status;
    return trace_status.code ? trace_status : record_status;
}

static struct status serve(const struct settings *s)
{
    static struct model_config model; /* large, and outlives nothing */
    int64_t began_ns = clock_now_ns();
    struct loop *loop = NULL;
    struct engine *engine = NULL;
    struct scheduler *scheduler = NULL;
    struct trace *trace = NULL;
    struct record_file *record = NULL;
    struct status status = loop_open(&s->loop, &loop);

    if (status.code)
        goto out;
    status = model_config_open(&model, s->model, (int32_t)s->max_seq_len);
    if (status.code)
        goto out;
    status = make_engine(s, &model, &engine);
    if (status.code)
        goto out;
    status = make_scheduler(s, &model, engine_info(engine), &scheduler);
    if (status.code)
        goto out;
    status = engine_prepare(engine, scheduler_limits(scheduler));
    if (status.code)
        goto out;
    if (s->trace)
        status = trace_open(s->trace, &trace);
    if (status.code)
        goto out;
    if (s->record)
        status = record_file_open(s->record, scheduler, &record);
    if (status.code)
        goto out;
    log_start(s, &model, engine_info(engine), began_ns);
    link_catch_signals();
    printf("minisgl-scheduler ready endpoint=%s control=%s\n", loop_endpoint(loop),
           loop_control(loop));
    fflush(stdout);
    status = loop_run(loop, engine, scheduler, trace);
out:
    loop_close(&loop);
    engine_destroy(&engine);
    scheduler_destroy(&scheduler);
    return close_files(status, &trace, &record);
}

int main(int argc, char **argv)
{
    struct settings settings = {.max_running = 256,
                                .max_prefill = 8192,
                                .page_size = 16,
                                .graph_max_rows = ENGINE_GRAPH_AUTO,
                                .max_queued = 4096,
                                .sim_step_us = 1000,
                                .memory_ratio = 0.9,
                                .grace_s = 10};
    bool done = false;
    struct status status;

    log_open("minisgl-scheduler");
    status = parse(argc, argv, &settings, &done);
    if (!status.code && done)
        return EXIT_SUCCESS;
    if (!status.code)
        status = check(&settings);
    if (status.code) {
        fprintf(stderr, "minisgl-scheduler: %s (try --help)\n", status.msg);
        return EXIT_USAGE;
    }
    status = settings.replay ? record_file_replay(settings.replay) : serve(&settings);
    if (status.code)
        log_error("%s", status.msg);
    return status.code ? EXIT_FAILURE : EXIT_SUCCESS;
}
