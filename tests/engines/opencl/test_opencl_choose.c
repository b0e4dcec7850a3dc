// SPDX-License-Identifier: Apache-2.0
// The choice among many OpenCL devices by a name, and the message where none
// has the name. No driver is needed.
#include "backends/opencl/opencl.h"
#include "testing.h"

static struct ocl_facts facts[OCL_MAX_DEVICES];

static const char *refused(int n, const char *which)
{
    int chosen;

    CHECK(ocl_choose(facts, n, which, &chosen) == HR_ENODEVICE, "'%s' of %d",
          which, n);
    return hr_last_error();
}

static void name_all(int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        facts[i] = (struct ocl_facts){.index = i, .usable = true};
        snprintf(facts[i].name, sizeof(facts[i].name), "%s", name);
    }
}

// The names end at a whole one, with how many there are besides.
TEST_CASE(whole_names)
{
    static const char *const lengths[] = {
        "x", "a name",
        "cpu-skylake-avx512-Intel(R) Xeon(R) Processor @ 2.6 GHz",
        "a name that is exactly as long as whole names may be, 64 in all."};

    for (size_t k = 0; k < sizeof(lengths) / sizeof(*lengths); k++)
        for (int n = 1; n <= OCL_MAX_DEVICES; n++) {
            const char *said, *at;
            int listed = 0, more = 0;

            name_all(n, lengths[k]);
            said = refused(n, "nix");
            at = strstr(said, "there are: ");
            CHECK(at, "%s", said);
            for (at += strlen("there are: "); *at; listed++) {
                char item[128];

                snprintf(item, sizeof(item), "%d = %s", listed, lengths[k]);
                if (sscanf(at, " and %d more", &more) == 1) {
                    CHECK(!strcmp(strchr(at, 'm'), "more"), "%s", said);
                    break;
                }
                at += listed ? strlen(", ") : 0;
                CHECK(!strncmp(at, item, strlen(item)), "%d of %d in: %s",
                      listed, n, said);
                at += strnlen(at, strlen(item));
            }
            CHECK(listed >= 1 && listed + more == n, "%d + %d of %d: %s",
                  listed, more, n, said);
        }
}

// No name is too long for the sentence, whatever was asked for.
TEST_CASE(long_names)
{
    char long_name[OCL_TEXT], which[101];
    const char *said;

    memset(long_name, 'n', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    memset(which, 'w', sizeof(which) - 1);
    which[sizeof(which) - 1] = '\0';
    name_all(OCL_MAX_DEVICES, long_name);
    said = refused(OCL_MAX_DEVICES, which);
    CHECK(strstr(said, "nnn... and 15 more"), "%s", said);
    // As hr_device_open() says it, with the whole name before it.
    CHECK(strlen(said) <= 180, "%zu bytes", strlen(said));
}

TEST_CASE(names_mean)
{
    int chosen = -1;

    name_all(3, "a device");
    facts[2].type = CL_DEVICE_TYPE_GPU;
    CHECK(!ocl_choose(facts, 3, "", &chosen) && chosen == 2, "%d", chosen);
    CHECK(!ocl_choose(facts, 3, "1", &chosen) && chosen == 1, "%d", chosen);
    CHECK(!ocl_choose(facts, 3, "DEV", &chosen) && chosen == 2, "%d", chosen);
    facts[2].usable = false;
    CHECK(!ocl_choose(facts, 3, "dev", &chosen) && chosen == 0, "%d", chosen);
    refused(3, "3");
    refused(3, "2");
    CHECK(strstr(hr_last_error(), "not available"), "%s", hr_last_error());
}

// The form for GPUs is for them alone.
TEST_CASE(variants)
{
    CU_ASSERT(ocl_variant_of(CL_DEVICE_TYPE_GPU) == OCL_GPU);
    CU_ASSERT(ocl_variant_of(CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT) ==
              OCL_GPU);
    CU_ASSERT(ocl_variant_of(CL_DEVICE_TYPE_CPU) == OCL_STAGED);
    CU_ASSERT(ocl_variant_of(CL_DEVICE_TYPE_ACCELERATOR) == OCL_STAGED);
}
