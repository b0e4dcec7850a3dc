// SPDX-License-Identifier: Apache-2.0
// A loader delivers the same samples in the same order, whatever makes them and
// wherever it is resumed; samples that fail are handled by policy.
#include <sys/stat.h>

#include "loader/pack/format.h"
#include "loader_data.h"

enum { N = 53, EPOCHS = 2 };

static const char *folder(void)
{
    static const char *made;

    return made ? made : (made = data_folder(N, test_seed));
}

// ---- Order -----------------------------------------------------------------

// Pixels of one sample, made alone by its key.
static void alone(const struct data_seen *seen, hr_source source, size_t at)
{
    auto_seen one = {0};
    uint64_t epoch = at / N, position = at % N;
    char path[4200];
    auto_batch batch = hr_batch_create(
        NULL, hr_batch_params(.n = 1, .c = 3, .h = DATA_SIDE, .w = DATA_SIDE));
    struct hr_random key = {test_seed, position, (uint32_t)epoch};
    struct hr_sample s = {.path = hr_source_path(source, seen->indices[at],
                                                 path, sizeof(path)),
                          .ops = data_ops,
                          .num_ops = DATA_OPS,
                          .random = key};
    auto_job job = batch ? hr_submit(NULL, &s, 1, batch, NULL) : NULL;
    int64_t class_of = hr_source_class(source, seen->indices[at]);

    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    if (job)
        data_seen_add(&one, &(struct hr_loaded_t){.batch = batch,
                                                  .n = 1,
                                                  .indices = &seen->indices[at],
                                                  .classes = &class_of,
                                                  .keys = &key,
                                                  .results = job->results});
    CHECK(one.num && one.digests[0] == seen->digests[at], "sample %d", (int)at);
}

TEST_CASE(one_by_one)
{
    auto_source source = hr_source_open(folder());
    struct hr_loader_params p = data_params(source, EPOCHS);
    auto_seen seen = {0};
    int times[N] = {0};
    size_t num;

    CHECK(source && source->num == N, "%s", hr_last_error());
    CHECK(hr_source_classes(source, &num) && num == 4, "classes");
    data_drain_all(&seen, &p);
    CHECK(seen.num == (size_t)N * EPOCHS, "%zu samples", seen.num);
    for (size_t i = 0; i < seen.num; i++) {
        times[seen.indices[i]]++;
        if (i % 7 == 0)
            alone(&seen, source, i);
    }
    for (int i = 0; i < N; i++)
        CHECK(times[i] == EPOCHS, "%d comes %d times", i, times[i]);
}

// ---- Determinism -----------------------------------------------------------

struct variant {
    const char *what, *device;
    int threads, reads, batch;
    size_t budget;
    bool cache, pack;
    enum hr_memory memory;
};

static void same_as(const struct data_seen *want, const struct variant *v)
{
    const char *name = v->device ? v->device : "cpu";
    hr_cache cache = v->cache ? hr_cache_create(16 << 20) : NULL;
    auto_device dev = hr_device_open(
        name, hr_device_params(.threads = v->threads, .cache = cache));
    auto_source source = hr_source_open(v->pack ? data_pack(folder())
                                                : folder());
    struct hr_loader_params p = data_params(source, EPOCHS);
    auto_seen seen = {0};

    hr_cache_release(&cache);
    if (!dev) {
        test_no_device();
        hr_source_close(&source);
        return;
    }
    p.device = dev;
    p.reads = v->reads;
    p.batch = v->batch;
    p.budget = v->budget;
    p.memory = v->memory;
    if (v->cache) {
        // A file that has just been written is not kept.
        test_sleep(150 * TEST_MS);
        data_drain_all(&seen, &p);
        data_seen_finish(&seen);
    }
    data_drain_all(&seen, &p);
    CHECK(seen.num == want->num && data_seen_same(want, 0, &seen), "%s",
          v->what);
    CHECK(!v->device || seen.by_device == seen.num, "%zu by the device",
          seen.by_device);
    CHECK(!v->cache || seen.by_cache == seen.num, "%zu by the cache",
          seen.by_cache);
}

