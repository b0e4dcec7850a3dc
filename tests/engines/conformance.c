// SPDX-License-Identifier: Apache-2.0
#include "conformance.h"

#include "made.h"

// ---- Sources --------------------------------------------------------------

static const struct jpeg_spec kinds[] = {
    {.w = 131, .h = 97, .space = JCS_YCbCr, .factors = {0x11}},
    {.w = 131, .h = 97, .space = JCS_YCbCr, .factors = {0x22}},
    {.w = 96, .h = 64, .space = JCS_YCbCr, .factors = {0x22}},
    {.w = 77, .h = 90, .space = JCS_YCbCr, .factors = {0x21}},
    {.w = 78, .h = 91, .space = JCS_YCbCr, .factors = {0x12}},
    {.w = 101, .h = 55, .space = JCS_YCbCr, .factors = {0x41}},
    {.w = 64, .h = 70, .space = JCS_YCbCr, .factors = {0x22, 0x12, 0x12}},
    {.w = 60, .h = 60, .space = JCS_GRAYSCALE},
    {.w = 50, .h = 81, .space = JCS_RGB},
    {.w = 49, .h = 47, .space = JCS_CMYK},
    {.w = 64, .h = 33, .space = JCS_YCCK},
    {.w = 88,
     .h = 72,
     .space = JCS_YCbCr,
     .factors = {0x22},
     .progressive = true},
    {.w = 90, .h = 61, .space = JCS_YCbCr, .factors = {0x22}, .restart = 2},
    {.w = 90, .h = 62, .space = JCS_YCbCr, .factors = {0x21}, .separate = true},
    {.w = 70,
     .h = 62,
     .space = JCS_YCbCr,
     .factors = {0x22},
     .arithmetic = true},
    {.w = 1, .h = 1, .space = JCS_YCbCr, .factors = {0x22}},
    {.w = 8, .h = 300, .space = JCS_YCbCr, .factors = {0x22}, .restart = 1},
    {.w = 300, .h = 7, .space = JCS_YCbCr, .factors = {0x21}},
    {.w = 320,
     .h = 240,
     .space = JCS_YCbCr,
     .factors = {0x22},
     .quality = 30,
     .optimize = true},
};

// The JPEG kinds, damaged ones, a PNG, and pixels.
enum {
    KINDS = sizeof(kinds) / sizeof(*kinds),
    TRUNCATED = KINDS,
    GARBAGE,
    MARKER,
    PNG,
    IMAGE_RGB,
    IMAGE_GRAY,
    IMAGE_PLANES,
    SOURCES,
};

struct sources {
    struct bytes bytes[IMAGE_RGB];
    hr_image on_dev[SOURCES], on_ref[SOURCES];
    int w[SOURCES], h[SOURCES], c[SOURCES];
};

static void make_bytes(struct sources *s, uint64_t *seed)
{
    for (int i = 0; i < KINDS; i++) {
        struct jpeg_spec spec = kinds[i];

        spec.quality = spec.quality ? spec.quality : 85;
        // The largest is nearly half of all pixels.
        if (test_races_only() && spec.w == 320)
            spec.w /= 2, spec.h /= 2;
        s->w[i] = spec.w;
        s->h[i] = spec.h;
        // A libjpeg without arithmetic coding makes a plain one.
        if (!make_jpeg(&spec, seed, &s->bytes[i])) {
            spec.arithmetic = false;
            s->bytes[i] = test_jpeg_of(&spec, seed);
        }
    }
    s->bytes[TRUNCATED] = test_damaged(80, 60, seed);
    s->bytes[GARBAGE] = test_jpeg(80, 60, seed);
    memset(s->bytes[GARBAGE].data, 0x42, 40);
    // Below most windows.
    s->bytes[MARKER] = test_jpeg(80, 60, seed);
    memcpy(s->bytes[MARKER].data + s->bytes[MARKER].size - 12, "\x42\xff\x18",
           3);
    s->bytes[PNG] = test_png(83, 59, seed);
    for (int i = TRUNCATED; i < PNG; i++)
        s->w[i] = 80, s->h[i] = 60;
    s->w[PNG] = 83, s->h[PNG] = 59;
}

static hr_image image_on(hr_device dev, int i, enum hr_memory memory,
                         uint64_t seed)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = 70 + i, .h = 45, .dtype = HR_U8,
                             .c = i == IMAGE_GRAY ? 1 : 3,
                             .layout = i == IMAGE_PLANES ? HR_NCHW : HR_NHWC,
                             .memory = memory));
    auto_heap uint8_t *p = image ? malloc(image->size) : NULL;

    if (!p)
        abort();
    for (size_t k = 0; k < image->size; k++)
        p[k] = (uint8_t)next_random(&seed);
    CHECK(hr_image_write(image, p, image->size, HR_FOREVER) == HR_OK, "%s",
          hr_last_error());
    return image;
}

