// SPDX-License-Identifier: Apache-2.0
// Many shards at once: the same samples in the same order as one by one, side
// by side, and if some fail the error of the first.
#include "allowed.h"
#include "hal/base/base.h"
#include "loader/source/source.h"
#include "loader_data.h"
#include "web_data.h"

enum { SHARDS = 12 };

// Names sources of all kinds, on disk and on the server, with folders and
// pictures in between.
static void name_some(const char *paths[SHARDS], const struct http_server *s,
                      char urls[SHARDS][256], char picture[4200])
{
    const char *const local[] = {web_set.tar, web_set.rec, web_set.pack};

    hr_source_path(web_set.folder, 3, picture, 4200);
    for (int i = 0; i < SHARDS; i++) {
        snprintf(urls[i], 256, "%s%s?%d", s->url, web_shards[i % 3], i);
        paths[i] = i % 4 == 3 ? local[i % 3] : urls[i];
    }
    paths[2] = web_set.dir;
    paths[5] = picture;
}

// Number of samples that are not in both.
static int differing(hr_source a, hr_source b)
{
    auto_encoded x = {0}, y = {0};
    char name[2][4200];
    int bad = a->num != b->num;

    for (uint64_t i = 0; i < a->num && i < b->num; i++)
        bad += hr_source_read(a, i, 0, &x) || hr_source_read(b, i, 0, &y) ||
               x.size != y.size || memcmp(x.data, y.data, x.size) ||
               strcmp(hr_source_name(a, i, name[0], 4200),
                      hr_source_name(b, i, name[1], 4200)) ||
               strcmp(hr_source_item(a, i).label, hr_source_item(b, i).label) ||
               hr_source_class(a, i) != hr_source_class(b, i) ||
               strcmp(hr_source_path(a, i, name[0], 4200),
                      hr_source_path(b, i, name[1], 4200));
    return bad;
}

TEST_CASE(as_one_by_one)
{
    struct http_server *s = web_start();
    hr_source all = web_quick(NULL), each = web_quick(NULL);
    const char *paths[SHARDS];
    char urls[SHARDS][256], picture[4200];

    name_some(paths, s, urls, picture);
    CHECK(!hr_source_add_all(all, paths, SHARDS), "%s", hr_last_error());
    for (int i = 0; i < SHARDS; i++)
        CHECK(!hr_source_add(each, paths[i]), "%s", hr_last_error());
    CHECK(all->num == 11 * WEB_N + 1 && !differing(all, each), "%d samples: %s",
          (int)all->num, hr_last_error());
    CHECK(hr_source_identity(all) == hr_source_identity(each), "identity");
    // Behind what is there; nothing is nothing.
    CHECK(!hr_source_add_all(all, paths + 3, 2) &&
              !hr_source_add_all(all, paths, 0) && all->num == 13 * WEB_N + 1,
          "%d: %s", (int)all->num, hr_last_error());
    CHECK(hr_source_add_all(NULL, paths, 1) == HR_EINVAL &&
              hr_source_add_all(all, NULL, 1) == HR_EINVAL,
          "no source, no paths");
    hr_source_close(&all);
    hr_source_close(&each);
    http_server_stop(s);
}

// Files alone, but for a picture of the web in between: it is the caller's
// thread that opens the web, while others read the files. (No request is made.)
TEST_CASE(web_in_between)
{
    const char *paths[SHARDS];

    web_make_set();
    for (int i = 0; i < SHARDS; i++)
        paths[i] = i % 2 ? web_set.rec : web_set.tar;
    paths[1] = "http://127.0.0.1:9/d/picture.jpg";
    for (int i = 0; i < test_loops(20); i++) {
        auto_source all = hr_source_create();

        CHECK(!hr_source_add_all(all, paths, SHARDS) &&
                  all->num == (SHARDS - 1) * WEB_N + 1,
              "%d samples: %s", (int)all->num, hr_last_error());
    }
}

