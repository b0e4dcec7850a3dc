// SPDX-License-Identifier: Apache-2.0
// Host side of layout.h: what coefficients, axes and destinations come to in
// a descriptor. Pure functions; offsets are the caller's, and so are checks
// that buffers stay below 4 GiB.
//
//   hr__kernel_begin()
//   hr__kernel_coefficients(), _dense(), _planes() or _pixels(): where pixels
//                       come from
//   hr__kernel_axes():  the resample step
//   hr__kernel_store(): where they go
//   hr__kernel_groups(), _list(), _pad(), _rows(): the launches
//
// Those of the second line and hr__kernel_axes() take and return the next free
// byte of the work buffer, which begins at HR__SLACK.
#ifndef HR__KERNELS_PLAN_H
#define HR__KERNELS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "hal/engine/engine.h"
#include "kernels/layout.h"

static inline uint64_t hr__kernel_round(uint64_t n, unsigned to)
{
    return (n + to - 1) / to * to;
}

static inline void hr__kernel_begin(struct hr__kernel_picture *p,
                                    const struct hr__step *step)
{
    memset(p, 0, sizeof(*p));
    p->flags = step->v_first ? HR__TURNED : 0;
}

static inline bool hr__kernel_turned(const struct hr__kernel_picture *p)
{
    return p->flags & HR__TURNED;
}

// Sets the window of the picture that resample's input begins with.
static inline void hr__kernel_reads(struct hr__kernel_picture *p,
                                    struct hr__rect w)
{
    bool turn = hr__kernel_turned(p);

    p->src_x = turn ? w.y : w.x;
    p->src_y = turn ? w.x : w.y;
    p->rows = turn ? w.w : w.h;
}

// Planes behind `work`, for resample: that many columns (or rows, if turned)
// of that many bytes.
static inline uint64_t hr__kernel_lines(struct hr__kernel_picture *p, int lines,
                                        int bytes, unsigned planes,
                                        uint64_t work)
{
    work = hr__kernel_round(work, HR__LANES);
    p->planes = planes;
    p->rgb = p->src = (hr__u32)work;
    p->rgb_stride = (hr__u32)hr__kernel_round((uint64_t)bytes, HR__LANES);
    p->rgb_plane = p->rgb_stride * (hr__u32)lines + HR__SLACK;
    p->src_plane = p->rgb_plane;
    p->src_stride = p->rgb_stride;
    return work + (uint64_t)planes * p->rgb_plane + HR__SLACK;
}

// The window as hr_color makes it, from an even row on. If turned, it writes
// whole tiles.
static inline uint64_t hr__kernel_window(struct hr__kernel_picture *p,
                                         struct hr__rect w, unsigned planes,
                                         uint64_t work)
{
    int odd = w.y & 1, h = w.h + odd;

    p->x = w.x;
    p->y = w.y - odd;
    p->w = w.w;
    p->h = h;
    hr__kernel_reads(p, w);
    if (hr__kernel_turned(p)) {
        h = (int)hr__kernel_round((uint64_t)h, HR__LANES);
        work = hr__kernel_lines(p, h, w.w, planes, work);
        p->src += (hr__u32)odd * p->src_stride;
    } else {
        work = hr__kernel_lines(p, w.w, h, planes, work);
        p->src += (hr__u32)odd;
    }
    return work;
}

// Plans the upsampling of a component whose size is known, as jinit_upsampler
// of libjpeg-turbo's src/jdsample.c.
static inline void hr__kernel_upsampling(struct hr__kernel_component *k,
                                         hr__u32 step_x, hr__u32 step_y)
{
    k->step_x = step_x;
    k->step_y = step_y;
    if (step_x == 2 && step_y <= 2 && k->width > 2)
        k->fancy = HR__FANCY_X | (step_y == 2 ? HR__FANCY_Y : 0);
    else if (step_x == 1 && step_y == 2)
        k->fancy = HR__FANCY_Y;
    else
        k->fancy = 0;
}

