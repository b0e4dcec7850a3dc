// SPDX-License-Identifier: Apache-2.0
// Shared by warp_avx2.c and warp_avx512.c: filters of LANES pixels of RGB at a
// time. Coordinates are doubles as in warp.c. Weights and sums of the filters
// are float32; where such a result is so close to a whole number that doubles
// could come to another byte, warp.c makes the pixel again. (If all samples are
// equal, the result is exact with any weights.)
//
// In the words of pixels_avx2.h; each of them defines struct octets, eight
// bytes of each pixel, and what moves bytes and makes masks.
#ifndef CPU_WARP_SIMD_H
#define CPU_WARP_SIMD_H

// Places of output pixels in the source.
struct places {
    MASK inside;
    VEC x, y;    // of the pixel, or of the upper left one of four
    FLT dx, dy;  // from its centre
};

// The places of the pixels from (x, y) on. (The file that includes this one
// defines it.)
CPU_INLINE struct places places_of(const struct cpu_pixels *src, int x, int y,
                                   const struct hr__warp *warp, bool nearest);

CPU_INLINE VEC clamped(VEC at, int size)
{
    return OP(min_epi32)(OP(max_epi32)(at, all(0)), all(size - 1));
}

// Bytes from the source's first to pixel (x, y).
CPU_INLINE VEC offset_of(const struct cpu_pixels *src, VEC x, VEC y)
{
    VEC x3 = OP(add_epi32)(x, OP(add_epi32)(x, x));

    return OP(add_epi32)(OP(mullo_epi32)(y, all((int)src->stride)), x3);
}

CPU_INLINE VEC fill_of(const struct hr__warp *warp)
{
    return all(warp->fill[0] | warp->fill[1] << 8 | warp->fill[2] << 16);
}

// ---- Nearest ----------------------------------------------------------------

CPU_INLINE void put_nearest(uint8_t *dst, const struct cpu_pixels *src, VEC x,
                            VEC y, MASK inside, int left, VEC fill)
{
    put_lanes(dst, pixels_at(src->data, offset_of(src, x, y), inside, fill),
              left);
}

static void nearest_fixed(uint8_t *dst, const struct cpu_pixels *src, int w,
                          int y, const struct hr__warp *warp)
{
    const VEC width = all(src->w), height = all(src->h), fill = fill_of(warp);
    const int32_t *a = warp->fixed;
    uint32_t x0 = (uint32_t)a[2] + (uint32_t)y * (uint32_t)a[1];
    uint32_t y0 = (uint32_t)a[5] + (uint32_t)y * (uint32_t)a[4];
    VEC by_x = OP(mullo_epi32)(lanes(), all(a[0]));
    VEC by_y = OP(mullo_epi32)(lanes(), all(a[3]));

    for (int x = 0; x < w; x += LANES, dst += 3 * LANES) {
        uint32_t sx = x0 + (uint32_t)x * (uint32_t)a[0];
        uint32_t sy = y0 + (uint32_t)x * (uint32_t)a[3];
        VEC xi = OP(srai_epi32)(OP(add_epi32)(by_x, all((int)sx)), 16);
        VEC yi = OP(srai_epi32)(OP(add_epi32)(by_y, all((int)sy)), 16);

        put_nearest(dst, src, xi, yi, both(below(xi, width), below(yi, height)),
                    w - x, fill);
    }
}

static void nearest_doubles(uint8_t *dst, const struct cpu_pixels *src, int w,
                            int y, const struct hr__warp *warp)
{
    for (int x = 0; x < w; x += LANES, dst += 3 * LANES) {
        struct places p = places_of(src, x, y, warp, true);

        put_nearest(dst, src, p.x, p.y, p.inside, w - x, fill_of(warp));
    }
}

// ---- Filters ----------------------------------------------------------------

struct made {
    VEC bytes;   // three in each lane
    MASK again;  // pixels that doubles must make
};

// Adds channel c to what was made. mixed: pixels whose samples are not equal.
CPU_INLINE void add_channel(struct made *to, int c, FLT value, MASK mixed,
                            float doubt)
{
    VEC byte = OP(cvttps_epi32)(value);

    byte = OP(max_epi32)(OP(min_epi32)(byte, all(255)), all(0));
    to->again = either(to->again, both(mixed, near_whole(value, doubt)));
    to->bytes = OP(add_epi32)(to->bytes,
                              OP(slli_epi32)(byte, (unsigned)(8 * c)));
}

// Weights are 2^-25 off at most, and each of the sums of up to 255 is rounded
// by 2^-17: 3.8e-5 in all, less than 1/4096. A weight of 0 is exact, and what
// it is of does not matter: of shears and shifts one of the two is 0
// everywhere.
CPU_INLINE struct made bilinear(const struct cpu_pixels *src,
                                const struct places *p)
{
    struct made made = {.bytes = all(0)};
    VEC next = OP(add_epi32)(p->y, all(1)), x = clamped(p->x, src->w);
    struct octets upper =
        gather(src->data, offset_of(src, x, clamped(p->y, src->h)), p->inside);
    MASK down = both(p->inside, differ(p->dy, OP(setzero_ps)()));
    struct octets lower =
        bits_of(down)
            ? gather(src->data, offset_of(src, x, clamped(next, src->h)), down)
            : upper;
    // Beside an edge both are the same pixel.
    FLT dx = only_ps(both(less(all(-1), p->x), less(p->x, all(src->w - 1))),
                     p->dx);
    MASK right = differ(dx, OP(setzero_ps)());

    for (int c = 0; c < 3; c++) {
        FLT a = byte_of(upper, c), b = byte_of(upper, c + 3);
        FLT d = byte_of(lower, c), e = byte_of(lower, c + 3);
        FLT top = OP(fmadd_ps)(OP(sub_ps)(b, a), dx, a);
        FLT bottom = OP(fmadd_ps)(OP(sub_ps)(e, d), dx, d);

        MASK mixed = both(right, differ(a, b));

        mixed = either(mixed, both(down, either(differ(a, d),
                                                both(right, differ(d, e)))));
        add_channel(&made, c, OP(fmadd_ps)(OP(sub_ps)(bottom, top), p->dy, top),
                    mixed, 1.f / 4096);
    }
    return made;
}

