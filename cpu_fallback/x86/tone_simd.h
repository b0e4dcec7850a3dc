// SPDX-License-Identifier: Apache-2.0
// Shared by tone_avx2.c and tone_avx512.c, in the words of pixels_avx2.h.
#ifndef CPU_TONE_SIMD_H
#define CPU_TONE_SIMD_H

void SISTER(cpu_mix_luma)(uint8_t *dst, const uint8_t *src, int w, float factor)
{
    const FLT f = OP(set1_ps)(factor);

    for (int x = 0; x < w; x += LANES, dst += 3 * LANES, src += 3 * LANES) {
        struct rgb p = load_rgb(src, w - x);
        VEC luma = luma_of(p);

        put_rgb(dst,
                (struct rgb){.r = blend_of(luma, p.r, f),
                             .g = blend_of(luma, p.g, f),
                             .b = blend_of(luma, p.b, f)},
                w - x);
    }
}

void SISTER(cpu_luma)(uint8_t *dst, const uint8_t *src, int w)
{
    for (int x = 0; x < w; x += LANES, dst += 3 * LANES, src += 3 * LANES) {
        VEC luma = luma_of(load_rgb(src, w - x));

        put_rgb(dst, (struct rgb){.r = luma, .g = luma, .b = luma}, w - x);
    }
}

#endif
