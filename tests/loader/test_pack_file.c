// SPDX-License-Identifier: Apache-2.0
// Pack files: samples come out as they went in, by index and by name, to many
// threads and of many pictures; invalid samples are refused; pixels are those
// of the files.
#include <sys/stat.h>

#include "pack_data.h"

// ---- What goes in comes out ------------------------------------------------

static void same_entry(hr_pack_file file, size_t i, const struct pack_datum *d)
{
    struct hr_pack_entry e;
    size_t found;

    if (hr_pack_entry(file, i, &e) != HR_OK) {
        CHECK(false, "entry %zu: %s", i, hr_last_error());
        return;
    }
    CHECK(!strcmp(e.name, d->name) && !strcmp(e.label, d->label), "%zu: names",
          i);
    CHECK(e.size == d->entry.size && e.source == d->file.size &&
              e.packed == d->entry.packed,
          "%zu: sizes", i);
    CHECK(!memcmp(e.data, d->entry.data, e.size), "%zu: data", i);
    CHECK((uintptr_t)e.data % 64 == 0, "%zu: alignment", i);
    CHECK(hr_pack_find(file, d->name, strlen(d->name), &found) == HR_OK &&
              found == i,
          "%zu is not found", i);
}

static void same_sample(hr_pack_file file, size_t i, const struct pack_datum *d,
                        bool first)
{
    struct hr_sample s = {.path = "x", .num_ops = 7, .verified = true};

    CHECK(hr_pack_sample(file, i, &s) == HR_OK &&
              s.verified == (!first && d->entry.packed),
          "%zu: not checked yet", i);
    s = (struct hr_sample){.path = "x", .num_ops = 7, .verified = true};
    CHECK(!hr_pack_check(file, i) && !hr_pack_sample(file, i, &s), "%zu: %s", i,
          hr_last_error());
    CHECK(!s.path && !s.image && s.num_ops == 7, "%zu: what is set", i);
    CHECK(s.size == d->entry.size && !memcmp(s.data, d->entry.data, s.size),
          "%zu: data", i);
    CHECK(!strcmp(s.name, d->name) && s.verified == d->entry.packed,
          "%zu: name, verified", i);
}

static void round_trip_of(int n)
{
    const char *path = pack_path("round.hrp");
    uint64_t sums[2] = {0}, packed = 0;
    hr_pack_file file;
    struct stat st;

    CHECK(pack_data_write(path, n, test_seed), "%s", hr_last_error());
    file = hr_pack_open(path);
    CHECK(file != NULL, "%s", hr_last_error());
    if (!file)
        return;
    CHECK(file->num == (size_t)n && file->version == 1, "%zu", file->num);
    // From the end, so that no order of reading is needed.
    for (int i = n - 1; i >= 0; i--) {
        struct pack_datum d;

        pack_datum_make(&d, i, test_seed);
        same_entry(file, (size_t)i, &d);
        same_sample(file, (size_t)i, &d, true);
        same_sample(file, (size_t)i, &d, false);
        sums[0] += d.entry.size;
        sums[1] += d.file.size;
        packed += d.entry.packed;
        pack_datum_finish(&d);
    }
    CHECK(file->data_bytes == sums[0] && file->source_bytes == sums[1] &&
              file->packed == packed,
          "sums");
    CHECK(n < PACK_SORTS || (packed && packed < (uint64_t)n), "both sorts");
    CHECK(!stat(path, &st) && file->bytes == (uint64_t)st.st_size, "bytes");
    CHECK(hr_pack_entry(file, SIZE_MAX, NULL) == HR_EINVAL, "nor that");
    CHECK(hr_pack_sample(file, (size_t)n, &(struct hr_sample){0}) == HR_EINVAL,
          "nor so");
    hr_pack_passed(file, (size_t)n + 9);
    hr_pack_close(&file);
    CHECK(!file, "closed");
}

TEST_CASE(round_trip)
{
    round_trip_of(0);
    round_trip_of(1);
    round_trip_of(2);
    round_trip_of(test_loops(100));
}

TEST_CASE(absent_names)
{
    static const char *const names[] = {
        "", "n", "n00000.jp", "n00000.jpgx", "zzz", "\xff\xff", "a/b/1.png/",
    };
    const char *path = pack_path("names.hrp");
    hr_pack_file file;
    size_t i = 77;

    pack_data_write(path, 20, test_seed);
    file = hr_pack_open(path);
    for (size_t k = 0; file && k < sizeof(names) / sizeof(*names); k++)
        CHECK(hr_pack_find(file, names[k], strlen(names[k]), &i) == HR_EINVAL,
              "'%s' is found", names[k]);
    CHECK(file && hr_pack_find(file, "n00000.jpgx", 10, &i) == HR_OK && i == 0,
          "a length");
    CHECK(file && hr_pack_find(file, "n00000.jpg\0", 11, &i) == HR_EINVAL,
          "a zero byte");
    hr_pack_close(&file);
}

