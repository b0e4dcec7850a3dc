// SPDX-License-Identifier: Apache-2.0
// The generated pictures that an engine is tested with, and what is made of
// each of them.
#include <string.h>

#include "hal/trust/trust.h"

enum { EXACT_CASES = 20, CODE_CASES = 21 };
_Static_assert((int)EXACT_CASES <= (int)HR__CASES &&
                   (int)CODE_CASES <= (int)HR__CASES,
               "cases of a picture");

static const struct hr_normalize normalize = {.mean = {.485f, .456f, .406f},
                                              .std = {.229f, .224f, .225f}};

// ---- Pictures --------------------------------------------------------------

// Noise in the first device's image, copied to the other's.
static enum hr_status make_image(struct hr__trial *t, int i)
{
    const struct hr_image_params params[] = {
        {.w = 57, .h = 43, .c = 3, .dtype = HR_U8, .layout = HR_NHWC},
        {.w = 37, .h = 31, .c = 1, .dtype = HR_U8, .layout = HR_NHWC},
        {.w = 29, .h = 53, .c = 3, .dtype = HR_U8, .layout = HR_NCHW},
    };
    uint32_t x = 0x9e3779b9u + (uint32_t)i;

    if (i >= (int)(sizeof(params) / sizeof(*params)))
        return HR_PENDING;  // that was all
    t->size = 0;
    t->w = params[i].w;
    t->h = params[i].h;
    t->c = params[i].c;
    t->kind = HR_KIND_ALL;
    for (int k = 0; k < 2; k++)
        if (!(t->source[k] = hr__image_make(t->dev[k], &params[i], true)))
            return hr_last_status();
    for (size_t at = 0; at < t->source[0]->size; at++) {
        // xorshift32 (Marsaglia, 2003)
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        ((uint8_t *)t->source[0]->params.data)[at] = (uint8_t)(x >> 24);
    }
    memcpy(t->source[1]->params.data, t->source[0]->params.data,
           t->source[0]->size);
    return HR_OK;
}

static enum hr_status make_encoded(struct hr__trial *t, int i)
{
    struct hr__engine *host = hr__host(t->dev[1]);
    struct hr_info info;

    if (!host->backend->specimen ||
        !host->backend->specimen(host, i, t->bytes, sizeof(t->bytes),
                                 &t->size) ||
        hr_probe(t->bytes, t->size, NULL, &info))
        return HR_PENDING;
    t->w = info.width;
    t->h = info.height;
    t->c = 3;
    t->kind = hr__jpeg_kind(&info);
    return HR_OK;
}

// The small encoded pictures come first, then what else is for the pass.
enum hr_status hr__trial_picture(struct hr__trial *t)
{
    enum hr_status status;

    if (!t->second) {
        status = make_encoded(t, t->at++);
        if (status != HR_PENDING)
            return status;
        t->second = true;
        t->at = 0;
    }
    if (t->pass == HR__PASS_EXACT || t->pass == HR__PASS_CODES)
        return make_image(t, t->at++);
    return make_encoded(t, HR__SPECIMENS_LARGE + t->at++);
}

// ---- Cases -----------------------------------------------------------------

// Makes case i: all filters, smaller and larger, crops, turns and paddings, and
// some of them together. Every resize names its order of passes, so that no
// reference changes the comparison.
static int every_geometry(int i, int w, int h, struct hr_op *ops)
{
    enum hr_filter filter = (enum hr_filter)(i % HR_NUM_FILTERS);
    struct hr_crop crop = {
        .x = w / 5, .y = h / 7, .w = (w + 1) / 2, .h = (h + 1) / 2};
    struct hr_crop around = {
        .x = -3, .y = -2, .w = w + 7, .h = h + 4, .pad = true};
    // Each filter both ways: one smaller, one larger.
    enum hr_order order = (i + i / 6) % 2 ? HR_ORDER_VERTICAL
                                          : HR_ORDER_HORIZONTAL;
    struct hr_resize down = {
        .w = w * 2 / 5 + 1, .h = h / 3 + 1, .filter = filter, .order = order};
    struct hr_resize up = {.w = w * 7 / 5 + 2,
                           .h = h * 3 / 2 + 1,
                           .filter = filter,
                           .order = order};
    int n = 0;

    if (i < 12) {  // all filters, smaller and larger
        ops[n++] = (struct hr_op){.type = HR_OP_RESIZE,
                                  .resize = i < 6 ? down : up};
    } else if (i == 13 || i == 16) {
        ops[n++] = (struct hr_op){.type = HR_OP_CROP,
                                  .crop = i == 13 ? crop : around};
    } else if (i == 14) {
        ops[n++] = hr_op_flip(.horizontal = true);
    } else if (i == 15) {
        ops[n++] = hr_op_flip(.transpose = true, .vertical = true);
    } else if (i == 17) {
        ops[n++] = (struct hr_op){.type = HR_OP_CROP, .crop = crop};
        ops[n++] = hr_op_resize(.w = 24, .h = 24, .order = HR_ORDER_HORIZONTAL);
        ops[n++] = hr_op_flip(.horizontal = true);
    } else if (i == 18) {
        ops[n++] = hr_op_resize(.w = 21, .h = 30, .filter = HR_BICUBIC,
                                .order = HR_ORDER_HORIZONTAL,
                                .box = {(float)w * .1f, (float)h * .2f,
                                        (float)w * .8f, (float)h * .9f});
        ops[n++] = hr_op_flip(.transpose = true);
    } else if (i == 19) {
        ops[n++] = hr_op_resize(.w = 26, .h = 22, .order = HR_ORDER_VERTICAL);
        ops[n++] = hr_op_crop(.w = 30, .h = 18, .center = true, .pad = true);
    }
    return n;  // 12: as it is
}

