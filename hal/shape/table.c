// SPDX-License-Identifier: Apache-2.0
// The store stage as a table: what each byte of each channel becomes. Made
// with exactly the float32 operations of the reference, one rounding each
// (torchvision/transforms/functional.py to_tensor and normalize), so engines
// never compute a float and cannot differ.
#include <math.h>
#include <string.h>

#include "hal/shape/shape.h"

uint16_t hr__f16_from_f32(float x)
{
    uint32_t bits, sign, mant, half;
    int exp, shift;

    memcpy(&bits, &x, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    exp = (int)(bits >> 23 & 0xff) - 127 + 15;
    mant = bits & 0x7fffff;
    if (exp == 0xff - 127 + 15)
        return (uint16_t)(sign | 0x7c00 | (mant ? 0x200 | mant >> 13 : 0));
    if (exp >= 31)
        return (uint16_t)(sign | 0x7c00);
    if (exp < -10)
        return (uint16_t)sign;
    // Subnormal halves keep fewer bits of the mantissa with its hidden one.
    if (exp <= 0) {
        mant |= 0x800000;
        shift = 14 - exp;
        exp = 0;
    } else {
        shift = 13;
    }
    half = (uint32_t)exp << 10 | mant >> shift;
    mant &= (1u << shift) - 1;
    if (mant > 1u << (shift - 1) || (mant == 1u << (shift - 1) && (half & 1)))
        half++;  // may carry into the exponent: that is the right rounding
    return (uint16_t)(sign | half);
}

static uint8_t u8_from_f32(float x)
{
    if (!(x > 0))
        return 0;
    return x >= 255 ? 255 : (uint8_t)rintf(x);
}

static float entry(const struct hr_normalize *n, bool no_std, int c, int x)
{
    float v = (float)x;

    if (!n)
        return v;
    if (n->table)
        return n->table[c * 256 + x];
    v = n->arith == HR_ARITH_MUL ? v * (1.0f / 255.0f) : v / 255.0f;
    v = v - n->mean[c];
    return no_std ? v : v / n->std[c];
}

static void put_bytes(struct hr__table *t, int c, int x)
{
    uint32_t bits;

    memcpy(&bits, &t->f32[c][x], sizeof(bits));
    for (int i = 0; i < 4; i++)
        t->f32_bytes[c][i][x] = (uint8_t)(bits >> 8 * i);
}

void hr__table_build(struct hr__table *out, const struct hr_normalize *n,
                     const struct hr__values *values, int channels,
                     enum hr_dtype dtype)
{
    bool no_std = n && n->std[0] == 0 && n->std[1] == 0 && n->std[2] == 0;

    out->u8_identity = dtype == HR_U8;
    for (int c = 0; c < channels; c++)
        for (int x = 0; x < 256; x++) {
            float v = entry(n, no_std, c, values ? values->of[c][x] : x);

            switch (dtype) {
            case HR_F32:
                out->f32[c][x] = v;
                put_bytes(out, c, x);
                break;
            case HR_F16:
                out->f16[c][x] = hr__f16_from_f32(v);
                break;
            case HR_U8:
                out->u8[c][x] = u8_from_f32(v);
                if (out->u8[c][x] != x)
                    out->u8_identity = false;
                break;
            }
        }
}

void hr__table_through(struct hr__table *out, const struct hr__table *table,
                       const struct hr__values *values, int channels,
                       enum hr_dtype dtype)
{
    out->u8_identity = false;
    for (int c = 0; c < channels; c++)
        for (int x = 0; x < 256; x++) {
            int to = values->of[c][x];

            switch (dtype) {
            case HR_F32:
                out->f32[c][x] = table->f32[c][to];
                for (int i = 0; i < 4; i++)
                    out->f32_bytes[c][i][x] = table->f32_bytes[c][i][to];
                break;
            case HR_F16:
                out->f16[c][x] = table->f16[c][to];
                break;
            case HR_U8:
                out->u8[c][x] = table->u8[c][to];
                break;
            }
        }
}
