// SPDX-License-Identifier: Apache-2.0
// The picture cache: the same pixels, fewer readings, and never more memory
// than was given.
#include <fcntl.h>
#include <sys/stat.h>

#include "fake_engine.h"
#include "hal/cache/store.h"
#include "made.h"
#include "small_picture.h"
#include "testing.h"

#define MIB ((size_t)1 << 20)

static bool same_pixels(hr_device dev, const struct hr_sample *a,
                        const struct hr_sample *b)
{
    struct hr_result r;
    auto_heap uint8_t *one = small_make(dev, *a, &r),
                      *other = small_make(dev, *b, &r);
    bool ok = !memcmp(one, other, SMALL_BYTES);

    return ok;
}

static hr_device with_cache(const char *name, hr_cache cache)
{
    return hr_device_open(name, hr_device_params(.threads = 2, .cache = cache));
}

// ---- What is kept -----------------------------------------------------------

static void check_kind(hr_device dev, hr_cache cache, size_t i,
                       const struct hr_sample *s)
{
    struct hr_cache_stats before, after;
    struct hr_result r = {0};

    hr_cache_stats(cache, &before);
    CHECK(small_same(dev, s, &r) && !small_from_cache(&r), "%s, first: %s",
          small_kinds[i].name, r.message);
    CHECK(small_same(dev, s, &r), "%s, again: %s", small_kinds[i].name,
          r.message);
    CHECK(small_from_cache(&r) == small_kinds[i].packs, "%s: %s",
          small_kinds[i].name,
          small_kinds[i].packs ? "was not there" : "was there");
    hr_cache_stats(cache, &after);
    CHECK(after.hits - before.hits == small_kinds[i].packs &&
              after.kept - before.kept == small_kinds[i].packs &&
              after.pictures - before.pictures == small_kinds[i].packs,
          "%s is counted", small_kinds[i].name);
}

TEST_CASE(kinds_of_jpeg)
{
    auto_cache cache = hr_cache_create(64 * MIB);
    auto_device dev = with_cache("cpu", cache);
    uint64_t seed = test_seed;

    for (size_t i = 0; i < SMALL_KINDS; i++) {
        auto_bytes b = small_of_kind(i, &seed);
        struct hr_sample s = small_sample(&b);

        check_kind(dev, cache, i, &s);
    }
}

// A file's times must have settled.
static const char *old_file(const struct bytes *b)
{
    const char *path = test_file(b, ".jpg");

    test_sleep(150 * TEST_MS);
    return path;
}

TEST_CASE(files)
{
    auto_cache cache = hr_cache_create(64 * MIB);
    auto_device dev = with_cache("cpu", cache);
    uint64_t seed = test_seed;

    for (size_t i = 0; i < SMALL_KINDS; i += 3) {
        auto_bytes b = small_of_kind(i, &seed);
        struct hr_sample s = {.path = old_file(&b),
                              .ops = small_ops,
                              .num_ops = 3};

        check_kind(dev, cache, i, &s);
    }
}

// Whatever is odd about a file is as it is without a cache, each time.
TEST_CASE(odd_files)
{
    auto_cache cache = hr_cache_create(64 * MIB);
    auto_device dev = with_cache("cpu", cache);
    uint64_t seed = test_seed;
    struct hr_cache_stats stats;
    struct bytes b[3] = {test_damaged(181, 143, &seed),
                         test_png(181, 143, &seed),
                         test_warned(181, 143, &seed)};
    struct hr_result r = {0};

    for (int i = 0; i < 3; i++) {
        struct hr_sample s = small_sample(&b[i]);

        // (To the lower edge, where what is wrong must be seen.)
        struct hr_op whole[] = {hr_op_decode(0),
                                hr_op_resize(.w = SMALL_W, .h = SMALL_H)};

        s.ops = whole;
        s.num_ops = 2;
        for (int k = 0; k < 2; k++)
            CHECK(small_same(dev, &s, &r) && !small_from_cache(&r),
                  "%d, time %d: %s", i, k, r.message);
        free(b[i].data);
    }
    hr_cache_stats(cache, &stats);
    CHECK(stats.kept == 0 && stats.bytes == 0 && stats.hits == 0, "nothing");
    CHECK(stats.misses == 4, "%d misses: PNGs are not for it",
          (int)stats.misses);
}

