// SPDX-License-Identifier: Apache-2.0
// Pictures by chance through the OpenCL engine: JPEGs of every sampling, some
// of extreme coefficients, and pixels in any strides; lists of ops, with codes
// and without, tables and results of any form; many to a job. Each byte is the
// CPU engine's, and no byte beside a row is written.
#include "coef_files.h"
#include "kernels/plan.h"
#include "made.h"
#include "opencl_env.h"

enum { BATCH = 33, MOST_OPS = 10, FILL = 0x5a };

struct picture {
    struct coef_file file;
    uint8_t *pixels;  // instead of a file
    struct hr_image_params source, out;
    struct hr_op ops[MOST_OPS];
    int num_ops, w, h, c;
    float entries[3 * 256];  // of a table of the caller's
    uint8_t *made[2];        // by the CPU, and by the device
    size_t size;
};

static const struct setting {
    const char *name, *variant;
    enum hr_where entropy;
    enum hr_reference reference;
    bool planes;  // of another engine, where it takes them
    bool codes;   // (Drivers compile them for long.)
} settings[] = {
    {.name = "staged", .variant = "staged", .entropy = HR_WHERE_HOST},
    {.name = "gpu", .variant = "gpu", .entropy = HR_WHERE_HOST},
    {.name = "staged, torch, codes",
     .variant = "staged",
     .entropy = HR_WHERE_DEVICE,
     .reference = HR_REFERENCE_TORCH_2,
     .codes = true},
    {.name = "gpu, codes",
     .variant = "gpu",
     .entropy = HR_WHERE_DEVICE,
     .codes = true},
    {.name = "staged, planes",
     .variant = "staged",
     .entropy = HR_WHERE_HOST,
     .planes = true},
    {.name = "gpu, planes",
     .variant = "gpu",
     .entropy = HR_WHERE_HOST,
     .planes = true},
};
enum { SETTINGS = sizeof(settings) / sizeof(*settings) };

static double between(double lo, double hi)
{
    return lo + (hi - lo) * coef_pick(0, 1000) / 1000;
}

// ---- Sources --------------------------------------------------------------

static void make_file(struct picture *p)
{
    struct samples_jpeg jpeg;

    do {
        jpeg = coef_kinds[coef_pick(0, COEF_KINDS - 1)].jpeg;
        if (coef_pick(0, 2) == 0)
            jpeg.restart_mcus = coef_pick(1, 30);
    } while (!coef_file_make(&p->file, &jpeg, p->w, p->h, false));
    if (!coef_pick(0, 3))
        CU_ASSERT_FATAL(coef_file_spoil(&p->file));
    p->ops[p->num_ops++] = hr_op_decode(.mode = p->c == 1 ? HR_GRAY : HR_RGB);
}

static void make_pixels(struct picture *p)
{
    bool planar = coef_pick(0, 1);
    size_t pad = (size_t)coef_pick(0, 7), size;
    struct hr_image_params *s = &p->source;

    *s = (struct hr_image_params){.w = p->w,
                                  .h = p->h,
                                  .c = p->c,
                                  .dtype = HR_U8,
                                  .layout = planar ? HR_NCHW : HR_NHWC};
    s->stride_h = (size_t)p->w * (planar ? 1 : (size_t)p->c) + pad;
    s->stride_c = s->stride_h * (size_t)p->h + pad;
    size = planar ? s->stride_c * (size_t)p->c : s->stride_h * (size_t)p->h;
    s->data = p->pixels = malloc(size);
    for (size_t i = 0; i < size; i++)
        p->pixels[i] = (uint8_t)coef_random();
}

// ---- Ops ------------------------------------------------------------------

static void add(struct picture *p, struct hr_op op)
{
    CU_ASSERT_FATAL(p->num_ops < MOST_OPS);
    p->ops[p->num_ops++] = op;
}

// (A text begins with decode, said or not.)
static void add_text(struct picture *p, const char *text)
{
    struct hr_op ops[HR_MAX_OPS];
    int n;

    CU_ASSERT_EQUAL_FATAL(hr_ops_parse(text, ops, &n), HR_OK);
    CU_ASSERT_EQUAL_FATAL(n, 2);
    add(p, ops[1]);
}

static struct hr_op crop(int w, int h, bool pad)
{
    struct hr_crop c = {.x = coef_pick(pad ? -w : 0, w - 1),
                        .y = coef_pick(pad ? -h : 0, h - 1),
                        .pad = pad};

    c.w = coef_pick(1, pad ? 2 * w : w - c.x);
    c.h = coef_pick(1, pad ? 2 * h : h - c.y);
    return (struct hr_op){.type = HR_OP_CROP, .crop = c};
}

static struct hr_op flip(void)
{
    return hr_op_flip(.horizontal = coef_pick(0, 1),
                      .vertical = coef_pick(0, 1),
                      .transpose = coef_pick(0, 3) == 0);
}