// Faults of all come in their order, and all are counted.
TEST_CASE(faults)
{
    const char *paths[6];
    auto_source all = hr_source_create(), each = hr_source_create();

    web_make_set();
    for (int i = 0; i < 6; i++) {
        struct bytes b = {0};

        if (!read_file(i % 2 ? web_set.tar : web_set.rec, &b))
            abort();
        b.size -= (size_t)(1200 + 100 * i);  // it ends in a sample
        paths[i] = test_file(&b, i % 2 ? ".tar" : ".rec");
        free(b.data);
        CHECK(!hr_source_add(each, paths[i]), "%s", hr_last_error());
    }
    CHECK(!hr_source_add_all(all, paths, 6) && all->num == each->num &&
              all->num_faults == each->num_faults && all->num_faults >= 6,
          "%d samples, %d faults", (int)all->num, (int)all->num_faults);
    for (size_t i = 0; i < all->num_fault_texts; i++)
        CHECK(!strcmp(all->faults[i], each->faults[i]), "%s, not %s",
              all->faults[i], each->faults[i]);
}

// ---- Side by side ----------------------------------------------------------

// Holds all answers until so many requests are in at the same time, or it is
// clear that they will not be.
static atomic_int asking, gate;
static atomic_bool apart;

static enum http_fault together(struct http_server *s, int n, const char *path)
{
    (void)s, (void)n, (void)path;
    atomic_fetch_add(&asking, 1);
    for (int i = 0; atomic_load(&asking) < atomic_load(&gate); i++) {
        if (i == 5000)
            atomic_store(&apart, true);
        if (atomic_load(&apart))
            break;
        test_sleep(TEST_MS);
    }
    return HTTP_GOOD;
}

TEST_CASE(side_by_side)
{
    struct http_server *s = web_start();
    hr_source all = web_quick(NULL);
    const char *paths[8];
    char urls[8][256];

    for (int i = 0; i < 8; i++) {
        snprintf(urls[i], sizeof(urls[i]), "%s/d/x.tar?%d", s->url, i);
        paths[i] = urls[i];
    }
    atomic_store(&asking, 0);
    atomic_store(&gate, 8);
    s->fault = together;
    CHECK(!hr_source_add_all(all, paths, 8) && all->num == 8 * WEB_N, "%s",
          hr_last_error());
    CHECK(!atomic_load(&apart), "one after another");
    hr_source_close(&all);
    http_server_stop(s);
}

// The third is not there and the others stall: those before it are waited for,
// those behind it are not.
static enum http_fault third_is_none(struct http_server *s, int n,
                                     const char *path)
{
    (void)s, (void)n;
    return !strcmp(path, "/none.tar")  ? HTTP_404
           : !strcmp(path, "/d/x.rec") ? HTTP_STALL
                                       : HTTP_GOOD;
}

TEST_CASE(first_that_fails)
{
    struct http_server *s = web_start();
    hr_source all = hr_source_create();
    const char *paths[10];
    char urls[10][256];
    int64_t begun = hr__now();

    for (int i = 0; i < 10; i++) {
        snprintf(urls[i], sizeof(urls[i]), "%s%s?%d", s->url,
                 i == 2   ? "/none.tar"
                 : i == 5 ? "/none5.tar"
                 : i > 2  ? "/d/x.rec"
                          : "/d/x.tar",
                 i);
        paths[i] = urls[i];
    }
    s->fault = third_is_none;
    CHECK(hr_source_add_all(all, paths, 10) == HR_EIO &&
              strstr(hr_last_error(), "/none.tar: ") &&
              strstr(hr_last_error(), "status 404"),
          "%s", hr_last_error());
    CHECK(!all->num && !hr__source_of(all)->num_shards, "%d samples",
          (int)all->num);
    CHECK(hr__now() - begun < test_allowed(5000 * TEST_MS), "%d ms",
          (int)((hr__now() - begun) / TEST_MS));
    // Sources that were taken back can be added.
    s->fault = NULL;
    CHECK(!hr_source_add_all(all, paths, 2) && all->num == 2 * WEB_N, "%s",
          hr_last_error());
    hr_source_close(&all);
    http_server_stop(s);
}

TEST_CASE(no_memory)
{
    struct http_server *s = web_start();
    const char *paths[SHARDS];
    char urls[SHARDS][256], picture[4200];
    bool done = false;

    name_some(paths, s, urls, picture);
    for (int nth = 1; nth < 1000 && !done; nth += 1 + nth / 8) {
        auto_source all = web_quick(NULL);

        hr__test_fail_alloc(nth, false);
        done = !hr_source_add_all(all, paths, 6);
        hr__test_fail_alloc(0, false);
        CHECK(done || (hr_last_status() == HR_ENOMEM && !all->num), "%d: %s",
              nth, hr_last_error());
    }
    CHECK(done, "it never ends");
    http_server_stop(s);
}

TEST_MAIN(web_main)
