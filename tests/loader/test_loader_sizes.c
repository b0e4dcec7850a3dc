// SPDX-License-Identifier: Apache-2.0
// Pictures of their own sizes: delivery, the parts of batches that are over
// their share, and other needs of a command: timeouts, strict engines, files by
// their paths, epochs apart.
#include "fake_engine.h"
#include "hal/base/base.h"
#include "loader/queue/loader.h"
#include "loader_data.h"

enum { N = 22, BATCH = 4, BROKEN = 5, CUT = 9 };

static const struct hr_op decode[] = {hr_op_decode(0)};
static struct data_calls calls;

static int width_of(uint64_t i)
{
    return 9 + 8 * (int)i;
}

enum { HEIGHT = 20 };

// Pictures of N widths, two of them damaged.
static struct hr_loader_params begin(hr_device dev)
{
    struct hr_loader_params p = data_begin(&calls, N, dev);
    uint64_t seed = test_seed;

    for (int i = 0; i < N; i++) {
        free(calls.files[i].data);
        calls.files[i] = test_jpeg(width_of((uint64_t)i), HEIGHT, &seed);
    }
    memset(calls.files[BROKEN].data, 'x', 20);
    calls.files[CUT].size -= 40;
    p.ops = decode;
    p.num_ops = 1;
    p.own_size = true;
    p.dtype = HR_U8;
    p.on_error = HR_ON_ERROR_ZERO;
    return p;
}

static size_t bytes_of(uint64_t i)
{
    return i == BROKEN ? 64 : (3 * HEIGHT * (size_t)width_of(i) + 63) / 64 * 64;
}

// ---- What is delivered -----------------------------------------------------

static void is_decoded(hr_device dev, uint64_t i, hr_image image)
{
    auto_image want = hr_decode(dev, calls.files[i].data, calls.files[i].size,
                                &decode[0].decode);

    CHECK(image->params.w == width_of(i) && image->params.h == HEIGHT,
          "%d x %d", image->params.w, image->params.h);
    CHECK(want && !hr_image_wait(want, HR_FOREVER), "%s", hr_last_error());
    // (Of hr_decode() it is interleaved.)
    for (int y = 0; want && y < HEIGHT; y++)
        for (int x = 0; x < width_of(i); x++)
            for (int c = 0; c < 3; c++) {
                size_t plane = (size_t)HEIGHT * (size_t)width_of(i);
                const uint8_t *a = image->params.data, *b = want->params.data;
                size_t at = (size_t)(y * width_of(i) + x);
                size_t in = want->params.layout == HR_NHWC
                                ? 3 * at + (size_t)c
                                : (size_t)c * plane + at;

                if (a[(size_t)c * plane + at] != b[in]) {
                    CHECK(false, "picture %d differs", (int)i);
                    hr_image_release(&want);
                    return;
                }
            }
}

static void look(hr_device dev, hr_loaded loaded)
{
    CHECK(!loaded->batch && loaded->images, "there is a batch");
    for (int i = 0; i < loaded->n; i++) {
        uint64_t index = loaded->indices[i];
        const struct hr_result *r = &loaded->results[i];

        CHECK((r->status == HR_OK) == (index != BROKEN && index != CUT),
              "%d: %s", (int)index, r->message);
        CHECK(!loaded->images[i] == (index == BROKEN), "%d: an image",
              (int)index);
        if (r->status == HR_OK)
            is_decoded(dev, index, loaded->images[i]);
    }
}

// All epochs, each sample once; returns how many deliveries there were.
static int drain(struct hr_loader_params *p, size_t share)
{
    auto_loader loader = hr_loader_create(p);
    int parts = 0, seen = 0;
    uint64_t batch = 0;
    hr_loaded loaded;

    CHECK(loader != NULL, "%s", hr_last_error());
    CHECK(loader && !loader->h && !loader->w && loader->c == 3, "a size");
    while (loader && !hr_loader_next(loader, HR_FOREVER, &loaded) && loaded) {
        size_t bytes = 0;

        look(p->device, loaded);
        for (int i = 0; i < loaded->n; i++) {
            CHECK(loaded->keys[i].index == (uint64_t)(seen % N), "order");
            seen++;
            bytes += bytes_of(loaded->indices[i]);
        }
        CHECK(loaded->n == 1 || bytes <= share, "%zu bytes of %zu", bytes,
              share);
        CHECK(loaded->last == (seen % N == 0), "last");
        CHECK(loaded->number == (uint64_t)((seen - 1) % N / BATCH), "number");
        batch += loaded->last;
        parts++;
        hr_loaded_release(&loaded);
    }
    CHECK(seen == N * (int)p->epochs && batch == (uint64_t)p->epochs,
          "%d samples", seen);
    return parts;
}

