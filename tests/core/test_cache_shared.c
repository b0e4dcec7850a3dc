// SPDX-License-Identifier: Apache-2.0
// The picture cache, shared by threads and left behind in a parent process.
#include <sys/stat.h>
#include <sys/wait.h>

#include "hal/cache/store.h"
#include "small_picture.h"
#include "testing.h"

// It bears no threads in a child.
#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#else
#define THREAD_SANITIZER 0
#endif

enum { SHARED = 16, THREADS = 4 };

static struct {
    hr_device dev;
    struct bytes files[SHARED];
    uint8_t *want[SHARED];
    atomic_int wrong;
} crowd;

static void *one_of_many(void *arg)
{
    uint64_t seed = test_seed + (uintptr_t)arg;

    for (int i = 0; i < test_loops(100); i++) {
        int k = random_below(&seed, SHARED);
        struct hr_result r = {0};
        auto_heap uint8_t *got = small_make(crowd.dev,
                                            small_sample(&crowd.files[k]), &r);

        if (r.status || memcmp(got, crowd.want[k], SMALL_BYTES))
            atomic_fetch_add(&crowd.wrong, 1);
    }
    return NULL;
}

TEST_CASE(threads)
{
    auto_cache cache = hr_cache_create(200 << 10);
    hr_device plain = test_device("cpu", 1, 0);
    pthread_t t[THREADS];
    uint64_t seed = test_seed;
    struct hr_cache_stats stats;
    struct hr_result r = {0};

    crowd.dev = hr_device_open("cpu",
                               hr_device_params(.threads = 2, .cache = cache));
    for (int i = 0; i < SHARED; i++) {
        crowd.files[i] = test_jpeg(181 + 4 * i, 143, &seed);
        crowd.want[i] = small_make(plain, small_sample(&crowd.files[i]), &r);
    }
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, one_of_many, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    CHECK(!atomic_load(&crowd.wrong), "%d pictures", atomic_load(&crowd.wrong));
    hr_cache_stats(cache, &stats);
    CHECK(stats.hits && stats.evictions && stats.bytes <= cache->bytes,
          "%d hits, %d evictions", (int)stats.hits, (int)stats.evictions);
    for (int i = 0; i < SHARED; i++) {
        free(crowd.files[i].data);
        free(crowd.want[i]);
    }
    hr_device_close(&plain);
    hr_device_close(&crowd.dev);
}

// The parent's cache, which nothing may wait for: a picture that the parent
// holds is packed data in the child, and made of that.
static int child_with_held(hr_device dev, hr_cached held,
                           const struct bytes *want)
{
    struct hr_sample s = {.data = held->packed,
                          .size = held->packed_size,
                          .verified = true,
                          .cached = held,
                          .ops = small_ops,
                          .num_ops = 3};
    struct hr_result r = {0};
    uint8_t *made = small_make(dev, s, &r);
    bool same = made && !r.status && !small_from_cache(&r) &&
                !memcmp(made, want->data, want->size);

    free(made);
    hr_cached_release(&s.cached);
    return same && !s.cached ? 0 : 5;
}

// 0: all is as it should be in the child.
static int child(hr_cache old, const struct bytes *b, hr_cached held,
                 const struct bytes *want)
{
    struct hr_sample s = small_sample(b);
    struct hr_cache_stats stats;
    hr_cache mine = hr_get_cache();
    hr_device dev = hr_device_open("cpu", hr_device_params(.threads = 1));
    struct hr_result r = {0};

    if (!mine || mine == old || mine->bytes != old->bytes || !dev)
        return 1;
    hr_cache_stats(mine, &stats);
    if (stats.pictures || hr_set_cache(old) != HR_EINVAL)
        return 2;
    free(small_make(dev, s, &r));
    free(small_make(dev, s, &r));
    if (r.status || !small_from_cache(&r))
        return 3;
    s.cache = old;
    free(small_make(dev, s, &r));
    hr_cache_stats(old, &stats);
    if (r.status || small_from_cache(&r) || stats.pictures)
        return 4;
    return child_with_held(dev, held, want);
}

// A child that waits for a lock ends by SIGALRM.
static int status_of_child(hr_cache cache, const struct bytes *b,
                           hr_cached held, const struct bytes *want)
{
    int status = -1;
    pid_t pid = fork();

    if (!pid) {
        alarm(60);
        _exit(child(cache, b, held, want));
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

TEST_CASE(after_fork)
{
    auto_cache cache = hr_cache_create(8 << 20);
    auto_device dev = test_device("cpu", 1, 0);
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg(181, 143, &seed);
    struct hr_sample s = small_sample(&b);
    struct hr_result r = {0};
    struct stat file = {.st_ino = 1, .st_size = (off_t)b.size};
    struct bytes want = {.size = SMALL_BYTES};
    hr_cached held;
    int status = 0;

    hr_set_cache(cache);
    s.status = &file;
    want.data = small_make(dev, s, &r);
    s.status = NULL;
    free(small_make(dev, s, &r));
    held = hr_cache_find(cache, &file);
    CHECK(held != NULL && want.data != NULL, "no picture");
    pthread_mutex_lock(&((struct hr__cache *)cache)->lock);
    if (THREAD_SANITIZER)
        test_not_run("ThreadSanitizer");
    else if (held && want.data)
        status = status_of_child(cache, &b, held, &want);
    pthread_mutex_unlock(&((struct hr__cache *)cache)->lock);
    CHECK(status == 0, "child: %#x", (unsigned)status);
    hr_cached_release(&held);
    free(want.data);
    CHECK(small_same(dev, &s, &r), "the parent");
    free(small_make(dev, s, &r));
    CHECK(small_from_cache(&r), "has its own");
    hr_set_cache(NULL);
}
