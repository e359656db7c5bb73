/* progress.c - see progress.h. */
#include "common/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

enum { BAR_WIDTH = 30, REDRAW_NS = 100000000 };

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
    if (progress->fd >= 0)
        progress_update(progress, 0);
}

static void draw(const struct progress *progress, uint64_t done)
{
    char bar[BAR_WIDTH + 1];
    char detail[64];
    char line[192];
    double share = progress->total ? (double)done / (double)progress->total : 1.0;

    if (share > 1.0)
        share = 1.0;
    int filled = (int)(share * BAR_WIDTH);
    memset(bar, ' ', BAR_WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[BAR_WIDTH] = '\0';
    if (strcmp(progress->unit, "B") == 0) {
        double seconds = (double)(clock_now_ns() - progress->began_ns) / 1e9 + 1e-6;
        snprintf(detail, sizeof(detail), "%.0f MB/s", (double)done / seconds / 1e6);
    } else {
        snprintf(detail, sizeof(detail), "%llu/%llu %s", (unsigned long long)done,
                 (unsigned long long)progress->total, progress->unit);
    }
    int size = snprintf(line, sizeof(line), "\r\033[K%s [%s] %3.0f %%  %s", progress->title, bar,
                        share * 100, detail);
    if (size > 0 && write(progress->fd, line, (size_t)size) < 0)
        return; /* the terminal is gone: nothing to show it to */
}

void progress_update(struct progress *progress, uint64_t done)
{
    if (progress->fd < 0)
        return;
    int64_t now_ns = clock_now_ns();
    if (progress->shown_ns && now_ns - progress->shown_ns < REDRAW_NS && done < progress->total)
        return;
    progress->shown_ns = now_ns;
    draw(progress, done);
}

void progress_end(struct progress *progress, bool finished)
{
    if (progress->fd < 0)
        return;
    if (finished)
        draw(progress, progress->total);
    const char *end = finished ? "\n" : "\r\033[K";
    if (write(progress->fd, end, strlen(end)) < 0)
        return;
}
