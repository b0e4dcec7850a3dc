// SPDX-License-Identifier: Apache-2.0
// A picture whose entropy coding the device decodes: what the kernels must know
// of its scan (kernels/entropy.h), and the scan on its way into pinned memory,
// where it loses its stuffing and markers. Only the host works here.
//
// In the upload lie struct hr__entropy, the quantizers, the codes, the
// intervals, the scan. Threads that prepare samples
// copy all that depends on the file alone into pinned memory, where there is
// some; else the driver thread does it.
#include <string.h>

#include "backends/opencl/opencl.h"
#include "kernels/entropy_plan.h"
#include "kernels/plan.h"

static size_t quantizers_at(void)
{
    return hr__kernel_round(sizeof(struct hr__entropy), 16);
}

static size_t codes_at(void)
{
    return quantizers_at() + 3 * 64 * sizeof(uint16_t);
}

static size_t intervals_at(const struct ocl_scan *s)
{
    return codes_at() + s->num_codes * sizeof(s->codes[0]);
}

static size_t scan_at(const struct ocl_scan *s)
{
    return intervals_at(s) +
           ocl_scan_intervals(s) * sizeof(struct hr__interval);
}

size_t ocl_entropy_bytes(const struct ocl_scan *s)
{
    return scan_at(s) + hr__entropy_room(s->size);
}

// Only for files that were copied ahead.
static size_t facts_at(const struct ocl_scan *s)
{
    return hr__kernel_round(ocl_entropy_bytes(s), 8);
}

static uint32_t sub_marks(const struct ocl_scan *s)
{
    return hr__entropy_marks(s->size, ocl_scan_mcus(s) * s->mcu_blocks);
}

// Subsequences, at most.
static uint32_t most_subs(const struct ocl_scan *s)
{
    return (uint32_t)(8 * s->size / HR__MARK_BITS / sub_marks(s)) +
           ocl_scan_intervals(s);
}

static size_t mark_bytes(const struct ocl_scan *s)
{
    return (size_t)most_subs(s) * hr__all_marks(sub_marks(s)) *
           sizeof(struct hr__mark);
}

static uint64_t kept_bytes(const struct ocl_scan *s, bool gpu)
{
    return gpu ? hr__kernel_round(most_subs(s), HR__GROUP) * HR__SUB_ROOM *
                     sizeof(uint16_t)
               : 0;
}

static uint32_t blocks_of(const struct ocl_scan *s, uint32_t i)
{
    return ocl_scan_mcus(s) * s->comp[i].h * s->comp[i].v;
}

uint64_t ocl_entropy_work(const struct ocl_scan *s, bool gpu)
{
    uint64_t bytes = most_subs(s) *
                         (uint64_t)(sizeof(struct hr__sub) + sizeof(hr__word)) +
                     mark_bytes(s) + kept_bytes(s, gpu) +
                     s->num_codes * sizeof(struct hr__huffman);

    for (uint32_t i = 0; i < s->num_components; i++)
        bytes += blocks_of(s, i) * sizeof(int16_t) + OCL_ALIGN;
    return bytes + 6 * OCL_ALIGN;
}

// ---- Planning --------------------------------------------------------------

// The blocks of component i that the window needs: its samples, and one more on
// each side where the component goes on.
static void cover(struct hr__coefficients *c, const struct ocl_scan *s,
                  const struct hr_info *info, uint32_t i)
{
    struct hr__coef_component *k = &c->comp[i];
    uint32_t x = c->h_max / s->comp[i].h, y = c->v_max / s->comp[i].v;
    int first, count;

    k->h = s->comp[i].h;
    k->v = s->comp[i].v;
    k->width = ((uint32_t)info->width + x - 1) / x;
    k->height = ((uint32_t)info->height + y - 1) / y;
    hr__kernel_cover((int)c->x, (int)c->w, (int)x, (int)k->width, &first,
                     &count);
    k->block_x = (uint32_t)first / 8;
    k->blocks_w = (uint32_t)(first + count - 1) / 8 - k->block_x + 1;
    hr__kernel_cover((int)c->y, (int)c->h, (int)y, (int)k->height, &first,
                     &count);
    k->block_y = (uint32_t)first / 8;
    k->blocks_h = (uint32_t)(first + count - 1) / 8 - k->block_y + 1;
}

