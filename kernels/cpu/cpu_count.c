/* cpu_count.c - see cpu_count.h. */
#include "kernels/cpu/cpu_count.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 1024 };

static int32_t affinity_count(void)
{
    cpu_set_t mask;

    if (sched_getaffinity(0, sizeof(mask), &mask) != 0)
        return 1;
    int count = CPU_COUNT(&mask);
    return count > 0 ? count : 1;
}

/* The first line of a file, without its newline. */
static bool read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return false;
    bool ok = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (ok)
        line[strcspn(line, "\n")] = '\0';
    return ok;
}

static int32_t quota_count(long long quota, long long period, int32_t limit)
{
    if (quota <= 0 || period <= 0)
        return limit;
    long long count = (quota + period - 1) / period;
    return count < limit ? (int32_t)count : limit;
}

/* The quota of one group's folder, of either version. */
static int32_t folder_count(const char *folder, int32_t limit)
{
    char path[PATH_SIZE + 32], line[64];
    long long quota = -1, period = -1;

    snprintf(path, sizeof(path), "%s/cpu.max", folder);
    if (read_line(path, line, sizeof(line))) { /* "200000 100000" or "max 100000" */
        char *end = line;
        quota = strtoll(line, &end, 10);
        return end == line ? limit : quota_count(quota, strtoll(end, NULL, 10), limit);
    }
    snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
    if (read_line(path, line, sizeof(line)))
        quota = strtoll(line, NULL, 10);
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
    if (read_line(path, line, sizeof(line)))
        period = strtoll(line, NULL, 10);
    return quota_count(quota, period, limit);
}

/* The group at mount + group and all above it. A container often sees its own group as the root. */
static int32_t group_count(const char *mount, const char *group, int32_t limit)
{
    char path[PATH_SIZE];
    size_t mount_len = strlen(mount);

    if (snprintf(path, sizeof(path), "%s%s", mount, group) >= (int)sizeof(path))
        return limit;
    for (;;) {
        limit = folder_count(path, limit);
        char *slash = strrchr(path + mount_len, '/');
        if (!slash)
            return limit;
        *slash = '\0';
    }
}

/* Whether the comma-separated list of a version 1 line names the cpu controller. */
static bool has_cpu(const char *controllers)
{
    while (*controllers) {
        size_t len = strcspn(controllers, ",");
        if (len == 3 && memcmp(controllers, "cpu", 3) == 0)
            return true;
        controllers += len;
        controllers += *controllers == ',';
    }
    return false;
}

int32_t cpu_count(const char *cgroup_file, const char *cgroup_root)
{
    int32_t limit = affinity_count();
    char line[PATH_SIZE], mount[PATH_SIZE];
    FILE *file = fopen(cgroup_file, "re");

    if (!file)
        return limit;
    while (fgets(line, sizeof(line), file)) { /* "0::/group" or "4:cpu,cpuacct:/group" */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        if (*controllers == '\0') {
            limit = group_count(cgroup_root, group, limit);
        } else if (has_cpu(controllers)) {
            if (snprintf(mount, sizeof(mount), "%s/%s", cgroup_root, controllers) <
                (int)sizeof(mount))
                limit = group_count(mount, group, limit);
            if (snprintf(mount, sizeof(mount), "%s/cpu", cgroup_root) < (int)sizeof(mount))
                limit = group_count(mount, group, limit);
        }
    }
    fclose(file);
    return limit;
}