// EXIF's orientation is a fact of the picture, not of its file.
TEST_CASE(orientation)
{
    static const uint8_t app1[] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,
                                   'M',  'M',  0, 42, 0,   0,   0,   8,   0, 1,
                                   0x01, 0x12, 0, 3,  0,   0,   0,   1,   0, 6,
                                   0,    0,    0, 0,  0,   0};
    const struct hr_op turned[] = {HR_OP_DECODE(.apply_orientation = true),
                                   HR_OP_RESIZE(.w = SMALL_W, .h = SMALL_H)};
    auto_cache cache = hr_cache_create(8 * MIB);
    auto_device dev = with_cache("cpu", cache);
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(181, 143, &seed);
    struct hr_sample s;
    struct hr_result r = {0};

    b.data = realloc(b.data, b.size + sizeof(app1));
    memmove(b.data + 2 + sizeof(app1), b.data + 2, b.size - 2);
    memcpy(b.data + 2, app1, sizeof(app1));
    b.size += sizeof(app1);
    s = small_sample(&b);
    s.ops = turned;
    s.num_ops = 2;
    CHECK(small_same(dev, &s, &r) && r.orientation == 6, "orientation %d",
          r.orientation);
    CHECK(small_same(dev, &s, &r) && small_from_cache(&r) && r.orientation == 6,
          "again");
}

// ---- What is found ----------------------------------------------------------

// Makes another picture of it, as long: the quantizers follow FF DB, two bytes
// of length, and a number.
static void alter(struct bytes *b)
{
    for (size_t i = 2; i + 70 < b->size; i++)
        if (b->data[i] == 0xff && b->data[i + 1] == 0xdb) {
            b->data[i + 5] = (uint8_t)(b->data[i + 5] / 2 + 20);
            return;
        }
}

TEST_CASE(other_content)
{
    auto_cache cache = hr_cache_create(8 * MIB);
    auto_device dev = with_cache("cpu", cache);
    uint64_t seed = test_seed;
    auto_bytes a = test_jpeg(181, 143, &seed);
    const char *path = old_file(&a);
    struct hr_sample file = {.path = path, .ops = small_ops, .num_ops = 3};
    struct hr_sample data = small_sample(&a);
    struct timespec times[2];
    struct hr_result r = {0};
    struct stat st;

    CHECK(small_same(dev, &file, &r) && !small_from_cache(&r), "first");
    // The bytes alone, wherever they lie, are another thing than the file.
    CHECK(small_same(dev, &data, &r) && !small_from_cache(&r), "as data");
    data.data = memcpy(malloc(a.size), a.data, a.size);
    CHECK(small_same(dev, &data, &r) && small_from_cache(&r), "elsewhere");
    free((void *)data.data);
    // Another picture in the same file, as long and as old as the one before.
    stat(path, &st);
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    alter(&a);
    test_write(path, a.data, a.size);
    CHECK(!utimensat(AT_FDCWD, path, times, 0), "times");
    test_sleep(150 * TEST_MS);
    CHECK(small_same(dev, &file, &r) && !small_from_cache(&r), "written again");
    CHECK(small_same(dev, &file, &r) && small_from_cache(&r),
          "and found again");
    CHECK(!unlink(path) && small_same(dev, &file, &r) && r.status == HR_EIO,
          "gone: %s", r.message);
}

// As long, and not the same.
TEST_CASE(sizes)
{
    auto_cache cache = hr_cache_create(8 * MIB);
    auto_device dev = with_cache("cpu", cache);
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(181, 143, &seed);
    struct hr_sample s = small_sample(&b);
    struct hr_result r = {0};

    CHECK(small_same(dev, &s, &r), "first");
    alter(&b);
    CHECK(small_same(dev, &s, &r) && !small_from_cache(&r), "another picture");
}

