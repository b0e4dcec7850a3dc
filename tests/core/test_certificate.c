// SPDX-License-Identifier: Apache-2.0
// Certificates: a device that computes wrong pixels is not used, and the reason
// is reported; a device that is right is used without a setting. Also checks
// the pictures that devices are certified with.
#include <math.h>

#include "certificate_env.h"
#include "cpu_fallback/jpeg/specimen.h"
#include "hal/trust/trust.h"

// ---- Judgement ------------------------------------------------------------

TEST_CASE(right_engine)
{
    static const uint32_t spans[] = {FAKE_RS,  FAKE_D, FAKE_DR,
                                     FAKE_DRS, FAKE_R, FAKE_S};
    uint32_t all = 0;
    struct hr_stats stats;
    hr_device dev;

    for (size_t i = 0; i < sizeof(spans) / sizeof(*spans); i++)
        all |= spans[i];
    certificate_forget();
    fake_begin(.spans = FAKE_ALL(all), .tested = true, .own_buffers = true);
    CHECK(certificate_open(&dev, NULL) > 0, "not tested");
    CHECK(dev && dev->caps.exact && dev->certificate.tested > 1700000000, "%s",
          hr_last_error());
    CHECK(dev->certificate.num_records == 6, "%d",
          dev->certificate.num_records);
    for (size_t i = 0; i < sizeof(spans) / sizeof(*spans); i++) {
        const struct hr_certificate_record *s = certificate_of(dev, spans[i]);

        CHECK(s && s->pictures > certificate_least() && !(s->differing > 0) &&
                  !(s->max > 0) && !(s->mean > 0) && !s->failed,
              "span %zu: %d pictures, %g", i, s ? s->pictures : -1,
              s ? s->differing : -1);
    }
    for (int t = 0; t <= HR_FAST; t++)
        CHECK(dev->caps.spans[t] == all, "tier %d: %#x", t, dev->caps.spans[t]);
    // The test leaves no trace in what the user counts.
    hr_device_stats(dev, &stats);
    CHECK(!stats.jobs && !stats.samples && !stats.failed && !stats.fallbacks &&
              !stats.peak_bytes && !stats.bytes_in_flight,
          "%d samples are counted", (int)stats.samples);
    for (int t = 0; t <= HR_FAST; t++)
        CHECK(certificate_by_fake(dev, (enum hr_tier)t, SCENE_MIXED) == 12,
              "tier %d", t);
    hr_device_close(&dev);
    test_reaches(&fake_counts.closes, 1);
    CHECK(atomic_load(&fake_counts.buffers) == 0, "buffers leaked");
}

TEST_CASE(wrong_engine)
{
    uint64_t seed = test_seed;
    auto_bytes jpeg = test_jpeg(40, 30, &seed);
    const struct hr_op op = hr_op_decode(0);
    const struct hr_sample s = test_sample(&jpeg, &op, 1);
    hr_device dev;

    for (int round = 0; round < 2; round++) {  // 1: from disk
        const struct hr_certificate_record *c;
        int begun;

        if (!round)
            certificate_forget();
        fake_begin(.spans = FAKE_ALL(FAKE_RS), .tested = true, .wrong = true);
        begun = certificate_open(&dev, NULL);
        CHECK(!begun == (round == 1), "round %d: %d", round, begun);
        CHECK(dev && !dev->caps.exact, "exact");
        for (int t = 0; t <= HR_FAST; t++)
            CHECK(dev->caps.spans[t] == 0, "tier %d", t);
        c = certificate_of(dev, FAKE_RS);
        CHECK(c && c->pictures > certificate_least() && c->differing > 0 &&
                  c->differing < 0.01 && c->max >= 1 && c->max < 1.01 &&
                  c->mean > 0 && c->mean < c->max,
              "%d pictures, %g of the elements, by %g, %g",
              c ? c->pictures : -1, c ? c->differing : 0, c ? c->max : 0,
              c ? c->mean : 0);
        CHECK(test_offered(dev, &s) == HR_WHY_CERTIFICATE, "why %#x",
              test_offered(dev, &s));
        begun = atomic_load(&fake_counts.begun);
        for (int t = 0; t <= HR_FAST; t++)
            CHECK(certificate_by_fake(dev, (enum hr_tier)t, SCENE_MIXED) == 0,
                  "used");
        CHECK(atomic_load(&fake_counts.begun) == begun, "it had tasks");
        hr_device_close(&dev);
    }
}

