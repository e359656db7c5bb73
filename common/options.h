/*
 * options.h - command lines: `--opt value`, `--opt=value`, `--flag`, in the habits of git and curl.
 *
 * A program lists its options in one table; the table parses, checks ranges, and writes --help.
 * Every program also answers `--version`, and `--list-options` with one line per option, "name
 * value" or "name flag", by which the launcher knows whom to hand what.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum option_type {
    OPTION_FLAG,
    OPTION_STRING,
    OPTION_INT,
    OPTION_UINT64,
    OPTION_DOUBLE,
    OPTION_CHOICE,
    OPTION_LIST,
    OPTION_HEADER,
};

/* The largest max of option_int(): up to it whole numbers are exact in a double. */
#define OPTION_INT_MAX 9007199254740992.0

struct option_list {
    const char **items; /* owned, each borrowed from argv */
    size_t num_items;
};

/* One entry of a table; made by the functions below, ended by {0}. */
struct option_spec {
    const char *name; /* without the dashes; of a header, its text */
    const char *alias;
    enum option_type type;
    void *value;
    bool *is_given; /* OPTION_UINT64: set true */
    const char *metavar;
    const char *help;
    const char *const *choices;
    double min, max;
};

/*
 * The entries: `--name METAVAR` is stored in *value, which keeps what it held where the option is
 * not given. help is a sentence and may hold newlines. All strings are borrowed.
 */
struct option_spec option_header(const char *text); /* a line of its own in --help */
struct option_spec option_flag(const char *name, bool *value, const char *help); /* sets it true */
struct option_spec option_string(const char *name, const char **value, const char *metavar,
                                 const char *help); /* borrowed from argv */
struct option_spec option_int(const char *name, int64_t *value, const char *metavar, double min,
                              double max, const char *help);
/* The whole range of *value; *is_given says whether it was set, for there is no number to spare. */
struct option_spec option_uint64(const char *name, uint64_t *value, bool *is_given,
                                 const char *metavar, const char *help);
struct option_spec option_double(const char *name, double *value, const char *metavar, double min,
                                 double max, const char *help);
/* *value is the index in choices, a list that ends with NULL. */
struct option_spec option_choice(const char *name, int *value, const char *metavar,
                                 const char *const *choices, const char *help);
struct option_spec option_repeated(const char *name, struct option_list *value, const char *metavar,
                                   const char *help);
/* The same under another name too; one of a single letter is written "-o". */
struct option_spec option_also(const char *alias, struct option_spec spec);

/* What a program is. */
struct option_usage {
    const char *program;  /* "minisgl-scheduler" */
    const char *synopsis; /* "[options]" or "generate TEXT [options]" */
    const char *summary;  /* what it does, one paragraph */
};

/*
 * Parses argv[1..]. What is no option goes to rest (with all behind
 * a lone "--"); rest NULL refuses it. --help, --version and --list-options print to stdout and
 * set *out_done (the caller exits 0). Errors (STATUS_INVALID) name the option and what it takes;
 * the caller prints them and exits 2.
 */
MUST_CHECK struct status options_parse(int argc, char **argv, const struct option_usage *usage,
                                       const struct option_spec *specs, struct option_list *rest,
                                       bool *out_done);

/* "minisgl-scheduler 0.1.0": the first word of program, and the version of the build. */
void options_print_version(const char *program);

/* Whether text, of so many bytes, may be a slip for name: one or two letters are missing, too many,
 * or others, and most are right. */
bool options_are_near(const char *text, size_t size, const char *name);

void option_list_deinit(struct option_list *list);

enum { EXIT_USAGE = 2 }; /* of a wrong command line, beside EXIT_SUCCESS and EXIT_FAILURE */

/*
 * What parsing, and the caller's own checks behind it, mean for main(): true when it ends here with
 * *out_exit, since help has been printed or something was wrong, which is then said on stderr.
 */
bool options_end_here(const char *program, const struct status *status, bool is_done,
                      int *out_exit);

#endif
