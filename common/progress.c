/* progress.c - see progress.h. */
#include "common/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"

enum { BAR_WIDTH = 30, MIN_BAR_WIDTH = 6, DEFAULT_COLUMNS = 80, MAX_LINE = 192 };

static const int64_t redraw_ns = 100000000, delay_ns = 200000000;

static int find_terminal(void)
{
    const char *lent = getenv("MINISGL_PROGRESS_FD");
    int fd = STDERR_FILENO;

    if (lent && *lent) {
        char *end;
        long number = strtol(lent, &end, 10);
        if (*end == '\0' && number >= 0 && number < 1024)
            fd = (int)number;
    }
    return isatty(fd) ? fd : -1;
}

void progress_begin(struct progress *progress, const char *title, const char *unit, uint64_t total)
{
    *progress = (struct progress){.title = title,
                                  .unit = unit,
                                  .total = total,
                                  .began_ns = clock_now_ns(),
                                  .fd = find_terminal()};
}

static void put(const struct progress *progress, const char *text, size_t size)
{
    if (write(progress->fd, text, size) < 0)
        return; /* the terminal is gone: nothing to show it to */
}

/* The last column stays free: in it some terminals begin the next line already. */
static int usable_columns(int fd)
{
    struct winsize size = {0};

    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return DEFAULT_COLUMNS - 1;
    return size.ws_col < MAX_LINE / 2 ? size.ws_col - 1 : MAX_LINE / 2;
}

static void format_detail(const struct progress *progress, uint64_t done, char *out, size_t size)
{
    if (strcmp(progress->unit, "B") == 0)
        snprintf(out, size, "%.0f/%.0f MiB", (double)done / (1 << 20),
                 (double)progress->total / (1 << 20));
    else
        snprintf(out, size, "%llu/%llu %s", (unsigned long long)done,
                 (unsigned long long)progress->total, progress->unit);
}

static void draw(struct progress *progress, uint64_t done)
{
    char bar[BAR_WIDTH + 1], detail[64];
    char text[MAX_LINE], line[MAX_LINE + 8];
    int columns = usable_columns(progress->fd);
    double share = progress->total ? (double)done / (double)progress->total : 1.0;

    format_detail(progress, done, detail, sizeof(detail));
    /* "title [bar] 100 %  detail": what is no bar takes 11 columns beside the words. */
    int width = columns - 11 - (int)strlen(progress->title) - (int)strlen(detail);
    if (width > BAR_WIDTH)
        width = BAR_WIDTH;
    if (width >= MIN_BAR_WIDTH) {
        int filled = (int)(share * width);
        memset(bar, ' ', (size_t)width);
        memset(bar, '#', (size_t)filled);
        bar[width] = '\0';
        snprintf(text, sizeof(text), "%s [%s] %3.0f %%  %s", progress->title, bar, share * 100,
                 detail);
    } else {
        snprintf(text, sizeof(text), "%s %3.0f %%", progress->title, share * 100);
    }
    int size = snprintf(line, sizeof(line), "\r\033[K%.*s", columns, text);
    put(progress, line, (size_t)size);
    progress->is_visible = true;
}

void progress_update(struct progress *progress, uint64_t done)
{
    if (progress->fd < 0 || done >= progress->total)
        return;
    int64_t now_ns = clock_now_ns();
    if (now_ns - progress->began_ns < delay_ns)
        return;
    if (progress->is_visible && now_ns - progress->shown_ns < redraw_ns)
        return;
    progress->shown_ns = now_ns;
    draw(progress, done);
}

void progress_hide(struct progress *progress)
{
    static const char wipe[] = "\r\033[K";

    if (progress->is_visible)
        put(progress, wipe, sizeof(wipe) - 1);
    progress->is_visible = false;
}

void progress_end(struct progress *progress, bool finished)
{
    if (!finished || progress->shown_ns == 0) {
        progress_hide(progress);
        return;
    }
    draw(progress, progress->total);
    put(progress, "\n", 1);
    progress->is_visible = false;
}
