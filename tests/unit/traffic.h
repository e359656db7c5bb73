/*
 * traffic.h - scripts of messages and steps for the core, run against the fake model, with all that
 * must hold looked at after each of them: the invariants, each request's text, one terminal each.
 */
#ifndef TESTS_UNIT_TRAFFIC_H
#define TESTS_UNIT_TRAFFIC_H

#include "tests/unit/fake_model.h"

enum { TRAFFIC_MAX_OPS = 1024, TRAFFIC_NEVER = INT32_MAX };

enum traffic_kind {
    TRAFFIC_SUBMIT,
    TRAFFIC_ABORT,        /* uid */
    TRAFFIC_ABORT_CLIENT, /* client */
    TRAFFIC_FLUSH,
    TRAFFIC_LAUNCH,  /* form and launch a step, if there is one and at most one is unfinished */
    TRAFFIC_PROCESS, /* process the oldest unfinished step, if any */
};

struct traffic_op {
    enum traffic_kind kind;
    uint64_t uid;
    int32_t client;
    /* A prompt is shared_len tokens of a family's text, then tokens of its own. */
    int32_t family, shared_len, prompt_len;
    int32_t max_tokens;
    bool ignore_eos;
    int32_t nan_at; /* that token (0: the first) comes as NaN; or TRAFFIC_NEVER */
};

struct traffic {
    struct scheduler_config config; /* eos_ids is set by the run */
    uint64_t nan_seed;              /* 0, or one middle chunk in eight has NaN, chosen by this */
    const struct record_sink *sink; /* borrowed, or NULL: takes the log of the run */
    int32_t num_ops;
    struct traffic_op ops[TRAFFIC_MAX_OPS];
};

struct traffic_result {
    char error[256]; /* "": all is well */
    int64_t num_steps;
    int32_t failed_op; /* where the error was seen; num_ops: behind the last */
    struct scheduler_stats stats;
};

/* Runs the script, then steps until nothing is left, then looks at the pool. */
void traffic_run(const struct traffic *traffic, struct traffic_result *out);

/* The script of a seed. */
void traffic_make(uint64_t seed, struct traffic *out);

/* Drops what can be dropped while the run still fails (a crash counts), each try in a child. */
void traffic_shorten(struct traffic *traffic);

/* true when a run in a child process fails or crashes. */
bool traffic_fails(const struct traffic *traffic);

void traffic_print(const struct traffic *traffic);

#endif
