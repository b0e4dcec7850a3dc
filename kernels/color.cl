// SPDX-License-Identifier: Apache-2.0
// Stage color: planes of components -> planes of the window, RGB or grey. One
// item makes HR__LANES rows of some columns, or a tile that it turns.
// hr_planes brings it the planes that another engine has made. hr_pixels is
// its counterpart for pictures that already are pixels.

// Samples that upsampling needs beside the component's own edge are copies of
// the edge: that makes every special case of libjpeg-turbo src/jdsample.c and
// jdmainct.c the same formula.

// Reads one column of one component, HR__LANES rows from picture row y on
// (even). With FANCY_Y four times the value.
static inline short16 hr__column(
    __global const struct hr__kernel_component *comp,
    __global const uchar *work, int i, int y)
{
    __global const uchar *col =
        work + comp->plane + (uint)(i - comp->x) * comp->stride;
    int step = (int)comp->step_y;
    short16 v;

    if (step == 1)
        return convert_short16(vload16(0, col + (y - comp->y)));
    if (comp->fancy & HR__FANCY_Y) {
        int j = (y >> 1) - comp->y;
        short8 at = (short8)(0, 1, 2, 3, 4, 5, 6, 7);
        short8 cur = convert_short8(vload8(0, col + j));
        short8 prev = convert_short8(vload8(0, col + j - 1));
        short8 next = convert_short8(vload8(0, col + j + 1));
        int last = comp->height - 1 - (y >> 1);

        prev = select(prev, cur, at == (short8)(y ? -1 : 0));
        next = select(next, cur, at >= (short8)((short)min(last, 8)));
        cur *= (short8)(3);
        v.even = cur + prev;
        v.odd = cur + next;
        return v;
    }
    if (step == 2) {
        short8 cur = convert_short8(vload8(0, col + ((y >> 1) - comp->y)));

        v.even = cur;
        v.odd = cur;
        return v;
    }
    uchar rows[16];
    for (int k = 0; k < 16; k++)
        rows[k] = col[min((y + k) / step, comp->height - 1) - comp->y];
    return convert_short16(vload16(0, rows));
}

// One component at picture column x, rows from y on, in vectors of type: a
// function for each form. Few calls of `column`: a compiler inlines each, and
// that is what it takes longest for.
#define HR__UPSAMPLE(name, type, element, column) \
    static inline type name(__global const struct hr__kernel_component *comp, \
                            __global const uchar *work, int x, int y) \
    { \
        uint fancy = comp->fancy; \
        int i = x / (int)comp->step_x; \
        type a = column(comp, work, i, y), b; \
        \
        if (!(fancy & HR__FANCY_X)) { \
            if (fancy & HR__FANCY_Y) { \
                a.odd += (element)(1); \
                a = (a + (element)(1)) >> (type)(2); \
            } \
            return a; \
        } \
        \
        int right = x & 1; \
        int beside = clamp(right ? i + 1 : i - 1, 0, comp->width - 1); \
        b = column(comp, work, beside, y); \
        a *= (type)(3); \
        if (fancy & HR__FANCY_Y) \
            return (a + b + (type)((element)(8 - right))) >> (type)(4); \
        return (a + b + (type)((element)(1 + right))) >> (type)(2); \
    }
HR__UPSAMPLE(hr__upsample, short16, short, hr__column)

// Pillow src/libImaging/Convert.c rgb2l.
#define HR__LUMA(n, r, g, b) \
    convert_uchar##n(((r) * 19595 + (g) * 38470 + (b) * 7471 + 32768) >> 16)

// 16 fraction bits, libjpeg-turbo src/jdcolor.c. r, g, b are changed.
#define HR__YCC_TO_RGB(n, r, g, b) \
    do { \
        int##n yy = r, cb = g - 128, cr = b - 128; \
        int##n low = (int##n)(0), high = (int##n)(255); \
        \
        r = clamp(yy + ((cr * 91881 + 32768) >> 16), low, high); \
        g = clamp(yy + ((cb * -22554 - cr * 46802 + 32768) >> 16), low, high); \
        b = clamp(yy + ((cb * 116130 + 32768) >> 16), low, high); \
    } while (0)