// ---- What a writer refuses -------------------------------------------------

static void refuses(hr_pack_writer w, const char *name, const char *label,
                    bool packed)
{
    struct hr_pack_entry e = {
        .name = name, .label = label, .data = "x", .size = 1, .packed = packed};
    uint64_t before = w->bytes;

    CHECK(hr_pack_writer_add(w, &e) == HR_EINVAL, "'%.40s' is taken",
          name ? name : "NULL");
    CHECK(w->num == 1 && w->bytes == before, "something was added");
}

TEST_CASE(refused)
{
    static const char *const names[] = {
        "",     "/a",     "a/",  "a//b", ".",     "..", "../a",
        "a/..", "a/../b", "./a", "a/.",  "a/./b", "/",
    };
    const char *path = pack_path("refused.hrp");
    hr_pack_writer w = hr_pack_writer_open(path);
    char text[5000];

    CHECK(w && hr_pack_writer_add(w, &(struct hr_pack_entry){.name = "...",
                                                             .label = ""}) ==
                   HR_OK,
          "%s", hr_last_error());
    if (!w)
        return;
    memset(text, 'x', sizeof(text));
    text[4096] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        refuses(w, names[i], "", false);
    refuses(w, text, "", false);
    refuses(w, "b", text, false);
    refuses(w, "...", "", false);
    refuses(w, NULL, "", false);
    refuses(w, "b", NULL, false);
    refuses(w, "b", "", true);
    CHECK(hr_pack_writer_add(w, &(struct hr_pack_entry){.name = "b",
                                                        .label = "",
                                                        .size = 1}) ==
              HR_EINVAL,
          "no data");
    text[4095] = '\0';
    CHECK(hr_pack_writer_add(
              w, &(struct hr_pack_entry){.name = text, .label = text}) == HR_OK,
          "%s", hr_last_error());
    CHECK(hr_pack_writer_finish(w) == HR_OK, "%s", hr_last_error());
    CHECK(hr_pack_writer_finish(w) == HR_EINVAL, "twice");
    CHECK(hr_pack_writer_add(w, &(struct hr_pack_entry){.name = "c",
                                                        .label = ""}) ==
              HR_EINVAL,
          "behind its end");
    hr_pack_writer_close(&w);
    hr_pack_writer_close(&w);
    hr_pack_writer_close(NULL);
    hr_pack_close(NULL);
}

// ---- Pixels ----------------------------------------------------------------

static hr_batch run(hr_device dev, const struct hr_sample *samples, int n,
                    enum hr_status *statuses)
{
    hr_batch batch = hr_batch_create(dev, hr_batch_params(.n = n, .c = 3,
                                                          .h = 20, .w = 24));
    auto_job job = hr_submit(dev, samples, n, batch,
                             hr_job_params(.on_error = HR_ON_ERROR_ZERO));

    if (!job) {
        CHECK(false, "%s", hr_last_error());
        return batch;
    }
    hr_job_wait(job, HR_FOREVER);
    for (int i = 0; i < n; i++)
        statuses[i] = job->results[i].status;
    return batch;
}

// The job checks pictures that were not checked; no picture is checked twice.
static void unchecked(hr_device dev, hr_pack_file file,
                      struct hr_sample *samples)
{
    hr_pack_file again = hr_pack_open(file->path);
    enum hr_status status;
    hr_batch batch;

    CHECK(again && !hr_pack_sample(again, 0, samples) && !samples->verified,
          "checked before");
    batch = run(dev, samples, 1, &status);
    CHECK(status == HR_OK, "%s", hr_status_name(status));
    hr_pack_passed(again, 0);
    CHECK(!hr_pack_sample(again, 0, samples) && samples->verified &&
              !hr_pack_sample(again, 4, samples) && !samples->verified,
          "it has passed");
    hr_batch_destroy(&batch);
    hr_pack_close(&again);
}

