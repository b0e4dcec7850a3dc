// SPDX-License-Identifier: Apache-2.0
// Tier FAST: the kinds of JPEG for which the video processor is used, as
// drivers list them and get them right; its output; a processor that lies.
#include <math.h>

#include "hal/shape/shape.h"
#include "vaapi_env.h"

// ---- One picture -----------------------------------------------------------

static const struct test_kind {
    const char *name;
    int specimen;    // smooth, 66 x 66 at least; that + 6 is noise, 64 x 56
    char fourcc[5];  // of its surface as "ihd"
} kinds[HR_NUM_KINDS] = {
    [HR_KIND_GRAY] = {"gray", 5, "Y800"}, [HR_KIND_420] = {"4:2:0", 2, "NV12"},
    [HR_KIND_422] = {"4:2:2", 1, "422H"}, [HR_KIND_440] = {"4:4:0", 3, "422V"},
    [HR_KIND_444] = {"4:4:4", 0, "444P"}, [HR_KIND_411] = {"4:1:1", 4, "411P"},
};

// free()
static struct bytes picture_of(hr_device cpu, int specimen)
{
    struct hr__engine *e = ((struct hr__device *)cpu)->engines[0];
    struct bytes b = {.data = malloc(64 << 10)};

    if (!b.data || !e->backend->specimen(e, HR__SPECIMENS_LARGE + specimen,
                                         b.data, 64 << 10, &b.size))
        abort();
    return b;
}

// How it is asked for.
enum { FLIP_X = 1, FLIP_Y = 2, HALF = 4, WAYS = 8, AGAIN = 8 };

struct made {
    uint8_t *pixels;  // u8, free()
    int w, h;
    size_t size;
    int last;  // stage of the first span, if the device made it; else -1
    unsigned why;
};

static struct made make(hr_device dev, const struct bytes *b, int way,
                        enum hr_tier tier)
{
    struct made m = {.w = way & HALF ? 24 : 48, .h = way & HALF ? 24 : 48};
    struct hr_op ops[7] = {hr_op_decode(0),
                           hr_op_crop(.x = 16, .y = 8, .w = 48, .h = 48)};
    struct hr_sample s;
    auto_image out = NULL;
    auto_job job = NULL;
    int n = 2;

    // (Planes without gaps.)
    if (way & HALF)
        ops[n++] = (struct hr_op)hr_op_resize(.w = m.w, .h = m.h);
    if (way & FLIP_X)
        ops[n++] = (struct hr_op)hr_op_flip(.horizontal = true);
    if (way & FLIP_Y)
        ops[n++] = (struct hr_op)hr_op_flip(.vertical = true);
    if (way & AGAIN) {
        ops[n++] = (struct hr_op){.type = HR_OP_EQUALIZE};
        ops[n++] = (struct hr_op)hr_op_resize(.w = m.w = 40, .h = m.h = 20);
    }
    out = hr_image_create(dev, hr_image_params(.w = m.w, .h = m.h, .c = 3,
                                               .dtype = HR_U8));
    s = test_sample(b, ops, n, .out = out);
    job = hr_submit(dev, &s, 1, NULL, hr_job_params(.tier = tier));
    CHECK(hr_job_wait(job, 20000 * TEST_MS) == HR_OK, "%s",
          job->results[0].message);
    m.last = strncmp(job->results[0].spans[0].device, "vaapi", 5)
                 ? -1
                 : (int)job->results[0].spans[0].span.last;
    m.why = job->results[0].why;
    m.size = out->size;
    m.pixels = test_copy(out->params.data, out->size);
    return m;
}

// As the tier promises of the processor.
static bool alike(const struct made *a, const struct made *b)
{
    struct hr__dst d = {.data = a->pixels,
                        .stride_c = (size_t)a->w * (size_t)a->h,
                        .stride_h = (size_t)a->w,
                        .w = a->w,
                        .h = a->h,
                        .c = 3,
                        .dtype = HR_U8};
    struct hr__dst other = hr__dst_packed(&d, b->pixels);
    struct hr_difference diff;

    hr__compare(&d, &other, (const double[3]){1, 1, 1}, &diff);
    return diff.alike;
}

