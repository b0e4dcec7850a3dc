// SPDX-License-Identifier: Apache-2.0
// The guard alone, under a driver that stays in a call as long as the test
// wants: how often it may be late, and what becomes of a thread that is closed
// meanwhile. The engines' own tests (test_opencl_return, test_vaapi_return, and
// many more) see the rest.
#include "hal/engine/guard.h"
#include "testing.h"

enum { DEADLINE_MS = 200 };

static struct driver {
    struct hr__guard guard;
    struct hr__engine engine;
    atomic_int calls, hold;  // hold: calls stay inside
} *d;

static atomic_int late, back;

static void on_log(void *ctx, enum hr_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    atomic_fetch_add(&late, strstr(text, "does not answer, nothing") != NULL);
    atomic_fetch_add(&back, strstr(text, "answers again") != NULL);
}

static bool stopped(struct hr__guard *g)
{
    bool stop;

    pthread_mutex_lock(&g->lock);
    stop = g->stop;
    pthread_mutex_unlock(&g->lock);
    return stop;
}

static bool drive(void *owner)
{
    struct driver *me = owner;
    int done = 0;

    while (!stopped(&me->guard)) {
        if (atomic_load(&me->calls) == done) {
            test_sleep(TEST_MS);
            continue;
        }
        done++;
        hr__guard_enter(&me->guard, 0);
        while (atomic_load(&me->hold))
            test_sleep(TEST_MS);
        hr__guard_leave(&me->guard, 0);
    }
    return true;
}

static hr_device open_driver(void)
{
    static const struct hr__guard_ops ops = {.threads = {"driver"},
                                             .drive = drive};
    hr_device dev = hr_device_open("cpu", hr_device_params(.log = on_log));

    d = calloc(1, sizeof(*d));
    d->engine.device = (struct hr__device *)dev;
    d->engine.params.deadline_ns = DEADLINE_MS * TEST_MS;
    snprintf(d->engine.name, sizeof(d->engine.name), "driver");
    late = back = 0;
    hr__guard_init(&d->guard, &ops, d, &d->engine);
    CHECK(!hr__guard_start(&d->guard, &d->engine, INT64_MAX), "%s",
          hr_last_error());
    return dev;
}

static bool stop(void)
{
    return hr__guard_stop(&d->guard, &d->engine, 60000 * TEST_MS, false,
                          sizeof(*d));
}

static void be_late(void)
{
    int before = atomic_load(&late), again = atomic_load(&back);

    atomic_store(&d->hold, 1);
    atomic_fetch_add(&d->calls, 1);
    CHECK(test_reaches(&late, before + 1), "no report that it is late");
    CHECK(hr__guard_ask(&d->guard, 1) == HR_WHY_LOST, "it is dead");
    atomic_store(&d->hold, 0);
    CHECK(test_reaches(&back, again + 1), "it does not come back");
    // As if that had been worth nothing but the call.
    pthread_mutex_lock(&d->guard.lock);
    hr__guard_worked(&d->guard);
    pthread_mutex_unlock(&d->guard.lock);
}

// The third late call is the last, if none of the hours between was quiet.
TEST_CASE(late_calls)
{
    auto_device dev = open_driver();

    for (int i = 0; i < 5; i++) {
        be_late();
        CHECK(hr__guard_ask(&d->guard, 1) == (i == 4 ? HR_WHY_BREAKER : 0),
              "call %d", i);
        if (i != 1)
            continue;
        pthread_mutex_lock(&d->guard.lock);
        d->guard.last_late -= INT64_C(3601000000000);
        pthread_mutex_unlock(&d->guard.lock);
    }
    // Success does not help any more.
    CHECK(hr__guard_ask(&d->guard, 1) == HR_WHY_BREAKER, "it is let in");
    CHECK(stop(), "it is left behind");
    free(d);
}