static inline void hr__kernel_component_of(struct hr__kernel_component *k,
                                           const struct hr__coefficients *c,
                                           int i)
{
    const struct hr__coef_component *comp = &c->comp[i];
    bool one = c->num_components == 1;

    k->blocks_w = comp->blocks_w;
    k->blocks_h = comp->blocks_h;
    k->stride = comp->blocks_h * 8;
    k->x = (hr__i32)comp->block_x * 8;
    k->y = (hr__i32)comp->block_y * 8;
    k->width = (hr__i32)comp->width;
    k->height = (hr__i32)comp->height;
    hr__kernel_upsampling(k, one ? 1 : c->h_max / comp->h,
                          one ? 1 : c->v_max / comp->v);
}

// Lets resample read the component's planes as they are, from the first block
// on.
static inline void hr__kernel_blocks(struct hr__kernel_picture *p,
                                     struct hr__rect w)
{
    const struct hr__kernel_component *k = &p->comp[0];
    bool turn = hr__kernel_turned(p);

    p->w = p->h = 0;  // hr_color has nothing to do
    hr__kernel_reads(p, w);
    p->src_stride = k->stride;
    p->src = k->plane + (hr__u32)(p->src_x - (turn ? k->y : k->x)) * k->stride +
             (hr__u32)(p->src_y - (turn ? k->x : k->y));
}

// The window of a picture whose components are planned. gray: one plane.
static inline uint64_t hr__kernel_colors(struct hr__kernel_picture *p,
                                         hr__u32 components, hr__u32 color,
                                         struct hr__rect w, bool gray,
                                         uint64_t work)
{
    if (components > 1) {
        p->color = color == HR_COLOR_YCC ? HR__KERNEL_YCC : HR__KERNEL_RGB;
        return hr__kernel_window(p, w, gray ? 1 : 3, work);
    }
    // Resample reads the only component as it is.
    p->color = HR__KERNEL_GRAY;
    p->planes = 1;
    p->src_plane = 0;
    hr__kernel_blocks(p, w);
    return work;
}

// Components with a sample for every pixel, and the same blocks of each.
static inline bool hr__kernel_fusible(const struct hr__kernel_picture *p)
{
    const struct hr__kernel_component *k = p->comp;

    for (int i = 0; i < 3; i++)
        if (k[i].step_x != 1 || k[i].step_y != 1 || k[i].x != k[0].x ||
            k[i].y != k[0].y || k[i].blocks_w != k[0].blocks_w ||
            k[i].blocks_h != k[0].blocks_h)
            return false;
    return true;
}

// Planes of the window lie where those of components would.
static inline void hr__kernel_fuse(struct hr__kernel_picture *p,
                                   struct hr__rect w, bool gray)
{
    struct hr__kernel_component *k = p->comp;

    if (hr__kernel_turned(p))
        k[0].stride = k[0].blocks_w * 8;
    p->fused_blocks = k[0].blocks_w * k[0].blocks_h;
    p->num_blocks = 0;
    p->x = k[0].x;
    p->y = k[0].y;
    p->planes = gray ? 1 : 3;
    p->rgb = k[0].plane;
    p->rgb_plane = k[1].plane - k[0].plane;
    p->rgb_stride = k[0].stride;
    p->src_plane = p->rgb_plane;
    hr__kernel_blocks(p, w);
}

// Components whose blocks have so many bytes each in work (a multiple of 8),
// and planes behind them.
static inline uint64_t hr__kernel_components(struct hr__kernel_picture *p,
                                             const struct hr__coefficients *c,
                                             unsigned bytes, uint64_t work)
{
    uint32_t begin = 0, n = c->num_components;

    work = hr__kernel_round(work, HR__LANES);
    for (uint32_t i = 0; i < 3; i++) {
        struct hr__kernel_component *k = &p->comp[i];

        if (i < n) {
            hr__kernel_component_of(k, c, (int)i);
            k->begin = begin;
            begin += k->blocks_w * k->blocks_h;
            k->index = (hr__u32)work;
            work += (uint64_t)k->blocks_w * k->blocks_h * bytes;
        }
        k->end = begin;
    }
    p->num_blocks = begin;
    for (uint32_t i = 0; i < n; i++) {
        struct hr__kernel_component *k = &p->comp[i];

        k->plane = (hr__u32)work;
        work += (uint64_t)k->stride * k->blocks_w * 8 + HR__SLACK;
    }
    return work;
}

