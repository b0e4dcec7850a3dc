// SPDX-License-Identifier: Apache-2.0
// Pictures of a batch that begin with the same file, the views of one source:
// the kernels decode the first one from its bytes to colors, as far as any of
// them shows it, and the others resample its pixels. A view that needs other
// pixels (grey ones, or column by column for a vertical pass that comes first)
// makes them of the same coefficients. Only the host works here.
#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

static bool is_view(const struct hr__task *task)
{
    return task->source && !task->in && task->span.first == HR_ENTROPY;
}

static bool same_file(const struct hr__picture *a, const struct hr__picture *b)
{
    return a->data == b->data && a->size == b->size;
}

static bool same_pixels(const struct hr__picture *a,
                        const struct hr__picture *b)
{
    return a->mode == b->mode && a->channels == b->channels &&
           a->geo.steps[0].v_first == b->geo.steps[0].v_first;
}

static struct hr__rect shown(struct ocl_plan *plan,
                             const struct hr__picture *pic)
{
    struct hr__axis x, y;

    if (!ocl_axes_find(plan->axes, &pic->geo.steps[0], &x, &y))
        return (struct hr__rect){0};
    return ocl_axes_window(&x, &y);
}

static struct hr__rect hull(struct hr__rect a, struct hr__rect b)
{
    int right = a.x + a.w, bottom = a.y + a.h;

    if (!a.w || !b.w)
        return a.w ? a : b;
    right = right > b.x + b.w ? right : b.x + b.w;
    bottom = bottom > b.y + b.h ? bottom : b.y + b.h;
    a.x = a.x < b.x ? a.x : b.x;
    a.y = a.y < b.y ? a.y : b.y;
    a.w = right - a.x;
    a.h = bottom - a.y;
    return a;
}

enum common { NOTHING, COEFFICIENTS, PIXELS };

// Says what an item, that may still be packed, has of all that the task shows.
static enum common has(const struct ocl_item *item, const struct hr__task *task,
                       struct hr__rect window)
{
    struct hr__rect all = hull(item->all, window);
    enum common common = NOTHING;

    if (!item->all.w || item->task->source != task->source ||
        all.w != item->all.w || all.h != item->all.h ||
        !hr__task_claim(item->task))
        return NOTHING;
    if (same_file(item->task->pic, task->pic))
        common = same_pixels(item->task->pic, task->pic) ? PIXELS
                                                         : COEFFICIENTS;
    hr__task_unclaim(item->task);
    return common;
}

// The hull of what items from .. to end show of the task's pixels; empty: there
// are none. (Decoding a window costs little beside a file's entropy coding.)
static struct hr__rect others(struct ocl_plan *plan,
                              const struct hr__task *task,
                              const struct ocl_item *from,
                              const struct ocl_item *end)
{
    struct hr__rect all = {0};

    for (; from < end; from++) {
        struct hr__task *other = from->task;

        if (other->source != task->source || !is_view(other) ||
            !hr__task_claim(other))
            continue;
        if (same_file(task->pic, other->pic))
            all = hull(all, shown(plan, other->pic));
        hr__task_unclaim(other);
    }
    return all;
}

void ocl_views_find(struct ocl_plan *plan, const struct ocl_batch *batch, int i,
                    struct ocl_item *item, const struct ocl_item *from,
                    const struct ocl_item *end)
{
    const struct hr__task *task = item->task;
    struct hr__rect window;

    item->lead = 0;
    item->recolors = false;
    item->all = (struct hr__rect){0};
    if (plan->alone || !is_view(task))
        return;
    window = shown(plan, task->pic);
    for (int k = 0; k < i && window.w; k++) {
        const struct ocl_item *other = &batch->items[k];
        enum common common = has(other, task, window);

        if (common == PIXELS ||
            (common == COEFFICIENTS && !other->lead && !item->lead)) {
            item->lead = k + 1;
            item->recolors = common == COEFFICIENTS;
            item->pixels = other->pixels;
            item->file = other->file;
            item->all = item->recolors ? other->all : (struct hr__rect){0};
            item->pinned = NULL;
        }
        if (common == PIXELS)
            return;
    }
    if (item->lead)
        return;
    item->all = others(plan, task, from, end);
    if (item->all.w && window.w)
        item->all = hull(item->all, window);
}

bool ocl_plan_views(struct ocl_plan *plan, int i, const struct hr__picture *pic,
                    struct hr__rect window, struct ocl_item *item)
{
    struct hr__kernel_picture *p = ocl_plan_picture(plan, i);
    struct ocl_pixels *pixels = &item->pixels;

    if (item->lead && !item->recolors) {
        p->planes = pixels->planes;
        p->src = pixels->src;
        p->src_plane = pixels->src_plane;
        p->src_stride = pixels->src_stride;
        p->src_x = pixels->x;
        p->src_y = pixels->y;
        return true;
    }
    if (item->all.w)
        window = item->all;
    if (item->recolors)
        ocl_plan_recolor(plan, i, pic, item);
    else if (!ocl_plan_entropy(plan, i, pic, window, item))
        return false;
    *pixels = (struct ocl_pixels){.planes = p->planes,
                                  .src = p->src,
                                  .src_plane = p->src_plane,
                                  .src_stride = p->src_stride,
                                  .x = p->src_x,
                                  .y = p->src_y};
    return true;
}

void ocl_views_pack(const struct ocl_batch *batch, struct ocl_item *item)
{
    const struct ocl_item *lead = &batch->items[item->lead - 1];

    item->flag_at = lead->flag_at;
    item->why = lead->dropped ? HR_WHY_TIMEOUT : lead->why;
}
