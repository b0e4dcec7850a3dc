// SPDX-License-Identifier: Apache-2.0
// Folds geometry ops into the coordinates of a resample step (picture.h draws
// it). A new step starts only where one cannot express them: a second resize, a
// resize of a padded picture, padding of a cropped one.
#include <string.h>

#include "hal/ops/op_def.h"

const struct hr_op_value hr__filters[] = {{"nearest", HR_NEAREST},
                                          {"box", HR_BOX},
                                          {"bilinear", HR_BILINEAR},
                                          {"hamming", HR_HAMMING},
                                          {"bicubic", HR_BICUBIC},
                                          {"lanczos", HR_LANCZOS},
                                          {NULL, 0}};
const struct hr_op_value hr__warp_filters[] = {{"nearest", HR_NEAREST},
                                               {"bilinear", HR_BILINEAR},
                                               {"bicubic", HR_BICUBIC},
                                               {NULL, 0}};
const struct hr_op_value hr__edges[] = {{"constant", HR_EDGES_FILL},
                                        {"edge", HR_EDGES_REPEAT},
                                        {"reflect", HR_EDGES_REFLECT},
                                        {"symmetric", HR_EDGES_SYMMETRIC},
                                        {NULL, 0}};
const struct hr_op_value hr__orders[] = {{"reference", HR_ORDER_REFERENCE},
                                         {"horizontal", HR_ORDER_HORIZONTAL},
                                         {"vertical", HR_ORDER_VERTICAL},
                                         {"torch", HR_ORDER_TORCH},
                                         {NULL, 0}};

static struct hr__step *current(const struct hr__fold *f)
{
    return &f->geo->steps[f->geo->num_steps - 1];
}

// The picture behind the last code, if the last step has any.
static bool augmented(const struct hr__fold *f)
{
    return current(f)->augments > 0;
}

static void set_out(struct hr__step *s)
{
    s->out_w = s->transpose ? s->win.h : s->win.w;
    s->out_h = s->transpose ? s->win.w : s->win.h;
}

// Says whether a picture of that size may be made.
static enum hr_status check_size(struct hr__fold *f, int w, int h)
{
    if (w <= HR_MAX_SIDE && h <= HR_MAX_SIDE)
        return HR_OK;
    snprintf(f->text, 128, "an op makes %dx%d of it, a side has at most %d", w,
             h, HR_MAX_SIDE);
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
    f->sided = false;
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
    *w = augmented(f) ? f->geo->out_w : current(f)->out_w;
    *h = augmented(f) ? f->geo->out_h : current(f)->out_h;
}

// ---- Codes ------------------------------------------------------------------

static enum hr_status add_code(struct hr__fold *f,
                               const struct hr__augment *code)
{
    struct hr__geometry *geo = f->geo;
    enum hr_status status;
    int w, h;

    hr__fold_size(f, &w, &h);
    if (geo->augments && geo->num_augments == geo->capacity) {
        snprintf(f->text, 128, "the ops come to more than %d codes",
                 geo->capacity);
        return HR_EUNSUPPORTED;
    }
    geo->out_w = code->w ? code->w : w;
    geo->out_h = code->h ? code->h : h;
    // It has the whole of it, also where a crop follows.
    if ((status = check_size(f, w, h)) ||
        (status = check_size(f, geo->out_w, geo->out_h)))
        return status;
    if (geo->augments) {
        geo->augments[geo->num_augments] = *code;
        geo->augments[geo->num_augments].w = geo->out_w;
        geo->augments[geo->num_augments].h = geo->out_h;
    }
    geo->num_augments++;
    current(f)->augments++;
    f->sided |= code->code == HR__AUGMENT_WARP ||
                code->code == HR__AUGMENT_KERNEL3;
    return HR_OK;
}

// Turns the table of the ops that change values into a code.
static enum hr_status flush_table(struct hr__fold *f)
{
    struct hr__augment code = {.code = HR__AUGMENT_TABLE};

    if (!f->changed)
        return HR_OK;
    f->changed = false;
    code.table = f->table;
    return add_code(f, &code);
}

