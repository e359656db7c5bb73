/*
 * cpu_count.h - how many CPUs this process may use: the affinity mask, cut by cgroup quotas.
 */
#ifndef KERNELS_CPU_CPU_COUNT_H
#define KERNELS_CPU_CPU_COUNT_H

#include <stdint.h>

/*
 * At least 1. cgroup_file is /proc/self/cgroup, cgroup_root /sys/fs/cgroup (tests give others).
 * Version 2 (cpu.max) and version 1 (cpu.cfs_quota_us) are read, of the process's own group and of
 * all groups above it. Part of a CPU counts as one.
 */
int32_t cpu_count(const char *cgroup_file, const char *cgroup_root);

#endif
