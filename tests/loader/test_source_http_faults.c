// SPDX-License-Identifier: Apache-2.0
// Sources by HTTP from a server that cuts, stalls, lies and fails. Each sample
// comes once, or its fault is named; bytes of another object never come.
#include "allowed.h"
#include "hal/base/base.h"
#include "loader/source/source.h"
#include "loader_data.h"
#include "web_data.h"

enum { N = WEB_N };

// (A 404, a change, another size: those are no passing matter.)
TEST_CASE(passing)
{
    static const enum http_fault faults[] = {
        HTTP_CUT, HTTP_EMPTY,       HTTP_GARBAGE,     HTTP_500,
        HTTP_503, HTTP_OTHER_RANGE, HTTP_TWO_LENGTHS, HTTP_LONG,
    };
    struct http_server *s = web_start();

    s->fault = web_each_third;
    for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++)
        for (int i = 0; i < 3; i++) {
            auto_source want = web_local(i), got = web_quick(NULL);

            s->which = faults[k];
            CHECK(!hr_source_add(got, web_at(s, web_shards[i])), "fault %d: %s",
                  (int)faults[k], hr_last_error());
            CHECK(!web_differing(got, want), "fault %d, %s: %s", (int)faults[k],
                  web_shards[i], hr_last_error());
        }
    http_server_stop(s);
}

// A fault that lasts is an error that names it.
TEST_CASE(lasting)
{
    static const struct {
        enum http_fault fault;
        enum hr_status status;
        const char *text;
    } faults[] = {
        {HTTP_CUT, HR_EIO, "body, offset "},
        {HTTP_EMPTY, HR_EIO, "request, offset 0: "},
        {HTTP_GARBAGE, HR_EIO, "request, offset 0: "},
        {HTTP_500, HR_EIO, "answer, offset 0: status 500: the server failed"},
        {HTTP_503, HR_EIO, "status 503: "},
        {HTTP_404, HR_EIO, "status 404: there is no such object"},
        {HTTP_OTHER_RANGE, HR_EIO, "another range than was asked for"},
        {HTTP_WHOLE, HR_EUNSUPPORTED, "the server gives no ranges"},
        {HTTP_CHUNKED, HR_EUNSUPPORTED, "the server gives no ranges"},
        {HTTP_NO_TOTAL, HR_EUNSUPPORTED, "how long the object is"},
        {HTTP_COMPRESSED, HR_EUNSUPPORTED, "compressed"},
        {HTTP_SQUEEZED, HR_EUNSUPPORTED, "compressed"},
    };
    struct http_server *s = web_start();
    uint8_t *large = calloc(1, 1 << 20);

    http_server_put(s, "/d/large.tar", large, 1 << 20);
    free(large);
    s->fault = web_always;
    for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++) {
        auto_source got = web_quick(NULL);
        enum hr_status status;

        s->which = faults[k].fault;
        atomic_store(&s->requests, 0);
        status = hr_source_add(got, web_at(s, "/d/large.tar?secret"));
        CHECK(status == faults[k].status &&
                  strstr(hr_last_error(), faults[k].text) &&
                  strstr(hr_last_error(), s->url) &&
                  !strstr(hr_last_error(), "secret"),
              "fault %d: %d, %s", (int)faults[k].fault, status,
              hr_last_error());
        CHECK(got->num == 0, "something was added");
        CHECK(atomic_load(&s->requests) <= 7, "%d requests",
              atomic_load(&s->requests));
    }
    http_server_stop(s);
}

// The same when the object is open: samples have errors, and no other bytes.
TEST_CASE(later)
{
    static const enum http_fault faults[] = {
        HTTP_CHANGED,  HTTP_SHRUNK, HTTP_404,      HTTP_WHOLE,
        HTTP_NO_TOTAL, HTTP_500,    HTTP_NAMELESS, HTTP_REPLACED,
    };
    struct http_server *s = web_start();
    struct hr_encoded to = {0};

    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++) {
            auto_source got = web_quick(NULL);
            int read = 0;

            s->fault = NULL;
            CHECK(!hr_source_add(got, web_at(s, web_shards[i])), "%s",
                  hr_last_error());
            s->which = faults[k];
            s->fault = web_always;
            atomic_store(&s->requests, 0);
            for (uint64_t j = 0; j < got->num; j += 13)
                read += !hr_source_read(got, j, 0, &to);
            CHECK(!read && strstr(hr_last_error(), web_shards[i]), "%d: %d, %s",
                  (int)faults[k], read, hr_last_error());
            if (faults[k] == HTTP_NAMELESS)
                CHECK(strstr(hr_last_error(), "lost its ETag"), "%s",
                      hr_last_error());
            if (faults[k] == HTTP_SHRUNK || faults[k] == HTTP_CHANGED ||
                faults[k] == HTTP_REPLACED)
                CHECK(strstr(hr_last_error(), "changed while it was open"),
                      "%s", hr_last_error());
            // Only what may pass is asked for again.
            CHECK(atomic_load(&s->requests) ==
                      (faults[k] == HTTP_500 || faults[k] == HTTP_NAMELESS ? 6
                       : faults[k] == HTTP_WHOLE                           ? 2
                                                 : 1) *
                          (N + 12) / 13,
                  "fault %d: %d requests", (int)faults[k],
                  atomic_load(&s->requests));
        }
    hr_encoded_finish(&to);
    http_server_stop(s);
}

