/* check_status.h - statuses in Check: the message shows when one is not what it should be. */
#ifndef TESTS_UNIT_CHECK_STATUS_H
#define TESTS_UNIT_CHECK_STATUS_H

#include <check.h>

#include "common/status.h"

#define ck_assert_ok(expression)                                                                   \
    do {                                                                                           \
        struct status ck_status = (expression);                                                    \
        ck_assert_msg(ck_status.code == STATUS_OK, "%s: %s", #expression, ck_status.msg);          \
    } while (0)

/* The code, and that the message names `text`. */
#define ck_assert_fails(expression, expected, text)                                                \
    do {                                                                                           \
        struct status ck_status = (expression);                                                    \
        ck_assert_msg(ck_status.code == (expected), "%s: %s: %s", #expression,                     \
                      status_name(ck_status.code), ck_status.msg);                                 \
        ck_assert_msg(strstr(ck_status.msg, text) != NULL, "'%s' does not name '%s'",              \
                      ck_status.msg, text);                                                        \
    } while (0)

#endif