TEST_CASE(whole_batches)
{
    auto_device dev = test_device("cpu", 2, 0);
    struct hr_loader_params p = begin(dev);

    p.epochs = 2;
    CU_ASSERT_EQUAL(drain(&p, SIZE_MAX), 2 * ((N + BATCH - 1) / BATCH));
    p.map_threads = 1;
    p.start.depth = 1;
    CU_ASSERT_EQUAL(drain(&p, SIZE_MAX), 2 * ((N + BATCH - 1) / BATCH));
    data_end(&calls);
}

// Three slots share 3/4 of the budget; largest pictures are over it.
TEST_CASE(parts)
{
    auto_device dev = test_device("cpu", 2, 0);
    struct hr_loader_params p = begin(dev);
    const size_t share = 9000;

    p.epochs = 2;
    p.start.depth = 2;
    p.budget = 4 * share;
    CU_ASSERT(drain(&p, share) > 2 * ((N + BATCH - 1) / BATCH));
    p.budget = 1;
    CU_ASSERT_EQUAL(drain(&p, 0), 2 * N);
    data_end(&calls);
}

// A batch over its share waits until all others are given back, and then goes.
TEST_CASE(one_alone)
{
    struct hr_loader_params p = begin(NULL);
    struct hr_loader_stats stats;
    hr_loaded loaded, other;
    hr_loader loader;

    p.budget = 1;
    loader = hr_loader_create(&p);
    CU_ASSERT_FATAL(loader != NULL);
    for (int k = 0; k < N; k++) {
        CU_ASSERT(!hr_loader_next(loader, HR_FOREVER, &loaded) && loaded);
        CU_ASSERT_EQUAL(hr_loader_next(loader, 2 * TEST_MS, &other),
                        k < N - 1 ? HR_PENDING : HR_OK);
        hr_loader_stats(loader, &stats);
        CHECK(stats.batch_bytes == bytes_of(loaded->indices[0]),
              "%zu bytes, of %d", stats.batch_bytes, (int)loaded->indices[0]);
        hr_loaded_release(&loaded);
    }
    hr_loader_destroy(&loader);
    data_end(&calls);
}

// A part that fails is left out, and the next ones come.
TEST_CASE(parts_fail)
{
    struct hr_loader_params p = begin(NULL);
    int failed = 0, made = 0;
    enum hr_status status;
    hr_loaded loaded;
    hr_loader loader;

    p.budget = 1;
    p.on_error = HR_ON_ERROR_FAIL;
    loader = hr_loader_create(&p);
    CU_ASSERT_FATAL(loader != NULL);
    do {
        status = hr_loader_next(loader, HR_FOREVER, &loaded);
        failed += status != HR_OK;
        made += loaded ? loaded->n : 0;
        hr_loaded_release(&loaded);
    } while (status || made + failed < N);
    CU_ASSERT(failed == 2 && made == N - 2);
    CU_ASSERT(!hr_loader_next(loader, HR_FOREVER, &loaded) && !loaded);
    hr_loader_destroy(&loader);
    data_end(&calls);
}

// Writes to each sample of the part what only that sample is.
static enum hr_status number_classes(void *ctx, hr_loaded loaded,
                                     int64_t *classes)
{
    (void)ctx;
    CHECK(classes == loaded->classes, "classes of other samples");
    for (int i = 0; i < loaded->n; i++)
        classes[i] = 1000 + (int64_t)loaded->indices[i];
    return HR_OK;
}

// The map's writes to a part belong to the samples of that part.
TEST_CASE(parts_mapped)
{
    struct hr_loader_params p = begin(NULL);

    p.map = number_classes;
    p.epochs = 2;
    for (p.budget = 1; p.budget < 100000; p.budget *= 40) {
        auto_loader loader = hr_loader_create(&p);
        hr_loaded part;
        int seen = 0;

        CU_ASSERT_FATAL(loader != NULL);
        while (!hr_loader_next(loader, HR_FOREVER, &part) && part) {
            for (int i = 0; i < part->n; i++, seen++)
                CHECK(part->classes[i] == 1000 + (int64_t)part->indices[i],
                      "sample %d: class %d", (int)part->indices[i],
                      (int)part->classes[i]);
            hr_loaded_release(&part);
        }
        CHECK(seen == 2 * N, "%d samples", seen);
    }
    data_end(&calls);
}

