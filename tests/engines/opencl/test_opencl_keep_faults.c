// SPDX-License-Identifier: Apache-2.0
// What the device packs for caches, over a driver that fails or hangs while a
// batch packs and while its pictures are on their way: samples have the CPU's
// pixels, caches what hr_pack() makes or nothing, and nobody holds a cache that
// is done with. HEADRACE_TEST_LONG=1: every call with every code.
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/keep.h"
#include "hal/cache/store.h"
#include "opencl_faults.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(*(a))))

// ---- Steps of a case --------------------------------------------------------

// The device at hand; a fresh cache for each job, so that all its pictures are
// to be kept.
static hr_device dev;

static void wait_idle(void)
{
    struct ocl *o = opencl_private(dev);
    bool idle = false;

    for (int64_t begin = hr__now(); !idle && hr__now() - begin < 20 * SECOND;) {
        pthread_mutex_lock(&o->guard.lock);
        idle = ocl_keep_idle(o);
        pthread_mutex_unlock(&o->guard.lock);
        if (!idle)
            test_sleep(TEST_MS);
    }
    CHECK(idle, "%s: something is still on its way", faults.label);
}

// For how many samples there is something in it, which is right.
static int check_cache(hr_cache cache)
{
    int there = 0;

    for (int i = 0; i < faults.scene.n; i++) {
        const struct hr_sample *s = &faults.scene.samples[i];
        struct hr__cache_entry *entry;
        struct hr__cache_key key;
        void *packed;
        size_t size;

        hr__cache_key_data((struct hr__cache *)cache, &key, s->data, s->size);
        entry = hr__cache_find((struct hr__cache *)cache, &key);
        there += entry != NULL;
        if (entry && !hr_pack(s->data, s->size, NULL, &packed, &size)) {
            CHECK(entry->size == size && !memcmp(entry->data, packed, size),
                  "%s: sample %d is kept wrong", faults.label, i);
            hr_packed_free(packed);
        }
        hr__cache_drop(entry);
    }
    return there;
}

// The cache is nobody else's any more.
static void check_free(hr_cache cache)
{
    int refs = 0;

    for (int64_t begin = hr__now(); hr__now() - begin < 20 * SECOND;) {
        if ((refs = atomic_load(&((struct hr__cache *)cache)->refs)) == 1)
            break;
        test_sleep(TEST_MS);
    }
    CHECK(refs == 1, "%s: %d hold the cache", faults.label, refs - 1);
}

// How many pictures the device packed of a job; it may do so again.
static int run(void)
{
    hr_cache cache = hr_cache_create((size_t)16 << 20);
    struct hr_cache_stats stats;

    CU_ASSERT_PTR_NOT_NULL_FATAL(cache);
    hr_set_cache(cache);
    faults_run(10 * SECOND);
    wait_idle();
    hr_set_cache(NULL);
    hr_cache_stats(cache, &stats);
    CU_ASSERT(check_cache(cache) >= (int)stats.pictures);
    check_free(cache);
    hr_cache_release(&cache);
    atomic_store(&opencl_private(dev)->keeps->strikes, 0);
    return (int)stats.by_device;
}

static void open_scene(void)
{
    dev = faults_open_scene(10 * SECOND, SCENE_BYTES);
    CU_ASSERT_PTR_NOT_NULL_FATAL(opencl_private(dev)->keeps);
    for (int i = 0; i < 2; i++)
        CHECK(run() > 0, "the device packs nothing");
}

static void recovers(void)
{
    faults_calm();
    CHECK(run() > 0, "%s: the device did not recover: %#x", faults.label,
          faults.why);
}

// ---- Calls that fail --------------------------------------------------------

static void fail(int entry, int call, bool ever, cl_int code)
{
    faults_set(entry, call, ever, code);
    run();
    faults_hit(entry);
    recovers();
}

// Each call that a job with its way back makes, once or from then on.
static void failures(void)
{
    for (int discrete = 0; discrete < 2; discrete++) {
        int live = faults_now().live;
        struct fault_counts c;

        faults.ctl.discrete(discrete);
        open_scene();
        faults_calm();
        run();
        c = faults_now();
        CHECK(c.calls[FAULT_clEnqueueReadBuffer] > 0, "nothing was read");
        for (int entry = 0; entry < FAULT_ENTRIES; entry++) {
            int n = c.calls[entry], step = faults.all || n < 4 ? 1 : n / 3;

            for (int call = 1; call <= n; call += step)
                for (int i = 0; i < (faults.all ? faults_num_codes(entry) : 1);
                     i++)
                    fail(entry, call, call % 2,
                         faults_codes[entry]
                                     [faults.all
                                          ? i
                                          : call % faults_num_codes(entry)]);
        }
        faults_close(&dev, live);
    }
    faults.ctl.discrete(false);
    printf("\n  %d cases so far ", faults.cases);
}