// Ranges are asked for of the object that was opened; of a server that does not
// know what that is, as before, and once for all.
TEST_CASE(conditional)
{
    struct http_server *s = web_start();
    struct hr_encoded to = {0};

    for (int i = 0; i < 6; i++) {
        auto_source want = web_local(i / 2), got = hr_source_create();

        // (No retry is needed.)
        hr_source_set_http(got, hr_http_params(.retries = -1));
        s->fault = NULL;
        CHECK(!hr_source_add(got, web_at(s, web_shards[i / 2])), "%s",
              hr_last_error());
        s->which = i % 2 ? HTTP_NO_IF_RANGE : HTTP_GOOD;
        s->fault = web_always;
        atomic_store(&s->requests, 0);
        atomic_store(&s->tagged, 0);
        for (uint64_t j = 0; j < got->num; j += 13)
            CHECK(!hr_source_read(got, j, 0, &to), "%s", hr_last_error());
        CHECK(atomic_load(&s->tagged) == (i % 2 ? 1 : (N + 12) / 13) &&
                  atomic_load(&s->requests) == i % 2 + (N + 12) / 13,
              "%d of %d", atomic_load(&s->tagged), atomic_load(&s->requests));
        CHECK(!web_differing(got, want), "%s", hr_last_error());
    }
    hr_encoded_finish(&to);
    http_server_stop(s);
}

// ---- Time ------------------------------------------------------------------

static void check_late(struct http_server *s, enum http_fault fault,
                       int deadline_ms)
{
    auto_source got = hr_source_create();
    int64_t begun = hr__now(), took;
    enum hr_status status;

    s->fault = web_always;
    s->which = fault;
    hr_source_set_http(got, hr_http_params(.deadline_ms = deadline_ms));
    status = hr_source_add(got, web_at(s, "/d/x.tar"));
    took = (hr__now() - begun) / TEST_MS;
    CHECK(status == HR_ETIMEDOUT && strstr(hr_last_error(), "/d/x.tar: "),
          "fault %d: %d, %s", (int)fault, status, hr_last_error());
    CHECK(took >= deadline_ms / 4 &&
              took < deadline_ms + test_allowed(1500 * TEST_MS) / TEST_MS,
          "%d ms", (int)took);
}

// One deadline for all of a read: the block that it waits for, and the bytes
// that it asks for itself when that does not come.
TEST_CASE(one_deadline)
{
    struct http_server *s = web_start();
    hr_source got = hr_source_create();
    struct hr_encoded to = {0};
    uint64_t i = 0;
    int64_t begun;

    hr_source_set_http(got, hr_http_params(.deadline_ms = 2000, .retries = -1));
    CHECK(!hr_source_add(got, web_at(s, "/d/x.tar")), "%s", hr_last_error());
    for (; i < 12; i++)  // in order: by blocks
        CHECK(!hr_source_read(got, i, 0, &to), "%s", hr_last_error());
    hr__http_forget(hr__source_of(got)->shards[0].web);
    atomic_store(&hr__source_of(got)->shards[0].web->closed, false);
    for (i = 0; i < HR__HTTP_STREAMS; i++)
        hr__source_of(got)->http->ahead.streams[i] = (struct hr__http_stream){
            .object = hr__source_of(got)->shards[0].web, .run = 100};
    s->fault = web_always;
    s->which = HTTP_STALL;
    begun = hr__now();
    CHECK(hr_source_read(got, 0, 0, &to) == HR_ETIMEDOUT, "%s",
          hr_last_error());
    CHECK(hr__now() - begun < test_allowed(3600 * TEST_MS), "%d ms",
          (int)((hr__now() - begun) / TEST_MS));
    hr_encoded_finish(&to);
    hr_source_close(&got);
    http_server_stop(s);
}

static enum http_fault first_stalls(struct http_server *s, int n,
                                    const char *path)
{
    (void)s, (void)path;
    return n ? HTTP_GOOD : HTTP_STALL;
}

