// SPDX-License-Identifier: Apache-2.0
// Samples of the web that are read in about their order come some at a time.
#include <fcntl.h>
#include <sys/wait.h>

#include "allowed.h"
#include "hal/base/base.h"
#include "loader/source/source.h"
#include "loader_data.h"
#include "shard_data.h"
#include "web_data.h"

enum { N = WEB_N };

// One thread, in order: a few requests. Two sources side by side, and one that
// fails in between: the same bytes.
TEST_CASE(neighbours)
{
    struct http_server *s = web_start();
    hr_source want = web_local(0), got = web_quick(NULL);
    struct hr_encoded a = {0}, b = {0};

    CHECK(!hr_source_add(got, web_at(s, "/d/x.tar")) &&
              !hr_source_add(got, web_at(s, "/d/x.rec")),
          "%s", hr_last_error());
    atomic_store(&s->requests, 0);
    for (int turn = 0; turn < 3; turn++)
        for (uint64_t i = 0; i < N; i++) {
            if (turn == 1 && !i) {
                s->which = HTTP_404;
                s->fault = web_always;
                for (uint64_t k = 0; k < 8; k++)
                    CHECK(hr_source_read(got, N + 10 + k, 0, &a) == HR_EIO,
                          "%d", (int)k);
                s->fault = NULL;
                CHECK(!hr_source_read(got, N + 17, 0, &a) &&
                          !hr_source_read(want, 17, 0, &b) &&
                          a.size == b.size && !memcmp(a.data, b.data, a.size),
                      "%s", hr_last_error());
            }
            // By turns: the same picture is in both.
            CHECK(!hr_source_read(got, turn == 2 ? i % 2 * N + i : i, 0, &a) &&
                      !hr_source_read(want, i, 0, &b) && a.size == b.size &&
                      !memcmp(a.data, b.data, a.size),
                  "%d: %s", (int)i, hr_last_error());
            CHECK(turn || i < N - 1 || atomic_load(&s->requests) <= 9,
                  "%d requests", atomic_load(&s->requests));
        }
    hr_encoded_finish(&a);
    hr_encoded_finish(&b);
    hr_source_close(&got);
    hr_source_close(&want);
    http_server_stop(s);
}

// A loader of URLs reads with 32 threads, unless it is told or tunes itself:
// then with as many as there are connections.
TEST_CASE(most_reads)
{
    static const struct {
        int connections, reads, start, want;
        bool tuned;
    } ways[] = {
        {0, 0, 0, 32, false},   {0, 0, 99, 99, false}, {5, 0, 0, 5, false},
        {0, 0, 200, 128, true}, {5, 0, 200, 5, true},  {0, 50, 200, 50, true},
        {0, 50, 0, 50, false},
    };
    struct http_server *s = web_start();
    hr_device dev = test_device("cpu", 1, 0);

    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        auto_source got = hr_source_create();
        struct hr_loader_stats stats = {0};
        auto_loader loader = NULL;

        hr_source_set_http(got,
                           hr_http_params(.connections = ways[i].connections));
        CHECK(!hr_source_add(got, web_at(s, "/d/x.tar")), "%s",
              hr_last_error());
        loader = hr_loader_create(
            hr_loader_params(.device = dev, .source = got, .ops = data_ops,
                             .num_ops = DATA_OPS, .batch = 8,
                             .reads = ways[i].reads, .autotune = ways[i].tuned,
                             .start = {.reads = ways[i].start}));
        CHECK(loader, "%s", hr_last_error());
        hr_loader_stats(loader, &stats);
        CHECK(stats.settings.reads == ways[i].want, "%d: %d reads", (int)i,
              stats.settings.reads);
    }
    hr_device_close(&dev);
    http_server_stop(s);
}

// A loader in order, of a server that answers late: blocks come before they are
// asked for, so that more than one is on its way, and each comes once.
enum { ONE_BY_ONE = 8, AT_ONCE = 3 };
static atomic_int at_once, most_at_once;
static atomic_bool in_vain;

