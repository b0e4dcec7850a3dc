// SPDX-License-Identifier: Apache-2.0
// hr_probe_submit(): the facts of hr_probe() and hr_probe_path(), as a job:
// never on the caller's thread, with an end, a status each, a time limit.
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "fake_engine.h"
#include "testing.h"

enum { N = 40 };

static hr_device dev;

// Files and bytes of every kind, good and bad ones; names live on.
static void fill(struct hr_sample *s, struct bytes *made, uint64_t *seed)
{
    static const uint8_t text[] = "This is no picture.";

    for (int i = 0; i < N; i++) {
        int w = 9 + random_below(seed, 90), h = 9 + random_below(seed, 90);

        if (i == 13)  // over the limit for files
            w = h = 200;
        made[i] = i % 4 == 1   ? test_png(w, h, seed)
                  : i % 4 == 2 ? test_damaged(w, h, seed)
                               : test_jpeg(w, h, seed);
        if (i % 10 == 9) {
            free(made[i].data);
            made[i].data = test_copy(text, sizeof(text));
            made[i].size = sizeof(text);
        }
        if (i % 10 == 4)
            made[i].size = 60;  // ends inside the header
        s[i] = (struct hr_sample){0};
        if (i % 2)
            s[i].path = test_file(&made[i], ".bin");
        else
            s[i] = (struct hr_sample){.data = made[i].data,
                                      .size = made[i].size,
                                      .name = "memory"};
    }
    s[1] = (struct hr_sample){.path = "/nowhere/picture.jpg"};
    s[5] = (struct hr_sample){.path = test_folder()};
}

static enum hr_status plainly(const struct hr_sample *s, struct hr_info *info)
{
    const struct hr_limits *limits = &dev->params.limits;

    return s->path ? hr_probe_path(s->path, limits, info)
                   : hr_probe(s->data, s->size, limits, info);
}

static void one_result(int i, const struct hr_sample *s,
                       const struct hr_info *info, const struct hr_result *r)
{
    struct hr_info want = {.orientation = 1};
    enum hr_status status = plainly(s, &want);
    char offset[40] = "";

    CHECK(r->status == status, "%d: %s: %s", i, hr_status_name(r->status),
          r->message);
    CHECK(!memcmp(info, &want, sizeof(want)), "%d: other facts", i);
    CHECK(r->width == want.width && r->height == want.height &&
              r->orientation == (want.width ? want.orientation : 0),
          "%d: %dx%d", i, r->width, r->height);
    CHECK(r->num_spans == 0 && r->fallbacks == 0 && !!r->message[0] == !!status,
          "%d: '%s'", i, r->message);
    if (!status)
        return;
    if (r->offset >= 0)
        snprintf(offset, sizeof(offset), "offset %lld: ", (long long)r->offset);
    CHECK(strstr(hr_last_error(), offset) &&
              strstr(r->message, s->path ? s->path : "memory: "),
          "%d: '%s' instead of '%s'", i, r->message, hr_last_error());
    // The reason is the same, behind path and offset.
    CHECK(strstr(r->message, strrchr(hr_last_error(), ':')) != NULL,
          "%d: '%s' instead of '%s'", i, r->message, hr_last_error());
}

TEST_CASE(facts)
{
    struct hr_sample s[N];
    struct bytes made[N];
    struct hr_info infos[N + 1];
    uint64_t seed = test_seed;
    int seen[2] = {0};
    struct hr_stats before, after;
    hr_job job;

    fill(s, made, &seed);
    memset(infos, 0x5a, sizeof(infos));
    hr_device_stats(dev, &before);
    job = hr_probe_submit(dev, s, N, infos,
                          hr_job_params(.on_error = HR_ON_ERROR_ZERO));
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    CU_ASSERT(job->device == dev && job->num_samples == N);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
    for (int i = 0; i < N; i++) {
        one_result(i, &s[i], &infos[i], &job->results[i]);
        seen[!job->results[i].status]++;
    }
    CHECK(seen[0] > 5 && seen[1] > 20, "%d bad, %d good", seen[0], seen[1]);
    for (size_t i = 0; i < sizeof(infos[N]); i++)
        CU_ASSERT_EQUAL(((uint8_t *)&infos[N])[i], 0x5a);
    hr_job_release(&job);
    CU_ASSERT_EQUAL(hr_wait_all(dev, HR_FOREVER), HR_OK);
    hr_device_stats(dev, &after);
    CU_ASSERT(after.samples == before.samples && after.jobs == before.jobs);
    CU_ASSERT_EQUAL(after.bytes_in_flight, 0);
    // As of every job, unless it says otherwise.
    job = hr_probe_submit(dev, s, N, infos, NULL);
    CU_ASSERT_FATAL(job != NULL);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_EIO);
    hr_job_release(&job);
    for (int i = 0; i < N; i++)
        free(made[i].data);
}