static void add_code(struct picture *p)
{
    static const struct {
        const char *text;
        double lo, hi;
    } codes[] = {
        {"adjust_contrast=%g", 0, 3},
        {"adjust_saturation=%g", 0, 3},
        {"adjust_sharpness=%g", 0, 3},
        {"adjust_hue=%g", -.5, .5},
        {"grayscale", 0, 0},
        {"equalize", 0, 0},
        {"autocontrast", 0, 0},
        {"autocontrast=%g,2.5", 0, 60},
        {"autocontrast=0,%g", 0, 100},
        {"posterize=%.0f", 1, 7},
        {"gaussian_blur=%g", .1, 4},
        {"box_blur=%g", .1, 5},
        {"kernel3=1,%g,2,-1,3,1,0,-2,1", -4, 4},
        {"permute_channels=2,0,1", 0, 0},
        {"rotate=%g:nearest", -180, 180},
        {"rotate=%g:bilinear", -180, 180},
        {"rotate=%g:bicubic:9,80,7", -180, 180},
        {"affine=1,%g,2,.1,1.3,-3:bilinear", -1, 1},
        {"affine=.7,0,%g,0,1.2,-3:nearest", -9, 9},
        {"perspective=1,.1,%g,.1,.9,3,.001,-.002:bicubic", -9, 9},
        {"perspective=1,.1,%g,.1,.9,3,.001,-.002:nearest", -9, 9},
        {"pad=%.0f,2,3,4:reflect", 0, 2},
        {"pad=%.0f,0,5,1:edge", 0, 9},
    };
    int k = coef_pick(0, sizeof(codes) / sizeof(*codes) - 1);
    char text[80];

    // (There are no channels to permute, and none without colour.)
    if (p->c == 1 &&
        strstr("adjust_hue=%g permute_channels=2,0,1 grayscale", codes[k].text))
        return;
    snprintf(text, sizeof(text), codes[k].text,
             between(codes[k].lo, codes[k].hi));
    add_text(p, text);
}

static bool size_of(const struct picture *p, int *w, int *h)
{
    return !hr_ops_output_size(p->ops, p->num_ops, p->w, p->h, 1, w, h);
}

// A list that comes to one step, as a rule.
static void make_ops(struct picture *p, int most, const struct setting *s)
{
    // torch has the first four.
    static const enum hr_filter filters[] = {HR_BILINEAR, HR_NEAREST,
                                             HR_BICUBIC,  HR_LANCZOS,
                                             HR_BOX,      HR_HAMMING};
    int w = p->w, h = p->h, codes = coef_pick(0, 2);

    if (coef_pick(0, 1))
        add(p, crop(w, h, false));
    if (coef_pick(0, 2) == 0)
        add(p, flip());
    if (coef_pick(0, 3))
        add(p,
            hr_op_resize(.w = coef_pick(1, most), .h = coef_pick(1, most),
                         .filter = filters[coef_pick(0, s->reference ? 3 : 5)],
                         .order = (enum hr_order)coef_pick(0, 2)));
    if (size_of(p, &w, &h) && coef_pick(0, 2) == 0)
        add(p, crop(w, h, coef_pick(0, 1)));
    if (coef_pick(0, 2) == 0)
        add(p, flip());
    // (A border that mirrors is smaller than the picture.)
    for (int i = 0;
         s->codes && i < codes && size_of(p, &w, &h) && w > 5 && h > 5; i++)
        add_code(p);
}

// ---- Results --------------------------------------------------------------

// No table, torchvision's, or any of the caller's; half of them behind an op
// that changes values.
static void make_table(struct picture *p)
{
    int kind = p->out.dtype == HR_U8 ? 0 : coef_pick(0, 2);
    struct hr_op normalize = OPENCL_NORMALIZE;

    if (coef_pick(0, 1))
        add(p, hr_op_invert());
    if (kind == 2) {
        for (int i = 0; i < 3 * 256; i++)
            p->entries[i] = (float)coef_pick(-300, 300);
        normalize.normalize.table = p->entries;
    }
    if (kind)
        add(p, normalize);
}

static void make_out(struct picture *p)
{
    struct hr_image_params *o = &p->out;
    size_t gap = coef_pick(0, 1) ? 0 : (size_t)coef_pick(1, 5), e;

    *o = (struct hr_image_params){.c = p->c,
                                  .dtype = (enum hr_dtype)coef_pick(0, 2),
                                  .layout = (enum hr_layout)coef_pick(0, 1)};
    CU_ASSERT_FATAL(size_of(p, &o->w, &o->h));
    e = hr_dtype_size(o->dtype);
    o->stride_h =
        e * ((size_t)o->w * (o->layout == HR_NCHW ? 1 : (size_t)o->c) + gap);
    o->stride_c = o->stride_h * (size_t)o->h + e * gap;
    p->size = o->layout == HR_NCHW ? o->stride_c * (size_t)o->c
                                   : o->stride_h * (size_t)o->h;
    for (int i = 0; i < 2; i++) {
        p->made[i] = malloc(p->size);
        memset(p->made[i], FILL, p->size);
    }
}