TEST_CASE(pixels)
{
    enum { N = 16 };
    const struct hr_op ops[] = {
        hr_op_decode(0),
        hr_op_random_resized_crop(.w = 24, .h = 20),
        hr_op_random_flip(.horizontal = .5),
        hr_op_normalize(.mean = {.4f}, .std = {.2f, .2f, .2f}),
    };
    struct hr_sample from_files[N], from_pack[N];
    enum hr_status file_status[N], pack_status[N];
    struct pack_datum data[N];
    hr_device dev = test_device("cpu", 2, 0);
    const char *path = pack_path("pixels.hrp");
    hr_pack_file file;
    hr_batch a, b;
    int ok = 0;

    CHECK(pack_data_write(path, N, test_seed), "%s", hr_last_error());
    file = hr_pack_open(path);
    for (int i = 0; i < N; i++) {
        pack_datum_make(&data[i], i, test_seed);
        from_files[i] = (struct hr_sample){.ops = ops,
                                           .num_ops = 4,
                                           .random = {.seed = 5,
                                                      .index = (uint64_t)i}};
        from_pack[i] = from_files[i];
        from_files[i].data = data[i].file.data;
        from_files[i].size = data[i].file.size;
        CHECK(!hr_pack_check(file, (size_t)i) &&
                  !hr_pack_sample(file, (size_t)i, &from_pack[i]),
              "%d: %s", i, hr_last_error());
    }
    a = run(dev, from_files, N, file_status);
    b = run(dev, from_pack, N, pack_status);
    unchecked(dev, file, from_pack);
    for (int i = 0; i < N; i++) {
        CHECK(file_status[i] == pack_status[i], "%d: %s, %s", i,
              hr_status_name(file_status[i]), hr_status_name(pack_status[i]));
        ok += file_status[i] == HR_OK;
        pack_datum_finish(&data[i]);
    }
    CHECK(ok >= N / 2, "%d made", ok);
    CHECK(!memcmp(a->params.data, b->params.data, N * a->params.stride_n),
          "pixels differ");
    hr_batch_destroy(&a);
    hr_batch_destroy(&b);
    hr_device_close(&dev);
    hr_pack_close(&file);
}

// ---- Threads ---------------------------------------------------------------

struct reader {
    hr_pack_file file;
    uint64_t seed;
    int wrong;
};

static void *read_some(void *arg)
{
    struct reader *r = arg;

    for (int i = 0; i < 500; i++) {
        size_t k = next_random(&r->seed) % r->file->num, found = 0;
        struct hr_sample s = {0};

        r->wrong += hr_pack_check(r->file, k) ||
                    hr_pack_sample(r->file, k, &s) ||
                    hr_pack_find(r->file, s.name, strlen(s.name), &found) ||
                    found != k;
    }
    return NULL;
}

TEST_CASE(threads)
{
    const char *path = pack_path("threads.hrp");
    struct reader readers[4];
    pthread_t ids[4];
    hr_pack_file file;

    CHECK(pack_data_write(path, 64, test_seed), "%s", hr_last_error());
    file = hr_pack_open(path);
    for (int i = 0; file && i < 4; i++) {
        readers[i] = (struct reader){file, test_seed + (uint64_t)i, 0};
        pthread_create(&ids[i], NULL, read_some, &readers[i]);
    }
    for (int i = 0; file && i < 4; i++) {
        pthread_join(ids[i], NULL);
        CHECK(!readers[i].wrong, "%d", readers[i].wrong);
    }
    hr_pack_close(&file);
}

// ---- A million -------------------------------------------------------------

// Plain tests take fewer. The file's pages are not its reader's memory.
TEST_CASE(many)
{
    bool all = getenv("HEADRACE_TEST_LONG") && !TEST_SANITIZED;
    int n = all ? 1000000 : test_loops(50000);
    const char *path = pack_path("many.hrp");
    hr_pack_writer w = hr_pack_writer_open(path);
    char name[64], label[16];
    struct hr_pack_entry e = {.name = name, .label = label};
    int64_t begun;
    hr_pack_file file;
    double seconds;
    size_t k;

    for (int i = 0; w && i < n; i++) {
        // An order that is not that of the names.
        snprintf(name, sizeof(name), "train/n%05d/%d.JPEG", i % 1000,
                 (int)((unsigned)i * 2654435761u % 1000000007u));
        snprintf(label, sizeof(label), "n%05d", i % 1000);
        if (hr_pack_writer_add(w, &e) != HR_OK)
            break;
    }
    CHECK(w && w->num == (size_t)n && hr_pack_writer_finish(w) == HR_OK, "%s",
          hr_last_error());
    hr_pack_writer_close(&w);
    begun = test_clock(CLOCK_THREAD_CPUTIME_ID);
    file = hr_pack_open(path);
    seconds = (double)(test_clock(CLOCK_THREAD_CPUTIME_ID) - begun) / 1e9;
    CHECK(file && file->num == (size_t)n, "%s", hr_last_error());
    CHECK(TEST_SANITIZED || seconds <= 2e-6 * n + .1, "%.3f s", seconds);
    begun = test_clock(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; file && i < 1000; i++)
        CHECK(hr_pack_find(file, name, strlen(name), &k) == HR_OK &&
                  k == (size_t)n - 1,
              "find");
    printf("%d pictures: open %.3f s, find %.2f us\n", n, seconds,
           (double)(test_clock(CLOCK_THREAD_CPUTIME_ID) - begun) / 1e6);
    hr_pack_close(&file);
}
