/* test_log.c - lines on stderr: one for each event, not too many, and none that goes elsewhere. */
#include "common/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/check_main.h"

static int saved_stderr = -1, pipe_fd = -1;

/* From here on stderr is a pipe. */
static void begin_capture(void)
{
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    saved_stderr = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    pipe_fd = ends[0];
}

static const char *end_capture(void)
{
    static char text[8192];

    dup2(saved_stderr, STDERR_FILENO); /* the last writer has gone: the read ends */
    close(saved_stderr);
    size_t size = 0;
    ssize_t n;
    while ((n = read(pipe_fd, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)n;
    text[size] = '\0';
    close(pipe_fd);
    return text;
}

static int count_lines(const char *text)
{
    int num = 0;

    for (; *text; text++)
        num += *text == '\n';
    return num;
}

START_TEST(an_event_is_one_line)
{
    char longest[3000];

    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    log_open("tester");
    begin_capture();
    log_warn("a peer said '%s' uid=%d", "one\nerror: two\r\033[31m", 7);
    log_error("%s", longest);
    const char *text = end_capture();
    ck_assert_int_eq(count_lines(text), 2);
    ck_assert_ptr_nonnull(strstr(text, " warn: a peer said 'one error: two  [31m' uid=7\n"));
    ck_assert_int_eq(strncmp(text, "tester ", 7), 0);
    ck_assert_int_eq(text[strlen(text) - 1], '\n');
}
END_TEST

START_TEST(levels_hold_back)
{
    enum log_level level = LOG_INFO;

    ck_assert(log_level_parse("WARN", &level) && level == LOG_WARN);
    ck_assert(!log_level_parse("loud", &level));
    log_set_level(LOG_WARN);
    begin_capture();
    log_info("not seen");
    log_warn("seen");
    const char *text = end_capture();
    ck_assert_ptr_null(strstr(text, "not seen"));
    ck_assert_int_eq(count_lines(text), 1);
    log_set_level(LOG_INFO);
}
END_TEST

START_TEST(the_environment_names_a_level)
{
    setenv("LOG_LEVEL", "debug", 1);
    log_open("tester");
    ck_assert_int_eq(log_get_level(), LOG_DEBUG);
    setenv("LOG_LEVEL", "nonsense", 1);
    begin_capture();
    log_open("tester");
    const char *text = end_capture();
    ck_assert_int_eq(log_get_level(), LOG_DEBUG);
    ck_assert_int_eq(count_lines(text), 1);
    ck_assert_ptr_nonnull(strstr(text, "LOG_LEVEL takes one of"));
    unsetenv("LOG_LEVEL");
    log_set_level(LOG_INFO);
}
END_TEST

START_TEST(one_line_a_second_and_the_rest_counted)
{
    struct log_limit limit = {0};
    int64_t skipped = -1, start = 5000000000;

    ck_assert(log_limited(&limit, start, &skipped));
    ck_assert_int_eq(skipped, 0);
    for (int i = 0; i < 10; i++)
        ck_assert(!log_limited(&limit, start + 99999999 * i, &skipped));
    ck_assert(log_limited(&limit, start + 1000000000, &skipped));
    ck_assert_int_eq(skipped, 10);
    ck_assert(log_limited(&limit, start + 9000000000, &skipped));
    ck_assert_int_eq(skipped, 0);
}
END_TEST

START_TEST(a_closed_stderr_becomes_nothing_else)
{
    char path[] = "/tmp/minisgl-test-log-XXXXXX";
    int saved = dup(STDERR_FILENO);

    close(STDERR_FILENO);
    log_open("tester");
    int fd = mkstemp(path); /* the next file must not get the number of stderr */
    log_error("into nothing");
    off_t size = lseek(fd, 0, SEEK_END);
    close(fd);
    unlink(path);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ck_assert_int_ne(fd, STDERR_FILENO);
    ck_assert_int_eq(size, 0);
}
END_TEST

CHECK_MAIN("log", an_event_is_one_line, levels_hold_back, the_environment_names_a_level,
           one_line_a_second_and_the_rest_counted, a_closed_stderr_becomes_nothing_else)
