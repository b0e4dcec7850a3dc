// SPDX-License-Identifier: Apache-2.0
// Geometry: whatever the op list, the fold makes what the ops make one by one
// (hr_apply_op()), in size and in every byte; on the CPU, and on an engine that
// only knows steps. (compare.py: each op makes what Pillow makes.)
#include <math.h>

#include "fake_engine.h"
#include "testing.h"

enum { MAX_OPS = 7 };

static hr_device cpu, fake;
static bool torch;  // whose resize those without an order of their own are

// ---- Random lists ---------------------------------------------------------

static struct hr_op random_crop(uint64_t *seed, int w, int h)
{
    struct hr_crop c = {0};

    c.pad = random_below(seed, 3) == 0;
    c.center = random_below(seed, 3) == 0;
    c.w = 1 + random_below(seed, c.pad ? w + 9 : w);
    c.h = 1 + random_below(seed, c.pad ? h + 9 : h);
    if (c.pad) {
        c.x = random_below(seed, w + 20) - 10 - c.w / 2;
        c.y = random_below(seed, h + 20) - 10 - c.h / 2;
    } else {
        c.x = random_below(seed, w - c.w + 1);
        c.y = random_below(seed, h - c.h + 1);
    }
    return (struct hr_op){.type = HR_OP_CROP, .crop = c};
}

static struct hr_op random_resize(uint64_t *seed, int w, int h)
{
    static const enum hr_filter filters[] = {HR_NEAREST, HR_BILINEAR,
                                             HR_BICUBIC, HR_LANCZOS,
                                             HR_BOX,     HR_HAMMING};
    struct hr_resize r = {.order = (enum hr_order)random_below(seed, 4)};
    bool of_torch = r.order == HR_ORDER_TORCH || (torch && !r.order);
    int what = random_below(seed, 5);

    r.filter = filters[random_below(seed, of_torch ? 4 : HR_NUM_FILTERS)];

    if (what == 0) {
        r.short_side = 1 + random_below(seed, 30);
    } else {
        r.w = what == 1 ? w : 1 + random_below(seed, 50);
        r.h = what == 2 ? h : 1 + random_below(seed, 50);
    }
    if (!of_torch && random_below(seed, 3) == 0) {
        r.box[0] = (float)random_below(seed, w * 4) / 4;
        r.box[1] = (float)random_below(seed, h * 4) / 4;
        r.box[2] = r.box[0] + 0.25f +
                   (float)random_below(seed, (int)((w - r.box[0]) * 4)) / 4;
        r.box[3] = r.box[1] + 0.25f +
                   (float)random_below(seed, (int)((h - r.box[1]) * 4)) / 4;
    }
    return (struct hr_op){.type = HR_OP_RESIZE, .resize = r};
}

static struct hr_op random_fit(uint64_t *seed)
{
    struct hr_fit f = {.w = 1 + random_below(seed, 50),
                       .h = 1 + random_below(seed, 50),
                       .enlarge = random_below(seed, 2)};

    f.filter = torch ? HR_BICUBIC
                     : (enum hr_filter)random_below(seed, HR_NUM_FILTERS);
    return (struct hr_op){.type = HR_OP_FIT, .fit = f};
}

static struct hr_op random_op(uint64_t *seed, int w, int h)
{
    int what = random_below(seed, 9);

    if (what == 8)
        return random_fit(seed);
    if (what < 3)
        return random_crop(seed, w, h);
    if (what < 6)
        return random_resize(seed, w, h);
    return (struct hr_op){.type = HR_OP_FLIP,
                          .flip = {.horizontal = random_below(seed, 2),
                                   .vertical = random_below(seed, 2),
                                   .transpose = random_below(seed, 2)}};
}

// A list of ops that are valid one after the other for a picture of *w x *h,
// which becomes the size of what they make.
static int random_list(struct hr_op *ops, int *w, int *h, uint64_t *seed)
{
    int n = 0, wanted = 1 + random_below(seed, MAX_OPS);

    for (int tries = 0; n < wanted && tries < 30; tries++) {
        ops[n] = random_op(seed, *w, *h);
        if (*w < 400 && *h < 400 &&
            !hr_ops_output_size(&ops[n], 1, *w, *h, 1, w, h))
            n++;
    }
    return n;
}