enum hr_status hr__fold_augment(struct hr__fold *f,
                                const struct hr__augment *code)
{
    enum hr_status status = flush_table(f);

    return status ? status : add_code(f, code);
}

enum hr_status hr__fold_mix(struct hr__fold *f, enum hr__augment_code code,
                            double factor)
{
    return (float)factor == 1
               ? HR_OK
               : hr__fold_augment(
                     f, &(struct hr__augment){.code = code,
                                              .factor = (float)factor});
}

void hr__fold_values(struct hr__fold *f, const struct hr__op_def *def,
                     const struct hr_op *op)
{
    for (int k = 0; k < 3 * 256; k++) {
        uint8_t *at = &f->table.of[k / 256][k % 256];

        *at = def->value(op, k / 256, f->changed ? *at : (uint8_t)(k % 256));
    }
    f->changed = true;
}

// Pixel (x, y) becomes that of column ax x + bx and row ay y + by, a picture of
// w x h.
static enum hr_status move_pixels(struct hr__fold *f, int ax, int bx, int ay,
                                  int by, int w, int h)
{
    // (from the centre of a pixel to that of another)
    struct hr__augment code = {.code = HR__AUGMENT_WARP,
                               .w = w,
                               .h = h,
                               .warp = {.way = HR__WARP_AXES,
                                        .filter = HR_NEAREST,
                                        .m = {ax, 0, ax < 0 ? bx + 1 : bx, 0,
                                              ay, ay < 0 ? by + 1 : by}}};

    return hr__fold_augment(f, &code);
}

static enum hr_status turn_pixels(struct hr__fold *f, bool transpose, bool x,
                                  bool y)
{
    struct hr__augment code = {.code = HR__AUGMENT_WARP,
                               .warp = {.way = HR__WARP_AFFINE,
                                        .filter = HR_NEAREST}};
    int w, h;

    hr__fold_size(f, &w, &h);
    if (!transpose)
        return move_pixels(f, x ? -1 : 1, x ? w - 1 : 0, y ? -1 : 1,
                           y ? h - 1 : 0, w, h);
    // Column y of the source, or w - 1 - y, and row x, or h - 1 - x.
    code.w = h;
    code.h = w;
    code.warp.m[1] = y ? -1 : 1;
    code.warp.m[2] = y ? w : 0;
    code.warp.m[3] = x ? -1 : 1;
    code.warp.m[5] = x ? h : 0;
    return hr__fold_augment(f, &code);
}

// ---- Geometry ---------------------------------------------------------------

static enum hr_status turn_step(struct hr__fold *f, bool transpose, bool x,
                                bool y)
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
    return HR_OK;
}

// (To mirror a picture behind most codes is to mirror it in front of them.)
enum hr_status hr__fold_turn(struct hr__fold *f, bool transpose, bool x, bool y)
{
    return augmented(f) && (transpose || f->sided)
               ? turn_pixels(f, transpose, x, y)
               : turn_step(f, transpose, x, y);
}

// r, a crop in coordinates of the window, reaches over an edge behind which
// the window has cut pixels away: there it must see black, not these.
static bool sees_cut_pixels(const struct hr__step *s, const struct hr__rect *r)
{
    return (r->x < 0 && s->win.x > 0) || (r->y < 0 && s->win.y > 0) ||
           (r->x + r->w > s->win.w && s->win.x + s->win.w < s->rs_w) ||
           (r->y + r->h > s->win.h && s->win.y + s->win.h < s->rs_h);
}

// A crop of the step's output, in coordinates of its window.
static struct hr__rect in_window(const struct hr__step *s, struct hr__rect r)
{
    if (s->post_x)
        r.x = s->out_w - r.x - r.w;
    if (s->post_y)
        r.y = s->out_h - r.y - r.h;
    return s->transpose ? (struct hr__rect){r.y, r.x, r.h, r.w} : r;
}

