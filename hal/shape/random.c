// SPDX-License-Identifier: Apache-2.0
// Random ops made plain. Every number is a pure function of (seed, epoch,
// index, place of the op), by Philox4x32-10 (Random123), so the same picture
// comes out on any thread, in any batch and order, of any engine.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <Random123/philox.h>

#include "hal/shape/shape.h"

enum { TRIES = 10 };

void hr__random_words(const struct hr_random *key, int op, int draw,
                      uint32_t out[4])
{
    // op < HR_MAX_OPS and draw < TRIES share a word.
    philox4x32_ctr_t counter = {{
        (uint32_t)key->index,
        (uint32_t)(key->index >> 32),
        key->epoch,
        (uint32_t)op << 16 | (uint32_t)draw,
    }};
    philox4x32_key_t words = {{
        (uint32_t)key->seed,
        (uint32_t)(key->seed >> 32),
    }};
    philox4x32_ctr_t made = philox4x32(counter, words);

    memcpy(out, made.v, sizeof(made.v));
}

static double uniform(uint32_t word, double low, double high)
{
    return low + (high - low) * ((double)word * 0x1p-32);
}

static int below(uint32_t word, int limit)
{
    return (int)((uint64_t)word * (uint64_t)limit >> 32);
}

// ---- The window of RandomResizedCrop ---------------------------------------

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
        area = uniform(word[0], scale[0], scale[1]) * w * h;
        shape = exp(uniform(word[1], log(ratio[0]), log(ratio[1])));
        cw = nearbyint(sqrt(area * shape));
        ch = nearbyint(sqrt(area / shape));
        if (!(cw >= 1 && cw <= w && ch >= 1 && ch <= h))
            continue;
        crop = (struct hr_crop){.w = (int)cw, .h = (int)ch};
        crop.y = below(word[2], h - crop.h + 1);
        crop.x = below(word[3], w - crop.w + 1);
        return crop;
    }
    return central_crop(w, h, ratio);
}

// ---- One op ----------------------------------------------------------------

// The first place that a window of `side` may have along an axis of n pixels,
// and how many places there are; <= 0: it does not fit.
static int places(int n, int side, const struct hr_random_crop *op, int *first)
{
    int spare;

    *first = -op->pad;
    n += 2 * op->pad;
    spare = side > n ? side - n : 0;
    if (!spare || !op->pad_if_needed)
        return n - side + 1;
    // torchvision pads both sides by what is missing in all.
    *first -= spare;
    return spare + 1;
}

// torchvision/transforms/transforms.py, RandomCrop.
static bool draw_crop(const struct hr_random_crop *op,
                      const struct hr_random *key, int place, int w, int h,
                      struct hr_op *out, char text[128])
{
    struct hr_crop crop = {.w = op->w, .h = op->h, .pad = true};
    int nx = places(w, op->w, op, &crop.x), ny = places(h, op->h, op, &crop.y);
    uint32_t word[4];

    if (nx < 1 || ny < 1) {
        snprintf(text, 128, "a random crop of %dx%d does not fit in %dx%d",
                 op->w, op->h, w, h);
        return false;
    }
    hr__random_words(key, place, 0, word);
    // Beyond HR_MAX_SIDE a crop could not be submitted; there all is black.
    crop.y = (int)fmin(crop.y + below(word[0], ny), HR_MAX_SIDE);
    crop.x = (int)fmin(crop.x + below(word[1], nx), HR_MAX_SIDE);
    *out = (struct hr_op){.type = HR_OP_CROP, .crop = crop};
    return true;
}

// Each probability that is not 0 takes the next word. Returns how many ops.
static int draw_flip(const struct hr_random_flip *op,
                     const struct hr_random *key, int place, struct hr_op *out)
{
    struct hr_flip flip = {0};
    uint32_t word[4];
    int used = 0;

    hr__random_words(key, place, 0, word);
    if (op->horizontal > 0)
        flip.horizontal = uniform(word[used++], 0, 1) < op->horizontal;
    if (op->vertical > 0)
        flip.vertical = uniform(word[used++], 0, 1) < op->vertical;
    *out = (struct hr_op){.type = HR_OP_FLIP, .flip = flip};
    return flip.horizontal || flip.vertical;
}

// Returns how many ops were written, -1 with the text.
static int draw(const struct hr_op *op, const struct hr_random *key, int place,
                int w, int h, struct hr_op out[2], char text[128])
{
    const struct hr_random_resized_crop *c = &op->random_resized_crop;

    switch (op->type) {
    case HR_OP_RANDOM_RESIZED_CROP:
        out[0].type = HR_OP_CROP;
        out[0].crop = hr__random_window(c, key, place, w, h);
        out[1].type = HR_OP_RESIZE;
        out[1].resize = (struct hr_resize){
            .w = c->w, .h = c->h, .filter = c->filter, .order = c->order};
        return 2;
    case HR_OP_RANDOM_CROP:
        return draw_crop(&op->random_crop, key, place, w, h, out, text) ? 1
                                                                        : -1;
    default:
        return draw_flip(&op->random_flip, key, place, out);
    }
}

// ---- Lists -----------------------------------------------------------------

static bool is_random(const struct hr_op *op)
{
    return op->type == HR_OP_RANDOM_RESIZED_CROP ||
           op->type == HR_OP_RANDOM_CROP || op->type == HR_OP_RANDOM_FLIP;
}

static bool any_random(const struct hr_op *ops, int num_ops)
{
    for (int i = 0; i < num_ops; i++)
        if (is_random(&ops[i]))
            return true;
    return false;
}

