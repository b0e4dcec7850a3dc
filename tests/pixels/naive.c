// SPDX-License-Identifier: Apache-2.0
// Formulas: Pillow 9.4 src/libImaging/Resample.c and Geometry.c, torchvision
// transforms/functional.py; the ITU-R 601 and EXIF parts are not needed here.
#include "naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Filters --------------------------------------------------------------

static double sinc(double x)
{
    return x == 0.0 ? 1.0 : sin(x * M_PI) / (x * M_PI);
}

static double kernel(enum hr_filter filter, double x)
{
    double a = fabs(x);

    switch (filter) {
    case HR_BOX:
        return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case HR_BILINEAR:
        return a < 1.0 ? 1.0 - a : 0.0;
    case HR_HAMMING:
        if (a == 0.0)
            return 1.0;
        return a < 1.0 ? sinc(a) * (0.54f + 0.46f * cos(a * M_PI)) : 0.0;
    case HR_BICUBIC:
        if (a < 1.0)
            return (1.5 * a - 2.5) * a * a + 1;
        return a < 2.0 ? (((a - 5) * a + 8) * a - 4) * -0.5 : 0.0;
    case HR_LANCZOS:
        return x >= -3.0 && x < 3.0 ? sinc(a) * sinc(a / 3) : 0.0;
    default:
        return 0.0;
    }
}

static double reach(enum hr_filter filter)
{
    switch (filter) {
    case HR_BOX:
        return 0.5;
    case HR_BICUBIC:
        return 2.0;
    case HR_LANCZOS:
        return 3.0;
    default:
        return 1.0;
    }
}

// A stretched filter reaches further; a filter that enlarges is not stretched.
static double stretch(int out, double box0, double box1)
{
    double scale = (box1 - box0) / out;

    return scale < 1.0 ? 1.0 : scale;
}

int naive_taps(int in, int out, double box0, double box1, enum hr_filter filter)
{
    int n = (int)ceil(reach(filter) * stretch(out, box0, box1)) * 2 + 1;

    return n < in ? n : in;
}

static void weights(int in, int out, double box0, double box1,
                    enum hr_filter filter, int i, int *lo, int *n, double *v)
{
    double scale = (box1 - box0) / out, fs = stretch(out, box0, box1);
    double center = box0 + (i + 0.5) * scale, support = reach(filter) * fs;
    double inverse = 1.0 / fs, sum = 0.0;
    int from = (int)(center - support + 0.5);
    int to = (int)(center + support + 0.5);

    from = from < 0 ? 0 : from;
    to = to > in ? in : to;
    for (int k = from; k < to; k++)
        sum += kernel(filter, (k - center + 0.5) * inverse);
    for (int k = from; k < to; k++) {
        v[k - from] = kernel(filter, (k - center + 0.5) * inverse);
        if (sum != 0.0)
            v[k - from] /= sum;
    }
    *lo = from;
    *n = to > from ? to - from : 0;
}

static int32_t rounded(double v, int bits)
{
    return (int32_t)(v * (1 << bits) + (v < 0 ? -0.5 : 0.5));
}

void naive_weights(int in, int out, double box0, double box1,
                   enum hr_filter filter, int i, int *lo, int *n, int32_t *w)
{
    int taps = naive_taps(in, out, box0, box1, filter);
    double *v = calloc((size_t)taps, sizeof(*v));

    weights(in, out, box0, box1, filter, i, lo, n, v);
    for (int k = 0; k < *n; k++)
        w[k] = rounded(v[k], 22);
    free(v);
}

int naive_torch_weights(int in, int out, enum hr_filter filter, int *lo, int *n,
                        int32_t *w)
{
    size_t taps = (size_t)naive_taps(in, out, 0, in, filter);
    double *v = calloc((size_t)out * taps, sizeof(*v)), most = 0;
    int bits = 0;

    for (int i = 0; i < out; i++)
        weights(in, out, 0, in, filter, i, &lo[i], &n[i], v + (size_t)i * taps);
    for (size_t k = 0; k < (size_t)out * taps; k++)
        most = v[k] > most ? v[k] : most;
    // One more would not fit into an int16_t.
    while (bits < 22 && rounded(most, bits + 1) <= INT16_MAX)
        bits++;
    for (size_t k = 0; k < (size_t)out * taps; k++)
        w[k] = rounded(v[k], bits);
    free(v);
    return bits;
}

int naive_torch_nearest(int in, int out, int i)
{
    float scale = (float)in / (float)out, pos = floorf((float)i * scale);

    return pos > (float)(in - 1) ? in - 1 : (int)pos;
}

int naive_nearest(int in, int out, double box0, double box1, int i)
{
    double scale = (box1 - box0) / out, pos = box0 + scale * 0.5;

    for (int k = 0; k < i; k++)
        pos += scale;
    return pos < 0.0 || (int)pos >= in ? -1 : (int)pos;
}

// ---- Pictures -------------------------------------------------------------

static struct picture blank(int w, int h, int c)
{
    struct picture p = {w, h, c, calloc((size_t)w * (size_t)h, (size_t)c)};

    if (!p.data)
        abort();
    return p;
}