// Once reads follow each other, no answer comes before enough are on their way;
// within 2 s, after 3 the reader would ask again.
static enum http_fault count_and_wait(struct http_server *s, int n,
                                      const char *path)
{
    int now = atomic_fetch_add(&at_once, 1) + 1;
    int64_t begin = hr__now();

    (void)s, (void)path;
    if (now > atomic_load(&most_at_once))
        atomic_store(&most_at_once, now);
    test_sleep(5 * TEST_MS);
    while (n >= ONE_BY_ONE && atomic_load(&most_at_once) < AT_ONCE &&
           !atomic_load(&in_vain)) {
        test_sleep(TEST_MS);
        if (hr__now() - begin > 2000 * TEST_MS)
            atomic_store(&in_vain, true);
    }
    atomic_fetch_sub(&at_once, 1);
    return HTTP_GOOD;
}

// By one thread: every other read in flight is a prefetch.
TEST_CASE(ahead_of_one)
{
    static const size_t sizes[] = {100000, 200000, 50000, 10,  300000,
                                   170000, 1,      90000, 512, 265536};
    struct http_server *s = web_start();
    hr_source folder = web_large_folder(sizes, 280);
    const char *tar = shard_tar(folder);
    hr_source want = hr_source_open(tar), got = web_quick(NULL);
    struct hr_encoded a = {0}, b = {0};
    int bad = 0;

    http_server_put_file(s, "/c.tar", tar);
    CHECK(!hr_source_add(got, web_at(s, "/c.tar")), "%s", hr_last_error());
    atomic_store(&s->requests, 0);
    atomic_store(&most_at_once, 0);
    s->fault = count_and_wait;
    for (uint64_t i = 0; i < got->num; i++)
        bad += hr_source_read(got, i, 0, &a) ||
               hr_source_read(want, i, 0, &b) || a.size != b.size ||
               memcmp(a.data, b.data, a.size);
    CHECK(!bad, "%d: %s", bad, hr_last_error());
    CHECK(atomic_load(&most_at_once) >= AT_ONCE, "%d at once",
          atomic_load(&most_at_once));
    // 32 MiB in blocks of two, and the first few one by one.
    CHECK(atomic_load(&s->requests) <= 26, "%d requests",
          atomic_load(&s->requests));
    hr_encoded_finish(&a);
    hr_encoded_finish(&b);
    hr_source_close(&got);
    hr_source_close(&want);
    hr_source_close(&folder);
    http_server_stop(s);
}

// One shard of large samples.
static hr_source large_shard(struct http_server *s)
{
    static const size_t sizes[] = {200000, 200000, 200000, 200000, 200000,
                                   200000, 200000, 200000, 200000, 200000};
    hr_source folder = web_large_folder(sizes, 120), got = web_quick(NULL);

    http_server_put_file(s, "/c.tar", shard_tar(folder));
    hr_source_close(&folder);
    CHECK(!hr_source_add(got, web_at(s, "/c.tar")), "%s", hr_last_error());
    return got;
}

// A source that is closed ends what is on its way.
static enum http_fault later_ones_stall(struct http_server *s, int n,
                                        const char *path)
{
    (void)s, (void)path;
    return n < 14 ? HTTP_GOOD : HTTP_STALL;
}

TEST_CASE(closed)
{
    struct http_server *s = web_start();
    hr_source got = large_shard(s);
    struct hr_encoded a = {0};
    int64_t begun;

    atomic_store(&s->requests, 0);
    s->fault = later_ones_stall;
    // (Blocks that stall are in flight; no read may need one yet.)
    for (uint64_t i = 0; atomic_load(&s->requests) < 15 && i < 90; i++) {
        CHECK(!hr_source_read(got, i, 0, &a), "%s", hr_last_error());
        test_sleep(TEST_MS);
    }
    CHECK(test_reaches(&s->requests, 15), "%d requests",
          atomic_load(&s->requests));
    begun = hr__now();
    hr_encoded_finish(&a);
    hr_source_close(&got);
    CHECK(hr__now() - begun < test_allowed(1500 * TEST_MS), "%d ms",
          (int)((hr__now() - begun) / TEST_MS));
    http_server_stop(s);
}

// ---- fork() ----------------------------------------------------------------

static int open_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

// Nothing is to be had, and the end touches no thread or connection of the
// parent's. to: has room, for malloc() of a sanitizer may be locked here.
static int in_child(hr_source *got, struct hr_encoded *to)
{
    int fds = open_fds();

    alarm(20);
    for (uint64_t i = 0; i < (*got)->num; i++)
        if (hr_source_read(*got, i, 0, to) != HR_EFORK)
            return 1;
    if (TEST_SANITIZED)
        return 0;
    hr_source_close(got);
    return *got ? 2 : open_fds() != fds ? 3 : 0;
}

