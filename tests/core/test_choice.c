// SPDX-License-Identifier: Apache-2.0
// Who decodes entropy coding: which record stands for a picture, what records
// say that were not timed; that a device is given files as they say, and that
// what was timed is kept for who it was timed for, and nobody else.
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_engine.h"
#include "hal/trust/trust.h"
#include "testing.h"

enum { SMALL, MIDDLE, LARGE, K444 = 0, K420 = 3 };

static const char *cache;
static int calls;  // of who tells times

static int at(int size, int kind, int count)
{
    return 6 * size + kind + count;
}

static struct hr_entropy_choice grid(void)
{
    static const int sizes[3][2] = {{100, 100}, {400, 400}, {1600, 1600}};
    static const int counts[] = {1, 8, 64};
    struct hr_entropy_choice c = {.num_records = HR_ENTROPY_RECORDS};

    for (int i = 0; i < HR_ENTROPY_RECORDS; i++)
        c.records[i] = (struct hr_entropy_record){.width = sizes[i / 6][0],
                                                  .height = sizes[i / 6][1],
                                                  .kind = i / 3 % 2
                                                              ? HR_KIND_420
                                                              : HR_KIND_444,
                                                  .samples = counts[i % 3]};
    return c;
}

// ---- Which record ----------------------------------------------------------

static void nearest(void)
{
    static const struct {
        int w, h, kind, samples, record;
    } table[] = {
        {1, 1, HR_KIND_444, 0, 0},
        {100, 100, HR_KIND_444, 1, 0},
        {200, 200, HR_KIND_444, 2, 0},
        {200, 201, HR_KIND_444, 3, 7},
        {400, 400, HR_KIND_420, 22, 10},
        {400, 400, HR_KIND_420, 23, 11},
        {800, 800, HR_KIND_444, 64, 8},
        {801, 800, HR_KIND_444, 64, 14},
        {65535, 65535, HR_KIND_422, 1 << 20, 17},
        {500, 375, HR_KIND_GRAY, 8, 10},
        {500, 375, -1, 8, 10},
    };
    struct hr_entropy_choice c = grid();

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        int got = hr__choice_of(&c, table[i].w, table[i].h, table[i].kind,
                                table[i].samples);

        CHECK(got == table[i].record, "%dx%d, kind %d, %d: %d, not %d",
              table[i].w, table[i].h, table[i].kind, table[i].samples, got,
              table[i].record);
    }
}

static void untimed(void)
{
    struct hr_entropy_choice c = grid();

    CHECK(!hr__choice_decide(&c), "nothing was timed");
    c.records[at(MIDDLE, K444, 2)].host_ns = 10;
    c.records[at(MIDDLE, K444, 2)].device_ns = 9;
    CHECK(hr__choice_decide(&c), "one was");
    for (int i = 0; i < HR_ENTROPY_RECORDS; i++)
        CHECK(c.records[i].device, "%d: by the only one", i);
    // A tie is the host's. Others go by their size, their sampling, their
    // number, in that order.
    c.records[at(MIDDLE, K444, 0)].host_ns = 5;
    c.records[at(MIDDLE, K444, 0)].device_ns = 5;
    c.records[at(LARGE, K420, 0)].host_ns = 1;
    c.records[at(LARGE, K420, 0)].device_ns = 2;
    CHECK(hr__choice_decide(&c), "three were");
    CHECK(!c.records[at(MIDDLE, K444, 0)].device, "a tie");
    CHECK(c.records[at(MIDDLE, K444, 2)].device, "the faster one");
    CHECK(c.records[at(MIDDLE, K420, 2)].device, "another sampling");
    CHECK(!c.records[at(MIDDLE, K420, 0)].device, "another sampling, a tie");
    CHECK(c.records[at(SMALL, K420, 2)].device, "a smaller one");
    CHECK(!c.records[at(LARGE, K444, 2)].device, "of that size");
    c.records[3].width = 0;
    CHECK(!hr__choice_decide(&c), "a record is missing");
}

// ---- What a device gets ----------------------------------------------------

// Of 4:4:4 and the middle size with many in flight, and of nothing else.
static int64_t for_many(const struct hr_entropy_record *r, bool device)
{
    calls++;
    return device && r->width > 400 && r->width < 1000 && r->samples > 8 &&
                   r->kind == HR_KIND_444
               ? 100
           : device ? 300
                    : 200;
}