// Where pixels differ by one level at most, the mean difference is the mean of
// the squares, which the PSNR gives, too.
TEST_CASE(mean_is_true)
{
    const struct hr_certificate_record *c;
    double squares;
    auto_device dev = NULL;

    certificate_forget();
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .tested = true, .wrong = true);
    certificate_open(&dev, NULL);
    c = certificate_of(dev, FAKE_RS);
    squares = 255 * 255 * pow(10, -c->psnr / 10);
    CHECK(c->psnr > 0 && fabs(c->mean / squares - 1) < .2,
          "mean %g, not about %g", c->mean, squares);
}

// A decode that is not libjpeg's may be used where 2 levels are allowed.
TEST_CASE(close_engine)
{
    static const struct {
        uint8_t bits;
        bool close;
    } rounds[] = {{1, true}, {2, true}, {4, false}, {0x80, false}};

    for (size_t i = 0; i < sizeof(rounds) / sizeof(*rounds); i++) {
        uint32_t close = rounds[i].close ? FAKE_DRS : 0;
        auto_device dev = NULL;

        certificate_forget();
        fake_begin(.spans = FAKE_ALL(FAKE_DRS), .tested = true, .wrong = true,
                   .wrong_bits = rounds[i].bits);
        certificate_open(&dev, NULL);
        CHECK(dev && !dev->caps.exact, "exact");
        CHECK(dev->caps.spans[HR_EXACT] == 0, "exact");
        CHECK(dev->caps.spans[HR_CLOSE] == close &&
                  dev->caps.spans[HR_FAST] == close,
              "bits %#x: %#x, max %g", rounds[i].bits,
              dev->caps.spans[HR_CLOSE], dev->certificate.records[0].max);
        CHECK(certificate_by_fake(dev, HR_EXACT, SCENE_BYTES) == 0, "used");
    }
}

// Only one span of two is wrong.
TEST_CASE(one_span)
{
    auto_device dev = NULL;

    certificate_forget();
    // It is the last stage that the script spoils.
    fake_begin(.spans = FAKE_ALL(FAKE_D | FAKE_RS), .tested = true,
               .wrong = true);
    certificate_open(&dev, NULL);
    CHECK(dev && !dev->caps.exact, "exact");
    for (int t = 0; t <= HR_FAST; t++)
        CHECK(dev->caps.spans[t] == FAKE_D, "tier %d: %#x", t,
              dev->caps.spans[t]);
    CHECK(certificate_by_fake(dev, HR_EXACT, SCENE_BYTES) == 12,
          "decode is right");
}

// One sample by these ops to 20 x 16; how many of its spans are the fake's, and
// whether that made it to the end.
static int spans_of_fake(hr_device dev, const char *text, unsigned *why)
{
    struct hr_op ops[HR_MAX_OPS];
    int n, fake = 0;
    uint64_t seed = 1;
    hr_image from = test_image(dev, 30, 25, 3, &seed);
    struct hr_sample s = {.image = from, .ops = ops};
    auto_batch out = hr_batch_create(dev, hr_batch_params(.n = 1, .c = 3,
                                                          .h = 16, .w = 20));
    auto_job job = NULL;

    CU_ASSERT_EQUAL_FATAL(hr_ops_parse(text, ops, &n), HR_OK);
    s.num_ops = n;
    job = hr_submit(dev, &s, 1, out, NULL);
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", text);
    *why = job->results[0].why;
    for (int i = 0; i < job->results[0].num_spans; i++)
        fake += !strncmp(job->results[0].spans[i].device, "fake", 4) *
                (job->results[0].spans[i].span.last == HR_STORE ? 2 : 1);
    hr_image_release(&from);
    return fake;
}

// Checks that stage augment was tried with *pictures pictures, whatever they
// were like. *pictures is 0 at the first call, which sets it.
static bool all_counted(hr_device dev, int *pictures)
{
    int n = certificate_of(dev, HR_SPAN_BIT(HR_AUGMENT, HR_STORE))->pictures;

    if (!*pictures)
        *pictures = n;
    return n > 0 && n == *pictures;
}

