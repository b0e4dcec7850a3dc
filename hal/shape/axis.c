// SPDX-License-Identifier: Apache-2.0
// Weights of one axis, in doubles and in the order of operations of Pillow
// 9.4 src/libImaging/Resample.c (precompute_coeffs, normalize_coeffs_8bpc)
// and Geometry.c (ImagingScaleAffine, for NEAREST), so that not one bit of one
// weight differs. Never compile this with contraction or fast-math.
//
// torch has the same filters in doubles (PyTorch 2.15 aten/src/ATen/native/cpu/
// UpSampleKernel.cpp, _compute_index_ranges_int16_weights; NEAREST in float32)
// and rounds them to 16 bits, with as many behind the point as the largest
// weight of the axis leaves. Here they are shifted to 22, which changes no
// result: (half + sum) >> p is ((half + sum) << (22 - p)) >> 22.
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "hal/shape/shape.h"

enum { PRECISION_BITS = 32 - 8 - 2, TORCH_LIMIT = 1 << 15 };

static double filter_box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double filter_bilinear(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double filter_hamming(double x)
{
    x = fabs(x);
    if (x == 0.0)
        return 1.0;
    if (x >= 1.0)
        return 0.0;
    x = x * M_PI;
    // Float literals, as in the reference.
    return sin(x) / x * (0.54f + 0.46f * cos(x));
}

static double filter_bicubic(double x)
{
    const double a = -0.5;

    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

static double sinc(double x)
{
    if (x == 0.0)
        return 1.0;
    x = x * M_PI;
    return sin(x) / x;
}

static double filter_lanczos(double x)
{
    return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

static const struct {
    double (*weight)(double x);
    double support;
} filters[HR_NUM_FILTERS] = {
    [HR_BILINEAR] = {filter_bilinear, 1.0},
    [HR_NEAREST] = {NULL, 0.0},
    [HR_BOX] = {filter_box, 0.5},
    [HR_HAMMING] = {filter_hamming, 1.0},
    [HR_BICUBIC] = {filter_bicubic, 2.0},
    [HR_LANCZOS] = {filter_lanczos, 3.0},
};

// One axis of a step, x and y alike.
struct view {
    int in, src, len;  // input size; start and length of what is kept
    int rs;            // resized length
    int win, win_len;  // wanted part of it, may leave it
    double box0, scale;
    bool pre, post, filtered, nearest, torch;
    double (*weight)(double x);
    int bits;  // of a weight, behind the point
    double support, filterscale;
    int first, count;  // outputs of win that are inside, in rs order
    int taps;
};

static struct view view_of(const struct hr__step *s, int which)
{
    bool y = which == 1;
    struct view v = {
        .in = y ? s->in_h : s->in_w,
        .src = y ? s->src.y : s->src.x,
        .len = y ? s->src.h : s->src.w,
        .rs = y ? s->rs_h : s->rs_w,
        .win = y ? s->win.y : s->win.x,
        .win_len = y ? s->win.h : s->win.w,
        .pre = y ? s->pre_y : s->pre_x,
        // A transposed output is mirrored along its own axes.
        .post = y != s->transpose ? s->post_y : s->post_x,
    };
    float box0 = s->box[y], box1 = s->box[y + 2];
    int end = v.win + v.win_len < v.rs ? v.win + v.win_len : v.rs;

    v.first = v.win > 0 ? v.win : 0;
    v.count = end > v.first ? end - v.first : 0;
    v.taps = 1;
    // Without resize src was never narrowed: the window does the cropping.
    if (!s->resized)
        return v;
    // Pillow: a pass runs if the size or the box differs along its axis; but
    // NEAREST always goes through the affine transform.
    v.filtered = v.rs != v.len || box0 || box1 != (float)v.rs;
    v.nearest = s->filter == HR_NEAREST;
    v.torch = s->torch;
    v.weight = filters[s->filter].weight;
    v.bits = PRECISION_BITS;
    v.box0 = box0;
    v.scale = (double)(box1 - box0) / v.rs;
    v.filterscale = v.scale < 1.0 ? 1.0 : v.scale;
    v.support = filters[s->filter].support * v.filterscale;
    if (v.filtered && !v.nearest)
        v.taps = (int)ceil(v.support) * 2 + 1;
    if (v.taps > v.len)
        v.taps = v.len;
    return v;
}

static size_t round8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

size_t hr__axis_size(const struct hr__step *step, int which)
{
    struct view v = view_of(step, which);
    size_t n = (size_t)v.count;

    return round8(2 * n * sizeof(int32_t)) +
           n * (size_t)((v.taps + 3) & ~3) * sizeof(int32_t) +
           round8((size_t)v.taps * sizeof(double));
}

int hr__axis_taps(const struct hr__step *step, int which)
{
    return view_of(step, which).taps;
}

static int quantise(double w, int bits)
{
    int whole = w < 0 ? (int)(-0.5 + w * (1 << bits))
                      : (int)(0.5 + w * (1 << bits));

    return whole * (1 << (PRECISION_BITS - bits));
}

// The inputs under the filter of resized sample i. Both ends only grow with i.
struct under {
    double center;
    int from, to;
};

static struct under under(const struct view *v, int i)
{
    double center = v->box0 + (i + 0.5) * v->scale;
    int from = (int)(center - v->support + 0.5);
    int to = (int)(center + v->support + 0.5);

    return (struct under){center, from < 0 ? 0 : from,
                          to > v->len ? v->len : to};
}

// Weights of resized sample i; k is scratch for v->taps doubles. Zero weights
// at both ends are dropped: they add nothing to an integer sum.
static inline __attribute__((always_inline)) void filter_one(
    const struct view *v, double (*weight)(double x), int i, double *k,
    int32_t *lo, int32_t *n, int32_t *w)
{
    struct under u = under(v, i);
    double center = u.center, sum = 0.0, inv = 1.0 / v->filterscale;
    int from = u.from, to = u.to, x, skip = 0;

    for (x = 0; x < to - from; x++) {
        k[x] = weight((x + from - center + 0.5) * inv);
        sum += k[x];
    }
    for (x = 0; x < to - from; x++) {
        if (sum != 0.0)
            k[x] /= sum;
        w[x] = quantise(k[x], v->bits);
    }
    while (x > 1 && w[x - 1] == 0)
        x--;
    while (skip < x - 1 && w[skip] == 0)
        skip++;
    if (x < 1) {  // no input under the filter: the sum is 0
        w[0] = 0;
        x = 1;
        from = from < v->len ? from : v->len - 1;
    }
    if (skip)
        memmove(w, w + skip, (size_t)(x - skip) * sizeof(*w));
    *lo = from + skip;
    *n = x - skip;
}

// (The filter of training recipes is not called, but inlined.)
static inline __attribute__((always_inline)) void fill_filtered(
    const struct view *v, double (*weight)(double x), struct hr__axis *a,
    double *k)
{
    for (int o = 0; o < v->count; o++)
        filter_one(v, weight, v->first + o, k, &a->lo[o], &a->n[o],
                   a->w + (size_t)o * a->stride);
}

static void fill_shifted(const struct view *v, struct hr__axis *a)
{
    for (int o = 0; o < v->count; o++) {
        a->lo[o] = v->first + o;
        a->n[o] = 1;
        a->w[(size_t)o * a->stride] = 1 << PRECISION_BITS;
    }
}

// The bits behind the point that torch has for the axis: of all its outputs,
// whatever the window keeps of them.
static int count_torch_bits(const struct view *v)
{
    double inv = 1.0 / v->filterscale, most = 0.0;
    int bits = 0;

    // (No weight reaches 2, so from 1 on the count is known: where a picture
    // grows, as may be to millions of outputs, with the first of them.)
    for (int i = 0; i < v->rs && (int)(0.5 + most * TORCH_LIMIT) < TORCH_LIMIT;
         i++) {
        struct under u = under(v, i);
        double sum = 0.0, top = 0.0;

        for (int x = 0; x < u.to - u.from; x++) {
            double k = v->weight((x + u.from - u.center + 0.5) * inv);

            sum += k;
            top = k > top ? k : top;
        }
        top = sum != 0.0 ? top / sum : top;
        most = top > most ? top : most;
    }
    while (bits < PRECISION_BITS &&
           (int)(0.5 + most * (1 << (bits + 1))) < TORCH_LIMIT)
        bits++;
    return bits;
}

// The count takes half as long as all weights, and lists of random crops ask
// for a few hundred lengths: each entry is length, result, filter and count.
static _Atomic uint64_t known_bits[1024];

static void find_torch_bits(struct view *v, enum hr_filter filter)
{
    uint64_t key = (uint64_t)v->len << 36 | (uint64_t)v->rs << 8 |
                   (uint64_t)filter << 5;
    _Atomic uint64_t *entry =
        &known_bits[(v->len * 5u + v->rs * 67u + (unsigned)filter * 331u) %
                    1024];
    uint64_t known;

    if (!v->torch || !v->filtered || v->nearest)
        return;
    known = atomic_load_explicit(entry, memory_order_relaxed);
    if ((known & ~(uint64_t)31) != key) {
        known = key | (uint64_t)count_torch_bits(v);
        atomic_store_explicit(entry, known, memory_order_relaxed);
    }
    v->bits = (int)(known & 31);
}

static void fill_torch_nearest(const struct view *v, struct hr__axis *a)
{
    float scale = (float)v->len / (float)v->rs;

    for (int o = 0; o < v->count; o++) {
        int at = (int)((float)(v->first + o) * scale);

        a->n[o] = 1;
        a->w[o * a->stride] = 1 << PRECISION_BITS;
        a->lo[o] = at < v->len ? at : v->len - 1;
    }
}

// Geometry.c walks the positions by adding the scale; so do we.
static void fill_nearest(const struct view *v, struct hr__axis *a)
{
    double pos = v->box0 + v->scale * 0.5;

    for (int i = 0; i < v->first + v->count; i++, pos += v->scale) {
        int at = pos < 0.0 ? -1 : (int)pos;
        int o = i - v->first;

        if (o < 0)
            continue;
        a->n[o] = 1;
        // Outside by rounding: Pillow leaves the pixel black.
        a->w[o * a->stride] = at >= 0 && at < v->len ? 1 << PRECISION_BITS : 0;
        a->lo[o] = at < 0 ? 0 : at < v->len ? at : v->len - 1;
    }
}

static void reverse_weights(int32_t *w, int n)
{
    for (int i = 0, j = n - 1; i < j; i++, j--) {
        int32_t t = w[i];

        w[i] = w[j];
        w[j] = t;
    }
}

// The filter ran over the mirrored source: the same weights, read backwards.
static void apply_pre(const struct view *v, struct hr__axis *a)
{
    for (int o = 0; o < a->out; o++) {
        if (v->pre) {
            a->lo[o] = v->len - a->lo[o] - a->n[o];
            reverse_weights(a->w + (size_t)o * a->stride, a->n[o]);
        }
        a->lo[o] += v->src;
    }
}

static void apply_post(const struct view *v, struct hr__axis *a)
{
    if (!v->post)
        return;
    for (int i = 0, j = a->out - 1; i < j; i++, j--) {
        int32_t *wi = a->w + (size_t)i * a->stride;
        int32_t *wj = a->w + (size_t)j * a->stride, t;

        t = a->lo[i], a->lo[i] = a->lo[j], a->lo[j] = t;
        t = a->n[i], a->n[i] = a->n[j], a->n[j] = t;
        for (int k = 0; k < a->stride; k++)
            t = wi[k], wi[k] = wj[k], wj[k] = t;
    }
    a->pad_before = v->win_len - a->out - a->pad_before;
}

// Facts that the engines ask for; weights behind n are cleared here.
static void summarise(struct hr__axis *a)
{
    int32_t one = 1 << PRECISION_BITS;

    a->taps = 1;
    a->identity = true;
    a->src_lo = a->out ? INT32_MAX : 0;
    a->src_hi = 0;
    for (int o = 0; o < a->out; o++) {
        int32_t *w = a->w + (size_t)o * a->stride;

        for (int k = a->n[o]; k < a->stride; k++)
            w[k] = 0;
        if (a->n[o] > a->taps)
            a->taps = a->n[o];
        if (a->lo[o] < a->src_lo)
            a->src_lo = a->lo[o];
        if (a->lo[o] + a->n[o] > a->src_hi)
            a->src_hi = a->lo[o] + a->n[o];
        if (a->n[o] != 1 || w[0] != one || a->lo[o] != a->lo[0] + o)
            a->identity = false;
    }
}

void hr__axis_build(struct hr__axis *a, const struct hr__step *step, int which,
                    void *mem)
{
    struct view v = view_of(step, which);
    char *at = mem;
    double *k;

    *a = (struct hr__axis){.out = v.count, .stride = (v.taps + 3) & ~3};
    a->pad_before = v.first - v.win;
    if (a->pad_before > v.win_len)
        a->pad_before = v.win_len;
    a->lo = (int32_t *)at;
    a->n = a->lo + v.count;
    at += round8(2 * (size_t)v.count * sizeof(int32_t));
    a->w = (int32_t *)at;
    k = (double *)(at + (size_t)v.count * (size_t)a->stride * sizeof(int32_t));
    find_torch_bits(&v, step->filter);
    if (v.nearest)
        (v.torch ? fill_torch_nearest : fill_nearest)(&v, a);
    else if (!v.filtered)
        fill_shifted(&v, a);
    else if (v.weight == filter_bilinear)
        fill_filtered(&v, filter_bilinear, a, k);
    else
        fill_filtered(&v, v.weight, a, k);
    apply_pre(&v, a);
    apply_post(&v, a);
    summarise(a);
}

void hr__axis_reach(const struct hr__step *step, int which, void *mem, int *lo,
                    int *hi)
{
    struct view v = view_of(step, which);
    int end = v.first + v.count, at, n;
    struct hr__axis a;
    int32_t *w;

    if (!v.filtered || v.nearest || !v.count) {
        hr__axis_build(&a, step, which, mem);
        *lo = a.src_lo;
        *hi = a.src_hi;
        return;
    }
    w = (int32_t *)((double *)mem + v.taps);
    *lo = INT32_MAX;
    *hi = 0;
    find_torch_bits(&v, step->filter);
    // As zero weights are dropped, an output may read less than what is under
    // its filter, and its neighbour more.
    for (int i = v.first; i < end && under(&v, i).from < *lo; i++) {
        filter_one(&v, v.weight, i, mem, &at, &n, w);
        *lo = at < *lo ? at : *lo;
    }
    for (int i = end - 1; i >= v.first && under(&v, i).to > *hi; i--) {
        filter_one(&v, v.weight, i, mem, &at, &n, w);
        *hi = at + n > *hi ? at + n : *hi;
    }
    if (v.pre) {
        at = v.len - *hi;
        *hi = v.len - *lo;
        *lo = at;
    }
    *lo += v.src;
    *hi += v.src;
}

int hr__axis_alone(const struct hr__step *step, int which, struct hr__step *to)
{
    struct view v = view_of(step, which);
    int last = v.first + v.count;

    memset(to, 0, sizeof(*to));
    to->pre_x = v.pre;
    to->post_x = v.post;
    to->win.w = v.win_len;
    if (!v.filtered && !v.nearest) {  // inputs as they are: which, is no matter
        to->in_w = to->src.w = to->rs_w = v.count;
        to->win.x = v.win - v.first;
        return v.src + (v.pre ? v.len - last : v.first);
    }
    to->in_w = to->src.w = v.len;
    to->rs_w = v.rs;
    to->win.x = v.win;
    to->resized = true;
    to->filter = step->filter;
    to->torch = step->torch;
    to->box[0] = step->box[which];
    to->box[2] = step->box[which + 2];
    return v.src;
}