static void fork_with(hr_source got, struct hr_encoded *to)
{
    int status = -1;
    pid_t pid = fork();

    if (!pid)
        _exit(in_child(&got, to));
    waitpid(pid, &status, 0);
    CHECK(pid > 0 && !status, "child: %d", status);
}

static bool is_on_its_way(struct hr__http_ahead *a)
{
    bool found = false;

    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < HR__HTTP_BLOCKS; i++)
        found |= a->blocks[i].state == HR__BLOCK_WANTED ||
                 a->blocks[i].state == HR__BLOCK_READING;
    pthread_mutex_unlock(&a->lock);
    return found;
}

// Until threads have read what is wanted, and wait; or the server is asked.
static void settle(struct hr__http_ahead *a, atomic_int *requests)
{
    while (is_on_its_way(a) && !(requests && atomic_load(requests)))
        test_sleep(TEST_MS / 4);
}

// While threads wait for something to do; while they read, and one of them has
// the lock.
TEST_CASE(forked)
{
    struct http_server *s = web_start();
    hr_source got = large_shard(s);
    struct hr_encoded a = {0};
    struct hr__http_ahead *ahead;

    ahead = &hr__source_of(got)->http->ahead;
    for (uint64_t i = 0; i < 40; i++) {
        CHECK(!hr_source_read(got, i, 0, &a), "%s", hr_last_error());
        settle(ahead, NULL);
    }
    CHECK(ahead->num_threads >= 2, "%d threads", ahead->num_threads);
    fork_with(got, &a);
    s->which = HTTP_STALL;
    s->fault = web_always;
    atomic_store(&s->requests, 0);
    for (uint64_t i = 40; !atomic_load(&s->requests) && i < 90; i++) {
        CHECK(!hr_source_read(got, i, 0, &a), "%s", hr_last_error());
        settle(ahead, &s->requests);
    }
    CHECK(is_on_its_way(ahead), "nothing is read ahead");
    pthread_mutex_lock(&ahead->lock);
    fork_with(got, &a);
    pthread_mutex_unlock(&ahead->lock);
    hr_encoded_finish(&a);
    hr_source_close(&got);
    http_server_stop(s);
}

// ---- Many threads ----------------------------------------------------------

// Many threads, almost in order, through a file that is larger than what comes
// with one request.
static struct crowd {
    hr_source want, got;
    atomic_int next, bad;
} crowd;

static void *read_in_crowd(void *ctx)
{
    auto_encoded a = {0}, b = {0};
    uint64_t i;

    while ((i = (uint64_t)atomic_fetch_add(&crowd.next, 1)) < crowd.got->num)
        if (hr_source_read(crowd.got, i, 0, &a) ||
            hr_source_read(crowd.want, i, 0, &b) || a.size != b.size ||
            memcmp(a.data, b.data, a.size))
            atomic_fetch_add(&crowd.bad, 1);
    return ctx;
}

TEST_CASE(crowds)
{
    static const size_t sizes[] = {100000, 200000, 50000, 10,  300000,
                                   170000, 1,      90000, 512, 265536};
    struct http_server *s = web_start();
    hr_source folder = web_large_folder(sizes, 120);
    const char *tar = shard_tar(folder);
    pthread_t threads[8];

    http_server_put_file(s, "/c.tar", tar);
    crowd = (struct crowd){.want = hr_source_open(tar), .got = web_quick(NULL)};
    CHECK(!hr_source_add(crowd.got, web_at(s, "/c.tar")) &&
              crowd.got->num == 120,
          "%s", hr_last_error());
    for (int turn = 0; turn < test_loops(10); turn++) {
        atomic_store(&crowd.next, 0);
        s->fault = turn % 2 ? web_each_third : NULL;
        s->which = HTTP_CUT;
        for (int i = 0; i < 8; i++)
            if (pthread_create(&threads[i], NULL, read_in_crowd, NULL))
                abort();
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        CHECK(!atomic_load(&crowd.bad), "%d of turn %d",
              atomic_load(&crowd.bad), turn);
    }
    hr_source_close(&crowd.want);
    hr_source_close(&crowd.got);
    hr_source_close(&folder);
    http_server_stop(s);
}

TEST_MAIN(web_main)