// ---- The whole list at once -----------------------------------------------

static bool equal(hr_image a, hr_image b)
{
    return a && b && a->params.w == b->params.w && a->params.h == b->params.h &&
           !memcmp(a->params.data, b->params.data, b->size);
}

static hr_image run_list(hr_device dev, hr_image src, const struct hr_op *ops,
                         int n, int w, int h)
{
    hr_image out = hr_image_create(
        dev, hr_image_params(.w = w, .h = h, .c = src->params.c, .dtype = HR_U8,
                             .layout = HR_NHWC));
    struct hr_sample s = {.image = src, .ops = ops, .num_ops = n, .out = out};
    auto_job job = hr_submit(dev, &s, 1, NULL, NULL);

    if (!job || hr_job_wait(job, HR_FOREVER)) {
        CHECK(false, "%s", job ? job->results[0].message : hr_last_error());
        hr_image_release(&out);
    }
    return out;
}

static hr_image run_eager(hr_device dev, hr_image src, const struct hr_op *ops,
                          int n)
{
    hr_image at = hr__image_retain(src), next;

    for (int i = 0; i < n; i++) {
        next = hr_apply_op(dev, at, &ops[i]);
        hr_image_release(&at);
        at = next;
    }
    hr_image_wait(at, HR_FOREVER);
    return at;
}

static hr_image packed(hr_device dev, int w, int h, int c, const void *data)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = w, .h = h, .c = c, .dtype = HR_U8,
                             .layout = HR_NHWC));

    memcpy(image->params.data, data, image->size);
    return image;
}

static hr_image same_on(hr_device dev, hr_image of)
{
    return packed(dev, of->params.w, of->params.h, of->params.c,
                  of->params.data);
}

static void one_list(uint64_t *seed, int round)
{
    auto_image src = test_image(cpu, 1 + random_below(seed, 60),
                                1 + random_below(seed, 60),
                                random_below(seed, 2) ? 3 : 1, seed);
    auto_image src_fake = same_on(fake, src), a = NULL, b = NULL, want = NULL;
    struct hr_op ops[MAX_OPS];
    int after_w = src->params.w, after_h = src->params.h;
    int n = random_list(ops, &after_w, &after_h, seed), w = 0, h = 0;
    char text[1200];

    hr_ops_format(ops, n, text, sizeof(text));
    CHECK(hr_ops_output_size(ops, n, src->params.w, src->params.h, 1, &w, &h) ==
                  HR_OK &&
              w == after_w && h == after_h,
          "round %d: %dx%d instead of %dx%d: %s: %s", round, w, h, after_w,
          after_h, text, hr_last_error());
    want = run_eager(cpu, src, ops, n);
    a = run_list(cpu, src, ops, n, w, h);
    b = run_list(fake, src_fake, ops, n, w, h);
    CHECK(equal(a, want), "round %d, cpu: %dx%dx%d: %s", round, src->params.w,
          src->params.h, src->params.c, text);
    CHECK(equal(b, want), "round %d, steps: %dx%dx%d: %s", round, src->params.w,
          src->params.h, src->params.c, text);
}

// Half of the resizes have no order of their own: the process's reference is
// the one of the round, as devices here have none.
TEST_CASE(random_lists)
{
    uint64_t seed = test_seed;

    static const enum hr_reference references[] = {HR_REFERENCE_PILLOW_12,
                                                   HR_REFERENCE_PILLOW_13,
                                                   HR_REFERENCE_TORCH_2};

    for (int i = 0; i < test_loops(4000); i++) {
        torch = references[i % 3] == HR_REFERENCE_TORCH_2;
        hr_set_reference(references[i % 3]);
        one_list(&seed, i);
    }
    torch = false;
    hr_set_reference(HR_REFERENCE_DEFAULT);
}