TEST_CASE(determinism)
{
    static const struct variant variants[] = {
        {.what = "one thread", .threads = 1, .reads = 1, .batch = 8},
        {.what = "two threads", .threads = 2, .reads = 3, .batch = 8},
        {.what = "four threads", .threads = 4, .reads = 16, .batch = 8},
        {.what = "a small budget", .threads = 2, .batch = 8, .budget = 1},
        {.what = "a large budget", .batch = 8, .budget = (size_t)1 << 30},
        {.what = "batches of one", .threads = 2, .batch = 1},
        {.what = "one batch", .threads = 2, .batch = N},
        {.what = "batches of 13", .threads = 2, .batch = 13},
        {.what = "a cache", .threads = 2, .batch = 8, .cache = true},
        {.what = "a pack file", .threads = 2, .batch = 8, .pack = true},
        {.what = "opencl", .device = "opencl", .batch = 8},
        {.what = "opencl memory",
         .device = "opencl",
         .batch = 13,
         .memory = HR_MEMORY_DEVICE},
    };
    auto_source source = hr_source_open(folder());
    struct hr_loader_params p = data_params(source, EPOCHS);
    auto_seen want = {0};

    data_drain_all(&want, &p);
    for (size_t i = 0; i < sizeof(variants) / sizeof(*variants); i++)
        same_as(&want, &variants[i]);
}

// ---- Save and restore ------------------------------------------------------

// Runs `steps` batches of one loader, and the rest of another.
static void resume_at(const struct data_seen *want, struct hr_loader_params p,
                      uint64_t steps, uint64_t *seed)
{
    struct hr_loader_state state;
    auto_seen seen = {0};
    hr_loader loader = hr_loader_create(&p);
    auto_device dev = test_device("cpu", 1 + (int)(next_random(seed) % 4), 0);
    size_t before;

    CHECK(loader && (!steps || !data_drain(&seen, loader, steps)) &&
              !hr_loader_save(loader, &state),
          "%s", hr_last_error());
    before = seen.num;
    CHECK(data_seen_same(want, 0, &seen), "before step %d", (int)steps);
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    p.device = dev;
    p.batch = 1 + (int)(next_random(seed) % 20);
    p.reads = 1 + (int)(next_random(seed) % 9);
    p.resume = &state;
    data_drain_all(&seen, &p);
    CHECK(before + seen.num == want->num && data_seen_same(want, before, &seen),
          "from step %d on: %zu and %zu", (int)steps, before, seen.num);
}

TEST_CASE(resume)
{
    auto_source source = hr_source_open(folder());
    struct hr_loader_params p = data_params(source, EPOCHS);
    auto_seen want = {0};
    uint64_t seed = test_seed, all = EPOCHS * ((N + 7) / 8);

    data_drain_all(&want, &p);
    resume_at(&want, p, 0, &seed);
    resume_at(&want, p, all / EPOCHS, &seed);
    resume_at(&want, p, all, &seed);
    for (int i = 0; i < test_loops(20); i++)
        resume_at(&want, p, next_random(&seed) % all, &seed);
    data_seen_finish(&want);
    want = (struct data_seen){0};
    p.shuffle_buffer = 10;
    data_drain_all(&want, &p);
    for (size_t i = 0; i < want.num; i++)
        CHECK(llabs((int64_t)want.indices[i] - (int64_t)(i % N)) < 10,
              "sample %d comes at place %d", (int)want.indices[i],
              (int)(i % N));
    for (int i = 0; i < test_loops(5); i++)
        resume_at(&want, p, next_random(&seed) % all, &seed);
}

static void refused(hr_source source, struct hr_loader_params p,
                    const char *reason)
{
    auto_loader loader = NULL;

    p.source = source;
    loader = hr_loader_create(&p);
    CHECK(!loader && strstr(hr_last_error(), reason), "%s, not %s",
          hr_last_error(), reason);
}

