// SPDX-License-Identifier: Apache-2.0
// Codes of stage augment that look at one pixel at a time, or at histograms:
// tables, blends, hue, the order of channels. And the canvas that all codes
// have: planes of bytes, which items take in cells of four. See augment.cl.

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

// A group's facts of its picture.
struct hr__notes {
    uint counts[768];  // or the table of a blend
    uchar table[768];
    int span[6];   // lowest of each channel, highest
    uint sums[2];  // low 16 bits, and the others
    uint cut[2];   // of STRETCH: its bytes at both ends that do not count
    // The code at hand: read anew in each phase, as PoCL's compiler fails at
    // barriers between two conditions that it merges.
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

// Returns how many bytes of cell k are pixels.
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
// behind the point. For all bytes a that is s = a + n, plus 1 if s >= from: n
// is factor * d rounded down, and what is missing to n + 1 is lost where it is
// at most half of what a float of that size can tell apart. In one word: from,
// n.
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

// Where the range of a channel begins without the bytes that do not count.
static inline uint hr__low_end(__local const struct hr__notes *notes, uint c)
{
    uint i = (uint)notes->span[c], below = 0;

    if (!notes->cut[0])
        return i;
    while ((below += notes->counts[c * 256 + i]) <= notes->cut[0] && i < 255)
        i++;
    return i;
}

static inline uint hr__high_end(__local const struct hr__notes *notes, uint c)
{
    uint i = (uint)notes->span[3 + c], above = 0;

    if (!notes->cut[1])
        return i;
    while ((above += notes->counts[c * 256 + i]) <= notes->cut[1] && i > 0)
        i--;
    return i;
}

static inline void hr__stretch_table(const struct hr__canvas *t,
                                     __local struct hr__notes *notes)
{
    HR__EACH(k, 256 * t->channels) {
        uint i = k & 255, c = k >> 8;
        uint lo = hr__low_end(notes, c), hi = hr__high_end(notes, c);

        notes->table[k] = (uchar)(hi > lo ? hr__stretched(i, lo, hi) : i);
    }
}

// ---- Hue, order of channels ------------------------------------------------

// cpu_fallback/augment/hue.c says why.
__constant uint hr__falls_short[8] = {0xfffffffe, 0,          0x11000000,
                                      0x00000111, 0x222aaaaa, 0x23232222,
                                      0x00022222, 0};

// Takes and returns r, g, b, a byte each.
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
#endif
