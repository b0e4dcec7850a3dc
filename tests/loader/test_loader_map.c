// SPDX-License-Identifier: Apache-2.0
// The user's own step between the making of a batch and its delivery.
#include "loader_data.h"

enum { N = 60, BATCH = 4 };

static struct data_calls calls;

// The script of a map, and its counts.
struct work {
    atomic_int in, most, batches;
    atomic_int wait_for;  // it returns when so many are in it; 0 = at once
    atomic_int hold;  // the map of batch hold - 1 of epoch 0 waits; 0 = none
    int fail_at;      // this batch of epoch 0 fails; -1 = none
    int64_t linger;   // ns that each one takes
    bool failed_samples;  // it met one
};

static struct hr_loader_params begin(hr_device dev, struct work *work)
{
    struct hr_loader_params p = data_begin(&calls, N, dev);

    work->fail_at = -1;
    p.map_ctx = work;
    p.batch = BATCH;
    return p;
}

// Negates the pixels and numbers the classes anew.
static enum hr_status negate(void *ctx, hr_loaded loaded, int64_t *classes)
{
    struct work *work = ctx;
    int in = atomic_fetch_add(&work->in, 1) + 1;
    float *pixels = loaded->batch->params.data;
    size_t num = loaded->batch->params.stride_n / sizeof(*pixels) *
                 (size_t)loaded->n;

    if (in > atomic_load(&work->most))
        atomic_store(&work->most, in);
    while (atomic_load(&work->most) < atomic_load(&work->wait_for) ||
           (!loaded->epoch &&
            loaded->number + 1 == (uint64_t)atomic_load(&work->hold)))
        test_sleep(TEST_MS);
    if (work->linger)
        test_sleep(work->linger);
    for (size_t i = 0; i < num; i++)
        pixels[i] = -pixels[i];
    for (int i = 0; i < loaded->n; i++) {
        classes[i] += 100;
        if (loaded->results[i].status)
            work->failed_samples = true;
    }
    atomic_fetch_add(&work->batches, 1);
    atomic_fetch_sub(&work->in, 1);
    return loaded->number == (uint64_t)work->fail_at ? HR_ELIMIT : HR_OK;
}

// Undoes it, and counts what was not done.
static int undo(hr_loaded loaded)
{
    int64_t *classes = (int64_t *)(uintptr_t)loaded->classes;
    int missed = 0;

    negate(&(struct work){.fail_at = -1}, loaded, classes);
    for (int i = 0; i < loaded->n; i++) {
        classes[i] -= 200;
        missed += classes[i] != (int64_t)loaded->indices[i] % 4;
    }
    return missed;
}

static void drain_undone(struct data_seen *seen, hr_loader loader)
{
    hr_loaded b;

    while (loader && !hr_loader_next(loader, HR_FOREVER, &b) && b) {
        CHECK(!undo(b), "classes of batch %d", (int)b->number);
        data_seen_add(seen, b);
        hr_loaded_release(&b);
    }
}

// Each batch once, in order, whatever the threads are.
TEST_CASE(mapped)
{
    struct work work = {0};
    struct hr_loader_params p = begin(NULL, &work);
    struct data_seen want = {0};
    hr_loader loader;

    p.epochs = 2;
    data_drain_all(&want, &p);
    p.map = negate;
    work.linger = TEST_MS;
    for (int reads = 1; reads < 9; reads += 3)
        for (p.map_threads = 0; p.map_threads < 4; p.map_threads++) {
            auto_seen seen = {0};

            p.reads = reads;
            atomic_store(&work.batches, 0);
            atomic_store(&work.most, 0);
            loader = hr_loader_create(&p);
            drain_undone(&seen, loader);
            CHECK(seen.num == 2 * N && data_seen_same(&want, 0, &seen),
                  "%d readers, %d maps", reads, p.map_threads);
            CHECK(atomic_load(&work.batches) == 2 * N / BATCH, "%d maps",
                  atomic_load(&work.batches));
            CHECK(atomic_load(&work.most) <=
                      (p.map_threads ? p.map_threads : 1),
                  "%d at a time", atomic_load(&work.most));
            hr_loader_destroy(&loader);
        }
    data_seen_finish(&want);
    data_end(&calls);
}

