// SPDX-License-Identifier: Apache-2.0
// Deadlines of what a driver may take long for because others use the machine.
#include <time.h>

#include "backends/opencl/opencl.h"

#define STEP INT64_C(2000000000)

static int64_t cpu_time(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool ocl_wait_longer(struct ocl_patience *p)
{
    int64_t now = hr__now(), cpu = cpu_time();
    bool works = !p->looks++ || cpu - p->cpu >= STEP / 100;

    if (!works || now >= p->most)
        return false;
    p->cpu = cpu;
    p->deadline = now + STEP;
    return true;
}
