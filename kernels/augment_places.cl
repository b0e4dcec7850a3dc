// SPDX-License-Identifier: Apache-2.0
// Codes of stage augment that look at neighbours or take pixels from other
// places: 3 x 3, boxes, warps. See augment.cl.

#ifdef HR__AUGMENT
// ---- Neighbours -------------------------------------------------------------

// Reads bytes x - 1 to x + 4 of a row; bytes outside of the row may be
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

// Applies the kernel, whose first row is for the lowest row of the picture.
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

// ---- Other places -----------------------------------------------------------

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
#endif
