// SPDX-License-Identifier: Apache-2.0
// Fills the kernels' descriptor of a picture (see kernels/plan.h) and copies
// its source bytes into pinned memory. Only the host works here.
#include <string.h>

#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

// ---- Sources ---------------------------------------------------------------

// Coefficients come from our own CPU engine; but wrong ones must not make a
// kernel read beyond them: it believes where segments begin and end, and that
// the first bytes of all blocks of a line are there.
static bool segments_fit(const struct hr__coefficients *c, size_t size,
                         const struct hr__coef_component *k)
{
    const uint32_t *at = &c->offset[k->first];

    for (uint32_t i = 0; i < k->blocks_h; i++)
        if (at[i + 1] > size || at[i + 1] < at[i] ||
            at[i + 1] - at[i] < 2 + 3 * (uint64_t)k->blocks_w)
            return false;
    return true;
}

static bool coefficients_fit(const struct hr__payload *in)
{
    const struct hr__coefficients *c = in->data;

    if (in->size < sizeof(*c) || c->magic != HR__COEF_MAGIC ||
        (c->num_components != 1 && c->num_components != 3) ||
        (in->size - sizeof(*c)) / sizeof(c->offset[0]) <= c->segments)
        return false;
    for (uint32_t i = 0; i < c->num_components; i++) {
        const struct hr__coef_component *k = &c->comp[i];

        if (!k->h || !k->v || !k->blocks_w || !k->blocks_h ||
            k->first + (uint64_t)k->blocks_h > c->segments ||
            !segments_fit(c, in->size, k))
            return false;
    }
    return true;
}

static bool plan_coefficients(struct ocl_plan *plan,
                              struct hr__kernel_picture *p,
                              const struct hr__picture *pic,
                              const struct hr__payload *in,
                              struct ocl_item *item)
{
    if (!coefficients_fit(in))
        return false;
    // Pinned payloads get their places when all of them are known.
    item->in_at = item->pinned ? 0 : (size_t)plan->in;
    item->in_bytes = in->size;
    plan->work = hr__kernel_coefficients(p, in->data, item->in_at,
                                         pic->channels == 1, plan->fuse,
                                         plan->work);
    return true;
}

// Planes as they are uploaded: the rows that are wanted, without gaps.
// Components that lie between or beside each other's samples share a region:
// an image of chroma has pixels of two bytes.
struct region {
    size_t from, end;  // in the payload: bytes of its first row
    size_t stride, rows;
    size_t at;  // in the upload, from the item's start
};

struct planes_layout {
    struct hr__kernel_samples comp[3];
    struct region regions[3];
    int num_regions;
    size_t bytes;
};

// Says whether component i is plausible and covers the samples that the window
// needs.
static bool plane_fits(const struct hr__payload *in,
                       const struct hr__picture *pic, int i,
                       struct hr__rect window, struct hr__rect *want)
{
    const struct hr__planes *p = in->extra;
    const struct hr__plane *c = &p->comp[i];
    uint32_t x, y;

    if (!hr__plane_is_true(p, i, pic->width, pic->height, c->rows, in->size, &x,
                           &y))
        return false;
    hr__kernel_cover(window.x, window.w, (int)x, (int)c->width, &want->x,
                     &want->w);
    hr__kernel_cover(window.y, window.h, (int)y, (int)c->height, &want->y,
                     &want->h);
    return want->x >= (int)c->x && want->y >= (int)c->y &&
           (uint32_t)(want->x + want->w) <= c->x + c->cols &&
           (uint32_t)(want->y + want->h) <= c->y + c->rows;
}

static struct region *region_of(struct planes_layout *l, size_t from,
                                size_t end, size_t stride, size_t rows)
{
    struct region *r = l->regions;

    for (; r < l->regions + l->num_regions; r++)
        if (r->stride == stride && r->rows == rows && from <= r->end &&
            r->from <= end) {
            r->from = from < r->from ? from : r->from;
            r->end = end > r->end ? end : r->end;
            return r;
        }
    *r = (struct region){from, end, stride, rows, 0};
    l->num_regions++;
    return r;
}

static bool is_gray(const struct hr__planes *p)
{
    return p->color == HR_COLOR_GRAY && p->h_max == p->comp[0].h &&
           p->v_max == p->comp[0].v;
}

static bool is_color(const struct hr__planes *p)
{
    return p->num_components == 3 &&
           (p->color == HR_COLOR_YCC || p->color == HR_COLOR_RGB);
}

