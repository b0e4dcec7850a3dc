// SPDX-License-Identifier: Apache-2.0
// Ops to geometry: crop, resize, fit and flip become coordinates of a resample
// step (picture.h draws it). A new step starts only where one cannot say it:
// a second resize, a resize of a padded picture, padding of a cropped one.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hal/shape/shape.h"

// A resize may name a larger picture than any that is made (3 x 1000 with a short
// side of 256): only a window of it need be one.
enum { RESIZED_MOST = 1 << 24 };

// State of the fold: the last step of geo is the one being built.
struct fold {
    struct hr__geometry *geo;
    enum hr_reference reference;
    char *text;  // [128]
};

static struct hr__step *current(struct fold *f)
{
    return &f->geo->steps[f->geo->num_steps - 1];
}

static void set_out(struct hr__step *s)
{
    s->out_w = s->transpose ? s->win.h : s->win.w;
    s->out_h = s->transpose ? s->win.w : s->win.h;
}

// Whether a picture of that size may be made.
static enum hr_status check_size(struct fold *f, int w, int h)
{
    if (w <= HR_MAX_SIDE && h <= HR_MAX_SIDE)
        return HR_OK;
    snprintf(f->text, 128, "a resize makes %dx%d of it, a side has at most %d",
             w, h, HR_MAX_SIDE);
    return HR_EINVAL;
}

static enum hr_status begin_step(struct fold *f, int w, int h)
{
    struct hr__step *s;
    enum hr_status status = check_size(f, w, h);

    if (status)
        return status;
    if (f->geo->num_steps == HR__MAX_STEPS) {
        snprintf(f->text, 128, "the ops need more than %d resample steps",
                 HR__MAX_STEPS);
        return HR_EUNSUPPORTED;
    }
    s = &f->geo->steps[f->geo->num_steps++];
    memset(s, 0, sizeof(*s));
    s->in_w = s->rs_w = w;
    s->in_h = s->rs_h = h;
    s->src = s->win = (struct hr__rect){0, 0, w, h};
    set_out(s);
    return HR_OK;
}

static bool padded(const struct hr__step *s)
{
    return s->win.x < 0 || s->win.y < 0 || s->win.x + s->win.w > s->rs_w ||
           s->win.y + s->win.h > s->rs_h;
}

static void fold_flip(struct hr__step *s, bool transpose, bool x, bool y)
{
    if (transpose) {
        bool old = s->post_x;

        s->transpose = !s->transpose;
        s->post_x = s->post_y;
        s->post_y = old;
    }
    s->post_x ^= x;
    s->post_y ^= y;
    set_out(s);
}

// torchvision functional.py center_crop: a smaller picture is padded first,
// (inner - outer) // 2 on the left; else Python's round(), half to even.
static int centre(int outer, int inner)
{
    if (inner > outer)
        return -((inner - outer) / 2);
    return (int)rint((outer - inner) / 2.0);
}

// r, a crop in coordinates of the window, reaches over an edge behind which
// the window has cut pixels away: there it must see black, not these.
static bool sees_cut_pixels(const struct hr__step *s, const struct hr__rect *r)
{
    return (r->x < 0 && s->win.x > 0) || (r->y < 0 && s->win.y > 0) ||
           (r->x + r->w > s->win.w && s->win.x + s->win.w < s->rs_w) ||
           (r->y + r->h > s->win.h && s->win.y + s->win.h < s->rs_h);
}

static enum hr_status fold_crop(struct fold *f, const struct hr_crop *crop)
{
    struct hr__step *s = current(f);
    enum hr_status status;
    int x = crop->center ? centre(s->out_w, crop->w) : crop->x;
    int y = crop->center ? centre(s->out_h, crop->h) : crop->y;
    struct hr__rect r = {x, y, crop->w, crop->h}, whole = r;

    if (!crop->pad &&
        (x < 0 || y < 0 || crop->w > s->out_w - x || crop->h > s->out_h - y)) {
        snprintf(f->text, 128, "crop %d,%d %dx%d leaves the picture of %dx%d",
                 x, y, crop->w, crop->h, s->out_w, s->out_h);
        return HR_EINVAL;
    }
    if (s->post_x)
        r.x = s->out_w - r.x - r.w;
    if (s->post_y)
        r.y = s->out_h - r.y - r.h;
    if (s->transpose)
        r = (struct hr__rect){r.y, r.x, r.h, r.w};
    if (sees_cut_pixels(s, &r)) {
        if ((status = begin_step(f, s->out_w, s->out_h)))
            return status;
        s = current(f);
        r = whole;
    }
    s->win = (struct hr__rect){s->win.x + r.x, s->win.y + r.y, r.w, r.h};
    set_out(s);
    return HR_OK;
}

// As int() does, but for what is far too large anyhow.
static int to_side(double x)
{
    return x < INT_MAX ? (int)x : INT_MAX;
}