TEST_CASE(deadlines)
{
    struct http_server *s = web_start();
    hr_source got = hr_source_create();

    check_late(s, HTTP_STALL, 300);
    check_late(s, HTTP_SLOW, 300);
    check_late(s, HTTP_500, 300);
    // A try that stands still leaves time for another: its share of the
    // deadline, in whole seconds.
    s->fault = first_stalls;
    atomic_store(&s->requests, 0);
    hr_source_set_http(got, hr_http_params(.deadline_ms = 3999));
    CHECK(!hr_source_add(got, web_at(s, "/d/x.rec")) && got->num == N, "%s",
          hr_last_error());
    hr_source_close(&got);
    http_server_stop(s);
}

// Each wait is at least half of the back-off; the draw depends on seed, URL,
// offset and attempt.
static void check_draws(void)
{
    const struct hr_http_params p = {.backoff_ms = 40, .seed = 7},
                                q = {.backoff_ms = 40, .seed = 8};
    int64_t least = INT64_MAX, most = 0;

    for (int i = 0; i < 200; i++) {
        int64_t wait = hr__http_backoff(&p, "u", (uint64_t)i, 2, -1);

        CHECK(wait == hr__http_backoff(&p, "u", (uint64_t)i, 2, -1), "drawn");
        CHECK(wait != hr__http_backoff(&q, "u", (uint64_t)i, 2, -1) &&
                  wait != hr__http_backoff(&p, "v", (uint64_t)i, 2, -1) &&
                  wait != 2 * hr__http_backoff(&p, "u", (uint64_t)i, 1, -1),
              "%d", i);
        least = wait < least ? wait : least;
        most = wait > most ? wait : most;
    }
    CHECK(least >= 80 * TEST_MS && least < 90 * TEST_MS &&
              most > 150 * TEST_MS && most <= 160 * TEST_MS,
          "%d to %d us", (int)(least / 1000), (int)(most / 1000));
    for (int i = 0; i < 60; i++)
        CHECK(hr__http_backoff(&p, "u", 0, i, -1) <= 10000 * TEST_MS, "%d", i);
    CHECK(hr__http_backoff(&p, "u", 0, 0, 3) == 3000 * TEST_MS, "as asked");
}

static enum http_fault first_later(struct http_server *s, int n,
                                   const char *path)
{
    (void)s, (void)path;
    return n ? HTTP_GOOD : HTTP_LATER;
}

static int64_t time_of(struct http_server *s, enum hr_status want)
{
    hr_source got = hr_source_create();
    int64_t begun = hr__now();

    hr_source_set_http(got, hr_http_params(.backoff_ms = 40, .retries = 3));
    CHECK(hr_source_add(got, web_at(s, "/d/x.tar")) == want, "%s",
          hr_last_error());
    hr_source_close(&got);
    return (hr__now() - begun) / TEST_MS;
}

// 40 + 80 + 160 ms, of each at least the half.
TEST_CASE(backoff)
{
    struct http_server *s = web_start();
    int64_t ms;

    check_draws();
    s->fault = web_always;
    s->which = HTTP_503;
    ms = time_of(s, HR_EIO);
    CHECK(strstr(hr_last_error(), "4 tries"), "%s", hr_last_error());
    CHECK(ms >= 140 && ms < 3000, "%d ms", (int)ms);
    s->fault = first_later;
    atomic_store(&s->requests, 0);
    ms = time_of(s, HR_OK);
    CHECK(ms >= 1000 && ms < 5000, "%d ms", (int)ms);
    http_server_stop(s);
}

static enum http_fault one_percent(struct http_server *s, int n,
                                   const char *path)
{
    static const enum http_fault kinds[] = {HTTP_CUT, HTTP_500, HTTP_503,
                                            HTTP_EMPTY, HTTP_CUT};
    uint64_t x = ((uint64_t)n + 1) * UINT64_C(0x9e3779b97f4a7c15) + s->seed;

    (void)path;
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    return x % 100 ? HTTP_GOOD : kinds[x / 100 % 5];
}

static void deliver(struct http_server *s, int shard, bool shuffle)
{
    auto_source want = web_local(shard), got = web_quick(NULL);
    auto_seen a = {0}, b = {0};
    hr_loader loader;

    s->fault = one_percent;
    CHECK(!hr_source_add(got, web_at(s, web_shards[shard])), "%s",
          hr_last_error());
    atomic_store(&s->requests, 0);
    loader = web_loader(got, HR_ON_ERROR_FAIL, shuffle);
    CHECK(!data_drain(&a, loader, 0), "%s", hr_last_error());
    hr_loader_destroy(&loader);
    // Each sample is asked for, unless one request brings its neighbours, too.
    CHECK(shuffle ? atomic_load(&s->requests) > 9 * N
                  : atomic_load(&s->requests) < 5 * N,
          "%s: %d requests", web_shards[shard], atomic_load(&s->requests));
    loader = web_loader(want, HR_ON_ERROR_FAIL, shuffle);
    CHECK(!data_drain(&b, loader, 0), "%s", hr_last_error());
    hr_loader_destroy(&loader);
    CHECK(a.num == 10 * N && data_seen_same(&a, 0, &b), "%d samples",
          (int)a.num);
}

