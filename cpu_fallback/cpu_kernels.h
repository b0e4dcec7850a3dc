// SPDX-License-Identifier: Apache-2.0
// Private to cpu_fallback: the functions that fill the slots of struct
// cpu_ops, so that one file can name another's. Contracts are in cpu_ops.h.
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <string.h>

#include "cpu_fallback/cpu_ops.h"

// For loops over the registers of one step, and for the functions that hold
// them: in memory they would cost more than the step.
#if defined(__clang__)
#define CPU_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CPU_UNROLL _Pragma("GCC unroll 16")
#endif
#define CPU_INLINE static inline __attribute__((always_inline))

#define CPU_WEIGHT_BITS 22
#define CPU_WEIGHT_ONE (1 << CPU_WEIGHT_BITS)
#define CPU_WEIGHT_HALF (1 << (CPU_WEIGHT_BITS - 1))

// The slots, and whether there is a function for them: of readable C, AVX2,
// AVX-512, NEON. (cpu_ops.c takes those of packed lines that need more.)
// clang-format off
#define CPU_SLOTS(X, ops) \
    X(ops, resample_h,    1, 1, 1, 1) \
    X(ops, pack_h,        0, 1, 1, 1) \
    X(ops, resample_v,    1, 1, 1, 1) \
    X(ops, store,         1, 1, 1, 1) \
    X(ops, cmyk_to_rgb,   1, 0, 0, 1) \
    X(ops, rgb_to_gray,   1, 0, 0, 1) \
    X(ops, gather,        1, 1, 0, 1) \
    X(ops, replicate,     1, 1, 0, 1) \
    X(ops, upsample_h2v1, 1, 1, 1, 1) \
    X(ops, upsample_h1v2, 1, 1, 1, 1) \
    X(ops, upsample_h2v2, 1, 1, 1, 1) \
    X(ops, ycc_to_rgb,    1, 1, 1, 1) \
    X(ops, join_rgb,      1, 1, 0, 1) \
    X(ops, reconstruct,   1, 1, 1, 1) \
    X(ops, pack_line,     1, 0, 0, 1) \
    X(ops, unpack_line,   1, 0, 0, 1)
// clang-format on

// The function type of a slot.
#define CPU_SLOT(slot) __typeof__(*((struct cpu_ops *)0)->slot)
#define CPU_DECLARE(ops, slot, ...)                          \
    extern CPU_SLOT(slot) cpu_##slot##_c, cpu_##slot##_avx2, \
        cpu_##slot##_avx512, cpu_##slot##_neon;
CPU_SLOTS(CPU_DECLARE, )

// Memory that lies `next` bytes behind `bytes` bytes will be written soon. (All
// lines at once wait for each other; a few between stores do not.)
CPU_INLINE void cpu_expect(const void *at, size_t next, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const uint8_t *)at + next + i, 1);
}

// The same of a whole row, as of store(). (Inlined, for gcc takes a function
// that does no more than that for one that does nothing.)
CPU_INLINE void cpu_expect_row(void *const dst[3], size_t next, int w,
                               int channels, bool planar, enum hr_dtype type)
{
    size_t bytes = (size_t)w << (type == HR_F32 ? 2 : type == HR_F16 ? 1 : 0);

    for (int c = 0; next && c < (planar ? channels : 1); c++)
        cpu_expect(dst[c], next, planar ? bytes : bytes * (size_t)channels);
}

// The horizontal pass of an identity axis. dst may be src.
static inline void cpu_copy_rows(uint8_t *const *dst, const uint8_t *const *src,
                                 int rows, int channels,
                                 const struct cpu_axis *axis)
{
    for (int r = 0; r < rows; r++)
        memmove(dst[r], src[r] + (size_t)axis->lo[0] * channels,
                (size_t)axis->out * channels);
}

// Every output is one source sample as it is: nearest, mirrored identity.
static inline bool cpu_axis_selects(const struct cpu_axis *axis)
{
    if (axis->taps != 1)
        return false;
    for (int i = 0; i < axis->out; i++)
        if (axis->w[(size_t)i * axis->stride] != CPU_WEIGHT_ONE)
            return false;
    return true;
}

#endif