static void make_sources(struct sources *s, hr_device dev, hr_device ref,
                         enum hr_memory memory, uint64_t *seed)
{
    memset(s, 0, sizeof(*s));
    make_bytes(s, seed);
    for (int i = IMAGE_RGB; i < SOURCES; i++) {
        uint64_t pixels = next_random(seed);

        s->on_dev[i] = image_on(dev, i, memory, pixels);
        s->on_ref[i] = image_on(ref, i, HR_MEMORY_HOST, pixels);
        s->w[i] = s->on_dev[i]->params.w;
        s->h[i] = s->on_dev[i]->params.h;
    }
}

static void free_sources(struct sources *s)
{
    for (int i = 0; i < IMAGE_RGB; i++)
        free(s->bytes[i].data);
    for (int i = IMAGE_RGB; i < SOURCES; i++) {
        hr_image_release(&s->on_dev[i]);
        hr_image_release(&s->on_ref[i]);
    }
}

// ---- Op lists -------------------------------------------------------------

enum { LISTS = 15, BY_FILTER = LISTS, MAX_LIST = 7 };

// Op lists without decode, for a picture of w x h.
static int fill_list(struct hr_op *ops, int list, int w, int h)
{
    int n = 0;
    int cw = w > 12 ? w - 11 : w, ch = h > 9 ? h - 8 : h;

    switch (list) {
    case 0:
        break;
    case 1:
        ops[n++] = hr_op_resize(.w = 24, .h = 24);
        break;
    case 2:
        ops[n++] = hr_op_crop(.x = w - cw, .y = (h - ch) / 2, .w = cw, .h = ch);
        ops[n++] = hr_op_resize(.w = 32, .h = 32);
        ops[n++] = hr_op_flip(.horizontal = true);
        break;
    case 3:
        ops[n++] = hr_op_resize(.short_side = 40, .filter = HR_BICUBIC);
        ops[n++] = hr_op_crop(.center = true, .pad = true, .w = 36, .h = 44);
        break;
    case 4:
        ops[n++] = hr_op_crop(.x = w / 3, .y = h / 3, .w = w - w / 3,
                              .h = h - h / 3);
        break;
    case 5:
        ops[n++] = hr_op_flip(.transpose = true, .vertical = true);
        break;
    case 6:
        ops[n++] = hr_op_flip(.transpose = true);
        ops[n++] = hr_op_resize(.w = 30, .h = 17, .filter = HR_LANCZOS);
        break;
    case 7:
        ops[n++] = hr_op_resize(.w = 21, .h = 33, .filter = HR_NEAREST);
        break;
    case 8:
        ops[n++] = hr_op_resize(.w = 2 * w + 1, .h = h, .filter = HR_HAMMING);
        break;
    case 9:
        ops[n++] = hr_op_resize(.w = 20, .h = 20, .filter = HR_BOX);
        ops[n++] = hr_op_crop(.x = -3, .y = 4, .w = 30, .h = 10, .pad = true);
        ops[n++] = hr_op_resize(.w = 40, .h = 15, .filter = HR_BICUBIC);
        break;
    case 10:
        ops[n++] = hr_op_resize(.w = 19, .h = 23,
                                .box = {.25f * (float)w, 0, (float)w,
                                        .75f * (float)h});
        break;
    case 11:
        ops[n++] = hr_op_crop(.x = w + 5, .y = 2, .w = 9, .h = 9, .pad = true);
        break;
    case 12:
        ops[n++] = hr_op_crop(.x = -4, .y = -4, .w = w + 8, .h = h + 8,
                              .pad = true);
        ops[n++] = hr_op_flip(.horizontal = true, .vertical = true);
        break;
    case 13:
        ops[n++] = hr_op_resize(.w = 224, .h = 224);
        break;
    case 14:
        ops[n++] = hr_op_crop(.x = w - cw, .w = cw, .h = ch);
        ops[n++] = hr_op_resize(.w = 33, .h = 26, .filter = HR_BICUBIC,
                                .order = HR_ORDER_TORCH);
        ops[n++] = hr_op_flip(.horizontal = true);
        ops[n++] = hr_op_resize(.w = 30, .h = 40, .order = HR_ORDER_TORCH);
        break;
    }
    // The sources take turns, so that each list has both.
    for (int i = 0; i < n; i++)
        if (ops[i].type == HR_OP_RESIZE && !ops[i].resize.order)
            ops[i].resize.order = w % 2 ? HR_ORDER_VERTICAL
                                        : HR_ORDER_HORIZONTAL;
    return n;
}

