/* settings.c - see settings.h. */
#include "scheduler_proc/settings.h"

#include <stdlib.h>
#include <strings.h>

#include "common/options.h"

static const char *const devices[] = {"cpu", "cuda", "sim", NULL};         /* enum engine_device */
static const char *const dtypes[] = {"auto", "float32", "bfloat16", NULL}; /* enum engine_dtype */
const char *const settings_cache_types[] = {"radix", "naive", NULL};       /* enum cache_type */
const char *const settings_policies[] = {"prefill-first", "mixed", NULL};  /* enum policy */

static const char *const orders[] = {"arrival", "cached", NULL}; /* enum queue_order */

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
         .choices = settings_policies,
         .help = "prefill-first (default), or mixed: prompts and streams in one step"},
        {.name = "queue-order",
         .type = OPTION_CHOICE,
         .value = &s->order,
         .metavar = "NAME",
         .choices = orders,
         .help =
             "arrival (default), or cached: of the first 16 that wait, the one with the longest "
             "cached prefix"},
        {.name = "cache-type",
         .type = OPTION_CHOICE,
         .value = &s->cache_type,
         .metavar = "NAME",
         .choices = settings_cache_types,
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
         .max = OPTION_INT_MAX,
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

struct status settings_parse(int argc, char **argv, struct settings *settings, bool *out_done)
{
    struct status status;

    *settings = (struct settings){.max_running = 256,
                                  .max_prefill = 8192,
                                  .page_size = 16,
                                  .policy = POLICY_PREFILL_FIRST,
                                  .graph_max_rows = ENGINE_GRAPH_AUTO,
                                  .max_queued = 4096,
                                  .sim_step_us = 1000,
                                  .memory_ratio = 0.9,
                                  .grace_s = 10};
    status = parse(argc, argv, settings, out_done);
    return status.code || *out_done ? status : check(settings);
}