// Plans the stages behind these components.
static inline uint64_t hr__kernel_decoded(struct hr__kernel_picture *p,
                                          const struct hr__coefficients *c,
                                          bool gray, bool fuse, uint64_t work)
{
    struct hr__rect window = {(int)c->x, (int)c->y, (int)c->w, (int)c->h};
    uint32_t n = c->num_components;

    if (n == 1 && hr__kernel_turned(p))
        p->comp[0].stride = p->comp[0].blocks_w * 8;
    if (n > 1 && fuse && hr__kernel_fusible(p)) {
        p->color = c->color == HR_COLOR_YCC ? HR__KERNEL_YCC : HR__KERNEL_RGB;
        hr__kernel_fuse(p, window, gray);
        return work;
    }
    return hr__kernel_colors(p, n, c->color, window, gray, work);
}

// A payload of packed coefficients that lies at byte in_at of `in` (a multiple
// of 4). gray: one plane of luma. fuse: hr_reconstruct_color_gpu is there.
static inline uint64_t hr__kernel_coefficients(struct hr__kernel_picture *p,
                                               const struct hr__coefficients *c,
                                               uint64_t in_at, bool gray,
                                               bool fuse, uint64_t work)
{
    p->packed = (hr__u32)in_at;
    work = hr__kernel_components(p, c, 8, work);
    for (uint32_t i = 0; i < c->num_components; i++) {
        struct hr__kernel_component *k = &p->comp[i];

        p->num_lines += k->blocks_h;
        k->segments = (hr__u32)(in_at +
                                offsetof(struct hr__coefficients, offset) +
                                c->comp[i].first * sizeof(c->offset[0]));
        k->quant = (hr__u32)(in_at + offsetof(struct hr__coefficients, comp) +
                             i * sizeof(struct hr__coef_component) +
                             offsetof(struct hr__coef_component, quant));
    }
    return hr__kernel_decoded(p, c, gray, fuse, work);
}

// Coefficients that the kernels of entropy.h make, of which c says all but
// where packed ones would lie. quant: byte of `in` where the quantizers of the
// components lie one behind the other (a multiple of 16).
static inline uint64_t hr__kernel_dense(struct hr__kernel_picture *p,
                                        const struct hr__coefficients *c,
                                        uint64_t quant, bool gray, bool fuse,
                                        uint64_t work)
{
    work = hr__kernel_components(p, c, 64 * sizeof(int16_t), work);
    p->flags |= HR__DENSE;
    p->coefs = p->comp[0].index;
    p->num_coefs = p->num_blocks;
    for (uint32_t i = 0; i < c->num_components; i++)
        p->comp[i].quant = (hr__u32)(quant + i * sizeof(c->comp[0].quant));
    return hr__kernel_decoded(p, c, gray, fuse, work);
}

// Plans a picture that reads the coefficients of picture `of`, in the same
// window. (Where quantizers lie in `in` may not be known yet.)
static inline uint64_t hr__kernel_dense_of(struct hr__kernel_picture *p,
                                           const struct hr__kernel_picture *of,
                                           const struct hr__coefficients *c,
                                           bool gray, bool fuse, uint64_t work)
{
    work = hr__kernel_components(p, c, 0, work);
    p->flags |= HR__DENSE;
    for (uint32_t i = 0; i < c->num_components; i++)
        p->comp[i].index = of->comp[i].index;
    return hr__kernel_decoded(p, c, gray, fuse, work);
}

