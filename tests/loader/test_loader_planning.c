// SPDX-License-Identifier: Apache-2.0
// Planning and wake-ups: no thread waits for a batch that could be planned or
// read now, and nothing is planned too far ahead.
#include "hal/base/base.h"
#include "loader/queue/loader.h"
#include "loader_data.h"

enum { N = 60 };

static struct data_calls calls;

// ---- Planning --------------------------------------------------------------

// Waits until so many batches are ready, and all readers but `busy` wait for
// work. True if planning has kept within the mask of the delivered batches.
static bool idle(hr_loader loader, int ready, int busy)
{
    struct hr__loader *l = hr__loader_of(loader);
    bool all = false, fits = true;

    while (!all) {
        test_sleep(TEST_MS / 4);
        pthread_mutex_lock(&l->lock);
        all = l->stats.ready >= ready && l->begun == l->settings.reads &&
              l->idle == l->begun - busy && !l->waking;
        fits = l->seq - l->base <= HR__LOADER_DEPTH;
        pthread_mutex_unlock(&l->lock);
    }
    return fits;
}

// Takes the only batch that is ready, and the one behind it, which is planned
// only now, while the first is still held.
static void take_two(hr_loader loader)
{
    hr_loaded one = NULL, two = NULL;

    CHECK(idle(loader, 1, 0), "planned too far");
    CHECK(!hr_loader_next(loader, 0, &one) && one, "%s", hr_last_error());
    CHECK(!hr_loader_next(loader, 30000 * TEST_MS, &two) && two,
          "nothing comes while a batch is held");
    hr_loaded_release(&one);
    hr_loaded_release(&two);
}

// A caller that holds the last batch of an epoch gets the next one.
TEST_CASE(last_one_held)
{
    struct hr_loader_params p = data_begin(&calls, N, NULL);
    struct data_seen seen = {0};
    hr_loader loader;

    p.epochs = 2;
    p.epochs_apart = true;
    loader = hr_loader_create(&p);
    CHECK(loader && !data_drain(&seen, loader, N / 4 - 1), "%s",
          hr_last_error());
    take_two(loader);
    CHECK(!data_drain(&seen, loader, 0) && seen.num == 2 * N - 8, "%zu samples",
          seen.num);
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    data_end(&calls);
}

// Samples; as many as may come before the first one.
enum { MANY = 70, EARLY = HR__LOADER_DEPTH - 1 };

// Saves a loader of which all came that may, but the first one.
static void save_without_first(struct hr_loader_params *p,
                               struct hr_loader_state *state)
{
    struct data_seen seen = {0};
    hr_loader loader;

    p->shuffle = false;
    p->as_ready = true;
    p->batch = 1;
    atomic_store(&calls.hold, 1);
    loader = hr_loader_create(p);
    CHECK(loader && !data_drain(&seen, loader, EARLY) &&
              !hr_loader_save(loader, state),
          "%s", hr_last_error());
    atomic_store(&calls.hold, 0);
    take_two(loader);
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    p->resume = state;
}

// The rest of the saved epoch comes in any order: each sample once.
static void check_rest(hr_loader loader)
{
    auto_seen seen = {0};
    int times[MANY] = {0}, bad = 0;

    CHECK(loader && !data_drain(&seen, loader, 0), "%s", hr_last_error());
    for (size_t i = 0; i < seen.num; i++)
        times[seen.indices[i]]++;
    for (int i = 0; i < MANY; i++)
        bad += times[i] != (!i || i > EARLY);
    CHECK(!bad, "%d of %zu samples", bad, seen.num);
}

// While the first one is not there, before and after the loader was saved, no
// other is planned.
TEST_CASE(far_ahead)
{
    struct hr_loader_params p = data_begin(&calls, MANY, NULL);
    struct hr_loader_state state;
    hr_loader loader;
    hr_loaded b = NULL;
    bool fits;

    save_without_first(&p, &state);
    atomic_store(&calls.hold, 1);
    loader = hr_loader_create(&p);
    CHECK((fits = loader && idle(loader, 0, 1)), "planned too far");
    CHECK(hr_loader_next(loader, 0, &b) == HR_PENDING && !b, "another came");
    atomic_store(&calls.hold, 0);
    hr_loaded_release(&b);
    if (fits)
        check_rest(loader);
    hr_loader_destroy(&loader);
    data_end(&calls);
}

