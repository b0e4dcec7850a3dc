// SPDX-License-Identifier: Apache-2.0
// Random ops: the draw for a key, that it has torchvision's distribution, and
// that a random list makes the bytes of the plain one that hr_ops_draw() gives,
// on any engine.
#include <limits.h>
#include <math.h>

#include "fake_engine.h"
#include "testing.h"

// ---- Numbers --------------------------------------------------------------

TEST_CASE(known_answers)
{
    // Random123's known answers for philox4x32-10 (tests/kat_vectors).
    static const uint32_t zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                      0x9b00dbd8};
    const struct hr_random zero = {0};
    uint32_t word[4];

    hr__random_words(&zero, 0, 0, word);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(word[i], zeros[i]);
}

TEST_CASE(keys)
{
    const struct hr_random base = {.seed = 7, .index = 3, .epoch = 1};
    struct hr_random other[5] = {base, base, base, base, base};
    uint32_t a[4], b[4];

    other[0].seed = 8;
    other[1].seed += (uint64_t)1 << 32;
    other[2].index = 4;
    other[3].index += (uint64_t)1 << 32;
    other[4].epoch = 2;
    hr__random_words(&base, 1, 0, a);
    hr__random_words(&base, 1, 0, b);
    CU_ASSERT(!memcmp(a, b, sizeof(a)));
    for (int i = 0; i < COUNT(other); i++) {
        hr__random_words(&other[i], 1, 0, b);
        CHECK(memcmp(a, b, sizeof(a)), "key %d", i);
    }
    hr__random_words(&base, 2, 0, b);
    CU_ASSERT(memcmp(a, b, sizeof(a)));
    hr__random_words(&base, 1, 1, b);
    CU_ASSERT(memcmp(a, b, sizeof(a)));
}

// The windows of version 0.1.0's command; seeds shall go on meaning the same.
TEST_CASE(windows_stay)
{
    static const struct {
        struct hr_random key;
        int place, w, h, crop[4];
    } known[] = {
        {{7, 0, 1}, 1, 500, 375, {120, 10, 281, 350}},
        {{7, 1, 1}, 1, 500, 375, {119, 19, 327, 330}},
        {{7, 2, 1}, 1, 500, 375, {21, 2, 474, 369}},
        {{0xfedcba9876543210, 78187493530, 77}, 3, 4000, 31, {1979, 0, 41, 31}},
        {{0, 0, 0}, 0, 1, 1, {0, 0, 1, 1}},
        {{1, 5, 0}, 2, 100, 4000, {0, 1933, 100, 133}},
        {{1, 5, 0}, 31, 16384, 16384, {3236, 1715, 8111, 9573}},
    };
    const struct hr_random_resized_crop op = {.w = 9, .h = 9};

    for (int i = 0; i < COUNT(known); i++) {
        struct hr_crop c = hr__random_window(&op, &known[i].key, known[i].place,
                                             known[i].w, known[i].h);
        const int *k = known[i].crop;

        CHECK(c.x == k[0] && c.y == k[1] && c.w == k[2] && c.h == k[3],
              "%d: %d,%d %dx%d", i, c.x, c.y, c.w, c.h);
    }
}

// ---- Distributions --------------------------------------------------------

static struct hr_crop window_of(const struct hr_random_resized_crop *op, int i,
                                int w, int h)
{
    const struct hr_random key = {.seed = 20240229, .index = (uint64_t)i};

    return hr__random_window(op, &key, 1, w, h);
}

TEST_CASE(windows)
{
    const struct hr_random_resized_crop op = {.w = 9, .h = 9};
    int in_left = 0, whole = 0, num = 20000;
    double share = 0;

    for (int i = 0; i < num; i++) {
        struct hr_crop crop = window_of(&op, i, 500, 375);
        double area = (double)crop.w * crop.h / (500.0 * 375);
        double ratio = (double)crop.w / crop.h;

        if (crop.x < 0 || crop.y < 0 || crop.x + crop.w > 500 ||
            crop.y + crop.h > 375 || area < 0.078 || ratio < 0.74 ||
            ratio > 1.35)
            CU_FAIL("window");
        share += area;
        in_left += 2 * crop.x + crop.w < 500;
        whole += crop.w == 500 && crop.h == 375;
    }
    // torchvision 0.14 gives 0.4349 over 20000 windows; symmetric in x.
    CU_ASSERT(fabs(share / num - 0.435) < 0.006);
    CU_ASSERT(in_left > num * 47 / 100 && in_left < num * 53 / 100);
    CU_ASSERT(whole < num / 10);
}

