// SPDX-License-Identifier: Apache-2.0
// Memory and time that a server can cost a program: objects of unknown length,
// lists and indexes that claim to be long, silence.
#include "hal/base/base.h"
#include "loader/queue/loader.h"
#include "loader/pack/format.h"
#include "loader/source/source.h"
#include "loader_data.h"
#include "web_data.h"

enum { N = 24, BATCH = 8 };

static const char *const paths[] = {"/a", "/b", "/c", "/d",
                                    "/e", "/f", "/g", "/h"};

// N pictures of the web, each an object of its own.
static hr_source objects(struct http_server *s, size_t unsized)
{
    hr_source got = hr_source_create();
    uint64_t seed = test_seed;
    char url[512];

    CHECK(!hr_source_set_http(got, hr_http_params(.backoff_ms = 1,
                                                  .unsized_bytes = unsized)),
          "%s", hr_last_error());
    for (uint64_t i = 0; i < N; i++) {
        if (i < 8) {
            auto_bytes jpeg = test_jpeg(300, 60 * (int)i + 100, &seed);

            http_server_put(s, paths[i], jpeg.data, jpeg.size);
        }
        snprintf(url, sizeof(url), "%s%s", s->url, paths[i % 8]);
        CHECK(!hr_source_add_file(got, url, NULL), "%s", hr_last_error());
    }
    return got;
}

static hr_loader reader(hr_source source, size_t budget)
{
    hr_loader loader = hr_loader_create(
        hr_loader_params(.source = source, .ops = data_ops, .num_ops = DATA_OPS,
                         .batch = BATCH, .reads = 8, .budget = budget,
                         .on_error = HR_ON_ERROR_ZERO));

    CHECK(loader, "%s", hr_last_error());
    return loader;
}

// Bodies without an end: each is refused at the limit, one at a time takes more
// than the budget, and all that is kept is counted.
TEST_CASE(endless)
{
    enum { LIMIT = 1 << 21 };
    struct http_server *s = web_start();
    hr_source got = objects(s, LIMIT);
    hr_loader loader = reader(got, 1);
    struct hr_loader_stats stats;
    int refused = 0;
    hr_loaded b;

    s->fault = web_always;
    s->which = HTTP_ENDLESS;
    while (!hr_loader_next(loader, HR_FOREVER, &b) && b) {
        for (int i = 0; i < b->n; i++) {
            CHECK(strstr(b->results[i].message, "larger than the limit for"),
                  "%s", b->results[i].message);
            refused += b->results[i].status == HR_ELIMIT;
        }
        hr_loaded_release(&b);
    }
    CHECK(refused == N, "%d of %d", refused, N);
    hr_loader_stats(loader, &stats);
    // (While it moves to more memory it has both; the others have a first piece
    // each.)
    CHECK(stats.peak_encoded_bytes >= LIMIT &&
              stats.peak_encoded_bytes < 5 * LIMIT / 2,
          "%zu bytes", stats.peak_encoded_bytes);
    CHECK(!hr__loader_of(loader)->growing, "none grows any more");
    hr_loader_destroy(&loader);
    hr_source_close(&got);
    http_server_stop(s);
}

// The loader that ends does not wait for them.
TEST_CASE(endless_ended)
{
    struct http_server *s = web_start();
    hr_source got = objects(s, SIZE_MAX);
    hr_loader loader;

    s->fault = web_always;
    s->which = HTTP_ENDLESS;
    loader = reader(got, 1);
    CHECK(test_reaches(&s->requests, 8), "no request came");
    hr_loader_destroy(&loader);
    hr_source_close(&got);
    http_server_stop(s);
}

// Good ones come, whatever the budget is, and grow as often as they must.
TEST_CASE(chunked)
{
    struct http_server *s = web_start();
    static const size_t sizes[] = {200000, 10,     1,     70000, 131072,
                                   65536,  300000, 65537, 5,     900000};
    hr_source folder = web_large_folder(sizes, 8), got = hr_source_create();
    struct hr_encoded a = {0}, b = {0};
    char path[4200], url[512];
    struct data_seen seen = {0}, want = {0};
    hr_loader loader;

    for (uint64_t i = 0; i < 8; i++) {
        hr_source_path(folder, i, path, sizeof(path));
        http_server_put_file(s, paths[i], path);
        snprintf(url, sizeof(url), "%s%s", s->url, paths[i]);
        CHECK(!hr_source_add_file(got, url, NULL), "%s", hr_last_error());
    }
    s->fault = web_each_third;
    s->which = HTTP_CHUNKED;
    for (uint64_t i = 0; i < 8; i++)
        CHECK(!hr_source_read(got, i, 0, &a) &&
                  !hr_source_read(folder, i, 0, &b) && a.size == b.size &&
                  !memcmp(a.data, b.data, a.size),
              "%d: %s", (int)i, hr_last_error());
    hr_encoded_finish(&a);
    hr_encoded_finish(&b);
    hr_source_close(&got);
    hr_source_close(&folder);
    http_server_stop(s);
    s = web_start();
    got = objects(s, 0);
    loader = reader(got, 0);
    CHECK(!data_drain(&want, loader, 0), "%s", hr_last_error());
    hr_loader_destroy(&loader);
    s->fault = web_always;
    s->which = HTTP_CHUNKED;
    loader = reader(got, 1);
    CHECK(!data_drain(&seen, loader, 0), "%s", hr_last_error());
    CHECK(seen.num == N && data_seen_same(&seen, 0, &want), "%d",
          (int)seen.num);
    hr_loader_destroy(&loader);
    data_seen_finish(&seen);
    data_seen_finish(&want);
    hr_source_close(&got);
    http_server_stop(s);
}

