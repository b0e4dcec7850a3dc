// SPDX-License-Identifier: Apache-2.0
// What can be said of an op list before any picture is known: types, order,
// ranges. The rest is hr__geometry_build()'s.
#include <math.h>
#include <stdio.h>

#include "hal/shape/shape.h"

#define BAD(...) (snprintf(text, 128, __VA_ARGS__), HR_EINVAL)

static enum hr_status check_size(const char *op, int w, int h, char text[128])
{
    if (w < 1 || h < 1 || w > HR_MAX_SIDE || h > HR_MAX_SIDE)
        return BAD("%s %dx%d: a side must be 1 .. %d", op, w, h, HR_MAX_SIDE);
    return HR_OK;
}

static enum hr_status check_crop(const struct hr_crop *c, char text[128])
{
    if (check_size("crop of", c->w, c->h, text))
        return HR_EINVAL;
    if (!c->center && (c->x < -HR_MAX_SIDE || c->x > HR_MAX_SIDE ||
                       c->y < -HR_MAX_SIDE || c->y > HR_MAX_SIDE))
        return BAD("crop at %d,%d: must be within -%d .. %d", c->x, c->y,
                   HR_MAX_SIDE, HR_MAX_SIDE);
    return HR_OK;
}

static enum hr_status check_passes(const char *op, enum hr_filter filter,
                                   enum hr_order order, char text[128])
{
    if ((unsigned)filter >= HR_NUM_FILTERS)
        return BAD("%s: unknown filter %d", op, (int)filter);
    if ((unsigned)order > HR_ORDER_VERTICAL)
        return BAD("%s: unknown order of passes %d", op, (int)order);
    return HR_OK;
}

static enum hr_status check_resize(const struct hr_resize *r, char text[128])
{
    if (check_passes("resize", r->filter, r->order, text))
        return HR_EINVAL;
    if (r->short_side && (r->w || r->h))
        return BAD("resize to %dx%d and to a short side of %d: only one goes",
                   r->w, r->h, r->short_side);
    if (r->short_side < 0 || r->short_side > HR_MAX_SIDE)
        return BAD("resize to a short side of %d: must be 1 .. %d",
                   r->short_side, HR_MAX_SIDE);
    if (!r->short_side && check_size("resize to", r->w, r->h, text))
        return HR_EINVAL;
    for (int i = 0; i < 4; i++)
        if (!isfinite(r->box[i]))
            return BAD("resize: box is not finite");
    return HR_OK;
}

static enum hr_status check_fit(const struct hr_fit *f, char text[128])
{
    if (check_passes("fit", f->filter, f->order, text))
        return HR_EINVAL;
    return check_size("fit within", f->w, f->h, text);
}

static enum hr_status check_random_crop(const struct hr_random_crop *c,
                                        char text[128])
{
    if (check_size("random crop of", c->w, c->h, text))
        return HR_EINVAL;
    if (c->pad < 0 || c->pad > HR_MAX_SIDE)
        return BAD("random crop: padding of %d: must be 0 .. %d", c->pad,
                   HR_MAX_SIDE);
    return HR_OK;
}

// Both 0, or a range above 0.
static bool is_range(const double r[2])
{
    return (r[0] == 0 && r[1] == 0) ||
           (r[0] > 0 && r[0] <= r[1] && isfinite(r[1]));
}

static enum hr_status check_random_resized_crop(
    const struct hr_random_resized_crop *c, char text[128])
{
    if (check_passes("random resized crop", c->filter, c->order, text))
        return HR_EINVAL;
    if (check_size("random resized crop to", c->w, c->h, text))
        return HR_EINVAL;
    if (!is_range(c->scale))
        return BAD("random resized crop: scale %g .. %g: must rise from above "
                   "0",
                   c->scale[0], c->scale[1]);
    if (!is_range(c->ratio))
        return BAD("random resized crop: ratio %g .. %g: must rise from above "
                   "0",
                   c->ratio[0], c->ratio[1]);
    return HR_OK;
}

static enum hr_status check_random_flip(const struct hr_random_flip *f,
                                        char text[128])
{
    if (!(f->horizontal >= 0 && f->horizontal <= 1 && f->vertical >= 0 &&
          f->vertical <= 1))
        return BAD("random flip: probabilities %g, %g: must be 0 .. 1",
                   f->horizontal, f->vertical);
    // hr_op_random_flip(0) reads as "the default", and would do nothing.
    if (f->horizontal == 0 && f->vertical == 0)
        return BAD("random flip: no probability is above 0");
    return HR_OK;
}

static enum hr_status check_normalize(const struct hr_normalize *n,
                                      int channels, char text[128])
{
    int zeros = 0;

    if (n->arith != HR_ARITH_DIV && n->arith != HR_ARITH_MUL)
        return BAD("normalize: unknown arithmetic %d", (int)n->arith);
    for (int c = 0; c < 3 && !n->table; c++) {
        if (!isfinite(n->mean[c]) || !isfinite(n->std[c]))
            return BAD("normalize: mean or std is not finite");
        zeros += n->std[c] == 0;
    }
    // A grey picture uses the first entry only, so {s, 0, 0} is fine.
    if (zeros && zeros != 3 && !(channels == 1 && n->std[0] != 0 && zeros == 2))
        return BAD("normalize: a std of 0");
    return HR_OK;
}

static enum hr_status check_op(const struct hr_op *op, bool may_decode,
                               bool last, int channels, char text[128])
{
    switch (op->type) {
    case HR_OP_DECODE:
        if (!may_decode)
            return BAD("decode must be the first op of an encoded picture");
        if (op->decode.mode != HR_RGB && op->decode.mode != HR_GRAY)
            return BAD("decode: unknown mode %d", (int)op->decode.mode);
        return HR_OK;
    case HR_OP_CROP:
        return check_crop(&op->crop, text);
    case HR_OP_RESIZE:
        return check_resize(&op->resize, text);
    case HR_OP_FIT:
        return check_fit(&op->fit, text);
    case HR_OP_FLIP:
        return HR_OK;
    case HR_OP_RANDOM_CROP:
        return check_random_crop(&op->random_crop, text);
    case HR_OP_RANDOM_RESIZED_CROP:
        return check_random_resized_crop(&op->random_resized_crop, text);
    case HR_OP_RANDOM_FLIP:
        return check_random_flip(&op->random_flip, text);
    case HR_OP_NORMALIZE:
        if (!last)
            return BAD("normalize must be the last op");
        return check_normalize(&op->normalize, channels, text);
    }
    return BAD("unknown op %d", (int)op->type);
}

enum hr_status hr__ops_check(const struct hr_op *ops, int num_ops, int channels,
                             char text[128])
{
    bool encoded = !channels;
    enum hr_status status;
    int plain = num_ops;

    text[0] = '\0';
    if (num_ops < 0 || num_ops > HR_MAX_OPS || (num_ops && !ops))
        return BAD("%d ops (at most %d)", num_ops, HR_MAX_OPS);
    if (encoded && (!num_ops || ops[0].type != HR_OP_DECODE))
        return BAD("an encoded picture needs decode as its first op");
    if (encoded)
        channels = ops[0].decode.mode == HR_GRAY ? 1 : 3;
    for (int i = 0; i < num_ops; i++) {
        plain += ops[i].type == HR_OP_RANDOM_RESIZED_CROP;
        if ((status = check_op(&ops[i], encoded && i == 0, i == num_ops - 1,
                               channels, text)))
            return status;
    }
    if (plain > HR_MAX_OPS)
        return BAD("%d ops with those of random crops (at most %d)", plain,
                   HR_MAX_OPS);
    return HR_OK;
}
#undef BAD