// Samples that pixels [from, from + len) of a picture are made of, and one
// more on each side where the component goes on.
static inline void hr__kernel_cover(int from, int len, int step, int samples,
                                    int *first, int *count)
{
    int lo = from / step, hi = (from + len - 1) / step;

    lo -= lo > 0;
    hi += hi + 1 < samples;
    *first = lo;
    *count = hi - lo + 1;
}

// Computes where the wanted samples of a component begin in `in`, and the bytes
// to the next column and row.
struct hr__kernel_samples {
    struct hr__rect want;
    uint64_t at;
    uint32_t next_x, next_y;
};

static inline uint64_t hr__kernel_planes(struct hr__kernel_picture *p,
                                         const struct hr__planes *c,
                                         const struct hr__kernel_samples s[3],
                                         struct hr__rect window, bool gray,
                                         uint64_t work)
{
    uint32_t items = 0, n = c->num_components;
    bool turn = n == 1 && hr__kernel_turned(p);  // else hr_color does it

    for (uint32_t i = 0; i < 3; i++) {
        struct hr__kernel_component *k = &p->comp[i];

        if (i >= n) {
            k->end = items;
            continue;
        }
        k->samples = (hr__u32)s[i].at;
        k->samples_x = turn ? s[i].next_y : s[i].next_x;
        k->samples_y = turn ? s[i].next_x : s[i].next_y;
        k->x = s[i].want.x;
        k->y = s[i].want.y;
        k->cols = turn ? s[i].want.h : s[i].want.w;
        k->rows = turn ? s[i].want.w : s[i].want.h;
        k->width = (hr__i32)c->comp[i].width;
        k->height = (hr__i32)c->comp[i].height;
        hr__kernel_upsampling(k, c->h_max / c->comp[i].h,
                              c->v_max / c->comp[i].v);
        k->stride = (hr__u32)hr__kernel_round((uint64_t)k->rows, HR__LANES);
        work = hr__kernel_round(work, HR__LANES);
        k->plane = (hr__u32)work;
        work += (uint64_t)k->stride * (uint64_t)k->cols + HR__SLACK;
        k->begin = items;
        items += k->stride / HR__LANES *
                 (uint32_t)(hr__kernel_round((uint64_t)k->cols,
                                             HR__PIXEL_COLUMNS) /
                            HR__PIXEL_COLUMNS);
        k->end = items;
    }
    p->num_blocks = items;
    return hr__kernel_colors(p, n, c->color, window, gray, work);
}

// u8 pixels: the window's first is at byte in_at of `in`; bytes to the next
// pixel, row, channel.
static inline uint64_t hr__kernel_pixels(struct hr__kernel_picture *p,
                                         struct hr__rect window,
                                         unsigned planes, uint64_t in_at,
                                         size_t next_x, size_t next_y,
                                         size_t next_c, uint64_t work)
{
    bool turn = hr__kernel_turned(p);

    p->w = turn ? window.h : window.w;
    p->h = turn ? window.w : window.h;
    p->pixels = (hr__u32)in_at;
    p->pixels_x = (hr__u32)(turn ? next_y : next_x);
    p->pixels_y = (hr__u32)(turn ? next_x : next_y);
    p->pixels_c = (hr__u32)next_c;
    hr__kernel_reads(p, window);
    return hr__kernel_lines(p, p->w, p->h, planes, work);
}

static inline void hr__kernel_axis_of(struct hr__kernel_axis *k,
                                      const struct hr__axis *a,
                                      const void *axes)
{
    k->lo = (hr__u32)(a->lo - (const int32_t *)axes);
    k->n = (hr__u32)(a->n - (const int32_t *)axes);
    k->w = (hr__u32)(a->w - (const int32_t *)axes);
    k->stride = (hr__u32)a->stride;
    k->out = a->out;
    k->pad = a->pad_before;
}

