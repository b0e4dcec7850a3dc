// SPDX-License-Identifier: Apache-2.0
// Planes between engines through the HAL: the CPU told to cut between
// reconstruct and color, and an engine in front of it that leaves surfaces as
// media engines do, gives the bytes that the CPU alone gives.
#include "conformance.h"
#include "cpu_fallback/cpu_ops.h"
#include "fake_engine.h"
#include "planes_forms.h"

// The CPU alone, told to cut its spans. Pictures that planes do not support go
// the longer way.
TEST_CASE(cuts)
{
#define CUT(a, b) HR_SPAN_BIT(HR_##a, HR_##b)
    static const uint32_t ways[] = {CUT(COLOR, STORE),
                                    CUT(COLOR, RESAMPLE) | CUT(STORE, STORE),
                                    CUT(COLOR, COLOR) | CUT(RESAMPLE, STORE)};
    static const uint32_t rest = CUT(ENTROPY, RECONSTRUCT) |
                                 CUT(ENTROPY, COLOR) | CUT(RESAMPLE, RESAMPLE) |
                                 CUT(STORE, STORE);
#undef CUT

    for (int i = 0; i < 3 * CPU_LEVELS; i++) {
        const struct cpu_level *level = &cpu_levels[i / 3];
        auto_device dev = NULL;
        struct conformance c;

        // A sanitizer build does one of each; for races it is the same which
        // instructions work.
        if (test_loops(9) < 9 && (test_races_only() ? i / 3 != 2 : i % 4))
            continue;
        if (level->flags & ~cpu_detect())
            continue;
        dev = hr_device_open("cpu", hr_device_params(.threads = 2,
                                                     .cpu_mask = level->flags));
        // (A mask is as good as one span.)
        ((struct hr__device *)dev)->probing = ways[i % 3] | rest;
        c = conformance_run(dev, HR_EXACT, test_seed);
        CHECK(c.by_device > c.samples / 2 && !c.different, "%d", c.by_device);
        printf("\n  way %d (%s): %d samples ", i % 3, level->name, c.samples);
    }
}

// A picture is cut where it is told to be.
TEST_CASE(the_plan)
{
    auto_bytes file = test_jpeg(50, 40, &test_seed);
    const struct hr_op ops[] = {hr_op_decode(0), hr_op_resize(.w = 9, .h = 9)};
    auto_device dev = test_device("cpu", 1, 0);
    struct hr_sample s = test_sample(&file, ops, 2);

    for (int i = 0; i < 2; i++) {
        auto_batch out = hr_batch_create(dev, hr_batch_params(.n = 1, .c = 3,
                                                              .h = 9, .w = 9));
        auto_job job = NULL;
        const struct hr_result *r;

        ((struct hr__device *)dev)->probing =
            i ? HR_SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT) |
                    HR_SPAN_BIT(HR_COLOR, HR_STORE)
              : 0;
        job = hr_submit(dev, &s, 1, out, NULL);
        CHECK(job && !hr_job_wait(job, HR_FOREVER), "%s", hr_last_error());
        r = &job->results[0];
        CHECK(r->num_spans == 1 + i, "%d spans", r->num_spans);
        CHECK(!i || (r->spans[0].span.last == HR_RECONSTRUCT &&
                     r->spans[1].span.first == HR_COLOR),
              "cut elsewhere");
    }
}

// An engine in front of the CPU that leaves its own memory, as media engines
// do: of the whole picture, in the form of a surface.
TEST_CASE(surfaces)
{
    for (int form = 0; form < NUM_FORMS; form++) {
        hr_device dev;
        struct conformance c;

        if (test_loops(4) < 4 && form != FORM_PAIRS)
            continue;
        fake_begin(.spans = FAKE_ALL(FAKE_P), .planes_form = form);
        dev = test_device("fake", 2, 0);
        c = conformance_run(dev, HR_EXACT, test_seed);
        CHECK(c.by_device > c.samples / 3 && !c.different, "%d", c.by_device);
        printf("\n  form %d: %d of %d samples from surfaces ", form,
               c.by_device, c.samples);
        hr_device_close(&dev);
        CHECK(atomic_load(&fake_counts.surfaces_made) >= c.by_device &&
                  !atomic_load(&fake_counts.surfaces),
              "%d of %d surfaces kept", atomic_load(&fake_counts.surfaces),
              atomic_load(&fake_counts.surfaces_made));
    }
}

// A surface that cannot be valid is not used: the CPU makes the picture, and
// says so.
TEST_CASE(wrong_surfaces)
{
    auto_bytes file = test_jpeg(50, 40, &test_seed);
    const struct hr_op ops[] = {hr_op_decode(0), hr_op_resize(.w = 9, .h = 9)};
    struct hr_sample s = test_sample(&file, ops, 2);
    hr_device dev[2];
    hr_batch out[2];

    fake_begin(.spans = FAKE_ALL(FAKE_P), .planes_form = NUM_FORMS);
    for (int i = 0; i < 2; i++) {
        const struct hr_result *r;
        auto_job job = NULL;

        dev[i] = test_device(i ? "cpu" : "fake", 1, 0);
        out[i] = hr_batch_create(dev[i], hr_batch_params(.n = 1, .c = 3, .h = 9,
                                                         .w = 9));
        job = hr_submit(dev[i], &s, 1, out[i], NULL);
        CHECK(job && !hr_job_wait(job, HR_FOREVER), "%s", hr_last_error());
        r = &job->results[0];
        CHECK(i || (r->fallbacks == 1 && (r->why & HR_WHY_FAILED) &&
                    r->num_spans == 1),
              "%d fallbacks, why %x", r->fallbacks, r->why);
    }
    CHECK(!memcmp(out[0]->params.data, out[1]->params.data,
                  9 * 9 * 3 * sizeof(float)),
          "other pixels");
    for (int i = 0; i < 2; i++) {
        hr_batch_destroy(&out[i]);
        hr_device_close(&dev[i]);
    }
    CHECK(!atomic_load(&fake_counts.surfaces), "a surface was kept");
}

// The fewest of many times: memory may return to the pool late.
static uint64_t allocations(hr_device dev, const struct bytes *file)
{
    const struct hr_op op = hr_op_decode(0);
    struct hr_sample s = test_sample(file, &op, 1);
    auto_batch out = hr_batch_create(dev, hr_batch_params(.n = 1, .c = 3,
                                                          .h = 200, .w = 300));
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 30; i++) {
        struct hr_stats before, after;
        hr_job job;

        hr_device_stats(dev, &before);
        job = hr_submit(dev, &s, 1, out, NULL);
        CHECK(job && !hr_job_wait(job, HR_FOREVER), "%s", hr_last_error());
        hr_job_release(&job);
        hr_device_stats(dev, &after);
        if (after.heap_allocations - before.heap_allocations < least)
            least = after.heap_allocations - before.heap_allocations;
    }
    return least;
}

// A cut costs nothing in a steady state.
TEST_CASE(steady)
{
    auto_bytes file = test_jpeg(300, 200, &test_seed);
    auto_device dev = test_device("cpu", 1, 0);
    uint64_t whole = allocations(dev, &file), cut;

    ((struct hr__device *)dev)->probing = HR_SPAN_BIT(HR_ENTROPY,
                                                      HR_RECONSTRUCT) |
                                          HR_SPAN_BIT(HR_COLOR, HR_STORE);
    cut = allocations(dev, &file);
    CHECK(cut == whole, "%d allocations, %d uncut", (int)cut, (int)whole);
}