// ---- One job on both devices ----------------------------------------------

struct round {
    int list;
    enum hr_dtype dtype;
    enum hr_layout layout;
    enum hr_filter filter;  // of list BY_FILTER
    bool normalize, gray, oriented;
    enum hr_tier tier;
    enum hr_memory memory;  // of the device's results
};

static struct hr_sample sample_of(const struct sources *s, int i,
                                  const struct round *r, hr_image image,
                                  hr_device dev, enum hr_memory memory,
                                  struct hr_op *ops)
{
    struct hr_sample to = {.ops = ops, .image = image};
    int c = image ? image->params.c : r->gray ? 1 : 3, w, h;

    if (!image) {
        to.data = s->bytes[i].data;
        to.size = s->bytes[i].size;
        ops[to.num_ops++] = hr_op_decode(.mode = r->gray ? HR_GRAY : HR_RGB,
                                         .apply_orientation = r->oriented);
    }
    if (r->list == BY_FILTER)
        ops[to.num_ops++] = hr_op_resize(.w = 37, .h = 29, .filter = r->filter);
    else
        to.num_ops += fill_list(ops + to.num_ops, r->list, s->w[i], s->h[i]);
    if (r->normalize)
        ops[to.num_ops++] = hr_op_normalize(.mean = {.485f, .456f, .406f},
                                            .std = {.229f, .224f, .225f});
    if (hr_ops_output_size(ops, to.num_ops, s->w[i], s->h[i], 1, &w, &h))
        abort();
    to.out = hr_image_create(
        dev, hr_image_params(.w = w, .h = h, .c = c, .dtype = r->dtype,
                             .layout = r->layout, .memory = memory));
    if (!to.out)
        abort();
    return to;
}

static hr_job run(hr_device dev, const struct sources *s, const hr_image *on,
                  const struct round *r, enum hr_memory memory,
                  struct hr_sample *samples, struct hr_op ops[][MAX_LIST])
{
    hr_job job;

    for (int i = 0; i < SOURCES; i++)
        samples[i] = sample_of(s, i, r, on[i], dev, memory, ops[i]);
    job = hr_submit(dev, samples, SOURCES, NULL,
                    hr_job_params(.tier = r->tier, .wait_for_room = true,
                                  .on_error = HR_ON_ERROR_ZERO));
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s: %s", dev->name,
          hr_last_error());
    return job;
}

static void count(hr_device dev, const struct hr_result *r, bool encoded,
                  struct conformance *sum)
{
    sum->samples++;
    sum->by_device += made_stages(r, dev->name) != 0;
    sum->refused += (r->why & HR_WHY_CERTIFICATE) != 0;
    sum->fallbacks += r->why & HR_WHY_SERIAL ? 0 : r->fallbacks;
    if (encoded) {
        sum->encoded++;
        sum->decoded += made_by(r, dev->name, HR_RECONSTRUCT, HR_STORE);
        sum->from_bytes += made_by(r, dev->name, HR_ENTROPY, HR_STORE);
    } else {
        sum->pixels++;
        sum->resampled += made_by(r, dev->name, HR_RESAMPLE, HR_STORE);
    }
}

// The image's bytes, and where they are to be freed, or NULL.
static const uint8_t *bytes_of(hr_image image, uint8_t **copy)
{
    *copy = NULL;
    if (image->params.data)
        return image->params.data;
    if (!(*copy = malloc(image->size)))
        abort();
    // (That of a sample that failed says so; it is all zero.)
    memset(*copy, 0, image->size);
    hr_image_read(image, *copy, image->size, HR_FOREVER);
    return *copy;
}

static void compare(hr_device dev, const struct round *r, int i,
                    const struct hr_sample *a, const struct hr_sample *b,
                    const struct hr_result *ra, const struct hr_result *rb,
                    struct conformance *sum)
{
    bool exact = r->tier == HR_EXACT ||
                 (r->tier == HR_CLOSE && dev->caps.exact);
    uint8_t *copy;
    const uint8_t *pa = bytes_of(a->out, &copy), *pb = b->out->params.data;
    bool same = !memcmp(pa, pb, a->out->size);
    size_t at = 0;

    count(dev, ra, i < IMAGE_RGB, sum);
    CHECK(ra->status == rb->status, "%s: source %d, list %d: %s, not %s: %s",
          dev->name, i, r->list, hr_status_name(ra->status),
          hr_status_name(rb->status), ra->message);
    while (!same && pa[at] == pb[at])
        at++;
    free(copy);
    if (same)
        return;
    sum->different++;
    CHECK(!exact,
          "%s: source %d, list %d, %s %s%s%s: byte %zu of %zu (%d x %d)",
          dev->name, i, r->list, hr_dtype_name(r->dtype),
          r->layout ? "nhwc" : "nchw", r->normalize ? ", normalized" : "",
          r->gray ? ", grey" : "", at, a->out->size, a->out->params.w,
          a->out->params.h);
}

