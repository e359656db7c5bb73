/* options.c - see options.h. */
#include "common/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct option_spec option_header(const char *text)
{
    return (struct option_spec){.name = text, .type = OPTION_HEADER};
}

struct option_spec option_flag(const char *name, bool *value, const char *help)
{
    return (struct option_spec){.name = name, .type = OPTION_FLAG, .value = value, .help = help};
}

struct option_spec option_string(const char *name, const char **value, const char *metavar,
                                 const char *help)
{
    return (struct option_spec){
        .name = name, .type = OPTION_STRING, .value = value, .metavar = metavar, .help = help};
}

struct option_spec option_int(const char *name, int64_t *value, const char *metavar, double min,
                              double max, const char *help)
{
    return (struct option_spec){.name = name,
                                .type = OPTION_INT,
                                .value = value,
                                .metavar = metavar,
                                .help = help,
                                .min = min,
                                .max = max};
}

struct option_spec option_uint64(const char *name, uint64_t *value, bool *is_given,
                                 const char *metavar, const char *help)
{
    return (struct option_spec){.name = name,
                                .type = OPTION_UINT64,
                                .value = value,
                                .is_given = is_given,
                                .metavar = metavar,
                                .help = help};
}

struct option_spec option_double(const char *name, double *value, const char *metavar, double min,
                                 double max, const char *help)
{
    return (struct option_spec){.name = name,
                                .type = OPTION_DOUBLE,
                                .value = value,
                                .metavar = metavar,
                                .help = help,
                                .min = min,
                                .max = max};
}

struct option_spec option_choice(const char *name, int *value, const char *metavar,
                                 const char *const *choices, const char *help)
{
    return (struct option_spec){.name = name,
                                .type = OPTION_CHOICE,
                                .value = value,
                                .metavar = metavar,
                                .help = help,
                                .choices = choices};
}

struct option_spec option_repeated(const char *name, struct option_list *value, const char *metavar,
                                   const char *help)
{
    return (struct option_spec){
        .name = name, .type = OPTION_LIST, .value = value, .metavar = metavar, .help = help};
}

struct option_spec option_also(const char *alias, struct option_spec spec)
{
    spec.alias = alias;
    return spec;
}

static bool name_is(const char *name, const char *text, size_t size)
{
    return name && strlen(name) == size && memcmp(name, text, size) == 0;
}

static const struct option_spec *find(const struct option_spec *specs, const char *text,
                                      size_t size)
{
    for (; specs->name; specs++) {
        if (specs->type == OPTION_HEADER)
            continue;
        if (name_is(specs->name, text, size) || name_is(specs->alias, text, size))
            return specs;
    }
    return NULL;
}

/* Levenshtein's distance, row by row: row[j] is from a beginning of text to j letters of name. */
bool options_are_near(const char *text, size_t size, const char *name)
{
    size_t row[64], length = strlen(name);

    if (length >= sizeof(row) / sizeof(row[0]))
        return false;
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 0; i < size; i++) {
        size_t before = row[0]++; /* of one letter less on both sides */
        for (size_t j = 1; j <= length; j++) {
            size_t changed = before + (text[i] != name[j - 1]);
            size_t longer = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            before = row[j];
            row[j] = changed < longer ? changed : longer;
        }
    }
    return row[length] <= 2 && 2 * row[length] < length;
}

static struct status unknown_option(const char *arg, const struct option_spec *specs)
{
    const char *name = arg + strspn(arg, "-");

    for (; specs->name; specs++)
        if (specs->type != OPTION_HEADER && options_are_near(name, strcspn(name, "="), specs->name))
            return status_error(STATUS_INVALID, "unknown option '%.40s' (did you mean --%s?)", arg,
                                specs->name);
    return status_error(STATUS_INVALID, "unknown option '%s'", arg);
}

static void print_help(const struct option_usage *usage, const struct option_spec *specs)
{
    printf("usage: %s %s\n\n%s\n", usage->program, usage->synopsis, usage->summary);
    if (specs->type != OPTION_HEADER)
        printf("\n");
    for (; specs->name; specs++) {
        char left[96];
        if (specs->type == OPTION_HEADER) {
            printf("\n%s:\n", specs->name);
            continue;
        }
        bool has_short = specs->alias && strlen(specs->alias) == 1;
        snprintf(left, sizeof(left), "  %s%s%s--%s%s%s", has_short ? "-" : "",
                 has_short ? specs->alias : "", has_short ? ", " : "", specs->name,
                 specs->metavar ? " " : "", specs->metavar ? specs->metavar : "");
        printf("%-32s", left);
        if (strlen(left) >= 32)
            printf("\n%-32s", "");
        for (const char *line = specs->help; line;) {
            const char *end = strchr(line, '\n');
            printf("%.*s\n", end ? (int)(end - line) : (int)strlen(line), line);
            line = end ? end + 1 : NULL;
            if (line)
                printf("%-32s", "");
        }
    }
    printf("\n  --help                        print this and exit\n"
           "  --version                     print name and version and exit\n");
}

void options_print_version(const char *program)
{
    printf("%.*s %s\n", (int)strcspn(program, " "), program, MINISGL_VERSION);
}

static void print_list(const struct option_spec *specs)
{
    for (; specs->name; specs++) {
        if (specs->type == OPTION_HEADER)
            continue;
        const char *kind = specs->type == OPTION_FLAG ? "flag" : "value";
        printf("%s %s\n", specs->name, kind);
        if (specs->alias)
            printf("%s %s\n", specs->alias, kind);
    }
}