// HR__LANES rows from `src` on, of which there are that many.
static inline uchar16 hr__down(__global const uchar *src, uint next, int rows)
{
    uchar16 column;

    for (int k = 0; k < 16; k++)
        ((uchar *)&column)[k] = src[(uint)min(k, rows - 1) * next];
    return column;
}

// The samples of another engine's planes, of one component after the other.
__kernel void hr_planes(__global const uint *restrict plan, uint list,
                        __global const uchar *restrict in,
                        __global uchar *restrict work)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    __global const struct hr__kernel_component *comp = pic->comp;

    if (job.item >= pic->num_blocks)
        return;
    comp += job.item >= comp[0].end;
    comp += job.item >= comp->end;

    uint item = job.item - comp->begin, strips = hr__strips(comp->rows);
    uint part = item / strips, strip = item - part * strips;
    int from = (int)part * HR__PIXEL_COLUMNS;
    int to = min(from + HR__PIXEL_COLUMNS, comp->cols);
    __global const uchar *src =
        in + comp->samples + strip * 16 * comp->samples_y;

    for (int i = from; i < to; i++)
        HR__AT(uchar16, work + comp->plane + (uint)i * comp->stride +
                            strip * 16) =
            hr__down(src + (uint)i * comp->samples_x, comp->samples_y,
                     comp->rows - (int)strip * 16);
}

__kernel void hr_color(__global const uint *restrict plan, uint list,
                       __global uchar *restrict work)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    uint strips = hr__strips(pic->h), part = job.item / strips;
    uint strip = job.item - part * strips;
    uint planes = pic->planes, color = pic->color;
    uint stride = pic->rgb_stride, plane = pic->rgb_plane;
    bool turn = pic->flags & HR__TURNED;
    int columns = turn ? HR__LANES : HR__COLOR_COLUMNS;
    int from = (int)part * columns, y = pic->y + (int)strip * 16;
    int to = min(from + columns, pic->w);
    uchar16 tile[3][16];

    for (int i = from; i < to; i++) {
        __global uchar *out =
            work + pic->rgb + (uint)i * stride + strip * 16;
        int16 v[3], r, g, b;

        for (int c = 0; c < 3; c++)
            v[c] = convert_int16(
                hr__upsample(&pic->comp[c], work, pic->x + i, y));
        r = v[0], g = v[1], b = v[2];
        if (color == HR__KERNEL_YCC)
            HR__YCC_TO_RGB(16, r, g, b);
        if (planes == 1)
            r = convert_int16(HR__LUMA(16, r, g, b));
        if (turn) {
            tile[0][i - from] = convert_uchar16(r);
            tile[1][i - from] = convert_uchar16(g);
            tile[2][i - from] = convert_uchar16(b);
            continue;
        }
        HR__AT(uchar16, out) = convert_uchar16(r);
        if (planes == 1)
            continue;
        HR__AT(uchar16, out + plane) = convert_uchar16(g);
        HR__AT(uchar16, out + 2 * plane) = convert_uchar16(b);
    }
    if (!turn || from >= to)
        return;
    for (uint c = 0; c < planes; c++) {
        __global uchar *out = work + pic->rgb + c * plane +
                              strip * 16 * stride + (uint)from;

        hr__transpose16(tile[c]);
        for (uint k = 0; k < 16; k++)
            HR__AT(uchar16, out + k * stride) = tile[c][k];
    }
}

__kernel void hr_pixels(__global const uint *restrict plan, uint list,
                        __global const uchar *restrict in,
                        __global uchar *restrict work)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    uint strips = hr__strips(pic->h), part = job.item / strips;
    uint strip = job.item - part * strips;
    uint planes = pic->planes, next = pic->pixels_y;
    int from = (int)part * HR__PIXEL_COLUMNS;
    int to = min(from + HR__PIXEL_COLUMNS, pic->w);
    int rows = pic->h - (int)strip * 16;

    for (int i = from; i < to; i++)
        for (uint c = 0; c < planes; c++) {
            __global const uchar *src = in + pic->pixels +
                                        (uint)i * pic->pixels_x +
                                        c * pic->pixels_c + strip * 16 * next;

            HR__AT(uchar16, work + pic->rgb + c * pic->rgb_plane +
                                (uint)i * pic->rgb_stride + strip * 16) =
                hr__down(src, next, rows);
        }
}