TEST_CASE(windows_as_asked)
{
    const struct hr_random_resized_crop op = {.scale = {.25, .5},
                                              .ratio = {1, 2}};
    double least = 1, most = 0, low = 9, high = 0;

    for (int i = 0; i < 5000; i++) {
        struct hr_crop crop = window_of(&op, i, 1000, 1000);
        double area = (double)crop.w * crop.h / 1e6;
        double ratio = (double)crop.w / crop.h;

        least = fmin(least, area);
        most = fmax(most, area);
        low = fmin(low, ratio);
        high = fmax(high, ratio);
    }
    CHECK(least > .249 && least < .255 && most < .501 && most > .495,
          "area %g .. %g", least, most);
    CHECK(low > .997 && low < 1.01 && high < 2.01 && high > 1.98,
          "ratio %g .. %g", low, high);
}

TEST_CASE(narrow)
{
    const struct hr_random_resized_crop op = {.w = 9, .h = 9};
    struct hr_crop crop = window_of(&op, 1, 1000, 3);

    // No window fits: the central one of ratio 4:3, 3 high.
    CU_ASSERT(crop.w == 4 && crop.h == 3 && crop.x == 498 && crop.y == 0);
    crop = window_of(&op, 1, 3, 1000);
    CU_ASSERT(crop.w == 3 && crop.h == 4 && crop.x == 0 && crop.y == 498);
    crop = window_of(&op, 1, 1, 1);
    CU_ASSERT(crop.w == 1 && crop.h == 1 && crop.x == 0 && crop.y == 0);
}

// ---- What hr_ops_draw() writes --------------------------------------------

static int drawn(const struct hr_op *ops, int n, uint64_t index, int w, int h,
                 struct hr_op *out)
{
    const struct hr_random key = {.seed = 5, .index = index};
    int num = -1;

    CHECK(!hr_ops_draw(ops, n, &key, w, h, 1, out, &num), "%s",
          hr_last_error());
    return num;
}

TEST_CASE(flips)
{
    const struct hr_op both = hr_op_random_flip(.horizontal = .3,
                                                .vertical = .6);
    const struct hr_op always = hr_op_random_flip(.horizontal = 1,
                                                  .vertical = 1);
    const struct hr_op one = hr_op_random_flip(.vertical = .6);
    int num = 20000, h = 0, v = 0, hv = 0, single = 0;
    struct hr_op out[HR_MAX_OPS];

    for (int i = 0; i < num; i++) {
        bool x = false, y = false;

        if (drawn(&both, 1, (uint64_t)i, 4, 4, out)) {
            x = out[0].flip.horizontal;
            y = out[0].flip.vertical;
            CU_ASSERT(out[0].type == HR_OP_FLIP && (x || y));
        }
        h += x;
        v += y;
        hv += x && y;
        single += drawn(&one, 1, (uint64_t)i, 4, 4, out);
        if (drawn(&always, 1, (uint64_t)i, 4, 4, out) != 1)
            CU_FAIL("certain");
    }
    CHECK(abs(h - num * 3 / 10) < num / 60, "horizontal %d", h);
    CHECK(abs(v - num * 6 / 10) < num / 60, "vertical %d", v);
    CHECK(abs(hv - num * 18 / 100) < num / 60, "both %d", hv);
    CHECK(abs(single - num * 6 / 10) < num / 60, "single %d", single);
}

// Every place of x in [from, from + n) is as likely as the others.
static void places(struct hr_random_crop crop, int w, int h, int from_x, int nx,
                   int from_y, int ny)
{
    const struct hr_op op = {.type = HR_OP_RANDOM_CROP, .random_crop = crop};
    int x[64] = {0}, y[64] = {0}, rounds = 400 * nx * ny;
    struct hr_op out[HR_MAX_OPS];

    for (int i = 0; i < rounds; i++) {
        int n = drawn(&op, 1, (uint64_t)i, w, h, out);
        int ix = out[0].crop.x - from_x, iy = out[0].crop.y - from_y;

        CU_ASSERT_FATAL(n == 1 && ix >= 0 && ix < nx && iy >= 0 && iy < ny);
        CU_ASSERT(out[0].crop.w == crop.w && out[0].crop.h == crop.h);
        x[ix]++;
        y[iy]++;
    }
    for (int i = 0; i < nx; i++)
        CHECK(abs(x[i] - rounds / nx) < rounds / nx / 3, "x %d: %d of %d", i,
              x[i], rounds);
    for (int i = 0; i < ny; i++)
        CHECK(abs(y[i] - rounds / ny) < rounds / ny / 3, "y %d: %d of %d", i,
              y[i], rounds);
}