TEST_CASE(resume_refused)
{
    const char *other = data_folder(N - 1, test_seed);
    auto_source source = hr_source_open(folder()), less = hr_source_open(other);
    struct hr_loader_params p = data_params(source, EPOCHS), q;
    struct hr_loader_state state, bad;
    hr_loader loader = hr_loader_create(&p);

    CHECK(loader && !hr_loader_save(loader, &state), "%s", hr_last_error());
    hr_loader_destroy(&loader);
    p.resume = &state;
    refused(less, p, "another source");
    q = p, q.seed++;
    refused(source, q, "another seed");
    q = p, q.samples = 3;
    refused(source, q, "another number of samples");
    q = p, q.shards = 2;
    refused(source, q, "another shard");
    q = p, q.shuffle = false;
    refused(source, q, "another shuffle");
    q = p, q.shuffle_buffer = 9;
    refused(source, q, "another shuffle_buffer");
    for (size_t i = 0; i < sizeof(state); i += 5) {
        bad = state;
        bad.bytes[i] ^= 4;
        q = p, q.resume = &bad;
        refused(source, q, "not the state of a loader");
    }
    // With a right checksum: the oldest batch is never one that was delivered,
    // and a part is less than its batch.
    for (int i = 0; i < 3; i++) {
        static const size_t places[] = {56, 56, 72};
        static const uint64_t values[] = {1, UINT64_MAX, (uint64_t)1 << 31 | 1};
        uint64_t sum;

        bad = state;
        memcpy(bad.bytes + places[i], &values[i], i < 2 ? 8 : 4);
        sum = pack_sum(&bad, sizeof(bad) - 8);  // XXH3 as well
        memcpy(bad.bytes + sizeof(bad) - 8, &sum, 8);
        q = p, q.resume = &bad;
        refused(source, q, "not the state of a loader");
    }
}

// A loader that begins with any epoch delivers what one does that has come to
// it.
TEST_CASE(epochs)
{
    struct data_seen all = {0}, some = {0};
    auto_source source = hr_source_open(folder());
    struct hr_loader_params p = data_params(source, EPOCHS);

    data_drain_all(&all, &p);
    for (p.first_epoch = 0; p.first_epoch <= EPOCHS; p.first_epoch++) {
        data_drain_all(&some, &p);
        CHECK(some.num == all.num - p.first_epoch * (size_t)N &&
                  data_seen_same(&all, p.first_epoch * (size_t)N, &some),
              "from epoch %u on", p.first_epoch);
        data_seen_finish(&some);
        some = (struct data_seen){0};
    }
    data_seen_finish(&all);
}

// Batches out of order: each sample once, also when it goes on.
TEST_CASE(as_ready)
{
    auto_source source = hr_source_open(folder());
    struct hr_loader_params p = data_params(source, EPOCHS);
    struct hr_loader_state state;
    auto_seen seen = {0};
    int times[N] = {0};
    hr_loader loader;

    p.as_ready = true;
    p.batch = 3;
    loader = hr_loader_create(&p);
    CHECK(loader && !data_drain(&seen, loader, 11) &&
              !hr_loader_save(loader, &state),
          "%s", hr_last_error());
    hr_loader_destroy(&loader);
    p.resume = &state;
    data_drain_all(&seen, &p);
    for (size_t i = 0; i < seen.num; i++)
        times[seen.indices[i]]++;
    for (int i = 0; i < N; i++)
        CHECK(times[i] == EPOCHS, "%d comes %d times", i, times[i]);
}

// ---- Shards, remainders, weights -------------------------------------------

TEST_CASE(shards)
{
    auto_source source = hr_source_open(folder());
    int times[N] = {0};

    for (uint32_t shard = 0; shard < 3; shard++) {
        struct hr_loader_params p = data_params(source, EPOCHS);
        auto_seen seen = {0};

        p.shards = 3;
        p.shard = shard;
        p.epochs = 1;
        data_drain_all(&seen, &p);
        CHECK(seen.num == (N + 2) / 3, "shard %u has %zu", shard, seen.num);
        for (size_t i = 0; i < seen.num; i++)
            times[seen.indices[i]]++;
    }
    for (int i = 0; i < N; i++)
        CHECK(times[i] == 1 || times[i] == 2, "%d: %d times", i, times[i]);
}

TEST_CASE(remainders)
{
    auto_source source = hr_source_open(folder());
    struct hr_loader_params p = data_params(source, EPOCHS);
    hr_loader loader;
    hr_loaded b;
    int batches = 0, lasts = 0;

    p.drop_remainder = true;
    loader = hr_loader_create(&p);
    CHECK(loader && loader->batches == N / 8 && loader->samples == N, "%s",
          hr_last_error());
    while (loader && !hr_loader_next(loader, HR_FOREVER, &b) && b) {
        CHECK(b->n == 8 && (int)b->number == batches % (N / 8) &&
                  (int)b->epoch == batches / (N / 8),
              "batch %d", batches);
        lasts += b->last;
        batches++;
        hr_loaded_release(&b);
    }
    CHECK(batches == EPOCHS * (N / 8) && lasts == EPOCHS, "%d batches, %d last",
          batches, lasts);
    // The end stays the end.
    CHECK(loader && !hr_loader_next(loader, HR_FOREVER, &b) && !b, "again");
    hr_loader_destroy(&loader);
    p.batch = N + 1;
    refused(source, p, "make no batch");
}