// A file that was written just now may be written again within the same tick.
TEST_CASE(fresh_files)
{
    auto_cache cache = hr_cache_create(8 * MIB);
    auto_device dev = with_cache("cpu", cache);
    uint64_t seed = test_seed;
    auto_bytes a = test_jpeg(181, 143, &seed);
    struct hr_sample s = {.ops = small_ops, .num_ops = 3};
    struct hr_cache_stats stats;
    struct hr_result r = {0};
    int64_t begin = hr__now();

    s.path = test_file(&a, ".jpg");
    CHECK(small_same(dev, &s, &r), "first");
    hr_cache_stats(cache, &stats);
    if (hr__now() - begin < 90 * TEST_MS)
        CHECK(stats.kept == 0 && stats.misses == 1, "kept too early");
    else
        test_not_run("the machine is too slow");
}

// A picture that is held needs neither its file nor its cache.
TEST_CASE(held)
{
    hr_cache cache = hr_cache_create(8 * MIB);
    auto_device dev = with_cache("cpu", cache);
    uint64_t seed = test_seed;
    struct bytes b = test_jpeg(181, 143, &seed);
    struct hr_sample s = small_sample(&b), from = s;
    struct hr_result r = {0};
    struct stat file = {.st_ino = 1, .st_size = (off_t)b.size};
    const time_t late = 13569465600;  // the year 2400: over 2^63 ns
    hr_cached got;

    file.st_mtim.tv_sec = late;
    CHECK(!hr_cache_find(cache, &file), "nothing was kept");
    s.status = &file;
    CHECK(small_same(dev, &s, &r) && !small_from_cache(&r), "first");
    CHECK(small_same(dev, &s, &r) && small_from_cache(&r),
          "found by its file's status");
    got = hr_cache_find(cache, &file);
    CHECK(got && got->info.width == 181 && got->info.ends &&
              got->info.format == HR_FORMAT_JPEG &&
              !memcmp(got->header, b.data, got->info.header_size),
          "not as its file");
    file.st_ino++;
    CHECK(!hr_cache_find(cache, &file), "of another file");
    hr_device_close(&dev);
    hr_cache_release(&cache);
    if (!got)
        return free(b.data);
    dev = test_device("cpu", 1, 0);
    from.data = got->packed;
    from.size = got->packed_size;
    from.verified = true;
    from.cached = got;
    free(small_make(dev, from, &r));
    CHECK(!r.status && small_from_cache(&r), "%s", r.message);
    s.status = NULL;
    CHECK(same_pixels(dev, &from, &s), "other pixels");
    hr_cached_release(&got);
    hr_cached_release(&got);
    free(b.data);
}

// ---- How much ---------------------------------------------------------------

TEST_CASE(budget)
{
    enum { FILES = 12 };
    auto_cache cache = hr_cache_create(100 << 10);
    auto_device dev = with_cache("cpu", cache);
    uint64_t seed = test_seed;
    struct bytes b[FILES];
    struct hr_cache_stats stats;
    struct hr_stats of_device;
    struct hr_result r = {0};
    struct hr_sample s;

    for (int i = 0; i < FILES; i++)
        b[i] = test_jpeg(181 + 8 * i, 143, &seed);
    for (int i = 0; i < 10 * FILES; i++) {
        s = small_sample(&b[random_below(&seed, FILES)]);
        CHECK(small_same(dev, &s, &r), "%d: %s", i, r.message);
        hr_cache_stats(cache, &stats);
        CHECK(stats.bytes <= cache->bytes && stats.bytes, "%zu bytes of %zu",
              stats.bytes, cache->bytes);
    }
    CHECK(stats.evictions && stats.hits && stats.pictures < FILES &&
              stats.kept - stats.evictions == stats.pictures,
          "%d kept, %d evicted, %d there", (int)stats.kept,
          (int)stats.evictions, (int)stats.pictures);
    hr_device_stats(dev, &of_device);
    CHECK(of_device.cache_hits == stats.hits &&
              of_device.cache_misses == stats.misses &&
              of_device.cache_evictions == stats.evictions &&
              of_device.cache_bytes == stats.bytes &&
              stats.hits + stats.misses == 10 * FILES,
          "the device's counters");
    // The last one that was used is there; what is too large for it never is.
    CHECK(small_same(dev, &s, &r) && small_from_cache(&r),
          "least recently used");
    for (int i = 0; i < FILES; i++)
        free(b[i].data);
    b[0] = test_jpeg(1500, 1200, &seed);
    s = small_sample(&b[0]);
    CHECK(small_same(dev, &s, &r) && small_same(dev, &s, &r) &&
              !small_from_cache(&r),
          "large");
    free(b[0].data);
}

