// SPDX-License-Identifier: Apache-2.0
#include "import_env.h"

#include <dirent.h>
#include <dlfcn.h>

#include "backends/vaapi/vaapi.h"
#include "hal/job/work.h"

struct imports imports;

int imports_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    closedir(dir);
    return n;
}

struct fault_counts imports_now(void)
{
    struct fault_counts c;

    imports.ctl.counts(&c);
    return c;
}

hr_device imports_open(void)
{
    int ms = imports.deadline_ms ? imports.deadline_ms : IMPORTS_DEADLINE_MS;
    hr_device dev = hr_device_open(
        "vaapi+opencl:pocl",
        hr_device_params(.threads = 2, .deadline_ns = ms * TEST_MS));

    if (!dev) {
        fprintf(stderr, "%s: %s\n", imports.label, hr_last_error());
        exit(1);
    }
    return dev;
}

// Nothing is left: neither in the drivers, nor descriptors.
void imports_close(hr_device *dev, int fds)
{
    struct fault_counts c;

    hr_device_close(dev);
    vaapi_check_empty(imports.label);
    // The last job's thread may be the one that closes the device.
    for (int i = 0;
         i < 300 && ((c = imports_now()).live || imports_fds() != fds); i++)
        test_sleep(10 * TEST_MS);
    c = imports_now();
    CHECK(!c.live && !c.imported && !c.acquired && !c.misused,
          "%s: %d objects, %d imported, %d acquired, %d misused", imports.label,
          c.live, c.imported, c.acquired, c.misused);
    CHECK(imports_fds() == fds, "%s: %d descriptors, not %d", imports.label,
          imports_fds(), fds);
}

struct hr_engine_profile imports_engine(hr_device dev, int i)
{
    static struct hr_profile p;

    hr_device_profile(dev, &p);
    return p.engines[i];
}

long imports_read_back(void)
{
    struct va_driver_counters c = vaapi_counters();

    return c.calls[VA_DRIVER_GetImage] + c.calls[VA_DRIVER_DeriveImage];
}

// One job over the imports.scene. How many of its samples both engines made
// together.
int imports_run(int64_t most_ms)
{
    int64_t start = hr__now();
    struct watched w;
    int together = 0;

    scene_fill(&imports.scene);
    if (!watch_submit(&w, &imports.scene, NULL)) {
        CHECK(false, "%s: refused: %s", imports.label, hr_last_error());
        return 0;
    }
    CHECK(watch_wait(&w) == HR_OK, "%s: %s", imports.label,
          w.job->results[0].message);
    CHECK((hr__now() - start) / TEST_MS <= most_ms, "%s: took %d ms",
          imports.label, (int)((hr__now() - start) / TEST_MS));
    for (int i = 0; i < imports.scene.n; i++) {
        const struct hr_result *r = &w.job->results[i];

        CHECK(!r->status && scene_right(&imports.scene, i), "%s: sample %d: %s",
              imports.label, i, r->status ? r->message : "wrong pixels");
        together += r->num_spans == 2 &&
                    !strncmp(r->spans[0].device, "vaapi", 5) &&
                    !strncmp(r->spans[1].device, "opencl", 6);
    }
    watch_finish(&w);
    return together;
}

void imports_open_scene(int n)
{
    scene_init(&imports.scene, imports_open(), n, SCENE_BYTES);
}

void imports_close_scene(int fds)
{
    hr_device dev = imports.scene.dev;

    scene_finish(&imports.scene);
    imports_close(&dev, fds);
}

int imports_held(void)
{
    struct va *va = va_of(((struct hr__device *)imports.scene.dev)->engines[0]);
    int n;

    pthread_mutex_lock(&va->guard.lock);
    n = va_count_frames(va, VA_LENT) + va_count_frames(va, VA_HELD);
    pthread_mutex_unlock(&va->guard.lock);
    return n;
}

bool imports_init(const char *library)
{
    void *fault, *entry;
    void (*control)(struct fault_control *);
    hr_device dev = NULL;

    if (!vaapi_init())
        return false;
    fault = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    entry = fault ? dlsym(fault, "fault_control") : NULL;
    if (!entry) {
        test_not_run(dlerror());
        return false;
    }
    memcpy(&control, &entry, sizeof(entry));
    control(&imports.ctl);
    setenv("HEADRACE_OPENCL_LIBRARY", library, 1);
    setenv("POCL_CACHE_DIR", getenv("XDG_CACHE_HOME"), 0);
    // Once before anything is counted: drivers open files of their own. (A busy
    // machine may compile for longer than a device may take to open.)
    for (int i = 0; i < 4 && !dev; i++) {
        dev = hr_device_open("vaapi+opencl:pocl", NULL);
        if (!dev && test_is_absent()) {
            test_not_run(hr_last_error());
            return false;
        }
    }
    if (!dev)
        exit(1);
    hr_device_close(&dev);
    // An open that was too late finishes, keeps its program and closes.
    for (int i = 0; i < 12000 && imports_now().live; i++)
        test_sleep(10 * TEST_MS);
    return true;
}

void imports_check_steady(void)
{
    struct hr_stats before, after;
    int round;

    for (round = 0; round < 40; round++) {
        hr_device_stats(imports.scene.dev, &before);
        for (int i = 0; i < 5; i++)
            imports_run(20000);
        hr_device_stats(imports.scene.dev, &after);
        if (after.heap_allocations == before.heap_allocations)
            break;
    }
    CHECK(round < 40, "%d allocations in five jobs",
          (int)(after.heap_allocations - before.heap_allocations));
}

void imports_check_late(const struct fault_rule *r, int deadline_ms)
{
    int held;

    imports.ctl.set(r, 1);
    for (int k = 0; k < 5; k++)
        imports_run(5 * deadline_ms + 4000);
    held = imports_held();
    CHECK(held >= 1 && (!r->last || held <= IMPORTS_MADE), "%s: %d held",
          imports.label, held);
    printf("\n  %s: %d surfaces held ", imports.label, held);
    imports.ctl.set(NULL, 0);
    imports.ctl.release();
    test_sleep(50 * TEST_MS);
    CHECK(imports_held() == 0, "%s: %d still held", imports.label,
          imports_held());
}