// One batch at a time: the first one is delivered, and with it those behind it,
// before another is planned.
TEST_CASE(one_ahead)
{
    struct hr_loader_params p = data_begin(&calls, MANY, NULL);
    struct hr_loader_state state;
    hr_loader loader;

    save_without_first(&p, &state);
    p.start.depth = 1;
    loader = hr_loader_create(&p);
    check_rest(loader);
    hr_loader_destroy(&loader);
    data_end(&calls);
}

// ---- Room for the oldest one ----------------------------------------------

// There is room for one batch only, and an older one turns out to need another
// sample when the only reader is about to ask for room.
TEST_CASE(little_room)
{
    auto_device dev = test_device("cpu", 1, 0);
    struct hr_loader_params p = data_begin(&calls, N, dev);
    const uint8_t bad[] = {1};
    struct data_seen seen = {0};
    struct hr_stats stats;
    hr_loader loader;

    calls.bad = bad;
    calls.num_bad = 1;
    calls.path = test_file(&calls.files[0], ".jpg");
    p.shuffle = false;
    p.on_error = HR_ON_ERROR_SKIP;
    p.batch = p.reads = 1;
    p.budget = 1;
    atomic_store(&calls.hold, 2);
    loader = hr_loader_create(&p);
    do {
        test_sleep(TEST_MS);
        hr_device_stats(dev, &stats);
    } while (loader && !stats.failed);
    test_sleep(20 * TEST_MS);
    atomic_store(&calls.hold, 0);
    CHECK(loader && !data_drain(&seen, loader, 0) && seen.num == N, "%s",
          hr_last_error());
    CHECK(seen.num && seen.indices[0] == 1, "nothing took its place");
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    data_end(&calls);
}

// Two readers and two batches of two samples; the older batch comes back, for
// others in the place of both.
static struct {
    enum hr_status (*read)(void *ctx, uint64_t i, struct hr_encoded *to,
                           char message[256]);
    atomic_int times[N];
    atomic_bool back, go_on;
} again;

static enum hr_status read_again(void *ctx, uint64_t i, struct hr_encoded *to,
                                 char message[256])
{
    int nth = atomic_fetch_add(&again.times[i], 1);

    if (i < 2 && !nth) {
        snprintf(message, 256, "the test wants it so");
        return HR_EIO;
    }
    if (i == 1 && nth == 1) {  // in the first place
        atomic_store(&again.back, true);
        while (!atomic_load(&again.go_on))
            test_sleep(TEST_MS / 4);
    }
    while (i == 2 && !atomic_load(&again.back))
        test_sleep(TEST_MS / 4);
    return again.read(ctx, i, to, message);
}

static void set_reads(struct hr__loader *l, int reads)
{
    pthread_mutex_lock(&l->lock);
    l->settings.reads = reads;
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->bytes);
    pthread_cond_broadcast(&l->unused);
    pthread_mutex_unlock(&l->lock);
}

// True if so many readers wait for room, within 30 s.
static bool wait_for_room(struct hr__loader *l, int readers)
{
    bool done = false;

    for (int i = 0; i < 30000 && !done; i++) {
        test_sleep(TEST_MS);
        pthread_mutex_lock(&l->lock);
        done = l->full == readers;
        pthread_mutex_unlock(&l->lock);
    }
    return done;
}

// A reader of the newer batch waits for room until the older one is read. The
// older one's reader is no longer wanted, and leaves the rest to others.
TEST_CASE(less_readers)
{
    auto_device dev = test_device("cpu", 1, 0);
    struct hr_loader_params p = data_begin(&calls, N, dev);
    struct data_seen seen = {0};
    struct hr__loader *l;
    hr_loader loader;

    hr_source_close(&calls.source);
    again.read = calls.calls.read;
    calls.calls.read = read_again;
    calls.path = test_file(&calls.files[0], ".jpg");
    p.source = calls.source = hr_source_of_calls(&calls.calls);
    p.shuffle = false;
    p.on_error = HR_ON_ERROR_SKIP;
    p.batch = p.reads = p.start.depth = 2;
    p.budget = 1;
    loader = hr_loader_create(&p);
    l = hr__loader_of(loader);
    CHECK(loader && wait_for_room(l, 1), "no reader waits for room");
    pthread_mutex_lock(&l->lock);
    l->settings.reads = 0;
    pthread_mutex_unlock(&l->lock);
    atomic_store(&again.go_on, true);
    CHECK(wait_for_room(l, 0), "it waits for ever");
    set_reads(l, 2);
    CHECK(!data_drain(&seen, loader, 0) && seen.num == N, "%s",
          hr_last_error());
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    data_end(&calls);
}

TEST_MAIN(data_main)