static int64_t never(const struct hr_entropy_record *r, bool device)
{
    (void)r;
    calls++;
    return device ? 300 : 200;
}

static int64_t fails(const struct hr_entropy_record *r, bool device)
{
    (void)r;
    (void)device;
    calls++;
    return -1;
}

// After the first record.
static int64_t breaks(const struct hr_entropy_record *r, bool device)
{
    (void)r;
    return ++calls > 2 ? -1 : device ? 100 : 200;
}

static void forget(void)
{
    char path[1024];
    struct dirent *entry;
    DIR *d;

    snprintf(path, sizeof(path), "%s/headrace", cache);
    if (!(d = opendir(path)))
        return;
    while ((entry = readdir(d))) {
        snprintf(path, sizeof(path), "%s/headrace/%s", cache, entry->d_name);
        if (entry->d_name[0] != '.' && unlink(path))
            abort();
    }
    closedir(d);
}

static hr_device open_fake(int threads)
{
    hr_device dev;

    calls = 0;
    dev = hr_device_open("fake", hr_device_params(.threads = threads));
    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    return dev;
}

static void script(int64_t (*ns)(const struct hr_entropy_record *, bool))
{
    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS | FAKE_RS),
                                     .chooses = true});
    hr__test_choice(ns, 60000 * TEST_MS);
}

// Of n such pictures in one job, how many the fake engine made from their
// first bit on.
static int decoded(hr_device dev, int w, int h, int factors, int n)
{
    // For races smaller ones, of which 500 x 375 is still the nearest.
    bool smaller = test_races_only() && w == 500;
    const struct jpeg_spec spec = {.w = smaller ? 400 : w,
                                   .h = smaller ? 300 : h,
                                   .space = JCS_YCbCr,
                                   .factors = {(uint8_t)factors},
                                   .quality = 50};
    const struct hr_op ops[] = {hr_op_decode(0), hr_op_resize(.w = 8, .h = 8)};
    struct hr_sample samples[64];
    uint64_t seed = test_seed;
    struct bytes b = test_jpeg_of(&spec, &seed);
    hr_batch batch = hr_batch_create(dev, hr_batch_params(.n = n, .c = 3,
                                                          .h = 8, .w = 8));
    int count = 0;
    hr_job job;

    CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
    for (int i = 0; i < n; i++)
        samples[i] = (struct hr_sample){
            .data = b.data, .size = b.size, .ops = ops, .num_ops = 2};
    job = hr_submit(dev, samples, n, batch, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
    for (int i = 0; i < n; i++) {
        const struct hr_result *r = &job->results[i];

        CHECK(!r->status && !r->why && !r->fallbacks, "%d: %s", i, r->message);
        count += r->num_spans == 1 && !strncmp(r->spans[0].device, "fake", 4);
    }
    hr_job_release(&job);
    hr_batch_destroy(&batch);
    free(b.data);
    return count;
}

static void given(void)
{
    hr_device dev;
    int n;

    forget();
    script(for_many);
    dev = open_fake(1);
    // (Of the largest fewer are timed.)
    CHECK(calls == 32, "%d calls", calls);
    CHECK(dev->entropy.measured > 0 &&
              dev->entropy.num_records == HR_ENTROPY_RECORDS,
          "%d records", dev->entropy.num_records);
    CHECK(dev->caps.spans[HR_EXACT] == (FAKE_DRS | FAKE_RS), "%x",
          dev->caps.spans[HR_EXACT]);
    CHECK(decoded(dev, 500, 375, 0x11, 8) == 0, "few");
    n = decoded(dev, 500, 375, 0x11, 64);
    CHECK(n == 64, "%d of 64", n);
    CHECK(decoded(dev, 500, 375, 0x22, 64) == 0, "another sampling");
    CHECK(decoded(dev, 160, 120, 0x11, 64) == 0, "smaller");
    hr_device_close(&dev);
}

// A span that no picture would get is not offered, and nothing is said of it.
static void all_by_host(void)
{
    hr_device dev;

    forget();
    script(never);
    dev = open_fake(1);
    CHECK(calls == 32 && dev->entropy.measured, "%d calls", calls);
    CHECK(dev->caps.spans[HR_EXACT] == FAKE_RS, "%x",
          dev->caps.spans[HR_EXACT]);
    CHECK(decoded(dev, 500, 375, 0x11, test_races_only() ? 16 : 64) == 0,
          "by the host");
    hr_device_close(&dev);
}

// Of both ways 1000 s and 2000 s a picture.
static int64_t slowly(const struct hr_entropy_record *r, bool device)
{
    (void)r;
    return (device ? 1000000 : 2000000) * TEST_MS;
}

static int held(hr_device pub, enum hr__place place)
{
    struct hr__device *dev = (struct hr__device *)(uintptr_t)pub;
    int n;

    pthread_mutex_lock(&dev->lock);
    n = dev->divide.counts[place];
    pthread_mutex_unlock(&dev->lock);
    return n;
}

static void *open_gate(void *arg)
{
    const hr_device dev = arg;

    while (held(dev, HR__WHOLE) + held(dev, HR__REST) < 16)
        sched_yield();
    fake_gate_open();
    return NULL;
}

// The device stands still: the host tries one, which then waits for the device,
// too; the device has twice what it does together; the host gets all others.
static void shared(void)
{
    enum { W = 500, H = 375, TOGETHER = 2 };
    pthread_t thread;
    hr_device dev;
    int n;

    forget();
    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS | FAKE_RS),
                                     .divides = true,
                                     .batch = TOGETHER,
                                     .gate = true});
    hr__test_choice(slowly, 60000 * TEST_MS);
    dev = open_fake(1);
    CHECK(dev->caps.spans[HR_EXACT] == (FAKE_DRS | FAKE_RS), "%x",
          dev->caps.spans[HR_EXACT]);
    CU_ASSERT(
        !pthread_create(&thread, NULL, open_gate, (void *)(uintptr_t)dev));
    n = decoded(dev, W, H, 0x11, 16);
    pthread_join(thread, NULL);
    CHECK(n == 2 * TOGETHER - 1, "%d of 16", n);
    for (int i = HR__WHOLE; i < HR__PLACES; i++)
        CHECK(!held(dev, (enum hr__place)i), "%d are left", i);
    hr_device_close(&dev);
}