// torchvision's RandomCrop with padding, pad_if_needed, both.
TEST_CASE(crops)
{
    const struct hr_op large = hr_op_random_crop(.w = 8, .h = 5);
    struct hr_op out[HR_MAX_OPS];
    int n;

    places((struct hr_random_crop){.w = 6, .h = 5}, 10, 8, 0, 5, 0, 4);
    places((struct hr_random_crop){.w = 10, .h = 8}, 10, 8, 0, 1, 0, 1);
    places((struct hr_random_crop){.w = 10, .h = 8, .pad = 2}, 10, 8, -2, 5, -2,
           5);
    places((struct hr_random_crop){.w = 10, .h = 8, .pad_if_needed = true}, 7,
           9, -3, 4, 0, 2);
    // 7 + 2 wide and 1 missing; 9 + 2 high are enough.
    places((struct hr_random_crop){.w = 10,
                                   .h = 8,
                                   .pad = 1,
                                   .pad_if_needed = true},
           7, 9, -2, 2, -1, 4);
    CU_ASSERT_EQUAL(hr_ops_draw(&large, 1, NULL, 7, 9, 1, out, &n), HR_EINVAL);
    CHECK(strstr(hr_last_error(), "8x5 does not fit in 7x9") != NULL, "%s",
          hr_last_error());
}

// A list that was drawn can be submitted, however absurd: with more pixels
// around a picture than it may have, or a window of one that is larger than
// any.
TEST_CASE(far_outside)
{
    const struct hr_op lists[2][2] = {
        {hr_op_crop(.w = HR_MAX_SIDE, .h = HR_MAX_SIDE),
         hr_op_random_crop(.w = 1, .h = 1, .pad = HR_MAX_SIDE)},
        {hr_op_resize(.short_side = 256),
         hr_op_random_crop(.w = 224, .h = 224)},
    };
    const struct {
        int w, h, least, most, places;  // drawn, along y; 0: any
    } pictures[] = {{HR_MAX_SIDE, HR_MAX_SIDE, -40000, 110000, 0},
                    {3, 1000, 15000, 70000, 256 * 1000 / 3 - 223}};
    struct hr_op out[HR_MAX_OPS];

    for (int k = 0; k < 2; k++) {
        int least = INT_MAX, most = INT_MIN, w, h;

        for (int i = 0; i < 300; i++) {
            int n = drawn(lists[k], 2, (uint64_t)i, pictures[k].w,
                          pictures[k].h, out),
                y = n == 2 ? out[1].crop.y : 0;

            CHECK(!hr_ops_output_size(out, n, pictures[k].w, pictures[k].h, 1,
                                      &w, &h),
                  "%s", hr_last_error());
            CU_ASSERT(!pictures[k].places ||
                      (y >= 0 && y < pictures[k].places));
            most = y > most ? y : most;
            least = y < least ? y : least;
        }
        CHECK(least < pictures[k].least && most > pictures[k].most, "%d .. %d",
              least, most);
    }
}

// Pixels that are mirrored around a picture: those of pad, then what is needed,
// then the window.
TEST_CASE(mirrored)
{
    const struct hr_op op = hr_op_random_crop(.w = 10, .h = 8, .pad = 1,
                                              .pad_if_needed = true,
                                              .mode = HR_EDGES_REFLECT);
    const struct hr_op black = hr_op_random_crop(.w = 10, .h = 8, .pad = 1,
                                                 .pad_if_needed = true);
    struct hr_op out[HR_MAX_OPS], one[HR_MAX_OPS];

    for (uint64_t i = 0; i < 50; i++) {
        int n = drawn(&op, 1, i, 7, 9, out);

        CU_ASSERT_FATAL(drawn(&black, 1, i, 7, 9, one) == 1 && n == 3);
        CU_ASSERT(out[0].type == HR_OP_PAD && out[0].pad.bottom == 1 &&
                  out[0].pad.mode == HR_EDGES_REFLECT);
        CU_ASSERT(out[1].type == HR_OP_PAD && out[1].pad.right == 1 &&
                  !out[1].pad.bottom && out[1].pad.mode == HR_EDGES_REFLECT);
        // The same place.
        CU_ASSERT(out[2].crop.x - 2 == one[0].crop.x &&
                  out[2].crop.y - 1 == one[0].crop.y);
    }
}