// Pictures of five files, in a cache with room for three of them.
enum { FIVE = 5, ROOM = 3 };

struct five {
    struct bytes b[FIVE];
    struct hr_sample s[FIVE];
    struct stat file[FIVE];
    hr_cache cache;
    hr_device dev;
};

static void five_begin(struct five *f)
{
    uint64_t seed = test_seed;
    struct hr_cache_stats stats;
    struct hr_result r = {0};

    f->cache = hr_cache_create(8 * MIB);
    f->dev = with_cache("cpu", f->cache);
    for (int i = 0; i < FIVE; i++) {
        f->b[i] = test_jpeg(181, 143, &seed);
        f->s[i] = small_sample(&f->b[i]);
        f->file[i].st_ino = (ino_t)i + 1;
        f->s[i].status = &f->file[i];
        free(small_make(f->dev, f->s[i], &r));
    }
    hr_cache_stats(f->cache, &stats);
    hr_device_close(&f->dev);
    hr_cache_release(&f->cache);
    f->cache = hr_cache_create(stats.bytes * ROOM / FIVE +
                               stats.bytes / FIVE / 2);
    f->dev = with_cache("cpu", f->cache);
    for (int i = 0; i < ROOM; i++)
        free(small_make(f->dev, f->s[i], &r));
}

static void five_finish(struct five *f)
{
    hr_device_close(&f->dev);
    hr_cache_release(&f->cache);
    for (int i = 0; i < FIVE; i++)
        free(f->b[i].data);
}

// The picture that was not used for the longest time makes room.
TEST_CASE(order)
{
    OWN(five_finish) struct five f = {0};
    struct hr_cache_stats stats;
    struct hr_result r = {0};

    five_begin(&f);
    free(small_make(f.dev, f.s[0], &r));
    CHECK(small_from_cache(&r), "the oldest, used again");
    free(small_make(f.dev, f.s[3], &r));
    hr_cache_stats(f.cache, &stats);
    CHECK(stats.evictions == 1, "%d made room", (int)stats.evictions);
    free(small_make(f.dev, f.s[0], &r));
    CHECK(small_from_cache(&r), "is still there");
    free(small_make(f.dev, f.s[1], &r));
    CHECK(!small_from_cache(&r), "and the one behind it is not");
}

// An entry that is held cannot be evicted, and the others are not evicted in
// vain.
TEST_CASE(held_stays)
{
    OWN(five_finish) struct five f = {0};
    hr_cached held[ROOM];
    struct hr_cache_stats stats;
    struct hr_result r = {0};

    five_begin(&f);
    held[0] = hr_cache_find(f.cache, &f.file[0]);
    free(small_make(f.dev, f.s[3], &r));
    held[1] = hr_cache_find(f.cache, &f.file[2]);
    held[2] = hr_cache_find(f.cache, &f.file[3]);
    CHECK(held[0] && held[1] && held[2] && !hr_cache_find(f.cache, &f.file[1]),
          "the oldest that is not held makes room");
    free(small_make(f.dev, f.s[4], &r));
    hr_cache_stats(f.cache, &stats);
    CHECK(stats.pictures == ROOM, "%d are left", (int)stats.pictures);
    for (int i = 0; i < ROOM; i++)
        hr_cached_release(&held[i]);
    free(small_make(f.dev, f.s[4], &r));
    free(small_make(f.dev, f.s[4], &r));
    CHECK(small_from_cache(&r), "there is room again");
}

// A limit of the file is one of the file.
TEST_CASE(limits)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(300, 200, &seed);
    struct hr_sample s = small_sample(&b);
    struct hr_result r = {0};
    auto_cache cache = hr_cache_create(8 * MIB);
    auto_device dev = hr_device_open(
        "cpu",
        hr_device_params(.cache = cache, .limits = {.file_bytes = b.size}));
    struct hr_cache_stats stats;

    for (int i = 0; i < 2; i++)
        free(small_make(dev, s, &r));
    hr_cache_stats(cache, &stats);
    CHECK(stats.bytes > b.size && !r.status && small_from_cache(&r), "%s",
          r.message);
}