static uint8_t *at(const struct picture *p, int x, int y)
{
    return p->data + ((size_t)y * (size_t)p->w + (size_t)x) * (size_t)p->c;
}

static void replace(struct picture *p, struct picture with)
{
    free(p->data);
    *p = with;
}

static struct picture transposed(const struct picture *p)
{
    struct picture t = blank(p->h, p->w, p->c);

    for (int y = 0; y < t.h; y++)
        for (int x = 0; x < t.w; x++)
            memcpy(at(&t, x, y), at(p, y, x), (size_t)p->c);
    return t;
}

uint8_t naive_round(int64_t sum)
{
    sum = (sum + (1 << 21)) >> 22;
    return sum < 0 ? 0 : sum > 255 ? 255 : (uint8_t)sum;
}

// Along x only; along y it is the same on the transposed picture.
static void resize_x(struct picture *p, int out, double box0, double box1,
                     enum hr_filter filter)
{
    struct picture r = blank(out, p->h, p->c);
    int taps = naive_taps(p->w, out, box0, box1, filter), lo, n;
    int32_t *w = malloc(sizeof(*w) * (size_t)taps);

    for (int i = 0; i < out; i++) {
        naive_weights(p->w, out, box0, box1, filter, i, &lo, &n, w);
        for (int y = 0; y < p->h; y++)
            for (int c = 0; c < p->c; c++) {
                int64_t sum = 0;

                for (int k = 0; k < n; k++)
                    sum += (int64_t)w[k] * at(p, lo + k, y)[c];
                at(&r, i, y)[c] = naive_round(sum);
            }
    }
    free(w);
    replace(p, r);
}

// The same with torch's weights, which have bits of their own.
static void torch_x(struct picture *p, int out, enum hr_filter filter)
{
    struct picture r = blank(out, p->h, p->c);
    int taps = naive_taps(p->w, out, 0, p->w, filter);
    int *lo = calloc((size_t)out, sizeof(*lo)), *n = calloc((size_t)out, 4);
    int32_t *w = calloc((size_t)out * (size_t)taps, sizeof(*w));
    int bits = naive_torch_weights(p->w, out, filter, lo, n, w);

    for (int i = 0; i < out * p->h * p->c; i++) {
        int x = i / p->c % out, y = i / p->c / out;
        int32_t sum = bits ? 1 << (bits - 1) : 0;

        for (int k = 0; k < n[x]; k++)
            sum += w[x * taps + k] * at(p, lo[x] + k, y)[i % p->c];
        sum >>= bits;
        r.data[i] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
    free(w);
    free(n);
    free(lo);
    replace(p, r);
}

static void resize_nearest(struct picture *p, int w, int h, const double *box,
                           bool torch)
{
    struct picture r = blank(w, h, p->c);

    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int sx = torch ? naive_torch_nearest(p->w, w, x)
                           : naive_nearest(p->w, w, box[0], box[2], x);
            int sy = torch ? naive_torch_nearest(p->h, h, y)
                           : naive_nearest(p->h, h, box[1], box[3], y);

            if (sx >= 0 && sy >= 0)
                memcpy(at(&r, x, y), at(p, sx, sy), (size_t)p->c);
        }
    replace(p, r);
}

static void turn(struct picture *p)
{
    replace(p, transposed(p));
}

static void resize_y(struct picture *p, int out, double box0, double box1,
                     enum hr_filter filter)
{
    turn(p);
    resize_x(p, out, box0, box1, filter);
    turn(p);
}

enum hr_reference naive_reference = HR_REFERENCE_PILLOW_13;

// Pillow 13: "if the height shrinks, and by more than twice as much as the
// width". Whole numbers, so that half of the height's loss is not rounded.
static bool vertical_first(const struct picture *p, const struct hr_resize *op,
                           int w, int h)
{
    int lost_w = p->w - w, lost_h = p->h - h;

    if (op->order != HR_ORDER_REFERENCE)
        return op->order == HR_ORDER_VERTICAL;
    if (naive_reference == HR_REFERENCE_PILLOW_12 || lost_h <= 0)
        return false;
    return lost_w <= 0 || lost_h - lost_w > lost_w;
}

static void torch_resize(struct picture *p, int w, int h, enum hr_filter filter)
{
    if (w != p->w)
        torch_x(p, w, filter);
    turn(p);
    if (h != p->w)
        torch_x(p, h, filter);
    turn(p);
}

