// SPDX-License-Identifier: Apache-2.0
// Shared by hue_avx2.c and hue_avx512.c: what hue.c says, for LANES pixels at a
// time. Quotients are whole or at least 1 / 65025 away from whole numbers, and
// their operands fit 24 bits, so a float32 division that rounds right, and then
// truncation, is the integer division.
//
// In the words of pixels_avx2.h; each of them defines words_of().
#ifndef CPU_HUE_SIMD_H
#define CPU_HUE_SIMD_H

struct hsv {
    VEC h, s, v;
};

CPU_INLINE VEC times255(VEC x)
{
    return OP(sub_epi32)(OP(slli_epi32)(x, 8), x);
}

CPU_INLINE FLT divided(VEC a, VEC b)
{
    return OP(div_ps)(OP(cvtepi32_ps)(a), OP(cvtepi32_ps)(b));
}

// Hue times 6 d, d = v - least.
CPU_INLINE VEC sixths_of(struct rgb p, VEC v, VEC d, VEC d6)
{
    VEC d2 = OP(add_epi32)(d, d), d4 = OP(add_epi32)(d2, d2);
    VEC n = choose(equal(p.g, v), OP(add_epi32)(d2, OP(sub_epi32)(p.b, p.r)),
                   OP(add_epi32)(d4, OP(sub_epi32)(p.r, p.g)));

    n = choose(equal(p.r, v), OP(sub_epi32)(p.g, p.b), n);
    return OP(add_epi32)(n, only(negative(n), d6));
}

CPU_INLINE struct hsv to_hsv(struct rgb p)
{
    static const int short_of[8] = {(int)0xfffffffe, 0,          0x11000000,
                                    0x00000111,      0x222aaaaa, 0x23232222,
                                    0x00022222,      0};
    VEC v = OP(max_epi32)(p.r, OP(max_epi32)(p.g, p.b));
    VEC least = OP(min_epi32)(p.r, OP(min_epi32)(p.g, p.b));
    VEC d = OP(sub_epi32)(v, least), d2 = OP(add_epi32)(d, d);
    VEC d6 = OP(add_epi32)(d2, OP(add_epi32)(d2, d2));
    MASK grey = equal(d, all(0));
    FLT q = divided(times255(sixths_of(p, v, d, d6)), choose(grey, all(1), d6));
    VEC h = OP(cvttps_epi32)(q), s, bits;

    bits = OP(srlv_epi32)(words_of(short_of, OP(srli_epi32)(h, 5)),
                          SI(and)(h, all(31)));
    h = OP(sub_epi32)(h, choose(differ(q, OP(cvtepi32_ps)(h)), all(0),
                                SI(and)(bits, all(1))));
    s = OP(cvttps_epi32)(divided(times255(d), choose(grey, all(1), v)));
    return (struct hsv){choose(grey, all(0), h), s, v};
}

// (x + 127) / 255, of products of two bytes.
CPU_INLINE VEC over255(VEC x)
{
    VEC y = OP(add_epi32)(x, all(127));
    VEC z = OP(add_epi32)(y, OP(srli_epi32)(y, 8));

    return OP(srli_epi32)(OP(add_epi32)(z, all(1)), 8);
}

CPU_INLINE struct rgb to_rgb(struct hsv p)
{
    VEC h6 = OP(mullo_epi32)(p.h, all(6));
    VEC sextant = OP(srli_epi32)(
        OP(add_epi32)(OP(add_epi32)(h6, all(1)), OP(srli_epi32)(h6, 8)), 8);
    VEC part = OP(sub_epi32)(h6, times255(sextant));
    VEC ramp = choose(negative(OP(slli_epi32)(sextant, 31)), part,
                      OP(sub_epi32)(all(255), part));
    VEC least = over255(OP(madd_epi16)(p.v, OP(sub_epi32)(all(255), p.s)));
    VEC less = OP(add_epi32)(OP(mullo_epi32)(p.v, OP(madd_epi16)(p.s, ramp)),
                             all(32512));
    MASK is[7];

    ramp = OP(sub_epi32)(p.v, OP(cvttps_epi32)(divided(less, all(65025))));
    for (int i = 0; i < 7; i++)
        is[i] = equal(sextant, all(i));
    is[0] = either(is[0], is[6]);
    // A channel: v in two sextants, the ramp in two others, else the least.
#define CHANNEL(v0, v1, r0, r1)         \
    choose(either(is[v0], is[v1]), p.v, \
           choose(either(is[r0], is[r1]), ramp, least))
    return (struct rgb){.r = CHANNEL(0, 5, 1, 4),
                        .g = CHANNEL(1, 2, 0, 3),
                        .b = CHANNEL(3, 4, 2, 5)};
#undef CHANNEL
}

void SISTER(cpu_hue)(uint8_t *dst, const uint8_t *src, int w, int shift)
{
    for (int x = 0; x < w; x += LANES, dst += 3 * LANES, src += 3 * LANES) {
        struct hsv p = to_hsv(load_rgb(src, w - x));

        p.h = SI(and)(OP(add_epi32)(p.h, all(shift)), all(255));
        put_rgb(dst, to_rgb(p), w - x);
    }
}

#endif