static bool equal(const struct made *a, const struct made *b)
{
    return a->size == b->size && !memcmp(a->pixels, b->pixels, a->size);
}

// In tier FAST, in all ways that `by` has: the device makes it, close to the
// CPU's; else, and in the other tiers, as the CPU does, for that reason.
static void check_kind(hr_device dev, hr_device cpu, int kind, unsigned by,
                       unsigned why, const char *what)
{
    auto_bytes b = picture_of(cpu, kinds[kind].specimen);
    bool none = !vaapi_planes(&dev->certificate, kind).pictures;
    int planes = none ? -1 : HR_RECONSTRUCT;

    for (int way = 0; way < WAYS; way++) {
        bool whole = by >> way & 1;
        struct made want = make(cpu, &b, way, HR_EXACT);
        struct made other = make(cpu, &b, way ^ FLIP_X, HR_EXACT);
        struct made got = make(dev, &b, way, HR_FAST);

        CHECK(got.last == (whole ? HR_RESAMPLE : planes),
              "%s, %s, way %d: ends with %d", what, kinds[kind].name, way,
              got.last);
        CHECK(whole ? alike(&got, &want) && !alike(&got, &other)
                    : equal(&got, &want),
              "%s, %s, way %d: other pixels", what, kinds[kind].name, way);
        CHECK(got.why == (whole  ? 0
                          : none ? (unsigned)HR_WHY_CHROMA
                                 : why),
              "%s, %s, way %d: why %#x", what, kinds[kind].name, way, got.why);
        free(got.pixels);
        // In the other tiers it is not asked.
        got = make(dev, &b, way, way & 1 ? HR_CLOSE : HR_EXACT);
        CHECK(got.last == planes && equal(&got, &want) &&
                  got.why == (none ? (unsigned)HR_WHY_CHROMA : 0),
              "%s, %s, way %d: ends with %d, why %#x", what, kinds[kind].name,
              way, got.last, got.why);
        free(got.pixels);
        free(want.pixels);
        free(other.pixels);
    }
}

// ---- Kinds -----------------------------------------------------------------

enum {
    ALL = (1 << WAYS) - 1,
    NO_FLIPS = 1 << 0 | 1 << HALF,
    ONE_FLIP = NO_FLIPS | 1 << FLIP_X | 1 << FLIP_Y | 1 << (FLIP_X | HALF) |
               1 << (FLIP_Y | HALF)
};
#define BIT(kind) (1 << HR_KIND_##kind)

static void check_driver(const char *options, unsigned in, unsigned by)
{
    hr_device dev, cpu = test_device("cpu", 1, 0);
    struct hr_stats stats;

    vaapi_driver("default,reset,%s", options);
    dev = vaapi_open_with(NULL);
    CHECK(dev != NULL, "%s", hr_last_error());
    CHECK(!in == !(dev->caps.spans[HR_FAST] &
                   HR_SPAN_BIT(HR_ENTROPY, HR_RESAMPLE)),
          "%s: its spans", options);
    for (int k = 0; k < HR_NUM_KINDS; k++) {
        struct hr_certificate_record r = vaapi_scaled(&dev->certificate, k);
        bool goes_in = in >> k & 1;

        CHECK(!r.failed && (r.pictures >= 5) == goes_in, "%s, %s: %d pictures",
              options, kinds[k].name, r.pictures);
        check_kind(dev, cpu, k, goes_in ? by : 0,
                   goes_in ? HR_WHY_GEOMETRY
                   : in    ? HR_WHY_CHROMA
                           : 0,
                   options);
    }
    hr_device_stats(dev, &stats);
    CHECK(!stats.mismatches && stats.checked >= 16, "%s: %d mismatches of %d",
          options, (int)stats.mismatches, (int)stats.checked);
    vaapi_close(&dev);
    hr_device_close(&cpu);
}