static void one_round(hr_device dev, hr_device ref, const struct sources *s,
                      const struct round *r, struct conformance *sum)
{
    static struct hr_op ops[2][SOURCES][MAX_LIST];
    struct hr_sample a[SOURCES], b[SOURCES];
    auto_job ja = run(dev, s, s->on_dev, r, r->memory, a, ops[0]);
    auto_job jb = run(ref, s, s->on_ref, r, HR_MEMORY_HOST, b, ops[1]);

    for (int i = 0; i < SOURCES; i++) {
        compare(dev, r, i, &a[i], &b[i], &ja->results[i], &jb->results[i], sum);
        hr_image_release(&a[i].out);
        hr_image_release(&b[i].out);
    }
    sum->jobs++;
}

struct conformance conformance_run(hr_device dev, enum hr_tier tier,
                                   uint64_t seed)
{
    return conformance_run_in(dev, tier, HR_MEMORY_HOST, seed);
}

struct conformance conformance_run_in(hr_device dev, enum hr_tier tier,
                                      enum hr_memory memory, uint64_t seed)
{
    auto_device ref = test_reference();
    struct conformance sum = {0};
    struct sources s;
    int rounds = (test_loops(12) + 1) / 2;

    make_sources(&s, dev, ref, memory, &seed);
    // All lists; types and layouts take turns. A sanitizer build gives a list
    // fewer of them, and none of them to no list.
    for (int list = 0; list < LISTS; list++)
        for (int j = 0; j < rounds; j++) {
            int i = (list / 2 + j) % 6;
            struct round r = {.list = list,
                              .dtype = (enum hr_dtype)(i % 3),
                              .layout = (enum hr_layout)(i / 3),
                              .normalize = i % 3 != HR_U8 && (list + i) % 2,
                              .gray = (list + i) % 4 == 3,
                              .oriented = (6 * list + i) % 5 == 0,
                              .tier = tier,
                              .memory = memory};

            one_round(dev, ref, &s, &r, &sum);
        }
    free_sources(&s);
    return sum;
}

void conformance_run_sets(hr_device dev, int n, uint64_t seed,
                          struct conformance sums[CONFORMANCE_SETS])
{
    auto_device ref = test_reference();
    struct sources s;

    memset(sums, 0, CONFORMANCE_SETS * sizeof(*sums));
    make_sources(&s, dev, ref, HR_MEMORY_HOST, &seed);
    // Steps of 7 come by all of them, and by each type, layout and filter in
    // the first six.
    for (int i = 0; i < CONFORMANCE_SETS && i < (n > 6 ? n : 6); i++) {
        int set = i * 7 % CONFORMANCE_SETS;
        struct round r = {.list = BY_FILTER,
                          .dtype = (enum hr_dtype)(set / 12),
                          .layout = (enum hr_layout)(set / 6 % 2),
                          .filter = (enum hr_filter)(set % 6),
                          .tier = HR_EXACT};

        r.normalize = r.dtype != HR_U8;
        one_round(dev, ref, &s, &r, &sums[set]);
    }
    free_sources(&s);
}

void conformance_is_own_work(hr_device dev, const struct conformance *c,
                             const char *what)
{
    bool from_bytes = dev->caps.spans[HR_EXACT] &
                      HR_SPAN_BIT(HR_ENTROPY, HR_STORE);

    CHECK(dev->caps.exact, "%s, %s: its certificate says it is not exact",
          dev->name, what);
    CHECK(!c->refused, "%s, %s: %d of %d refused for its certificate",
          dev->name, what, c->refused, c->samples);
    CHECK(!c->fallbacks, "%s, %s: %d fell back", dev->name, what, c->fallbacks);
    CHECK(c->decoded > 0 && c->decoded >= c->encoded / 3,
          "%s, %s: reconstruct..store of %d of %d is its own work", dev->name,
          what, c->decoded, c->encoded);
    CHECK(from_bytes ? c->from_bytes >= c->encoded / 3 : !c->from_bytes,
          "%s, %s: entropy..store of %d of %d is its own work", dev->name, what,
          c->from_bytes, c->encoded);
    CHECK(c->resampled > 0 && c->resampled >= c->pixels / 3,
          "%s, %s: resample..store of %d of %d is its own work", dev->name,
          what, c->resampled, c->pixels);
    CHECK(c->different == 0, "%s, %s: %d differ", dev->name, what,
          c->different);
}
