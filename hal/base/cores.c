// SPDX-License-Identifier: Apache-2.0
// How many cores this process may use.
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>

#include "hal/base/base.h"

int hr__usable_cores(void)
{
    cpu_set_t set;
    int n = (int)sysconf(_SC_NPROCESSORS_ONLN),
        quota = hr__quota_cores("/proc/self/cgroup", "/proc/self/mountinfo");

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = CPU_COUNT(&set);
    if (quota && quota < n)
        n = quota;
    return n > 0 ? n : 1;
}