CPU_INLINE FLT cubic(const FLT v[4], FLT d)
{
    FLT ba = OP(sub_ps)(v[1], v[0]), dc = OP(sub_ps)(v[3], v[2]);
    FLT p4 = OP(add_ps)(ba, dc);
    FLT p3 = OP(sub_ps)(OP(setzero_ps)(), OP(add_ps)(p4, ba));
    FLT p2 = OP(sub_ps)(v[2], v[0]);

    return OP(fmadd_ps)(d, OP(fmadd_ps)(d, OP(fmadd_ps)(d, p4, p3), p2), v[1]);
}

// Four pixels of one row: their channels, and where these are not equal.
struct cubic_row {
    FLT value[3];
    MASK mixed[3];
};

CPU_INLINE struct cubic_row cubic_row(const struct cpu_pixels *src, VEC x,
                                      VEC y, MASK inside, FLT dx)
{
    VEC at = offset_of(src, x, clamped(y, src->h));
    struct octets left = gather(src->data, at, inside);
    struct octets right = gather(src->data + 6, at, inside);
    MASK weighted = both(inside, differ(dx, OP(setzero_ps)()));
    struct cubic_row row;

    for (int c = 0; c < 3; c++) {
        FLT v[4] = {byte_of(left, c), byte_of(left, c + 3), byte_of(right, c),
                    byte_of(right, c + 3)};

        row.value[c] = cubic(v, dx);
        row.mixed[c] = both(weighted, either(either(differ(v[0], v[1]),
                                                    differ(v[0], v[2])),
                                             differ(v[0], v[3])));
    }
    return row;
}

// Says where the four rows of channel c must be mixed, as all have a weight;
// rows that are not mixed are whole numbers.
CPU_INLINE MASK rows_mixed(const struct cubic_row rows[4], int c)
{
    MASK mixed = rows[0].mixed[c];

    for (int k = 1; k < 4; k++)
        mixed = either(mixed,
                       either(rows[k].mixed[c],
                              differ(rows[0].value[c], rows[k].value[c])));
    return mixed;
}

// Weights are 1.25 and -.25 in all at most, so values are within [-64, 319]
// after one pass and [-160, 415] after both, and the steps between below 1200.
// Their roundings come to 4.4e-4, less than 1/1024. Beside the left and right
// edges samples repeat; doubles make those pixels.
CPU_INLINE struct made bicubic(const struct cpu_pixels *src,
                               const struct places *p)
{
    MASK apart = both(less(all(0), p->x), less(p->x, all(src->w - 2)));
    struct made made = {.bytes = all(0), .again = without(p->inside, apart)};
    MASK inside = both(p->inside, apart);
    MASK down = both(inside, differ(p->dy, OP(setzero_ps)()));
    VEC x = OP(sub_epi32)(p->x, all(1));
    struct cubic_row rows[4];

    rows[1] = cubic_row(src, x, p->y, inside, p->dx);
    for (int k = 0; k < 4; k++)
        if (k != 1)
            rows[k] = bits_of(down)
                          ? cubic_row(src, x, OP(add_epi32)(p->y, all(k - 1)),
                                      down, p->dx)
                          : rows[1];
    for (int c = 0; c < 3; c++) {
        FLT v[4];

        for (int k = 0; k < 4; k++)
            v[k] = rows[k].value[c];
        add_channel(&made, c, cubic(v, p->dy),
                    either(rows[1].mixed[c], both(down, rows_mixed(rows, c))),
                    1.f / 1024);
    }
    return made;
}

CPU_INLINE void filtered(uint8_t *dst, const struct cpu_pixels *src, int w,
                         int y, const struct hr__warp *warp, bool is_cubic)
{
    for (int x = 0; x < w; x += LANES, dst += 3 * LANES) {
        struct places p = places_of(src, x, y, warp, false);
        struct made made = {.bytes = fill_of(warp)};
        unsigned inside = bits_of(p.inside), again = 0;

        if (inside) {
            made = is_cubic ? bicubic(src, &p) : bilinear(src, &p);
            again = bits_of(made.again) & inside;
        }
        put_lanes(dst, choose(p.inside, made.bytes, fill_of(warp)), w - x);
        for (; again; again &= again - 1) {
            int k = __builtin_ctz(again);

            if (x + k < w)
                cpu_warp_pixel_c(dst + 3 * k, src, x + k, y, warp);
        }
    }
}

void SISTER(cpu_warp)(uint8_t *dst, const struct cpu_pixels *src, int w, int y,
                      const struct hr__warp *warp)
{
    // Gathers have offsets of 32 bits.
    bool small = src->stride * (size_t)src->h < INT32_MAX;

    if (src->channels != 3 || !small)
        cpu_warp_c(dst, src, w, y, warp);
    else if (warp->way == HR__WARP_FIXED)
        nearest_fixed(dst, src, w, y, warp);
    else if (warp->filter == HR_NEAREST)
        nearest_doubles(dst, src, w, y, warp);
    else if (warp->filter == HR_BICUBIC)
        filtered(dst, src, w, y, warp, true);
    else
        filtered(dst, src, w, y, warp, false);
}

#endif
