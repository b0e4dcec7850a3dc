// SPDX-License-Identifier: Apache-2.0
// The VA-API engine calls the user's log without a lock, also for a driver that
// is called by one thread at a time.
#include "backends/vaapi/vaapi.h"
#include "vaapi_env.h"

static struct {
    _Atomic(struct va *) va;
    atomic_int damaged, failed, held, processor, more;
} said;

static void on_log(void *ctx, enum hr_log_level level, const char *text)
{
    struct va *va = atomic_load(&said.va);

    (void)ctx;
    (void)level;
    atomic_fetch_add(&said.processor,
                     strstr(text, "video processor is not used") != NULL);
    atomic_fetch_add(&said.more, strstr(text, "lines more") != NULL);
    if (!va || strncmp(text, "vaapi", 5))
        return;
    atomic_fetch_add(&said.damaged, strstr(text, "are damaged") != NULL);
    atomic_fetch_add(&said.failed, strstr(text, "a picture failed") != NULL);
    atomic_fetch_add(&said.held, test_is_held(&va->guard.ref.lock) +
                                     test_is_held(&va->calls) +
                                     test_is_held(&va->guard.lock));
}

// Whole enough to be taken, and damaged inside.
static void damage(struct bytes *b)
{
    uint8_t *bytes = b->data;

    for (size_t i = b->size / 2; i < b->size / 2 + 40; i++)
        bytes[i] = (uint8_t)(bytes[i] == 0xff || bytes[i - 1] == 0xff ? bytes[i]
                                                                      : 0x5a);
}

static void without_locks(const char *personality)
{
    static const struct hr_op ops[] = {hr_op_decode(0)};
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(YCC(.factors = {0x22}), &seed);
    struct hr_sample s[8];
    hr_device dev;
    hr_batch out;
    hr_job job;

    damage(&b);
    atomic_store(&said.damaged, 0);
    atomic_store(&said.failed, 0);
    vaapi_driver("default,reset,personality=%s", personality);
    dev = vaapi_open_with(hr_device_params(.log = on_log));
    CHECK(dev != NULL, "%s", hr_last_error());
    if (!dev)
        return;
    atomic_store(&said.va, va_of(((struct hr__device *)dev)->engines[0]));
    out = hr_batch_create(dev,
                          hr_batch_params(.n = 8, .c = 3, .h = 90, .w = 100));
    for (int i = 0; i < 8; i++)
        s[i] = test_sample(&b, ops, 1);
    vaapi_driver("fault=Decode:0x17:1-4,fault=EndPicture:1:6");
    job = hr_submit(dev, s, 8, out, NULL);
    hr_job_wait(job, 20000 * TEST_MS);
    hr_job_release(&job);
    CHECK(atomic_load(&said.failed) > 0 && !atomic_load(&said.held),
          "%s: %d pictures failed, %d damaged; %d locks held", personality,
          atomic_load(&said.failed), atomic_load(&said.damaged),
          atomic_load(&said.held));
    CHECK(atomic_load(&said.damaged) > 0, "%s: no damage", personality);
    atomic_store(&said.va, NULL);
    vaapi_driver("fault=none");
    hr_batch_destroy(&out);
    vaapi_close(&dev);
}

TEST_CASE(log_without_locks)
{
    without_locks("ihd");
    without_locks("i965");
}

// Why there is none in tier fast is said, whatever failed.
TEST_CASE(no_processor)
{
    static const struct {
        const char *options;
        int lines;
    } cases[] = {
        {"personality=ihd", 0},
        {"personality=plain,limited=1", 6},
        {"personality=ihd,fault=CreateConfig:1:2", 1},
        {"personality=ihd,fault=CreateContext:2:1", 1},
        {"personality=ihd,fault=CreateSurfaces:2:1", 1},
        {"personality=ihd,fault=CreateSurfaces:2:3", 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        hr_device dev;

        atomic_store(&said.processor, 0);
        atomic_store(&said.more, 0);
        vaapi_driver("default,reset,%s", cases[i].options);
        dev = vaapi_open_with(hr_device_params(.log = on_log));
        CHECK(dev != NULL, "%s", hr_last_error());
        CHECK(atomic_load(&said.processor) == cases[i].lines &&
                  !atomic_load(&said.more),
              "%s: said %d times", cases[i].options,
              atomic_load(&said.processor));
        vaapi_close(&dev);
        vaapi_driver("fault=none");
    }
}

TEST_MAIN(vaapi_main)