// A read that waits for the budget, because the consumer is slow, is not late.
struct slow {
    int64_t wait;
    uint8_t bytes[2 << 20];
};

static void *slow_room(void *ctx, size_t size)
{
    struct slow *slow = ctx;

    if (size)
        test_sleep(slow->wait);
    return slow->bytes;
}

TEST_CASE(waits_for_room)
{
    struct http_server *s = web_start();
    struct slow *slow = calloc(1, sizeof(*slow));
    hr_source got = objects(s, 0);
    struct hr__source *inside = hr__source_of(got);
    struct http_object *o = &s->objects[s->num_objects - 8];
    struct hr__reading r = {sizeof(slow->bytes), slow_room, slow, NULL, false};
    struct hr_encoded to = {0};

    // More than is on its way when the wait ends.
    free(o->data);
    o->data = calloc(1, o->size = sizeof(slow->bytes));

    inside->http->params.deadline_ms = 1500;
    slow->wait = 1600 * TEST_MS;
    CHECK(!hr__source_kind(inside, 0)->read(inside, 0, &r, &to) &&
              to.size == o->size,
          "%s", hr_last_error());
    free(slow);
    hr_source_close(&got);
    http_server_stop(s);
}

// ---- Lists and indexes -----------------------------------------------------

static char *large(size_t size)
{
    char *made = malloc(size);

    memset(made, 'a', size);
    return made;
}

// A file with an endless line is no list, on disk as well.
TEST_CASE(long_lines)
{
    enum { SIZE = 40 << 20 };
    struct http_server *s = web_start();
    hr_source got = web_quick(NULL);
    char *text = large(SIZE);
    struct bytes b = {(uint8_t *)text, 20000};

    http_server_put(s, "/d/l.txt", text, SIZE);
    for (int zero = 0; zero < 2; zero++) {
        atomic_store(&s->requests, 0);
        CHECK(hr_source_add_list(got, web_at(s, "/d/l.txt?secret"), zero) ==
                      HR_EINVAL &&
                  strstr(hr_last_error(), "/d/l.txt: line 1 is too long") &&
                  atomic_load(&s->requests) == 1,
              "%d: %s", atomic_load(&s->requests), hr_last_error());
        CHECK(hr_source_add_list(got, test_file(&b, ".txt"), zero) == HR_EINVAL,
              "%s", hr_last_error());
    }
    // An entry that is too long, but a line, is a fault that hides its query.
    snprintf(text + 6000, 100, "?secret\nb.jpg\n");
    http_server_put(s, "/d/m.txt", text, strlen(text));
    CHECK(!hr_source_add_list(got, web_at(s, "/d/m.txt"), false) &&
              got->num == 1 && got->num_faults == 1 &&
              !strstr(got->faults[0], "secret"),
          "%s: %s", got->num_faults ? got->faults[0] : "", hr_last_error());
    memcpy(text, "http://h/x?secret", 17);
    http_server_put(s, "/d/n.txt", text, strlen(text));
    CHECK(!hr_source_add_list(got, web_at(s, "/d/n.txt"), false) &&
              got->num == 2 && got->num_faults == 2 &&
              !strstr(got->faults[1], "secret"),
          "%s: %s", got->num_faults ? got->faults[1] : "", hr_last_error());
    free(text);
    hr_source_close(&got);
    http_server_stop(s);
}

// A header that says that all behind it is an index.
static struct bytes all_index(size_t size, uint64_t num)
{
    struct bytes b = {calloc(1, size), size};
    struct pack_header h;

    pack_header_init(&h);
    h.num = htole64(num);
    h.bytes = htole64(size);
    h.index = htole64(64);
    h.sum = htole64(pack_header_sum(&h));
    memcpy(b.data, &h, sizeof(h));
    return b;
}

