// SPDX-License-Identifier: Apache-2.0
#include "fake_pixels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_fallback/cpu_ops.h"
#include "cpu_fallback/pixel/planes.h"
#include "decode_files.h"
#include "fake_engine.h"
#include "heaps.h"

// u8 pixels in memory; x0, y0 is where in the picture they begin.
struct pixels {
    uint8_t *data;
    int w, h, c, x0, y0;
    size_t stride_h, stride_c, stride_x;
    bool owned;
};

static struct pixels make(int w, int h, int c)
{
    struct pixels p = {.w = w,
                       .h = h,
                       .c = c,
                       .owned = true,
                       .stride_h = (size_t)w * (size_t)c,
                       .stride_c = 1,
                       .stride_x = (size_t)c};

    p.data = calloc((size_t)h, p.stride_h);
    return p;
}

static void drop(struct pixels *p)
{
    if (p->owned)
        free(p->data);
    p->data = NULL;
}

static uint8_t *at(const struct pixels *p, int x, int y, int c)
{
    return p->data + (size_t)(y - p->y0) * p->stride_h +
           (size_t)(x - p->x0) * p->stride_x + (size_t)c * p->stride_c;
}

// ---- Sources --------------------------------------------------------------

static bool fail(struct hr__outcome *out, enum hr_status status,
                 const char *text)
{
    out->status = status;
    snprintf(out->text, sizeof(out->text), "%s", text);
    return false;
}

static bool decoded(const struct hr__picture *pic, struct pixels *p,
                    struct hr__outcome *out)
{
    struct plain d;

    plain_decode(pic->data, pic->size, (int64_t)1 << 30, &d);
    if (d.result != PLAIN_OK || d.w != pic->width || d.h != pic->height) {
        plain_free(&d);
        out->why = HR_WHY_DAMAGED;
        return fail(out, HR_ECORRUPT, "libjpeg does not like it");
    }
    *p = make(d.w, d.h, pic->channels);
    if (p->data)
        memcpy(p->data, pic->channels == 1 ? d.gray : d.rgb,
               p->stride_h * (size_t)d.h);
    plain_free(&d);
    return p->data || fail(out, HR_ENOMEM, "decode");
}

static void from_image(const struct hr__picture *pic, struct pixels *p)
{
    const struct hr_image_params *i = &pic->image->params;
    bool planar = i->layout == HR_NCHW;

    *p = (struct pixels){.data = (uint8_t *)(pic->pixels
                                                 ? pic->pixels
                                                 : pic->memory->native.memory),
                         .w = i->w,
                         .h = i->h,
                         .c = i->c,
                         .stride_h = i->stride_h,
                         .stride_c = planar ? i->stride_c : 1,
                         .stride_x = planar ? 1 : (size_t)i->c};
}

static void from_payload(const struct hr__payload *in, int c, struct pixels *p)
{
    *p = (struct pixels){.data = in->data,
                         .w = in->rect.w,
                         .h = in->rect.h,
                         .c = c,
                         .x0 = in->rect.x,
                         .y0 = in->rect.y,
                         .stride_h = in->stride,
                         .stride_c = 1,
                         .stride_x = (size_t)c};
}

// ---- Mistakes -------------------------------------------------------------

static bool is_hit(int x, int y)
{
    return (x + 3 * y) % 16 == 0;
}

static void one_off(struct pixels *p, int channels)
{
    for (int y = p->y0; y < p->y0 + p->h; y++)
        for (int x = p->x0; x < p->x0 + p->w; x++)
            for (int c = 0; is_hit(x, y) && c < channels; c++) {
                uint8_t *v = at(p, x, y, c);

                *v = (uint8_t)(*v < 128 ? *v + 1 : *v - 1);
            }
}

static uint8_t to_byte(double v)
{
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)(v + .5);
}

