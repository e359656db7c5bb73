/* settings.c - see settings.h. */
#include "scheduler_proc/settings.h"

#include <stdlib.h>
#include <strings.h>

#include "common/options.h"

enum { CUDA_STEP_TIMEOUT_S = 300 }; /* a CPU may well take that long over a large prompt */

static const char *const devices[] = {"cpu", "cuda", "sim", NULL};         /* enum engine_device */
static const char *const dtypes[] = {"auto", "float32", "bfloat16", NULL}; /* enum engine_dtype */
const char *const settings_cache_types[] = {"radix", "naive", NULL};       /* enum cache_type */
const char *const settings_policies[] = {"prefill-first", "mixed", NULL};  /* enum policy */

static const char *const orders[] = {"arrival", "cached", NULL}; /* enum queue_order */

static const struct option_usage usage = {
    "minisgl-scheduler", "--model DIR --endpoint ENDPOINT --detokenizer ENDPOINT [options]",
    "Batches requests, runs the model on the device, and sends the chosen tokens on.\n"
    "In the environment: MINISGL_DISABLE_OVERLAP_SCHEDULING=1 picks the normal loop,\n"
    "MINISGL_CPU_ISA=avx512_bf16|avx512|avx2|generic|plain the instructions of the cpu's "
    "operators."};

static struct status parse(int argc, char **argv, struct settings *s, bool *out_done)
{
    const struct option_spec specs[] = {
        option_header("Model"),
        option_also("model-path",
                    option_string("model", &s->model, "DIR",
                                  "Hugging Face directory: config.json and safetensors")),
        option_choice("device", &s->device, "NAME", devices,
                      "cpu (default), cuda, or sim: a simulated model on the cpu"),
        option_choice("dtype", &s->dtype, "TYPE", dtypes,
                      "auto (default): float32 files stay, 16-bit ones run as bfloat16"),
        option_also("dummy-weight", option_flag("dummy-weights", &s->dummy_weights,
                                                "random weights of config.json's shape")),
        option_header("Batches and memory"),
        option_int("max-running-requests", &s->max_running, "N", 1, SCHEDULER_MAX_RUNNING,
                   "requests that run at a time (256)"),
        option_int("max-queued", &s->max_queued, "N", 1, SCHEDULER_MAX_QUEUED,
                   "requests that may wait; beyond it they are refused as overloaded (4096)"),
        option_int("max-seq-len-override", &s->max_seq_len, "N", 2, 1 << 30,
                   "longest sequence, in place of the model's max_position_embeddings"),
        option_also("max-extend-length",
                    option_int("max-prefill-length", &s->max_prefill, "N", 1, 1 << 20,
                               "prompt tokens of one step; longer prompts run in chunks (8192)")),
        option_choice("policy", &s->policy, "NAME", settings_policies,
                      "mixed (default): prompts and streams in one step; or prefill-first"),
        option_choice(
            "queue-order", &s->order, "NAME", orders,
            "arrival (default), or cached: of the first 16 that wait, the one with the longest "
            "cached prefix"),
        option_choice("cache-type", &s->cache_type, "NAME", settings_cache_types,
                      "radix (default): prompts share prefixes; naive: they do not"),
        option_int("page-size", &s->page_size, "N", 1, 65536,
                   "tokens of a page of the KV cache (16)"),
        option_int("num-pages", &s->num_pages, "N", 2, 1 << 30,
                   "pages of the KV cache, in place of what memory allows"),
        option_double("memory-ratio", &s->memory_ratio, "R", 0.01, 1,
                      "of the device's free memory, for weights and KV cache; cuda only (0.9)"),
        option_also("graph",
                    option_int("cuda-graph-max-bs", &s->graph_max_rows, "N", 0, 512,
                               "largest decode batch that is captured as a graph; 0: none (256)")),
        option_int("threads", &s->threads, "N", 1, 1024,
                   "of the cpu's operators (as many as the process may use)"),
        option_int("device-ordinal", &s->ordinal, "N", 0, 255, "which card (0)"),
        option_header("Sockets"),
        option_string("endpoint", &s->loop.endpoint, "ENDPOINT",
                      "where requests and aborts arrive; bound"),
        option_string("detokenizer", &s->loop.detokenizer, "ENDPOINT",
                      "where tokens go; connected"),
        option_string("control", &s->loop.control, "ENDPOINT",
                      "where stats, drain, flush_cache and the like are taken; bound"),
        option_int("run", &s->run, "N", 0, OPTION_INT_MAX,
                   "number of this run: frames of another one are dropped; 0 takes all"),
        option_string("curve-keys", &s->loop.curve_keys, "DIR",
                      "CURVE certificates, for tcp beyond loopback (proto/README.md)"),
        option_double("shutdown-grace", &s->grace_s, "S", 0, 86400,
                      "how long running requests may go on after SIGTERM (10)"),
        option_int("step-timeout", &s->step_timeout_s, "S", 0, 86400,
                   "seconds after which a step that does not end ends the process\n"
                   "(cuda 300, else 0: never)"),
        option_header("For study and tests"),
        option_string("trace", &s->trace, "FILE",
                      "writes what ran when, for ui.perfetto.dev or tools/timeline"),
        option_string("record", &s->record, "FILE",
                      "writes all that the core is told, prompts too"),
        option_string(
            "replay", &s->replay, "FILE",
            "takes the steps of a recorded file again, alone, and says whether they are the "
            "same"),
        option_int("sim-step-us", &s->sim_step_us, "N", 0, 60000000,
                   "sim: microseconds of each step (1000)"),
        option_int("sim-token-ns", &s->sim_token_ns, "N", 0, 1000000000,
                   "sim: and nanoseconds for each token that it computes (0)"),
        option_int("op-delay-us", &s->op_delay_us, "N", 0, 10000000,
                   "cpu and sim: microseconds put before each operation of the device (0)"),
        option_int("fault-step", &s->fault_step, "N", 0, OPTION_INT_MAX,
                   "this step has an operator with a bad pointer; cuda only (0: none has)"),
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
    if (s->num_pages > batch_max_pages((int32_t)s->page_size))
        return status_error(STATUS_INVALID, "--num-pages: %lld, at most %d of %lld tokens each",
                            (long long)s->num_pages, batch_max_pages((int32_t)s->page_size),
                            (long long)s->page_size);
    if (s->step_timeout_s < 0)
        s->step_timeout_s = s->device == ENGINE_CUDA ? CUDA_STEP_TIMEOUT_S : 0;
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
                                  .policy = POLICY_MIXED,
                                  .graph_max_rows = ENGINE_GRAPH_AUTO,
                                  .max_queued = 4096,
                                  .sim_step_us = 1000,
                                  .memory_ratio = 0.9,
                                  .grace_s = 10,
                                  .step_timeout_s = -1};
    status = parse(argc, argv, settings, out_done);
    return status.code || *out_done ? status : check(settings);
}
