/* settings.h - the command line of minisgl-scheduler. */
#ifndef SCHEDULER_PROC_SETTINGS_H
#define SCHEDULER_PROC_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "scheduler_proc/loop.h"

/* Options as they are parsed; OPTION_INT wants int64_t. */
struct settings {
    const char *model, *trace, *record, *replay;
    struct loop_args loop;
    int device, dtype, cache_type, policy, order; /* numbers of their enums */
    bool dummy_weights;
    int64_t run, ordinal, threads, max_running, max_seq_len, max_prefill, num_pages, page_size;
    int64_t graph_max_rows, max_queued, sim_step_us, sim_token_ns, op_delay_us, fault_step;
    int64_t step_timeout_s;
    double memory_ratio, grace_s;
};

/* The names of cache types and policies, by their enums' numbers. */
extern const char *const settings_cache_types[];
extern const char *const settings_policies[];

/* *out_done: --help or the like has been answered. Errors name the option. */
MUST_CHECK struct status settings_parse(int argc, char **argv, struct settings *settings,
                                        bool *out_done);

#endif