// Takes one part after the other, up to number `most` or the end.
static int take_parts(hr_loader loader, uint64_t *positions, int most)
{
    hr_loaded loaded;
    int n = 0;

    while (n < most && !hr_loader_next(loader, HR_FOREVER, &loaded) && loaded) {
        uint64_t number = loaded->keys[0].index / BATCH;

        for (int i = 0; i < loaded->n; i++)
            positions[n++] = loaded->keys[i].index + 100 * loaded->epoch;
        CHECK(loaded->number == number &&
                  loaded->through ==
                      (positions[n - 1] % 100 % BATCH == BATCH - 1 ||
                       loaded->last),
              "sample %d: batch %d, through %d", (int)positions[n - 1],
              (int)loaded->number, loaded->through);
        hr_loaded_release(&loaded);
    }
    return n;
}

// Saved anywhere, also inside a batch, it goes on with the next sample, and its
// batches end where they did.
TEST_CASE(resumed)
{
    struct hr_loader_params p = begin(NULL);
    uint64_t all[4 * N], rest[4 * N];
    struct hr_loader_state state;
    hr_loader loader;
    int num;

    p.budget = 1;
    p.epochs = 2;
    for (int drop = 0; drop < 2; drop++) {
        p.drop_remainder = drop;
        p.resume = NULL;
        loader = hr_loader_create(&p);
        num = take_parts(loader, all, 4 * N);
        CHECK(num == 2 * (drop ? N / BATCH * BATCH : N), "%d", num);
        hr_loader_destroy(&loader);
        for (int at = 0; at <= num; at++) {
            int n;

            p.resume = NULL;
            loader = hr_loader_create(&p);
            CHECK(take_parts(loader, rest, at) == at, "%d", at);
            CU_ASSERT(!hr_loader_save(loader, &state));
            hr_loader_destroy(&loader);  // with undelivered parts
            p.resume = &state;
            loader = hr_loader_create(&p);
            n = loader ? take_parts(loader, rest, 4 * N) : -1;
            CHECK(n == num - at &&
                      !memcmp(rest, all + at, (size_t)n * sizeof(*rest)),
                  "behind %d of %d: %d, the first %d", at, num, n,
                  n > 0 ? (int)rest[0] : -1);
            hr_loader_destroy(&loader);
        }
    }
    data_end(&calls);
}

// A part that is held was delivered; another batch size goes on as well.
TEST_CASE(resumed_held)
{
    struct hr_loader_params p = begin(NULL);
    struct hr_loader_state state;
    hr_loaded loaded;
    hr_loader loader;

    p.budget = 1;
    loader = hr_loader_create(&p);
    CU_ASSERT(!hr_loader_next(loader, HR_FOREVER, &loaded) && loaded->n == 1);
    CU_ASSERT(!hr_loader_save(loader, &state));
    hr_loaded_release(&loaded);
    hr_loader_destroy(&loader);
    p.resume = &state;
    p.batch = BATCH + 1;
    p.budget = 0;
    loader = hr_loader_create(&p);
    CHECK(!hr_loader_next(loader, HR_FOREVER, &loaded) && loaded &&
              loaded->n == BATCH + 1 && loaded->keys[0].index == 1,
          "%s", hr_last_error());
    hr_loaded_release(&loaded);
    hr_loader_destroy(&loader);
    data_end(&calls);
}

// A budget without a limit: no share of it can be had at once.
TEST_CASE(no_limit)
{
    auto_device dev = NULL;
    struct hr_loader_params p;

    if (TEST_SANITIZED) {  // whose heaps end a program that asks for so much
        test_not_run("a budget without a limit: sanitizers");
        return;
    }
    dev = test_device("cpu", 2, 0);
    p = begin(dev);
    p.epochs = 2;
    p.budget = SIZE_MAX;
    CU_ASSERT_EQUAL(drain(&p, SIZE_MAX), 2 * ((N + BATCH - 1) / BATCH));
    data_end(&calls);
}

TEST_CASE(refused)
{
    struct hr_loader_params p = begin(NULL), q = p;

    q.h = q.w = 9;
    CHECK(!hr_loader_create(&q), "h and w");
    q = p, q.on_error = HR_ON_ERROR_SKIP;
    CHECK(!hr_loader_create(&q) && strstr(hr_last_error(), "SKIP"), "skip");
    q = p, q.timeout_ns = -1;
    CHECK(!hr_loader_create(&q) && strstr(hr_last_error(), "timeout_ns"), "%s",
          hr_last_error());
    data_end(&calls);
}

// ---- Memory that is short --------------------------------------------------

