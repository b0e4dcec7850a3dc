// SPDX-License-Identifier: Apache-2.0
// Weights: whatever part of an axis is asked for, and however it is mirrored,
// it is that part of the whole; sums are right; guarded memory is not left.
// (compare.py and compare_torch.py: they are Pillow's and torch's.)
#include <math.h>

#include "testing.h"

// A step that resizes along one axis; the other is 5 -> 5.
static struct hr__step step_of(int which, int in, int out, enum hr_filter f)
{
    struct hr__step s = {.in_w = 5,
                         .in_h = 5,
                         .resized = true,
                         .filter = f,
                         .box = {0, 0, 5, 5},
                         .rs_w = 5,
                         .rs_h = 5};

    *(which ? &s.in_h : &s.in_w) = in;
    *(which ? &s.rs_h : &s.rs_w) = out;
    s.box[which + 2] = (float)in;
    s.src = (struct hr__rect){0, 0, s.in_w, s.in_h};
    s.win = (struct hr__rect){0, 0, s.rs_w, s.rs_h};
    s.out_w = s.rs_w;
    s.out_h = s.rs_h;
    return s;
}

struct built {
    struct hr__axis a;
    uint8_t *mem;
    size_t size;
};

enum { GUARD = 64 };

// The axis alone equals the axis of the step: only its beginning differs.
static void check_alone(const struct hr__step *s, int which,
                        const struct hr__axis *a)
{
    struct hr__step alone, moved = *s, again;
    int base = hr__axis_alone(s, which, &alone);
    void *mem = malloc(hr__axis_size(&alone, 0));
    struct hr__axis b;
    bool same;

    hr__axis_build(&b, &alone, 0, mem);
    same = a->out == b.out && a->pad_before == b.pad_before &&
           a->taps == b.taps && a->stride == b.stride &&
           a->identity == b.identity &&
           (!a->out ||
            (a->src_lo == b.src_lo + base && a->src_hi == b.src_hi + base)) &&
           !memcmp(a->n, b.n, (size_t)a->out * sizeof(*a->n)) &&
           !memcmp(a->w, b.w,
                   (size_t)a->out * (size_t)a->stride * sizeof(*a->w));
    for (int o = 0; same && o < a->out; o++)
        same = a->lo[o] == b.lo[o] + base;
    CHECK(same, "alone it is another axis, %d outputs", a->out);
    free(mem);
    // Somewhere else it is the same, and has the same bytes.
    if (s->resized) {
        *(which ? &moved.src.y : &moved.src.x) += 5;
        *(which ? &moved.in_h : &moved.in_w) += 7;
        CHECK(hr__axis_alone(&moved, which, &again) == base + 5 &&
                  !memcmp(&alone, &again, sizeof(again)),
              "somewhere else it is another axis");
    }
}

static struct built build(const struct hr__step *s, int which)
{
    struct built b = {.size = hr__axis_size(s, which)};
    int lo, hi;

    b.mem = aligned_alloc(64, (b.size + 2 * GUARD + 63) & ~(size_t)63);
    memset(b.mem, 0xa5, b.size + 2 * GUARD);
    // The reach, in the same memory.
    hr__axis_reach(s, which, b.mem + GUARD, &lo, &hi);
    hr__axis_build(&b.a, s, which, b.mem + GUARD);
    CHECK(lo == b.a.src_lo && hi == b.a.src_hi,
          "reaches %d to %d, not %d to %d", lo, hi, b.a.src_lo, b.a.src_hi);
    check_alone(s, which, &b.a);
    return b;
}

static void drop(struct built *b)
{
    bool kept = true;

    for (int i = 0; i < GUARD; i++)
        kept = kept && b->mem[i] == 0xa5 &&
               b->mem[GUARD + b->size + (size_t)i] == 0xa5;
    CHECK(kept, "wrote beyond hr__axis_size()");
    free(b->mem);
}

// The weight of input x in output o, 0 if it has none.
static int32_t weight(const struct hr__axis *a, int o, int x)
{
    int k = x - a->lo[o];

    return k < 0 || k >= a->n[o]
               ? 0
               : a->w[(size_t)o * (size_t)a->stride + (size_t)k];
}

