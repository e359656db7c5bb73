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
    uint64_t seed;
    bool has_seed;
    struct option_list stops;
    bool ignore_eos, show_special;
    struct bytes stop_bytes[MAX_STOP_STRINGS]; /* of stops */
};

#define REQUEST_OPTIONS_NONE                                                                       \
    {                                                                                              \
        .temperature = -1, .top_p = -1, .min_p = -1, .top_k = -2                                   \
    }

/* Entries of an option table for a struct request_options *r. model: "" or what --help says before
 * the default of each number that a model can have its own of. */
#define REQUEST_OPTION_SPECS(r, model)                                                             \
    option_header("How to answer"),                                                                \
        option_int("max-tokens", &(r)->max_tokens, "N", 1, INT32_MAX,                              \
                   "at most so many tokens (1024)"),                                               \
        option_double("temperature", &(r)->temperature, "T", 0, 100,                               \
                      "0 always takes the likeliest token (" model "0)"),                          \
        option_int("top-k", &(r)->top_k, "K", -1, INT32_MAX,                                       \
                   "choose among the K likeliest; 0 and -1: off (" model "0)"),                    \
        option_double("top-p", &(r)->top_p, "P", 0, 1,                                             \
                      "choose among the likeliest that make up P together;\n1: off (" model "1)"), \
        option_double("min-p", &(r)->min_p, "P", 0, 1,                                             \
                      "leave out what is less likely than P times the likeliest;\n0: off (" model  \
                      "0)"),                                                                       \
        option_uint64("seed", &(r)->seed, &(r)->has_seed, "S",                                     \
                      "the same seed gives the same answer; without it one is drawn"),             \
        option_repeated("stop", &(r)->stops, "STR",                                                \
                        "end where this appears in the answer; may be repeated"),                  \
        option_flag("ignore-eos", &(r)->ignore_eos,                                                \
                    "go on to --max-tokens, whatever the model says"),                             \
        option_flag("show-special", &(r)->show_special, "leave special tokens in the text")

void request_options_deinit(struct request_options *options);

/* Puts what was given into msg, which borrows from options. STATUS_INVALID names the option. */
MUST_CHECK struct status request_options_apply(struct request_options *options,
                                               struct generate_msg *msg);

#endif
