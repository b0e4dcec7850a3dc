// SPDX-License-Identifier: Apache-2.0
// The environment variables that devices and hr_pack() both obey.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"

unsigned cpu_mask_from_environment(void)
{
    const char *name = secure_getenv("HEADRACE_CPU");

    if (!name || !*name)
        return ~0u;
    for (int i = 0; i < CPU_LEVELS; i++)
        if (!strcmp(name, cpu_levels[i].name))
            return cpu_levels[i].flags;
    return 0;
}
