// SPDX-License-Identifier: Apache-2.0
// `headrace run` opens the device that its command line names, with its
// options.

#include "testing.h"
#include "tools/common/tools.h"
#include "tools/run/run.h"

static const char *picture;

// Opens the device of `headrace run` with these words more.
static hr_device opened(struct run *run, const char *const *words)
{
    const char *args[32] = {"headrace run", picture,  "--out",     "none",
                            "--ops",        "decode", "--backend", "cpu"};
    int n = 8;

    while (*words)
        args[n++] = *words++;
    *run = (struct run){0};
    CHECK(run_options(run, n, (char **)(uintptr_t)args) == TOOLS_OK &&
              run_prepare(run),
          "%s", hr_last_error());
    return run->dev;
}

static void finish(struct run *run)
{
    hr_device_close(&run->dev);
    inputs_finish(&run->in);
    options_finish(&run->line);
}

TEST_CASE(params)
{
    static const char *const all[] = {"--balance", "--latency",  "50",
                                      "--cpu-cap", "40",         "--threads",
                                      "3",         "--budget",   "60M",
                                      "--strict",  "--deadline", "7",
                                      NULL};
    static const char *const none[] = {NULL};
    const struct hr_device_params *p;
    struct run run;
    hr_device dev;

    if ((dev = opened(&run, all))) {
        p = &dev->params;
        CHECK(p->latency_ns == 50 * TEST_MS, "%lld ns",
              (long long)p->latency_ns);
        CHECK(p->balance && p->strict && p->cpu_cap == 40, "cap %d",
              p->cpu_cap);
        CHECK(p->threads == 3 && p->budget == (size_t)50 << 20, "%zu bytes",
              p->budget);
        CHECK(p->deadline_ns == 7000 * TEST_MS, "%lld ns",
              (long long)p->deadline_ns);
    }
    finish(&run);
    if ((dev = opened(&run, none)))
        CHECK(!dev->params.latency_ns && !dev->params.balance &&
                  !dev->params.strict,
              "%lld ns", (long long)dev->params.latency_ns);
    finish(&run);
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    auto_bytes jpeg = test_jpeg(16, 16, &seed);

    picture = test_file(&jpeg, ".jpg");
    return test_main(argc, argv);
}