static void describe(struct hr__coefficients *c, const struct ocl_scan *s,
                     const struct hr_info *info, struct hr__rect window)
{
    *c = (struct hr__coefficients){.num_components = s->num_components,
                                   .color = info->color,
                                   .h_max = s->h_max,
                                   .v_max = s->v_max,
                                   .x = (uint32_t)window.x,
                                   .y = (uint32_t)window.y,
                                   .w = (uint32_t)window.w,
                                   .h = (uint32_t)window.h};
    for (uint32_t i = 0; i < s->num_components; i++)
        cover(c, s, info, i);
}

static void plan_component(struct ocl_plan *plan, struct hr__entropy *e,
                           const struct ocl_scan *s,
                           const struct hr__kernel_picture *p,
                           const struct hr__coefficients *c, uint32_t i)
{
    struct hr__entropy_component *to = &e->comp[i];
    const struct ocl_scan_component *from = &s->comp[i];

    *to = (struct hr__entropy_component){.h = from->h,
                                         .v = from->v,
                                         .block_x = c->comp[i].block_x,
                                         .block_y = c->comp[i].block_y,
                                         .blocks_w = c->comp[i].blocks_w,
                                         .blocks_h = c->comp[i].blocks_h,
                                         .coefs = p->comp[i].index,
                                         .diffs = (hr__word)plan->work};
    plan->work += ocl_aligned(blocks_of(s, i) * sizeof(int16_t));
    for (uint32_t k = 0; k < to->h * to->v; k++) {
        e->of[e->mcu_blocks] = i;
        e->nth[e->mcu_blocks++] = k;
    }
    to->dc = e->tables + from->codes * (hr__word)sizeof(struct hr__huffman);
    to->ac = to->dc + (hr__word)sizeof(struct hr__huffman);
}

// Reserves the memory for coefficients and for the states of the kernels.
static void plan_work(struct ocl_plan *plan, struct hr__entropy *e,
                      const struct ocl_scan *s, struct hr__kernel_picture *p,
                      struct hr__coefficients *c)
{
    *e = (struct hr__entropy){.scan = (hr__word)scan_at(s),
                              .intervals = (hr__word)intervals_at(s),
                              .codes = (hr__word)codes_at(),
                              .num_codes = s->num_codes,
                              .sub_marks = sub_marks(s),
                              .subs = (hr__word)plan->work,
                              .capacity = plan->gpu ? HR__SUB_ROOM : 0,
                              .num_components = s->num_components,
                              .mcus_w = s->mcus_w};
    plan->work += ocl_aligned(most_subs(s) * sizeof(struct hr__sub));
    e->marks = (hr__word)plan->work;
    plan->work += ocl_aligned(mark_bytes(s));
    e->open = (hr__word)plan->work;
    plan->work += ocl_aligned((1 + most_subs(s)) * sizeof(hr__word));
    e->kept = (hr__word)plan->work;
    plan->work += ocl_aligned((size_t)kept_bytes(s, plan->gpu));
    e->tables = (hr__word)plan->work;
    plan->work += ocl_aligned(s->num_codes * sizeof(struct hr__huffman));
    for (uint32_t k = 0; k < s->num_components; k++)
        plan_component(plan, e, s, p, c, k);
}

bool ocl_plan_entropy(struct ocl_plan *plan, int i,
                      const struct hr__picture *pic, struct hr__rect window,
                      struct ocl_item *item)
{
    struct hr__kernel_picture *p = ocl_plan_picture(plan, i);
    struct ocl_scan *s = &item->file->scan;
    struct hr__coefficients c;

    // (What was copied ahead is not read again: it may not have changed.)
    if (item->pinned)
        memcpy(s, item->facts, OCL_SCAN_FACTS);
    if (!window.w || (!item->pinned && ocl_scan_read(pic, s)))
        return false;
    describe(&c, s, &pic->info, window);
    // Pinned ones get their places when all of them are known.
    item->in_at = item->pinned ? 0 : (size_t)plan->in;
    item->in_bytes = item->pinned ? facts_at(s) + OCL_SCAN_FACTS
                                  : ocl_entropy_bytes(s);
    item->flag_at = (size_t)plan->flags;
    plan->flags += sizeof(hr__word);
    plan->work = hr__kernel_dense(p, &c, item->in_at + quantizers_at(),
                                  pic->channels == 1, plan->fuse, plan->work);
    p->entropy = (hr__u32)item->in_at;
    p->num_intervals = ocl_scan_intervals(s);
    p->num_subs = most_subs(s);
    p->num_codes = s->num_codes;
    plan->work = hr__kernel_round(plan->work, OCL_ALIGN);
    plan_work(plan, &item->file->entropy, s, p, &c);
    return true;
}