// As their sources list: media_libva_caps.cpp (m_vpSurfaceAttr) of iHD, and
// src/gallium/frontends/va/surface.c of Mesa.
TEST_CASE(by_driver)
{
    check_driver("personality=plain", (1 << HR_NUM_KINDS) - 1, ALL);
    check_driver("personality=ihd", BIT(420) | BIT(422) | BIT(440), ALL);
    check_driver("personality=mesa_main",
                 BIT(GRAY) | BIT(420) | BIT(422) | BIT(444), ONE_FLIP);
    check_driver("personality=i965", 0, 0);
    check_driver("personality=mesa22", 0, 0);
    check_driver("personality=nvidia", 0, 0);
    // Its probe finds out: limited range, and none at all.
    check_driver("personality=ihd,limited=1", 0, 0);
    check_driver("personality=ihd,no_vpp=1", 0, 0);
}

// The processor makes the first of several steps, in tier FAST.
TEST_CASE(first_of_steps)
{
    hr_device dev, cpu = test_device("cpu", 1, 0);

    vaapi_driver("default,reset");
    dev = vaapi_open("ihd");
    for (int way = AGAIN; way < AGAIN + WAYS; way++) {
        auto_bytes b = picture_of(cpu, kinds[HR_KIND_420].specimen);
        struct made want = make(cpu, &b, way, HR_EXACT);
        struct made other = make(cpu, &b, way ^ FLIP_X, HR_EXACT);
        struct made got = make(dev, &b, way, HR_FAST);
        struct made exact = make(dev, &b, way, HR_EXACT);

        CHECK(got.last == HR_COLOR && got.why & HR_WHY_GEOMETRY &&
                  alike(&got, &want) && !alike(&got, &other),
              "way %d: ends with %d, why %#x", way, got.last, got.why);
        CHECK(exact.last == HR_RECONSTRUCT && equal(&exact, &want),
              "way %d: ends with %d", way, exact.last);
        free(want.pixels);
        free(other.pixels);
        free(got.pixels);
        free(exact.pixels);
    }
    vaapi_close(&dev);
    hr_device_close(&cpu);
}

// One kind of input is wrong; the others are used.
TEST_CASE(wrong_input)
{
    static const struct {
        const char *option;
        unsigned by, why;  // of that kind
        bool failed;       // in its test
    } cases[] = {
        {"vpp_swap", 0, HR_WHY_CHROMA, false},
        {"vpp_no_flip", NO_FLIPS, HR_WHY_GEOMETRY, false},
        {"vpp_no_crop", 0, HR_WHY_CERTIFICATE, true},
    };
    static const int wrong[] = {HR_KIND_422, HR_KIND_420, HR_KIND_444};
    hr_device cpu = test_device("cpu", 1, 0);

    // (Of fewer of them each has another case and another kind.)
    for (int n = 0; n < test_loops(9); n++) {
        int i = n * 4 % 9 / 3, j = n * 4 % 9 % 3;
        char what[64];
        hr_device dev;

        snprintf(what, sizeof(what), "%s=%s", cases[i].option,
                 kinds[wrong[j]].fourcc);
        vaapi_new_cache();
        vaapi_driver("default,reset,%s", what);
        dev = vaapi_open("plain");
        for (int k = 0; k < HR_NUM_KINDS; k++) {
            bool is = k == wrong[j];

            CHECK(vaapi_scaled(&dev->certificate, k).failed ==
                      (is && cases[i].failed),
                  "%s, %s: its test", what, kinds[k].name);
            check_kind(dev, cpu, k, is ? cases[i].by : ALL, cases[i].why, what);
        }
        vaapi_close(&dev);
    }
    hr_device_close(&cpu);
    vaapi_new_cache();
}