// As if the planes of an inverse DCT were so many levels off.
static void move_planes(struct pixels *p, int luma, int chroma)
{
    for (int y = p->y0; y < p->y0 + p->h; y++)
        for (int x = p->x0; x < p->x0 + p->w; x++) {
            int move = x % 2 ? luma : -luma, more = x % 3 ? 0 : chroma;

            if (p->c == 1) {
                *at(p, x, y, 0) = to_byte(*at(p, x, y, 0) + move);
                continue;
            }
            // Grey pixels stay grey: the picture is grey, as a rule.
            if (*at(p, x, y, 0) == *at(p, x, y, 1) &&
                *at(p, x, y, 1) == *at(p, x, y, 2))
                more = 0;
            *at(p, x, y, 0) = to_byte(*at(p, x, y, 0) + move + 1.402 * more);
            *at(p, x, y, 1) = to_byte(*at(p, x, y, 1) + move - 1.058 * more);
            *at(p, x, y, 2) = to_byte(*at(p, x, y, 2) + move + 1.772 * more);
        }
}

// ITU-R 601 there, and back with Cb for Cr.
static void swap_chroma(struct pixels *p)
{
    for (int y = p->y0; y < p->y0 + p->h; y++)
        for (int x = p->x0; x < p->x0 + p->w; x++) {
            uint8_t *r = at(p, x, y, 0), *g = at(p, x, y, 1);
            uint8_t *b = at(p, x, y, 2);
            double luma = .299 * *r + .587 * *g + .114 * *b;
            double cr = (*b - luma) / 1.772, cb = (*r - luma) / 1.402;

            *r = to_byte(luma + 1.402 * cr);
            *g = to_byte(luma - .344136 * cb - .714136 * cr);
            *b = to_byte(luma + 1.772 * cb);
        }
}

static void spoil_decoded(struct pixels *p, enum fake_fault fault)
{
    if (fault == FAKE_FAULT_RECONSTRUCT)
        one_off(p, p->c);
    else if (fault == FAKE_FAULT_COLOR && p->c == 3)
        one_off(p, 1);
    else if (fault == FAKE_FAULT_CHROMA && p->c == 3)
        swap_chroma(p);
    else if (fault == FAKE_FAULT_IDCT)
        move_planes(p, 2, 2);
    else if (fault == FAKE_FAULT_LUMA)
        move_planes(p, 3, 0);
}

static bool is_resized(const struct hr__picture *pic)
{
    bool resized = false;

    for (int i = 0; i < pic->geo.num_steps; i++)
        resized |= pic->geo.steps[i].resized;
    return resized;
}

static void spoil_resampled(struct pixels *p, const struct hr__picture *pic,
                            enum fake_fault fault)
{
    if (fault == FAKE_FAULT_RESAMPLE && is_resized(pic))
        one_off(p, p->c);
}

// ---- Resample -------------------------------------------------------------

static bool build(struct hr__axis *a, const struct hr__step *s, int which,
                  void **mem)
{
    *mem = malloc(hr__axis_size(s, which) + 8);
    if (*mem)
        hr__axis_build(a, s, which, *mem);
    return *mem;
}

// Shows all of them to ThreadSanitizer, once: weigh() would do so many times
// over, which takes most of the time of tests.
static void look_at(const struct pixels *p)
{
    // (So that no compiler knows what comes of it.)
    static int (*volatile compare)(const void *, const void *, size_t) = memcmp;
    bool planar = p->c > 1 && p->stride_x == 1;

    for (int c = 0; c < (planar ? p->c : 1); c++)
        for (int y = 0; y < p->h; y++) {
            const uint8_t *row = at(p, p->x0, p->y0 + y, c);

            compare(row, row, (size_t)p->w * p->stride_x);
        }
}

__attribute__((no_sanitize("thread"))) static uint8_t weigh(
    const struct pixels *in, const struct hr__axis *a, int o, bool along_x,
    int other, int c)
{
    const int32_t *w = a->w + (size_t)o * (size_t)a->stride;
    const uint8_t *p = along_x ? at(in, a->lo[o], other, c)
                               : at(in, other, a->lo[o], c);
    size_t step = along_x ? in->stride_x : in->stride_h;
    int64_t sum = 0;

    for (int k = 0; k < a->n[o]; k++)
        sum += (int64_t)w[k] * p[(size_t)k * step];
    sum = (sum + (1 << 21)) >> 22;
    return sum < 0 ? 0 : sum > 255 ? 255 : (uint8_t)sum;
}