// As it is without a wish to choose.
static void not_asked(void)
{
    hr_device dev;

    script(never);
    fake_reset_spans(FAKE_DRS | FAKE_RS);
    dev = open_fake(1);
    CHECK(!calls && !dev->entropy.measured, "%d calls", calls);
    CHECK(decoded(dev, 500, 375, 0x11, 4) == 4, "by the device");
    hr_device_close(&dev);
}

// Behind another engine nobody has timed it.
static void behind_another(void)
{
    hr_device dev;

    forget();
    script(for_many);
    calls = 0;
    dev = hr_device_open("fake+fake", hr_device_params(.threads = 1));
    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    CHECK(((struct hr__device *)(uintptr_t)dev)->choosing == 3, "both");
    hr_device_close(&dev);
}

// ---- What is kept ----------------------------------------------------------

static bool choice_file(char path[1024])
{
    struct dirent *entry;
    bool found = false;
    DIR *d;

    snprintf(path, 1024, "%s/headrace", cache);
    if (!(d = opendir(path)))
        return false;
    while ((entry = readdir(d)) && !found)
        if (!strncmp(entry->d_name, "choice-", 7)) {
            snprintf(path, 1024, "%s/headrace/%s", cache, entry->d_name);
            found = true;
        }
    closedir(d);
    return found;
}

static int timed(int threads)
{
    hr_device dev = open_fake(threads);
    const struct hr_entropy_choice *c = &dev->entropy;

    CHECK(c->measured > 0 && c->records[8].device && !c->records[7].device &&
              c->records[8].device_ns == 100 && c->records[7].host_ns == 200,
          "the same");
    CHECK(!c->records[14].host_ns && !c->records[14].device,
          "as the one with fewer says");
    hr_device_close(&dev);
    return calls;
}

