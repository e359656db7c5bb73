/*
 * check_main.h - the main() of a Check program with one suite. Include it once, behind the tests:
 *
 *     CHECK_MAIN("page_pool", take_is_all_or_none, give_returns_pages)
 *
 * or, for tests with a fixture or in a loop, call one of the functions in a main() of their own.
 */
#ifndef TESTS_UNIT_CHECK_MAIN_H
#define TESTS_UNIT_CHECK_MAIN_H

#include <check.h>
#include <stdlib.h>

/* Takes the case over, and returns the exit code. Its time is for hangs alone. */
static inline int check_run_case(const char *name, TCase *tcase)
{
    Suite *suite = suite_create(name);

    tcase_set_timeout(tcase, 1200);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* before and after: called so of each test; NULL: nothing is. */
static inline int check_run(const char *name, void (*before)(void), void (*after)(void),
                            const TTest *const *tests, size_t num_tests)
{
    TCase *tcase = tcase_create(name);

    tcase_add_checked_fixture(tcase, before, after);
    for (size_t i = 0; i < num_tests; i++)
        tcase_add_test(tcase, tests[i]);
    return check_run_case(name, tcase);
}

#define CHECK_MAIN(name, ...)                                                                      \
    int main(void)                                                                                 \
    {                                                                                              \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
        return check_run(name, NULL, NULL, tests, sizeof(tests) / sizeof(tests[0]));               \
    }

#endif
