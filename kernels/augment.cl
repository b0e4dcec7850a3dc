// SPDX-License-Identifier: Apache-2.0
// Stage augment: a work-group takes one picture through its own list of codes,
// which is why launches are as many whatever a batch's lists are, and then
// through the table to the tensor. The picture is planes of bytes in `work`,
// each row a multiple of four; a second one of the same size lies beside it, for
// codes that look at neighbours. Items take cells of four bytes. Each code goes
// through the same four phases, of which most do nothing for it, so that all
// barriers stand in one loop: prepare, measure, make a table, apply. Integers,
// and floats only where Pillow's results need them in its order: no operation is
// contracted. In programs built with HR__AUGMENT.

#ifdef HR__AUGMENT
#ifdef HR__FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#pragma OPENCL FP_CONTRACT OFF

// The host may say how many; else what would suit.
#ifndef HR__AUGMENT_ITEMS
#ifdef HR__GPU
#define HR__AUGMENT_ITEMS HR__AUGMENT_MOST
#else
#define HR__AUGMENT_ITEMS HR__GROUP
#endif
#endif

// On a GPU the items of a group take neighbours; on a host's processor each has
// a part of the picture to itself.
#ifdef HR__GPU
#define HR__EACH(k, n) \
    for (uint k = (uint)get_local_id(0); k < (n); k += HR__AUGMENT_ITEMS)
