// SPDX-License-Identifier: Apache-2.0
// A media engine and the CPU share what is to be made: both together make
// nearly what each makes alone, the pictures are the CPU's, and what deviates
// is not shared.
#include "vaapi_env.h"

// A picture takes the driver 20 ms, eight at a time: 400 in a second. The CPU
// would make some thousands; a cap keeps it to what can be compared.
// (A sanitizer's pictures are smaller: there no rate is looked at.)
enum {
    SIDE = TEST_SANITIZED ? 96 : 512,
    OUT = 32,
    N = 50,
    JOBS = 30,
    CAP = 14,
    LEAST = 350
};

#define BUDGET ((size_t)8 << 30)

static struct bytes photo;

static hr_job submit(hr_device dev, hr_batch out, int n,
                     const struct hr_job_params *params)
{
    // (Of the lower edge: all of its coefficients are read.)
    static const struct hr_op ops[] = {hr_op_decode(0),
                                       hr_op_crop(.x = 8, .y = SIDE - OUT,
                                                  .w = OUT, .h = OUT)};
    struct hr_sample s[N];
    hr_job job;

    for (int i = 0; i < n; i++)
        s[i] = test_sample(&photo, ops, 2);
    job = hr_submit(dev, s, n, out, params);
    CHECK(job != NULL, "%s", hr_last_error());
    return job;
}

static hr_batch make_batch(hr_device dev)
{
    return hr_batch_create(dev, hr_batch_params(.n = N, .c = 3, .h = OUT,
                                                .w = OUT, .dtype = HR_U8));
}

// Samples in a second, while there is always more to do.
static double rate(hr_device dev, bool strict)
{
    struct hr_stats before, after;
    hr_job jobs[JOBS];
    hr_batch out[JOBS];
    int64_t begin, end;

    for (int i = 0; i < JOBS; i++) {
        out[i] = make_batch(dev);
        jobs[i] = submit(dev, out[i], N, hr_job_params(.strict = strict));
    }
    test_sleep(250 * TEST_MS);
    hr_device_stats(dev, &before);
    begin = hr__now();
    test_sleep(500 * TEST_MS);
    hr_device_stats(dev, &after);
    end = hr__now();
    for (int i = 0; i < JOBS; i++)
        hr_job_cancel(jobs[i]);
    for (int i = 0; i < JOBS; i++) {
        hr_job_wait(jobs[i], HR_FOREVER);
        hr_job_release(&jobs[i]);
        hr_batch_destroy(&out[i]);
    }
    CHECK(after.samples - before.samples < (JOBS - 10) * N,
          "there was not enough to do");
    return (double)(after.samples - before.samples) * 1e9 /
           (double)(end - begin);
}

// The device's test is made while the driver is quick.
static void open_tested(const char *options)
{
    hr_device dev;

    vaapi_driver("default,reset,personality=ihd%s", options);
    dev = vaapi_open_with(hr_device_params(.depth = 8));
    vaapi_close(&dev);
}

static double media_rate(void)
{
    hr_device dev = vaapi_open_with(
        hr_device_params(.depth = 8, .budget = BUDGET));
    double n = rate(dev, true);

    vaapi_close(&dev);
    return n;
}

static double cpu_rate(void)
{
    auto_device dev = hr_device_open("cpu", hr_device_params(.budget = BUDGET,
                                                             .cpu_cap = CAP));
    double n = rate(dev, false);

    return n;
}

static double rate_of_both(void)
{
    hr_device dev = vaapi_open_with(
        hr_device_params(.depth = 8, .budget = BUDGET, .balance = true,
                         .cpu_cap = CAP));
    double n = rate(dev, false);

    vaapi_close(&dev);
    return n;
}