static void resize_size(const struct hr_resize *op, int w, int h, int *rw,
                        int *rh)
{
    int64_t s = op->short_side;

    *rw = op->w;
    *rh = op->h;
    if (!s)
        return;
    // torchvision/transforms/functional.py _compute_resized_output_size:
    // int(size * long / short) with true division of exact integers.
    if (w <= h) {
        *rw = (int)s;
        *rh = to_side((double)(s * h) / w);
    } else {
        *rh = (int)s;
        *rw = to_side((double)(s * w) / h);
    }
}

static bool has_box(const struct hr_resize *op)
{
    return op->box[0] || op->box[1] || op->box[2] || op->box[3];
}

// Pillow's checks, src/_imaging.c _resize.
static enum hr_status check_box(struct fold *f, const float *b, int w, int h)
{
    if (b[0] >= 0 && b[1] >= 0 && b[2] <= w && b[3] <= h && b[2] > b[0] &&
        b[3] > b[1])
        return HR_OK;
    snprintf(f->text, 128, "box %g,%g,%g,%g is not inside a picture of %dx%d",
             b[0], b[1], b[2], b[3], w, h);
    return HR_EINVAL;
}

static void swap_floats(float *a, float *b)
{
    float old = *a;

    *a = *b;
    *b = old;
}

// Crop, turn, then resize: the window so far is what the filter sees, and the
// turn happens before it. A transposed picture is filtered as it lies, with
// the axes exchanged and the passes in the other order, and transposed after.
// v_first: of the picture as its user sees it.
static void begin_filter(struct hr__step *s, enum hr_filter filter,
                         bool v_first, float box[4], int rw, int rh)
{
    s->src = s->win;
    s->pre_x = s->transpose ? s->post_y : s->post_x;
    s->pre_y = s->transpose ? s->post_x : s->post_y;
    s->post_x = s->post_y = false;
    s->v_first = s->transpose != v_first;
    if (s->transpose) {
        swap_floats(&box[0], &box[1]);
        swap_floats(&box[2], &box[3]);
    }
    s->resized = true;
    memcpy(s->box, box, sizeof(s->box));
    s->rs_w = s->transpose ? rh : rw;
    s->rs_h = s->transpose ? rw : rh;
    s->filter = filter;
    s->win = (struct hr__rect){0, 0, s->rs_w, s->rs_h};
    set_out(s);
}

// Of a picture of w x h; box may be all of it. With one pass only there is no
// order, and NEAREST takes every pixel from its place: then the passes stay in
// the order that costs less.
static bool vertical_first(const struct fold *f, const struct hr_resize *op,
                           const float box[4], int w, int h, int rw, int rh)
{
    bool x = rw != w || box[0] != 0 || box[2] != (float)w;
    bool y = rh != h || box[1] != 0 || box[3] != (float)h;
    enum hr_order order = op->order;

    if (!x || !y || op->filter == HR_NEAREST)
        return false;
    if (order == HR_ORDER_REFERENCE)
        order = hr_resize_order(f->reference, w, h, rw, rh);
    return order == HR_ORDER_VERTICAL;
}

static enum hr_status fold_resize(struct fold *f, const struct hr_resize *op)
{
    struct hr__step *s = current(f);
    int w = s->out_w, h = s->out_h, rw, rh;
    enum hr_status status;
    float box[4] = {0, 0, (float)w, (float)h};

    resize_size(op, w, h, &rw, &rh);
    if (rw < 1 || rh < 1 || rw > RESIZED_MOST || rh > RESIZED_MOST) {
        snprintf(f->text, 128, "resize of %dx%d to %dx%d", w, h, rw, rh);
        return HR_EINVAL;
    }
    if (has_box(op)) {
        if ((status = check_box(f, op->box, w, h)))
            return status;
        memcpy(box, op->box, sizeof(box));
    }
    if (rw == w && rh == h && !box[0] && !box[1] && box[2] == (float)w &&
        box[3] == (float)h)
        return HR_OK;  // Image.resize returns a copy
    if (s->resized || padded(s)) {
        if ((status = begin_step(f, w, h)))
            return status;
        s = current(f);
    }
    begin_filter(s, op->filter, vertical_first(f, op, box, w, h, rw, rh), box,
                 rw, rh);
    return HR_OK;
}

// How far the shape w : h is from ratio. (Of h = 0 it is infinite.)
static double off_shape(double w, double h, double ratio)
{
    return fabs(ratio - w / h);
}

// Pillow src/PIL/Image.py thumbnail, preserve_aspect_ratio: of the two whole
// numbers around the other side the one that keeps the shape better.
static void shrink_size(int w, int h, int *rw, int *rh)
{
    double ratio = (double)w / h, x = *rh * ratio, y = *rw / ratio;

    if (*rw >= w && *rh >= h) {
        *rw = w;
        *rh = h;
    } else if ((double)*rw / *rh >= ratio) {
        bool up = off_shape(ceil(x), *rh, ratio) <
                  off_shape(floor(x), *rh, ratio);

        *rw = (int)fmax(up ? ceil(x) : floor(x), 1);
    } else {
        bool up = off_shape(*rw, ceil(y), ratio) <
                  off_shape(*rw, floor(y), ratio);

        *rh = (int)fmax(up ? ceil(y) : floor(y), 1);
    }
}

