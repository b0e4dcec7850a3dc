// SPDX-License-Identifier: Apache-2.0
// The conformance suite on the CPU at each instruction set, on the scripted
// engine in its cuts, and on every other device that opens here (or the one
// that HEADRACE_TEST_DEVICE names).
#include "conformance.h"
#include "cpu_fallback/cpu_ops.h"
#include "fake_engine.h"

static void report(hr_device dev, const struct conformance *c)
{
    printf("\n  %s (%s): %d jobs, %d samples, %d by the device, %d different ",
           dev->name, dev->description, c->jobs, c->samples, c->by_device,
           c->different);
}

TEST_CASE(cpu_masks)
{
    // For races it is the same which instructions work. (--long: all.)
    bool races = test_races_only();

    for (int i = 0; i < (races ? 1 : CPU_LEVELS); i++) {
        struct hr_device_params p = {0};
        auto_device dev = NULL;
        struct conformance c;

        if (cpu_levels[i].flags & ~cpu_detect())
            continue;
        p.threads = races ? 3 : 1 + i;
        p.cpu_mask = races ? 0 : cpu_levels[i].flags;
        dev = hr_device_open("cpu", &p);
        c = conformance_run(dev, HR_EXACT, test_seed);
        CHECK(c.by_device > c.samples / 2 && c.different == 0, "by_device");
        report(dev, &c);
    }
}

TEST_CASE(fake_cuts)
{
    static const uint32_t cuts[] = {FAKE_D,          FAKE_R,
                                    FAKE_S,          FAKE_DR,
                                    FAKE_RS,         FAKE_DRS,
                                    FAKE_D | FAKE_S, FAKE_D | FAKE_R | FAKE_S};

    for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
        auto_device dev = NULL;
        struct conformance c;

        // A sanitizer build does the first and the last.
        if (test_loops(8) < 8 && i % 7)
            continue;
        fake_begin(.spans = FAKE_ALL(cuts[i]), .own_buffers = i % 2);
        dev = test_device("fake", 2, 0);
        c = conformance_run(dev, (enum hr_tier)(i % 2), test_seed);
        CHECK(c.by_device > c.samples / 3 && c.different == 0, "by_device %d",
              c.by_device);
        report(dev, &c);
    }
}

// A suite that cannot fail proves nothing: one wrong bit is seen in every
// sample. (In the tier FAST differences are counted, not failed.)
TEST_CASE(finds_faults)
{
    auto_device dev = NULL;
    struct conformance c;

    if (test_races_only()) {
        test_not_run("what it finds is pixels, and no race");
        return;
    }
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .wrong = true);
    dev = test_device("fake", 2, 0);
    c = conformance_run(dev, HR_FAST, test_seed);
    CHECK(c.by_device > c.samples / 3 && c.different == c.by_device, "%d of %d",
          c.different, c.by_device);
}

// Runs its spans from planes, which the CPU makes here; for samples without
// planes, its spans from pixels.
static void from_planes(hr_device dev)
{
    uint32_t planes = HR_SPAN_BIT(HR_COLOR, HR_STORE);
    struct conformance c;

    if (!(dev->caps.spans[HR_EXACT] & planes))
        return;
    ((struct hr__device *)dev)->probing = planes |
                                          HR_SPAN_BIT(HR_RESAMPLE, HR_STORE);
    c = conformance_run(dev, HR_EXACT, test_seed);
    CHECK(c.by_device > c.samples / 2 && c.different == 0, "by_device %d",
          c.by_device);
    printf("\n  from planes:");
    report(dev, &c);
    ((struct hr__device *)dev)->probing = 0;
}

// An engine that decodes only, like VA-API's: the CPU resamples and stores.
static bool is_media(hr_device dev)
{
    return ((struct hr__device *)dev)->engines[0]->backend->media;
}