// One axis of all that out holds. Along the other axis out keeps the input's
// coordinates (its x0 or y0) until that one is resampled, too.
static void pass_x(const struct pixels *in, const struct hr__axis *x,
                   struct pixels *out)
{
    for (int y = out->y0; y < out->y0 + out->h; y++)
        for (int o = 0; o < x->out; o++)
            for (int c = 0; c < in->c; c++)
                *at(out, o, y, c) = weigh(in, x, o, true, y, c);
}

static void pass_y(const struct pixels *in, const struct hr__axis *y,
                   struct pixels *out)
{
    for (int o = 0; o < y->out; o++)
        for (int x = out->x0; x < out->x0 + out->w; x++)
            for (int c = 0; c < in->c; c++)
                *at(out, x, o, c) = weigh(in, y, o, false, x, c);
}

// Into win, which has room for the margins; its first pass goes to mid.
static bool passes(const struct pixels *p, const struct hr__step *s,
                   const struct hr__axis *x, const struct hr__axis *y,
                   struct pixels *win)
{
    struct pixels part = *win, mid;
    bool ok;

    look_at(p);
    // The part inside the margins.
    part.data = at(win, x->pad_before, y->pad_before, 0);
    part.w = x->out;
    part.h = y->out;
    if (s->v_first) {
        mid = make(x->src_hi - x->src_lo, y->out, p->c);
        mid.x0 = x->src_lo;
        if (mid.data) {
            pass_y(p, y, &mid);
            pass_x(&mid, x, &part);
        }
    } else {
        mid = make(x->out, y->src_hi - y->src_lo, p->c);
        mid.y0 = y->src_lo;
        if (mid.data) {
            pass_x(p, x, &mid);
            pass_y(&mid, y, &part);
        }
    }
    ok = mid.data;
    drop(&mid);
    return ok;
}

static struct pixels transposed(struct pixels *p)
{
    struct pixels t = make(p->h, p->w, p->c);

    for (int y = 0; t.data && y < t.h; y++)
        for (int x = 0; x < t.w; x++)
            for (int c = 0; c < t.c; c++)
                *at(&t, x, y, c) = *at(p, y, x, c);
    drop(p);
    return t;
}

static bool resample_step(struct pixels *p, const struct hr__step *s)
{
    struct hr__axis x = {0}, y = {0};
    struct pixels win = make(s->win.w, s->win.h, p->c);
    void *mx = NULL, *my = NULL;
    bool ok = win.data && build(&x, s, 0, &mx) && build(&y, s, 1, &my);

    if (ok && x.out && y.out)
        ok = passes(p, s, &x, &y, &win);
    free(mx);
    free(my);
    drop(p);
    *p = ok && s->transpose ? transposed(&win) : win;
    return ok && p->data;
}

static bool resampled(struct pixels *p, const struct hr__picture *pic,
                      struct hr__outcome *out)
{
    for (int i = 0; i < pic->geo.num_steps; i++)
        if (!resample_step(p, &pic->geo.steps[i])) {
            return fail(out, HR_ENOMEM, "resample");
        }
    return true;
}

// ---- Results --------------------------------------------------------------

uint8_t *fake_dst(const struct hr__dst *d)
{
    return d->data ? d->data : (uint8_t *)d->memory->native.memory + d->at;
}

static uint8_t moved(uint8_t v, int by)
{
    return (uint8_t)(v + by > 255 ? v - by : v + by);
}

// A level as store gets it wrong.
static uint8_t stored(uint8_t v, const struct hr__picture *pic, int x, int y,
                      int c, enum fake_fault fault)
{
    static const uint8_t spread[3][4] = {{0, 1, 0, 2},
                                         {0, 5, 0, 12},
                                         {0, 0, 40, 140}};

    if (fault == FAKE_FAULT_STORE)
        return v ^ (is_hit(x, y) && pic->dst.dtype != HR_U8);
    if (fault == FAKE_FAULT_RANKS)
        return moved(v,
                     is_resized(pic) ? 20 - pic->width / 10 : pic->width / 10);
    if (fault == FAKE_FAULT_SPREAD)
        return moved(v, spread[c][(x + 3 * y) % 4]);
    return v;
}

static void store(const struct pixels *p, const struct hr__picture *pic,
                  enum fake_fault fault)
{
    const struct hr__dst *d = &pic->dst;
    size_t e = hr_dtype_size(d->dtype);
    uint8_t *base = fake_dst(d);

