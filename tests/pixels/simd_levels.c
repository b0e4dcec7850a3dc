// SPDX-License-Identifier: Apache-2.0
#include "simd_levels.h"

#include "testing.h"

bool simd_level_ops(int i, struct cpu_ops *ops)
{
    static bool said[CPU_LEVELS];

    if (cpu_levels[i].flags & ~(unsigned)CPU_FLAGS_BUILT)
        return false;
    cpu_ops_init(ops, cpu_levels[i].flags);
    if (!strcmp(ops->name, cpu_levels[i].name))
        return true;
    if (!said[i])
        test_not_run(cpu_levels[i].name);
    said[i] = true;
    return false;
}
