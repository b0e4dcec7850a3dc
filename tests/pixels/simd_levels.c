// SPDX-License-Identifier: Apache-2.0
#include "simd_levels.h"

#include "testing.h"

const struct simd_level simd_levels[SIMD_LEVELS] = {
    {"c", CPU_FLAG_C},
    {"avx2", CPU_FLAG_C | CPU_FLAG_AVX2},
    {"avx512", CPU_FLAG_C | CPU_FLAG_AVX2 | CPU_FLAG_AVX512},
};

bool simd_level_ops(int i, struct cpu_ops *ops)
{
    static bool said[SIMD_LEVELS];

    cpu_ops_init(ops, simd_levels[i].flags);
    if (!strcmp(ops->name, simd_levels[i].name))
        return true;
    if (!said[i])
        test_not_run(simd_levels[i].name);
    said[i] = true;
    return false;
}
