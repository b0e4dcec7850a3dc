// SPDX-License-Identifier: Apache-2.0
// Private to sisters of store() without a look-up wide enough: entries are
// loaded one by one as in store.c, but eight pixels in a row, and small entries
// are joined to fewer stores.
#ifndef CPU_STORE_ROWS_H
#define CPU_STORE_ROWS_H

#include "cpu_fallback/cpu_kernels.h"

#define UNROLL 8

// ---- look-up of one channel; in and out are the distances of its samples ----

CPU_INLINE void channel_f32(float *dst, size_t next, int out,
                            const uint8_t *src, int in, int w,
                            const float *table)
{
    int x = 0;
    for (; x + UNROLL <= w; x += UNROLL) {
        if (out == 1)
            cpu_expect(dst, next, sizeof(*dst) * UNROLL);
        CPU_UNROLL
        for (int i = 0; i < UNROLL; i++)
            dst[i * out] = table[src[i * in]];
        dst += UNROLL * out;
        src += UNROLL * in;
    }
    for (; x < w; x++, dst += out, src += in)
        *dst = table[*src];
}

CPU_INLINE void channel_f16(uint16_t *dst, int out, const uint8_t *src, int in,
                            int w, const uint16_t *table)
{
    int x = 0;
    for (; x + UNROLL <= w; x += UNROLL) {
        CPU_UNROLL
        for (int i = 0; i < UNROLL; i += 2) {
            uint32_t a = table[src[i * in]], b = table[src[(i + 1) * in]];
            uint32_t ab = a | b << 16;
            if (out == 1) {
                memcpy(dst + i, &ab, 4);
            } else {
                dst[i * out] = (uint16_t)a;
                dst[(i + 1) * out] = (uint16_t)b;
            }
        }
        dst += UNROLL * out;
        src += UNROLL * in;
    }
    for (; x < w; x++, dst += out, src += in)
        *dst = table[*src];
}

CPU_INLINE void channel_u8(uint8_t *dst, int out, const uint8_t *src, int in,
                           int w, const uint8_t *table)
{
    int x = 0;
    for (; x + UNROLL <= w; x += UNROLL) {
        uint64_t all = 0;
        CPU_UNROLL
        for (int i = 0; i < UNROLL; i++) {
            uint64_t entry = table[src[i * in]];
            if (out == 1)
                all |= entry << 8 * i;
            else
                dst[i * out] = (uint8_t)entry;
        }
        if (out == 1)
            memcpy(dst, &all, 8);
        dst += UNROLL * out;
        src += UNROLL * in;
    }
    for (; x < w; x++, dst += out, src += in)
        *dst = table[*src];
}

// (If nothing is next, it is this row's memory, which is written anyway.)
CPU_INLINE void channel_row(void *dst, size_t next, int first, int out,
                            const uint8_t *src, int in, int w,
                            enum hr_dtype type, int c,
                            const struct hr__table *table)
{
    switch (type) {
    case HR_F32:
        channel_f32((float *)dst + first, next, out, src, in, w, table->f32[c]);
        break;
    case HR_F16:
        channel_f16((uint16_t *)dst + first, out, src, in, w, table->f16[c]);
        break;
    case HR_U8:
        channel_u8((uint8_t *)dst + first, out, src, in, w, table->u8[c]);
        break;
    }
}

static inline void rgb_planes(void *const dst[3], size_t next,
                              const uint8_t *src, int w, enum hr_dtype type,
                              const struct hr__table *table)
{
    for (int c = 0; c < 3; c++)
        channel_row(dst[c], next, 0, 1, src + c, 3, w, type, c, table);
}

static inline void rgb_pixels(void *dst, const uint8_t *src, int w,
                              enum hr_dtype type, const struct hr__table *table)
{
    for (int c = 0; c < 3; c++)
        channel_row(dst, 0, c, 3, src + c, 3, w, type, c, table);
}

#endif