TEST_CASE(lists)
{
    const struct hr_op ops[] = {hr_op_decode(.apply_orientation = true),
                                hr_op_random_flip(.horizontal = .3),
                                hr_op_resize(.short_side = 20),
                                hr_op_random_resized_crop(.w = 32, .h = 16,
                                                          .filter = HR_BICUBIC),
                                hr_op_random_crop(.w = 30, .h = 12),
                                hr_op_normalize(0)};
    struct hr_random key = {.seed = 99};
    struct hr_op out[HR_MAX_OPS], again[HR_MAX_OPS];
    int flipped = 0, n = 0, w, h;

    for (key.index = 0; key.index < 2000; key.index++) {
        CU_ASSERT(!hr_ops_draw(ops, COUNT(ops), &key, 40, 400, 6, out, &n));
        flipped += n == 7;
        CU_ASSERT_FATAL(n == 6 || n == 7);
        CU_ASSERT(
            out[0].type == HR_OP_DECODE && out[n - 1].type == HR_OP_NORMALIZE &&
            out[n - 2].type == HR_OP_CROP && out[n - 3].type == HR_OP_RESIZE);
        CU_ASSERT(out[n - 3].resize.w == 32 &&
                  out[n - 3].resize.filter == HR_BICUBIC);
        // Turned by EXIF it is 400 wide, and 200 x 20 after the resize.
        CU_ASSERT(out[n - 4].crop.x + out[n - 4].crop.w <= 200 &&
                  out[n - 4].crop.y + out[n - 4].crop.h <= 20);
    }
    CHECK(flipped > 500 && flipped < 700, "%d", flipped);
    CU_ASSERT(!hr_ops_output_size(ops, COUNT(ops), 40, 400, 6, &w, &h));
    CU_ASSERT(w == 30 && h == 12);
    // An op that is not random stays, and needs no key.
    memset(again, 0, sizeof(again));
    CU_ASSERT(!hr_ops_draw(out, n, NULL, 40, 400, 6, again, &w) && w == n);
    CU_ASSERT(!memcmp(out, again, sizeof(*out) * (size_t)n));
    key = (struct hr_random){0};
    CU_ASSERT(!hr_ops_draw(ops, COUNT(ops), &key, 40, 400, 6, out, &n));
    CU_ASSERT(!hr_ops_draw(ops, COUNT(ops), NULL, 40, 400, 6, again, &w));
    CU_ASSERT(w == n && out[n - 4].crop.x == again[n - 4].crop.x);
    CU_ASSERT_EQUAL(hr_ops_draw(ops, 1, NULL, 4, 4, 1, NULL, &n), HR_EINVAL);
    CU_ASSERT_EQUAL(hr_ops_draw(ops, 1, NULL, 4, 0, 1, out, &n), HR_EINVAL);
}

// An op draws by its place: equal ops of one list do not draw the same.
TEST_CASE(by_place)
{
    const struct hr_op ops[] = {hr_op_random_resized_crop(.w = 50, .h = 40),
                                hr_op_random_resized_crop(.w = 50, .h = 40),
                                hr_op_random_resized_crop(.w = 50, .h = 40)};
    const struct hr_random_resized_crop *op = &ops[0].random_resized_crop;
    const struct hr_random key = {.seed = 5, .index = 17};
    struct hr_op out[HR_MAX_OPS];

    CU_ASSERT_EQUAL_FATAL(drawn(ops, 3, 17, 50, 40, out), 6);
    for (int i = 0; i < 3; i++) {
        struct hr_crop want = hr__random_window(op, &key, i, 50, 40);
        const struct hr_crop *got = &out[2 * i].crop;

        CU_ASSERT(got->x == want.x && got->y == want.y && got->w == want.w);
        CU_ASSERT(!i || got->w != out[0].crop.w || got->x != out[0].crop.x);
    }
}