static bool resize(struct picture *p, const struct hr_resize *op)
{
    bool torch = op->order == HR_ORDER_TORCH ||
                 (!op->order && naive_reference == HR_REFERENCE_TORCH_2);
    double box[4] = {0, 0, p->w, p->h};
    int w = op->w, h = op->h, s = op->short_side;
    bool x, y;

    if (s && p->w <= p->h)
        w = s, h = (int)((double)((int64_t)s * p->h) / p->w);
    else if (s)
        h = s, w = (int)((double)((int64_t)s * p->w) / p->h);
    if (w < 1 || h < 1 || w > 1 << 18 || h > 1 << 18)
        return false;
    if (op->box[0] || op->box[1] || op->box[2] || op->box[3])
        for (int i = 0; i < 4; i++)
            box[i] = op->box[i];
    if (box[0] < 0 || box[1] < 0 || box[2] > p->w || box[3] > p->h ||
        box[2] <= box[0] || box[3] <= box[1])
        return false;
    if (torch &&
        (op->filter == HR_BOX || op->filter == HR_HAMMING || op->box[2] > 0))
        return false;
    // A pass runs if there is anything to do for it.
    x = w != p->w || box[0] != 0 || box[2] != w;
    y = h != p->h || box[1] != 0 || box[3] != h;
    if (op->filter == HR_NEAREST) {
        if (x || y)
            resize_nearest(p, w, h, box, torch);
        return true;
    }
    if (torch) {
        torch_resize(p, w, h, op->filter);
        return true;
    }
    if (y && vertical_first(p, op, w, h)) {
        resize_y(p, h, box[1], box[3], op->filter);
        y = false;
    }
    if (x)
        resize_x(p, w, box[0], box[2], op->filter);
    if (y)
        resize_y(p, h, box[1], box[3], op->filter);
    return true;
}

// A size is tried after the other: the one that is nearest to the shape, and
// of two equal ones the smaller. Pillow 9.4 Image.thumbnail, ImageOps.contain.
static bool fit(struct picture *p, const struct hr_fit *op)
{
    double ratio = (double)p->w / p->h, best = INFINITY;
    struct hr_resize to = {.w = op->w, .h = op->h, .filter = op->filter};
    bool wide = (double)op->w / op->h < ratio;

    if (op->enlarge && (double)op->w / op->h == ratio)
        return resize(p, &to);
    if (op->enlarge && wide)
        to.h = (int)nearbyint((double)p->h / p->w * op->w);
    else if (op->enlarge)
        to.w = (int)nearbyint(ratio * op->h);
    if (op->enlarge)
        return resize(p, &to);
    if (op->w >= p->w && op->h >= p->h)
        return true;
    for (int n = 1; n <= (wide ? op->h : op->w); n++) {
        double now = fabs(ratio -
                          (wide ? (double)op->w / n : (double)n / op->h));

        if (now >= best)
            continue;
        best = now;
        *(wide ? &to.h : &to.w) = n;
    }
    return resize(p, &to);
}

// round(), half to even, as Python 3.
static int half_even(int twice)
{
    int low = (twice - (twice & 1)) / 2;

    return twice & 1 && low & 1 ? low + 1 : low;
}

static bool crop(struct picture *p, const struct hr_crop *op)
{
    int x0 = op->x, y0 = op->y;
    struct picture r;

    if (op->center) {
        x0 = op->w > p->w ? -((op->w - p->w) / 2) : half_even(p->w - op->w);
        y0 = op->h > p->h ? -((op->h - p->h) / 2) : half_even(p->h - op->h);
    }
    if (!op->pad &&
        (x0 < 0 || y0 < 0 || x0 + op->w > p->w || y0 + op->h > p->h))
        return false;
    r = blank(op->w, op->h, p->c);
    for (int y = 0; y < r.h; y++)
        for (int x = 0; x < r.w; x++)
            if (x0 + x >= 0 && x0 + x < p->w && y0 + y >= 0 && y0 + y < p->h)
                memcpy(at(&r, x, y), at(p, x0 + x, y0 + y), (size_t)p->c);
    replace(p, r);
    return true;
}

static void flip(struct picture *p, const struct hr_flip *op)
{
    struct picture r;

    if (op->transpose)
        turn(p);
    r = blank(p->w, p->h, p->c);
    for (int y = 0; y < r.h; y++)
        for (int x = 0; x < r.w; x++)
            memcpy(at(&r, x, y),
                   at(p, op->horizontal ? p->w - 1 - x : x,
                      op->vertical ? p->h - 1 - y : y),
                   (size_t)p->c);
    replace(p, r);
}

// Turns the picture as viewers do for EXIF orientations 2 .. 8 (TIFF 6.0, tag
// 274).
static void orient(struct picture *p, int orientation)
{
    static const struct hr_flip turns[9] = {
        [2] = {.horizontal = true},
        [3] = {.horizontal = true, .vertical = true},
        [4] = {.vertical = true},
        [5] = {.transpose = true},
        [6] = {.transpose = true, .horizontal = true},
        [7] = {.transpose = true, .horizontal = true, .vertical = true},
        [8] = {.transpose = true, .vertical = true},
    };

    if (orientation >= 2 && orientation <= 8)
        flip(p, &turns[orientation]);
}

bool naive_apply(struct picture *p, const struct hr_op *op, int orientation)
{
    switch (op->type) {
    case HR_OP_DECODE:
        if (op->decode.apply_orientation)
            orient(p, orientation);
        return true;
    case HR_OP_CROP:
        return crop(p, &op->crop);
    case HR_OP_RESIZE:
        return resize(p, &op->resize);
    case HR_OP_FIT:
        return fit(p, &op->fit);
    case HR_OP_FLIP:
        flip(p, &op->flip);
        return true;
    case HR_OP_NORMALIZE:
        return true;
    default:  // what has to be drawn first
        return false;
    }
}
