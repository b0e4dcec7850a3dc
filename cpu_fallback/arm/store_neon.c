// SPDX-License-Identifier: Apache-2.0
// Entries of more than a byte are loaded one by one: their tables are too big
// for registers. Tables of bytes lie in 16 of them, in four look-ups of 64.
#if defined(__AARCH64EL__)

#include "cpu_fallback/arm/pixels_neon.h"
#include "cpu_fallback/pixel/store_rows.h"

// Writes one channel to a plane. 16 values are loaded before any is stored, so
// that the compiler pairs the stores.
CPU_INLINE void plane_f32(float *dst, size_t next, const uint8_t *src, int in,
                          int w, const float *table)
{
    int x = 0;

    for (; x + 16 <= w; x += 16, src += 16 * in, dst += 16) {
        float v[16];

        cpu_expect(dst, next, sizeof(v));
        CPU_UNROLL for (int i = 0; i < 16; i++) v[i] = table[src[i * in]];
        CPU_UNROLL for (int i = 0; i < 16; i++) dst[i] = v[i];
    }
    for (; x < w; x++, src += in)
        *dst++ = table[*src];
}

static void gray_u8(uint8_t *dst, const uint8_t *src, int w,
                    const uint8_t *table)
{
    const struct cpu_lut t = cpu_lut_load(table);
    int x = 0;

    for (; x + 16 <= w; x += 16)
        vst1q_u8(dst + x, cpu_look_up(&t, vld1q_u8(src + x)));
    for (; x < w; x++)
        dst[x] = table[src[x]];
}

// table NULL: bytes as they are.
CPU_INLINE void rgb_u8(void *const dst[3], const uint8_t *src, int w,
                       bool planar, const uint8_t (*table)[256])
{
    uint8_t *const first = dst[0];
    int x = 0;

    for (; x + 16 <= w; x += 16) {
        uint8x16x3_t v = vld3q_u8(src + 3 * (size_t)x);

        CPU_UNROLL for (int c = 0; c < 3; c++)
        {
            if (table) {
                const struct cpu_lut t = cpu_lut_load(table[c]);

                v.val[c] = cpu_look_up(&t, v.val[c]);
            }
            if (planar)
                vst1q_u8((uint8_t *)dst[c] + x, v.val[c]);
        }
        if (!planar)
            vst3q_u8(first + 3 * (size_t)x, v);
    }
    for (; x < w; x++)
        for (int c = 0; c < 3; c++) {
            uint8_t from = src[3 * (size_t)x + (size_t)c];

            from = table ? table[c][from] : from;
            if (planar)
                ((uint8_t *)dst[c])[x] = from;
            else
                first[3 * (size_t)x + (size_t)c] = from;
        }
}

static void store_u8(void *const dst[3], const uint8_t *src, int w,
                     int channels, bool planar, const struct hr__table *table)
{
    if (table->u8_identity && (channels == 1 || !planar))
        memmove(dst[0], src, (size_t)w * (size_t)channels);
    else if (channels == 1)
        gray_u8(dst[0], src, w, table->u8[0]);
    else if (!planar)
        rgb_u8(dst, src, w, false, table->u8);
    else if (table->u8_identity)
        rgb_u8(dst, src, w, true, NULL);
    else
        rgb_u8(dst, src, w, true, table->u8);
}

void cpu_store_neon(void *const dst[3], size_t next, const uint8_t *src, int w,
                    int channels, bool planar, enum hr_dtype type,
                    const struct hr__table *table)
{
    if (type != HR_F32 || (channels == 3 && !planar))
        cpu_expect_row(dst, next, w, channels, planar, type);
    if (type == HR_U8)
        store_u8(dst, src, w, channels, planar, table);
    else if (type == HR_F32 && channels == 1)
        plane_f32(dst[0], next, src, 1, w, table->f32[0]);
    else if (type == HR_F32 && planar)
        for (int c = 0; c < 3; c++)
            plane_f32(dst[c], next, src + c, 3, w, table->f32[c]);
    else if (channels == 1)
        channel_row(dst[0], next, 0, 1, src, 1, w, type, 0, table);
    else if (planar)
        rgb_planes(dst, next, src, w, type, table);
    else
        rgb_pixels(dst[0], src, w, type, table);
}

#endif