static void kept(void)
{
    static char text[8192], path[1024];
    size_t size;
    char *digit;

    forget();
    script(for_many);
    CHECK(timed(1) > 0 && !timed(1), "kept");
    CHECK(timed(2) > 0 && !timed(2) && !timed(1), "of another host");
    setenv("HEADRACE_CERTIFICATE", "again", 1);
    CHECK(timed(1) > 0, "again");
    unsetenv("HEADRACE_CERTIFICATE");
    forget();
    CHECK(timed(1) > 0 && choice_file(path), "its file");
    size = test_read(path, text, sizeof(text));
    // Cut, empty, of a digit more, of another version, of another device.
    test_write(path, text, size - 1);
    CHECK(timed(1) > 0 && !timed(1), "cut");
    test_write(path, text, 0);
    CHECK(timed(1) > 0 && !timed(1), "empty");
    digit = strstr(text, "\nrecord ") + 8;
    digit[0] ^= 1;
    test_write(path, text, size);
    CHECK(timed(1) > 0 && !timed(1), "another digit");
    digit[0] ^= 1;
    strstr(text, "choice 1")[7] = '0';
    test_write(path, text, size);
    CHECK(timed(1) > 0 && !timed(1), "another version");
    strstr(text, "choice 0")[7] = '1';
    digit = strstr(text, "scripted");
    digit[0] ^= 1;
    test_write(path, text, size);
    CHECK(timed(1) > 0 && !timed(1), "another device");
}

static void broken(void)
{
    hr_device dev;
    char path[1024];

    forget();
    script(fails);
    for (int i = 0; i < 2; i++) {
        dev = open_fake(1);
        CHECK(calls && !dev->entropy.measured && !dev->entropy.num_records,
              "%d calls", calls);
        CHECK(dev->caps.spans[HR_EXACT] == FAKE_RS, "%x",
              dev->caps.spans[HR_EXACT]);
        CHECK(decoded(dev, 500, 375, 0x11, 4) == 0, "by the host");
        hr_device_close(&dev);
    }
    CHECK(!choice_file(path), "it was kept");
    // What was timed before does not count.
    script(breaks);
    for (int i = 0; i < 2; i++) {
        dev = open_fake(1);
        CHECK(calls == 4 && !dev->entropy.measured, "%d calls", calls);
        CHECK(decoded(dev, 500, 375, 0x11, 4) == 0, "by the host");
        hr_device_close(&dev);
    }
    CHECK(!choice_file(path), "it was kept");
}

// ---- By the clock ----------------------------------------------------------

// A device that takes 3 ms for each file loses, in a bounded time; the user's
// counters do not know of it.
static void by_the_clock(void)
{
    const struct hr_entropy_record *r;
    struct hr_stats stats;
    hr_device dev;

    // Where others have the processor it takes longer until there is a result.
    for (int ms = 20;; ms *= 2) {
        forget();
        fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS | FAKE_RS),
                                         .chooses = true,
                                         .delay_ns = 3 * TEST_MS});
        hr__test_choice(NULL, ms * TEST_MS);
        dev = open_fake(2);
        r = &dev->entropy.records[at(MIDDLE, K444, 1)];
        if (ms > 2000 || (dev->entropy.measured > 0 && r->host_ns))
            break;
        hr_device_close(&dev);
    }
    CHECK(dev->entropy.measured > 0 && r->samples == 8, "measured");
    // All of them would take many times as long.
    CHECK(!dev->entropy.records[at(LARGE, K420, 1)].host_ns,
          "there was time for all");
    CHECK(r->host_ns > 3 * TEST_MS && r->device_ns > 3 * TEST_MS,
          "%d, %d us per picture", (int)(r->host_ns / 1000),
          (int)(r->device_ns / 1000));
    hr_device_stats(dev, &stats);
    CHECK(!stats.jobs && !stats.samples && !stats.bytes_in_flight, "%d jobs",
          (int)stats.jobs);
    hr_device_close(&dev);
    // Its samples fail: it is not chosen, and the device opens.
    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS | FAKE_RS),
                                     .chooses = true,
                                     .fail_from = 1,
                                     .fail_to = 9,
                                     .fail_status = HR_EDEVICE});
    forget();
    dev = open_fake(2);
    CHECK(!dev->entropy.measured, "measured");
    CHECK(dev->caps.spans[HR_EXACT] == FAKE_RS, "%x",
          dev->caps.spans[HR_EXACT]);
    hr_device_close(&dev);
    hr__test_choice(NULL, 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(nearest),   TEST_CASE(untimed),     TEST_CASE(given),
        TEST_CASE(not_asked), TEST_CASE(all_by_host), TEST_CASE(behind_another),
        TEST_CASE(kept),      TEST_CASE(broken),      TEST_CASE(by_the_clock),
        TEST_CASE(shared),
    };

    cache = test_folder();
    setenv("XDG_CACHE_HOME", cache, 1);
    unsetenv("HEADRACE_CERTIFICATE");
    return test_main("choice", cases, sizeof(cases) / sizeof(*cases), argc,
                     argv);
}
