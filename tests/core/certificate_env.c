// SPDX-License-Identifier: Apache-2.0
#include "certificate_env.h"

#include "cpu_fallback/jpeg/specimen.h"

#include <dirent.h>

const char *certificate_cache;
int certificate_files;

// Each is made 20 times, and a span may not have a part in all of those.
int certificate_least(void)
{
    return 12 * certificate_files;
}

// The linker gives these calls of cpu_specimen_make() to the other
// (CMakeLists.txt).
bool __real_cpu_specimen_make(int i, uint8_t *to, size_t capacity,
                              size_t *size);
bool __wrap_cpu_specimen_make(int i, uint8_t *to, size_t capacity,
                              size_t *size);
bool __wrap_cpu_specimen_make(int i, uint8_t *to, size_t capacity, size_t *size)
{
    return (i < certificate_files || i >= HR__SPECIMENS_LARGE) &&
           __real_cpu_specimen_make(i, to, capacity, size);
}

int certificate_file(char path[1024])
{
    char dir[512];
    const struct dirent *entry;
    int found = 0;
    DIR *d;

    path[0] = '\0';
    snprintf(dir, sizeof(dir), "%s/headrace", certificate_cache);
    if (!(d = opendir(dir)))
        return 0;
    while ((entry = readdir(d))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, 1024, "%s/%s", dir, entry->d_name);
        found++;
    }
    closedir(d);
    return found;
}

void certificate_forget(void)
{
    char path[1024];

    while (certificate_file(path))
        if (unlink(path)) {
            perror(path);
            abort();
        }
}

int certificate_open(hr_device *dev, const struct hr_device_params *params)
{
    int before = atomic_load(&fake_counts.begun);

    *dev = hr_device_open("fake", params);
    return atomic_load(&fake_counts.begun) - before;
}

int certificate_probes(void)
{
    auto_device dev = NULL;
    int n = certificate_open(&dev, NULL);

    CHECK(dev, "open: %s", hr_last_error());
    if (dev)
        CHECK(dev->certificate.tested && dev->caps.exact, "no certificate");
    return n;
}

const struct hr_certificate_record *certificate_of(hr_device dev, uint32_t bit)
{
    return hr__certificate_record(&dev->certificate, bit, HR_KIND_ALL);
}

int certificate_by_fake(hr_device dev, enum hr_tier tier,
                        enum scene_source source)
{
    static struct scene scene;
    struct watched w;
    int made = 0;

    scene_init(&scene, dev, 12, source);
    watch_submit(&w, &scene, hr_job_params(.tier = tier));
    CHECK(watch_wait(&w) == HR_OK, "tier %d", tier);
    CHECK(scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL) == 12, "right");
    for (int i = 0; i < 12; i++) {
        const struct hr_result *r = &w.job->results[i];
        bool fake = false;

        for (int k = 0; k < r->num_spans; k++)
            fake |= !strcmp(r->spans[k].device, dev->name);
        made += fake;
        CHECK(fake || r->why == HR_WHY_CERTIFICATE, "sample %d: why %#x", i,
              r->why);
        CHECK(r->fallbacks == 0, "sample %d changed engine", i);
    }
    watch_finish(&w);
    scene_finish(&scene);
    return made;
}

void certificate_right(const char *fingerprint)
{
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .tested = true,
               .fingerprint = fingerprint);
}

int certificate_main(int argc, char **argv)
{
    certificate_cache = test_folder();
    setenv("XDG_CACHE_HOME", certificate_cache, 1);
    setenv("POCL_CACHE_DIR", certificate_cache, 0);
    unsetenv("HEADRACE_CERTIFICATE");
    certificate_files = test_loops(cpu_specimen_count());
    return test_main(argc, argv);
}