static void facts(const struct hr__axis *a, int in)
{
    int lo = INT32_MAX, hi = 0, taps = 1;
    bool identity = true, clear = true;

    for (int o = 0; o < a->out; o++) {
        const int32_t *w = a->w + (size_t)o * (size_t)a->stride;

        CHECK(a->n[o] >= 1 && a->lo[o] >= 0 && a->lo[o] + a->n[o] <= in &&
                  a->n[o] <= a->stride,
              "output %d reads %d + %d of %d", o, a->lo[o], a->n[o], in);
        lo = a->lo[o] < lo ? a->lo[o] : lo;
        hi = a->lo[o] + a->n[o] > hi ? a->lo[o] + a->n[o] : hi;
        taps = a->n[o] > taps ? a->n[o] : taps;
        identity = identity && a->n[o] == 1 && w[0] == 1 << 22 &&
                   a->lo[o] == a->lo[0] + o;
        for (int k = a->n[o]; k < a->stride; k++)
            clear = clear && w[k] == 0;
    }
    CHECK(a->out == 0 || (a->src_lo == lo && a->src_hi == hi), "src");
    CHECK(a->taps == taps, "taps %d, not %d", a->taps, taps);
    CHECK(a->identity == identity, "identity");
    CHECK(clear, "weights behind n are not 0");
    CHECK(a->stride % 4 == 0 && a->stride >= a->taps, "stride");
}

// ---- Whole axes -----------------------------------------------------------

// Common sizes, and the ends of the range.
TEST_CASE(known_axes)
{
    static const int sizes[][2] = {{500, 224}, {375, 256}, {224, 224},
                                   {1, 1},     {1, 65535}, {65535, 1},
                                   {2, 1},     {1, 2},     {3, 2},
                                   {256, 255}, {255, 256}, {16384, 7},
                                   {1000, 999}};

    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++)
        for (int f = 0; f < HR_NUM_FILTERS; f++) {
            const int *size = sizes[i / 2];
            struct hr__step s = step_of((int)i & 1, size[0], size[1],
                                        (enum hr_filter)f);
            struct built b;

            s.torch = i & 1 && f != HR_BOX && f != HR_HAMMING;
            b = build(&s, (int)i & 1);
            CHECK(b.a.out == size[1] && b.a.pad_before == 0, "%d outputs",
                  b.a.out);
            facts(&b.a, size[0]);
            drop(&b);
        }
}

// Weights add up to 1: each is rounded by at most half a unit of 2^-22.
TEST_CASE(sums)
{
    uint64_t seed = test_seed;

    for (int i = 0; i < test_loops(600); i++) {
        int in = 1 + random_below(&seed, 500),
            out = 1 + random_below(&seed, 300);
        enum hr_filter f = (enum hr_filter)(i % HR_NUM_FILTERS);
        struct hr__step s = step_of(0, in, out, f);
        struct built b = build(&s, 0);

        for (int o = 0; o < b.a.out; o++) {
            int64_t sum = 0;

            for (int k = 0; k < b.a.n[o]; k++)
                sum += b.a.w[(size_t)o * (size_t)b.a.stride + (size_t)k];
            CHECK(llabs(sum - (1 << 22)) <= b.a.taps,
                  "%d -> %d filter %d: %lld", in, out, (int)f, (long long)sum);
        }
        drop(&b);
    }
}

// ---- Parts, mirrored ------------------------------------------------------

// In long double, without Pillow's order of operations: no weight may be off
// by more than its rounding.
TEST_CASE(near_long_double)
{
    uint64_t seed = test_seed;

    for (int i = 0; i < test_loops(300); i++) {
        int in = 1 + random_below(&seed, 400),
            out = 1 + random_below(&seed, 200);
        struct hr__step s = step_of(0, in, out, HR_BILINEAR);
        struct built b = build(&s, 0);
        long double scale = (long double)in / out;
        long double fs = scale < 1 ? 1 : scale;

        for (int o = 0; o < out && in != out; o++) {
            long double center = (o + 0.5L) * scale, sum = 0, worst = 0;

            for (int x = 0; x < in; x++)
                sum += fmaxl(0, 1 - fabsl(x + 0.5L - center) / fs);
            for (int x = 0; x < in; x++) {
                long double w = fmaxl(0, 1 - fabsl(x + 0.5L - center) / fs) /
                                sum;

                worst = fmaxl(worst, fabsl(w * (1 << 22) - weight(&b.a, o, x)));
            }
            CHECK(worst < 0.51L, "%d -> %d, output %d: off by %Lf", in, out, o,
                  worst);
        }
        drop(&b);
    }
}