TEST_CASE(weighted)
{
    auto_source source = hr_source_open(folder());
    struct hr_loader_params p = data_params(source, EPOCHS);
    auto_seen seen = {0}, again = {0};
    double list[N] = {0};

    list[5] = 1;
    list[7] = 3;
    p.weights = list;
    p.samples = 400;
    p.epochs = 1;
    data_drain_all(&seen, &p);
    data_drain_all(&again, &p);
    CHECK(seen.num == 400 && data_seen_same(&seen, 0, &again), "not the same");
    for (size_t i = 0; i < seen.num; i++)
        CHECK(seen.indices[i] == 5 || seen.indices[i] == 7, "%d",
              (int)seen.indices[i]);
    // One picture, but another window each time.
    CHECK(seen.num == 400 && seen.digests[0] != seen.digests[1], "draws");
    list[9] = -1;
    refused(source, p, "weight");
}

// ---- Samples that fail -----------------------------------------------------

// The folder with bad ones in it: cut, empty, no picture, a FIFO behind a link,
// nothing behind a link. A file is named .jpg, so all are samples.
enum { BAD = 4 };

static hr_source bad_source(void)
{
    static const char *made;
    hr_source source = hr_source_create();
    char path[4200];

    if (!made) {
        uint64_t seed = test_seed;
        auto_bytes cut = test_damaged(300, 200, &seed);

        made = data_folder(20, test_seed);
        snprintf(path, sizeof(path), "%s/bad", made);
        CHECK(!mkdir(path, 0700), "%s", path);
        snprintf(path, sizeof(path), "%s/bad/cut.jpg", made);
        test_write(path, cut.data, cut.size);
        snprintf(path, sizeof(path), "%s/bad/empty.jpg", made);
        test_write(path, "", 0);
        snprintf(path, sizeof(path), "%s/bad/letter.jpg", made);
        test_write(path, "dear reader", 11);
        snprintf(path, sizeof(path), "%s/bad/pipe.jpg", made);
        CHECK(!mkfifo(path, 0600), "fifo");
    }
    CHECK(!hr_source_add(source, made) && source->skipped == 1, "%s",
          hr_last_error());
    snprintf(path, sizeof(path), "%s/bad/pipe.jpg", made);
    hr_source_add_file(source, path, NULL);
    snprintf(path, sizeof(path), "%s/nothing.jpg", made);
    hr_source_add_file(source, path, NULL);
    CHECK(source->num == 20 + BAD + 1, "%d", (int)source->num);
    return source;
}

static bool is_bad(hr_source source, uint64_t i)
{
    char name[4200];

    hr_source_name(source, i, name, sizeof(name));
    return strlen(name) < 4 || name[1] != '/';
}

static void check_zeros(hr_loaded b, int i)
{
    const uint8_t *pixels = b->batch->params.data;
    size_t each = b->batch->params.stride_n, k = 0;

    while (k < each && !pixels[each * (size_t)i + k])
        k++;
    CHECK(k == each, "sample %d of a batch is not zeros", i);
}

static void check_message(hr_source source, hr_loaded b, int i)
{
    char name[4200];
    const char *slash;

    hr_source_name(source, b->indices[i], name, sizeof(name));
    slash = strrchr(name, '/');
    CHECK(strstr(b->results[i].message, slash ? slash + 1 : name),
          "'%s' does not name %s", b->results[i].message, name);
}

