// SPDX-License-Identifier: Apache-2.0
// Private to cpu_fallback/augment: the functions that fill struct
// cpu_augment_ops, and the arithmetic that several of them share.
#ifndef CPU_AUGMENT_KERNELS_H
#define CPU_AUGMENT_KERNELS_H

#include <string.h>

#include "cpu_fallback/augment/augment.h"

// The compiler makes AVX2's sister of most functions from the readable C, as a
// second unit with another SISTER().
#ifndef SISTER
#define SISTER(name) name##_c
#endif

// As CPU_SLOTS() of cpu_kernels.h.
// clang-format off
#define CPU_AUGMENT_SLOTS(X, ops) \
    X(ops, table,         1, 1, 1, 1) \
    X(ops, mix_luma,      1, 1, 1, 1) \
    X(ops, luma,          1, 1, 1, 1) \
    X(ops, luma_sum,      1, 1, 1, 1) \
    X(ops, hue,           1, 1, 1, 1) \
    X(ops, range,         1, 1, 0, 0) \
    X(ops, mix_smooth,    1, 1, 1, 1) \
    X(ops, kernel3,       1, 1, 1, 1) \
    X(ops, box_near,      1, 1, 1, 1) \
    X(ops, box_x,         1, 1, 0, 0) \
    X(ops, box_y,         1, 1, 0, 0) \
    X(ops, pick,          1, 0, 0, 0) \
    X(ops, warp,          1, 1, 1, 0)
// clang-format on

#define CPU_AUGMENT_SLOT(slot) __typeof__(*((struct cpu_augment_ops *)0)->slot)
#define CPU_AUGMENT_DECLARE(ops, slot, ...)                          \
    extern CPU_AUGMENT_SLOT(slot) cpu_##slot##_c, cpu_##slot##_avx2, \
        cpu_##slot##_avx512, cpu_##slot##_neon;
CPU_AUGMENT_SLOTS(CPU_AUGMENT_DECLARE, )

// Makes all of a warp that is HR__WARP_SUMS: rows begin with the sums of those
// above.
void cpu_warp_sums(const struct cpu_pixels *dst, const struct cpu_pixels *src,
                   const struct hr__warp *warp);
// Makes one pixel of a warp that computes in doubles.
void cpu_warp_pixel_c(uint8_t *dst, const struct cpu_pixels *src, int x, int y,
                      const struct hr__warp *warp);

// Pillow src/libImaging/Convert.c rgb2l.
static inline uint8_t cpu_luma(const uint8_t *rgb)
{
    uint32_t sum = 19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2];

    return (uint8_t)((sum + 32768u) >> 16);
}

// Pillow src/libImaging/Blend.c: float32, each operation rounded by itself (the
// build forbids contraction). For factors in 0 .. 1 the clip does nothing.
static inline uint8_t cpu_blend(uint8_t a, uint8_t b, float factor)
{
    float x = (float)a + factor * (float)(b - a);

    x = x < 0 ? 0 : x;
    x = x > 255 ? 255 : x;
    return (uint8_t)(int)x;
}

#endif
