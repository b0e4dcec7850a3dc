// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/cpu_ops.h"

#include "cpu_fallback/augment/augment_kernels.h"
#include "cpu_fallback/cpu_kernels.h"
#include "cpu_fallback/jpeg/lanes.h"

const struct cpu_level cpu_levels[CPU_LEVELS] = {
    {"c", CPU_FLAG_C},
    {"avx2", CPU_FLAG_C | CPU_FLAG_AVX2},
    {"avx512", CPU_FLAG_C | CPU_FLAG_AVX2 | CPU_FLAG_AVX512},
    {"neon", CPU_FLAG_C | CPU_FLAG_NEON},
};

unsigned cpu_detect(void)
{
    unsigned flags = CPU_FLAG_C;
#if defined(__x86_64__)
    // These builtins also ask whether the system saves the wide registers.
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        flags |= CPU_FLAG_AVX2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vbmi") &&
        __builtin_cpu_supports("avx512vnni"))
        flags |= CPU_FLAG_AVX512;
#elif defined(__AARCH64EL__)
    flags |= CPU_FLAG_NEON;
#endif
    return flags;
}

// Take over the slots that a level has, of both tables.
#define TAKE0(ops, slot, level)
#define TAKE1(ops, slot, level) (ops).slot = cpu_##slot##_##level;
#define TAKE_ALL(X) CPU_SLOTS(X, *ops) CPU_AUGMENT_SLOTS(X, ops->augment)

static void init_c(struct cpu_ops *ops)
{
    *ops = (struct cpu_ops){.name = "c"};
#define X(ops, slot, c_, avx2_, avx512_, neon_) TAKE##c_(ops, slot, c)
    TAKE_ALL(X)
#undef X
}

#if defined(__x86_64__)
static void init_avx2(struct cpu_ops *ops)
{
    ops->name = "avx2";
#define X(ops, slot, c_, avx2_, avx512_, neon_) TAKE##avx2_(ops, slot, avx2)
    TAKE_ALL(X)
#undef X
    if (__builtin_cpu_supports("bmi2")) {
        ops->pack_line = cpu_pack_line_avx2;
        ops->unpack_line = cpu_unpack_line_avx2;
    }
}

static void init_avx512(struct cpu_ops *ops)
{
    ops->name = "avx512";
#define X(ops, slot, c_, avx2_, avx512_, neon_) TAKE##avx512_(ops, slot, avx512)
    TAKE_ALL(X)
#undef X
    // Processors have VBMI without VBMI2 (Cannon Lake).
    if (__builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("avx512vbmi2")) {
        ops->pack_line = cpu_pack_line_avx512;
        ops->unpack_line = cpu_unpack_line_avx512;
        ops->lanes = &cpu_lane_ops_avx512;
    }
}
#endif

#if defined(__AARCH64EL__)
static void init_neon(struct cpu_ops *ops)
{
    ops->name = "neon";
#define X(ops, slot, c_, avx2_, avx512_, neon_) TAKE##neon_(ops, slot, neon)
    TAKE_ALL(X)
#undef X
}
#endif

void cpu_ops_init(struct cpu_ops *ops, unsigned flags)
{
    flags &= cpu_detect();
    init_c(ops);
#if defined(__x86_64__)
    if (flags & CPU_FLAG_AVX2)
        init_avx2(ops);
    if (flags & CPU_FLAG_AVX512)
        init_avx512(ops);
#elif defined(__AARCH64EL__)
    if (flags & CPU_FLAG_NEON)
        init_neon(ops);
#endif
}