// The maps do not return until three are in one.
TEST_CASE(side_by_side)
{
    struct work work = {0};
    struct hr_loader_params p = begin(NULL, &work);
    struct data_seen seen = {0};
    hr_loader loader;

    p.map = negate;
    p.map_threads = 3;
    atomic_store(&work.wait_for, 3);
    loader = hr_loader_create(&p);
    drain_undone(&seen, loader);
    CHECK(seen.num == N && atomic_load(&work.most) == 3, "%d at a time",
          atomic_load(&work.most));
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    data_end(&calls);
}

// While one is in the map the others are made; the end may come then, too.
TEST_CASE(made_meanwhile)
{
    auto_device dev = test_device("cpu", 1, 0);
    struct work work = {0};
    struct hr_loader_params p = begin(dev, &work);
    struct data_seen seen = {0};
    hr_loader loader;
    hr_loaded b;

    p.map = negate;
    p.as_ready = true;
    p.map_threads = 2;
    atomic_store(&work.hold, 1);
    loader = hr_loader_create(&p);
    CHECK(loader && !hr_loader_next(loader, HR_FOREVER, &b) && b &&
              b->number != 0,
          "%s", hr_last_error());
    hr_loaded_release(&b);
    CHECK(hr_loader_next(loader, HR_FOREVER, &b) == HR_OK && b, "a second one");
    hr_loaded_release(&b);
    atomic_store(&work.hold, 0);
    drain_undone(&seen, loader);
    CHECK(seen.num == N - 2 * BATCH, "%d more", (int)seen.num);
    hr_loader_destroy(&loader);
    for (int i = 0; i < test_loops(20); i++) {
        atomic_store(&work.batches, 0);
        loader = hr_loader_create(&p);
        while (i % 2 && !atomic_load(&work.in) && !atomic_load(&work.batches))
            test_sleep(TEST_MS / 10);
        hr_loader_destroy(&loader);
    }
    data_seen_finish(&seen);
    data_end(&calls);
}

// A map that fails costs its batch; of a batch that fails there is no map.
TEST_CASE(failing)
{
    const uint8_t bad[] = {0, 0, 0, 0, 0, 1};
    struct work work = {0};
    struct hr_loader_params p = begin(NULL, &work);
    struct hr_loader_stats stats;
    hr_loader loader;
    hr_loaded b;
    int good = 0, limit = 0, input = 0;

    p.map = negate;
    p.shuffle = false;
    calls.bad = bad;
    calls.num_bad = 6;
    work.fail_at = 3;
    loader = hr_loader_create(&p);
    for (int i = 0; loader && i < N / BATCH; i++) {
        enum hr_status status = hr_loader_next(loader, HR_FOREVER, &b);

        good += status == HR_OK && b;
        limit += status == HR_ELIMIT && i == 3 &&
                 strstr(hr_last_error(), "map: ") != NULL;
        input += status != HR_OK && i == 1;
        hr_loaded_release(&b);
    }
    CHECK(good == N / BATCH - 2 && limit == 1 && input == 1, "%d %d %d", good,
          limit, input);
    hr_loader_stats(loader, &stats);
    CHECK(stats.dropped == 2, "%d dropped", (int)stats.dropped);
    CHECK(atomic_load(&work.batches) == N / BATCH - 1 && !work.failed_samples,
          "%d maps", atomic_load(&work.batches));
    hr_loader_destroy(&loader);
    work.fail_at = -1;
    p.on_error = HR_ON_ERROR_ZERO;
    loader = hr_loader_create(&p);
    for (good = 0; loader && !hr_loader_next(loader, HR_FOREVER, &b) && b;) {
        good++;
        hr_loaded_release(&b);
    }
    CHECK(good == N / BATCH && work.failed_samples, "%d batches", good);
    hr_loader_destroy(&loader);
    data_end(&calls);
}
