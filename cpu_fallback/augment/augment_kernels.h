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

#define CPU_AUGMENT_SLOT(slot) __typeof__(*((struct cpu_augment_ops *)0)->slot)
extern CPU_AUGMENT_SLOT(table) cpu_table_c, cpu_table_avx2, cpu_table_avx512,
    cpu_table_neon;
extern CPU_AUGMENT_SLOT(mix_luma) cpu_mix_luma_c, cpu_mix_luma_avx2,
    cpu_mix_luma_avx512, cpu_mix_luma_neon;
extern CPU_AUGMENT_SLOT(luma) cpu_luma_c, cpu_luma_avx2, cpu_luma_avx512,
    cpu_luma_neon;
extern CPU_AUGMENT_SLOT(luma_sum) cpu_luma_sum_c, cpu_luma_sum_avx2,
    cpu_luma_sum_avx512, cpu_luma_sum_neon;
extern CPU_AUGMENT_SLOT(hue) cpu_hue_c, cpu_hue_avx2, cpu_hue_avx512,
    cpu_hue_neon;
extern CPU_AUGMENT_SLOT(range) cpu_range_c, cpu_range_avx2;
extern CPU_AUGMENT_SLOT(mix_smooth) cpu_mix_smooth_c, cpu_mix_smooth_avx2,
    cpu_mix_smooth_avx512, cpu_mix_smooth_neon;
extern CPU_AUGMENT_SLOT(kernel3) cpu_kernel3_c, cpu_kernel3_avx2,
    cpu_kernel3_avx512, cpu_kernel3_neon;
extern CPU_AUGMENT_SLOT(box_near) cpu_box_near_c, cpu_box_near_avx2,
    cpu_box_near_avx512, cpu_box_near_neon;
extern CPU_AUGMENT_SLOT(box_x) cpu_box_x_c, cpu_box_x_avx2;
extern CPU_AUGMENT_SLOT(box_y) cpu_box_y_c, cpu_box_y_avx2;
extern CPU_AUGMENT_SLOT(pick) cpu_pick_c;
extern CPU_AUGMENT_SLOT(warp) cpu_warp_c, cpu_warp_avx2, cpu_warp_avx512;

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
