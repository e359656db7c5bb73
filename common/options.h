/*
 * options.h - command lines: `--opt value`, `--opt=value`, `--flag`, in the habits of git and curl.
 *
 * A program lists its options in one table; the table parses, checks ranges, and writes --help.
 * Every program also answers `--list-options` with one line per option, "name value" or "name
 * flag", by which the launcher knows whom to hand what.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum option_type {
    OPTION_FLAG,   /* bool *: set to true */
    OPTION_STRING, /* const char **: borrowed from argv */
    OPTION_INT,    /* int64_t *: min..max */
    OPTION_DOUBLE, /* double *: min..max */
    OPTION_CHOICE, /* int *: index into choices, a NULL-terminated list */
    OPTION_LIST,   /* struct option_list *: may be repeated */
    OPTION_HEADER, /* a line of its own in --help; name is its text */
};

/* The largest max of an OPTION_INT: up to it whole numbers are exact in a double. */
#define OPTION_INT_MAX 9007199254740992.0

struct option_list {
    const char **items; /* owned, each borrowed from argv */
    size_t num_items;
};

struct option_spec {
    const char *name;  /* without the dashes */
    const char *alias; /* another name for it, or NULL; one of a single letter is written "-o" */
    enum option_type type;
    void *value;
    const char *metavar; /* such as "DIR"; NULL for a flag */
    const char *help;    /* one sentence; may hold newlines */
    const char *const *choices;
    double min, max; /* of OPTION_INT and OPTION_DOUBLE; both 0: unbounded */
};

/* What a program is. */
struct option_usage {
    const char *program;  /* "minisgl-scheduler" */
    const char *synopsis; /* "[options]" or "generate TEXT [options]" */
    const char *summary;  /* what it does, one paragraph */
};

/*
 * Parses argv[1..]; the specs end with a zero name. What is no option goes to rest (with all behind
 * a lone "--"); rest NULL refuses it. --help prints to stdout and --list-options does; both set
 * *out_done (the caller exits 0). Errors (STATUS_INVALID) name the option and what it takes; the
 * caller prints them and exits 2.
 */
MUST_CHECK struct status options_parse(int argc, char **argv, const struct option_usage *usage,
                                       const struct option_spec *specs, struct option_list *rest,
                                       bool *out_done);

void option_list_deinit(struct option_list *list);

enum { EXIT_USAGE = 2 }; /* of a wrong command line, beside EXIT_SUCCESS and EXIT_FAILURE */

/*
 * What parsing, and the caller's own checks behind it, mean for main(): true when it ends here with
 * *out_exit, since help has been printed or something was wrong, which is then said on stderr.
 */
bool options_end_here(const char *program, const struct status *status, bool is_done,
                      int *out_exit);

#endif