TEST_CASE(refused)
{
    static const struct {
        struct hr_op op;
        const char *what;
    } bad[] = {
        {HR_OP_RANDOM_CROP(.w = 5), "random_crop"},
        {HR_OP_RANDOM_CROP(.w = 5, .h = 70000), "5x70000"},
        {HR_OP_RANDOM_CROP(.w = 5, .h = 5, .pad = -1), "pad must"},
        {HR_OP_RANDOM_CROP(.w = 11, .h = 5), "does not fit"},
        {HR_OP_RANDOM_RESIZED_CROP(.h = 5), "to 0x5"},
        {HR_OP_RANDOM_RESIZED_CROP(.w = 5, .h = 5, .filter = 6), "filter"},
        {HR_OP_RANDOM_RESIZED_CROP(.w = 5, .h = 5, .scale = {.5}), "scale"},
        {HR_OP_RANDOM_RESIZED_CROP(.w = 5, .h = 5, .scale = {1, .5}), "scale"},
        {HR_OP_RANDOM_RESIZED_CROP(.w = 5, .h = 5, .scale = {NAN, 1}), "scale"},
        {HR_OP_RANDOM_RESIZED_CROP(.w = 5, .h = 5, .ratio = {0, 1}), "ratio"},
        {HR_OP_RANDOM_RESIZED_CROP(.w = 5, .h = 5, .ratio = {1, INFINITY}),
         "ratio"},
        {HR_OP_RANDOM_FLIP(.horizontal = 1.5), "flip"},
        {HR_OP_RANDOM_FLIP(.vertical = -1), "flip"},
        {HR_OP_RANDOM_FLIP(.vertical = NAN), "flip"},
        {HR_OP_RANDOM_FLIP(0), "no probability"},
    };
    struct hr_op many[HR_MAX_OPS];
    int w, h;

    for (int i = 0; i < COUNT(bad); i++)
        CHECK(hr_ops_output_size(&bad[i].op, 1, 10, 10, 1, &w, &h) ==
                      HR_EINVAL &&
                  strstr(hr_last_error(), bad[i].what),
              "%d: '%s'", i, hr_last_error());
    // Extreme, and no number overflows.
    many[0] = hr_op_random_resized_crop(.w = 5, .h = 5, .scale = {1e300, 1e300},
                                        .ratio = {1e-300, 1e300});
    CU_ASSERT(!hr_ops_output_size(many, 1, 10, 10, 1, &w, &h));
    // A random resized crop is two of the 32.
    for (int i = 0; i < HR_MAX_OPS; i++)
        many[i] = i < 7 ? hr_op_random_resized_crop(.w = 5, .h = 5)
                        : hr_op_random_flip(.horizontal = .5);
    CU_ASSERT(!hr_ops_output_size(many, HR_MAX_OPS - 7, 10, 10, 1, &w, &h));
    CU_ASSERT_EQUAL(hr_ops_output_size(many, HR_MAX_OPS - 6, 10, 10, 1, &w, &h),
                    HR_EINVAL);
}

// ---- The same bytes on every engine ---------------------------------------

enum { SAMPLES = 48, W = 40, H = 24 };

static struct bytes sources[SAMPLES];

static const struct hr_op train[] = {
    HR_OP_DECODE(.apply_orientation = true),
    HR_OP_RANDOM_FLIP(.horizontal = .5, .vertical = .3),
    HR_OP_RANDOM_RESIZED_CROP(.w = 48, .h = 32),
    HR_OP_RANDOM_CROP(.w = W, .h = H, .pad = 3),
    HR_OP_NORMALIZE(.mean = {.5f, .4f, .3f}, .std = {.2f, .3f, .4f}),
};

static const struct hr_op recipe[] = {
    HR_OP_DECODE(.apply_orientation = true),
    HR_OP_RANDOM_RESIZED_CROP(.w = W, .h = H),
    HR_OP_RANDOM_APPLY(.p = .6, .count = 2),
    HR_OP_COLOR_JITTER(.brightness = {.6, 1.4}, .contrast = {.6, 1.4},
                       .saturation = {.6, 1.4}, .hue = {-.1, .1}),
    HR_OP_RANDOM_GRAYSCALE(.p = .4),
    HR_OP_RANDOM_FLIP(.horizontal = .5),
    HR_OP_RAND_AUGMENT(.num_ops = 2, .magnitude = 9),
    HR_OP_NORMALIZE(.mean = {.5f, .4f, .3f}, .std = {.2f, .3f, .4f}),
};

