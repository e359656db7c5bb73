/* front_stats.h - what the tokenizer process counts, and its answers to `stats` and `info`. */
#ifndef TOKENIZER_PROC_FRONT_STATS_H
#define TOKENIZER_PROC_FRONT_STATS_H

#include <stdint.h>

#include "common/json.h"
#include "tokenizer_proc/answers.h"
#include "tokenizer_proc/front.h"

enum { NUM_ERROR_CODES = ERROR_INTERNAL + 1 };

struct front_counters {
    int64_t start_ns;
    uint64_t frames_in, bytes_in, frames_dropped;
    uint64_t frames_out, bytes_out; /* to the scheduler */
    uint64_t num_accepted, num_results, num_aborts;
    uint64_t num_errors[NUM_ERROR_CODES]; /* by code */
    uint64_t num_prompt_tokens;           /* of accepted requests */
};

/* What is there at this moment. */
struct front_state {
    size_t num_pending, pending_bytes; /* frames that are not answered */
    const struct client_queues *clients;
    size_t queued_bytes; /* that the scheduler has not taken */
    const struct answers *answers;
    bool is_draining;
};

/* The JSON objects, into a writer that is emptied first. */
void front_stats_write(const struct front_args *args, const struct front_counters *counters,
                       const struct front_state *state, int64_t now_ns, struct json_writer *out);
/* num_pending: jobs of the client that asks. */
void front_info_write(const struct front_args *args, size_t num_pending, struct json_writer *out);

#endif