// The way back fails when it has begun; three times, and the host packs.
static void events(void)
{
    struct fault_rule r = faults_rule(FAULT_clSetEventCallback, 1, true,
                                      FAULT_EVENT, CL_OUT_OF_RESOURCES);
    struct fault_rule read = faults_rule(FAULT_clEnqueueReadBuffer, 1, true,
                                         FAULT_FAIL, CL_OUT_OF_RESOURCES);
    int live = faults_now().live;
    hr_cache cache = hr_cache_create((size_t)16 << 20);
    struct hr_cache_stats stats;

    faults.ctl.discrete(false);
    open_scene();
    for (int first = 1; first < 5; first++) {
        snprintf(faults.label, sizeof(faults.label), "callbacks from %d on",
                 first);
        r.first = first;
        faults.ctl.set(&r, 1);
        run();
        recovers();
    }
    snprintf(faults.label, sizeof(faults.label), "nothing is read");
    faults.ctl.set(&read, 1);
    hr_set_cache(cache);
    for (int i = 0; i < 3; i++) {
        faults_run(10 * SECOND);
        wait_idle();
    }
    CHECK(!ocl_keep_on(opencl_private(dev)), "%d strikes",
          atomic_load(&opencl_private(dev)->keeps->strikes));
    faults_run(10 * SECOND);
    hr_cache_stats(cache, &stats);
    CHECK(stats.pictures > 0 && !stats.by_device, "%d kept, %d by the device",
          (int)stats.pictures, (int)stats.by_device);
    hr_set_cache(NULL);
    faults_close(&dev, live);
    check_free(cache);
    hr_cache_release(&cache);
}

// ---- Calls that hang --------------------------------------------------------

// The driver does not come back from reading; then it does.
static void hang(void)
{
    struct fault_rule r = faults_rule(FAULT_clEnqueueReadBuffer, 1, false,
                                      FAULT_HANG, 0);
    int live = faults_now().live;
    hr_cache cache = hr_cache_create((size_t)16 << 20);

    open_scene();
    snprintf(faults.label, sizeof(faults.label), "reading hangs");
    // (A second batch would wait behind that call, as long as it may.)
    faults.scene.n = 1;
    hr_set_cache(cache);
    faults.ctl.set(&r, 1);
    faults_run(10 * SECOND);
    while (!faults_now().hung)
        test_sleep(TEST_MS);
    faults.ctl.release();
    wait_idle();
    CU_ASSERT(check_cache(cache) > 0);
    hr_set_cache(NULL);
    faults_calm();
    faults_close(&dev, live);
    check_free(cache);
    hr_cache_release(&cache);
}

// What was read is never said to be there, or too late: closing is bounded, and
// nobody holds the cache.
static void late(void)
{
    for (int i = 0; i < 2; i++) {
        struct fault_rule r = faults_rule(FAULT_clSetEventCallback, 2, true,
                                          i ? FAULT_SILENT : FAULT_LATE, 0);
        hr_cache cache = hr_cache_create((size_t)16 << 20);
        struct fault_counts c;

        open_scene();
        snprintf(faults.label, sizeof(faults.label), "reading is %s",
                 i ? "silent" : "late");
        // All pictures in one batch, whose callback is the first.
        faults.scene.n = 1;
        hr_set_cache(cache);
        faults.ctl.set(&r, 1);
        faults_run(10 * SECOND);
        do {
            c = faults_now();
            test_sleep(TEST_MS);
        } while (c.calls[FAULT_clSetEventCallback] < 2);
        hr_set_cache(NULL);
        scene_finish(&faults.scene);
        hr_device_close(&dev);
        check_free(cache);
        hr_cache_release(&cache);
        faults.ctl.release();
    }
    faults_calm();
    test_hung(8);
}

int main(int argc, char **argv)
{
    static const struct test_case table[] = {
        TEST_CASE(failures),
        TEST_CASE(events),
        TEST_CASE(hang),
        TEST_CASE(late),
    };

    setenv("HEADRACE_OPENCL_ENTROPY", "device", 1);
    return faults_main("opencl keep faults", HR_FAULT_LIBRARY, table,
                       COUNT(table), argc, argv);
}