static const struct {
    const struct hr_op *ops;
    int num;
} kinds[] = {{train, COUNT(train)}, {recipe, COUNT(recipe)}};
static int kind;  // of lists that samples have

// A JPEG with an orientation: APP1 comes behind SOI.
static struct bytes oriented(struct bytes jpeg, int orientation)
{
    uint8_t app1[] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,    'M', 'M',
                      0,    42,   0, 0,  0,   8,   0,   1,   1, 0x12, 0,   3,
                      0,    0,    0, 1,  0,   0,   0,   0,   0, 0,    0,   0};
    struct bytes out = {malloc(jpeg.size + sizeof(app1)),
                        jpeg.size + sizeof(app1)};

    app1[29] = (uint8_t)orientation;
    memcpy(out.data, jpeg.data, 2);
    memcpy(out.data + 2, app1, sizeof(app1));
    memcpy(out.data + 2 + sizeof(app1), jpeg.data + 2, jpeg.size - 2);
    free(jpeg.data);
    return out;
}

static struct hr_sample sample_of(int i)
{
    return test_sample(&sources[i], kinds[kind].ops, kinds[kind].num,
                       .random = {.seed = 3, .epoch = 2, .index = (uint64_t)i});
}

// Sample i in slot i; in jobs of `batch`, the last first if backwards.
static float *made(hr_device dev, int batch, bool backwards)
{
    auto_batch out = hr_batch_create(dev, hr_batch_params(.n = SAMPLES, .c = 3,
                                                          .h = H, .w = W));
    hr_job jobs[SAMPLES];
    int n = 0;
    float *copy;

    for (int at = 0; at < SAMPLES; at += batch, n++) {
        int first = backwards ? SAMPLES - at - batch : at;
        struct hr_sample s[SAMPLES];

        for (int i = 0; i < batch; i++)
            s[i] = sample_of(first + i);
        jobs[n] = hr_submit(dev, s, batch, out,
                            hr_job_params(.first_slot = first,
                                          .wait_for_room = true));
        CU_ASSERT_PTR_NOT_NULL_FATAL(jobs[n]);
    }
    for (int i = 0; i < n; i++) {
        CHECK(!hr_job_wait(jobs[i], HR_FOREVER), "%s",
              jobs[i]->results[0].message);
        hr_job_release(&jobs[i]);
    }
    copy = (float *)test_copy(out->params.data, out->size);
    return copy;
}

// Submits what hr_ops_draw() says for the size and orientation of the results.
static float *made_plain(hr_device dev)
{
    auto_batch out = hr_batch_create(dev, hr_batch_params(.n = SAMPLES, .c = 3,
                                                          .h = H, .w = W));
    struct hr_op ops[SAMPLES][HR_MAX_OPS];
    struct hr_sample s[SAMPLES];
    hr_job job;
    float *copy;

    for (int i = 0; i < SAMPLES; i++)
        s[i] = sample_of(i);
    job = hr_submit(dev, s, SAMPLES, out, NULL);
    CU_ASSERT_FATAL(job && !hr_job_wait(job, HR_FOREVER));
    for (int i = 0; i < SAMPLES; i++) {
        const struct hr_result *r = &job->results[i];

        CU_ASSERT(!hr_ops_draw(kinds[kind].ops, kinds[kind].num, &s[i].random,
                               r->width, r->height, r->orientation, ops[i],
                               &s[i].num_ops));
        s[i].ops = ops[i];
        s[i].random = (struct hr_random){0};
        CU_ASSERT_EQUAL(r->orientation, i % 3 ? 1 : 1 + i % 8);
    }
    hr_job_release(&job);
    memset(out->params.data, 0, out->size);
    job = hr_submit(dev, s, SAMPLES, out, NULL);
    CU_ASSERT_FATAL(job && !hr_job_wait(job, HR_FOREVER));
    hr_job_release(&job);
    copy = (float *)test_copy(out->params.data, out->size);
    return copy;
}

static void make_sources(void)
{
    uint64_t seed = test_seed;

    for (int i = 0; i < SAMPLES; i++) {
        int w = 8 + random_below(&seed, 120), h = 8 + random_below(&seed, 90);

        sources[i] = i % 3 == 1 ? test_png(w, h, &seed)
                                : test_jpeg(w, h, &seed);
        if (i % 3 == 0)
            sources[i] = oriented(sources[i], 1 + i % 8);
    }
}

