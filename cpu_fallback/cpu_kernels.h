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

void cpu_resample_h_c(uint8_t *const *dst, const uint8_t *const *src, int rows,
                      int channels, const struct cpu_axis *axis);
void cpu_resample_v_c(uint8_t *dst, const uint8_t *const *rows,
                      const int32_t *w, int n, size_t bytes);
void cpu_store_c(void *const dst[3], const uint8_t *src, int w, int channels,
                 bool planar, enum cpu_type type,
                 const struct cpu_store_table *table);
void cpu_cmyk_to_rgb_c(uint8_t *dst, const uint8_t *src, int w);
void cpu_rgb_to_gray_c(uint8_t *dst, const uint8_t *src, int w);
void cpu_gather_c(uint8_t *dst, const uint8_t *src, int n, int step);
void cpu_replicate_c(uint8_t *dst, const uint8_t *src, int n, int times);
void cpu_upsample_h2v1_c(uint8_t *dst, const uint8_t *src, int n);
void cpu_upsample_h1v2_c(uint8_t *dst, const uint8_t *near, const uint8_t *far,
                         int n, bool lower);
void cpu_upsample_h2v2_c(uint8_t *dst, const uint8_t *near, const uint8_t *far,
                         int n);
void cpu_ycc_to_rgb_c(uint8_t *dst, const uint8_t *y, const uint8_t *cb,
                      const uint8_t *cr, int w);
void cpu_join_rgb_c(uint8_t *dst, const uint8_t *r, const uint8_t *g,
                    const uint8_t *b, int w);
void cpu_pack_blocks_c(struct cpu_coef_sink *sink, struct cpu_coef_block *out,
                       const int16_t (*blocks)[64], int n);

bool cpu_pack_h_avx2(struct cpu_axis *axis, int channels, struct cpu_arena *a);
void cpu_resample_h_avx2(uint8_t *const *dst, const uint8_t *const *src,
                         int rows, int channels, const struct cpu_axis *axis);
void cpu_resample_v_avx2(uint8_t *dst, const uint8_t *const *rows,
                         const int32_t *w, int n, size_t bytes);
void cpu_store_avx2(void *const dst[3], const uint8_t *src, int w, int channels,
                    bool planar, enum cpu_type type,
                    const struct cpu_store_table *table);
void cpu_gather_avx2(uint8_t *dst, const uint8_t *src, int n, int step);
void cpu_replicate_avx2(uint8_t *dst, const uint8_t *src, int n, int times);
void cpu_upsample_h2v1_avx2(uint8_t *dst, const uint8_t *src, int n);
void cpu_upsample_h1v2_avx2(uint8_t *dst, const uint8_t *near,
                            const uint8_t *far, int n, bool lower);
void cpu_upsample_h2v2_avx2(uint8_t *dst, const uint8_t *near,
                            const uint8_t *far, int n);
void cpu_ycc_to_rgb_avx2(uint8_t *dst, const uint8_t *y, const uint8_t *cb,
                         const uint8_t *cr, int w);
void cpu_join_rgb_avx2(uint8_t *dst, const uint8_t *r, const uint8_t *g,
                       const uint8_t *b, int w);
void cpu_pack_blocks_avx2(struct cpu_coef_sink *sink,
                          struct cpu_coef_block *out,
                          const int16_t (*blocks)[64], int n);

bool cpu_pack_h_avx512(struct cpu_axis *axis, int channels,
                       struct cpu_arena *a);
void cpu_resample_h_avx512(uint8_t *const *dst, const uint8_t *const *src,
                           int rows, int channels, const struct cpu_axis *axis);
void cpu_resample_v_avx512(uint8_t *dst, const uint8_t *const *rows,
                           const int32_t *w, int n, size_t bytes);
void cpu_store_avx512(void *const dst[3], const uint8_t *src, int w,
                      int channels, bool planar, enum cpu_type type,
                      const struct cpu_store_table *table);
void cpu_upsample_h2v1_avx512(uint8_t *dst, const uint8_t *src, int n);
void cpu_upsample_h1v2_avx512(uint8_t *dst, const uint8_t *near,
                              const uint8_t *far, int n, bool lower);
void cpu_upsample_h2v2_avx512(uint8_t *dst, const uint8_t *near,
                              const uint8_t *far, int n);
void cpu_ycc_to_rgb_avx512(uint8_t *dst, const uint8_t *y, const uint8_t *cb,
                           const uint8_t *cr, int w);

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