#else
#define HR__EACH(k, n) \
    for (uint k##_part = ((n) + HR__AUGMENT_ITEMS - 1) / HR__AUGMENT_ITEMS, \
              k = (uint)get_local_id(0) * k##_part, \
              k##_end = min((uint)(n), k + k##_part); \
         k < k##_end; k++)
#endif

enum { HR__NEVER = 32767 };  // no sum of a blend is so large

// The picture at hand. Padding at the end of its rows may hold anything.
struct hr__canvas {
    __global uchar *work;
    uint a, b;           // where it begins, and where another one may be made
    uint plane, stride;  // bytes to the next plane, of `a` to the next row
    int w, h;
    uint channels;
};

// What a group knows of its picture.
struct hr__notes {
    uint counts[768];  // or the table of a blend
    uchar table[768];
    int span[6];   // lowest of each channel, highest
    uint sums[2];  // low 16 bits, and the others
    // Of the code at hand: read anew in each phase, as PoCL's compiler fails at
    // barriers between two questions that it takes for one.
    uint code;
};

static inline uint hr__across(int w)
{
    return ((uint)w + 3) / 4;
}

static inline uint hr__cells(const struct hr__canvas *t)
{
    return t->stride / 4 * (uint)t->h;
}

static inline __global uint *hr__cell(const struct hr__canvas *t, uint from,
                                      uint c, uint k)
{
    return (__global uint *)(t->work + from + c * t->plane) + k;
}

static inline __global const uchar *hr__line(const struct hr__canvas *t, uint c,
                                            uint y)
{
    return t->work + t->a + c * t->plane + y * t->stride;
}

// Byte i of a cell.
#define HR__BYTE_OF(cell, i) ((cell) >> 8 * (i) & 255)

// How many bytes of cell k are pixels.
static inline uint hr__in_cell(const struct hr__canvas *t, uint k)
{
    uint across = t->stride / 4;

    return min((uint)t->w - k % across * 4, 4u);
}

// ---- Tables -----------------------------------------------------------------

static inline void hr__through(const struct hr__canvas *t,
                               __local const uchar *table)
{
    for (uint c = 0; c < t->channels; c++, table += 256) {
        HR__EACH(k, hr__cells(t)) {
            __global uint *at = hr__cell(t, t->a, c, k);
            uint v = *at;

            *at = (uint)table[HR__BYTE_OF(v, 0)] |
                  (uint)table[HR__BYTE_OF(v, 1)] << 8 |
                  (uint)table[HR__BYTE_OF(v, 2)] << 16 |
                  (uint)table[v >> 24] << 24;
        }
    }
}

static inline int hr__luma(int r, int g, int b)
{
    return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
}

// ---- Blends -----------------------------------------------------------------

// Pillow adds a and factor * d in float32, each rounded, and cuts off what is
// behind the point. For all bytes a that is s = a + n, plus 1 if s >= from: n is
// factor * d rounded down, and what is missing to n + 1 is lost where it is at
// most half of what a float of that size can tell apart. In one word: from, n.
static inline uint hr__blend_of(uint factor, int d)
{
    bool negative = (factor >> 31) != (uint)(d < 0);
    int e = (int)(factor >> 23 & 255), n, from = HR__NEVER;
    uint p = (factor & 0x7fffff) | (e ? 1u << 23 : 0u), whole = 0, over;
    ulong gap;

    // The product, rounded to 24 bits, is p * 2^e.
    p *= (uint)abs(d);
    e = max(e, 1) - 150;
    over = p >> 24 ? 8 - (uint)clz(p) : 0;
    if (over) {
        uint rest = p & ((1u << over) - 1), half_of = 1u << (over - 1);

        p >>= over;
        p += rest > half_of || (rest == half_of && (p & 1));
        e += (int)over;
    }
    if (e >= 0)
        whole = e > 20 || p > 1023 ? 1023u : min(p << e, 1023u);
    else if (e > -32)
        whole = min(p >> -e, 1023u);
    // In units of 2^e
    gap = e >= 0 || (e > -32 && !(p & ((1u << -e) - 1))) || !p ? 0 : p;
    n = negative ? -(int)whole - (gap != 0) : (int)whole;
    if (gap && !negative)
        gap = e < -60 ? 0 : (1ul << -e) - (e > -32 ? p & ((1u << -e) - 1) : p);
    else if (gap && e > -32)
        gap = p & ((1u << -e) - 1);
    for (int k = 8; gap && k >= -1; k--) {
        int s = k - 24 - e;

        if (s >= 0 && (s > 62 || gap <= 1ul << s))
            from = k < 0 ? 0 : 1 << k;
    }
    return (uint)from << 16 | ((uint)n & 0xffff);
}

static inline void hr__blends(uint factor, __local uint *blends)
{
    HR__EACH(k, 511) blends[k] = hr__blend_of(factor, (int)k - 255);
}

static inline int hr__blend(int a, int b, __local const uint *blends)
{
    uint e = blends[b - a + 255];
    int s = a + (short)(e & 0xffff);

    return clamp(s + (s >= (int)(e >> 16)), 0, 255);
}

static inline void hr__run_mix_luma(const struct hr__canvas *t,
                                    __local struct hr__notes *notes)
{
    HR__EACH(k, t->channels == 3 ? hr__cells(t) : 0) {
        __global uint *r = hr__cell(t, t->a, 0, k);
        __global uint *g = hr__cell(t, t->a, 1, k);
        __global uint *b = hr__cell(t, t->a, 2, k);
        uint old[3] = {*r, *g, *b}, new[3] = {0, 0, 0};

        for (uint i = 0; i < 32; i += 8) {
            int p[3] = {(int)(old[0] >> i & 255), (int)(old[1] >> i & 255),
                        (int)(old[2] >> i & 255)};
            int l = hr__luma(p[0], p[1], p[2]);

            for (uint c = 0; c < 3; c++)
                new[c] |= (uint)hr__blend(l, p[c], notes->counts) << i;
        }
        *r = new[0];
        *g = new[1];
        *b = new[2];
    }
}

static inline void hr__run_luma(const struct hr__canvas *t)
{
    HR__EACH(k, t->channels == 3 ? hr__cells(t) : 0) {
        uint r = *hr__cell(t, t->a, 0, k), g = *hr__cell(t, t->a, 1, k);
        uint b = *hr__cell(t, t->a, 2, k), l = 0;

        for (uint i = 0; i < 32; i += 8)
            l |= (uint)hr__luma((int)(r >> i & 255), (int)(g >> i & 255),
                                (int)(b >> i & 255))
                 << i;
        for (uint c = 0; c < 3; c++)
            *hr__cell(t, t->a, c, k) = l;
    }
}

// The sum of all lumas, in notes->sums.
static inline void hr__sum_lumas(const struct hr__canvas *t,
                                 __local struct hr__notes *notes)
{
    uint sum = 0;

    HR__EACH(k, hr__cells(t)) {
        uint r = *hr__cell(t, t->a, 0, k), n = 8 * hr__in_cell(t, k);
        uint g = r, b = r;

        if (t->channels == 3) {
            g = *hr__cell(t, t->a, 1, k);
            b = *hr__cell(t, t->a, 2, k);
        }
        for (uint i = 0; i < n; i += 8)
            sum += (uint)hr__luma((int)(r >> i & 255), (int)(g >> i & 255),
                                  (int)(b >> i & 255));
    }
    atomic_add(&notes->sums[0], sum & 0xffff);
    atomic_add(&notes->sums[1], sum >> 16);
}

static inline void hr__mean_table(const struct hr__canvas *t,
                                  __local struct hr__notes *notes)
{
    ulong n = (ulong)t->w * (ulong)t->h;
    ulong sum = ((ulong)notes->sums[1] << 16) + notes->sums[0];
    int mean = (int)((2 * sum + n) / (2 * n));

    HR__EACH(k, 256 * t->channels)
        notes->table[k] = (uchar)hr__blend(mean, (int)(k & 255), notes->counts);
}

// ---- Histograms -------------------------------------------------------------

// The range of each channel; and how often each byte occurs, if counted.
static inline void hr__measure_bytes(const struct hr__canvas *t, bool counted,
                                     __local struct hr__notes *notes)
{
    for (uint c = 0; c < t->channels; c++) {
        int lo = 255, hi = 0;

        HR__EACH(k, hr__cells(t)) {
            uint v = *hr__cell(t, t->a, c, k), end = hr__in_cell(t, k);

            for (uint i = 0; i < end; i++) {
                int x = (int)HR__BYTE_OF(v, i);

                lo = min(lo, x);
                hi = max(hi, x);
                if (counted)
                    atomic_inc(&notes->counts[c * 256 + (uint)x]);
            }
        }
        atomic_min(&notes->span[c], lo);
        atomic_max(&notes->span[3 + c], hi);
    }
}

static inline void hr__equal_table(const struct hr__canvas *t,
                                   __local struct hr__notes *notes)
{
    uint n = (uint)t->w * (uint)t->h;

    HR__EACH(k, 256 * t->channels) {
        uint c = k >> 8, i = k & 255, below = 0;
        __local const uint *counts = notes->counts + c * 256;
        uint step = (n - counts[notes->span[3 + c]]) / 255;

        for (uint j = 0; j < i; j++)
            below += counts[j];
        notes->table[k] =
            (uchar)(!step ? i : min((step / 2 + below) / step, 255u));
    }
}

// Rounds to 53 bits as doubles do; returns how many went.
static inline int hr__round53(ulong *x)
{
    int s = 11 - (int)clz(*x);
    ulong half_of, rest;

    if (!*x || s <= 0)
        return 0;
    half_of = 1ul << (s - 1);
    rest = *x & ((half_of << 1) - 1);
    *x >>= s;
    *x += rest > half_of || (rest == half_of && (*x & 1));
    return s;
}

// i * scale - lo * scale in doubles, as integers: scale is 255 / (hi - lo), and
// each step is rounded.
static inline uint hr__stretched(uint i, uint lo, uint hi)
{
    ulong top = (ulong)255 << 55, scale = top / (hi - lo), a, b;
    int e = -55, ea, eb;

    scale |= scale * (hi - lo) != top;
    e += hr__round53(&scale);
    a = scale * i;
    b = scale * lo;
    ea = e + hr__round53(&a);
    eb = e + hr__round53(&b);
    e = lo && eb < ea ? eb : ea;
    if (!i)
        return 0;
    a <<= ea - e;
    b = lo ? b << (eb - e) : 0;
    if (b >= a)
        return 0;
    a -= b;
    e += hr__round53(&a);
    a = e >= 0 ? a << e : e <= -64 ? 0 : a >> -e;
    return (uint)min(a, (ulong)255);
}

static inline void hr__stretch_table(const struct hr__canvas *t,
                                     __local struct hr__notes *notes)
{
    HR__EACH(k, 256 * t->channels) {
        uint i = k & 255, lo = (uint)notes->span[k >> 8];
        uint hi = (uint)notes->span[3 + (k >> 8)];

        notes->table[k] = (uchar)(hi > lo ? hr__stretched(i, lo, hi) : i);
    }
}

// ---- Hue, order of channels ------------------------------------------------

// cpu_fallback/augment/hue.c says why.
__constant uint hr__falls_short[8] = {0xfffffffe, 0,          0x11000000,
                                      0x00000111, 0x222aaaaa, 0x23232222,
                                      0x00022222, 0};

// Of r, g, b, a byte each, as it returns them.
static inline uint hr__hue(int r, int g, int b, int shift)
{
    int most = max(r, max(g, b)), d = most - min(r, min(g, b));
    int h = 0, s = 0, k, sextant, ramp;
    uint v = (uint)most, p, q;

    if (d) {
        int n = r == most   ? g - b
                : g == most ? 2 * d + b - r
                            : 4 * d + r - g;

        n += n < 0 ? 6 * d : 0;
        h = 255 * n / (6 * d);
        h -= h * 6 * d == 255 * n && (hr__falls_short[h >> 5] >> (h & 31) & 1);
        s = 255 * d / most;
    }
    k = 6 * ((h + shift) & 255);
    sextant = k / 255;
    k -= 255 * sextant;
    ramp = sextant & 1 ? k : 255 - k;
    p = (2 * v * (uint)(255 - s) + 255) / 510;
    q = (2 * v * (uint)(65025 - s * ramp) + 65025) / 130050;
    switch (sextant) {
    case 1:
        return q | v << 8 | p << 16;
    case 2:
        return p | v << 8 | q << 16;
    case 3:
        return p | q << 8 | v << 16;
    case 4:
        return q | p << 8 | v << 16;
    case 5:
        return v | p << 8 | q << 16;
    default:
        return v | q << 8 | p << 16;
    }
}

static inline void hr__run_hue(const struct hr__canvas *t, int shift)
{
    HR__EACH(k, t->channels == 3 ? hr__cells(t) : 0) {
        __global uint *r = hr__cell(t, t->a, 0, k);
        __global uint *g = hr__cell(t, t->a, 1, k);
        __global uint *b = hr__cell(t, t->a, 2, k);
        uint x = *r, y = *g, z = *b, nr = 0, ng = 0, nb = 0;

        for (uint i = 0; i < 32; i += 8) {
            uint v = hr__hue((int)(x >> i & 255), (int)(y >> i & 255),
                             (int)(z >> i & 255), shift);

            nr |= (v & 255) << i;
            ng |= (v >> 8 & 255) << i;
            nb |= (v >> 16) << i;
        }
        *r = nr;
        *g = ng;
        *b = nb;
    }
}

static inline void hr__run_permute(const struct hr__canvas *t, uint from)
{
    HR__EACH(k, t->channels == 3 ? hr__cells(t) : 0) {
        uint r = *hr__cell(t, t->a, 0, k), g = *hr__cell(t, t->a, 1, k);
        uint b = *hr__cell(t, t->a, 2, k);

        for (uint c = 0; c < 3; c++) {
            uint of = HR__BYTE_OF(from, c);

            *hr__cell(t, t->a, c, k) = of == 0 ? r : of == 1 ? g : b;
        }
    }
}

// ---- Neighbours ---------------------------------------------------------------

// Bytes x - 1 to x + 4 of a row, of which those that are not there may be
// anything.
static inline void hr__six(__global const uchar *row, uint x, uint stride,
                           uint six[6])
{
    uint v = HR__AT(const uint, row + x);

    six[0] = row[x ? x - 1 : 0];
    for (uint i = 0; i < 4; i++)
        six[1 + i] = HR__BYTE_OF(v, i);
    six[5] = row[min(x + 4, stride - 1)];
}

static inline int hr__smooth(uint r[3][6], uint i, __local const uint *blends)
{
    uint sum = 4 * r[1][i + 1] + 6;

    for (uint y = 0; y < 3; y++)
        sum += r[y][i] + r[y][i + 1] + r[y][i + 2];
    return hr__blend((int)(sum / 13), (int)r[1][i + 1], blends);
}

// Its first row meets the lowest of the picture.
static inline int hr__kernel3(uint r[3][6], uint i,
                              __global const struct hr__kernel_code *code)
{
    float sum = as_float(code->m[9]) + .5f;

    for (uint y = 0; y < 3; y++) {
        __global const uint *k = code->m + 3 * y;

        sum += (float)r[2 - y][i] * as_float(k[0]) +
               (float)r[2 - y][i + 1] * as_float(k[1]) +
               (float)r[2 - y][i + 2] * as_float(k[2]);
    }
    sum = sum < 0 ? 0 : sum;
    sum = sum > 255 ? 255 : sum;
    return (int)sum;
}

static inline void hr__swap(struct hr__canvas *t)
{
    uint a = t->a;

    t->a = t->b;
    t->b = a;
}

// The outermost rows and columns stay.
static inline void hr__run_3x3(struct hr__canvas *t,
                               __global const struct hr__kernel_code *code,
                               __local struct hr__notes *notes)
{
    bool smooth = code->code == HR__CODE_MIX_SMOOTH;
    uint across = t->stride / 4;

    if (t->w < 3 || t->h < 3)
        return;
    for (uint c = 0; c < t->channels; c++) {
        HR__EACH(k, hr__cells(t)) {
            uint y = k / across, x = (k - y * across) * 4, r[3][6];
            uint old = *hr__cell(t, t->a, c, k), new = 0;
            __global const uchar *row = hr__line(t, c, y);

            if (y > 0 && y < (uint)t->h - 1) {
                hr__six(row - t->stride, x, t->stride, r[0]);
                hr__six(row, x, t->stride, r[1]);
                hr__six(row + t->stride, x, t->stride, r[2]);
#pragma unroll
                for (uint i = 0; i < 4; i++) {
                    bool inner = x + i > 0 && x + i < (uint)t->w - 1;

                    new |= (uint)(!inner ? (int)r[1][i + 1]
                                  : smooth ? hr__smooth(r, i, notes->counts)
                                           : hr__kernel3(r, i, code))
                           << 8 * i;
                }
            } else {
                new = old;
            }
            *hr__cell(t, t->b, c, k) = new;
        }
    }
    hr__swap(t);
}

static inline uint hr__boxed(uint sum, uint beyond, uint inner, uint outer)
{
    return (sum * inner + beyond * outer + (1u << 23)) >> 24;
}

static inline void hr__box_x(struct hr__canvas *t, int reach, uint inner,
                             uint outer)
{
    uint across = t->stride / 4;
    int end = t->w - 1;

    for (uint c = 0; c < t->channels; c++) {
        HR__EACH(k, hr__cells(t)) {
            uint y = k / across, sum = 0, v = 0;
            int x = (int)(k - y * across) * 4;
            __global const uchar *row = hr__line(t, c, y);

            for (int i = x - reach; i < x + reach; i++)
                sum += row[clamp(i, 0, end)];
            for (int i = 0; i < 4; i++, x++) {
                uint after = row[clamp(x + reach + 1, 0, end)];
                uint before = row[clamp(x - reach - 1, 0, end)];

                sum += row[clamp(x + reach, 0, end)];
                v |= hr__boxed(sum, before + after, inner, outer) << 8 * i;
                sum -= row[clamp(x - reach, 0, end)];
            }
            *hr__cell(t, t->b, c, k) = v;
        }
    }
    hr__swap(t);
}

static inline void hr__box_y(struct hr__canvas *t, int reach, uint inner,
                             uint outer)
{
    uint across = t->stride / 4;
    int end = t->h - 1;

    for (uint c = 0; c < t->channels; c++) {
        HR__EACH(k, hr__cells(t)) {
            int y = (int)(k / across);
            __global const uint *column =
                hr__cell(t, t->a, c, k - (uint)y * across);
            uint4 sum = (uint4)(0);

#define HR__ROW_AT(i) \
    convert_uint4(as_uchar4(column[(uint)clamp(y + (i), 0, end) * across]))
            for (int i = -reach; i <= reach; i++)
                sum += HR__ROW_AT(i);
            sum = sum * inner +
                  (HR__ROW_AT(-reach - 1) + HR__ROW_AT(reach + 1)) * outer +
                  (1u << 23);
#undef HR__ROW_AT
            *hr__cell(t, t->b, c, k) = as_uint(convert_uchar4(sum >> 24));
        }
    }
    hr__swap(t);
}

// ---- Other places -------------------------------------------------------------

// Pixels are words here, a byte for each channel.

static inline uint hr__pixel(const struct hr__canvas *t, int x, int y)
{
    __global const uchar *at = hr__line(t, 0, (uint)y) + (uint)x;
    uint v = *at;

    if (t->channels == 3)
        v |= (uint)at[t->plane] << 8 | (uint)at[2 * t->plane] << 16;
    return v;
}

static inline bool hr__is_in(const struct hr__canvas *t, int x, int y)
{
    return x >= 0 && x < t->w && y >= 0 && y < t->h;
}

#ifdef HR__FP64
static inline double hr__double(__global const struct hr__kernel_code *code,
                                uint i)
{
    return as_double((ulong)code->m[2 * i] | (ulong)code->m[2 * i + 1] << 32);
}

static inline double4 hr__levels(const struct hr__canvas *t, int x, int y)
{
    return convert_double4(as_uchar4(hr__pixel(t, x, y)));
}

// x, y: of the upper left pixel of four; dx, dy: how far from its centre.
static inline uint hr__bilinear(const struct hr__canvas *t, int x, int y,
                                double dx, double dy)
{
    int left = clamp(x, 0, t->w - 1), right = clamp(x + 1, 0, t->w - 1);
    int top = clamp(y, 0, t->h - 1), bottom = y + 1 < t->h ? y + 1 : top;
    double4 a = hr__levels(t, left, top), b = hr__levels(t, right, top);
    double4 c = hr__levels(t, left, bottom), d = hr__levels(t, right, bottom);

    a += (b - a) * dx;
    c += (d - c) * dx;
    return as_uint(convert_uchar4(a + (c - a) * dy));
}

static inline double4 hr__cubic(double4 a, double4 b, double4 c, double4 e,
                                double d)
{
    double4 p2 = -a + c;
    double4 p3 = 2 * (a - b) + c - e;
    double4 p4 = -a + b - c + e;

    return b + d * (p2 + d * (p3 + d * p4));
}

static inline double4 hr__cubic_row(const struct hr__canvas *t, int x, int y,
                                    double dx)
{
    int end = t->w - 1;

    return hr__cubic(hr__levels(t, clamp(x - 1, 0, end), y),
                     hr__levels(t, clamp(x, 0, end), y),
                     hr__levels(t, clamp(x + 1, 0, end), y),
                     hr__levels(t, clamp(x + 2, 0, end), y), dx);
}

// A row outside repeats the one before it, the first the nearest.
static inline uint hr__bicubic(const struct hr__canvas *t, int x, int y,
                               double dx, double dy)
{
    int end = t->h - 1, y0 = clamp(y - 1, 0, end);
    int y1 = y < 0 || y > end ? y0 : y;
    int y2 = y + 1 < 0 || y + 1 > end ? y1 : y + 1;
    int y3 = y + 2 < 0 || y + 2 > end ? y2 : y + 2;
    double4 v = hr__cubic(
        hr__cubic_row(t, x, y0, dx), hr__cubic_row(t, x, y1, dx),
        hr__cubic_row(t, x, y2, dx), hr__cubic_row(t, x, y3, dx), dy);

    return as_uint(convert_uchar4(clamp(v, (double4)(0), (double4)(255))));
}

static inline uint hr__in_doubles(const struct hr__canvas *t,
                                  __global const struct hr__kernel_code *code,
                                  int ox, int oy)
{
    double x = ox + .5, y = oy + .5, left, top;
    double sx = hr__double(code, 0) * x + hr__double(code, 1) * y +
                hr__double(code, 2);
    double sy = hr__double(code, 3) * x + hr__double(code, 4) * y +
                hr__double(code, 5);

    if (code->way == HR__WAY_PERSPECTIVE) {
        double under = hr__double(code, 6) * x + hr__double(code, 7) * y + 1;

        sx /= under;
        sy /= under;
    }
    if (!(sx >= 0 && sx < t->w && sy >= 0 && sy < t->h))
        return code->fill;
    if (code->taps == 1)
        return hr__pixel(t, (int)sx, (int)sy);
    left = floor(sx - .5);
    top = floor(sy - .5);
    return code->taps == 2 ? hr__bilinear(t, (int)left, (int)top,
                                          sx - .5 - left, sy - .5 - top)
                           : hr__bicubic(t, (int)left, (int)top, sx - .5 - left,
                                         sy - .5 - top);
}
#endif

static inline uint hr__warped(const struct hr__canvas *t,
                              __global const struct hr__kernel_code *code,
                              __global const uint *plan, int x, int y)
{
    int sx, sy;

    if (code->way == HR__WAY_AXES) {
        __global const int *places = (__global const int *)plan + code->table;

        sx = places[x];
        sy = places[code->w + y];
    } else if (code->way == HR__WAY_FIXED) {
        __global const int *a = code->v;

        // (32-bit sums wrap.)
        sx = (int)((uint)a[2] + (uint)y * (uint)a[1] + (uint)x * (uint)a[0]) >>
             16;
        sy = (int)((uint)a[5] + (uint)y * (uint)a[4] + (uint)x * (uint)a[3]) >>
             16;
    } else {
#ifdef HR__FP64
        return hr__in_doubles(t, code, x, y);
#else
        return code->fill;  // (no such sample comes here)
#endif
    }
    return hr__is_in(t, sx, sy) ? hr__pixel(t, sx, sy) : code->fill;
}

static inline __attribute__((always_inline)) void hr__run_warp(
    struct hr__canvas *t, __global const struct hr__kernel_code *code,
    __global const uint *plan)
{
    uint across = hr__across(code->w);

    HR__EACH(k, across * (uint)code->h) {
        int y = (int)(k / across), x = (int)(k - (uint)y * across) * 4;
        uint words[3] = {0, 0, 0};

        for (int i = 0; i < 4 && x + i < code->w; i++) {
            uint v = hr__warped(t, code, plan, x + i, y);

            for (uint c = 0; c < 3; c++)
                words[c] |= HR__BYTE_OF(v, c) << 8 * i;
        }
        *hr__cell(t, t->b, 0, k) = words[0];
        if (t->channels == 3) {
            *hr__cell(t, t->b, 1, k) = words[1];
            *hr__cell(t, t->b, 2, k) = words[2];
        }
    }
    t->w = code->w;
    t->h = code->h;
    t->stride = across * 4;
    hr__swap(t);
}

// ---- The list -----------------------------------------------------------------

static inline void hr__prepare(const struct hr__canvas *t,
                               __global const struct hr__kernel_code *code,
                               __global const uint *plan,
                               __local struct hr__notes *notes)
{
    __global const uchar *table = (__global const uchar *)(plan + code->table);

    switch (code->code) {
    case HR__CODE_TABLE:
        HR__EACH(k, 256 * t->channels) notes->table[k] = table[k];
        break;
    case HR__CODE_MIX_MEAN:
    case HR__CODE_MIX_LUMA:
    case HR__CODE_MIX_SMOOTH:
        hr__blends((uint)code->v[0], notes->counts);
        break;
    case HR__CODE_EQUALIZE:
        HR__EACH(k, 768) notes->counts[k] = 0;
        break;
    }
    if (get_local_id(0) == 0) {
        for (uint c = 0; c < 3; c++) {
            notes->span[c] = 255;
            notes->span[3 + c] = 0;
        }
        notes->sums[0] = notes->sums[1] = 0;
        notes->code = code->code;
    }
}

static inline void hr__measure(const struct hr__canvas *t,
                               __local struct hr__notes *notes)
{
    uint code = notes->code;

    if (code == HR__CODE_MIX_MEAN)
        hr__sum_lumas(t, notes);
    else if (code == HR__CODE_EQUALIZE || code == HR__CODE_STRETCH)
        hr__measure_bytes(t, code == HR__CODE_EQUALIZE, notes);
}

static inline void hr__finish_table(const struct hr__canvas *t,
                                  __local struct hr__notes *notes)
{
    uint code = notes->code;

    if (code == HR__CODE_MIX_MEAN)
        hr__mean_table(t, notes);
    else if (code == HR__CODE_EQUALIZE)
        hr__equal_table(t, notes);
    else if (code == HR__CODE_STRETCH)
        hr__stretch_table(t, notes);
}

static inline __attribute__((always_inline)) void hr__apply(
    struct hr__canvas *t, __global const struct hr__kernel_code *code,
    __global const uint *plan, __local struct hr__notes *notes)
{
    switch (notes->code) {
    case HR__CODE_TABLE:
    case HR__CODE_MIX_MEAN:
    case HR__CODE_EQUALIZE:
    case HR__CODE_STRETCH:
        hr__through(t, notes->table);
        break;
    case HR__CODE_MIX_LUMA:
        hr__run_mix_luma(t, notes);
        break;
    case HR__CODE_MIX_SMOOTH:
    case HR__CODE_KERNEL3:
        hr__run_3x3(t, code, notes);
        break;
    case HR__CODE_HUE:
        hr__run_hue(t, code->v[0]);
        break;
    case HR__CODE_LUMA:
        hr__run_luma(t);
        if (code->v[0])
            t->channels = 1;
        break;
    case HR__CODE_WARP:
        hr__run_warp(t, code, plan);
        break;
    case HR__CODE_BOX:
        if (code->v[1])
            hr__box_y(t, code->v[0], code->m[0], code->m[1]);
        else
            hr__box_x(t, code->v[0], code->m[0], code->m[1]);
        break;
    case HR__CODE_PERMUTE:
        hr__run_permute(t, (uint)code->v[0]);
        break;
    }
}

static inline void hr__to_tensor(const struct hr__canvas *t,
                                 __global const struct hr__kernel_augment *to,
                                 __global const uint *plan,
                                 __global uchar *out)
{
    uint across = t->stride / 4;

    for (uint c = 0; c < t->channels; c++) {
        HR__EACH(k, hr__cells(t)) {
            uint y = k / across, x = (k - y * across) * 4;
            uchar4 v = as_uchar4(*hr__cell(t, t->a, c, k));

            hr__put((const uchar *)&v, hr__in_cell(t, k), c, to->type,
                    plan + to->table,
                    out + to->out + c * to->out_c + y * to->out_y +
                        x * to->out_x,
                    to->out_x);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(HR__AUGMENT_ITEMS, 1, 1))) void
hr_augment(__global const uint *restrict plan, uint list,
           __global uchar *restrict work, __global uchar *restrict out)
{
    __local struct hr__notes notes;
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_augment *to =
        (__global const struct hr__kernel_augment *)(plan + job.pic->augment);
    __global const struct hr__kernel_code *codes =
        (__global const struct hr__kernel_code *)(to + 1);
    struct hr__canvas t = {work,
                           to->from,
                           to->beside,
                           to->plane,
                           hr__across(to->w) * 4,
                           to->w,
                           to->h,
                           to->channels};

    for (uint i = 0; i < to->num; i++) {
        hr__prepare(&t, codes + i, plan, &notes);
        barrier(CLK_LOCAL_MEM_FENCE);
        hr__measure(&t, &notes);
        barrier(CLK_LOCAL_MEM_FENCE);
        hr__finish_table(&t, &notes);
        barrier(CLK_LOCAL_MEM_FENCE);
        hr__apply(&t, codes + i, plan, &notes);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    hr__to_tensor(&t, to, plan, out);
}
#endif