TEST_CASE(zeros)
{
    auto_source source = bad_source();
    struct hr_loader_params p = data_params(source, EPOCHS);
    auto_loader loader = NULL;
    hr_loaded b;
    int failed = 0, told = 0;
    struct hr_loader_stats stats;

    p.on_error = HR_ON_ERROR_ZERO;
    loader = hr_loader_create(&p);
    while (loader && !hr_loader_next(loader, HR_FOREVER, &b) && b) {
        for (int i = 0; i < b->n; i++) {
            bool bad = is_bad(source, b->indices[i]);

            CHECK((b->results[i].status != HR_OK) == bad, "sample %d: %s",
                  (int)b->indices[i], b->results[i].message);
            failed += bad;
            if (!bad)
                continue;
            check_zeros(b, i);
            check_message(source, b, i);
        }
        told += b->failed;
        hr_loaded_release(&b);
    }
    CHECK(failed == EPOCHS * (BAD + 1) && told == failed, "%d failed, %d told",
          failed, told);
    hr_loader_stats(loader, &stats);
    CHECK(stats.failed == (uint64_t)failed &&
              stats.samples == EPOCHS * source->num && !stats.dropped,
          "stats");
}

// Batches with a bad sample are errors, the others come.
TEST_CASE(fails)
{
    auto_source source = bad_source();
    struct hr_loader_params p = data_params(source, EPOCHS);
    auto_loader loader = NULL;
    uint64_t samples = 0, batches = 0, errors = 0;
    struct hr_loader_stats stats;

    p.batch = 2;
    loader = hr_loader_create(&p);
    for (bool more = loader; more;) {
        hr_loaded b;
        enum hr_status status = hr_loader_next(loader, HR_FOREVER, &b);

        CHECK(!status || !b, "a batch and an error");
        CHECK(!status || strstr(hr_last_error(), ".jpg"), "%s",
              hr_last_error());
        {
            uint64_t index;
            const struct hr_result *failed = hr_loader_failed(&index);

            CHECK(!status == !failed, "a result without an error, or none");
            CHECK(!failed ||
                      (failed->status == status && is_bad(source, index) &&
                       !strcmp(failed->message, hr_last_error())),
                  "the result of another sample");
        }
        errors += status != HR_OK;
        batches += b != NULL;
        samples += b ? (uint64_t)b->n : 0;
        for (int i = 0; b && i < b->n; i++)
            CHECK(!is_bad(source, b->indices[i]) && !b->results[i].status,
                  "a bad one was delivered");
        more = status || b;
        hr_loaded_release(&b);
    }
    CHECK(loader && errors >= EPOCHS &&
              batches + errors == EPOCHS * loader->batches,
          "%d batches, %d errors", (int)batches, (int)errors);
    hr_loader_stats(loader, &stats);
    CHECK(stats.dropped == errors && stats.samples == samples, "stats");
}

// The others take their places; counts stay, and so does the order.
TEST_CASE(skips)
{
    auto_source source = bad_source();
    struct hr_loader_params p = data_params(source, EPOCHS);
    auto_seen want = {0}, seen = {0};
    struct hr_loader_stats stats;
    hr_loader loader;

    p.on_error = HR_ON_ERROR_SKIP;
    p.reads = 1;
    loader = hr_loader_create(&p);
    CHECK(loader && !data_drain(&want, loader, 0), "%s", hr_last_error());
    hr_loader_stats(loader, &stats);
    CHECK(stats.replaced == EPOCHS * (BAD + 1) && !stats.failed, "%d replaced",
          (int)stats.replaced);
    hr_loader_destroy(&loader);
    CHECK(want.num == EPOCHS * source->num, "%zu samples", want.num);
    for (size_t i = 0; i < want.num; i++)
        CHECK(!want.status[i] && !is_bad(source, want.indices[i]), "sample %zu",
              i);
    p.reads = 7;
    p.batch = 3;
    data_drain_all(&seen, &p);
    CHECK(seen.num == want.num && data_seen_same(&want, 0, &seen),
          "another order");
}

// Where none can be made, each place is zeros after so many tries.
TEST_CASE(all_bad)
{
    auto_source source = hr_source_create();
    struct hr_loader_params p = data_params(source, EPOCHS);
    auto_seen seen = {0};

    for (int i = 0; i < 5; i++)
        hr_source_add_file(source, "/no/such.jpg", "x");
    p.on_error = HR_ON_ERROR_SKIP;
    data_drain_all(&seen, &p);
    CHECK(seen.num == 5 * EPOCHS, "%zu samples", seen.num);
    for (size_t i = 0; i < seen.num; i++)
        CHECK(seen.status[i] == HR_EIO, "%d", seen.status[i]);
}

TEST_MAIN(data_main)