static void all_tiers(hr_device dev)
{
    static const struct {
        enum hr_tier tier;
        const char *name;
    } tiers[] = {{HR_EXACT, "exact"}, {HR_CLOSE, "close"}, {HR_FAST, "fast"}};
    int jobs = 0;

    for (int i = 0; i < 3; i++) {
        struct conformance c = conformance_run(dev, tiers[i].tier, test_seed);

        report(dev, &c);
        printf("\n  tier %s: made by the device: reconstruct..store %d of %d, "
               "entropy..store %d of them, resample..store of pixels %d of %d ",
               tiers[i].name, c.decoded, c.encoded, c.from_bytes, c.resampled,
               c.pixels);
        jobs += c.jobs > 0;
        if (!is_media(dev))
            conformance_is_own_work(dev, &c, tiers[i].name);
        else if (!c.by_device)
            test_not_run("this media engine made nothing in a tier");
    }
    CHECK(jobs == 3, "ran in %d tiers", jobs);
}

// Each type, layout and filter with the others.
static void all_sets(hr_device dev)
{
    static const char *const filters[HR_NUM_FILTERS] = {
        [HR_BILINEAR] = "bilinear", [HR_NEAREST] = "nearest",
        [HR_BOX] = "box",           [HR_HAMMING] = "hamming",
        [HR_BICUBIC] = "bicubic",   [HR_LANCZOS] = "lanczos"};
    struct conformance sums[CONFORMANCE_SETS];
    int run = 0;

    conformance_run_sets(dev, test_loops(CONFORMANCE_SETS), test_seed, sums);
    for (int i = 0; i < CONFORMANCE_SETS; i++) {
        enum hr_dtype dtype = (enum hr_dtype)(i / (2 * HR_NUM_FILTERS));
        bool nhwc = i / HR_NUM_FILTERS % 2;
        char what[60];

        if (!sums[i].jobs)
            continue;
        snprintf(what, sizeof(what), "%s %s %s", hr_dtype_name(dtype),
                 nhwc ? "nhwc" : "nchw", filters[i % HR_NUM_FILTERS]);
        printf("\n  %s: made by the device: reconstruct..store %d of %d, "
               "resample..store of pixels %d of %d",
               what, sums[i].decoded, sums[i].encoded, sums[i].resampled,
               sums[i].pixels);
        conformance_is_own_work(dev, &sums[i], what);
        run++;
    }
    CHECK(run >= 6, "%d sets run", run);
    printf("\n  %d of %d sets of type, layout and filter ", run,
           CONFORMANCE_SETS);
}

// With entropy coding on the device.
static void from_bytes(const char *name)
{
    auto_device dev =
        hr_device_open(name, hr_device_params(.entropy = HR_WHERE_DEVICE));

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    printf("\n  from bytes:");
    CU_ASSERT(dev->caps.spans[HR_EXACT] & HR_SPAN_BIT(HR_ENTROPY, HR_STORE));
    all_tiers(dev);
}

static void run_other(const char *name)
{
    // (By default a GPU shares entropy coding with the host, as it turns out.)
    auto_device dev =
        hr_device_open(name, hr_device_params(.entropy = HR_WHERE_HOST));

    if (!dev) {
        test_no_device();
        return;
    }
    all_tiers(dev);
    if (!is_media(dev))
        all_sets(dev);
    from_planes(dev);
    if (!strcmp(dev->backend, "opencl"))
        from_bytes(dev->name);
}

TEST_CASE(other_devices)
{
    const char *named = getenv("HEADRACE_TEST_DEVICE");
    struct hr_device_info infos[16];
    int n = hr_device_list(infos, 16), run = 0;

    if (named) {
        run_other(named);
        return;
    }
    for (int i = 0; i < n && i < 16; i++) {
        if (!strcmp(infos[i].backend, "cpu") ||
            !strcmp(infos[i].backend, "fake"))
            continue;
        if (infos[i].available)
            run_other(infos[i].name), run++;
        else
            test_not_run(infos[i].reason);
    }
    if (!run)
        test_not_run("no other device opens here");
}