// Three rates one after the other: on a machine that others use they are of
// different times, so a plain run does not ask for this.
TEST_CASE(sum)
{
    double media, cpu, both = 0;

    if (TEST_SANITIZED || !getenv("HEADRACE_TEST_LONG")) {
        test_not_run("rates: HEADRACE_TEST_LONG is not set, or a sanitizer");
        return;
    }
    open_tested("");
    vaapi_driver("latency=20");
    for (int i = 0; i < 5; i++) {
        media = media_rate();
        cpu = cpu_rate();
        both = rate_of_both();
        printf("%.0f + %.0f: %.0f pictures a second, %.1f %% of the sum\n",
               media, cpu, both, 100 * both / (media + cpu));
        if (both >= 0.9 * (media + cpu))
            return;
    }
    // (The driver decodes on this machine's processor, which others may have.)
    if (media < LEAST)
        test_not_run("the machine is too busy for the driver's 400 a second");
    else
        CHECK(false, "%.0f of %.0f + %.0f a second", both, media, cpu);
}

// ---- Whose pictures --------------------------------------------------------

enum { FEW = 4 };  // jobs

// Runs them, compares each picture with the first of the CPU's, and says what
// each engine got.
static void run_few(hr_device dev, const uint8_t *expected, int64_t most,
                    const struct hr_job_params *params, uint64_t shares[4])
{
    size_t size = (size_t)3 * OUT * OUT;
    hr_batch out[FEW];
    hr_job jobs[FEW];
    struct hr_stats stats;
    int differ = 0, busy = 0;

    for (int i = 0; i < FEW; i++) {
        out[i] = make_batch(dev);
        jobs[i] = submit(dev, out[i], N, params);
    }
    for (int i = 0; i < FEW; i++) {
        CHECK(hr_job_wait(jobs[i], most) == HR_OK, "%s",
              jobs[i]->results[0].message);
        for (int k = 0; k < N; k++) {
            const struct hr_result *r = &jobs[i]->results[k];
            const uint8_t *made = (const uint8_t *)out[i]->params.data;

            differ += expected &&
                      memcmp(made + (size_t)k * size, expected, size) != 0;
            busy += r->why == HR_WHY_BUSY && r->num_spans == 1 &&
                    !strcmp(r->spans[0].device, "cpu");
        }
        hr_job_release(&jobs[i]);
        hr_batch_destroy(&out[i]);
    }
    CHECK(!expected || !differ, "%d pictures are not the CPU's", differ);
    hr_device_stats(dev, &stats);
    memcpy(shares, stats.shares, sizeof(stats.shares));
    CHECK(stats.shares[1] == (uint64_t)busy, "%d say that the CPU helped",
          busy);
}

static void balanced(const char *driver, const uint8_t *expected, bool strict,
                     bool shared)
{
    uint64_t shares[4];
    hr_device dev;

    open_tested(driver);
    vaapi_driver("latency=20");
    dev = vaapi_open_with(hr_device_params(.depth = 8, .budget = BUDGET,
                                           .threads = 2, .balance = true));
    run_few(dev, expected, HR_FOREVER,
            hr_job_params(.strict = strict, .tier = HR_CLOSE), shares);
    CHECK(shares[0] + shares[1] == FEW * N, "%d and %d samples", (int)shares[0],
          (int)shares[1]);
    CHECK((shares[1] > 0) == shared, "%s: the CPU got %d samples", driver,
          (int)shares[1]);
    CHECK(shares[0] > 0, "%s: the engine got none", driver);
    vaapi_close(&dev);
}

TEST_CASE(pictures)
{
    auto_device cpu = hr_device_open("cpu", NULL);
    auto_batch out = make_batch(cpu);
    auto_job job = submit(cpu, out, 1, NULL);

    CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    vaapi_new_cache();
    balanced("", out->params.data, false, true);
    // A strict job uses the engine alone.
    balanced("", out->params.data, true, false);
    vaapi_new_cache();
    // Its pictures are not the CPU's: it makes all of them.
    balanced(",deviate=1", NULL, false, false);
}

int main(int argc, char **argv)
{
    uint64_t seed;

    test_begin();
    seed = test_seed;
    if (!vaapi_init())
        return TEST_NOT_RUN;
    photo = test_jpeg_of(jpeg_ycc(.w = SIDE, .h = SIDE, .quality = 90,
                                  .factors = {0x22}),
                         &seed);
    return test_main(argc, argv);
}
