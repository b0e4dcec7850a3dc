// SPDX-License-Identifier: Apache-2.0
// Host side of stage augment: a list of codes as the kernel reads it. Pure
// functions; offsets are the caller's.
#ifndef HR__KERNELS_AUGMENT_PLAN_H
#define HR__KERNELS_AUGMENT_PLAN_H

#include <stdbool.h>
#include <string.h>

#include "kernels/plan.h"

#define X(NAME, name)                                               \
    _Static_assert((int)HR__CODE_##NAME == (int)HR__AUGMENT_##NAME, \
                   "the kernel has every code");
HR__AUGMENT_MAP(X)
#undef X

// The codes behind a sample's last step, and the size of what that makes.
struct hr__kernel_codes {
    const struct hr__augment *list;
    int num, w, h;
};

static inline struct hr__kernel_codes hr__kernel_codes(
    const struct hr__geometry *geo)
{
    const struct hr__step *last = &geo->steps[geo->num_steps - 1];

    return (struct hr__kernel_codes){geo->augments +
                                         (geo->num_augments - last->augments),
                                     last->augments, last->out_w, last->out_h};
}

// Bytes of a row, and of the largest plane on the way.
static inline uint64_t hr__kernel_row(int w)
{
    return ((uint64_t)w + 3) / 4 * 4;
}

static inline uint64_t hr__kernel_plane(const struct hr__kernel_codes *c)
{
    uint64_t most = hr__kernel_row(c->w) * (uint64_t)c->h;

    for (int i = 0; i < c->num; i++) {
        uint64_t size = hr__kernel_row(c->list[i].w) * (uint64_t)c->list[i].h;

        most = size > most ? size : most;
    }
    return hr__kernel_round(most, HR__LANES);
}

// Words of its own in the plan, besides the list.
static inline size_t hr__kernel_code_words(const struct hr__augment *a)
{
    if (a->code == HR__AUGMENT_TABLE)
        return sizeof(a->table) / sizeof(hr__u32);
    if (a->code == HR__AUGMENT_WARP && a->warp.way == HR__WARP_AXES)
        return (size_t)a->w + (size_t)a->h;
    return 0;
}

static inline void hr__kernel_bits(const float *from, int n, hr__u32 *to)
{
    memcpy(to, from, sizeof(*to) * (size_t)n);
}

// Plans a warp for a picture of w x h. words: its own, if it has some.
static inline void hr__kernel_warp(struct hr__kernel_code *k,
                                   const struct hr__warp *warp, int w, int h,
                                   hr__i32 *words)
{
    static const hr__u32 ways[] = {[HR__WARP_AXES] = HR__WAY_AXES,
                                   [HR__WARP_FIXED] = HR__WAY_FIXED,
                                   [HR__WARP_AFFINE] = HR__WAY_AFFINE,
                                   [HR__WARP_PERSPECTIVE] = HR__WAY_PERSPECTIVE};

    k->way = ways[warp->way];
    k->taps = warp->filter == HR_NEAREST   ? 1
              : warp->filter == HR_BICUBIC ? 4
                                           : 2;
    k->fill = warp->fill[0] | (hr__u32)warp->fill[1] << 8 |
              (hr__u32)warp->fill[2] << 16;
    memcpy(k->v, warp->fixed, sizeof(warp->fixed));
    for (int i = 0; i < 8; i++) {
        uint64_t bits;

        memcpy(&bits, &warp->m[i], sizeof(bits));
        k->m[2 * i] = (hr__u32)bits;
        k->m[2 * i + 1] = (hr__u32)(bits >> 32);
    }
    if (warp->way != HR__WARP_AXES)
        return;
    hr__warp_places(words, k->w, warp->m[2], warp->m[0], w, warp->edges);
    hr__warp_places(words + k->w, k->h, warp->m[5], warp->m[4], h, warp->edges);
}