// A resize may say more than the largest picture, if only a window of it is
// made.
TEST_CASE(thin)
{
    static const int sizes[][2] = {{2, 2100}, {2100, 2}};
    uint64_t seed = test_seed;

    for (int i = 0; i < 2 * HR_NUM_FILTERS; i++) {
        const struct hr_op ops[] = {
            hr_op_resize(.short_side = 64,
                         .filter = (enum hr_filter)(i % HR_NUM_FILTERS)),
            hr_op_crop(.w = 60, .h = 50, .center = true),
            hr_op_flip(.transpose = i % 2, .horizontal = true),
            hr_op_resize(.w = 30, .h = 40)};
        const int *size = sizes[i / HR_NUM_FILTERS];
        auto_image src = test_image(cpu, size[0], size[1], 3, &seed);
        auto_image copy = same_on(fake, src), a = NULL, b = NULL;
        int w, h;

        a = run_list(cpu, src, ops, 4, 30, 40);
        b = run_list(fake, copy, ops, 4, 30, 40);
        CHECK(equal(a, b), "%dx%d, filter %d", size[0], size[1],
              i % HR_NUM_FILTERS);
        // As a whole it is none.
        CHECK(hr_ops_output_size(ops, 1, size[0], size[1], 1, &w, &h) ==
                      HR_EINVAL &&
                  strstr(hr_last_error(), "a side has at most 65535"),
              "%s", hr_last_error());
    }
}

// ---- From a JPEG: only the window is decoded ------------------------------

TEST_CASE(from_jpeg)
{
    static const uint8_t factors[] = {0x11, 0x22, 0x21, 0x12};
    uint64_t seed = test_seed;

    for (int i = 0; i < test_loops(800); i++) {
        struct jpeg_spec spec = {.w = 1 + random_below(&seed, 70),
                                 .h = 1 + random_below(&seed, 70),
                                 .space = JCS_YCbCr,
                                 .factors = {factors[i % 4]},
                                 .quality = 90,
                                 .progressive = i % 5 == 0};
        auto_bytes jpeg = test_jpeg_of(&spec, &seed);
        struct plain full;
        struct hr_op ops[MAX_OPS + 1] = {hr_op_decode(0)};
        struct hr_sample s = {.data = jpeg.data, .size = jpeg.size, .ops = ops};
        auto_image src = NULL, want = NULL, out = NULL;
        int w = spec.w, h = spec.h;
        auto_job job = NULL;
        char text[1200];

        plain_decode(jpeg.data, jpeg.size, 1 << 20, &full);
        s.num_ops = 1 + random_list(ops + 1, &w, &h, &seed);
        hr_ops_format(ops, s.num_ops, text, sizeof(text));
        src = packed(cpu, full.w, full.h, 3, full.rgb);
        want = run_eager(cpu, src, ops + 1, s.num_ops - 1);
        s.out = out = hr_image_create(
            cpu, hr_image_params(.w = w, .h = h, .c = 3, .dtype = HR_U8,
                                 .layout = HR_NHWC));
        job = hr_submit(cpu, &s, 1, NULL, NULL);
        CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s: %s",
              job ? job->results[0].message : hr_last_error(), text);
        CHECK(equal(out, want), "round %d: %dx%d %#x: %s", i, full.w, full.h,
              spec.factors[0], text);
        plain_free(&full);
    }
}

// ---- What is not a list ---------------------------------------------------