static enum hr_status crop_step(struct hr__fold *f, struct hr__rect whole)
{
    struct hr__step *s = current(f);
    struct hr__rect r = in_window(s, whole);
    enum hr_status status;

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

static bool is_inside(const struct hr__fold *f, const struct hr__rect *r)
{
    int w, h;

    hr__fold_size(f, &w, &h);
    return r->x >= 0 && r->y >= 0 && r->w <= w - r->x && r->h <= h - r->y;
}

enum hr_status hr__fold_crop(struct hr__fold *f, struct hr__rect r, bool pad)
{
    enum hr_status status = HR_OK;
    bool inside = is_inside(f, &r);
    int w, h;

    if (!inside && !pad) {
        hr__fold_size(f, &w, &h);
        snprintf(f->text, 128, "crop %d,%d %dx%d leaves the picture of %dx%d",
                 r.x, r.y, r.w, r.h, w, h);
        return HR_EINVAL;
    }
    if (!inside)
        status = flush_table(f);
    if (status)
        return status;
    return augmented(f) ? move_pixels(f, 1, r.x, 1, r.y, r.w, r.h)
                        : crop_step(f, r);
}

// The part of the picture that r shows, and at least a pixel of it.
static void cut_to(struct hr__rect *r, int w, int h)
{
    int right = r->x + r->w, bottom = r->y + r->h;

    r->x = r->x < 0 ? 0 : r->x < w ? r->x : w - 1;
    r->y = r->y < 0 ? 0 : r->y < h ? r->y : h - 1;
    right = right <= r->x ? r->x + 1 : right < w ? right : w;
    bottom = bottom <= r->y ? r->y + 1 : bottom < h ? bottom : h;
    r->w = right - r->x;
    r->h = bottom - r->y;
}

// A code that makes it, of what is seen of the picture, where the rest need not
// be made.
static enum hr_status add_window(struct hr__fold *f, struct hr__rect r,
                                 enum hr_edges edges, const uint8_t fill[3])
{
    struct hr__augment code = {.code = HR__AUGMENT_WARP,
                               .w = r.w,
                               .h = r.h,
                               .warp = {.way = HR__WARP_AXES,
                                        .filter = HR_NEAREST,
                                        .m = {1, 0, r.x, 0, 1, r.y},
                                        .fill = {fill[0], fill[1], fill[2]},
                                        .edges = edges}};
    enum hr_status status;
    int w, h;

