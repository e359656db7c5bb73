/* test_progress.c - drawn on a terminal, within its columns, silent elsewhere. */
#include "common/progress.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/unit/check_main.h"

static const int64_t long_ns = 1000000000;

static int terminal, side;
static char seen[4096];

static void lend(int fd)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", fd);
    ck_assert_int_eq(setenv("MINISGL_PROGRESS_FD", text, 1), 0);
}

static void open_terminal(unsigned short columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = columns};

    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(terminal, 0);
    ck_assert_int_eq(grantpt(terminal), 0);
    ck_assert_int_eq(unlockpt(terminal), 0);
    side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(side, 0);
    ck_assert_int_eq(ioctl(side, TIOCSWINSZ, &size), 0);
    lend(side);
}

static void close_terminal(void)
{
    close(side);
    close(terminal);
}

/* All that the terminal was sent; an end mark tells that it is all. */
static void read_terminal(void)
{
    size_t size = 0;

    ck_assert_int_eq((int)write(side, "@", 1), 1);
    do { /* a terminal hands out what it has so far */
        ssize_t count = read(terminal, seen + size, sizeof(seen) - 1 - size);
        ck_assert_int_gt((int)count, 0);
        size += (size_t)count;
        seen[size] = '\0';
    } while (seen[size - 1] != '@');
    seen[size - 1] = '\0';
}

static int count_of(const char *what)
{
    int count = 0;

    for (const char *at = strstr(seen, what); at; at = strstr(at + 1, what))
        count++;
    return count;
}

/* As if it had begun long ago, and been drawn long ago. */
static void let_time_pass(struct progress *progress)
{
    progress->began_ns -= long_ns;
    if (progress->shown_ns)
        progress->shown_ns -= long_ns;
}

START_TEST(a_terminal_sees_the_bar)
{
    struct progress progress;

    open_terminal(80);
    progress_begin(&progress, "capturing", "graphs", 4);
    let_time_pass(&progress);
    progress_update(&progress, 2);
    progress_update(&progress, 3); /* too soon */
    progress_update(&progress, 4);
    progress_end(&progress, true);
    read_terminal();
    ck_assert_ptr_nonnull(
        strstr(seen, "capturing [###############               ]  50 %  2/4 graphs"));
    ck_assert_ptr_null(strstr(seen, "3/4"));
    ck_assert_int_eq(count_of("100 %  4/4 graphs\r\n"), 1);
    ck_assert_int_eq(count_of("100 %"), 1);
    close_terminal();
}
END_TEST

START_TEST(what_is_soon_done_is_not_shown)
{
    struct progress progress;

    open_terminal(80);
    progress_begin(&progress, "loading", "B", 10);
    progress_update(&progress, 5);
    progress_update(&progress, 12);
    progress_end(&progress, true);
    read_terminal();
    ck_assert_str_eq(seen, "");
    close_terminal();
}
END_TEST

START_TEST(bytes_are_shown_as_mib_and_never_more_than_all)
{
    struct progress progress;

    open_terminal(80);
    progress_begin(&progress, "loading", "B", (uint64_t)100 << 20);
    let_time_pass(&progress);
    progress_update(&progress, (uint64_t)25 << 20);
    let_time_pass(&progress);
    progress_update(&progress, (uint64_t)101 << 20);
    progress_end(&progress, true);
    read_terminal();
    ck_assert_ptr_nonnull(strstr(seen, " 25 %  25/100 MiB"));
    ck_assert_ptr_nonnull(strstr(seen, "100 %  100/100 MiB"));
    ck_assert_ptr_null(strstr(seen, "101"));
    close_terminal();
}
END_TEST

/* No line is wider than the terminal is. */
START_TEST(the_line_fits_the_columns)
{
    for (unsigned short columns = 1; columns <= 120; columns++) {
        struct progress progress;
        open_terminal(columns);
        progress_begin(&progress, "loading weights", "requests", 1000);
        for (uint64_t done = 0; done <= 1000; done += 250) {
            let_time_pass(&progress);
            progress_update(&progress, done);
        }
        progress_end(&progress, true);
        read_terminal();
        for (char *line = strtok(seen, "\r\n"); line; line = strtok(NULL, "\r\n")) {
            ck_assert_int_eq(strncmp(line, "\033[K", 3), 0);
            ck_assert_int_lt((int)strlen(line + 3), columns);
            if (columns == 40)
                ck_assert_ptr_null(strchr(line + 3, '[')); /* no room for bar and figures */
        }
        close_terminal();
    }
}
END_TEST

START_TEST(a_hidden_line_comes_back)
{
    struct progress progress;

    open_terminal(80);
    progress_begin(&progress, "batch", "requests", 4);
    progress_hide(&progress); /* nothing there: nothing is sent */
    let_time_pass(&progress);
    progress_update(&progress, 1);
    progress_hide(&progress);
    progress_hide(&progress);
    ck_assert_int_eq((int)write(side, "an answer\n", 10), 10);
    let_time_pass(&progress);
    progress_update(&progress, 2);
    progress_end(&progress, false);
    read_terminal();
    ck_assert_ptr_nonnull(strstr(seen, "1/4 requests\r\033[Kan answer\r\n\r\033[Kbatch ["));
    ck_assert_ptr_nonnull(strstr(seen, "2/4 requests\r\033[K"));
    close_terminal();
}
END_TEST

START_TEST(a_pipe_sees_nothing)
{
    int ends[2];
    char got[16];

    ck_assert_int_eq(pipe(ends), 0);
    lend(ends[1]);
    struct progress progress;
    progress_begin(&progress, "loading", "B", 10);
    progress.began_ns -= long_ns;
    progress_update(&progress, 5);
    progress_hide(&progress);
    progress_end(&progress, true);
    close(ends[1]);
    ck_assert_int_eq((int)read(ends[0], got, sizeof(got)), 0);
    close(ends[0]);
}
END_TEST

CHECK_MAIN("progress", a_terminal_sees_the_bar, what_is_soon_done_is_not_shown,
           bytes_are_shown_as_mib_and_never_more_than_all, the_line_fits_the_columns,
           a_hidden_line_comes_back, a_pipe_sees_nothing)
