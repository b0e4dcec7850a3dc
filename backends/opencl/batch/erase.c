// SPDX-License-Identifier: Apache-2.0
// Ops erase on the device's tensor: the host makes the elements as it would on
// a tensor of its own, and hr_erase puts them where they belong.
#include "backends/opencl/opencl.h"

// The part of a rectangle that lies in the tensor. False: none does.
static bool clip(const struct hr_erase *e, const struct hr__dst *d,
                 struct hr__kernel_rect *r)
{
    *r = (struct hr__kernel_rect){.x = e->x, .y = e->y, .w = e->w, .h = e->h};
    r->w = r->w < d->w - r->x ? r->w : d->w - r->x;
    r->h = r->h < d->h - r->y ? r->h : d->h - r->y;
    r->one = !e->values && !e->noise;
    return r->w > 0 && r->h > 0;
}

// Adds the rectangle's elements, a plane for each channel; or one element for
// each.
static bool add_values(struct ocl_plan *plan, const struct hr_erase *e,
                       const struct hr__dst *d, struct hr__kernel_rect *r)
{
    struct hr__dst block = {.w = r->one ? 1 : r->w,
                            .h = r->one ? 1 : r->h,
                            .c = d->c,
                            .dtype = d->dtype,
                            .layout = HR_NCHW};
    struct hr_erase all = *e;
    size_t size;

    block = ocl_packed(&block, &size);
    if (!(block.data = ocl_plan_reserve(plan, size, &r->values)))
        return false;
    all.x = all.y = 0;
    hr__paint(&block, &all);
    return true;
}

bool ocl_plan_erase(struct ocl_plan *plan, int i, const struct hr__dst *tensor,
                    uint64_t out_at, const struct hr_erase *erases, int num)
{
    size_t element = hr_dtype_size(tensor->dtype);
    bool planar = tensor->layout == HR_NCHW;
    struct hr__kernel_erase head = {
        .out = (uint32_t)out_at,
        .out_x = (uint32_t)(planar ? element : element * (size_t)tensor->c),
        .out_y = (uint32_t)tensor->stride_h,
        .out_c = (uint32_t)(planar ? tensor->stride_c : element),
        .channels = (uint32_t)tensor->c,
        .element = (uint32_t)element};
    struct hr__kernel_rect rects[HR_MAX_OPS];
    uint32_t pixels = 0, word;
    uint8_t *to;

    for (int k = 0; k < num; k++) {
        struct hr__kernel_rect *r = &rects[head.num];

        if (!clip(&erases[k], tensor, r))
            continue;
        if (!add_values(plan, &erases[k], tensor, r))
            return false;
        pixels += (uint32_t)r->w * (uint32_t)r->h;
        head.num++;
    }
    if (!head.num)
        return true;
    if (!(to = ocl_plan_reserve(plan, sizeof(head) + head.num * sizeof(*rects),
                                &word)))
        return false;
    memcpy(to, &head, sizeof(head));
    memcpy(to + sizeof(head), rects, head.num * sizeof(*rects));
    ocl_plan_picture(plan, i)->erase = word;
    ocl_plan_picture(plan, i)->erased = pixels;
    return true;
}