// Lays the planes out in the upload. False: the payload is not what it should
// be.
static bool lay_out(struct planes_layout *l, const struct hr__payload *in,
                    const struct hr__picture *pic, struct hr__rect window)
{
    const struct hr__planes *p = in->extra;
    struct region *of[3];
    size_t from[3];

    *l = (struct planes_layout){0};
    if (!p || (p->num_components == 1 ? !is_gray(p) : !is_color(p)))
        return false;
    for (int i = 0; i < (int)p->num_components; i++) {
        struct hr__rect *want = &l->comp[i].want;
        const struct hr__plane *c = &p->comp[i];

        if (!plane_fits(in, pic, i, window, want))
            return false;
        from[i] = (size_t)c->at + (size_t)(want->y - (int)c->y) * c->stride +
                  (size_t)(want->x - (int)c->x) * c->step;
        of[i] = region_of(l, from[i],
                          from[i] + (size_t)(want->w - 1) * c->step + 1,
                          c->stride, (size_t)want->h);
    }
    for (int i = 0; i < l->num_regions; i++) {
        struct region *r = &l->regions[i];

        r->at = l->bytes;
        l->bytes += (r->end - r->from) * r->rows;
    }
    for (int i = 0; i < (int)p->num_components; i++) {
        l->comp[i].at = of[i]->at + from[i] - of[i]->from;
        l->comp[i].next_x = p->comp[i].step;
        l->comp[i].next_y = (uint32_t)(of[i]->end - of[i]->from);
    }
    return true;
}

static bool plan_planes(struct ocl_plan *plan, struct hr__kernel_picture *p,
                        const struct hr__picture *pic,
                        const struct hr__payload *in, struct ocl_item *item)
{
    struct planes_layout l;

    item->window = ocl_axes_window(&plan->x, &plan->y);
    item->in_at = item->import ? 0 : (size_t)plan->in;
    if (!item->window.w) {
        // The picture is all padding: nothing is read.
        p->planes = (uint32_t)pic->channels;
        return true;
    }
    if (!lay_out(&l, in, pic, item->window))
        return false;
    item->in_bytes = l.bytes;
    for (int i = 0; i < 3; i++)
        l.comp[i].at += item->in_at;
    plan->work = hr__kernel_planes(p, in->extra, l.comp, item->window,
                                   pic->channels == 1, plan->work);
    return true;
}

