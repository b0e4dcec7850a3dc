// SPDX-License-Identifier: Apache-2.0
// A loader of samples that the program itself gives, hr_source_of_calls(): one
// in a call, or many.
#include "loader_data.h"

enum { N = 53, EPOCHS = 2 };

TEST_CASE(callbacks_fail)
{
    uint8_t bad[N] = {0};
    struct data_calls c;
    hr_source source;
    struct hr_loader_params p;
    hr_loader loader;
    hr_loaded b;
    int failed = 0;

    for (int i = 0; i < N; i += 5)
        bad[i] = 1;
    data_calls_init(&c, N, test_seed);
    c.bad = bad;
    c.num_bad = N;
    source = hr_source_of_calls(&c.calls);
    p = data_params(source, EPOCHS);
    p.on_error = HR_ON_ERROR_ZERO;
    loader = hr_loader_create(&p);
    while (loader && !hr_loader_next(loader, HR_FOREVER, &b) && b) {
        for (int i = 0; i < b->n; i++) {
            failed += b->results[i].status == HR_EIO && bad[b->indices[i]] &&
                      strstr(b->results[i].message, "the test wants it so");
            CHECK(b->classes[i] == (int64_t)b->indices[i] % 4, "class");
        }
        hr_loaded_release(&b);
    }
    hr_loader_destroy(&loader);
    CHECK(failed == EPOCHS * ((N + 4) / 5), "%d failed", failed);
    CHECK(atomic_load(&c.done) == EPOCHS * (N - (N + 4) / 5), "%d given back",
          atomic_load(&c.done));
    hr_source_close(&source);
    data_calls_finish(&c, N);
}

static atomic_int ended;

static void end_of_thread(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&ended, 1);
}

static enum hr_status (*plain_read)(void *ctx, uint64_t i,
                                    struct hr_encoded *to, char message[256]);

// The class of sample 2 does not come with its bytes.
static enum hr_status read_with_class(void *ctx, uint64_t i,
                                      struct hr_encoded *to, char message[256])
{
    to->has_class = i != 2;
    to->class_number = (int64_t)i + 100;
    return plain_read(ctx, i, to, message);
}

TEST_CASE(callbacks_say_classes)
{
    struct data_calls c;
    hr_source source;
    struct hr_loader_params p;
    hr_loader loader;
    hr_loaded b;

    atomic_store(&ended, 0);
    data_calls_init(&c, N, test_seed);
    plain_read = c.calls.read;
    c.calls.read = read_with_class;
    c.calls.thread_ends = end_of_thread;
    source = hr_source_of_calls(&c.calls);
    p = data_params(source, EPOCHS);
    p.reads = 3;
    loader = hr_loader_create(&p);
    while (loader && !hr_loader_next(loader, HR_FOREVER, &b) && b) {
        for (int i = 0; i < b->n; i++) {
            int64_t number = (int64_t)b->indices[i];

            CHECK(b->classes[i] == (number == 2 ? 2 : number + 100), "class");
        }
        hr_loaded_release(&b);
    }
    hr_loader_destroy(&loader);
    CHECK(atomic_load(&ended) >= 1 && atomic_load(&ended) <= 3, "%d ends",
          atomic_load(&ended));
    hr_source_close(&source);
    data_calls_finish(&c, N);
}

static atomic_int many_calls, many_samples;

// Backwards: the order is the program's.
static void read_many(void *ctx, int num, struct hr_source_read *samples)
{
    CHECK(num > 0 && num <= HR_SOURCE_MANY, "%d samples", num);
    atomic_fetch_add(&many_calls, 1);
    atomic_fetch_add(&many_samples, num);
    for (int k = num; k-- > 0;) {
        struct hr_source_read *r = &samples[k];

        CHECK(!r->status && !*r->message && !r->to.data, "it is not empty");
        r->status = plain_read(ctx, r->i, &r->to, r->message);
        r->to.has_class = r->i != 2;
        r->to.class_number = (int64_t)r->i + 100;
        r->i = 0;  // the loader does not read it again
    }
}

// Each batch is one call, also a last one that is short, and a sample that
// fails does so alone.
TEST_CASE(callbacks_of_many)
{
    auto_seen want = {0}, got = {0};
    uint8_t bad[N] = {0};
    struct data_calls c;
    hr_source source;
    struct hr_loader_params p;

    bad[3] = bad[4] = bad[N - 1] = 1;
    data_calls_init(&c, N, test_seed);
    c.bad = bad;
    c.num_bad = N;
    plain_read = c.calls.read;
    for (int many = 0; many < 2; many++) {
        if (many)
            c.calls.read_many = read_many;
        else
            c.calls.read = read_with_class;
        source = hr_source_of_calls(&c.calls);
        p = data_params(source, EPOCHS);
        p.batch = 5;
        p.on_error = HR_ON_ERROR_ZERO;
        data_drain_all(many ? &got : &want, &p);
        hr_source_close(&source);
        c.calls.read = plain_read;
    }
    CHECK(want.num == got.num && got.num == (size_t)N * EPOCHS, "%zu samples",
          got.num);
    CHECK(data_seen_same(&want, 0, &got), "they differ");
    CHECK(atomic_load(&many_samples) == N * EPOCHS &&
              atomic_load(&many_calls) <= EPOCHS * ((N + 4) / 5),
          "%d calls for %d samples", atomic_load(&many_calls),
          atomic_load(&many_samples));
    CHECK(atomic_load(&c.done) == atomic_load(&c.lent), "%d of %d given back",
          atomic_load(&c.done), atomic_load(&c.lent));
    data_calls_finish(&c, N);
}

TEST_MAIN(data_main)