static hr_image large_image(void)
{
    return hr_image_create(dev,
                           hr_image_params(.w = 4500, .h = 4500, .c = 3,
                                           .dtype = HR_U8, .layout = HR_NHWC));
}

// A picture that keeps the only worker for a while.
static hr_job busy(hr_image src, hr_image out)
{
    static const struct hr_op ops[] = {HR_OP_RESIZE(.w = 4500, .h = 4500)};

    return hr_submit(
        dev,
        &(struct hr_sample){.image = src, .ops = ops, .num_ops = 1, .out = out},
        1, NULL, NULL);
}

TEST_CASE(elsewhere)
{
    uint64_t seed = test_seed;
    struct bytes jpeg = test_jpeg(50, 40, &seed);
    struct hr_sample s[N];
    struct hr_info infos[N];
    struct test_done done = {0};
    char path[256];
    long own = test_reads(), before;
    struct pollfd fd;
    hr_image src = test_image(dev, 64, 64, 3, &seed), out;
    hr_job first, job;

    own = test_reads() - own;
    for (int i = 0; i < N; i++)
        s[i] = (struct hr_sample){.path = test_file(&jpeg, ".jpg")};
    snprintf(path, sizeof(path), "%s", s[N - 1].path);
    s[N - 1].path = path;
    out = large_image();
    CU_ASSERT_FATAL((first = busy(src, out)) != NULL);
    before = test_reads();
    job = hr_probe_submit(dev, s, N, infos,
                          hr_job_params(.on_done = test_on_done, .ctx = &done));
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    // Samples and names are the caller's again.
    memset(path, 'x', sizeof(path) - 1);
    memset(s, 0x5a, sizeof(s));
    fd = (struct pollfd){.fd = hr_job_fd(job), .events = POLLIN};
    CU_ASSERT_EQUAL(poll(&fd, 1, 60000), 1);
    CU_ASSERT_EQUAL(hr_job_poll(job, 0), HR_OK);
    if (before < 0)
        test_not_run("no count of reads in /proc/thread-self/io");
    else
        CU_ASSERT_EQUAL(test_reads() - before - own, 0);
    CU_ASSERT_EQUAL(infos[N - 1].width, 50);
    CU_ASSERT_EQUAL(atomic_load(&done.calls), 1);
    CU_ASSERT_EQUAL(atomic_load(&done.status), HR_OK);
    CU_ASSERT(atomic_load(&done.on_library));
    hr_job_release(&job);
    hr_job_release(&first);
    hr_image_release(&out);
    hr_image_release(&src);
    free(jpeg.data);
}

enum { BUSY = 4 };

// Cancelled or timed out behind others, before any header was touched. False:
// they were done before that. (Timeouts are looked at every 20 ms.)
static bool stopped_as(enum hr_status want, hr_image src, const hr_image *out,
                       const struct hr_sample *s)
{
    hr_job first[BUSY], job;
    struct hr_info infos[N];
    bool in_time;

    for (int i = 0; i < BUSY; i++)
        CU_ASSERT_FATAL((first[i] = busy(src, out[i])) != NULL);
    memset(infos, 0x5a, sizeof(infos));
    job = hr_probe_submit(
        dev, s, N, infos,
        hr_job_params(.timeout_ns = want == HR_ETIMEDOUT ? TEST_MS : 0));
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    if (want == HR_ECANCELED)
        hr_job_cancel(job);
    in_time = hr_job_wait(job, HR_FOREVER) != HR_OK;
    if (in_time) {
        CU_ASSERT_EQUAL(hr_job_poll(job, 0), want);
        CU_ASSERT_EQUAL(job->results[N - 1].status, want);
        CU_ASSERT_EQUAL(infos[N - 1].width, 0x5a5a5a5a);
    }
    hr_job_release(&job);
    for (int i = 0; i < BUSY; i++) {
        hr_job_wait(first[i], HR_FOREVER);
        hr_job_release(&first[i]);
    }
    hr_wait_all(dev, HR_FOREVER);  // their bytes are the next ones'
    return in_time;
}