// Returns how many codes of the kernel a code is: each pass of a box is one.
static inline int hr__kernel_num_codes(const struct hr__augment *a)
{
    if (a->code == HR__AUGMENT_BOX)
        return ((a->box.x.inner > 0) + (a->box.y.inner > 0)) * a->box.passes;
    return 1;
}

static inline void hr__kernel_boxes(struct hr__kernel_code *k,
                                    const struct hr__augment *a)
{
    for (int y = 0; y < 2; y++) {
        const struct hr__box *box = y ? &a->box.y : &a->box.x;

        for (int i = 0; box->inner && i < a->box.passes; i++) {
            *k = (struct hr__kernel_code){.code = HR__CODE_BOX,
                                          .w = a->w,
                                          .h = a->h,
                                          .v = {box->reach, y},
                                          .m = {box->inner, box->outer}};
            k++;
        }
    }
}

static inline void hr__kernel_code(struct hr__kernel_code *k,
                                   const struct hr__augment *a, int w, int h,
                                   hr__u32 table, hr__u32 *words)
{
    if (a->code == HR__AUGMENT_BOX) {
        hr__kernel_boxes(k, a);
        return;
    }
    memset(k, 0, sizeof(*k));
    k->code = (hr__u32)a->code;
    k->w = a->w;
    k->h = a->h;
    k->table = table;
    switch (a->code) {
    case HR__AUGMENT_TABLE:
        memcpy(words, &a->table, sizeof(a->table));
        break;
    case HR__AUGMENT_MIX_MEAN:
    case HR__AUGMENT_MIX_LUMA:
    case HR__AUGMENT_MIX_SMOOTH:
        memcpy(k->v, &a->factor, sizeof(a->factor));
        break;
    case HR__AUGMENT_HUE:
        k->v[0] = a->shift;
        break;
    case HR__AUGMENT_LUMA:
        k->v[0] = a->single;
        break;
    case HR__AUGMENT_STRETCH:
        memcpy(k->v, a->cut, sizeof(a->cut));
        break;
    case HR__AUGMENT_WARP:
        hr__kernel_warp(k, &a->warp, w, h, (hr__i32 *)words);
        break;
    case HR__AUGMENT_KERNEL3:
        hr__kernel_bits(a->kernel3.weights, 9, k->m);
        hr__kernel_bits(&a->kernel3.offset, 1, k->m + 9);
        break;
    case HR__AUGMENT_PERMUTE:
        k->v[0] = a->from[0] | a->from[1] << 8 | a->from[2] << 16;
        break;
    default:
        break;
    }
}

// ---- A picture --------------------------------------------------------------

// Words of the plan for a list: the struct, its codes, what is theirs alone.
static inline size_t hr__kernel_augment_words(const struct hr__kernel_codes *c)
{
    size_t words = sizeof(struct hr__kernel_augment) / sizeof(hr__u32);

    for (int i = 0; i < c->num; i++)
        words += (size_t)hr__kernel_num_codes(&c->list[i]) *
                     (sizeof(struct hr__kernel_code) / sizeof(hr__u32)) +
                 hr__kernel_code_words(&c->list[i]);
    return words;
}

// That begin at word `at`, here at k.
static inline void hr__kernel_list_codes(struct hr__kernel_augment *k,
                                         const struct hr__kernel_codes *c,
                                         hr__u32 at)
{
    struct hr__kernel_code *code = (struct hr__kernel_code *)(k + 1);
    int w = c->w, h = c->h;
    hr__u32 *own;

    for (int i = 0; i < c->num; i++)
        k->num += (hr__u32)hr__kernel_num_codes(&c->list[i]);
    own = (hr__u32 *)(code + k->num);
    for (int i = 0; i < c->num; i++) {
        const struct hr__augment *a = &c->list[i];

        hr__kernel_code(code, a, w, h, at + (hr__u32)(own - (hr__u32 *)k), own);
        own += hr__kernel_code_words(a);
        code += hr__kernel_num_codes(a);
        w = a->w;
        h = a->h;
    }
}

