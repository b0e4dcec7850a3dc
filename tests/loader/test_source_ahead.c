// SPDX-License-Identifier: Apache-2.0
// Samples of the web that are read in about their order come some at a time.
#include <stdlib.h>
#include <string.h>

#include "shard_data.h"
#include "web_data.h"

enum { N = WEB_N };

// One thread, in order: a few requests. Two sources side by side, and one that
// fails in between: the same bytes.
static void neighbours(void)
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

// Many threads, almost in order, through a file that is larger than what comes
// with one request.
static struct crowd {
    hr_source want, got;
    atomic_int next, bad;
} crowd;

static void *read_in_crowd(void *ctx)
{
    struct hr_encoded a = {0}, b = {0};
    uint64_t i;

    while ((i = (uint64_t)atomic_fetch_add(&crowd.next, 1)) < crowd.got->num)
        if (hr_source_read(crowd.got, i, 0, &a) ||
            hr_source_read(crowd.want, i, 0, &b) || a.size != b.size ||
            memcmp(a.data, b.data, a.size))
            atomic_fetch_add(&crowd.bad, 1);
    hr_encoded_finish(&a);
    hr_encoded_finish(&b);
    return ctx;
}

static void crowds(void)
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

static const struct test_case cases[] = {
    TEST_CASE(neighbours),
    TEST_CASE(crowds),
};

int main(int argc, char **argv)
{
    return web_main("source_ahead", cases, sizeof(cases) / sizeof(*cases), argc,
                    argv);
}
