// SPDX-License-Identifier: Apache-2.0
// How many cores this process may use.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hal/base/base.h"

// Cores that the cgroup's quota pays for; 0 = no quota. Version 2 has one file
// with "quota period", version 1 two.
static int quota_cores(void)
{
    long long quota = -1, period = 0;
    FILE *f;

    if ((f = fopen("/sys/fs/cgroup/cpu.max", "re"))) {
        if (fscanf(f, "%lld %lld", &quota, &period) != 2)
            quota = -1;
        fclose(f);
    } else if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re"))) {
        if (fscanf(f, "%lld", &quota) != 1)
            quota = -1;
        fclose(f);
        if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re"))) {
            if (fscanf(f, "%lld", &period) != 1)
                period = 0;
            fclose(f);
        }
    }
    if (quota <= 0 || period <= 0)
        return 0;
    return (int)((quota + period - 1) / period);
}

int hr__usable_cores(void)
{
    cpu_set_t set;
    int n = (int)sysconf(_SC_NPROCESSORS_ONLN), quota = quota_cores();

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = CPU_COUNT(&set);
    if (quota && quota < n)
        n = quota;
    return n > 0 ? n : 1;
}

void hr__processor_name(char *text, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(text, size, "%s", "");
    while (f && fgets(line, sizeof(line), f)) {
        const char *at = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !at)
            continue;
        snprintf(text, size, "%.*s", (int)strcspn(at, "\n"), at);
        break;
    }
    if (f)
        fclose(f);
}
