/* test_options.c - parsing of command lines. */
#include "common/options.h"

#include <string.h>

#include "tests/unit/check_main.h"

static const char *const colours[] = {"red", "green", NULL};
static const struct option_usage usage = {"prog", "[options]", "A program."};

struct values {
    bool flag;
    const char *dir;
    int64_t count;
    uint64_t seed;
    bool has_seed;
    double ratio;
    int colour;
    struct option_list stops;
};

static struct status parse(struct values *v, struct option_list *rest, int argc, const char **argv)
{
    const struct option_spec specs[] = {
        option_header("Options"),
        option_flag("flag", &v->flag, "a flag"),
        option_also("directory", option_string("dir", &v->dir, "DIR", "a dir")),
        option_int("count", &v->count, "N", 1, 9, "a count"),
        option_uint64("seed", &v->seed, &v->has_seed, "S", "a seed"),
        option_double("ratio", &v->ratio, "X", 0, 0, "a ratio"),
        option_choice("colour", &v->colour, "C", colours, "a colour"),
        option_repeated("stop", &v->stops, "STR", "strings"),
        {0},
    };
    bool done = false;

    return options_parse(argc, (char **)(size_t)argv, &usage, specs, rest, &done);
}

START_TEST(both_spellings_and_the_rest)
{
    const char *argv[] = {"prog", "text",        "--flag",   "--directory=/x", "--count",
                          "7",    "--ratio=0.5", "--colour", "green",          "--stop",
                          "a",    "--stop=b",    "--",       "--flag"};
    struct values v = {0};
    struct option_list rest = {0};

    struct status status = parse(&v, &rest, (int)(sizeof(argv) / sizeof(argv[0])), argv);
    ck_assert_msg(!status.code, "%s", status.msg);
    ck_assert(v.flag);
    ck_assert_str_eq(v.dir, "/x");
    ck_assert_int_eq((int)v.count, 7);
    ck_assert_double_eq(v.ratio, 0.5);
    ck_assert_int_eq(v.colour, 1);
    ck_assert_int_eq((int)v.stops.num_items, 2);
    ck_assert_int_eq((int)rest.num_items, 2);
    ck_assert_str_eq(rest.items[1], "--flag");
    option_list_deinit(&rest);
    option_list_deinit(&v.stops);
}
END_TEST

START_TEST(errors_name_the_option)
{
    static const char *const bad[][3] = {
        {"--what", NULL, "unknown option"},      {"--count", NULL, "needs a value"},
        {"--count", "10", "not within 1 and 9"}, {"--count", "x", "whole number"},
        {"--colour", "blue", "red, green"},      {"--flag=1", NULL, "takes no value"},
        {"--seed", "-1", "whole number"},        {"--seed", "18446744073709551616", "whole number"},
        {"text", NULL, "unexpected argument"},   {"-flag", NULL, "unknown option"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *argv[] = {"prog", bad[i][0], bad[i][1]};
        struct values v = {0};
        struct status status = parse(&v, NULL, bad[i][1] ? 3 : 2, argv);
        ck_assert_int_eq(status.code, STATUS_INVALID);
        ck_assert_msg(strstr(status.msg, bad[i][2]) != NULL, "%s", status.msg);
    }
}
END_TEST

START_TEST(a_seed_takes_all_of_its_range)
{
    struct values v = {0};
    const char *argv[] = {"prog", "--seed", "18446744073709551615"};

    ck_assert_int_eq(parse(&v, NULL, 1, argv).code, STATUS_OK);
    ck_assert(!v.has_seed);
    ck_assert_int_eq(parse(&v, NULL, 3, argv).code, STATUS_OK);
    ck_assert(v.has_seed && v.seed == UINT64_MAX);
}
END_TEST

START_TEST(alias_of_one_letter_is_short)
{
    const char *out = NULL;
    const struct option_spec specs[] = {
        option_also("o", option_string("output", &out, "FILE", "a file")), {0}};
    const char *argv[] = {"prog", "-o", "x", NULL};
    bool done = false;

    ck_assert_int_eq(options_parse(3, (char **)(size_t)argv, &usage, specs, NULL, &done).code,
                     STATUS_OK);
    ck_assert_str_eq(out, "x");
    argv[1] = "-output";
    ck_assert_int_eq(options_parse(3, (char **)(size_t)argv, &usage, specs, NULL, &done).code,
                     STATUS_INVALID);
}
END_TEST

START_TEST(near_misses_are_told)
{
    static const struct {
        const char *arg, *says;
    } slips[] = {
        {"--cuont", "'--cuont' (did you mean --count?)"},
        {"--counts=3", "(did you mean --count?)"},
        {"--color", "(did you mean --colour?)"},
        {"-seed", "(did you mean --seed?)"},
    };
    static const char *const others[] = {"--what", "--s", "--fl", "--number", "--=", "-"};

    for (size_t i = 0; i < sizeof(slips) / sizeof(slips[0]); i++) {
        const char *argv[] = {"prog", slips[i].arg};
        struct values v = {0};
        struct status status = parse(&v, NULL, 2, argv);
        ck_assert_int_eq(status.code, STATUS_INVALID);
        ck_assert_msg(strstr(status.msg, slips[i].says) != NULL, "%s", status.msg);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const char *argv[] = {"prog", others[i]};
        struct values v = {0};
        struct status status = parse(&v, NULL, 2, argv);
        ck_assert_msg(status.code && !strstr(status.msg, "did you mean"), "%s", status.msg);
    }
}
END_TEST

START_TEST(main_ends_on_help_and_on_errors)
{
    struct status fine = status_ok(), wrong = status_error(STATUS_INVALID, "--x: wrong");
    int exit_code = -1;

    ck_assert(!options_end_here("test", &fine, false, &exit_code));
    ck_assert_int_eq(exit_code, -1);
    ck_assert(options_end_here("test", &fine, true, &exit_code));
    ck_assert_int_eq(exit_code, EXIT_SUCCESS);
    ck_assert(options_end_here("test", &wrong, false, &exit_code));
    ck_assert_int_eq(exit_code, EXIT_USAGE);
}
END_TEST

CHECK_MAIN("options", a_seed_takes_all_of_its_range, alias_of_one_letter_is_short,
           both_spellings_and_the_rest, errors_name_the_option, main_ends_on_help_and_on_errors,
           near_misses_are_told)