TEST_CASE(claims)
{
    enum { SIZE = 64 << 20 };
    struct http_server *s = web_start();
    hr_source got = hr_source_create();
    struct bytes b = all_index(SIZE, SIZE / 100);

    hr_source_set_http(got, hr_http_params(.index_bytes = SIZE));
    http_server_put(s, "/d/i.hrp", b.data, b.size);
    // Nothing but zeros: the first piece says so.
    CHECK(hr_source_add(got, web_at(s, "/d/i.hrp")) == HR_ECORRUPT &&
              atomic_load(&s->requests) <= 2,
          "%d requests: %s", atomic_load(&s->requests), hr_last_error());
    hr_source_close(&got);
    got = hr_source_create();
    hr_source_set_http(got, hr_http_params(.index_bytes = SIZE / 2));
    atomic_store(&s->requests, 0);
    CHECK(hr_source_add(got, web_at(s, "/d/i.hrp")) == HR_ELIMIT &&
              strstr(hr_last_error(), "index_bytes") &&
              atomic_load(&s->requests) == 1,
          "%d requests: %s", atomic_load(&s->requests), hr_last_error());
    CHECK(hr_source_add_list(got, web_at(s, "/d/i.hrp"), true) == HR_ELIMIT &&
              strstr(hr_last_error(), "index_bytes"),
          "%s", hr_last_error());
    CHECK(!hr_source_add(got, web_at(s, "/d/x.hrp")) &&
              !hr_source_add_list(got, web_at(s, "/d/list.txt"), false),
          "%s", hr_last_error());
    free(b.data);
    hr_source_close(&got);
    http_server_stop(s);
}

// ---- The end of adding -----------------------------------------------------

struct adding {
    hr_source source;
    const char *urls[3];
    int way;
    enum hr_status status;
    atomic_int done;  // status is there
};

static void *add(void *ctx)
{
    struct adding *a = ctx;

    a->status = a->way == 0   ? hr_source_add(a->source, a->urls[0])
                : a->way == 1 ? hr_source_add_list(a->source, a->urls[1], false)
                              : hr_source_add_all(a->source, a->urls, 3);
    return NULL;
}

// Another thread ends it.
TEST_CASE(stopped)
{
    struct http_server *s = web_start();

    for (int way = 0; way < 3; way++) {
        struct adding a = {.source = hr_source_create(), .way = way};
        struct hr_encoded to = {0};
        pthread_t thread;

        for (int i = 0; i < 3; i++)
            a.urls[i] = web_at(s, i == 1 ? "/d/list.txt" : web_shards[i]);
        s->fault = NULL;
        CHECK(!hr_source_add(a.source, web_at(s, "/d/x.rec")), "%s",
              hr_last_error());
        s->fault = web_always;
        s->which = HTTP_STALL;
        atomic_store(&s->requests, 0);
        pthread_create(&thread, NULL, add, &a);
        CHECK(test_reaches(&s->requests, 1), "no request came");
        hr_source_stop(a.source);
        pthread_join(thread, NULL);
        CHECK(a.status == HR_ECANCELED, "way %d: %d", way, a.status);
        s->fault = NULL;
        CHECK(hr_source_add(a.source, a.urls[0]) == HR_ECANCELED &&
                  hr_source_add_list(a.source, web_set.list, false) ==
                      HR_ECANCELED &&
                  a.source->num == WEB_N &&
                  !hr_source_read(a.source, 3, 0, &to),
              "%s", hr_last_error());
        hr_encoded_finish(&to);
        hr_source_close(&a.source);
    }
    hr_source_stop(NULL);
    http_server_stop(s);
}

TEST_CASE(in_time)
{
    struct http_server *s = web_start();

    s->fault = web_always;
    s->which = HTTP_STALL;
    for (int way = 0; way < 3; way++) {
        struct adding a = {.source = hr_source_create(), .way = way};

        for (int i = 0; i < 3; i++)
            a.urls[i] = web_at(s, i == 1 ? "/d/list.txt" : web_shards[i]);
        hr_source_set_http(a.source, hr_http_params(.deadline_ms = 1000000,
                                                    .add_ms = 100));
        add(&a);
        CHECK(a.status == HR_ETIMEDOUT, "way %d: %d, %s", way, a.status,
              hr_last_error());
        hr_source_close(&a.source);
    }
    http_server_stop(s);
}

// ---- Connections -----------------------------------------------------------

static void *read_one(void *ctx)
{
    struct adding *a = ctx;
    auto_encoded to = {0};

    a->status = hr_source_read(a->source, 0, 0, &to);
    atomic_store(&a->done, 1);
    return NULL;
}

// A reader that waits for another reader's connection ends without it.
TEST_CASE(no_connection)
{
    struct http_server *s = web_start();
    auto_source got = hr_source_create();
    struct adding a = {.source = got, .status = HR_PENDING};
    struct hr_loader_stats stats = {0};
    hr_loader loader;
    pthread_t thread;

    hr_source_set_http(got, hr_http_params(.connections = 1,
                                           .deadline_ms = 1000000));
    CHECK(!hr_source_add(got, web_at(s, "/d/x.tar")), "%s", hr_last_error());
    s->fault = web_always;
    s->which = HTTP_STALL;
    atomic_store(&s->requests, 0);
    pthread_create(&thread, NULL, read_one, &a);
    CHECK(test_reaches(&s->requests, 1), "no request came");
    loader = reader(got, 0);
    while (loader && (hr_loader_stats(loader, &stats), !stats.reading))
        test_sleep(TEST_MS);
    test_sleep(5 * TEST_MS);
    hr_loader_destroy(&loader);
    CHECK(!atomic_load(&a.done), "it waited for another reader");
    s->fault = NULL;
    http_server_stop(s);
    pthread_join(thread, NULL);
}

TEST_MAIN(web_main)
