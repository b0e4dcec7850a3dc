// SPDX-License-Identifier: Apache-2.0
// Ops that change values, and their results wherever they stand in a list. The
// table of the store takes them in unless a later op mixes or adds pixels.
#include "hal/ops/ops.h"
#include "testing.h"

enum { W = 23, H = 17 };

static hr_device dev;

// A picture of noise, or what `of` becomes byte by byte.
static hr_image picture(int c, hr_image of)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = W, .h = H, .c = c, .dtype = HR_U8,
                             .layout = HR_NHWC));
    uint8_t *to = image->params.data;
    uint64_t rnd = test_seed;

    for (int i = 0; i < W * H * c; i++) {
        rnd = rnd * 6364136223846793005u + 1442695040888963407u;
        to[i] = of ? 255 - ((uint8_t *)of->params.data)[i]
                   : (uint8_t)(rnd >> 56);
    }
    return image;
}

static hr_image make(hr_image src, const struct hr_op *ops, int n,
                     enum hr_dtype dtype)
{
    struct hr_sample s = {.image = src, .ops = ops, .num_ops = n};
    hr_image out = hr_apply(dev, &s,
                            hr_image_params(.dtype = dtype, .layout = HR_NHWC));

    CHECK(out && !hr_image_wait(out, HR_FOREVER), "%s", hr_last_error());
    return out;
}

static bool same(hr_image a, hr_image b)
{
    return a && b && a->params.w == b->params.w && a->params.h == b->params.h &&
           !memcmp(a->params.data, b->params.data,
                   (size_t)a->params.w * (size_t)a->params.h *
                       (size_t)a->params.c * hr_dtype_size(a->params.dtype));
}

// invert, then geometry that commutes with it: as if the picture had been
// inverted before. Ops that are promised and not there are refused before they
// are read.
TEST_CASE(no_list)
{
    hr_image src = picture(3, NULL);
    const struct hr_sample of[] = {{.image = src, .num_ops = 2},
                                   {.data = src, .size = 1, .num_ops = 2}};

    CHECK(hr_ops_channels(NULL, 2, 1) == 1, "channels");
    for (int i = 0; i < 2; i++)
        CHECK(!hr_apply(dev, &of[i], NULL) && hr_last_status() != HR_OK, "%d",
              i);
    hr_image_release(&src);
}

TEST_CASE(commutes)
{
    const struct hr_op ops[] = {
        hr_op_invert(),
        hr_op_crop(.x = 2, .y = 3, .w = 19, .h = 11),
        hr_op_flip(.transpose = true, .horizontal = true),
        hr_op_resize(.w = 30, .h = 40, .filter = HR_NEAREST),
        hr_op_resize(.w = 30, .h = 40),  // the same size
        hr_op_normalize(.mean = {.4f, .5f, .6f}, .std = {.2f, .3f, .4f}),
    };

    for (int c = 1; c <= 3; c += 2)
        for (int n = 1; n <= 6; n++) {
            enum hr_dtype dtype = n == 6 ? HR_F32 : HR_U8;
            auto_image src = picture(c, NULL), inverted = picture(c, src);
            auto_image a = make(src, ops, n, dtype);
            auto_image b = make(inverted, ops + 1, n - 1, dtype);

            CHECK(same(a, b), "%d channels, %d ops", c, n);
        }
}

// All that stands before it is inverted, black of pads too; twice is nothing.
TEST_CASE(behind)
{
    const struct hr_op ops[] = {
        hr_op_resize(.w = 40, .h = 30, .filter = HR_BICUBIC),
        hr_op_crop(.x = -5, .y = -5, .w = 50, .h = 40, .pad = true),
        hr_op_invert(),
        hr_op_invert(),
    };
    auto_image src = picture(3, NULL);
    auto_image plain = make(src, ops, 2, HR_U8);
    auto_image once = make(src, ops, 3, HR_U8),
               twice = make(src, ops, 4, HR_U8);
    const uint8_t *a = plain->params.data, *b = once->params.data;
    bool inverted = true;

    for (int i = 0; i < 50 * 40 * 3; i++)
        inverted = inverted && a[i] == 255 - b[i];
    CHECK(inverted && b[0] == 255, "once");
    CHECK(same(plain, twice), "twice");
}

// Samples of one job, each with its own list at another place.
TEST_CASE(beside)
{
    const struct hr_op invert[] = {hr_op_invert()};
    auto_image src = picture(3, NULL), inverted = picture(3, src);
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = 3, .c = 3, .h = H, .w = W, .dtype = HR_U8,
                             .layout = HR_NHWC));
    const struct hr_sample s[] = {{.image = src},
                                  {.image = src, .ops = invert, .num_ops = 1},
                                  {.image = src}};
    auto_job job = hr_submit(dev, s, 3, batch, NULL);
    const uint8_t *data = batch->params.data;
    const size_t size = (size_t)W * H * 3;

    CHECK(job && !hr_job_wait(job, HR_FOREVER), "%s", hr_last_error());
    for (int i = 0; i < 3; i++)
        CHECK(!memcmp(data + batch->params.stride_n * (size_t)i,
                      (i == 1 ? inverted : src)->params.data, size),
              "sample %d", i);
}