// Corners on whole chroma, scaled by less than 2: what is asked of a video
// processor later.
static int scaled(int i, int w, int h, struct hr_op *ops)
{
    int n = 0;

    if (i == 1 || i == 3)
        ops[n++] = hr_op_crop(.x = 8, .y = 4, .w = w - 24, .h = h - 12);
    if (i == 2 || i == 3)
        ops[n++] = hr_op_resize(.w = w * 2 / 3, .h = h * 5 / 8);
    if (i == 4)
        ops[n++] = hr_op_resize(.w = w * 3 / 2, .h = h * 4 / 3);
    if (i == 1)
        ops[n++] = hr_op_flip(.horizontal = true);
    if (i == 2)
        ops[n++] = hr_op_flip(.vertical = true);
    return n;
}

// Each code of stage augment, on a picture that has been cut: alone, or, in
// every second picture, with another one behind it, and a table between the two
// where i is even. The first are the codes that every device has.
#define TURN .91, .38, -3, -.35, .88, 4
static const struct hr_op codes[CODE_CASES] = {
    {.type = HR_OP_ADJUST_CONTRAST, .adjust_contrast = {1.6}},
    {.type = HR_OP_ADJUST_SATURATION, .adjust_saturation = {.3}},
    {.type = HR_OP_ADJUST_SATURATION, .adjust_saturation = {1.9}},
    {.type = HR_OP_ADJUST_SHARPNESS, .adjust_sharpness = {1.7}},
    {.type = HR_OP_ADJUST_SHARPNESS, .adjust_sharpness = {.1}},
    {.type = HR_OP_ADJUST_HUE, .adjust_hue = {.21}},
    {.type = HR_OP_GRAYSCALE},
    {.type = HR_OP_EQUALIZE},
    {.type = HR_OP_AUTOCONTRAST},
    {.type = HR_OP_AUTOCONTRAST, .autocontrast = {{7}}},
    {.type = HR_OP_AUTOCONTRAST, .autocontrast = {{.5, 12.5}}},
    {.type = HR_OP_GAUSSIAN_BLUR, .gaussian_blur = {{1.1, .7}}},
    {.type = HR_OP_BOX_BLUR, .box_blur = {{5.5, 12}}},
    {.type = HR_OP_KERNEL3,
     .kernel3 = {{-2, -1, 3, 7, 9, -4, 1, .5, -6}, 7.7, 12.3}},
    {.type = HR_OP_PERMUTE_CHANNELS, .permute_channels = {{2, 0, 0}}},
    {.type = HR_OP_PAD, .pad = {5, 4, 3, 2, HR_EDGES_REFLECT, {0}}},
    {.type = HR_OP_AFFINE,
     .affine = {{TURN}, 0, 0, HR_NEAREST, {9, 99, 3}, false}},
    {.type = HR_OP_AFFINE, .affine = {{TURN}, 40, 31, HR_BILINEAR, {0}, false}},
    {.type = HR_OP_AFFINE, .affine = {{TURN}, 0, 0, HR_BICUBIC, {0}, true}},
    {.type = HR_OP_PERSPECTIVE,
     .perspective = {{TURN, .002, -.001}, 0, 0, HR_BILINEAR, {8, 7, 6}}},
    {.type = HR_OP_PERSPECTIVE,
     .perspective = {{TURN, .002, -.001}, 33, 21, HR_NEAREST, {0}}},
};
#undef TURN