static void compare_runs(void)
{
    static const struct {
        const char *device;
        int threads, batch;
        bool backwards;
    } runs[] = {
        {"cpu", 1, SAMPLES, false}, {"cpu", 2, SAMPLES, false},
        {"cpu", 4, SAMPLES, false}, {"cpu", 4, 8, true},
        {"cpu", 2, 1, true},        {"fake", 2, SAMPLES, false},
        {"fake", 2, 16, true},
    };
    size_t size = SAMPLES * sizeof(float) * 3 * W * H;
    hr_device cpu = test_device("cpu", 1, 0);
    auto_heap float *want = NULL;

    want = made_plain(cpu);
    hr_device_close(&cpu);
    for (int i = 0; i < COUNT(runs); i++) {
        auto_device dev = NULL;
        auto_heap float *got = NULL;

        fake_reset_spans(FAKE_RS);
        dev = test_device(runs[i].device, runs[i].threads, 0);
        got = made(dev, runs[i].batch, runs[i].backwards);
        CHECK(!memcmp(got, want, size), "list %d, run %d: other bytes", kind,
              i);
    }
}

TEST_CASE(same_everywhere)
{
    make_sources();
    for (kind = 0; kind < COUNT(kinds); kind++)
        compare_runs();
    for (int i = 0; i < SAMPLES; i++)
        free(sources[i].data);
}

// Pixels as source: places count from the first op of the list.
TEST_CASE(from_pixels)
{
    const struct hr_op ops[] = {hr_op_random_resized_crop(.w = W, .h = H,
                                                          .filter = HR_LANCZOS),
                                hr_op_random_flip(.horizontal = .5)};
    auto_device dev = test_device("cpu", 2, 0);
    uint64_t seed = test_seed;
    auto_image image = test_image(dev, 90, 70, 3, &seed);
    struct hr_sample s[2 * SAMPLES];
    struct hr_op plain[SAMPLES][HR_MAX_OPS];
    auto_batch out = hr_batch_create(
        dev, hr_batch_params(.n = 2 * SAMPLES, .c = 3, .h = H, .w = W,
                             .dtype = HR_U8, .layout = HR_NHWC));
    const uint8_t *pixels = out->params.data;
    int differ = 0;
    hr_job job;

    for (int i = 0; i < SAMPLES; i++) {
        struct hr_random key = {.seed = 8, .index = (uint64_t)i};

        s[i] = (struct hr_sample){
            .image = image, .ops = ops, .num_ops = 2, .random = key};
        s[SAMPLES + i] = (struct hr_sample){.image = image, .ops = plain[i]};
        hr_ops_draw(ops, 2, &key, 90, 70, 1, plain[i], &s[SAMPLES + i].num_ops);
    }
    job = hr_submit(dev, s, 2 * SAMPLES, out, NULL);
    CU_ASSERT_FATAL(job && !hr_job_wait(job, HR_FOREVER));
    CU_ASSERT_EQUAL(job->results[0].orientation, 1);
    hr_job_release(&job);
    CU_ASSERT(
        !memcmp(pixels, pixels + SAMPLES * W * H * 3, SAMPLES * W * H * 3));
    for (int i = 1; i < SAMPLES; i++)
        differ += !!memcmp(pixels, pixels + i * W * H * 3, W * H * 3);
    CU_ASSERT_EQUAL(differ, SAMPLES - 1);
}

// A crop that does not fit is its sample's failure.
TEST_CASE(too_small)
{
    const struct hr_op ops[] = {hr_op_random_crop(.w = W, .h = H)};
    auto_device dev = test_device("cpu", 1, 0);
    uint64_t seed = test_seed;
    auto_image small = test_image(dev, W - 1, H, 3, &seed);
    auto_image fits = test_image(dev, W, H, 3, &seed);
    struct hr_sample s[] = {{.image = small, .ops = ops, .num_ops = 1},
                            {.image = fits, .ops = ops, .num_ops = 1}};
    auto_batch out = hr_batch_create(dev, hr_batch_params(.n = 2, .c = 3,
                                                          .h = H, .w = W));
    auto_job job = hr_submit(dev, s, 2, out, NULL);

    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_EINVAL);
    CU_ASSERT_EQUAL(job->results[0].status, HR_EINVAL);
    CHECK(strstr(job->results[0].message, "does not fit") != NULL, "%s",
          job->results[0].message);
    CU_ASSERT_EQUAL(job->results[1].status, HR_OK);
}
