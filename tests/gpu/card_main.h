/*
 * card_main.h - main() of a test program that runs the engine on a card: skipped (77), not passed,
 * where there is none.
 */
#ifndef TESTS_GPU_CARD_MAIN_H
#define TESTS_GPU_CARD_MAIN_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/ops.h"

enum { EXIT_SKIPPED = 77 };

/* Runs what add() puts into the one case, in this process: CUDA does not survive a fork. */
static inline int card_main(const char *name, void (*add)(TCase *tcase))
{
    struct backend backend;
    struct device *device = NULL;
    struct status status = backend_open("cuda", &backend);

    if (status.code == STATUS_OK)
        status = backend.device->open(&(struct device_args){0}, &device);
    if (status.code) {
        fprintf(stderr, "%s: skipped: %s\n", name, status.msg);
        return status.code == STATUS_UNSUPPORTED ? EXIT_SKIPPED : EXIT_FAILURE;
    }
    backend.device->close(&device);
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 900);
    add(tcase);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