// Plans the place where stage store puts its bytes. Tensor, table and work
// buffer are as for hr__kernel_store() and hr__kernel_axes().
static inline uint64_t hr__kernel_augment(struct hr__kernel_augment *k,
                                          const struct hr__kernel_codes *c,
                                          hr__u32 at, int channels,
                                          const struct hr__dst *d,
                                          uint64_t out_at, hr__u32 table,
                                          struct hr__dst *planes, uint64_t work)
{
    uint64_t plane = hr__kernel_plane(c), all = (uint64_t)channels * plane;
    size_t element = hr_dtype_size(d->dtype);
    bool planar = d->layout == HR_NCHW;

    work = hr__kernel_round(work, HR__LANES);
    *k = (struct hr__kernel_augment){
        .w = c->w,
        .h = c->h,
        .channels = (hr__u32)channels,
        .from = (hr__u32)work,
        .beside = (hr__u32)(work + all),
        .plane = (hr__u32)plane,
        .out = (hr__u32)out_at,
        .out_x = (hr__u32)(planar ? element : element * (size_t)d->c),
        .out_y = (hr__u32)d->stride_h,
        .out_c = (hr__u32)(planar ? d->stride_c : element),
        .type = (hr__u32)d->dtype,
        .table = table};
    hr__kernel_list_codes(k, c, at);
    *planes = (struct hr__dst){.w = c->w,
                               .h = c->h,
                               .c = channels,
                               .dtype = HR_U8,
                               .layout = HR_NCHW,
                               .stride_c = (size_t)plane,
                               .stride_h = (size_t)hr__kernel_row(c->w)};
    return work + 2 * all + HR__SLACK;
}

// ---- What it costs ----------------------------------------------------------

// The most rounds of loops that an item has with a code, for each of its cells.
static inline uint64_t hr__kernel_code_rounds(const struct hr__augment *a)
{
    uint64_t x = 2 * (uint64_t)a->box.x.reach + 5;
    uint64_t y = 2 * (uint64_t)a->box.y.reach + 2;

    switch (a->code) {
    case HR__AUGMENT_MIX_LUMA:
    case HR__AUGMENT_WARP:
        return 20;
    case HR__AUGMENT_MIX_MEAN:
    case HR__AUGMENT_LUMA:
    case HR__AUGMENT_HUE:
        return 8;
    case HR__AUGMENT_EQUALIZE:
    case HR__AUGMENT_STRETCH:
        return 18;
    case HR__AUGMENT_MIX_SMOOTH:
    case HR__AUGMENT_KERNEL3:
        return 87;
    case HR__AUGMENT_BOX:
        return 3 * (uint64_t)a->box.passes *
               ((a->box.x.inner ? x : 0) + (a->box.y.inner ? y : 0));
    default:
        return 3;
    }
}

// .. and with a whole list, the tensor included; also what orders groups by
// their cost.
static inline uint64_t hr__kernel_augment_rounds(
    const struct hr__kernel_codes *c, unsigned items)
{
    uint64_t rounds = 0, cells = hr__kernel_row(c->w) / 4 * (uint64_t)c->h;

    for (int i = 0; i < c->num; i++) {
        const struct hr__augment *a = &c->list[i];
        uint64_t made = hr__kernel_row(a->w) / 4 * (uint64_t)a->h;

        cells = a->code == HR__AUGMENT_WARP ? made : cells;
        rounds += (cells + items - 1) / items * hr__kernel_code_rounds(a);
        // Tables: of 256 sums of as many counts; or of 511 blends.
        rounds += a->code == HR__AUGMENT_EQUALIZE  ? 768 * 256 / items + 24
                  : a->code == HR__AUGMENT_STRETCH ? 768 * 512 / items + 24
                                                   : 511 * 12 / items + 24;
        cells = made;
    }
    return rounds + 3 * 5 * ((cells + items - 1) / items);
}

#endif