static bool same_output(const struct hr__axis *a, int i,
                        const struct hr__axis *b, int k, int shift)
{
    if (a->n[i] != b->n[k] || a->lo[i] != b->lo[k] + shift)
        return false;
    return !memcmp(a->w + (size_t)i * (size_t)a->stride,
                   b->w + (size_t)k * (size_t)b->stride,
                   sizeof(*a->w) * (size_t)a->n[i]);
}

// A window of a resize is that part of the whole; the rest of the window is
// padding.
TEST_CASE(windows)
{
    uint64_t seed = test_seed;

    for (int i = 0; i < test_loops(2000); i++) {
        int in = 1 + random_below(&seed, 200),
            out = 1 + random_below(&seed, 100);
        enum hr_filter f = (enum hr_filter)(i % HR_NUM_FILTERS);
        struct hr__step s = step_of(0, in, out, f), all,
                        longer = step_of(0, in + 1024, out, f);
        struct built whole, part, other;
        int first, end, before;

        s.torch = i & 8 && f != HR_BOX && f != HR_HAMMING;
        all = s;
        s.win.x = random_below(&seed, out + 40) - 20;
        s.win.w = 1 + random_below(&seed, out + 20);
        part = build(&s, 0);
        // (It takes the place of the part's bits, which are remembered.)
        longer.torch = s.torch;
        other = build(&longer, 0);
        whole = build(&all, 0);
        drop(&other);
        first = s.win.x > 0 ? s.win.x : 0;
        end = s.win.x + s.win.w < out ? s.win.x + s.win.w : out;
        before = s.win.x < 0 ? -s.win.x : 0;
        if (end <= first) {
            CHECK(part.a.out == 0, "%d outputs of nothing", part.a.out);
        } else {
            bool same = part.a.out == end - first &&
                        part.a.pad_before == before;

            for (int o = 0; same && o < part.a.out; o++)
                same = same_output(&part.a, o, &whole.a, first + o, 0);
            CHECK(same, "%d -> %d, window %d + %d", in, out, s.win.x, s.win.w);
            facts(&part.a, in);
        }
        drop(&whole);
        drop(&part);
    }
}

// src moves everything; pre mirrors inputs, post mirrors outputs.
TEST_CASE(mirrors)
{
    uint64_t seed = test_seed;

    for (int i = 0; i < test_loops(2000); i++) {
        int len = 1 + random_below(&seed, 150), off = random_below(&seed, 30);
        int out = 1 + random_below(&seed, 80), which = i & 1;
        struct hr__step s = step_of(which, len, out,
                                    (enum hr_filter)(i % HR_NUM_FILTERS));
        struct built plain = build(&s, which), b;
        bool pre = i & 2, post = i & 4, same = true;

        *(which ? &s.in_h : &s.in_w) = len + off + 3;
        *(which ? &s.src.y : &s.src.x) = off;
        *(which ? &s.pre_y : &s.pre_x) = pre;
        s.transpose = i & 8;
        // Mirroring after a transpose is along the other name's axis.
        *((which == 1) != s.transpose ? &s.post_y : &s.post_x) = post;
        b = build(&s, which);
        CHECK(b.a.out == out, "out");
        for (int o = 0; o < out && same; o++) {
            int from = post ? out - 1 - o : o;

            for (int x = 0; x < len && same; x++)
                same = weight(&b.a, o, off + x) ==
                       weight(&plain.a, from, pre ? len - 1 - x : x);
        }
        CHECK(same, "%d -> %d, filter %d, pre %d post %d transpose %d", len,
              out, i % HR_NUM_FILTERS, pre, post, s.transpose);
        facts(&b.a, len + off + 3);
        drop(&plain);
        drop(&b);
    }
}

// Without a resize the window alone counts.
TEST_CASE(crops)
{
    struct hr__step s = {.in_w = 30,
                         .in_h = 20,
                         .rs_w = 30,
                         .rs_h = 20,
                         .src = {0, 0, 30, 20},
                         .win = {4, -3, 10, 30},
                         .out_w = 10,
                         .out_h = 30};
    struct built x = build(&s, 0), y = build(&s, 1);

    CHECK(x.a.identity && x.a.out == 10 && x.a.lo[0] == 4 &&
              x.a.pad_before == 0,
          "x");
    CHECK(y.a.identity && y.a.out == 20 && y.a.lo[0] == 0 &&
              y.a.pad_before == 3,
          "y");
    facts(&x.a, 30);
    facts(&y.a, 20);
    drop(&x);
    drop(&y);
}