// Whichever allocation fails: an error for that part, and the others come.
TEST_CASE(no_memory)
{
    struct hr_loader_params p = begin(NULL);

    p.budget = 1;
    p.reads = 1;
    for (int nth = 1; nth < 150; nth++) {
        hr_loader loader;

        hr__test_fail_alloc(nth, false);
        loader = hr_loader_create(&p);
        for (bool more = loader; more;) {
            hr_loaded loaded;
            enum hr_status now = hr_loader_next(loader, HR_FOREVER, &loaded);

            CHECK(!now || now == HR_ENOMEM, "%d: %d", nth, now);
            more = now || loaded;
            hr_loaded_release(&loaded);
        }
        CHECK(loader || hr_last_status() == HR_ENOMEM, "%d: %s", nth,
              hr_last_error());
        hr_loader_destroy(&loader);
        hr__test_fail_alloc(0, false);
    }
    data_end(&calls);
}

// ---- Timeouts, engines, paths, epochs --------------------------------------

static int results_of(const struct hr_loader_params *p, enum hr_status status)
{
    auto_loader loader = hr_loader_create(p);
    hr_loaded loaded;
    int n = 0;

    CHECK(loader != NULL, "%s", hr_last_error());
    while (loader && !hr_loader_next(loader, HR_FOREVER, &loaded) && loaded) {
        for (int i = 0; i < loaded->n; i++)
            n += loaded->results[i].status == status;
        hr_loaded_release(&loaded);
    }
    return n;
}

// The engine begins with no picture before the timeout of both batches is over.
TEST_CASE(timeouts)
{
    const struct fake_script shut = {.spans = FAKE_ALL(FAKE_DRS), .gate = true};
    struct hr_loader_params p;
    auto_device dev = NULL;

    fake_reset(&shut);
    dev = test_device("fake", 1, 0);
    p = data_begin(&calls, 2 * BATCH, dev);
    p.on_error = HR_ON_ERROR_ZERO;
    p.timeout_ns = 5 * TEST_MS;
    CU_ASSERT_EQUAL(results_of(&p, HR_ETIMEDOUT), 2 * BATCH);
    fake_gate_open();
    data_end(&calls);
}

TEST_CASE(strict)
{
    const struct fake_script fails = {.spans = FAKE_ALL(FAKE_DRS),
                                      .fail_from = 1,
                                      .fail_status = HR_EDEVICE};
    struct hr_loader_params p;
    auto_device dev = NULL;

    fake_reset(&fails);
    dev = test_device("fake", 1, 0);
    p = data_begin(&calls, BATCH, dev);
    p.on_error = HR_ON_ERROR_ZERO;
    CU_ASSERT_EQUAL(results_of(&p, HR_OK), BATCH);
    p.strict = true;
    CU_ASSERT_EQUAL(results_of(&p, HR_OK), 0);
    data_end(&calls);
}

TEST_CASE(by_path)
{
    auto_source source = hr_source_open(data_folder(10, test_seed));
    struct hr_loader_params p = {.source = source,
                                 .ops = data_ops,
                                 .num_ops = DATA_OPS,
                                 .by_path = true};
    struct hr_loader_stats stats;
    auto_seen seen = {0}, want = {0};
    hr_loader loader = hr_loader_create(&p);

    CU_ASSERT(loader && !data_drain(&seen, loader, 0));
    hr_loader_stats(loader, &stats);
    CHECK(!stats.peak_encoded_bytes, "%zu bytes", stats.peak_encoded_bytes);
    hr_loader_destroy(&loader);
    p.by_path = false;
    data_drain_all(&want, &p);
    CU_ASSERT(seen.num == 10 && data_seen_same(&want, 0, &seen));
}

// ---- Views -----------------------------------------------------------------

static const struct hr_op small[] = {HR_OP_DECODE(0),
                                     HR_OP_RANDOM_RESIZED_CROP(.w = 7, .h = 9)};
static const struct hr_loader_view views[] = {{data_ops, DATA_OPS},
                                              {small, 2},
                                              {data_ops, DATA_OPS}};
enum { VIEWS = (int)(sizeof(views) / sizeof(*views)) };