TEST_CASE(refused)
{
    static const struct {
        struct hr_op op;
        const char *what;
    } bad[] = {
        {{HR_OP_CROP, .crop = {.x = 5, .w = 6, .h = 1}}, "crop"},
        {{HR_OP_CROP, .crop = {.x = -1, .w = 3, .h = 1}}, "crop"},
        {{HR_OP_CROP, .crop = {.center = true, .w = 11, .h = 1}}, "crop"},
        {{HR_OP_CROP, .crop = {.w = 0, .h = 1}}, "crop"},
        {{HR_OP_CROP, .crop = {.w = 1, .h = -2}}, "crop"},
        {{HR_OP_CROP, .crop = {.x = INT32_MAX, .w = 1, .h = 1}}, "crop"},
        {{HR_OP_RESIZE, .resize = {.w = 4}}, "resize"},
        {{HR_OP_RESIZE, .resize = {.w = 70000, .h = 1}}, "resize"},
        {{HR_OP_RESIZE, .resize = {.short_side = -4}}, "resize"},
        {{HR_OP_RESIZE, .resize = {.short_side = 4, .w = 4}}, "resize"},
        {{HR_OP_RESIZE, .resize = {.w = 4, .h = 4, .box = {0, 0, 11, 10}}},
         "box"},
        {{HR_OP_RESIZE, .resize = {.w = 4, .h = 4, .box = {3, 0, 3, 10}}},
         "box"},
        {{HR_OP_RESIZE, .resize = {.w = 4, .h = 4, .box = {0, NAN, 3, 10}}},
         "box"},
        {{HR_OP_RESIZE, .resize = {.w = 4, .h = 4, .filter = HR_NUM_FILTERS}},
         "filter"},
        {{HR_OP_RESIZE, .resize = {.w = 4, .h = 4, .order = 4}}, "order"},
        {{HR_OP_NORMALIZE, .normalize = {.mean = {NAN}}}, "normalize"},
        {{HR_OP_FIT, .fit = {.w = 4, .h = 4, .order = 4}}, "order"},
        {{HR_OP_FIT, .fit = {.w = 4}}, "fit"},
        {{HR_OP_FIT, .fit = {.w = 4, .h = 70000}}, "fit"},
        {{HR_OP_FIT, .fit = {.w = 4, .h = 4, .filter = -1}}, "filter"},
    };
    int w, h;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK(hr_ops_output_size(&bad[i].op, 1, 10, 10, 1, &w, &h) ==
                      HR_EINVAL &&
                  strstr(hr_last_error(), bad[i].what),
              "%zu: '%s'", i, hr_last_error());
    CHECK(hr_ops_output_size(NULL, 0, 0, 5, 1, &w, &h) == HR_EINVAL, "0 wide");
    CHECK(hr_ops_output_size(NULL, 0, 4, 5, 1, &w, &h) == HR_OK && w == 4 &&
              h == 5,
          "no ops");
    CHECK(hr_ops_output_size(NULL, 0, 4, 5, 1, NULL, &h) == HR_EINVAL, "NULL");
    // No int holds how wide that would be.
    CHECK(hr_ops_output_size(&(struct hr_op){HR_OP_RESIZE,
                                             .resize = {.short_side = 65535}},
                             1, 65535, 1, 1, &w, &h) == HR_EINVAL,
          "the long side");
}