// Pictures that did not go through the processor are counted, by reason.
TEST_CASE(counted)
{
    hr_device dev, cpu = test_device("cpu", 1, 0);
    struct bytes b[2] = {picture_of(cpu, kinds[HR_KIND_420].specimen),
                         picture_of(cpu, kinds[HR_KIND_444].specimen)};
    struct hr_stats stats;

    vaapi_driver("default,reset");
    dev = vaapi_open("ihd");
    for (int i = 0; i < 5; i++) {
        free(make(dev, &b[i % 2], 0, HR_FAST).pixels);
        free(make(dev, &b[1], 0, HR_CLOSE).pixels);
    }
    hr_device_stats(dev, &stats);
    for (int bit = 0; bit < 32; bit++)
        CHECK(stats.fallback_reasons[bit] ==
                  (1u << bit == HR_WHY_CHROMA ? 2 : 0),
              "reason %d: %d times", bit, (int)stats.fallback_reasons[bit]);
    CHECK(stats.samples == 10 && !stats.fallbacks && stats.checked == 10,
          "%d samples, %d fallbacks, %d checked", (int)stats.samples,
          (int)stats.fallbacks, (int)stats.checked);
    vaapi_close(&dev);
    hr_device_close(&cpu);
    for (int i = 0; i < 2; i++)
        free(b[i].data);
}

// ---- Its certificate -------------------------------------------------------

// (Numbers that were kept are multiples of 1e-9.)
static bool same_certificate(const struct hr_certificate *a,
                             const struct hr_certificate *b)
{
    bool same = a->num_records == b->num_records;

    for (int i = 0; i < a->num_records && same; i++) {
        const struct hr_certificate_record *x = &a->records[i];
        const struct hr_certificate_record *y = &b->records[i];

        same = x->span.last == y->span.last && x->kind == y->kind &&
               x->tier == y->tier && x->pictures == y->pictures &&
               x->failed == y->failed && fabs(x->max - y->max) < 1e-9 &&
               fabs(x->differing - y->differing) < 1e-9 &&
               fabs(x->mean - y->mean) < 1e-9 && fabs(x->psnr - y->psnr) < 1e-9;
    }
    return same;
}

// Returns the passes of an open; *cert: the certificate.
static long passes_of_open(struct hr_certificate *cert)
{
    hr_device dev;
    long n;

    vaapi_driver("reset");
    dev = vaapi_open("ihd");
    n = vaapi_counters().processed;
    *cert = dev->certificate;
    vaapi_close(&dev);
    return n;
}

enum { PROBE = 4 * 3 };  // passes of the probe on "ihd": flips, kinds

// It is measured kind by kind, and told; kept on disk like the rest.
TEST_CASE(scaled)
{
    struct hr_certificate cert, again;

    vaapi_new_cache();
    vaapi_driver("default");
    CHECK(passes_of_open(&cert) > PROBE, "not tested");
    for (int k = 0; k < HR_NUM_KINDS; k++) {
        struct hr_certificate_record r = vaapi_scaled(&cert, k);

        if (!r.pictures)
            continue;
        CHECK(r.tier == HR_FAST && r.pictures >= 10 && r.max > 0 &&
                  r.mean > 0 && r.mean < 8 && r.psnr > 20 && r.psnr < 60,
              "%s: %d pictures, max %g, mean %g, %g dB", kinds[k].name,
              r.pictures, r.max, r.mean, r.psnr);
        printf("\n  %s: %d pictures, max %g, mean %g, %.1f dB ", kinds[k].name,
               r.pictures, r.max, r.mean, r.psnr);
    }
    CHECK(vaapi_scaled(&cert, HR_KIND_420).pictures, "no 4:2:0");
    CHECK(passes_of_open(&again) == PROBE, "tested again");
    CHECK(same_certificate(&cert, &again), "other numbers from disk");
}