static void make_picture(struct picture *p, int most, const struct setting *s)
{
    *p = (struct picture){.w = coef_pick(1, most),
                          .h = coef_pick(1, most),
                          .c = coef_pick(0, 4) ? 3 : 1};
    if (coef_pick(0, 3))
        make_file(p);
    else
        make_pixels(p);
    make_ops(p, most, s);
    make_out(p);
    make_table(p);
}

static void free_picture(struct picture *p)
{
    coef_file_finish(&p->file);
    free(p->pixels);
    free(p->made[0]);
    free(p->made[1]);
}

// ---- On both devices ------------------------------------------------------

static void run(hr_device dev, struct picture *p, int n, int which, int *own)
{
    struct hr_sample samples[BATCH] = {{0}};
    hr_image from[BATCH] = {NULL};
    hr_job job;

    for (int i = 0; i < n; i++) {
        struct hr_image_params out = p[i].out;

        out.data = p[i].made[which];
        if (p[i].pixels)
            from[i] = hr_image_create(dev, &p[i].source);
        samples[i] = (struct hr_sample){.data = p[i].file.bytes.data,
                                        .size = p[i].file.bytes.size,
                                        .image = from[i],
                                        .ops = p[i].ops,
                                        .num_ops = p[i].num_ops,
                                        .out = hr_image_create(dev, &out)};
        CU_ASSERT_PTR_NOT_NULL_FATAL(samples[i].out);
    }
    job = hr_submit(dev, samples, n, NULL,
                    hr_job_params(.wait_for_room = true));
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    hr_job_wait(job, HR_FOREVER);
    for (int i = 0; i < n; i++) {
        CHECK(!job->results[i].status && (job->results[i].why & HR_WHY_SERIAL ||
                                          !job->results[i].fallbacks),
              "%s: %s", dev->name, job->results[i].message);
        *own += made_by(&job->results[i], dev->name, HR_ENTROPY, HR_STORE) ||
                made_by(&job->results[i], dev->name, HR_RECONSTRUCT,
                        HR_STORE) ||
                made_by(&job->results[i], dev->name, HR_COLOR, HR_STORE) ||
                made_by(&job->results[i], dev->name, HR_RESAMPLE, HR_STORE);
    }
    hr_job_release(&job);
    for (int i = 0; i < n; i++) {
        hr_image_release(&samples[i].out);
        if (from[i])
            hr_image_release(&from[i]);
    }
}

static void compare(const struct picture *p, const char *device)
{
    char text[400] = "";
    size_t at = 0;

    while (at < p->size && p->made[0][at] == p->made[1][at])
        at++;
    if (at < p->size)
        hr_ops_format(p->ops, p->num_ops, text, sizeof(text));
    CHECK(at == p->size, "%s: %dx%d %s, %s: byte %zu of %zu (%s, %dx%dx%d)",
          device, p->w, p->h, p->pixels ? "pixels" : "JPEG", text, at, p->size,
          hr_dtype_name(p->out.dtype), p->out.w, p->out.h, p->out.c);
}

// How many of n the device makes to the end; frees them.
static int run_both(hr_device cpu, hr_device dev, struct picture *p, int n,
                    const char *what)
{
    int own = 0, other = 0;

    run(cpu, p, n, 0, &other);
    run(dev, p, n, 1, &own);
    for (int i = 0; i < n; i++) {
        compare(&p[i], what);
        free_picture(&p[i]);
    }
    return own;
}

// (What its certificate would say comes out here.)
static hr_device open_setting(const struct setting *s)
{
    hr_device dev;

    setenv("HEADRACE_OPENCL_VARIANT", s->variant, 1);
    setenv("HEADRACE_OPENCL_AUGMENT", s->codes ? "device" : "host", 1);
    setenv("HEADRACE_CERTIFICATE", "off", 1);
    dev = hr_device_open("opencl",
                         hr_device_params(.entropy = s->entropy,
                                          .reference = s->reference,
                                          .deadline_ns = OPENCL_PATIENCE));
    unsetenv("HEADRACE_OPENCL_VARIANT");
    unsetenv("HEADRACE_OPENCL_AUGMENT");
    unsetenv("HEADRACE_CERTIFICATE");
    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    if (s->planes)
        ((struct hr__device *)dev)->probing = HR_SPAN_BIT(HR_COLOR, HR_STORE) |
                                              HR_SPAN_BIT(HR_RESAMPLE,
                                                          HR_STORE);
    return dev;
}