// Sizes that Pillow 9.4 makes: Image.thumbnail() and, if it may enlarge,
// ImageOps.contain().
TEST_CASE(fits)
{
    static const struct {
        int w, h;
        struct hr_fit fit;
        int fit_w, fit_h;  // 0: refused
    } cases[] = {
        {500, 375, {.w = 128, .h = 128}, 128, 96},
        {500, 375, {.w = 128, .h = 128, .enlarge = true}, 128, 96},
        {375, 500, {.w = 128, .h = 128}, 96, 128},
        {375, 500, {.w = 128, .h = 128, .enlarge = true}, 96, 128},
        {100, 80, {.w = 128, .h = 128}, 100, 80},
        {100, 80, {.w = 128, .h = 128, .enlarge = true}, 128, 102},
        {100, 300, {.w = 128, .h = 128}, 43, 128},
        {100, 300, {.w = 128, .h = 128, .enlarge = true}, 43, 128},
        {1000, 3, {.w = 100, .h = 100}, 100, 1},
        {1000, 3, {.w = 100, .h = 100, .enlarge = true}, 0, 0},
        {3, 1000, {.w = 100, .h = 100}, 1, 100},
        {3, 1000, {.w = 100, .h = 100, .enlarge = true}, 0, 0},
        {7, 5, {.w = 3, .h = 3}, 3, 2},
        {7, 5, {.w = 3, .h = 3, .enlarge = true}, 3, 2},
        {640, 427, {.w = 255, .h = 170}, 255, 170},
        {640, 427, {.w = 255, .h = 170, .enlarge = true}, 255, 170},
        {427, 640, {.w = 171, .h = 255}, 170, 255},
        {427, 640, {.w = 171, .h = 255, .enlarge = true}, 170, 255},
        {5, 2, {.w = 4, .h = 4}, 4, 2},
        {5, 2, {.w = 4, .h = 4, .enlarge = true}, 4, 2},
        {20, 20, {.w = 10, .h = 10}, 10, 10},
        {20, 20, {.w = 10, .h = 10, .enlarge = true}, 10, 10},
        {65535, 1, {.w = 64, .h = 64}, 64, 1},
        {65535, 1, {.w = 64, .h = 64, .enlarge = true}, 0, 0},
        {1, 1, {.w = 9, .h = 7}, 1, 1},
        {1, 1, {.w = 9, .h = 7, .enlarge = true}, 7, 7},
        {3, 2, {.w = 3, .h = 2}, 3, 2},
        {3, 2, {.w = 3, .h = 2, .enlarge = true}, 3, 2},
        {11, 9, {.w = 5, .h = 5}, 5, 4},
        {11, 9, {.w = 5, .h = 5, .enlarge = true}, 5, 4},
        {9, 2, {.w = 5, .h = 5}, 5, 1},
        {9, 2, {.w = 5, .h = 5, .enlarge = true}, 5, 1},
        {9, 5, {.w = 6, .h = 6}, 6, 3},
        {9, 5, {.w = 6, .h = 6, .enlarge = true}, 6, 3},
        {2, 9, {.w = 5, .h = 5}, 1, 5},
        {2, 9, {.w = 5, .h = 5, .enlarge = true}, 1, 5},
        {100, 29, {.w = 5, .h = 5}, 5, 2},
        {100, 29, {.w = 5, .h = 5, .enlarge = true}, 5, 1},
        {4, 3, {.w = 2, .h = 2}, 2, 2},
        {4, 3, {.w = 2, .h = 2, .enlarge = true}, 2, 2},
    };
    int w, h;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct hr_op op = {.type = HR_OP_FIT, .fit = cases[i].fit};
        enum hr_status status = hr_ops_output_size(&op, 1, cases[i].w,
                                                   cases[i].h, 1, &w, &h);

        if (!cases[i].fit_w)
            CHECK(status == HR_EINVAL, "%zu: %dx%d", i, w, h);
        else
            CHECK(!status && w == cases[i].fit_w && h == cases[i].fit_h,
                  "%zu: %dx%d", i, w, h);
    }
}

// Many resizes: up to HR__MAX_STEPS steps, then a clear no.
TEST_CASE(too_many_steps)
{
    struct hr_op ops[HR_MAX_OPS];
    int w, h;

    for (int i = 0; i < HR_MAX_OPS; i++)
        ops[i] = hr_op_resize(.w = 10 + i % 2, .h = 9);
    CHECK(hr_ops_output_size(ops, HR__MAX_STEPS, 20, 20, 1, &w, &h) == HR_OK,
          "%s", hr_last_error());
    CHECK(hr_ops_output_size(ops, HR__MAX_STEPS + 1, 20, 20, 1, &w, &h) ==
              HR_EUNSUPPORTED,
          "%s", hr_last_error());
}

// The list of every day is one step.
TEST_CASE(one_step)
{
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_crop(.x = 10, .y = 4, .w = 50, .h = 40),
                                hr_op_flip(.horizontal = true),
                                hr_op_resize(.w = 20, .h = 20),
                                hr_op_crop(.center = true, .w = 16, .h = 18),
                                hr_op_flip(.transpose = true, .vertical = true),
                                hr_op_normalize(0)};
    struct hr__geometry geo;
    char text[128];

    CHECK(hr__geometry_build(&geo, ops, 7, HR_REFERENCE_DEFAULT, 100, 80, 1,
                             text) == HR_OK,
          "%s", text);
    CHECK(geo.num_steps == 1 && geo.steps[0].out_w == 18 &&
              geo.steps[0].out_h == 16,
          "%d steps", geo.num_steps);
}