static void note(unsigned why)
{
    pthread_mutex_lock(&d->guard.lock);
    if (why)
        hr__guard_failed(&d->guard, why, true);
    else
        hr__guard_worked(&d->guard);
    pthread_mutex_unlock(&d->guard.lock);
}

// Verdicts on failures: a damaged file is no engine's fault; three others in a
// row suspend the engine; one after a late call means a lost device, unless
// something worked.
TEST_CASE(verdicts)
{
    auto_device dev = open_driver();

    for (int i = 0; i < 5; i++)
        note(HR_WHY_DAMAGED | HR_WHY_LOST);
    CHECK(!hr__guard_ask(&d->guard, 1) && !hr__guard_is_lost(&d->guard),
          "damaged files count");
    for (int i = 0; i < 3; i++) {
        CHECK(!hr__guard_ask(&d->guard, 1), "%d failures", i);
        note(HR_WHY_FAILED);
    }
    CHECK(hr__guard_ask(&d->guard, 1) == HR_WHY_BREAKER, "3 failures");
    note(0);
    CHECK(!hr__guard_ask(&d->guard, 1) && !hr__guard_is_lost(&d->guard),
          "it works");
    be_late();
    note(HR_WHY_FAILED);
    CHECK(!hr__guard_is_lost(&d->guard), "it has worked between");
    d->guard.doubt = true;
    note(HR_WHY_FAILED);
    CHECK(hr__guard_is_lost(&d->guard), "doubt");
    hr__guard_renewed(&d->guard, true);
    note(HR_WHY_FAILED);
    CHECK(!hr__guard_is_lost(&d->guard), "opened anew");
    note(HR_WHY_LOST);
    CHECK(hr__guard_is_lost(&d->guard), "lost");
    CHECK(stop(), "it is left behind");
    free(d);
}

// Closing a device does not wait for a call that is late already.
TEST_CASE(left_behind)
{
    hr_device dev = open_driver();
    int64_t begin;

    atomic_store(&d->hold, 1);
    atomic_fetch_add(&d->calls, 1);
    CHECK(test_reaches(&late, 1), "no report that it is late");
    begin = hr__now();
    CHECK(!stop() && d->engine.left_behind, "it is not left behind");
    CHECK(hr__now() - begin < 20000 * TEST_MS, "it was waited for");
    hr_device_close(&dev);
    // (Its memory is the thread's now.)
    atomic_store(&d->hold, 0);
    for (int i = 0; i < 5000; i++) {
        bool gone;

        pthread_mutex_lock(&d->guard.lock);
        gone = d->guard.threads[0].gone;
        pthread_mutex_unlock(&d->guard.lock);
        if (gone)
            break;
        test_sleep(TEST_MS);
    }
    CHECK(!back, "it has reported that it is back");
}

// Three failures in a row are a rest, longer each time, behind which one batch
// is let in.
TEST_CASE(breaker)
{
    enum { BATCH = 64 };
    struct hr__breaker b = {0};
    const int64_t s = 1000000000;
    int let_in = 0;

    for (int i = 0; i < 2; i++)
        hr__breaker_note(&b, false, 0);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, BATCH, 0), 0);
    hr__breaker_note(&b, false, 0);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, BATCH, s - 1), HR_WHY_BREAKER);
    for (int i = 0; i < 1000; i++)
        let_in += !hr__breaker_ask(&b, BATCH, s);
    CU_ASSERT_EQUAL(let_in, BATCH);
    hr__breaker_note(&b, false, s);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, BATCH, 3 * s - 1), HR_WHY_BREAKER);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, BATCH, 3 * s), 0);
    for (int i = 0; i < 20; i++)
        hr__breaker_note(&b, false, 3 * s);
    CU_ASSERT_EQUAL(b.rest, 60 * s);
    hr__breaker_note(&b, true, 3 * s);
    CU_ASSERT_EQUAL(hr__breaker_ask(&b, BATCH, 3 * s), 0);
    CU_ASSERT_EQUAL(b.strikes, 0);
}
