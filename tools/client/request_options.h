/*
 * request_options.h - the options of a command line that say how a request is to be answered.
 */
#ifndef TOOLS_CLIENT_REQUEST_OPTIONS_H
#define TOOLS_CLIENT_REQUEST_OPTIONS_H

#include "common/options.h"
#include "tools/client/client.h"

struct request_options {
    double temperature, top_p, min_p; /* negative: not given */
    int64_t top_k;                    /* below -1: not given */
    int64_t max_tokens;               /* 0: not given */
    int64_t seed;                     /* negative: not given */
    struct option_list stops;
    bool ignore_eos, show_special;
    struct bytes stop_bytes[MAX_STOP_STRINGS]; /* of stops */
};

#define REQUEST_OPTIONS_NONE                                                                       \
    {                                                                                              \
        .temperature = -1, .top_p = -1, .min_p = -1, .top_k = -2, .seed = -1                       \
    }

/* The entries of an option table, for a struct request_options *r. */
/* clang-format off */
#define REQUEST_OPTION_SPECS(r)                                                                                \
    {.name = "How to answer", .type = OPTION_HEADER},                                                          \
    {.name = "max-tokens", .type = OPTION_INT, .value = &(r)->max_tokens, .metavar = "N", .min = 1,            \
     .max = INT32_MAX, .help = "at most so many tokens (1024)"},                                               \
    {.name = "temperature", .type = OPTION_DOUBLE, .value = &(r)->temperature, .metavar = "T", .max = 100,     \
     .help = "0 always takes the likeliest token (0)"},                                                        \
    {.name = "top-k", .type = OPTION_INT, .value = &(r)->top_k, .metavar = "K", .min = -1, .max = INT32_MAX,   \
     .help = "choose among the K likeliest; 0 and -1: off"},                                                   \
    {.name = "top-p", .type = OPTION_DOUBLE, .value = &(r)->top_p, .metavar = "P", .max = 1,                   \
     .help = "choose among the likeliest that make up P together; 1: off"},                                    \
    {.name = "min-p", .type = OPTION_DOUBLE, .value = &(r)->min_p, .metavar = "P", .max = 1,                   \
     .help = "leave out what is less likely than P times the likeliest; 0: off"},                              \
    {.name = "seed", .type = OPTION_INT, .value = &(r)->seed, .metavar = "S", .min = 0, .max = 9.2e18,         \
     .help = "the same seed gives the same answer; without it one is drawn"},                                  \
    {.name = "stop", .type = OPTION_LIST, .value = &(r)->stops, .metavar = "STR",                              \
     .help = "end where this appears in the answer; may be repeated"},                                         \
    {.name = "ignore-eos", .type = OPTION_FLAG, .value = &(r)->ignore_eos,                                     \
     .help = "go on to --max-tokens, whatever the model says"},                                                \
    {.name = "show-special", .type = OPTION_FLAG, .value = &(r)->show_special,                                 \
     .help = "leave special tokens in the text"}
/* clang-format on */

void request_options_deinit(struct request_options *options);

/* Puts what was given into msg, which borrows from options. STATUS_INVALID names the option. */
MUST_CHECK struct status request_options_apply(struct request_options *options,
                                               struct generate_msg *msg);

#endif
