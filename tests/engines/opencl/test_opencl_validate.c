// SPDX-License-Identifier: Apache-2.0
// headrace validate on an OpenCL device whose kernel is wrong by one level: its
// certificate refuses it, the CPU makes the pictures, and validate must not
// call that exact.
#include "hal/trust/trust.h"
#include "validate_run.h"

static json_t *run(int code)
{
    struct validate_ran r = VALIDATE_RUN(validate_in, "--backend",
                                         "opencl:pocl", "--tier", "exact",
                                         "--json");
    json_t *json = json_loads(r.out, 0, NULL);

    CHECK(r.code == code && json, "exit %d, not %d: %s%.300s", r.code, code,
          r.err, r.out);
    validate_done(&r);
    return json;
}

static json_int_t reconstructed(json_t *json)
{
    json_t *engines = json_object_get(json, "engines"), *e;
    const char *name;
    json_int_t n = 0;

    json_object_foreach(engines, name, e)
        n += number_at(json_object_get(e, "spans"), "reconstruct..store");
    return n;
}

TEST_CASE(wrong_kernel)
{
    json_t *json = run(2);

    CU_ASSERT_EQUAL(reconstructed(json), 0);
    CHECK(strstr(text_at(json, "verdict"), "nothing shown: opencl:") &&
              strstr(text_at(json, "verdict"),
                     "6 its pictures differed when it was tested"),
          "%s", text_at(json, "verdict"));
    json_decref(json);
}

static const struct hr_certificate_record *record(hr_device dev,
                                                  enum hr_stage first)
{
    for (int i = 0; i < dev->certificate.num_records; i++)
        if (dev->certificate.records[i].span.first == first)
            return &dev->certificate.records[i];
    CU_FAIL_FATAL("a span has no record");
    return NULL;
}

// A device whose stage entropy is wrong, in its coefficients or in what it says
// of files, does the others all the same.
TEST_CASE(wrong_entropy)
{
    static const char *const faults[] = {
        "(short)dc;=(short)-1;",
        "* pic->mcu_blocks ? HR__ODD=+ pic->mcu_blocks ? HR__ODD"};

    for (int i = 0; i < 2; i++) {
        const struct hr_certificate_record *r;
        auto_device dev = NULL;

        setenv("HEADRACE_FAULT_KERNEL", faults[i], 1);
        setenv("XDG_CACHE_HOME", test_folder(), 1);
        dev = hr_device_open("opencl:pocl",
                             hr_device_params(.entropy = HR_WHERE_DEVICE));
        CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
        r = record(dev, HR_ENTROPY);
        CHECK(i ? r->failed : r->max > 2, "%d: %f, %d", i, r->max, r->failed);
        for (int tier = 0; tier <= HR_FAST; tier++)
            CU_ASSERT(
                !(dev->caps.spans[tier] & HR_SPAN_BIT(HR_ENTROPY, HR_STORE)));
        r = record(dev, HR_RECONSTRUCT);
        CU_ASSERT(r->pictures && r->differing == 0 && !r->failed);
    }
}

// The same device and the same way there, with kernels that are right.
TEST_CASE(right_kernel)
{
    json_t *json;

    unsetenv("HEADRACE_FAULT_KERNEL");
    setenv("XDG_CACHE_HOME", test_folder(), 1);
    json = run(0);
    CU_ASSERT_EQUAL(reconstructed(json), VALIDATE_PICTURES);
    json_decref(json);
}

int main(int argc, char **argv)
{
    hr_device dev;

    validate_init();
    // On a busy machine the driver compiles for minutes.
    hr__test_probe_limits(0, 600000 * TEST_MS, 1200000 * TEST_MS);
    setenv("XDG_CACHE_HOME", validate_folder, 1);
    setenv("POCL_CACHE_DIR", validate_folder, 0);
    setenv("HEADRACE_OPENCL_LIBRARY", HR_FAULT_LIBRARY, 1);
    setenv("HEADRACE_FAULT_KERNEL",
           "clamp((v) + 128, (int##n)=clamp((v) + 129, (int##n)", 1);
    unsetenv("HEADRACE_CERTIFICATE");
    if (!(dev = hr_device_open("opencl:pocl", NULL))) {
        if (!test_is_absent())
            return 1;
        printf("not run: %s\n", hr_last_error());
        return TEST_NOT_RUN;
    }
    hr_device_close(&dev);
    return test_main(argc, argv);
}