// The source must be set, and contain what the axes read. The axes were built
// in what the buffer `axes` begins with.
static inline uint64_t hr__kernel_axes(struct hr__kernel_picture *p,
                                       const struct hr__step *step,
                                       const struct hr__axis *x,
                                       const struct hr__axis *y,
                                       const void *axes, uint64_t work)
{
    const struct hr__axis *first = x;

    if (step->v_first)
        x = y, y = first;
    hr__kernel_axis_of(&p->ax, x, axes);
    hr__kernel_axis_of(&p->ay, y, axes);
    p->flags |= (x->identity ? HR__IDENTITY_X : 0) |
                (y->identity ? HR__IDENTITY_Y : 0);
    p->win_w = step->v_first ? step->win.h : step->win.w;
    p->win_h = step->v_first ? step->win.w : step->win.h;
    if (!x->out || !y->out) {
        p->flags |= HR__NO_PIXELS;
        p->rows = 0;
        p->num_lines = p->num_blocks = p->fused_blocks = 0;
        p->w = p->h = 0;
        p->tmp = p->tmp_plane = p->tmp_stride = 0;
        return work;
    }
    p->src += (hr__u32)(x->src_lo - p->src_x) * p->src_stride +
              (hr__u32)(y->src_lo - p->src_y);
    p->src_x = x->src_lo - x->base;
    p->src_y = y->src_lo - y->base;
    p->rows = y->src_hi - y->src_lo;
    work = hr__kernel_round(work, HR__LANES);
    p->tmp = (hr__u32)work;
    p->tmp_stride = (hr__u32)hr__kernel_round((uint64_t)p->win_w, HR__LANES);
    p->tmp_plane = p->tmp_stride *
                   (hr__u32)hr__kernel_round((uint64_t)p->rows, HR__LANES);
    return work + (uint64_t)p->planes * p->tmp_plane + HR__SLACK;
}

// The tensor at byte out_at of `out`; its table at that word of the plan.
static inline void hr__kernel_store(struct hr__kernel_picture *p,
                                    const struct hr__step *step,
                                    const struct hr__dst *d, uint64_t out_at,
                                    hr__u32 table, bool table_identity)
{
    size_t element = hr_dtype_size(d->dtype);
    bool planar = d->layout == HR_NCHW;
    hr__u32 x = (hr__u32)(planar ? element : element * (size_t)d->c);
    bool turn = step->transpose != step->v_first;

    p->out = (hr__u32)out_at;
    p->out_x = turn ? (hr__u32)d->stride_h : x;
    p->out_y = turn ? x : (hr__u32)d->stride_h;
    p->out_c = (hr__u32)(planar ? d->stride_c : element);
    p->channels = (hr__u32)d->c;
    p->type = (hr__u32)d->dtype;
    p->table = table;
    if (turn)
        p->flags |= HR__OUT_TURNED;
    if (table_identity && d->dtype == HR_U8)
        p->flags |= HR__TABLE_IDENTITY;
}