void ocl_plan_recolor(struct ocl_plan *plan, int i,
                      const struct hr__picture *pic,
                      const struct ocl_item *item)
{
    struct hr__kernel_picture *p = ocl_plan_picture(plan, i);
    struct hr__coefficients c;

    describe(&c, &item->file->scan, &pic->info, item->all);
    plan->work = hr__kernel_dense_of(p, ocl_plan_picture(plan, item->lead - 1),
                                     &c, pic->channels == 1, plan->fuse,
                                     plan->work);
    plan->work = hr__kernel_round(plan->work, OCL_ALIGN);
}

// ---- Bytes -----------------------------------------------------------------

// The one copy that the scan makes, and what depends on nothing but the file;
// *counts: its intervals and subsequences. False: it is odd.
static bool copy_scan(const struct ocl_scan *s, uint8_t *to,
                      struct hr__entropy *counts)
{
    struct hr__interval *list = (void *)(to + intervals_at(s)), *last;
    uint32_t n = hr__entropy_scan(s->data, s->size, s->restart,
                                  ocl_scan_mcus(s), sub_marks(s),
                                  to + scan_at(s), list);

    if (!n)
        return false;
    last = &list[n - 1];
    counts->num_intervals = n;
    counts->num_subs = last->sub + last->subs;
    memcpy(to + codes_at(), s->codes, s->num_codes * sizeof(s->codes[0]));
    for (uint32_t i = 0; i < s->num_components; i++)
        hr__jpeg_quant(&s->comp[i].quant,
                       (uint16_t *)(void *)(to + quantizers_at()) +
                           64 * (size_t)i);
    return true;
}

void ocl_copy_file(struct hr__engine *e, const struct hr__picture *pic,
                   struct hr__payload *ahead)
{
    struct ocl_pinned *pinned = &ocl_of(e)->pinned;
    struct hr__entropy head = {0};
    struct ocl_scan scan;
    size_t size;
    uint8_t *to;

    if (!atomic_load_explicit(&pinned->on, memory_order_relaxed) ||
        ocl_scan_read(pic, &scan))
        return;
    size = facts_at(&scan) + OCL_SCAN_FACTS;
    if (!(to = ocl_pinned_alloc(pinned, size)))
        return;
    if (!copy_scan(&scan, to, &head)) {
        ocl_pinned_free(pinned, to);
        return;
    }
    memcpy(to, &head, sizeof(head));
    memcpy(to + facts_at(&scan), &scan, OCL_SCAN_FACTS);
    *ahead = (struct hr__payload){.data = to,
                                  .size = size,
                                  .extra = to + facts_at(&scan)};
}

void ocl_describe_entropy(struct ocl_item *item, struct hr__kernel_picture *p,
                          size_t flags, uint8_t *to)
{
    struct hr__entropy *e = &item->file->entropy;
    const struct hr__entropy *made = (const void *)item->pinned;

    item->flag_at += flags;
    e->flag = (hr__word)item->flag_at;
    if (made) {
        e->num_intervals = made->num_intervals;
        e->num_subs = made->num_subs;
        to = item->pinned;
    } else if (!copy_scan(&item->file->scan, to, e)) {
        item->why = HR_WHY_DAMAGED;
        p->num_coefs = p->num_intervals = p->num_subs = p->num_codes = 0;
        return;
    }
    p->num_subs = e->num_subs;
    memcpy(to, e, sizeof(*e));
}

unsigned ocl_entropy_failed(const struct ocl_item *item, const uint8_t *down)
{
    hr__word flag;

    if (item->task->copy.memory || item->task->span.first != HR_ENTROPY)
        return 0;
    if (item->why)
        return item->why;
    memcpy(&flag, down + item->flag_at, sizeof(flag));
    return flag & HR__ODD_FILE ? HR_WHY_DAMAGED : flag ? HR_WHY_SERIAL : 0;
}