TEST_CASE(delivered)
{
    struct http_server *s = web_start();

    s->seed = test_seed;
    for (int i = 0; i < 6; i++)
        deliver(s, i / 2, i % 2);
    http_server_stop(s);
}

// The same of a list, whose pictures are objects of their own.
TEST_CASE(delivered_list)
{
    struct http_server *s = http_server_start();
    hr_source got = web_quick(NULL), want;
    struct data_seen a = {0}, b = {0};
    static char urls[12][128];
    char list[4096], name[4200], path[4200];
    struct bytes text = {.data = (uint8_t *)list};
    hr_loader loader;

    web_make_set();
    want = hr_source_create();
    for (uint64_t i = 0; i < 12; i++) {
        hr_source_path(web_set.folder, i, path, sizeof(path));
        hr_source_name(web_set.folder, i, name, sizeof(name));
        snprintf(urls[i], sizeof(urls[i]), "/%.100s", name);
        http_server_put_file(s, urls[i], path);
        text.size += (size_t)snprintf(list + text.size,
                                      sizeof(list) - text.size, "%s\t%s\n",
                                      urls[i] + 1,
                                      hr_source_item(web_set.folder, i).label);
        CHECK(!hr_source_add_file(want, path,
                                  hr_source_item(web_set.folder, i).label),
              "%s", hr_last_error());
    }
    http_server_put(s, "/list.txt", text.data, text.size);
    s->seed = test_seed;
    s->fault = one_percent;
    CHECK(!hr_source_add_list(got, web_at(s, "/list.txt"), false) &&
              got->num == 12,
          "%s", hr_last_error());
    loader = web_loader(got, HR_ON_ERROR_FAIL, true);
    CHECK(!data_drain(&a, loader, 0), "%s", hr_last_error());
    hr_loader_destroy(&loader);
    loader = web_loader(want, HR_ON_ERROR_FAIL, true);
    CHECK(!data_drain(&b, loader, 0), "%s", hr_last_error());
    hr_loader_destroy(&loader);
    CHECK(a.num == 120 && data_seen_same(&a, 0, &b), "%d samples", (int)a.num);
    data_seen_finish(&a);
    data_seen_finish(&b);
    hr_source_close(&got);
    hr_source_close(&want);
    http_server_stop(s);
}

// Samples that fail are named, and the rest is there.
TEST_CASE(named)
{
    struct http_server *s = web_start();
    hr_source got = web_quick(NULL);
    hr_loader loader;
    hr_loaded step;
    int bad = 0, good = 0;

    CHECK(!hr_source_add(got, web_at(s, "/d/x.tar")), "%s", hr_last_error());
    s->fault = web_each_third;
    s->which = HTTP_404;
    loader = web_loader(got, HR_ON_ERROR_ZERO, true);
    for (int i = 0; i < 10 && !hr_loader_next(loader, HR_FOREVER, &step); i++) {
        for (int j = 0; j < step->n; j++)
            if (!step->results[j].status) {
                good++;
            } else {
                bad++;
                CHECK(step->results[j].status == HR_EIO &&
                          step->results[j].stage == HR_READ &&
                          strstr(step->results[j].message, "/d/x.tar: ") &&
                          strstr(step->results[j].message, "status 404"),
                      "%s", step->results[j].message);
            }
        hr_loaded_release(&step);
    }
    CHECK(bad > 5 && good > 2 * bad - 30, "%d good, %d bad", good, bad);
    hr_loader_destroy(&loader);
    hr_source_close(&got);
    http_server_stop(s);
}

// A loader that waits for a server ends at once.
TEST_CASE(ended)
{
    struct http_server *s = web_start();
    hr_source got = hr_source_create();
    hr_loader loader;
    int64_t begun;

    CHECK(!hr_source_add(got, web_at(s, "/d/x.tar")), "%s", hr_last_error());
    s->fault = web_always;
    for (int i = 0; i < 2; i++) {
        s->which = i ? HTTP_503 : HTTP_STALL;
        atomic_store(&s->requests, 0);
        loader = web_loader(got, HR_ON_ERROR_FAIL, true);
        CHECK(test_reaches(&s->requests, 8), "no request came");
        begun = hr__now();
        hr_loader_destroy(&loader);
        CHECK(hr__now() - begun < test_allowed(3000 * TEST_MS), "%d ms",
              (int)((hr__now() - begun) / TEST_MS));
    }
    hr_source_close(&got);
    http_server_stop(s);
}

TEST_MAIN(web_main)