static int every_code(const struct hr__trial *t, int i, struct hr_op *ops)
{
    int w = t->w, h = t->h, n = 0;

    ops[n++] = hr_op_crop(.x = w / 9, .y = h / 8, .w = w - w / 9,
                          .h = h - h / 8);
    ops[n++] = codes[i];
    if ((i + t->number) % 2)
        return n;
    // (A table at either end would be the store's.)
    if (i % 2 == 0)
        ops[n++] = (struct hr_op){.type = HR_OP_INVERT};
    ops[n++] = codes[(i * 5 + 1) % CODE_CASES];
    return n;
}

// The codes that ops come to, a bit for each.
static uint32_t codes_of(const struct hr_op *ops, int n, int w, int h)
{
    static const struct hr_random any;
    struct hr__augment list[HR_MAX_OPS];
    struct hr__geometry geo = {.augments = list, .capacity = HR_MAX_OPS};
    uint32_t bits = 0;
    char text[128];

    if (hr__geometry_draw(&geo, ops, n, &any, HR_REFERENCE_DEFAULT, w, h, 1,
                          text))
        return 0;
    for (int i = 0; i < geo.num_augments; i++)
        bits |= UINT32_C(1) << list[i].code;
    return bits;
}

// Returns case i's output: all element types and layouts in turn; u8 planes in
// passes that are not exact.
static struct hr_image_params output(const struct hr__trial *t, int i)
{
    bool gray = t->size && (i * 7 + t->number) % 5 == 4;

    if (t->pass != HR__PASS_EXACT && t->pass != HR__PASS_CODES)
        return (struct hr_image_params){.c = 3, .dtype = HR_U8};
    return (struct hr_image_params){
        .c = gray ? 1 : t->c,
        .dtype = (enum hr_dtype)((i + t->number) % 3),
        .layout = (i + t->number) / 3 % 2 ? HR_NHWC : HR_NCHW};
}

static enum hr_status make_case(struct hr__trial *t, int i)
{
    struct hr_image_params out = output(t, i);
    struct hr__case *it = &t->cases[i];
    int n = 0;

    if (t->size)
        it->ops[n++] = hr_op_decode(.mode = out.c == 1 ? HR_GRAY : HR_RGB);
    if (t->pass == HR__PASS_EXACT)
        n += every_geometry(i, t->w, t->h, it->ops + n);
    else if (t->pass == HR__PASS_CODES)
        n += every_code(t, i, it->ops + n);
    else if (t->pass == HR__PASS_SCALED)
        n += scaled(i, t->w, t->h, it->ops + n);
    if (hr_ops_output_size(it->ops, n, t->w, t->h, 1, &out.w, &out.h))
        return hr_last_status();
    it->codes = codes_of(it->ops, n, t->w, t->h);
    it->normalize = NULL;
    if (out.dtype != HR_U8 && (i + t->number) / 2 % 2) {
        it->normalize = &normalize;
        it->ops[n++] = (struct hr_op){.type = HR_OP_NORMALIZE,
                                      .normalize = normalize};
    }
    if (t->pass == HR__PASS_EXACT && i % 8 == 5)
        it->ops[n++] = (struct hr_op){
            .type = HR_OP_ERASE,
            .erase = {.x = 3, .y = 2, .w = 5, .h = 40, .value = {1, 2, 3}}};
    for (int k = 0; k < 2; k++) {
        if (!(it->out[k] = hr__image_make(t->dev[k], &out, true)))
            return hr_last_status();
        t->samples[k][i] = (struct hr_sample){.data = t->size ? t->bytes : NULL,
                                              .size = t->size,
                                              .image = t->source[k],
                                              .ops = it->ops,
                                              .num_ops = n,
                                              .out = it->out[k],
                                              .name = "test picture"};
    }
    return HR_OK;
}

enum hr_status hr__trial_cases(struct hr__trial *t)
{
    static const int cases[] = {
        [HR__PASS_EXACT] = EXACT_CASES,
        [HR__PASS_PLANES] = 1,
        [HR__PASS_SCALED] = 5,
        [HR__PASS_CODES] = CODE_CASES,
    };
    enum hr_status status = HR_OK;

    for (t->n = 0; t->n < cases[t->pass] && !status; t->n++)
        status = make_case(t, t->n);
    return status;
}

void hr__trial_drop(struct hr__trial *t)
{
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < HR__CASES; i++)
            hr_image_release(&t->cases[i].out[k]);
        hr_image_release(&t->source[k]);
    }
}
