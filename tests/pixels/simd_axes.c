// SPDX-License-Identifier: Apache-2.0
#include "simd_axes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// xorshift64*
static uint64_t rng = 1;

void test_rnd_seed(uint64_t seed)
{
    rng = seed ? seed : 1;
}

uint32_t test_rnd(void)
{
    rng ^= rng >> 12;
    rng ^= rng << 25;
    rng ^= rng >> 27;
    return (uint32_t)((rng * 0x2545f4914f6cdd1dull) >> 32);
}

int test_rnd_int(int low, int high)
{
    return low + (int)(test_rnd() % (uint32_t)(high - low + 1));
}

// Filters of Pillow src/libImaging/Resample.c.
static double f_box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1 : 0;
}

static double f_bilinear(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double f_hamming(double x)
{
    x = fabs(x);
    if (x == 0)
        return 1;
    if (x >= 1)
        return 0;
    x *= M_PI;
    return sin(x) / x * (0.54f + 0.46f * cos(x));
}

static double f_bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

static double sinc(double x)
{
    return x == 0 ? 1 : sin(x * M_PI) / (x * M_PI);
}

static double f_lanczos(double x)
{
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static const struct filter {
    const char *name;
    double (*f)(double);
    double support;
} filters[] = {
    {"box", f_box, 0.5},       {"bilinear", f_bilinear, 1},
    {"hamming", f_hamming, 1}, {"bicubic", f_bicubic, 2},
    {"lanczos", f_lanczos, 3},
};
static void axis_alloc(struct axis *x, int in, int out, int taps)
{
    int stride = (taps + 3) & ~3;
    x->lo = calloc((size_t)out, sizeof *x->lo);
    x->n = calloc((size_t)out, sizeof *x->n);
    x->w = calloc((size_t)out * (size_t)stride, sizeof *x->w);
    if (!x->lo || !x->n || !x->w)
        abort();
    x->a = (struct cpu_axis){.in = in,
                             .out = out,
                             .taps = taps,
                             .stride = stride,
                             .lo = x->lo,
                             .n = x->n,
                             .w = x->w};
}

void test_axis_finish(struct axis *x)
{
    free(x->lo);
    free(x->n);
    free(x->w);
}

// `taps` was an upper bound; the kernels may rely on its being the largest n.
static void axis_tighten(struct axis *x)
{
    x->a.taps = 1;
    for (int i = 0; i < x->a.out; i++)
        if (x->n[i] > x->a.taps)
            x->a.taps = x->n[i];
    int stride = (x->a.taps + 3) & ~3;
    for (int i = 0; i < x->a.out; i++)
        memmove(x->w + (size_t)i * stride, x->w + (size_t)i * x->a.stride,
                (size_t)stride * sizeof *x->w);
    x->a.stride = stride;
}

static void weights_of(struct axis *x, int i, const struct filter *f,
                       double center, double fscale)
{
    double k[4096], sum = 0;
    int32_t *w = x->w + (size_t)i * x->a.stride;
    for (int j = 0; j < x->n[i]; j++) {
        k[j] = f->f((j + x->lo[i] - center + 0.5) / fscale);
        sum += k[j];
    }
    for (int j = 0; j < x->n[i]; j++) {
        double v = (sum != 0 ? k[j] / sum : k[j]) * (1 << 22);
        w[j] = (int32_t)(v + (v < 0 ? -0.5 : 0.5));
    }
}

static void axis_nearest(struct axis *x, int in, int out)
{
    axis_alloc(x, in, out, 1);
    for (int i = 0; i < out; i++) {
        x->lo[i] = (int)((i + 0.5) * in / out);
        x->n[i] = 1;
        x->w[(size_t)i * x->a.stride] = 1 << 22;
    }
}

// Pillow's precompute_coeffs and normalize_coeffs_8bpc.
void test_axis_filter(struct axis *x, int in, int out, int filter)
{
    if (filter == TEST_NEAREST) {
        axis_nearest(x, in, out);
        return;
    }
    const struct filter *f = &filters[filter];
    double scale = (double)in / out, fscale = scale < 1 ? 1 : scale;
    double support = f->support * fscale;
    axis_alloc(x, in, out, (int)ceil(support) * 2 + 1);
    for (int i = 0; i < out; i++) {
        double center = (i + 0.5) * scale;
        int lo = (int)(center - support + 0.5);
        int hi = (int)(center + support + 0.5);
        lo = lo < 0 ? 0 : lo;
        hi = hi > in ? in : hi;
        x->lo[i] = lo;
        x->n[i] = hi - lo < 1 ? 1 : hi - lo;
        if (x->lo[i] + x->n[i] > in)
            x->lo[i] = in - x->n[i];
        weights_of(x, i, f, center, fscale);
    }
    axis_tighten(x);
}

static void axis_identity(struct axis *x, int in, int out, int from)
{
    axis_alloc(x, in, out, 1);
    for (int i = 0; i < out; i++) {
        x->lo[i] = from + i;
        x->n[i] = 1;
        x->w[(size_t)i * x->a.stride] = 1 << 22;
    }
    x->a.identity = true;
}

static void test_axis_mirror(struct axis *x)
{
    int out = x->a.out, stride = x->a.stride;
    for (int i = 0; i < out / 2; i++) {
        int j = out - 1 - i;
        int32_t t = x->lo[i];
        x->lo[i] = x->lo[j];
        x->lo[j] = t;
        t = x->n[i];
        x->n[i] = x->n[j];
        x->n[j] = t;
        for (int k = 0; k < stride; k++) {
            t = x->w[(size_t)i * stride + k];
            x->w[(size_t)i * stride + k] = x->w[(size_t)j * stride + k];
            x->w[(size_t)j * stride + k] = t;
        }
    }
    x->a.identity = x->a.identity && out == 1;
}

// No order, no smoothness; any weights that the contract allows.
static void axis_wild(struct axis *x, int in, int out, int max_taps, int bits)
{
    if (max_taps > in)
        max_taps = in;
    axis_alloc(x, in, out, max_taps);
    int limit = (1 << bits) - 1;
    for (int i = 0; i < out; i++) {
        x->n[i] = test_rnd_int(1, max_taps);
        x->lo[i] = test_rnd_int(0, in - x->n[i]);
        for (int k = 0; k < x->n[i]; k++) {
            int32_t w = test_rnd_int(-limit, limit);
            if (test_rnd() % 4 == 0)
                w = test_rnd() % 2 ? limit : -limit;
            x->w[(size_t)i * x->a.stride + k] = w;
        }
    }
    axis_tighten(x);
}

void test_axis_random(struct axis *x, char *text, size_t size)
{
    int big = test_rnd() % 4 == 0;
    int in = test_rnd_int(1, big ? 600 : 80);
    int out = test_rnd_int(1, big ? 600 : 80);
    int kind = test_rnd_int(0, 9);
    const char *what = "wild";
    if (kind <= 4) {
        what = filters[kind].name;
        if (test_rnd() % 8 == 0)
            in = test_rnd_int(600, 2500);
        test_axis_filter(x, in, out, kind);
    } else if (kind == 5) {
        what = "nearest";
        test_axis_filter(x, in, out, TEST_NEAREST);
    } else if (kind == 6) {
        what = "identity";
        out = test_rnd_int(1, in);
        axis_identity(x, in, out, test_rnd_int(0, in - out));
    } else if (kind == 7) {
        what = "wild 2^24";
        axis_wild(x, in, out, test_rnd_int(1, 90), 24);
    } else {
        int taps = test_rnd_int(1, kind == 8 ? 9 : 90);
        axis_wild(x, in, out, taps, test_rnd_int(1, 23));
    }
    bool mirror = test_rnd() % 3 == 0;
    if (mirror)
        test_axis_mirror(x);
    snprintf(text, size, "%s%s %d -> %d", what, mirror ? " mirrored" : "", in,
             out);
}