// The certificate names each code that is wrong, and no other: only pictures
// with that code go to the CPU, from augment on.
TEST_CASE(wrong_codes)
{
    const uint32_t augment = HR_SPAN_BIT(HR_AUGMENT, HR_STORE);
    const uint32_t spans = FAKE_R | FAKE_RS | augment;
    int pictures = 0;
    unsigned why;

    for (int code = -1; code < HR__NUM_AUGMENT; code++) {
        uint32_t bit = code < 0 ? 0 : UINT32_C(1) << code;
        auto_device dev = NULL;

        certificate_forget();
        for (int again = 0; again < 2; again++) {
            hr_device_close(&dev);
            fake_begin(.spans = FAKE_ALL(spans), .tested = true,
                       .wrong_codes = bit);
            certificate_open(&dev, NULL);
            CHECK(dev && dev->certificate.wrong_codes == bit &&
                      dev->caps.exact == !bit,
                  "code %d: %#x", code, dev ? dev->certificate.wrong_codes : 0);
            CHECK(hr__record_exact(certificate_of(dev, augment)), "code %d",
                  code);
            CHECK(all_counted(dev, &pictures), "code %d", code);
        }
        CHECK(spans_of_fake(dev, "image,resize=20x16,adjust_hue=0.2", &why) ==
                  (code == HR__AUGMENT_HUE ? 1 : 2),
              "hue, code %d: %#x", code, why);
        CHECK(code != HR__AUGMENT_HUE || why & HR_WHY_CERTIFICATE, "%#x", why);
        CHECK(spans_of_fake(dev, "image,resize=20x16,equalize", &why) ==
                  (code == HR__AUGMENT_EQUALIZE ? 1 : 2),
              "equalize, code %d: %#x", code, why);
    }
    CHECK(!hr_augment_code_name(HR__NUM_AUGMENT) && !hr_augment_code_name(-1) &&
              !strcmp(hr_augment_code_name(HR__AUGMENT_HUE), "hue"),
          "names");
}

// Two codes that only differ one behind the other, and only where a table is
// between them: the table is right elsewhere, so the stage is lost.
TEST_CASE(wrong_together)
{
    const uint32_t augment = HR_SPAN_BIT(HR_AUGMENT, HR_STORE);
    const uint32_t both = UINT32_C(1) << HR__AUGMENT_STRETCH |
                          UINT32_C(1) << HR__AUGMENT_PERMUTE;
    int pictures = 0;

    for (int wrong = 0; wrong < 2; wrong++) {
        auto_device dev = NULL;

        certificate_forget();
        fake_begin(.spans = FAKE_ALL(FAKE_R | FAKE_RS | augment),
                   .tested = true, .wrong_together = wrong ? both : 0);
        certificate_open(&dev, NULL);
        CHECK(dev && !dev->certificate.wrong_codes && dev->caps.exact == !wrong,
              "%#x", dev ? dev->certificate.wrong_codes : 0);
        CHECK(hr__record_exact(certificate_of(dev, augment)) == !wrong,
              "wrong: %d", wrong);
        CHECK(all_counted(dev, &pictures), "wrong: %d", wrong);
    }
}

// A record has the elements of all pictures that differ, also of several with
// the same codes.
TEST_CASE(wrong_elements)
{
    const uint32_t augment = HR_SPAN_BIT(HR_AUGMENT, HR_STORE);
    const struct hr_certificate_record *c;
    auto_device dev = NULL;
    double share;

    certificate_forget();
    fake_begin(.spans = FAKE_ALL(augment), .tested = true,
               .wrong_together = UINT32_C(1) << HR__AUGMENT_STRETCH |
                                 UINT32_C(1) << HR__AUGMENT_PERMUTE);
    certificate_open(&dev, NULL);
    c = certificate_of(dev, augment);
    share = (double)atomic_load(&fake_counts.wrong) /
            atomic_load(&fake_counts.elements);
    CHECK(atomic_load(&fake_counts.wrong) > 1 &&
              fabs(c->differing - share) < 2e-9,
          "%g, not %g, of %d pictures", c->differing, share,
          atomic_load(&fake_counts.wrong));
}

// The cases of one picture are one job, but each decodes by itself: an engine
// that shares what it decodes is tried with each window.
TEST_CASE(no_views)
{
    auto_device dev = NULL;

    certificate_forget();
    fake_begin(.spans = FAKE_ALL(FAKE_DRS | FAKE_RS), .tested = true);
    certificate_open(&dev, NULL);
    // How many there are follows the time that they take.
    CHECK(dev && atomic_load(&fake_counts.complete) > 1, "%d pictures",
          atomic_load(&fake_counts.complete));
    CHECK(!atomic_load(&fake_counts.views), "%d views",
          atomic_load(&fake_counts.views));
}

// A span that no plan can have is not known to be right.
TEST_CASE(out_of_reach)
{
    uint32_t span = HR_SPAN_BIT(HR_ENTROPY, HR_ENTROPY);
    auto_device dev = NULL;

    certificate_forget();
    fake_begin(.spans = FAKE_ALL(span | FAKE_RS), .tested = true);
    certificate_open(&dev, NULL);
    CHECK(dev && certificate_of(dev, span) &&
              certificate_of(dev, span)->pictures == 0,
          "compared");
    CHECK(dev->caps.spans[HR_EXACT] == FAKE_RS &&
              dev->caps.spans[HR_CLOSE] == FAKE_RS && !dev->caps.exact,
          "%#x", dev->caps.spans[HR_CLOSE]);
}