// Work-groups that this picture needs of a kernel; 0 = none.
static inline hr__u32 hr__kernel_groups(const struct hr__kernel_picture *p,
                                        int kernel)
{
    uint64_t items = 0, strips = hr__kernel_round((uint64_t)p->h, 16) / 16;
    uint64_t chunks = hr__kernel_round((uint64_t)p->win_w, 16) / 16, columns;

    switch (kernel) {
    case HR__KERNEL_BEGIN:
        items = (uint64_t)p->num_codes * HR__GROUP;
        items = p->num_coefs > items ? p->num_coefs : items;
        break;
    case HR__KERNEL_GUESS:
    case HR__KERNEL_AGAIN:
    case HR__KERNEL_FAR:
    case HR__KERNEL_WRITE:
        items = p->num_subs;
        break;
    case HR__KERNEL_CHECK:
    case HR__KERNEL_DC:
        items = (uint64_t)p->num_intervals * HR__GROUP;
        break;
    case HR__KERNEL_INDEX:
        items = p->num_lines;
        break;
    case HR__KERNEL_RECONSTRUCT:
    case HR__KERNEL_PLANES:
        items = p->num_blocks;
        break;
    case HR__KERNEL_COLOR:
        columns = hr__kernel_turned(p) ? HR__LANES : HR__COLOR_COLUMNS;
        items = strips * (((uint64_t)p->w + columns - 1) / columns);
        break;
    case HR__KERNEL_PIXELS:
        items = strips * hr__kernel_round((uint64_t)p->w, HR__PIXEL_COLUMNS) /
                HR__PIXEL_COLUMNS;
        break;
    case HR__KERNEL_RESAMPLE:
        items = chunks * p->planes * hr__kernel_round((uint64_t)p->rows, 16) /
                16;
        break;
    case HR__KERNEL_STORE:
        items = chunks * p->planes * hr__kernel_round((uint64_t)p->win_h, 16) /
                16;
        break;
    case HR__KERNEL_ERASE:
        items = p->erased;
        break;
    case HR__KERNEL_AUGMENT:
        items = p->augment ? HR__GROUP : 0;
        break;
    case HR__KERNEL_RECONSTRUCT_GPU:
        items = (uint64_t)p->num_blocks * 8;
        break;
    case HR__KERNEL_FUSED_GPU:
        items = (uint64_t)p->fused_blocks * 8;
        break;
    case HR__KERNEL_COLOR_GPU:
        items = hr__kernel_round((uint64_t)p->h, 4) / 4 * (uint64_t)p->w;
        break;
    case HR__KERNEL_RESIZE_GPU:
        items = hr__kernel_round((uint64_t)p->win_w, HR__TILE) / HR__TILE *
                (hr__kernel_round((uint64_t)p->win_h, HR__TILE) / HR__TILE) *
                p->planes * HR__GROUP;
        break;
    }
    return (hr__u32)((items + HR__GROUP - 1) / HR__GROUP);
}

// Returns the form for GPUs of a kernel: the kernel itself if it has none of
// its own, HR__NUM_KERNELS if another one does its work.
static inline int hr__kernel_gpu(int kernel)
{
    switch (kernel) {
    case HR__KERNEL_RECONSTRUCT:
        return HR__KERNEL_RECONSTRUCT_GPU;
    case HR__KERNEL_COLOR:
        return HR__KERNEL_COLOR_GPU;
    case HR__KERNEL_RESAMPLE:
        return HR__NUM_KERNELS;
    case HR__KERNEL_STORE:
        return HR__KERNEL_RESIZE_GPU;
    default:
        return kernel;
    }
}

// Says whether the form for GPUs can make a picture whose plan is complete: an
// item of hr_resize_gpu has not too many rounds for the rows that its tile
// needs.
static inline bool hr__kernel_suits_gpu(const struct hr__kernel_picture *p)
{
    uint64_t rows = (uint64_t)p->rows;

    if (p->ay.out > HR__TILE)
        rows = rows * HR__TILE / (uint64_t)p->ay.out + p->ay.stride;
    // In each 48 of them an item makes 6 times 4 elements of the first pass.
    return (rows / 48 + 2) * (6 * p->ax.stride + 16) + 4 * p->ay.stride <
           HR__MAX_ROUNDS;
}

// Appends the groups of picture number i to a list; returns its new end.
static inline hr__u32 *hr__kernel_list(hr__u32 *list, hr__u32 i, hr__u32 groups)
{
    for (hr__u32 g = 0; g < groups; g++) {
        *list++ = i;
        *list++ = g;
    }
    return list;
}

// A launch of that many groups: its rows, and how many are in each.
static inline size_t hr__kernel_rows(size_t groups, size_t *width)
{
    size_t rows = (groups + HR__ROW_GROUPS - 1) / HR__ROW_GROUPS;

    *width = rows ? (groups + rows - 1) / rows : 0;
    return rows;
}

// Completes the last row of a list with groups behind the end of a picture:
// fewer than there are rows. Returns the list's new end.
static inline hr__u32 *hr__kernel_pad(hr__u32 *list, hr__u32 *end)
{
    size_t groups = (size_t)(end - list) / 2, width;
    size_t rows = hr__kernel_rows(groups, &width);

    for (; groups < rows * width; groups++, end += 2) {
        end[0] = end[-2];
        end[1] = end[-1] + 1;
    }
    return end;
}

#endif
