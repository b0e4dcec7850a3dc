// SPDX-License-Identifier: Apache-2.0
// The smallest engine (examples/engine_minimal.c) is a whole one: it gets its
// certificate, and makes the bytes that the CPU makes in every tier.
#include <string.h>

#include "conformance.h"

extern const struct hr__backend hr__backend_minimal;

static void conformance(void)
{
    hr_device dev = hr_device_open("minimal", hr_device_params(.threads = 2));

    CHECK(dev, "%s", hr_last_error());
    if (!dev)
        return;
    CHECK(dev->certificate.num_records == 1 && !strcmp(dev->name, "minimal"),
          "%d spans have a certificate", dev->certificate.num_records);
    for (int tier = 0; tier <= HR_FAST; tier++) {
        struct conformance c = conformance_run(dev, (enum hr_tier)tier,
                                               test_seed);

        CHECK(c.by_device > c.samples * 2 / 3 && !c.different && !c.refused &&
                  !c.fallbacks,
              "tier %d: %d of %d by the device, %d refused, %d different", tier,
              c.by_device, c.samples, c.refused, c.different);
    }
    hr_device_close(&dev);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {TEST_CASE(conformance)};

    hr__registry_add(&hr__backend_minimal);
    return test_main("minimal engine", cases, 1, argc, argv);
}