// A list without random ops: ops itself if it has none, else what was drawn.
struct plain {
    const struct hr_op *ops;
    int num_ops;
    struct hr_op drawn[HR_MAX_OPS];
};

// ops have passed hr__ops_check(). On failure *text is the reason.
static enum hr_status plain_ops(struct plain *out, const struct hr_op *ops,
                                int num_ops, const struct hr_random *key, int w,
                                int h, int orientation, char text[128])
{
    struct hr__geometry geo;
    int sized = 0;  // w x h is the picture behind so many of the drawn ops

    text[0] = '\0';
    out->ops = ops;
    out->num_ops = num_ops;
    if (!any_random(ops, num_ops))
        return HR_OK;
    out->ops = out->drawn;
    out->num_ops = 0;
    for (int i = 0; i < num_ops; i++) {
        struct hr_op *to = &out->drawn[out->num_ops];
        enum hr_status status;
        int n;

        if (!is_random(&ops[i])) {
            *to = ops[i];
            out->num_ops++;
            continue;
        }
        status = hr__geometry_build(&geo, out->drawn + sized,
                                    out->num_ops - sized, HR_REFERENCE_DEFAULT,
                                    w, h, orientation, text);
        if (status)
            return status;
        hr__geometry_size(&geo, &w, &h);
        sized = out->num_ops;
        if ((n = draw(&ops[i], key, i, w, h, to, text)) < 0)
            return HR_EINVAL;
        out->num_ops += n;
    }
    return HR_OK;
}

enum hr_status hr__geometry_draw(struct hr__geometry *out,
                                 const struct hr_op *ops, int num_ops,
                                 const struct hr_random *key,
                                 enum hr_reference reference, int w, int h,
                                 int orientation, char text[128])
{
    struct plain plain;
    enum hr_status status = plain_ops(&plain, ops, num_ops, key, w, h,
                                      orientation, text);

    return status ? status
                  : hr__geometry_build(out, plain.ops, plain.num_ops, reference,
                                       w, h, orientation, text);
}

enum hr_status hr_ops_output_size(const struct hr_op *ops, int num_ops,
                                  int width, int height, int orientation,
                                  int *out_w, int *out_h)
{
    static const struct hr_random any;
    struct hr__geometry geo;
    char text[128];
    enum hr_status status;

    if (width < 1 || height < 1 || width > HR_MAX_SIDE ||
        height > HR_MAX_SIDE || !out_w || !out_h)
        return hr__fail(HR_EINVAL, "picture of %dx%d", width, height);
    // Without decode any image may be meant, a grey one too.
    status = hr__ops_check(
        ops, num_ops, num_ops > 0 && ops && ops[0].type == HR_OP_DECODE ? 0 : 1,
        text);
    if (!status)
        status = hr__geometry_draw(&geo, ops, num_ops, &any,
                                   HR_REFERENCE_DEFAULT, width, height,
                                   orientation, text);
    if (status)
        return hr__fail(status, "%s", text);
    hr__geometry_size(&geo, out_w, out_h);
    return HR_OK;
}

// The size that an op makes of any picture.
static bool names_size(const struct hr_op *op, int *w, int *h)
{
    switch (op->type) {
    case HR_OP_CROP:
        *w = op->crop.w;
        *h = op->crop.h;
        return true;
    case HR_OP_RESIZE:
        *w = op->resize.w;
        *h = op->resize.h;
        return op->resize.w > 0;
    case HR_OP_RANDOM_CROP:
        *w = op->random_crop.w;
        *h = op->random_crop.h;
        return true;
    case HR_OP_RANDOM_RESIZED_CROP:
        *w = op->random_resized_crop.w;
        *h = op->random_resized_crop.h;
        return true;
    default:
        return false;
    }
}

bool hr_ops_fixed_size(const struct hr_op *ops, int num_ops, int *w, int *h)
{
    int fixed = -1;

    for (int i = 0; ops && i < num_ops; i++) {
        int own_w, own_h;

        if (names_size(&ops[i], &own_w, &own_h)) {
            fixed = i;
            *w = own_w;
            *h = own_h;
        }
    }
    for (int i = fixed + 1; fixed >= 0 && i < num_ops; i++)
        if (hr_ops_output_size(&ops[i], 1, *w, *h, 1, w, h))
            return false;
    return fixed >= 0;
}

enum hr_status hr_ops_draw(const struct hr_op *ops, int num_ops,
                           const struct hr_random *key, int width, int height,
                           int orientation, struct hr_op *out, int *num_out)
{
    static const struct hr_random zero;
    struct hr__geometry geo;
    struct plain plain;
    char text[128];
    enum hr_status status;
    int w, h;

    if (!out || !num_out)
        return hr__fail(HR_EINVAL, "no place for the ops");
    // What can be wrong with them for any key.
    if ((status = hr_ops_output_size(ops, num_ops, width, height, orientation,
                                     &w, &h)))
        return status;
    status = plain_ops(&plain, ops, num_ops, key ? key : &zero, width, height,
                       orientation, text);
    if (!status)
        status = hr__geometry_build(&geo, plain.ops, plain.num_ops,
                                    HR_REFERENCE_DEFAULT, width, height,
                                    orientation, text);
    if (status)
        return hr__fail(status, "%s", text);
    if (plain.num_ops)
        memmove(out, plain.ops, sizeof(*out) * (size_t)plain.num_ops);
    *num_out = plain.num_ops;
    return HR_OK;
}
