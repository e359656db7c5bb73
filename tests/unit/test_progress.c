/* test_progress.c - drawn on a terminal, silent elsewhere. */
#include "common/progress.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/check_main.h"

static void lend(int fd)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", fd);
    ck_assert_int_eq(setenv("MINISGL_PROGRESS_FD", text, 1), 0);
}

START_TEST(a_terminal_sees_the_bar)
{
    char seen[1024];
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);

    ck_assert_int_ge(terminal, 0);
    ck_assert_int_eq(grantpt(terminal), 0);
    ck_assert_int_eq(unlockpt(terminal), 0);
    int side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(side, 0);
    lend(side);
    struct progress progress;
    progress_begin(&progress, "capturing", "graphs", 4);
    progress_update(&progress, 2);
    progress_end(&progress, true);
    size_t size = 0;
    do { /* a terminal hands out what it has so far */
        ssize_t count = read(terminal, seen + size, sizeof(seen) - 1 - size);
        ck_assert_int_gt((int)count, 0);
        size += (size_t)count;
        seen[size] = '\0';
    } while (!strstr(seen, "100 %  4/4 graphs"));
    ck_assert_ptr_nonnull(strstr(seen, "capturing ["));
    ck_assert_ptr_nonnull(strstr(seen, "100 %  4/4 graphs"));
    close(side);
    close(terminal);
}
END_TEST

START_TEST(a_pipe_sees_nothing)
{
    int ends[2];
    char seen[16];

    ck_assert_int_eq(pipe(ends), 0);
    lend(ends[1]);
    struct progress progress;
    progress_begin(&progress, "loading", "B", 10);
    progress_update(&progress, 10);
    progress_end(&progress, true);
    close(ends[1]);
    ck_assert_int_eq((int)read(ends[0], seen, sizeof(seen)), 0);
    close(ends[0]);
}
END_TEST

CHECK_MAIN("progress", a_terminal_sees_the_bar, a_pipe_sees_nothing)
