// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "hal/ops/op_def.h"

enum { TRIES = 10 };

// Central crop with the nearest ratio that is allowed.
static struct hr_crop central_crop(int w, int h, const double ratio[2])
{
    struct hr_crop crop = {.w = w, .h = h};
    double whole = (double)w / h;

    if (whole < ratio[0])
        crop.h = (int)fmax(nearbyint(w / ratio[0]), 1);
    else if (whole > ratio[1])
        crop.w = (int)fmax(nearbyint(h * ratio[1]), 1);
    crop.x = (w - crop.w) / 2;
    crop.y = (h - crop.h) / 2;
    return crop;
}

// torchvision/transforms/transforms.py, RandomResizedCrop.get_params; its
// round() is Python's, half to even, as nearbyint().
struct hr_crop hr__random_window(const struct hr_random_resized_crop *op,
                                 const struct hr_random *key, int place, int w,
                                 int h)
{
    static const double any_scale[2] = {0.08, 1.0};
    static const double any_ratio[2] = {3.0 / 4.0, 4.0 / 3.0};
    const double *scale = op->scale[1] > 0 ? op->scale : any_scale;
    const double *ratio = op->ratio[1] > 0 ? op->ratio : any_ratio;

    for (int i = 0; i < TRIES; i++) {
        double area, shape, cw, ch;
        struct hr_crop crop;
        uint32_t word[4];

        hr__random_words(key, place, i, word);
        area = hr__draw_uniform(word[0], scale[0], scale[1]) * w * h;
        shape = exp(hr__draw_uniform(word[1], log(ratio[0]), log(ratio[1])));
        cw = nearbyint(sqrt(area * shape));
        ch = nearbyint(sqrt(area / shape));
        if (!(cw >= 1 && cw <= w && ch >= 1 && ch <= h))
            continue;
        crop = (struct hr_crop){.w = (int)cw, .h = (int)ch};
        crop.y = hr__draw_below(word[2], h - crop.h + 1);
        crop.x = hr__draw_below(word[3], w - crop.w + 1);
        return crop;
    }
    return central_crop(w, h, ratio);
}

static int draw(const struct hr_op *op, const struct hr__draw *d,
                struct hr_op *out)
{
    const struct hr_random_resized_crop *c = &op->random_resized_crop;

    out[0].type = HR_OP_CROP;
    out[0].crop = hr__random_window(c, d->key, d->place, d->w, d->h);
    out[1].type = HR_OP_RESIZE;
    out[1].resize = (struct hr_resize){
        .w = c->w, .h = c->h, .filter = c->filter, .order = c->order};
    return 2;
}

static const struct hr_op_field fields[] = {
    HR__FIELD(random_resized_crop, w, INT, HR__SIDE),
    HR__FIELD(random_resized_crop, h, INT, HR__SIDE),
    HR__FIELD(random_resized_crop, filter, ENUM, .values = hr__filters),
    HR__FIELD(random_resized_crop, scale, RANGE),
    HR__FIELD(random_resized_crop, ratio, RANGE),
    HR__FIELD(random_resized_crop, order, ENUM, .values = hr__orders),
};

static bool mixes(const struct hr_op *op)
{
    return op->random_resized_crop.filter != HR_NEAREST;
}

const struct hr__op_def hr__op_random_resized_crop = {
    .info = {HR__INFO("random_resized_crop", RANDOM_RESIZED_CROP, RESAMPLE),
             .random = true,
             .usage = "random_resized_crop=N|WxH[:FILTER[:ORDER]]"},
    .draws = 2,
    .sees_size = true,
    .words = HR__WORDS(
        {.name = "random_resized_crop",
         .syntax = "SIZE or WIDTHxHEIGHT",
         .op = HR_OP_RANDOM_RESIZED_CROP(0),
         .arguments = {{'=', .as = HR__AS_AREA}, HR__ARG(2), HR__ARG(5)}}),
    .mixes = mixes,
    .size = offsetof(struct hr_op, random_resized_crop.w),
    .draw = draw,
};