// Geometry that has to see the new values: as if the picture had been inverted
// before. (An empty flip keeps the places by which ops draw.)
TEST_CASE(mixed)
{
    const struct hr_op cases[] = {
        hr_op_resize(.w = 9, .h = 9),
        hr_op_fit(.w = 9, .h = 9, .filter = HR_BICUBIC),
        hr_op_crop(.w = W + 1, .h = 5, .pad = true),
        hr_op_crop(.w = 5, .h = H + 2, .center = true, .pad = true),
        hr_op_random_crop(.w = 5, .h = 5, .pad = 4),
        hr_op_random_resized_crop(.w = 8, .h = 6),
    };

    for (int c = 1; c <= 3; c += 2)
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
            const struct hr_op ops[] = {hr_op_invert(), cases[i]};
            const struct hr_op after[] = {hr_op_flip(0), cases[i]};
            auto_image src = picture(c, NULL), inverted = picture(c, src);
            auto_image a = make(src, ops, 2, HR_U8);
            auto_image b = make(inverted, after, 2, HR_U8);

            CHECK(same(a, b), "%d channels, case %d", c, (int)i);
        }
}

// A last code that comes to a table is stored by it: as if what follows had
// another picture, of bytes, before it.
TEST_CASE(last_code)
{
    const struct hr_op cases[][2] = {
        {{.type = HR_OP_ADJUST_CONTRAST, .adjust_contrast = {1.7}}},
        {{.type = HR_OP_EQUALIZE}},
        {{.type = HR_OP_AUTOCONTRAST}, {.type = HR_OP_ADJUST_CONTRAST}},
        {{.type = HR_OP_GRAYSCALE},
         {.type = HR_OP_POSTERIZE, .posterize = {3}}}};
    const struct hr_op normalize = hr_op_normalize(.mean = {.4f, .5f, .6f},
                                                   .std = {.2f, .3f, .4f});

    for (int k = 0; k < 4 * 3 * 2; k++) {
        const struct hr_op *codes = cases[k % 4];
        enum hr_dtype dtype = (enum hr_dtype)(k / 4 % 3);
        int n = codes[1].type ? 2 : 1, more = dtype != HR_U8;
        struct hr_op ops[3] = {codes[0], codes[1], normalize};
        auto_image src = picture(k / 12 ? 3 : 1, NULL), bytes = NULL, a = NULL,
                   b = NULL;

        ops[n] = normalize;
        bytes = make(src, codes, n, HR_U8);
        a = make(src, ops, n + more, dtype);
        b = make(bytes, &normalize, more, dtype);
        CHECK(same(a, b), "list %d, type %d", k % 4, (int)dtype);
    }
}

// Pads that the picture does not need leave no code: every engine does such a
// list. Where it does, the ops behind the border are in the store, or another
// code.
TEST_CASE(may_pad)
{
    const struct hr_op ops[] = {hr_op_invert(),
                                hr_op_crop(.w = 9, .h = 9, .center = true,
                                           .pad = true),
                                {.type = HR_OP_SOLARIZE, .solarize = {99}}};
    struct hr__augment codes[8];
    struct hr__geometry geo = {.augments = codes, .capacity = 8};
    char text[128];

    for (int n = 2; n <= 3; n++)
        for (int side = 8; side <= 9; side++) {
            CHECK(!hr__geometry_build(&geo, ops, n, HR_REFERENCE_DEFAULT, side,
                                      20, 1, text),
                  "%s", text);
            CHECK(geo.num_augments == (side == 9 ? 0 : n), "%d ops, %d: %d", n,
                  side, geo.num_augments);
        }
}

// Beside each other in one job: with a border and without, other ops, none.
TEST_CASE(tables)
{
    const struct hr_op inside[] = {hr_op_invert(),
                                   hr_op_crop(.w = W, .h = H, .center = true,
                                              .pad = true)};
    const struct hr_op moved[] = {
        hr_op_invert(), hr_op_crop(.x = 1, .w = W, .h = H, .pad = true)};
    const struct hr_op group[] = {hr_op_random_apply(.p = 0), hr_op_invert()};
    auto_image src = picture(3, NULL), inverted = picture(3, src);
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = 6, .c = 3, .h = H, .w = W, .dtype = HR_U8,
                             .layout = HR_NHWC));
    const struct hr_sample s[] = {
        {.image = src, .ops = moved, .num_ops = 2},
        {.image = src, .ops = inside, .num_ops = 2},
        {.image = src, .ops = inside, .num_ops = 2},
        {.image = src, .ops = inside, .num_ops = 1},
        {.image = src, .ops = group, .num_ops = 2},
        {.image = src},
    };
    auto_job job = hr_submit(dev, s, 6, batch, NULL);
    const uint8_t *data = batch->params.data, *in = inverted->params.data;

    CHECK(job && !hr_job_wait(job, HR_FOREVER), "%s", hr_last_error());
    for (int y = 0; y < H; y++, data += 3 * W, in += 3 * W)
        CHECK(!memcmp(data, in + 3, 3 * (W - 1)) && !data[3 * W - 1],
              "row %d of the moved one", y);
    for (int i = 1; i < 6; i++)
        CHECK(!memcmp((const uint8_t *)batch->params.data +
                          batch->params.stride_n * (size_t)i,
                      (i < 4 ? inverted : src)->params.data, (size_t)W * H * 3),
              "sample %d", i);
}

int main(int argc, char **argv)
{
    int rc;

    dev = test_device("cpu", 2, 0);
    rc = test_main(argc, argv);
    hr_device_close(&dev);
    return rc;
}
