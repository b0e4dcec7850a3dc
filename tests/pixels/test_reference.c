// SPDX-License-Identifier: Apache-2.0
// References: the order of passes of a resize, the setting that selects it, and
// the probe that finds the order of an installed Pillow.
#include "hal/job/work.h"
#include "testing.h"

// ---- The order of the two passes -------------------------------------------

// The order of step `at` of a list, of the picture as its user sees it.
static enum hr_order order_at(const struct hr_op *ops, int n,
                              enum hr_reference reference, int w, int h, int at)
{
    struct hr__geometry geo;
    const struct hr__step *s = &geo.steps[at];
    char text[128];

    if (hr__geometry_build(&geo, ops, n, reference, w, h, 1, text) ||
        at >= geo.num_steps || !s->resized) {
        CHECK(false, "step %d: %s", at, text);
        return HR_ORDER_REFERENCE;
    }
    if (s->torch)
        return HR_ORDER_TORCH;
    // A step that is transposed after it has the axes exchanged.
    return s->v_first != s->transpose ? HR_ORDER_VERTICAL : HR_ORDER_HORIZONTAL;
}

#define ORDER(reference, w, h, at, ...)                    \
    order_at((const struct hr_op[]){__VA_ARGS__},          \
             (int)(sizeof((struct hr_op[]){__VA_ARGS__}) / \
                   sizeof(struct hr_op)),                  \
             HR_REFERENCE_##reference, w, h, at)

// Both sides of every edge of every rule.
TEST_CASE(rules)
{
    static const struct {
        int width, height, w, h;
        bool high, vertical;  // vertical by 12.2, by 13
    } cases[] = {
        {100, 104, 98, 100, false, false},   // 4 = 2 * 2
        {100, 105, 98, 100, false, true},    // 5 > 2 * 2
        {100, 103, 98, 100, false, false},   // 3 > 2, but not > 4
        {100, 101, 101, 100, false, true},   // 1 > 0 > -2
        {100, 99, 110, 100, false, false},   // -1 > -20, but not > 0
        {100, 100, 110, 100, false, false},  // 0 > -20, but not > 0
        {100, 50, 200, 100, false, false},   // both grow
        {500, 375, 224, 224, false, false},
        {375, 500, 224, 224, false, false},
        {300, 500, 224, 224, false, true},
        {500, 100, 224, 90, false, false},
        {65535, 65535, 1, 1, false, false},
        {3, 300, 4, 20, false, true},  // 100 times as high as wide
        {3, 301, 4, 20, true, true},   // and more
        {3, 301, 2, 300, true, false},
        {3, 301, 4, 301, false, false},  // the height stays
        {3, 301, 9, 400, false, false},  // it grows
        {1, 65535, 65535, 1, true, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const bool vertical[HR_NUM_REFERENCES] = {
            [HR_REFERENCE_PILLOW_12_2] = cases[i].high,
            [HR_REFERENCE_PILLOW_13] = cases[i].vertical};
        int width = cases[i].width, height = cases[i].height;
        int w = cases[i].w, h = cases[i].h;
        const struct hr_op op = hr_op_resize(.w = w, .h = h);

        for (int k = 1; k < HR_NUM_REFERENCES; k++) {
            enum hr_reference r = (enum hr_reference)k;
            enum hr_order want = r == HR_REFERENCE_TORCH_2 ? HR_ORDER_TORCH
                                 : vertical[k]             ? HR_ORDER_VERTICAL
                                               : HR_ORDER_HORIZONTAL;
            // Where the geometry has no two passes there is no order.
            bool two = w != width && h != height;

            CHECK(hr_resize_order(r, width, height, w, h) == want &&
                      (!two || order_at(&op, 1, r, width, height, 0) == want),
                  "%s, %dx%d to %dx%d", hr_reference_name(r), width, height, w,
                  h);
        }
    }
}

// The sizes are the picture's when the resize has its turn, and of the whole of
// it. 40 x 100 to 30 x 80 is 20 = 2 * 10, horizontal.
TEST_CASE(rule_of_what)
{
    const struct hr_op to = hr_op_resize(.w = 30, .h = 80);
    const struct hr_op crop = hr_op_crop(.w = 39, .h = 100);
    const struct hr_op pad = hr_op_crop(.y = -1, .w = 40, .h = 101,
                                        .pad = true);
    const struct hr_op turn = hr_op_flip(.transpose = true);

    CHECK(ORDER(PILLOW_13, 40, 100, 0, to) == HR_ORDER_HORIZONTAL, "alone");
    CHECK(ORDER(PILLOW_13, 40, 100, 0, crop, to) == HR_ORDER_VERTICAL, "crop");
    CHECK(ORDER(PILLOW_13, 40, 100, 1, pad, to) == HR_ORDER_VERTICAL, "pad");
    CHECK(ORDER(PILLOW_13, 40, 101, 0,
                hr_op_resize(.w = 30, .h = 80, .box = {0, 0, 40, 90})) ==
              HR_ORDER_VERTICAL,
          "a box does not count: it would shrink the height by 10");
    CHECK(ORDER(PILLOW_13, 40, 100, 0,
                hr_op_resize(.w = 30, .h = 80, .box = {9, 0, 40, 100})) ==
              HR_ORDER_HORIZONTAL,
          "a box does not count: it would shrink the width by 1");
    CHECK(ORDER(PILLOW_13, 100, 40, 0, turn, to) == HR_ORDER_HORIZONTAL,
          "turned before");
    CHECK(ORDER(PILLOW_13, 101, 40, 0, turn, to) == HR_ORDER_VERTICAL,
          "turned before, 21 > 20");
    CHECK(ORDER(PILLOW_13, 40, 101, 0, to, hr_op_crop(.w = 3, .h = 3)) ==
              HR_ORDER_VERTICAL,
          "cropped after");
    CHECK(ORDER(PILLOW_13, 99, 300, 1, hr_op_resize(.w = 40, .h = 101), crop,
                to) == HR_ORDER_VERTICAL,
          "the second of two, cropped between");
    CHECK(ORDER(PILLOW_13, 99, 300, 1, hr_op_resize(.w = 40, .h = 100), to) ==
              HR_ORDER_HORIZONTAL,
          "the second of two");
}

// The op sets the order, or else the reference. Where it makes no difference it
// is the order that needs no turn.
TEST_CASE(op_before_reference)
{
    const struct hr_op ops[] = {
        hr_op_resize(.w = 9, .h = 9, .order = HR_ORDER_VERTICAL),
        hr_op_resize(.w = 9, .h = 9, .order = HR_ORDER_HORIZONTAL),
        hr_op_resize(.w = 9, .h = 9, .order = HR_ORDER_VERTICAL,
                     .filter = HR_NEAREST),
        hr_op_resize(.w = 40, .h = 9, .order = HR_ORDER_VERTICAL),
        hr_op_resize(.w = 9, .h = 300, .order = HR_ORDER_VERTICAL),
    };

    CHECK(order_at(&ops[0], 1, HR_REFERENCE_PILLOW_12, 40, 300, 0) ==
              HR_ORDER_VERTICAL,
          "the op says vertical");
    CHECK(order_at(&ops[1], 1, HR_REFERENCE_PILLOW_13, 40, 300, 0) ==
              HR_ORDER_HORIZONTAL,
          "the op says horizontal");
    for (int i = 2; i < 5; i++)
        CHECK(order_at(&ops[i], 1, HR_REFERENCE_PILLOW_13, 40, 300, 0) ==
                  HR_ORDER_HORIZONTAL,
              "%d: one pass, or none", i);
}

// ---- The process, devices, jobs --------------------------------------------

TEST_CASE(names)
{
    for (int i = 1; i < HR_NUM_REFERENCES; i++) {
        const char *name = hr_reference_name((enum hr_reference)i);

        CHECK(name && (int)hr_reference_find(name) == i, "%d", i);
    }
    CHECK(hr_device_reference(NULL) == HR_REFERENCE_PILLOW_13,
          "not the newest");
    CHECK(!strcmp(hr_reference_name(HR_REFERENCE_DEFAULT), "pillow-13"),
          "name of the default");
    CHECK(!hr_reference_name(HR_NUM_REFERENCES) &&
              !hr_reference_name((enum hr_reference) - 1),
          "names of none");
    CHECK(!hr_reference_find("pillow-1") && !hr_reference_find("") &&
              !hr_reference_find(NULL),
          "found what is none");
    CHECK(hr_set_reference(HR_NUM_REFERENCES) == HR_EINVAL &&
              hr_device_reference(NULL) == HR_REFERENCE_PILLOW_13,
          "set what is none");
    CHECK(!hr_device_open("cpu", hr_device_params(.reference = 7)) &&
              hr_last_status() == HR_EINVAL &&
              strstr(hr_last_error(), "reference"),
          "opened with none: %s", hr_last_error());
}

enum { W = 20, H = 60, OUT_W = 13, OUT_H = 17 };  // vertical for pillow-13

// The resize of that picture by dev, with an order or without.
static enum hr_reference made(hr_device dev, uint8_t *out, enum hr_order order)
{
    uint64_t seed = test_seed;
    auto_image src = test_image(dev, W, H, 3, &seed);
    const struct hr_op op = hr_op_resize(.w = OUT_W, .h = OUT_H,
                                         .order = order);
    auto_image to = hr_image_create(
        dev, hr_image_params(.w = OUT_W, .h = OUT_H, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC, .data = out));
    struct hr_sample s = {.image = src, .ops = &op, .num_ops = 1, .out = to};
    auto_job job = hr_submit(dev, &s, 1, NULL, NULL);
    enum hr_reference reference = job ? job->reference : HR_REFERENCE_DEFAULT;

    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    return reference;
}

static uint8_t by[3][OUT_W * OUT_H * 3];  // by enum hr_order

static bool follows(hr_device dev, enum hr_reference reference)
{
    uint8_t got[OUT_W * OUT_H * 3];
    enum hr_order order = reference == HR_REFERENCE_PILLOW_13
                              ? HR_ORDER_VERTICAL
                              : HR_ORDER_HORIZONTAL;

    return hr_device_reference(dev) == reference &&
           made(dev, got, HR_ORDER_REFERENCE) == reference &&
           !memcmp(got, by[order], sizeof(got));
}

// The process's counts at each submission, for devices that have none.
TEST_CASE(counts_of_the_process)
{
    auto_device plain = test_device("cpu", 1, 0);
    auto_device old = hr_device_open(
        "cpu", hr_device_params(.reference = HR_REFERENCE_PILLOW_12));

    made(plain, by[HR_ORDER_HORIZONTAL], HR_ORDER_HORIZONTAL);
    made(plain, by[HR_ORDER_VERTICAL], HR_ORDER_VERTICAL);
    CHECK(memcmp(by[1], by[2], sizeof(by[1])), "the orders are alike");
    CHECK(hr_set_image_backend("cpu") == HR_OK, "%s", hr_last_error());
    for (int i = 0; i < 3; i++) {
        enum hr_reference process = i == 1 ? HR_REFERENCE_PILLOW_12
                                           : HR_REFERENCE_PILLOW_13;

        CHECK(hr_set_reference(i ? process : HR_REFERENCE_DEFAULT) == HR_OK,
              "%s", hr_last_error());
        CHECK(follows(NULL, process), "%d: the default device", i);
        CHECK(follows(plain, process), "%d: a device without one", i);
        CHECK(follows(old, HR_REFERENCE_PILLOW_12), "%d: a device with one", i);
    }
}

// A device with Pillow's reference makes the ops that torch's refuses, whatever
// the process has set.
TEST_CASE(torch_of_process)
{
    const struct hr_op ops[] = {
        hr_op_resize(.w = OUT_W, .h = OUT_H, .filter = HR_HAMMING),
        {.type = HR_OP_RANDOM_CROP, .random_crop = {.w = 5, .h = 7}}};
    auto_device plain = test_device("cpu", 1, 0);
    auto_device pillow = hr_device_open(
        "cpu", hr_device_params(.reference = HR_REFERENCE_PILLOW_13));
    hr_device devices[] = {pillow, plain};
    int w, h;

    hr_set_reference(HR_REFERENCE_TORCH_2);
    CHECK(!hr_ops_output_size(ops, 2, W, H, 0, &w, &h) && w == 5 && h == 7,
          "%s", hr_last_error());
    for (int i = 0; i < 2; i++) {
        uint64_t seed = test_seed;
        auto_image src = test_image(devices[i], W, H, 3, &seed);
        auto_image to = hr_image_create(
            devices[i], hr_image_params(.w = 5, .h = 7, .c = 3));
        struct hr_sample s = {.image = src, .ops = ops, .num_ops = 2, .out = to};
        auto_job job = hr_submit(devices[i], &s, 1, NULL, NULL);

        enum hr_status want = i ? HR_EUNSUPPORTED : HR_OK;

        CHECK(job && hr_job_wait(job, HR_FOREVER) == want &&
                  job->results[0].status == want,
              "%d: %s", i, job ? job->results[0].message : hr_last_error());
    }
    hr_set_reference(HR_REFERENCE_DEFAULT);
}

// ---- The probe -------------------------------------------------------------

// A scripted resize: the pass that it does first, and its faults.
struct other {
    bool (*vertical)(int width, int height, int w, int h);
    int wrong_at,
        fail_at;  // call that is off by one level, that fails; 0: none
    int calls;
};

static int resize_of_other(void *ctx, const uint8_t *pixels, int width,
                           int height, enum hr_filter filter, uint8_t *out,
                           int w, int h)
{
    struct other *o = ctx;
    auto_device cpu = test_device("cpu", 1, 0);
    auto_image from = hr_image_create(
        cpu,
        hr_image_params(.w = width, .h = height, .c = 3, .dtype = HR_U8,
                        .layout = HR_NHWC, .data = (void *)(uintptr_t)pixels));
    auto_image made = NULL;
    struct hr_op op = hr_op_resize(.w = w, .h = h, .filter = filter,
                                   .order = HR_ORDER_HORIZONTAL);

    if (o->vertical(width, height, w, h))
        op.resize.order = HR_ORDER_VERTICAL;
    made = hr_apply_op(cpu, from, &op);
    hr_image_read(made, out, (size_t)w * (size_t)h * 3, HR_FOREVER);
    if (++o->calls == o->wrong_at)
        out[5] ^= 1;
    return o->calls == o->fail_at ? -1 : 0;
}

static bool never(int width, int height, int w, int h)
{
    return width + height + w + h < 0;
}

static bool always(int width, int height, int w, int h)
{
    return !never(width, height, w, h);
}

static bool pillow_13(int width, int height, int w, int h)
{
    return height > h && height - h > 2 * (width - w);
}

static bool pillow_12_2(int width, int height, int w, int h)
{
    (void)w;
    return height > 100 * width && h < height;
}

static bool as_high(int width, int height, int w, int h)
{
    (void)w;
    return height >= 100 * width && h < height;
}

static bool very_high(int width, int height, int w, int h)
{
    (void)w, (void)h;
    return height > 100 * width;
}

static bool or_equal(int width, int height, int w, int h)
{
    return height > h && height - h >= 2 * (width - w);
}

static bool simply_more(int width, int height, int w, int h)
{
    return height > h && height - h > width - w;
}

static bool thrice(int width, int height, int w, int h)
{
    return height > h && height - h > 3 * (width - w);
}

static bool also_growing(int width, int height, int w, int h)
{
    return height - h > 2 * (width - w);
}

static bool only_shrinking(int width, int height, int w, int h)
{
    return width > w && pillow_13(width, height, w, h);
}

TEST_CASE(probe_finds)
{
    static const struct {
        bool (*rule)(int, int, int, int);
        enum hr_reference found;  // 0: unknown
        const char *name;
    } cases[] = {
        {never, HR_REFERENCE_PILLOW_12, "never"},
        {pillow_13, HR_REFERENCE_PILLOW_13, "pillow-13"},
        {pillow_12_2, HR_REFERENCE_PILLOW_12_2, "pillow-12.2"},
        {as_high, 0, "exactly 100 times as high as wide"},
        {always, 0, "always"},
        {very_high, 0, "also if it grows"},
        {or_equal, 0, ">= instead of >"},
        {simply_more, 0, "once instead of twice"},
        {thrice, 0, "thrice instead of twice"},
        {also_growing, 0, "also if the height grows"},
        {only_shrinking, 0, "only if the width shrinks"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct other o = {.vertical = cases[i].rule};
        enum hr_reference found = HR_NUM_REFERENCES;
        enum hr_status status = hr_reference_probe(resize_of_other, &o, &found);

        CHECK(found == cases[i].found, "%s: found %d", cases[i].name, found);
        CHECK(cases[i].found
                  ? status == HR_OK
                  : status == HR_EUNSUPPORTED &&
                        strstr(hr_last_error(), "unknown order of passes"),
              "%s: %s", cases[i].name, hr_last_error());
    }
}

// One wrong byte in any answer is noticed, so is any that fails.
TEST_CASE(probe_fails)
{
    struct other right = {.vertical = pillow_13};
    enum hr_reference found;

    CHECK(hr_reference_probe(NULL, NULL, &found) == HR_EINVAL, "no resize");
    CHECK(hr_reference_probe(resize_of_other, &right, NULL) == HR_EINVAL,
          "no found");
    CHECK(hr_reference_probe(resize_of_other, &right, &found) == HR_OK, "%s",
          hr_last_error());
    CHECK(right.calls >= 6, "%d calls", right.calls);
    for (int i = 1; i <= right.calls; i++) {
        struct other wrong = {.vertical = pillow_13, .wrong_at = i};
        struct other fails = {.vertical = pillow_13, .fail_at = i};

        CHECK(hr_reference_probe(resize_of_other, &wrong, &found) ==
                      HR_EUNSUPPORTED &&
                  !found,
              "call %d is wrong: %s", i, hr_last_error());
        CHECK(hr_reference_probe(resize_of_other, &fails, &found) ==
                      HR_EDEVICE &&
                  !found,
              "call %d fails: %s", i, hr_last_error());
    }
}

// ---- The decoder -----------------------------------------------------------

TEST_CASE(library)
{
    const char *name = hr_jpeg_library();

    CHECK(!strncmp(name, "libjpeg-turbo ", 14) && strpbrk(name, "123456789"),
          "'%s'", name);
    CHECK(name == hr_jpeg_library(), "not the same each time");
}

// Where scan `which` (0, 1, ...) of a JPEG ends, tables behind it included, or
// 0: it has fewer.
static size_t end_of_scan(const struct bytes *jpeg, int which)
{
    size_t at = 2;
    bool entropy = false;

    while (at + 4 <= jpeg->size) {
        const uint8_t *p = jpeg->data + at;

        if (entropy && (p[0] != 0xff || !p[1] || (p[1] & 0xf8) == 0xd0)) {
            at++;
            continue;
        }
        if (entropy && which-- == 0)
            return at;
        entropy = p[1] == 0xda;
        at += 2 + (size_t)p[2] * 256 + p[3];
    }
    return entropy && which == 0 ? at : 0;
}

// All files that end behind one of the scans, with an end mark each: only that
// with all of them has all.
static int check_scans(const struct bytes *jpeg)
{
    auto_heap uint8_t *part = test_copy(jpeg->data, jpeg->size + 2);
    struct hr_info info;
    size_t end;
    int n = 0;

    while ((end = end_of_scan(jpeg, n))) {
        bool last = !end_of_scan(jpeg, n + 1);

        memcpy(part, jpeg->data, jpeg->size);
        part[end] = 0xff;
        part[end + 1] = 0xd9;
        CHECK(hr_probe(part, end + 2, NULL, &info) == HR_OK && info.ends, "%s",
              hr_last_error());
        CHECK(info.all_scans == (last ? HR_SCANS_ALL : HR_SCANS_MISSING),
              "%d scans: %d", n + 1, (int)info.all_scans);
        n++;
    }
    return n;
}

TEST_CASE(all_scans)
{
    uint64_t seed = test_seed;

    for (int i = 0; i < 4; i++) {
        struct jpeg_spec spec = {.w = 40,
                                 .h = 24,
                                 .space = i == 3 ? JCS_GRAYSCALE : JCS_YCbCr,
                                 .factors = {0x22},
                                 .quality = 80,
                                 .progressive = i > 1,
                                 .separate = i == 1};
        auto_bytes jpeg = test_jpeg_of(&spec, &seed);
        static const int scans[] = {1, 3, 10, 6};
        int n = check_scans(&jpeg);

        CHECK(n == scans[i], "%d: %d scans", i, n);
    }
}
