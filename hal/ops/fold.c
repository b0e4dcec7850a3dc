// SPDX-License-Identifier: Apache-2.0
// What geometry ops come to: coordinates of a resample step (picture.h draws
// it). A new step starts only where one cannot say it: a second resize, a resize
// of a padded picture, padding of a cropped one.
#include <string.h>

#include "hal/ops/op_def.h"

// A resize may name a larger picture than any that is made (3 x 1000 with a short
// side of 256): only a window of it need be one.
enum { RESIZED_MOST = 1 << 24 };

const struct hr_op_value hr__filters[] = {{"nearest", HR_NEAREST},
                                          {"box", HR_BOX},
                                          {"bilinear", HR_BILINEAR},
                                          {"hamming", HR_HAMMING},
                                          {"bicubic", HR_BICUBIC},
                                          {"lanczos", HR_LANCZOS},
                                          {NULL, 0}};
const struct hr_op_value hr__orders[] = {{"reference", HR_ORDER_REFERENCE},
                                         {"horizontal", HR_ORDER_HORIZONTAL},
                                         {"vertical", HR_ORDER_VERTICAL},
                                         {NULL, 0}};

static struct hr__step *current(const struct hr__fold *f)
{
    return &f->geo->steps[f->geo->num_steps - 1];
}

static void set_out(struct hr__step *s)
{
    s->out_w = s->transpose ? s->win.h : s->win.w;
    s->out_h = s->transpose ? s->win.w : s->win.h;
}

// Whether a picture of that size may be made.
static enum hr_status check_size(struct hr__fold *f, int w, int h)
{
    if (w <= HR_MAX_SIDE && h <= HR_MAX_SIDE)
        return HR_OK;
    snprintf(f->text, 128, "a resize makes %dx%d of it, a side has at most %d",
             w, h, HR_MAX_SIDE);
    return HR_EINVAL;
}

static enum hr_status begin_step(struct hr__fold *f, int w, int h)
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

void hr__fold_size(const struct hr__fold *f, int *w, int *h)
{
    *w = current(f)->out_w;
    *h = current(f)->out_h;
}

void hr__fold_turn(struct hr__fold *f, bool transpose, bool x, bool y)
{
    struct hr__step *s = current(f);

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

// r, a crop in coordinates of the window, reaches over an edge behind which
// the window has cut pixels away: there it must see black, not these.
static bool sees_cut_pixels(const struct hr__step *s, const struct hr__rect *r)
{
    return (r->x < 0 && s->win.x > 0) || (r->y < 0 && s->win.y > 0) ||
           (r->x + r->w > s->win.w && s->win.x + s->win.w < s->rs_w) ||
           (r->y + r->h > s->win.h && s->win.y + s->win.h < s->rs_h);
}

// Black pixels and mixtures of an op behind one that changes values would be of
// the changed ones; but these are made last.
static enum hr_status check_values(struct hr__fold *f, const char *what)
{
    if (!f->values)
        return HR_OK;
    snprintf(f->text, 128, "%s behind an op that changes values", what);
    return HR_EUNSUPPORTED;
}

enum hr_status hr__fold_crop(struct hr__fold *f, struct hr__rect r, bool pad)
{
    struct hr__step *s = current(f);
    const struct hr__rect whole = r;
    enum hr_status status;
    bool leaves = r.x < 0 || r.y < 0 || r.w > s->out_w - r.x ||
                  r.h > s->out_h - r.y;

    if (leaves && !pad) {
        snprintf(f->text, 128, "crop %d,%d %dx%d leaves the picture of %dx%d",
                 r.x, r.y, r.w, r.h, s->out_w, s->out_h);
        return HR_EINVAL;
    }
    if (leaves && (status = check_values(f, "a crop that pads")))
        return status;
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

static bool has_box(const struct hr_resize *op)
{
    return op->box[0] || op->box[1] || op->box[2] || op->box[3];
}

// Pillow's checks, src/_imaging.c _resize.
static enum hr_status check_box(struct hr__fold *f, const float *b, int w,
                                int h)
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
static bool vertical_first(const struct hr__fold *f, const struct hr_resize *op,
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

enum hr_status hr__fold_resize(struct hr__fold *f, const struct hr_resize *op)
{
    struct hr__step *s = current(f);
    int w = s->out_w, h = s->out_h, rw = op->w, rh = op->h;
    enum hr_status status;
    float box[4] = {0, 0, (float)w, (float)h};

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
    if (op->filter != HR_NEAREST &&
        (status = check_values(f, "a resize that mixes pixels")))
        return status;
    if (s->resized || padded(s)) {
        if ((status = begin_step(f, w, h)))
            return status;
        s = current(f);
    }
    begin_filter(s, op->filter, vertical_first(f, op, box, w, h, rw, rh), box,
                 rw, rh);
    return HR_OK;
}

// A step that only turns or crops, after which the picture is resized: what
// the resize does not see need not be made.
static void drop_unseen(struct hr__geometry *geo)
{
    for (int i = geo->num_steps - 1; i > 0; i--) {
        struct hr__step *s = &geo->steps[i];
        struct hr__fold f = {.geo = &(struct hr__geometry){0}};
        char text[128];

        f.geo->num_steps = 1;
        f.geo->steps[0] = geo->steps[i - 1];
        f.text = text;
        if (hr__fold_crop(&f, s->src, false) == HR_OK) {
            geo->steps[i - 1] = f.geo->steps[0];
            s->in_w = s->src.w;
            s->in_h = s->src.h;
            s->src.x = s->src.y = 0;
        }
    }
}

void hr__fold_begin(struct hr__fold *f, int w, int h)
{
    f->text[0] = '\0';
    f->geo->num_steps = 0;
    begin_step(f, w, h);
}

enum hr_status hr__fold_end(struct hr__fold *f)
{
    drop_unseen(f->geo);
    return check_size(f, current(f)->out_w, current(f)->out_h);
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