// Makes n pictures in one job.
static void make_all(hr_device dev, const struct bytes *b, int n)
{
    struct hr_sample s[16];
    auto_batch out = hr_batch_create(
        dev, hr_batch_params(.n = n, .c = 3, .h = SMALL_H, .w = SMALL_W));
    auto_job job = NULL;

    for (int i = 0; i < n; i++)
        s[i] = small_sample(&b[i]);
    job = hr_submit(dev, s, n, out, NULL);
    CU_ASSERT_FATAL(job != NULL);
    CHECK(!hr_job_wait(job, HR_FOREVER), "%d pictures", n);
}

// A sample that waits for memory holds none: afterwards the whole cache can be
// given to others.
TEST_CASE(waiting)
{
    enum { N = 16, EPOCHS = 60 };
    uint64_t seed = test_seed;
    struct bytes b[2 * N];
    struct hr_cache_stats stats;
    auto_cache cache = hr_cache_create(64 * MIB);
    auto_device dev = with_cache("cpu", cache);
    size_t all;

    for (int i = 0; i < 2 * N; i++)
        b[i] = test_jpeg(600, 400, &seed);
    make_all(dev, b, N);
    hr_cache_stats(cache, &stats);
    all = stats.bytes + stats.bytes * 6 / 10;
    hr_device_close(&dev);
    hr_cache_release(&cache);
    cache = hr_cache_create(all);
    dev = hr_device_open("cpu", hr_device_params(.threads = 8, .cache = cache,
                                                 .budget = 1 << 20));
    for (int i = 0; i < EPOCHS; i++)
        make_all(dev, b, N);
    hr_wait_all(dev, HR_FOREVER);
    for (int i = 0; i < 2; i++)
        make_all(dev, b + N, N);
    hr_cache_stats(cache, &stats);
    CHECK(stats.hits == EPOCHS * N && stats.pictures >= N,
          "%d hits, %d pictures in %zu bytes of %zu", (int)stats.hits,
          (int)stats.pictures, stats.bytes, all);
    for (int i = 0; i < 2 * N; i++)
        free(b[i].data);
}

// A picture that does not come out well is not kept.
TEST_CASE(failed)
{
    auto_cache cache = hr_cache_create(8 * MIB);
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(181, 143, &seed);
    struct hr_sample s = small_sample(&b);
    struct hr_cache_stats stats;
    struct hr_result r = {0};
    hr_device dev;

    fake_begin(.spans = {FAKE_RS, FAKE_RS, FAKE_RS}, .fail_from = 1,
               .fail_status = HR_EDEVICE);
    dev = hr_device_open("fake", hr_device_params(.threads = 1, .strict = true,
                                                  .cache = cache));
    free(small_make(dev, s, &r));
    hr_device_close(&dev);
    hr_cache_stats(cache, &stats);
    CHECK(r.status && stats.misses == 1 && !stats.kept && !stats.bytes,
          "%d kept, %zu bytes", (int)stats.kept, stats.bytes);
}

// A cache hit allocates nothing.
TEST_CASE(steady)
{
    auto_cache cache = hr_cache_create(8 * MIB);
    auto_device dev = hr_device_open("cpu", hr_device_params(.threads = 1,
                                                             .cache = cache));
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(300, 200, &seed);
    struct hr_sample s = small_sample(&b);
    struct hr_stats warm, stats;
    struct hr_result r = {0};

    for (int i = 0; i < 60; i++) {
        free(small_make(dev, s, &r));
        hr_wait_all(dev, HR_FOREVER);
        hr_device_stats(dev, i < 20 ? &warm : &stats);
    }
    // (Fewer than one for every image that small_make() creates, see begun_anew
    // of test_fallback.)
    CHECK(stats.heap_allocations <= warm.heap_allocations + 40 + 20,
          "%llu, then %llu", (unsigned long long)warm.heap_allocations,
          (unsigned long long)stats.heap_allocations);
    CHECK(stats.bytes_in_flight == 0, "%zu in flight", stats.bytes_in_flight);
}

// ---- Whose ------------------------------------------------------------------