TEST_CASE(stopped)
{
    static const enum hr_status wanted[] = {HR_ETIMEDOUT, HR_ECANCELED};
    uint64_t seed = test_seed;
    struct bytes jpeg = test_jpeg(50, 40, &seed);
    struct hr_sample s[N];
    hr_image src = test_image(dev, 64, 64, 3, &seed), out[BUSY];

    for (int i = 0; i < N; i++)
        s[i] = (struct hr_sample){.data = jpeg.data, .size = jpeg.size};
    // Made before: else the worker is done with one while the next is made.
    for (int i = 0; i < BUSY; i++)
        out[i] = large_image();
    for (int i = 0; i < 2; i++) {
        bool in_time = false;

        for (int tries = 0; tries < 20 && !in_time; tries++)
            in_time = stopped_as(wanted[i], src, out, s);
        CHECK(in_time, "%s: never in time", hr_status_name(wanted[i]));
    }
    for (int k = 0; k < BUSY; k++)
        hr_image_release(&out[k]);
    hr_image_release(&src);
    free(jpeg.data);
}

TEST_CASE(refused)
{
    uint64_t seed = test_seed;
    struct bytes jpeg = test_jpeg(20, 10, &seed);
    hr_device small = test_device("cpu", 1, 4096);
    hr_image image = test_image(dev, 4, 4, 3, &seed);
    struct hr_sample s = {.data = jpeg.data, .size = jpeg.size}, many[9];
    struct hr_sample bad[] = {
        {.image = image},
        {.data = jpeg.data, .size = jpeg.size, .path = "a"},
        {.size = 9}};
    struct hr_info info[9];
    struct hr_stats stats;
    hr_job job;

    for (int i = 0; i < 3; i++) {
        CU_ASSERT_PTR_NULL(hr_probe_submit(dev, &bad[i], 1, info, NULL));
        CU_ASSERT_EQUAL(hr_last_status(), HR_EINVAL);
    }
    CU_ASSERT_PTR_NULL(hr_probe_submit(dev, &s, 1, NULL, NULL));
    CU_ASSERT_EQUAL(hr_last_status(), HR_EINVAL);
    CU_ASSERT_PTR_NULL(hr_probe_submit(dev, &s, 0, info, NULL));
    CU_ASSERT_PTR_NULL(hr_probe_submit(dev, NULL, 1, info, NULL));
    CU_ASSERT_PTR_NULL(hr_probe_submit(
        dev, &s, 1, info, hr_job_params(.on_error = (enum hr_on_error)9)));
    CU_ASSERT_EQUAL(hr_last_status(), HR_EINVAL);
    for (int i = 0; i < 9; i++)
        many[i] = s;
    // One goes into any budget, the next one must wait.
    job = hr_probe_submit(small, many, 9, info,
                          hr_job_params(.wait_for_room = true));
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    hr_device_stats(small, &stats);
    CU_ASSERT(stats.peak_bytes > 9 * sizeof(struct hr_result));
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
    CU_ASSERT_EQUAL(info[8].width, 20);
    hr_job_release(&job);
    hr_image_release(&image);
    hr_device_close(&small);
    free(jpeg.data);
}

// The host does it, whatever stands in front of it.
TEST_CASE(of_a_chain)
{
    hr_device cpu = dev;

    fake_reset_spans(FAKE_RS);
    dev = test_device("fake", 2, 0);
    facts();
    hr_device_close(&dev);
    dev = cpu;
}

int main(int argc, char **argv)
{
    int result;

    dev = hr_device_open("cpu",
                         hr_device_params(.threads = 1, .budget = 1u << 30,
                                          .limits = {.file_bytes = 40000}));
    result = test_main(argc, argv);
    hr_device_close(&dev);
    return result;
}