// Takes only the window of the pixels that the axes read.
static bool plan_pixels(struct ocl_plan *plan, struct hr__kernel_picture *p,
                        const struct hr__picture *pic,
                        const struct hr__payload *in, struct ocl_item *item)
{
    size_t c = (size_t)pic->channels, w, h;
    bool planar = !in && pic->image && pic->image->params.layout == HR_NCHW;
    const struct hr_image_params *im = item->src ? &pic->image->params : NULL;

    item->window = ocl_axes_window(&plan->x, &plan->y);
    w = (size_t)item->window.w;
    h = (size_t)item->window.h;
    if (im) {  // read where it lies
        size_t pixel = planar ? 1 : c;
        size_t at = pic->memory->native.offset +
                    (size_t)item->window.y * im->stride_h +
                    (size_t)item->window.x * pixel;

        plan->work = hr__kernel_pixels(p, item->window, (unsigned)c, at, pixel,
                                       im->stride_h, planar ? im->stride_c : 1,
                                       plan->work);
        return true;
    }
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

// Includes the groups of the form for GPUs, since the form is not chosen yet.
static uint32_t groups_of(const struct ocl_plan *plan,
                          const struct hr__kernel_picture *p)
{
    int kernels = plan->gpu ? HR__NUM_KERNELS : HR__KERNEL_STORE + 1;
    uint32_t n = 0;

    for (int k = 0; k < kernels; k++)
        if (k != HR__KERNEL_AGAIN && k != HR__KERNEL_FAR)  // GUESS's
            n += hr__kernel_groups(p, k);
    return n;
}

static bool plan_source(struct ocl_plan *plan, int i,
                        const struct hr__picture *pic,
                        const struct hr__payload *in, struct ocl_item *item)
{
    struct hr__kernel_picture *p = ocl_plan_picture(plan, i);

    if (!in && pic->data)
        return ocl_plan_views(plan, i, pic, ocl_axes_window(&plan->x, &plan->y),
                              item);
    if (in && in->after == HR_ENTROPY)
        return plan_coefficients(plan, p, pic, in, item);
    if (in && in->after == HR_RECONSTRUCT)
        return plan_planes(plan, p, pic, in, item);
    return plan_pixels(plan, p, pic, in, item);
}

// Reads the output of a sample's last step, which another engine has made.
static struct hr__step whole_step(const struct hr__geometry *geo)
{
    const struct hr__step *last = &geo->steps[geo->num_steps - 1];
    struct hr__rect all = {0, 0, last->out_w, last->out_h};

    return (struct hr__step){.in_w = all.w,
                             .in_h = all.h,
                             .src = all,
                             .rs_w = all.w,
                             .rs_h = all.h,
                             .win = all,
                             .out_w = all.w,
                             .out_h = all.h};
}

bool ocl_plan_add(struct ocl_plan *plan, int i, const struct hr__picture *pic,
                  const struct hr__payload *in, struct ocl_item *item)
{
    const struct hr__step *step = &pic->geo.steps[0];
    struct hr__dst dst = item->tensor;
    struct hr__kernel_picture *p;
    struct hr__step whole;
    size_t out_at;

    if (in && in->after == HR_RESAMPLE) {
        whole = whole_step(&pic->geo);
        step = &whole;
    }
    // Pixels for the next engine are of one table, grey or not.
    if (!ocl_plan_table(plan, item->table, dst.dtype,
                        item->table == pic->table ? dst.c : 3) ||
        (item->augment && !ocl_plan_levels(plan)) ||
        !ocl_axes_find(plan->axes, step, &plan->x, &plan->y))
        return false;
    p = ocl_plan_picture(plan, i);
    hr__kernel_begin(p, step);
    if (!plan_source(plan, i, pic, in, item))
        return false;
    p = ocl_plan_picture(plan, i);  // it may have moved
    plan->work = hr__kernel_axes(p, step, &plan->x, &plan->y, plan->axes->data,
                                 plan->work);
    *(item->pinned || item->import ? &plan->pinned
                                   : &plan->in) += ocl_aligned(item->in_bytes);
    if (item->dst) {  // written where it shall lie
        out_at = dst.memory->native.offset + dst.at;
    } else {
        dst = ocl_packed(&item->tensor, &item->out_bytes);
        out_at = item->out_at = (size_t)plan->out;
        plan->out += ocl_aligned(item->out_bytes);
    }
    if (!item->augment)
        hr__kernel_store(p, step, &dst, out_at, plan->table_at,
                         item->table->u8_identity);
    else if (!ocl_plan_augment(plan, i, pic, step, &dst, out_at))
        return false;
    if (!ocl_plan_erase(plan, i, &dst, out_at, item->erases, item->num_erases))
        return false;
    plan->groups += groups_of(plan, ocl_plan_picture(plan, i));
    return true;
}

// ---- Bytes -----------------------------------------------------------------

static void pack_image(const struct ocl_item *item, const struct hr_image_t *im,
                       const uint8_t *from, uint8_t *to)
{
    const struct hr_image_params *p = &im->params;
    const struct hr__rect *r = &item->window;
    bool planar = p->layout == HR_NCHW;
    size_t pixel = planar ? 1 : (size_t)p->c, bytes = (size_t)r->w * pixel;

    for (int c = 0; c < (planar ? p->c : 1); c++)
        ocl_copy_rows(to + bytes * (size_t)r->h * (size_t)c, bytes,
                      from + (planar ? p->stride_c * (size_t)c : 0) +
                          p->stride_h * (size_t)r->y + (size_t)r->x * pixel,
                      p->stride_h, bytes, r->h);
}

int ocl_describe_copies(const struct ocl_item *item,
                        const struct hr__picture *pic,
                        const struct hr__payload *in, struct ocl_copy copies[3])
{
    struct planes_layout l;

    // It has been planned so, and has not changed since.
    if (!item->in_bytes || !lay_out(&l, in, pic, item->window))
        return 0;
    for (int i = 0; i < l.num_regions; i++) {
        const struct region *r = &l.regions[i];

        copies[i] = (struct ocl_copy){.from = r->from,
                                      .stride = r->stride,
                                      .width = r->end - r->from,
                                      .rows = r->rows,
                                      .to = r->at};
    }
    return l.num_regions;
}

static void pack_planes(const struct ocl_item *item,
                        const struct hr__picture *pic,
                        const struct hr__payload *in, uint8_t *to)
{
    struct ocl_copy copies[3];
    int n = ocl_describe_copies(item, pic, in, copies);

    for (int i = 0; i < n; i++)
        ocl_copy_rows(to + copies[i].to, copies[i].width,
                      (const uint8_t *)in->data + copies[i].from,
                      copies[i].stride, copies[i].width, (int)copies[i].rows);
}

void ocl_describe(const struct ocl_item *item, const struct hr__picture *pic,
                  const struct hr__payload *in, uint8_t *to)
{
    const struct hr__rect *r = &item->window;
    size_t c = (size_t)pic->channels;

    if (!item->in_bytes)
        return;
    if (!in)
        pack_image(item, pic->image, pic->pixels, to);
    else if (in->after == HR_ENTROPY)
        memcpy(to, in->data, item->in_bytes);
    else if (in->after == HR_RECONSTRUCT)
        pack_planes(item, pic, in, to);
    else
        ocl_copy_rows(to, (size_t)r->w * c,
                      (const uint8_t *)in->data +
                          in->stride * (size_t)(r->y - in->rect.y) +
                          (size_t)(r->x - in->rect.x) * c,
                      in->stride, (size_t)r->w * c, r->h);
}