// The sample's, the device's, the process's, in this order.
TEST_CASE(whose)
{
    hr_cache own = hr_cache_create(8 * MIB), devices = hr_cache_create(8 * MIB);
    hr_cache all = hr_cache_create(8 * MIB), got;
    auto_device dev = with_cache("cpu", devices);
    auto_device bare = test_device("cpu", 1, 0);
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(181, 143, &seed);
    struct hr_sample s = small_sample(&b), named = s;
    struct hr_cache_stats stats[3];
    struct hr_result r = {0};

    CHECK(!hr_get_cache(), "none at first");
    CHECK(!hr_set_cache(all), "set");
    got = hr_get_cache();
    CHECK(got == all, "and got");
    hr_cache_release(&got);
    named.cache = own;
    free(small_make(dev, named, &r));
    free(small_make(dev, s, &r));
    free(small_make(bare, s, &r));
    hr_cache_stats(own, &stats[0]);
    hr_cache_stats(devices, &stats[1]);
    hr_cache_stats(all, &stats[2]);
    for (int i = 0; i < 3; i++)
        CHECK(stats[i].misses == 1 && stats[i].kept == 1, "cache %d: %d", i,
              (int)stats[i].misses);
    hr_set_cache(NULL);
    free(small_make(bare, s, &r));
    CHECK(!small_from_cache(&r) && !hr_get_cache(), "none again");
    // The device has it as long as it lives.
    hr_cache_release(&devices);
    CHECK(small_same(dev, &s, &r) && small_from_cache(&r), "the device's own");
    CHECK(!hr_cache_create(0) && hr_last_status() == HR_EINVAL, "0 bytes");
    hr_cache_release(&own);
    hr_cache_release(&all);
    hr_cache_release(NULL);
}

// An engine that decodes by itself does so; one that goes on from coefficients
// gets those of the cache.
TEST_CASE(engines)
{
    auto_cache cache = hr_cache_create(8 * MIB);
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(181, 143, &seed);
    struct hr_sample s = small_sample(&b);
    struct hr_cache_stats stats;
    struct hr_result r = {0};
    auto_device dev = NULL;

    fake_reset_spans(HR_SPAN_BIT(HR_ENTROPY, HR_COLOR));
    dev = with_cache("fake", cache);
    for (int i = 0; i < 2; i++)
        CHECK(small_same(dev, &s, &r) &&
                  made_by(&r, "fake:0", HR_ENTROPY, HR_COLOR),
              "its own");
    hr_device_close(&dev);
    hr_cache_stats(cache, &stats);
    CHECK(!stats.misses && !stats.hits, "it was asked");

    fake_reset_spans(FAKE_RS);
    dev = with_cache("fake", cache);
    CHECK(small_same(dev, &s, &r), "first");
    CHECK(small_same(dev, &s, &r) && small_from_cache(&r) &&
              made_by(&r, "fake:0", HR_RESAMPLE, HR_STORE),
          "from the cache to the engine");
    hr_device_close(&dev);
    // A fall back begins with the cache again.
    fake_begin(.spans = {FAKE_RS, FAKE_RS, FAKE_RS}, .fail_from = 1,
               .fail_status = HR_EDEVICE);
    dev = with_cache("fake", cache);
    CHECK(small_same(dev, &s, &r) && r.fallbacks == 1 && small_from_cache(&r) &&
              made_by(&r, "cpu", HR_RECONSTRUCT, HR_STORE),
          "fallen back: %s", r.message);
}

TEST_CASE(coefficients)
{
    auto_cache cache = hr_cache_create(8 * MIB);
    auto_device dev = with_cache(test_device_name(), cache);
    uint64_t seed = test_seed;

    if (!dev) {
        test_no_device();
        hr_cache_release(&cache);
        return;
    }
    for (size_t i = 0; i < SMALL_KINDS; i++) {
        auto_bytes b = small_of_kind(i, &seed);
        struct hr_sample s = small_sample(&b);
        struct hr_result r = {0};

        for (int k = 0; k < 2; k++)
            CHECK(small_same(dev, &s, &r), "%s: %s", small_kinds[i].name,
                  r.message);
        CHECK(!small_kinds[i].packs ||
                  (small_from_cache(&r) &&
                   made_by(&r, dev->name, HR_RECONSTRUCT, HR_STORE)),
              "%s: %d spans, the first by %s, the next by %s",
              small_kinds[i].name, r.num_spans, r.spans[0].device,
              r.spans[1].device);
    }
}