// The memory beside the tensor while codes run: one picture if they change it
// in place, two if one of them makes another.
TEST_CASE(bytes_of_codes)
{
    const struct hr_op ops[] = {
        hr_op_resize(.w = 100, .h = 80),
        {.type = HR_OP_ADJUST_CONTRAST, .adjust_contrast = {2}},
        {.type = HR_OP_EQUALIZE},
        {.type = HR_OP_ADJUST_SHARPNESS, .adjust_sharpness = {2}}};
    struct hr__augment codes[8];
    struct hr__geometry geo = {.augments = codes, .capacity = 8};
    const size_t least[] = {0, 1, 1, 2};
    char text[128];

    for (int n = 1; n <= 4; n++) {
        size_t picture = 3 * 100 * 80, bytes;

        CHECK(hr__geometry_build(&geo, ops, n, HR_REFERENCE_DEFAULT, 50, 50, 1,
                                 text) == HR_OK,
              "%s", text);
        bytes = hr__geometry_bytes(&geo, 3);
        CHECK(bytes >= least[n - 1] * picture &&
                  2 * bytes < (3 * least[n - 1] + 1) * picture,
              "%d ops: %zu bytes", n, bytes);
    }
}

static struct hr__geometry folded(const struct hr_op *ops, int n,
                                  struct hr__augment codes[8])
{
    struct hr__geometry geo = {.augments = codes, .capacity = 8};
    char text[128];

    CHECK(hr__geometry_build(&geo, ops, n, HR_REFERENCE_DEFAULT, 50, 40, 1,
                             text) == HR_OK,
          "%s", text);
    return geo;
}

// Ops that geometry can express leave no code: shifts by whole pixels with
// black beside them, and mirrors behind codes that are symmetric.
TEST_CASE(no_codes)
{
    const struct hr_op shift[] = {
        hr_op_decode(0),
        {.type = HR_OP_AFFINE,
         .affine = {.matrix = {1, 0, -9, 0, 1, 4}, .filter = HR_BICUBIC}},
        {.type = HR_OP_AFFINE,
         .affine = {.matrix = {1, 0, 3, 0, 1, 0}, .fill = {0, 1, 0}}},
        {.type = HR_OP_GAUSSIAN_BLUR, .gaussian_blur = {{1, 1}}},
        hr_op_flip(.horizontal = true)};
    const struct hr_op mirror[] = {
        hr_op_decode(0),
        {.type = HR_OP_GAUSSIAN_BLUR, .gaussian_blur = {{1, 1}}},
        hr_op_flip(.horizontal = true),
        {.type = HR_OP_ROTATE, .rotate = {.angle = 5}},
        hr_op_flip(.horizontal = true)};
    const int shift_codes[] = {0, 0, 1, 2, 3}, codes_of[] = {0, 1, 1, 2, 3};
    struct hr__augment codes[8];

    for (int n = 2; n <= 5; n++) {
        struct hr__geometry a = folded(shift, n, codes);
        struct hr__geometry b = folded(mirror, n, codes);

        CHECK(a.num_steps == 1 && a.num_augments == shift_codes[n - 1],
              "%d ops: %d steps, %d codes", n, a.num_steps, a.num_augments);
        CHECK(b.num_steps == 1 && b.num_augments == codes_of[n - 1] &&
                  b.steps[0].post_x == (n > 2),
              "%d ops: %d steps, %d codes", n, b.num_steps, b.num_augments);
    }
}

// A shift of a picture that was cut is a code: the step would show what was
// cut.
TEST_CASE(shift_of_cut)
{
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_crop(.x = 4, .w = 20, .h = 20),
                                {.type = HR_OP_AFFINE,
                                 .affine = {.matrix = {1, 0, -3, 0, 1, 0}}}};
    struct hr__augment codes[8];
    struct hr__geometry geo = folded(ops, 3, codes);

    CHECK(geo.num_steps == 1 && geo.num_augments == 1, "%d steps, %d codes",
          geo.num_steps, geo.num_augments);
}

int main(int argc, char **argv)
{
    int result;

    fake_reset_spans(FAKE_RS);
    cpu = test_device("cpu", 1, 0);
    fake = test_device("fake", 1, 0);
    result = test_main(argc, argv);
    hr_device_close(&cpu);
    hr_device_close(&fake);
    return result;
}
