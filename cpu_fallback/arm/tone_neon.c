// SPDX-License-Identifier: Apache-2.0
// Functions of one pixel, with NEON. Rows may be written to behind their ends,
// so only a sum has to look where they end. (The compiler vectorizes the range
// of the channels from the readable C.)
#if defined(__AARCH64EL__)

#include "cpu_fallback/arm/pixels_neon.h"

// ---- Tables -----------------------------------------------------------------

static void one_table(uint8_t *dst, const uint8_t *src, int n,
                      const uint8_t table[256])
{
    const struct cpu_lut t = cpu_lut_load(table);

    for (int i = 0; i < n; i += 16)
        vst1q_u8(dst + i, cpu_look_up(&t, vld1q_u8(src + i)));
}

// 16 pixels `times` times: there are no registers for three tables, so each is
// loaded for all of them.
CPU_INLINE void three_tables(uint8_t *dst, const uint8_t *src, int times,
                             const struct hr__values *table)
{
    uint8x16x3_t v[2];

    CPU_UNROLL for (int i = 0; i < times; i++) v[i] = vld3q_u8(src + 48 * i);
    CPU_UNROLL for (int c = 0; c < 3; c++)
    {
        const struct cpu_lut t = cpu_lut_load(table->of[c]);

        CPU_UNROLL for (int i = 0; i < times; i++) v[i].val[c] =
            cpu_look_up(&t, v[i].val[c]);
    }
    CPU_UNROLL for (int i = 0; i < times; i++) vst3q_u8(dst + 48 * i, v[i]);
}

void cpu_table_neon(uint8_t *dst, const uint8_t *src, int w, int channels,
                    const struct hr__values *table)
{
    if (channels == 1 || (!memcmp(table->of[0], table->of[1], 256) &&
                          !memcmp(table->of[0], table->of[2], 256))) {
        one_table(dst, src, w * channels, table->of[0]);
        return;
    }
    for (; w >= 32; w -= 32, dst += 96, src += 96)
        three_tables(dst, src, 2, table);
    for (; w > 0; w -= 16, dst += 48, src += 48)
        three_tables(dst, src, 1, table);
}

// ---- Luma -------------------------------------------------------------------

void cpu_mix_luma_neon(uint8_t *dst, const uint8_t *src, int w, float factor)
{
    for (int x = 0; x < w; x += 8, dst += 24, src += 24) {
        uint8x8x3_t v = vld3_u8(src);
        uint16x8_t wide = cpu_luma_of(v);
        uint8x8_t luma = vmovn_u16(wide);
        struct cpu_floats first = cpu_floats_of(vreinterpretq_s16_u16(wide));

        CPU_UNROLL for (int c = 0; c < 3; c++)
            v.val[c] = cpu_blend_of(first, luma, v.val[c], factor);
        vst3_u8(dst, v);
    }
}

void cpu_luma_neon(uint8_t *dst, const uint8_t *src, int w)
{
    for (int x = 0; x < w; x += 8, dst += 24, src += 24) {
        uint8x8_t luma = vmovn_u16(cpu_luma_of(vld3_u8(src)));

        vst3_u8(dst, ((uint8x8x3_t){{luma, luma, luma}}));
    }
}

uint32_t cpu_luma_sum_neon(const uint8_t *src, int w)
{
    const uint16x8_t places = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32x4_t sum = vdupq_n_u32(0);
    uint16x8_t last;

    for (; w >= 8; w -= 8, src += 24)
        sum = vpadalq_u16(sum, cpu_luma_of(vld3_u8(src)));
    last = vandq_u16(cpu_luma_of(vld3_u8(src)),
                     vcltq_u16(places, vdupq_n_u16((uint16_t)w)));
    return vaddvq_u32(vpadalq_u16(sum, last));
}

#endif
