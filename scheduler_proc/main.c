/* main.c - the process minisgl-scheduler: options, model, then the loop. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "proto/link.h"
#include "scheduler_proc/record_file.h"
#include "scheduler_proc/settings.h"
#include "scheduler_proc/watchdog.h"

enum { LARGE_TABLES = 256 << 20 };

static void log_start(const struct settings *s, const struct model_config *model,
                      const struct engine_info *info, int64_t began_ns)
{
    const double mib = 1 << 20;

    if (model->warning[0])
        log_warn("generation_config.json: %s", model->warning);
    if (s->max_seq_len > model->max_position_embeddings && model->rope.type == ROPE_DEFAULT)
        log_warn("--max-seq-len-override %lld is beyond the model's max_position_embeddings %d, "
                 "and its config stretches no positions: text behind that is likely nonsense",
                 (long long)s->max_seq_len, model->max_position_embeddings);
    if (s->threads > sysconf(_SC_NPROCESSORS_ONLN))
        log_warn("--threads %lld is more than the %ld processors: they wait for each other",
                 (long long)s->threads, sysconf(_SC_NPROCESSORS_ONLN));
    for (size_t i = 0; i < sizeof(info->warnings) / sizeof(info->warnings[0]); i++)
        if (info->warnings[i][0])
            log_warn("%s", info->warnings[i]);
    log_info("model architecture=%s layers=%d hidden_size=%d dtype=%s weights=%.1f MiB",
             model->architecture, model->num_layers, model->hidden_size, info->dtype_name,
             (double)info->weight_bytes / mib);
    log_info("memory kv_cache=%.1f MiB pages=%d page_size=%lld max_seq_len=%d workspace=%.1f MiB "
             "graphs=%.1f MiB",
             (double)info->kv_bytes / mib, info->num_pages, (long long)s->page_size,
             info->max_seq_len, (double)info->scratch_bytes / mib, (double)info->graph_bytes / mib);
    if (info->table_bytes > LARGE_TABLES)
        log_warn("tables for %lld requests of %d tokens take %.0f MiB: --max-seq-len-override and "
                 "--max-running-requests make them smaller",
                 (long long)s->max_running, info->max_seq_len, (double)info->table_bytes / mib);
    log_debug("start: device %.2f s weights %.2f s memory %.2f s graphs %.2f s",
              (double)info->open_ns / 1e9, (double)info->weights_ns / 1e9,
              (double)info->memory_ns / 1e9, (double)info->graphs_ns / 1e9);
    log_info("device=\"%s\" cache=%s policy=%s overlap=%s max_running=%lld graphs=%d start_ms=%lld",
             info->device_name, settings_cache_types[s->cache_type], settings_policies[s->policy],
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
                                                 .op_delay_ns = s->op_delay_us * 1000,
                                                 .fault_step = s->fault_step},
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
                                   .queue_order = (enum queue_order)s->order,
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
    watchdog_open((unsigned)s->step_timeout_s);
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
    struct settings settings;
    bool done = false;
    int exit_code;
    struct status status;

    log_open("minisgl-scheduler");
    status = settings_parse(argc, argv, &settings, &done);
    if (options_end_here("minisgl-scheduler", &status, done, &exit_code))
        return exit_code;
    status = settings.replay ? record_file_replay(settings.replay) : serve(&settings);
    if (status.code)
        log_error("%s", status.msg);
    return status.code ? EXIT_FAILURE : EXIT_SUCCESS;
}