static struct status list_add(struct option_list *list, const char *item)
{
    const char **items = realloc(list->items, (list->num_items + 1) * sizeof(*items));

    if (!items)
        return status_error(STATUS_NO_MEMORY, "no memory for the command line");
    list->items = items;
    list->items[list->num_items++] = item;
    return status_ok();
}

static struct status set_number(const struct option_spec *spec, const char *text)
{
    bool bounded = spec->min < spec->max;
    bool ok;
    char *end;
    double number;

    errno = 0;
    if (spec->type == OPTION_INT) {
        long long integer = strtoll(text, &end, 10);
        number = (double)integer;
        ok = end != text && *end == '\0' && errno == 0;
        if (ok && !(bounded && (number < spec->min || number > spec->max)))
            *(int64_t *)spec->value = integer;
    } else {
        number = strtod(text, &end);
        ok = end != text && *end == '\0' && !isnan(number);
        if (ok && !(bounded && (number < spec->min || number > spec->max)))
            *(double *)spec->value = number;
    }
    if (!ok)
        return status_error(STATUS_INVALID, "--%s takes %s, not '%s'", spec->name,
                            spec->type == OPTION_INT ? "a whole number" : "a number", text);
    if (bounded && (number < spec->min || number > spec->max))
        return status_error(STATUS_INVALID, "--%s %s is not within %.10g and %.10g", spec->name,
                            text, spec->min, spec->max);
    return status_ok();
}

static struct status set_uint64(const struct option_spec *spec, const char *text)
{
    char *end;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno) /* strtoull takes blanks and signs */
        return status_error(STATUS_INVALID,
                            "--%s takes a whole number from 0 to 18446744073709551615, not '%s'",
                            spec->name, text);
    *(uint64_t *)spec->value = number;
    *spec->is_given = true;
    return status_ok();
}

static struct status set_choice(const struct option_spec *spec, const char *text)
{
    char all[96] = "";
    size_t size = 0;

    for (int i = 0; spec->choices[i]; i++) {
        if (strcmp(spec->choices[i], text) == 0) {
            *(int *)spec->value = i;
            return status_ok();
        }
        if (size < sizeof(all) - 1)
            size += (size_t)snprintf(all + size, sizeof(all) - size, "%s%s", i ? ", " : "",
                                     spec->choices[i]);
    }
    return status_error(STATUS_INVALID, "--%s takes one of %s, not '%.20s'", spec->name, all, text);
}

static struct status set_value(const struct option_spec *spec, const char *text)
{
    switch (spec->type) {
    case OPTION_STRING:
        *(const char **)spec->value = text;
        return status_ok();
    case OPTION_INT:
    case OPTION_DOUBLE:
        return set_number(spec, text);
    case OPTION_UINT64:
        return set_uint64(spec, text);
    case OPTION_CHOICE:
        return set_choice(spec, text);
    case OPTION_LIST:
        return list_add(spec->value, text);
    case OPTION_FLAG:
    case OPTION_HEADER:
        break;
    }
    return status_ok();
}

struct status options_parse(int argc, char **argv, const struct option_usage *usage,
                            const struct option_spec *specs, struct option_list *rest,
                            bool *out_done)
{
    bool only_rest = false;
    struct status status = status_ok();

    for (int i = 1; i < argc && !status.code; i++) {
        const char *arg = argv[i];
        if (only_rest || arg[0] != '-' || arg[1] == '\0') {
            if (!rest)
                return status_error(STATUS_INVALID, "unexpected argument '%s'", arg);
            status = list_add(rest, arg);
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_rest = true;
            continue;
        }
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            print_help(usage, specs);
            *out_done = true;
            return status_ok();
        }
        if (strcmp(arg, "--version") == 0) {
            options_print_version(usage->program);
            *out_done = true;
            return status_ok();
        }
        if (strcmp(arg, "--list-options") == 0) {
            print_list(specs);
            *out_done = true;
            return status_ok();
        }
        const char *name = arg[1] == '-' ? arg + 2 : arg + 1;
        const char *equals = strchr(name, '=');
        size_t size = equals ? (size_t)(equals - name) : strlen(name);
        bool is_short = arg[1] != '-'; /* "-o": an alias of one letter */
        const struct option_spec *spec =
            !is_short || strlen(name) == 1 ? find(specs, name, size) : NULL;
        if (!spec)
            return unknown_option(arg, specs);
        if (spec->type == OPTION_FLAG) {
            if (equals)
                return status_error(STATUS_INVALID, "--%s takes no value", spec->name);
            *(bool *)spec->value = true;
            continue;
        }
        if (!equals && ++i == argc)
            return status_error(STATUS_INVALID, "--%s needs a value (%s)", spec->name,
                                spec->metavar ? spec->metavar : "value");
        status = set_value(spec, equals ? equals + 1 : argv[i]);
    }
    return status;
}

void option_list_deinit(struct option_list *list)
{
    free(list->items);
    *list = (struct option_list){0};
}

bool options_end_here(const char *program, const struct status *status, bool is_done, int *out_exit)
{
    if (!status->code && !is_done)
        return false;
    if (status->code)
        fprintf(stderr, "%s: %s (try --help)\n", program, status->msg);
    *out_exit = status->code ? EXIT_USAGE : EXIT_SUCCESS;
    return true;
}
