// SPDX-License-Identifier: Apache-2.0
// The queue: which batch comes next, in order or as soon as it is ready.
#include "loader_data.h"

enum { N = 60 };

static struct data_calls calls;

// The first batch is the last that is ready.
TEST_CASE(in_order)
{
    struct hr_loader_params p = data_begin(&calls, N, NULL);
    struct hr_loader_stats stats;
    hr_loader loader;
    hr_loaded b = NULL;

    p.shuffle = false;
    atomic_store(&calls.hold, 1);
    loader = hr_loader_create(&p);
    do {
        test_sleep(TEST_MS);
        hr_loader_stats(loader, &stats);
    } while (loader && stats.ready < loader->depth - 1);
    CHECK(loader && hr_loader_next(loader, 0, &b) == HR_PENDING && !b,
          "another batch came first");
    atomic_store(&calls.hold, 0);
    for (int i = 0; i < N / 4; i++) {
        CHECK(!hr_loader_next(loader, HR_FOREVER, &b) && b &&
                  b->indices[0] == (uint64_t)i * 4,
              "batch %d", i);
        hr_loaded_release(&b);
    }
    hr_loader_destroy(&loader);
    data_end(&calls);
}

// Takes at most num batches (0: to the end of an epoch); false: one of them was
// not `good`.
static bool take(hr_loader loader, uint64_t num, bool (*good)(hr_loaded b),
                 uint64_t *done)
{
    bool fine = true, last = false;
    hr_loaded b;

    for (*done = 0; fine && !last && (!num || *done < num); *done += fine) {
        if (hr_loader_next(loader, HR_FOREVER, &b) || !b)
            return false;
        fine = good(b);
        last = !num && b->last;
        hr_loaded_release(&b);
    }
    return fine;
}

static bool is_inner(hr_loaded b)
{
    return b->number && !b->last && !b->epoch;
}

static bool is_any(hr_loaded b)
{
    return b != NULL;
}

// Out of order, but not out of its epoch: while the first batch is not there,
// neither the last one comes nor any of the next epoch.
TEST_CASE(epochs_apart)
{
    struct hr_loader_params p = data_begin(&calls, N, NULL);
    struct hr_loader_stats stats;
    hr_loaded b = NULL;
    hr_loader loader;
    uint64_t done = 0;

    p.shuffle = false;
    p.as_ready = true;
    p.epochs = 2;
    atomic_store(&calls.hold, 1);
    loader = hr_loader_create(&p);
    CHECK(loader && take(loader, N / 4 - 2, is_inner, &done), "%d batches",
          (int)done);
    // (The first batch of the next epoch waits for the same sample.)
    do {
        test_sleep(TEST_MS);
        hr_loader_stats(loader, &stats);
    } while (loader && stats.ready < loader->depth - 2);
    CHECK(hr_loader_next(loader, 0, &b) == HR_PENDING && !b,
          "the last batch is not the last");
    atomic_store(&calls.hold, 0);
    CHECK(take(loader, 0, is_any, &done) && done == 2, "the rest: %d batches",
          (int)done);
    CHECK(take(loader, 0, is_any, &done) && done == N / 4,
          "the next epoch: %d batches", (int)done);
    hr_loader_destroy(&loader);
    data_end(&calls);
}

// The first batch comes last, after the loader was saved and restored.
TEST_CASE(out_of_order)
{
    struct hr_loader_params p = data_begin(&calls, N, NULL);
    struct data_seen seen = {0};
    struct hr_loader_state state;
    int times[N] = {0};
    hr_loader loader;

    p.shuffle = false;
    p.as_ready = true;
    atomic_store(&calls.hold, 1);
    loader = hr_loader_create(&p);
    CHECK(loader && !data_drain(&seen, loader, 6) &&
              !hr_loader_save(loader, &state),
          "%s", hr_last_error());
    hr_loader_stop(loader);
    atomic_store(&calls.hold, 0);
    hr_loader_destroy(&loader);
    p.resume = &state;
    p.batch = 5;
    CHECK(!hr_loader_create(&p) && strstr(hr_last_error(), "batch"), "%s",
          hr_last_error());
    p.batch = 4;
    loader = hr_loader_create(&p);
    CHECK(loader && !data_drain(&seen, loader, 0) && seen.num == N,
          "%zu samples", seen.num);
    for (size_t i = 0; i < seen.num; i++)
        times[seen.indices[i]]++;
    for (int i = 0; i < N; i++)
        CHECK(times[i] == 1, "%d comes %d times", i, times[i]);
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    data_end(&calls);
}

TEST_MAIN(data_main)
