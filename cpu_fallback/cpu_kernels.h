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

// The function type of a slot.
#define CPU_SLOT(slot) __typeof__(*((struct cpu_ops *)0)->slot)
extern CPU_SLOT(resample_h) cpu_resample_h_c, cpu_resample_h_avx2,
    cpu_resample_h_avx512, cpu_resample_h_neon;
extern CPU_SLOT(pack_h) cpu_pack_h_avx2, cpu_pack_h_avx512, cpu_pack_h_neon;
extern CPU_SLOT(resample_v) cpu_resample_v_c, cpu_resample_v_avx2,
    cpu_resample_v_avx512, cpu_resample_v_neon;
extern CPU_SLOT(store) cpu_store_c, cpu_store_avx2, cpu_store_avx512,
    cpu_store_neon;
extern CPU_SLOT(cmyk_to_rgb) cpu_cmyk_to_rgb_c, cpu_cmyk_to_rgb_neon;
extern CPU_SLOT(rgb_to_gray) cpu_rgb_to_gray_c, cpu_rgb_to_gray_neon;
extern CPU_SLOT(gather) cpu_gather_c, cpu_gather_avx2, cpu_gather_neon;
extern CPU_SLOT(replicate) cpu_replicate_c, cpu_replicate_avx2,
    cpu_replicate_neon;
extern CPU_SLOT(upsample_h2v1) cpu_upsample_h2v1_c, cpu_upsample_h2v1_avx2,
    cpu_upsample_h2v1_avx512, cpu_upsample_h2v1_neon;
extern CPU_SLOT(upsample_h1v2) cpu_upsample_h1v2_c, cpu_upsample_h1v2_avx2,
    cpu_upsample_h1v2_avx512, cpu_upsample_h1v2_neon;
extern CPU_SLOT(upsample_h2v2) cpu_upsample_h2v2_c, cpu_upsample_h2v2_avx2,
    cpu_upsample_h2v2_avx512, cpu_upsample_h2v2_neon;
extern CPU_SLOT(ycc_to_rgb) cpu_ycc_to_rgb_c, cpu_ycc_to_rgb_avx2,
    cpu_ycc_to_rgb_avx512, cpu_ycc_to_rgb_neon;
extern CPU_SLOT(join_rgb) cpu_join_rgb_c, cpu_join_rgb_avx2, cpu_join_rgb_neon;
extern CPU_SLOT(reconstruct) cpu_reconstruct_c, cpu_reconstruct_avx2,
    cpu_reconstruct_avx512, cpu_reconstruct_neon;
extern CPU_SLOT(pack_line) cpu_pack_line_c, cpu_pack_line_avx2,
    cpu_pack_line_avx512, cpu_pack_line_neon;
extern CPU_SLOT(unpack_line) cpu_unpack_line_c, cpu_unpack_line_avx2,
    cpu_unpack_line_avx512, cpu_unpack_line_neon;

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