    for (int y = 0; y < d->h; y++)
        for (int x = 0; x < d->w; x++)
            for (int c = 0; c < d->c; c++) {
                uint8_t v = stored(*at(p, x, y, c), pic, x, y, c, fault);
                uint8_t *to = base + (size_t)y * d->stride_h;

                to += d->layout == HR_NCHW
                          ? (size_t)c * d->stride_c + (size_t)x * e
                          : ((size_t)x * (size_t)d->c + (size_t)c) * e;
                if (d->dtype == HR_F32)
                    memcpy(to, &pic->table->f32[c][v], 4);
                else if (d->dtype == HR_F16)
                    memcpy(to, &pic->table->f16[c][v], 2);
                else
                    *to = pic->table->u8[c][v];
            }
}

// Leaves the pixels for the next span, interleaved, all of them.
static bool hand_on(struct hr__task *task, const struct pixels *p,
                    struct hr__outcome *out)
{
    size_t row = (size_t)p->w * (size_t)p->c;
    struct hr__payload *to = hr__task_payload(task, row * (size_t)p->h);

    if (!to)
        return fail(out, HR_ENOMEM, "no payload");
    to->rect = (struct hr__rect){0, 0, p->w, p->h};
    to->stride = row;
    for (int y = 0; y < p->h; y++)
        memcpy((uint8_t *)to->data + row * (size_t)y, at(p, 0, y, 0), row);
    return true;
}

// The codes of stage augment, by the CPU's readable C.
static bool augmented(struct pixels *p, const struct hr__geometry *geo,
                      struct hr__outcome *out)
{
    // (What comes out may be larger: padded, or turned.)
    size_t row = (size_t)p->w * (size_t)p->c, side = 256,
           capacity = side * side;
    struct pixels a = make((int)side, (int)side, 4);
    struct pixels b = make((int)side, (int)side, 4);
    struct cpu_pixels io = {a.data, cpu_row_pitch(row), p->w, p->h, p->c};
    struct cpu_arena arena;
    struct cpu_ops ops;
    bool ok = a.data && b.data && io.stride * (size_t)p->h <= capacity;

    cpu_arena_init(&arena, &plain_heap);
    cpu_ops_init(&ops, CPU_FLAG_C);
    for (int y = 0; ok && y < p->h; y++)
        for (int x = 0; x < p->w; x++)
            for (int c = 0; c < p->c; c++)
                io.data[io.stride * (size_t)y + (size_t)(x * p->c + c)] =
                    *at(p, p->x0 + x, p->y0 + y, c);
    ok = ok && cpu_augment_run(&ops.augment, geo->augments, geo->num_augments,
                               &io, b.data, &arena);
    cpu_arena_finish(&arena);
    drop(p);
    *p = make(io.w, io.h, io.channels);
    for (int y = 0; ok && y < io.h; y++)
        memcpy(at(p, 0, y, 0), io.data + io.stride * (size_t)y, p->stride_h);
    drop(&a);
    drop(&b);
    return ok || fail(out, HR_ENOMEM, "augment");
}

void fake_pixels(struct hr__task *task, enum fake_fault fault,
                 struct hr__outcome *out)
{
    const struct hr__picture *pic = task->pic;
    struct pixels p = {0};
    bool ok = true;

    if (task->in)
        from_payload(task->in, pic->channels, &p);
    else if (pic->data)
        ok = decoded(pic, &p, out);
    else
        from_image(pic, &p);
    if (ok && task->span.first <= HR_COLOR && pic->data)
        spoil_decoded(&p, fault);
    if (ok && task->span.first <= HR_RESAMPLE &&
        task->span.last >= HR_RESAMPLE) {
        ok = resampled(&p, pic, out);
        if (ok)
            spoil_resampled(&p, pic, fault);
    }
    if (ok && pic->geo.num_augments && task->span.first <= HR_AUGMENT &&
        task->span.last >= HR_AUGMENT)
        ok = augmented(&p, &pic->geo, out);
    if (ok && task->span.last == HR_STORE)
        store(&p, pic, fault);
    else if (ok)
        hand_on(task, &p, out);
    drop(&p);
}
