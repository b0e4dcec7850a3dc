// SPDX-License-Identifier: Apache-2.0
// What the kernels must know of a picture (kernels/plan.h says how), and its
// source bytes on their way into pinned memory. Only the host works here.
#include <string.h>

#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

enum { ALIGN = 64, PLAN_MIN = 256 << 10 };

static size_t aligned(size_t n)
{
    return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

// ---- Memory of the plan ---------------------------------------------------

static void rebase(struct hr__axis *a, const uint8_t *from, uint8_t *to)
{
    a->lo = (int32_t *)(to + ((uint8_t *)a->lo - from));
    a->n = (int32_t *)(to + ((uint8_t *)a->n - from));
    a->w = (int32_t *)(to + ((uint8_t *)a->w - from));
}

static bool grow(struct ocl_plan *plan, size_t size)
{
    size_t room = plan->room ? plan->room : PLAN_MIN;
    uint8_t *data;

    if (size <= plan->room)
        return true;
    while (room < size)
        room *= 2;
    if (!(data = hr__alloc(plan->dev, room)))
        return false;
    if (plan->size)
        memcpy(data, plan->data, plan->size);
    if (plan->have_axes) {
        rebase(&plan->x, plan->data, data);
        rebase(&plan->y, plan->data, data);
    }
    hr__free(plan->data);
    plan->data = data;
    plan->room = room;
    return true;
}

// Room for size bytes at *at.
static bool take(struct ocl_plan *plan, size_t size, size_t *at)
{
    *at = plan->size;
    if (!grow(plan, plan->size + aligned(size)))
        return false;
    plan->size += aligned(size);
    return true;
}

bool ocl_plan_begin(struct ocl_plan *plan, int n)
{
    size_t at;

    plan->size = 0;
    plan->in = plan->out = plan->pinned = 0;
    plan->work = HR__SLACK;
    plan->groups = 0;
    plan->table = NULL;
    plan->have_axes = false;
    return take(plan, (size_t)n * sizeof(struct hr__kernel_picture), &at);
}

struct hr__kernel_picture *ocl_plan_picture(struct ocl_plan *plan, int i)
{
    return (struct hr__kernel_picture *)plan->data + i;
}

size_t ocl_plan_bytes(const struct ocl_plan *plan)
{
    size_t rows = plan->groups / HR__ROW_GROUPS + HR__NUM_KERNELS;
    size_t groups = plan->groups + rows;  // the last of each may be completed

    return aligned(plan->size + groups * 2 * sizeof(uint32_t));
}

// ---- Axes and tables ------------------------------------------------------

// Pictures of one geometry share their axes.
static bool add_axes(struct ocl_plan *plan, const struct hr__step *step)
{
    size_t x_size = aligned(hr__axis_size(step, 0)), at;

    if (plan->have_axes && !memcmp(&plan->step, step, sizeof(*step)))
        return true;
    plan->have_axes = false;
    if (!take(plan, x_size + hr__axis_size(step, 1), &at))
        return false;
    plan->step = *step;
    hr__axis_build(&plan->x, step, 0, plan->data + at);
    hr__axis_build(&plan->y, step, 1, plan->data + at + x_size);
    plan->have_axes = true;
    return true;
}

static bool add_table(struct ocl_plan *plan, const struct hr__picture *pic)
{
    const struct hr__table *t = pic->table;
    size_t channel = 256 * hr_dtype_size(pic->dst.dtype), at;
    const void *from = pic->dst.dtype == HR_F32   ? (const void *)t->f32
                       : pic->dst.dtype == HR_F16 ? (const void *)t->f16
                                                  : (const void *)t->u8;

    if (plan->table == t)
        return true;
    if (!take(plan, 3 * channel, &at))
        return false;
    memcpy(plan->data + at, from, channel * (size_t)pic->dst.c);
    plan->table = t;
    plan->table_at = (uint32_t)(at / sizeof(uint32_t));
    return true;
}

// ---- Sources --------------------------------------------------------------

// They come from our own CPU engine; but a wrong one must not make a kernel
// read what is not there.
static bool coefficients_fit(const struct hr__payload *in)
{
    const struct hr__coefficients *c = in->data;
    uint64_t blocks = 0, end;

    if (in->size < sizeof(*c) || c->magic != HR__COEF_MAGIC ||
        (c->num_components != 1 && c->num_components != 3))
        return false;
    end = c->blocks_at +
          (uint64_t)c->num_blocks * sizeof(struct hr__coef_block);
    for (uint32_t i = 0; i < c->num_components; i++) {
        const struct hr__coef_component *k = &c->comp[i];

        blocks += (uint64_t)k->blocks_w * k->blocks_h;
        if (!k->h || !k->v || !k->blocks_w || !k->blocks_h ||
            k->first + (uint64_t)k->blocks_w * k->blocks_h > c->num_blocks)
            return false;
    }
    return blocks == c->num_blocks && !(c->blocks_at & 3) && end <= in->size &&
           (uint64_t)c->values_at + c->values_size <= in->size;
}

static bool plan_coefficients(struct ocl_plan *plan,
                              struct hr__kernel_picture *p,
                              const struct hr__picture *pic,
                              const struct hr__payload *in,
                              struct ocl_item *item)
{
    if (!coefficients_fit(in))
        return false;
    // Where a pinned one comes to lie is known when all are.
    item->in_at = item->pinned ? 0 : (size_t)plan->in;
    item->in_bytes = in->size;
    plan->work = hr__kernel_coefficients(p, in->data, item->in_at,
                                         pic->channels == 1, plan->fuse,
                                         plan->work);
    return true;
}

// Only the window that the axes read is taken along.
static bool plan_pixels(struct ocl_plan *plan, struct hr__kernel_picture *p,
                        const struct hr__picture *pic, struct ocl_item *item)
{
    const struct hr__axis *x = &plan->x, *y = &plan->y;
    size_t c = (size_t)pic->channels, w, h;
    bool planar = pic->image && pic->image->params.layout == HR_NCHW;

    item->window = x->out && y->out ? (struct hr__rect){x->src_lo, y->src_lo,
                                                        x->src_hi - x->src_lo,
                                                        y->src_hi - y->src_lo}
                                    : (struct hr__rect){0};
    w = (size_t)item->window.w;
    h = (size_t)item->window.h;
    item->in_at = (size_t)plan->in;
    item->in_bytes = w * h * c;
    plan->work = hr__kernel_pixels(p, item->window, (unsigned)c, plan->in,
                                   planar ? 1 : c, planar ? w : w * c,
                                   planar ? w * h : 1, plan->work);
    return true;
}

struct hr__dst ocl_packed(const struct hr__dst *d, size_t *size)
{
    struct hr__dst packed = *d;
    bool planar = d->layout == HR_NCHW;
    size_t c = planar ? 1 : (size_t)d->c;

    packed.stride_h = (size_t)d->w * hr_dtype_size(d->dtype) * c;
    packed.stride_c = planar ? packed.stride_h * (size_t)d->h : 0;
    *size = packed.stride_h * (size_t)d->h * (planar ? (size_t)d->c : 1);
    return packed;
}

static uint32_t groups_of(const struct hr__kernel_picture *p)
{
    uint32_t n = 0;

    for (int k = 0; k < HR__NUM_KERNELS; k++)
        n += hr__kernel_groups(p, k);
    return n;
}

bool ocl_plan_add(struct ocl_plan *plan, int i, const struct hr__picture *pic,
                  const struct hr__payload *in, struct ocl_item *item)
{
    const struct hr__step *step = &pic->geo.steps[0];
    struct hr__kernel_picture *p;
    struct hr__dst packed;
    size_t out_bytes;

    if (!add_table(plan, pic) || !add_axes(plan, step))
        return false;
    p = ocl_plan_picture(plan, i);
    memset(p, 0, sizeof(*p));
    if (!(in && in->after == HR_ENTROPY
              ? plan_coefficients(plan, p, pic, in, item)
              : plan_pixels(plan, p, pic, item)))
        return false;
    plan->work = hr__kernel_axes(p, step, &plan->x, &plan->y, plan->data,
                                 plan->work);
    packed = ocl_packed(&pic->dst, &out_bytes);
    item->out_at = (size_t)plan->out;
    hr__kernel_store(p, step, &packed, plan->out, plan->table_at,
                     pic->table->u8_identity);
    *(item->pinned ? &plan->pinned : &plan->in) += aligned(item->in_bytes);
    plan->out += aligned(out_bytes);
    plan->groups += groups_of(p);
    return true;
}

// ---- Bytes ----------------------------------------------------------------

static void copy_rows(uint8_t *to, const uint8_t *from, size_t bytes, int rows,
                      size_t stride)
{
    for (int y = 0; y < rows; y++)
        memcpy(to + bytes * (size_t)y, from + stride * (size_t)y, bytes);
}

static void pack_image(const struct ocl_item *item, const struct hr_image_t *im,
                       uint8_t *to)
{
    const struct hr_image_params *p = &im->params;
    const struct hr__rect *r = &item->window;
    bool planar = p->layout == HR_NCHW;
    size_t pixel = planar ? 1 : (size_t)p->c, bytes = (size_t)r->w * pixel;

    for (int c = 0; c < (planar ? p->c : 1); c++)
        copy_rows(to + bytes * (size_t)r->h * (size_t)c,
                  (const uint8_t *)p->data +
                      (planar ? p->stride_c * (size_t)c : 0) +
                      p->stride_h * (size_t)r->y + (size_t)r->x * pixel,
                  bytes, r->h, p->stride_h);
}

void ocl_pack(const struct ocl_item *item, const struct hr__picture *pic,
              const struct hr__payload *in, uint8_t *to)
{
    const struct hr__rect *r = &item->window;
    size_t c = (size_t)pic->channels;

    if (!item->in_bytes)
        return;
    if (!in)
        pack_image(item, pic->image, to);
    else if (in->after == HR_ENTROPY)
        memcpy(to, in->data, item->in_bytes);
    else
        copy_rows(to,
                  (const uint8_t *)in->data +
                      in->stride * (size_t)(r->y - in->rect.y) +
                      (size_t)(r->x - in->rect.x) * c,
                  (size_t)r->w * c, r->h, in->stride);
}