// A kind that is too far off is known from disk, too; a failure is not kept.
TEST_CASE(kept)
{
    struct hr_certificate cert, again;

    vaapi_new_cache();
    vaapi_driver("default,vpp_no_crop=422V");
    CHECK(passes_of_open(&cert) > PROBE &&
              vaapi_scaled(&cert, HR_KIND_440).failed &&
              !vaapi_scaled(&cert, HR_KIND_422).failed,
          "not found out");
    CHECK(passes_of_open(&again) == PROBE && same_certificate(&cert, &again),
          "not kept");
    vaapi_new_cache();
    vaapi_driver("default,fault=Process:1:%d", PROBE + 1);
    passes_of_open(&cert);
    vaapi_driver("default");
    CHECK(passes_of_open(&again) > PROBE, "a failure was kept");
    CHECK(!same_certificate(&cert, &again), "there was none");
    vaapi_new_cache();
}

// Right when it is opened, and not when it is tested: not used.
TEST_CASE(scaled_wrongly)
{
    static const char *const faults[] = {"wrong", "zero"};
    hr_device cpu = test_device("cpu", 1, 0);

    for (int i = 0; i < 2; i++) {
        hr_device dev;

        vaapi_new_cache();
        vaapi_driver("default,reset,fault=Process:%s:%d+", faults[i],
                     PROBE + 1);
        dev = vaapi_open("ihd");
        for (int k = HR_KIND_420; k <= HR_KIND_440; k++) {
            struct hr_certificate_record r = vaapi_scaled(&dev->certificate, k);

            CHECK(r.failed && r.pictures, "%s: %s: %d pictures, mean %g",
                  faults[i], kinds[k].name, r.pictures, r.mean);
        }
        CHECK(!(dev->caps.spans[HR_FAST] &
                HR_SPAN_BIT(HR_ENTROPY, HR_RESAMPLE)),
              "%s: offered", faults[i]);
        check_kind(dev, cpu, HR_KIND_422, 0, HR_WHY_CERTIFICATE, faults[i]);
        vaapi_close(&dev);
    }
    hr_device_close(&cpu);
    vaapi_new_cache();
}

// ---- Lies ------------------------------------------------------------------

// Right all the time, until it is used.
TEST_CASE(scaled_lies)
{
    static const char *const faults[] = {"Process:wrong", "Process:zero",
                                         "Process:stale", "Decode:wrong"};
    static const int of[] = {HR_KIND_420, HR_KIND_422, HR_KIND_440};
    auto_device cpu = test_device("cpu", 1, 0);

    for (int i = 0; i < 12; i++) {
        const char *fault = faults[i % 4];
        int kind = of[i / 4];
        // Black and white noise, and a picture like a photo.
        struct bytes noise = picture_of(cpu, kinds[kind].specimen + 6);
        struct bytes b = picture_of(cpu, kinds[kind].specimen);
        struct made want = make(cpu, &b, HALF, HR_EXACT), got;
        struct hr_stats stats;
        hr_device dev;

        vaapi_driver("default,reset");
        dev = vaapi_open("ihd");
        // (In every slot: a stale surface must have been used.)
        for (int k = 0; k < 3; k++) {
            got = make(dev, &noise, HALF, HR_FAST);
            CHECK(got.last == HR_RESAMPLE, "ends with %d", got.last);
            free(got.pixels);
        }
        vaapi_driver("fault=%s:always", fault);
        got = make(dev, &b, HALF, HR_FAST);
        CHECK(got.last < 0 && got.why & HR_WHY_MISMATCH && equal(&got, &want),
              "%s, %s: not found out", kinds[kind].name, fault);
        hr_device_stats(dev, &stats);
        CHECK(stats.mismatches == 1 && stats.checked == 4,
              "%s, %s: %d mismatches of %d", kinds[kind].name, fault,
              (int)stats.mismatches, (int)stats.checked);
        free(got.pixels);
        free(want.pixels);
        free(b.data);
        free(noise.data);
        vaapi_close(&dev);
    }
}

TEST_MAIN(vaapi_main)
