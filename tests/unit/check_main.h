/*
 * check_main.h - the main() of a Check program with one suite. Include it once, behind the tests:
 *
 *     CHECK_MAIN("page_pool", take_is_all_or_none, give_returns_pages)
 */
#ifndef TESTS_UNIT_CHECK_MAIN_H
#define TESTS_UNIT_CHECK_MAIN_H

#include <check.h>
#include <stdlib.h>

static int check_run(const char *name, const TTest *const *tests, size_t num_tests)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 300);
    for (size_t i = 0; i < num_tests; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define CHECK_MAIN(name, ...)                                                                      \
    int main(void)                                                                                 \
    {                                                                                              \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
        return check_run(name, tests, sizeof(tests) / sizeof(tests[0]));                           \
    }

#endif