    if (edges == HR_EDGES_FILL && !augmented(f)) {
        hr__fold_size(f, &w, &h);
        cut_to(&r, w, h);
        if ((status = hr__fold_crop(f, r, false)))
            return status;
        code.warp.m[2] -= r.x;
        code.warp.m[5] -= r.y;
    }
    return hr__fold_augment(f, &code);
}

enum hr_status hr__fold_window(struct hr__fold *f, struct hr__rect r,
                               enum hr_edges edges, const uint8_t fill[3])
{
    if (is_inside(f, &r) || (edges == HR_EDGES_FILL && hr__is_black(fill)))
        return hr__fold_crop(f, r, true);
    return add_window(f, r, edges, fill);
}

enum hr_status hr__fold_shift(struct hr__fold *f, struct hr__rect r,
                              const uint8_t fill[3])
{
    struct hr__rect window = in_window(current(f), r);

    if (is_inside(f, &r) ||
        (hr__is_black(fill) && !f->changed && !augmented(f) &&
         !sees_cut_pixels(current(f), &window)))
        return hr__fold_crop(f, r, true);
    return add_window(f, r, HR_EDGES_FILL, fill);
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
// order: of the picture as its user sees it.
static void begin_filter(struct hr__step *s, enum hr_filter filter,
                         enum hr_order order, float box[4], int rw, int rh)
{
    s->src = s->win;
    s->pre_x = s->transpose ? s->post_y : s->post_x;
    s->pre_y = s->transpose ? s->post_x : s->post_y;
    s->post_x = s->post_y = false;
    s->v_first = s->transpose != (order == HR_ORDER_VERTICAL);
    s->torch = order == HR_ORDER_TORCH;
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

// Returns the order of the passes for a picture of w x h; box may be all of it.
// With a single pass there is no order, and NEAREST takes every pixel from its
// place: then Pillow's passes stay in the order that costs less.
static enum hr_order order_of(const struct hr__fold *f,
                              const struct hr_resize *op, const float box[4],
                              int w, int h, int rw, int rh)
{
    bool x = rw != w || box[0] != 0 || box[2] != (float)w;
    bool y = rh != h || box[1] != 0 || box[3] != (float)h;
    enum hr_order order = op->order;

    if (order == HR_ORDER_REFERENCE)
        order = hr_resize_order(f->reference, w, h, rw, rh);
    if (order == HR_ORDER_VERTICAL && (!x || !y || op->filter == HR_NEAREST))
        return HR_ORDER_HORIZONTAL;
    return order;
}

static enum hr_status check_torch(struct hr__fold *f,
                                  const struct hr_resize *op)
{
    if (op->filter != HR_BOX && op->filter != HR_HAMMING && !has_box(op))
        return HR_OK;
    snprintf(f->text, 128,
             "torch's resize has no box, and no filter but "
             "nearest, bilinear, bicubic and lanczos");
    return HR_EUNSUPPORTED;
}

enum hr_status hr__fold_resize(struct hr__fold *f, const struct hr_resize *op)
{
    int w, h, rw = op->w, rh = op->h;
    enum hr_order order;
    struct hr__step *s;
    enum hr_status status;
    float box[4] = {0};

    hr__fold_size(f, &w, &h);
    box[2] = (float)w;
    box[3] = (float)h;

    if (rw < 1 || rh < 1 || rw > HR__RESIZED_MOST || rh > HR__RESIZED_MOST) {
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
    order = order_of(f, op, box, w, h, rw, rh);
    if (order == HR_ORDER_TORCH && (status = check_torch(f, op)))
        return status;
    if (op->filter != HR_NEAREST && (status = flush_table(f)))
        return status;
    s = current(f);
    if (s->resized || padded(s) || augmented(f)) {
        if ((status = begin_step(f, w, h)))
            return status;
        s = current(f);
    }
    begin_filter(s, op->filter, order, box, rw, rh);
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

        if (geo->steps[i - 1].augments)
            continue;
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
    f->geo->num_steps = f->geo->num_augments = 0;
    begin_step(f, w, h);
}

enum hr_status hr__fold_end(struct hr__fold *f)
{
    bool stored = f->values == HR__VALUES_EITHER && !f->geo->num_augments;
    enum hr_status status = stored ? HR_OK : flush_table(f);
    int w, h;

    if (status)
        return status;
    drop_unseen(f->geo);
    hr__fold_size(f, &w, &h);
    f->geo->out_w = w;
    f->geo->out_h = h;
    return check_size(f, w, h);
}

void hr__geometry_size(const struct hr__geometry *geo, int *w, int *h)
{
    *w = geo->out_w;
    *h = geo->out_h;
}

// For each step with codes a picture of the largest size on the way, or two, as
// the CPU engine keeps rows.
static size_t augment_bytes(const struct hr__geometry *geo, int channels)
{
    size_t bytes = 0, c = (size_t)channels;
    int at = 0;

    for (int i = 0; geo->augments && i < geo->num_steps; i++) {
        const struct hr__step *s = &geo->steps[i];
        size_t most = ((size_t)s->out_w * c + 128) * (size_t)s->out_h;
        bool apart = false;

        for (int k = 0; k < s->augments; k++, at++) {
            const struct hr__augment *a = &geo->augments[at];
            size_t size = ((size_t)a->w * c + 128) * (size_t)a->h;

            most = size > most ? size : most;
            apart |= hr__augment_apart(a->code);
        }
        bytes += s->augments ? most << apart : 0;
    }
    return bytes;
}

size_t hr__geometry_bytes(const struct hr__geometry *geo, int channels)
{
    size_t bytes = augment_bytes(geo, channels);

    for (int i = 0; i < geo->num_steps; i++)
        if (geo->steps[i].transpose || i + 1 < geo->num_steps)
            bytes += ((size_t)geo->steps[i].out_w * (size_t)channels + 64) *
                     (size_t)geo->steps[i].out_h;
    return bytes;
}