static void pictures(const struct setting *s)
{
    static const int sides[] = {6, 20, 70, 90, 90, 300};
    auto_device dev = open_setting(s);
    auto_device cpu =
        hr_device_open("cpu", hr_device_params(.reference = s->reference));
    int own = 0, all = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(cpu);
    for (int i = 0; i < test_loops(24); i++) {
        struct picture p[BATCH];
        int most = sides[i % 6], n = most > 90 ? 4 : coef_pick(1, BATCH);

        for (int k = 0; k < n; k++)
            make_picture(&p[k], most, s);
        own += run_both(cpu, dev, p, n, s->name);
        all += n;
    }
    printf("\n  %s: %d of %d pictures to the end by the device ", s->name, own,
           all);
    CHECK(own > all / 2, "%s: %d of %d are the device's", s->name, own, all);
    ((struct hr__device *)dev)->probing = 0;
}

TEST_CASE(plain)
{
    coef_seed(test_seed);
    for (int i = 0; i < SETTINGS; i++)
        if (!settings[i].codes)
            pictures(&settings[i]);
}

TEST_CASE(codes)
{
    coef_seed(test_seed);
    for (int i = 0; i < SETTINGS; i++)
        if (settings[i].codes)
            pictures(&settings[i]);
}

static bool in_tiles(hr_device dev)
{
    const struct ocl *o = opencl_private(dev);
    bool any = false;

    for (int i = 0; i < OCL_BATCHES; i++)
        any |= o->batch[i].tiles;
    return any;
}

// As many weights as the kernels take, in either order of the passes; more rows
// for a tile than it has at a time; so many weights that the form for GPUs
// leaves the resize to the other; launches of many rows.
TEST_CASE(extremes)
{
    static const struct {
        int w, h, to_w, to_h;  // 0: as it is
        bool tiles;
    } sizes[] = {
        {1995, 9, 3, 3, true},     {9, 1995, 3, 3, true},
        {1997, 1, 3, 3, true},     {3, 120, 2, 6, true},
        {1300, 1300, 40, 2, true}, {1300, 1300, 3, 2, false},
        {2000, 1500, 0, 0, true},
    };
    enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

    coef_seed(test_seed);
    for (int k = 0; k < 2 * 2 * SIZES; k++) {
        const struct setting *s = &settings[k / 2 / SIZES];
        auto_device dev = open_setting(s);
        int i = k / 2 % SIZES;
        struct picture p = {.w = sizes[i].w, .h = sizes[i].h, .c = 3};

        make_pixels(&p);
        if (k % 2)
            add(&p, hr_op_flip(.transpose = true));
        if (sizes[i].to_w)
            add(&p, hr_op_resize(.w = sizes[i].to_w, .h = sizes[i].to_h,
                                 .filter = HR_LANCZOS));
        make_out(&p);
        CU_ASSERT_EQUAL(run_both(env.cpu, dev, &p, 1, s->name), 1);
        CHECK(in_tiles(dev) == (k / 2 / SIZES && sizes[i].tiles), "%d x %d",
              sizes[i].w, sizes[i].h);
    }
}

// ---- The plan of a launch --------------------------------------------------

// Device code reads these structs as they are.
_Static_assert(sizeof(struct hr__coef_component) % 16 == 0, "alignment");
_Static_assert(offsetof(struct hr__coefficients, comp) % 16 == 0, "alignment");
_Static_assert(offsetof(struct hr__coef_component, quant) % 16 == 0,
               "alignment");
_Static_assert(sizeof(struct hr__kernel_picture) % 4 == 0, "alignment");
_Static_assert((int)HR__KERNEL_F32 == (int)HR_F32 &&
                   (int)HR__KERNEL_F16 == (int)HR_F16 &&
                   (int)HR__KERNEL_U8 == (int)HR_U8,
               "types");

// Lists that fill whole rows, the last of them with idle groups.
TEST_CASE(rows_of_launches)
{
    for (size_t n = 0; n <= 5 * HR__ROW_GROUPS; n++) {
        static hr__u32 list[2 * 5 * HR__ROW_GROUPS + 16];
        hr__u32 *end = hr__kernel_list(list, 7, (hr__u32)n);
        size_t width, again, rows = hr__kernel_rows(n, &width), all;
        bool ok = rows * width >= n && rows * width < n + (rows ? rows : 1) &&
                  width <= HR__ROW_GROUPS;

        all = (size_t)(hr__kernel_pad(list, end) - list) / 2;
        for (size_t i = n; i < all; i++)
            ok = ok && list[2 * i] == 7 && list[2 * i + 1] >= n;
        ok = ok && all == rows * width &&
             hr__kernel_rows(all, &again) == rows && again == width;
        CHECK(ok, "%zu groups", n);
        if (!ok)
            return;
    }
}

TEST_MAIN(opencl_main)