// Picture v of sample i is what a job makes of it by that list, with its key.
static void is_view(hr_loaded loaded, int v, int i)
{
    hr_image image = loaded->images[v * loaded->n + i];
    const struct hr_image_params *p = &image->params;
    uint64_t index = loaded->indices[i];
    struct hr_sample s = {.data = calls.files[index].data,
                          .size = calls.files[index].size,
                          .ops = views[v].ops,
                          .num_ops = views[v].num_ops,
                          .random = loaded->keys[i]};
    auto_image want =
        hr_image_create(NULL, hr_image_params(.w = p->w, .h = p->h, .c = p->c));
    auto_job job = NULL;

    s.random.index = s.random.index * VIEWS + (uint64_t)v;
    s.out = want;
    CU_ASSERT_FATAL(want && (job = hr_submit(NULL, &s, 1, NULL, NULL)));
    CHECK(!hr_job_wait(job, HR_FOREVER), "%s", job->results[0].message);
    CHECK(p->w == (v == 1 ? 7 : DATA_SIDE) && want->size == image->size &&
              !memcmp(p->data, want->params.data, want->size),
          "sample %d, view %d", (int)index, v);
    CHECK(!i || (const char *)p->data ==
                    (const char *)loaded->images[v * loaded->n + i - 1]
                            ->params.data +
                        image->size,
          "the pictures of view %d are no tensor", v);
}

TEST_CASE(of_one_sample)
{
    struct hr_loader_params p = data_begin(&calls, 10, NULL);
    hr_loader loader;
    hr_loaded loaded;
    int seen = 0;

    p.ops = NULL;
    p.num_ops = 0;
    p.views = views;
    p.num_views = VIEWS;
    p.epochs = 2;
    p.on_error = HR_ON_ERROR_SKIP;
    memset(calls.files[3].data, 'x', 20);
    loader = hr_loader_create(&p);
    CU_ASSERT_FATAL(loader && !loader->w && loader->c == 3);
    while (!hr_loader_next(loader, HR_FOREVER, &loaded) && loaded) {
        CU_ASSERT(loaded->views == VIEWS && !loaded->failed);
        seen += loaded->n;
        for (int k = 0; k < VIEWS * loaded->n; k++)
            is_view(loaded, k / loaded->n, k % loaded->n);
        hr_loaded_release(&loaded);
    }
    CU_ASSERT_EQUAL(seen, 20);
    hr_loader_destroy(&loader);
    data_end(&calls);
}

TEST_CASE(views_refused)
{
    struct hr_loader_params p = data_begin(&calls, 4, NULL), q;
    const struct hr_loader_view any_size = {decode, 1};
    const struct hr_op grey[] = {hr_op_decode(.mode = HR_GRAY), small[1]};
    const struct hr_loader_view differ[] = {{grey, 2}, {small, 2}};

    p.views = views;
    p.num_views = VIEWS;
    CU_ASSERT(!hr_loader_create(&p));  // ops, too
    p.ops = NULL;
    p.num_ops = 0;
    for (int i = 0; i < 6; i++) {
        q = p;
        q.own_size = i == 0;
        q.h = q.w = i == 1 ? 9 : 0;
        q.num_views = i == 2 ? -1 : i == 3 ? 65 : i > 3 ? 6 - i : VIEWS;
        q.views = i == 4 ? differ : i == 5 ? &any_size : views;
        CHECK(!hr_loader_create(&q) && hr_last_status() == HR_EINVAL, "%d", i);
    }
    data_end(&calls);
}

// Each view is an image in the memory of one batch, which a device's has not.
TEST_CASE(views_of_device)
{
    auto_device dev = hr_device_open("opencl", NULL);
    struct hr_loader_params p = data_begin(&calls, 4, dev);

    p.views = views;
    p.num_views = VIEWS;
    p.ops = NULL;
    p.num_ops = 0;
    p.memory = HR_MEMORY_DEVICE;
    if (dev)
        CHECK(!hr_loader_create(&p) && hr_last_status() == HR_EUNSUPPORTED,
              "%s", hr_last_error());
    else
        test_not_run("no opencl");
    data_end(&calls);
}

// Nothing of an epoch is read before all of the last one was delivered.
TEST_CASE(one_by_one)
{
    struct hr_loader_params p = data_begin(&calls, 2 * BATCH, NULL);
    hr_loader loader;
    hr_loaded loaded;

    p.epochs = 3;
    p.epochs_apart = true;
    loader = hr_loader_create(&p);
    CU_ASSERT_FATAL(loader != NULL);
    for (int k = 0; k < 6; k++) {
        CU_ASSERT(!hr_loader_next(loader, HR_FOREVER, &loaded) && loaded);
        test_sleep(TEST_MS);
        CHECK(atomic_load(&calls.reads) <= 2 * BATCH * (k / 2 + 1 + k % 2),
              "%d reads at batch %d", atomic_load(&calls.reads), k);
        if (k % 2 == 0)
            CHECK(atomic_load(&calls.reads) <= 2 * BATCH * (k / 2 + 1),
                  "%d reads at batch %d", atomic_load(&calls.reads), k);
        hr_loaded_release(&loaded);
    }
    hr_loader_destroy(&loader);
    data_end(&calls);
}

TEST_MAIN(data_main)