// Pillow src/PIL/ImageOps.py contain; its round() is half to even.
static void contain_size(int w, int h, int *rw, int *rh)
{
    double ratio = (double)w / h, wanted = (double)*rw / *rh;

    if (ratio > wanted)
        *rh = (int)rint((double)h / w * *rw);
    else if (ratio < wanted)
        *rw = (int)rint(ratio * *rh);
}

static enum hr_status fold_fit(struct fold *f, const struct hr_fit *op)
{
    struct hr_resize resize = {
        .w = op->w, .h = op->h, .filter = op->filter, .order = op->order};
    int w = current(f)->out_w, h = current(f)->out_h;

    if (op->enlarge)
        contain_size(w, h, &resize.w, &resize.h);
    else
        shrink_size(w, h, &resize.w, &resize.h);
    return fold_resize(f, &resize);
}

// EXIF orientation as "transpose, then mirror" (TIFF 6.0 tag 274; Pillow
// src/PIL/ImageOps.py exif_transpose).
static void fold_orientation(struct hr__step *s, int orientation)
{
    static const struct {
        bool transpose, x, y;
    } turns[9] = {
        [2] = {.x = true},
        [3] = {.x = true, .y = true},
        [4] = {.y = true},
        [5] = {.transpose = true},
        [6] = {.transpose = true, .x = true},
        [7] = {.transpose = true, .x = true, .y = true},
        [8] = {.transpose = true, .y = true},
    };

    if (orientation > 0 && orientation < 9)
        fold_flip(s, turns[orientation].transpose, turns[orientation].x,
                  turns[orientation].y);
}

static enum hr_status fold_op(struct fold *f, const struct hr_op *op,
                              int orientation)
{
    struct hr__step *s = current(f);

    switch (op->type) {
    case HR_OP_DECODE:
        if (op->decode.apply_orientation)
            fold_orientation(s, orientation);
        return HR_OK;
    case HR_OP_CROP:
        return fold_crop(f, &op->crop);
    case HR_OP_RESIZE:
        return fold_resize(f, &op->resize);
    case HR_OP_FIT:
        return fold_fit(f, &op->fit);
    case HR_OP_FLIP:
        fold_flip(s, op->flip.transpose, op->flip.horizontal,
                  op->flip.vertical);
        return HR_OK;
    case HR_OP_NORMALIZE:
        return HR_OK;
    case HR_OP_RANDOM_CROP:
    case HR_OP_RANDOM_RESIZED_CROP:
    case HR_OP_RANDOM_FLIP:
        break;
    }
    snprintf(f->text, 128, "op %d has not been drawn", (int)op->type);
    return HR_EINVAL;
}

// A step that only turns or crops, after which the picture is resized: what
// the resize does not see need not be made.
static void drop_unseen(struct hr__geometry *geo)
{
    for (int i = geo->num_steps - 1; i > 0; i--) {
        struct hr__step *s = &geo->steps[i];
        struct fold f = {.geo = &(struct hr__geometry){0}};
        struct hr_crop crop = {
            .x = s->src.x, .y = s->src.y, .w = s->src.w, .h = s->src.h};
        char text[128];

        f.geo->num_steps = 1;
        f.geo->steps[0] = geo->steps[i - 1];
        f.text = text;
        if (fold_crop(&f, &crop) == HR_OK) {
            geo->steps[i - 1] = f.geo->steps[0];
            s->in_w = s->src.w;
            s->in_h = s->src.h;
            s->src.x = s->src.y = 0;
        }
    }
}

enum hr_status hr__geometry_build(struct hr__geometry *out,
                                  const struct hr_op *ops, int num_ops,
                                  enum hr_reference reference, int w, int h,
                                  int orientation, char text[128])
{
    struct fold f = {.geo = out, .reference = reference, .text = text};
    enum hr_status status;

    text[0] = '\0';
    out->num_steps = 0;
    begin_step(&f, w, h);
    for (int i = 0; i < num_ops; i++)
        if ((status = fold_op(&f, &ops[i], orientation)))
            return status;
    drop_unseen(out);
    return check_size(&f, current(&f)->out_w, current(&f)->out_h);
}

void hr__geometry_size(const struct hr__geometry *geo, int *w, int *h)
{
    *w = geo->steps[geo->num_steps - 1].out_w;
    *h = geo->steps[geo->num_steps - 1].out_h;
}

size_t hr__geometry_bytes(const struct hr__geometry *geo, int channels)
{
    size_t bytes = 0;

    for (int i = 0; i < geo->num_steps; i++)
        if (geo->steps[i].transpose || i + 1 < geo->num_steps)
            bytes += ((size_t)geo->steps[i].out_w * (size_t)channels + 64) *
                     (size_t)geo->steps[i].out_h;
    return bytes;
}