TEST_CASE(small_params)
{
    auto_device dev = NULL;

    certificate_forget();
    certificate_right(NULL);
    certificate_open(
        &dev, hr_device_params(.budget = 1000, .threads = 1, .strict = true,
                               .limits = {.side = 8, .pixels = 20}));
    CHECK(dev && dev->caps.exact &&
              certificate_of(dev, FAKE_RS)->pictures > certificate_least(),
          "%s", hr_last_error());
    CHECK(dev->params.budget == 1000 && dev->params.limits.side == 8 &&
              dev->params.limits.pixels == 20 && dev->params.strict,
          "the user's params");
}

// ---- Auto -----------------------------------------------------------------

TEST_CASE(automatic)
{
    // The last is within tier close: in the default tier it would do nothing.
    static const struct {
        uint32_t spans;
        bool software, wrong, taken;
    } rounds[] = {{FAKE_RS, false, false, true},
                  {FAKE_RS, true, false, false},
                  {FAKE_RS, false, true, false},
                  {FAKE_DRS, false, true, false}};

    unsetenv("HEADRACE_BACKEND");
    for (size_t i = 0; i < sizeof(rounds) / sizeof(*rounds); i++) {
        auto_device dev = NULL;

        certificate_forget();
        fake_begin(.spans = FAKE_ALL(rounds[i].spans), .tested = true,
                   .software = rounds[i].software, .wrong = rounds[i].wrong,
                   .wrong_bits = 1);
        dev = hr_device_open(NULL, NULL);
        CHECK(dev && !strcmp(dev->backend, "fake") == rounds[i].taken,
              "round %zu: %s", i, dev ? dev->name : hr_last_error());
        hr_device_close(&dev);
        dev = hr_device_open("fake", NULL);
        CHECK(dev && dev->caps.software == rounds[i].software, "by name");
    }
}

TEST_CASE(on_opencl)
{
    hr_device dev = hr_device_open("opencl", NULL);

    if (!dev) {
        test_no_device();
        return;
    }
    CHECK(dev->caps.exact, "%s is not exact", dev->description);
    CHECK(dev->certificate.num_records > 0, "no spans");
    for (int i = 0; i < dev->certificate.num_records; i++) {
        const struct hr_certificate_record *s = &dev->certificate.records[i];

        CHECK(s->pictures > certificate_least() && !(s->differing > 0) &&
                  !s->failed,
              "span %d: %d pictures, %g, by %g", i, s->pictures, s->differing,
              s->max);
    }
    hr_device_close(&dev);
    if (strcmp(hr_get_image_backend(), "cpu"))
        printf("  auto took %s\n", hr_get_image_backend());
}

// ---- The pictures ---------------------------------------------------------

TEST_CASE(specimens)
{
    enum { ROOM = 64 << 10 };
    static uint8_t a[ROOM], b[ROOM];
    int kinds[5][3] = {{0}}, colors[5] = {0}, restarts = 0, n;
    int some = certificate_files;
    size_t size, again;

    certificate_files = cpu_specimen_count();
    for (n = 0; cpu_specimen_make(n, a, ROOM, &size); n++) {
        struct hr_info info;
        struct plain d;

        CHECK(cpu_specimen_make(n, b, ROOM, &again) && again == size &&
                  !memcmp(a, b, size),
              "specimen %d differs from itself", n);
        CHECK(!cpu_specimen_make(n, b, size - 1, &again), "too small a room");
        CHECK(hr_probe(a, size, NULL, &info) == HR_OK && info.ends &&
                  info.process == HR_PROCESS_BASELINE,
              "specimen %d: %s", n, hr_last_error());
        plain_decode(a, size, 1 << 30, &d);
        CHECK(d.result == PLAIN_OK, "specimen %d", n);
        plain_free(&d);
        colors[info.color]++;
        restarts += info.restart_interval > 0;
        if (info.components == 3)
            kinds[info.h[0]][info.v[0]]++;
    }
    CHECK(n == cpu_specimen_count() && n > 10, "%d specimens", n);
    CHECK(kinds[1][1] && kinds[2][1] && kinds[2][2] && kinds[1][2] &&
              kinds[4][1],
          "a sampling is missing");
    CHECK(colors[HR_COLOR_GRAY] && colors[HR_COLOR_YCC] &&
              colors[HR_COLOR_RGB] && restarts,
          "a kind is missing");
    certificate_files = some;
}

TEST_MAIN(certificate_main)
