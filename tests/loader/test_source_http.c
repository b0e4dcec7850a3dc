// SPDX-License-Identifier: Apache-2.0
// Sources by HTTP(S): the same samples as of local files, from nginx and from a
// server that cuts, stalls, lies and fails. Each sample comes once, or what
// became of it is named; nobody else's bytes come, and no header goes astray.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hal/base/base.h"
#include "http_server.h"
#include "loader_data.h"
#include "loader/source_http.h"
#include "nginx.h"
#include "shard_data.h"

enum { N = 40 };

// The data, on disk and on the server.
static struct set {
    hr_source folder;
    const char *dir, *tar, *rec, *pack;
    char list[4200];
} set;

static void make_set(void)
{
    FILE *f;
    char name[4200];

    if (set.folder)
        return;
    set.dir = data_folder(N, test_seed);
    set.folder = hr_source_open(set.dir);
    set.tar = shard_tar(set.folder);
    set.rec = shard_rec(set.folder);
    set.pack = data_pack(set.dir);
    snprintf(set.list, sizeof(set.list), "%s/list.txt", set.dir);
    f = fopen(set.list, "w");
    for (uint64_t i = 0; i < N; i++)
        fprintf(f, "%s\t%s\n", hr_source_name(set.folder, i, name, 4200),
                hr_source_label(set.folder, i));
    fclose(f);
}

static struct http_server *start(void)
{
    struct http_server *s = http_server_start();

    make_set();
    http_server_put_file(s, "/d/x.tar", set.tar);
    http_server_put_file(s, "/d/x.rec", set.rec);
    http_server_put_file(s, "/d/x.hrp", set.pack);
    http_server_put_file(s, "/d/list.txt", set.list);
    return s;
}

// Retries come at once.
static hr_source quick(const char *header)
{
    hr_source s = hr_source_create();
    const char *const headers[] = {header, NULL};

    CHECK(s && !hr_source_set_http(s, hr_http_params(.backoff_ms = 1,
                                                     .deadline_ms = 8000,
                                                     .headers = headers)),
          "%s", hr_last_error());
    return s;
}

static const char *at(const struct http_server *s, const char *path)
{
    static char url[8][256];
    static int num;
    char *made = url[num++ % 8];

    snprintf(made, sizeof(url[0]), "%s%s", s->url, path);
    return made;
}

// Number of samples that are not those of `want`, bytes, names, labels.
static int differing(hr_source got, hr_source want)
{
    struct hr_encoded a = {0}, b = {0};
    char name[2][4200];
    int bad = got->num != want->num;

    for (uint64_t i = 0; i < got->num && i < want->num; i++)
        bad += hr_source_read(got, i, 0, &a) ||
               hr_source_read(want, i, 0, &b) || a.size != b.size ||
               memcmp(a.data, b.data, a.size) ||
               strcmp(hr_source_name(got, i, name[0], 4200),
                      hr_source_name(want, i, name[1], 4200)) ||
               strcmp(hr_source_label(got, i), hr_source_label(want, i)) ||
               hr_source_class(got, i) != hr_source_class(want, i) ||
               hr_source_is_file(got, i);
    hr_encoded_finish(&a);
    hr_encoded_finish(&b);
    return bad;
}

static const char *const shards[] = {"/d/x.tar", "/d/x.rec", "/d/x.hrp"};

static hr_source local(int shard)
{
    return hr_source_open(shard == 0   ? set.tar
                          : shard == 1 ? set.rec
                                       : set.pack);
}

// All forms, from url. Whoever is the server.
static void check_forms_of(hr_source (*make)(const char *), const char *with,
                           const char *url)
{
    char text[512];

    for (int i = 0; i < 3; i++) {
        hr_source want = local(i), got = make(with);

        snprintf(text, sizeof(text), "%s%s?key=secret", url, shards[i]);
        CHECK(got && !hr_source_add(got, text) && !got->num_faults, "%s: %s",
              text, hr_last_error());
        CHECK(!differing(got, want), "%s: %s", text, hr_last_error());
        CHECK(hr_source_identity(got) == hr_source_identity(want), "%s", text);
        hr_source_close(&got);
        hr_source_close(&want);
    }
}

static void check_forms(hr_source (*make)(const char *), const char *url)
{
    check_forms_of(make, NULL, url);
}

static void forms(void)
{
    struct http_server *s = start();

    check_forms(quick, s->url);
    CHECK(atomic_load(&s->connections) <= 6, "%d connections for %d requests",
          atomic_load(&s->connections), atomic_load(&s->requests));
    http_server_stop(s);
}

// ---- Faults ----------------------------------------------------------------

// Each third request has it.
static enum http_fault each_third(struct http_server *s, int n,
                                  const char *path)
{
    (void)path;
    return n % 3 == 1 ? s->which : HTTP_GOOD;
}

static enum http_fault always(struct http_server *s, int n, const char *path)
{
    (void)n, (void)path;
    return s->which;
}

// (A 404, a change, another size: those are no passing matter.)
static void passing(void)
{
    static const enum http_fault faults[] = {
        HTTP_CUT, HTTP_EMPTY,       HTTP_GARBAGE,     HTTP_500,
        HTTP_503, HTTP_OTHER_RANGE, HTTP_TWO_LENGTHS, HTTP_LONG,
    };
    struct http_server *s = start();

    s->fault = each_third;
    for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++)
        for (int i = 0; i < 3; i++) {
            hr_source want = local(i), got = quick(NULL);

            s->which = faults[k];
            CHECK(!hr_source_add(got, at(s, shards[i])), "fault %d: %s",
                  (int)faults[k], hr_last_error());
            CHECK(!differing(got, want), "fault %d, %s: %s", (int)faults[k],
                  shards[i], hr_last_error());
            hr_source_close(&got);
            hr_source_close(&want);
        }
    http_server_stop(s);
}

// What is wrong each time is an error that says so.
static void lasting(void)
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
    };
    struct http_server *s = start();
    uint8_t *large = calloc(1, 1 << 20);

    http_server_put(s, "/d/large.tar", large, 1 << 20);
    free(large);
    s->fault = always;
    for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++) {
        hr_source got = quick(NULL);
        enum hr_status status;

        s->which = faults[k].fault;
        atomic_store(&s->requests, 0);
        status = hr_source_add(got, at(s, "/d/large.tar?secret"));
        CHECK(status == faults[k].status &&
                  strstr(hr_last_error(), faults[k].text) &&
                  strstr(hr_last_error(), s->url) &&
                  !strstr(hr_last_error(), "secret"),
              "fault %d: %d, %s", (int)faults[k].fault, status,
              hr_last_error());
        CHECK(got->num == 0, "something was added");
        CHECK(atomic_load(&s->requests) <= 7, "%d requests",
              atomic_load(&s->requests));
        hr_source_close(&got);
    }
    http_server_stop(s);
}

// The same when the object is open: samples have errors, and no other bytes.
static void later(void)
{
    static const enum http_fault faults[] = {
        HTTP_CHANGED, HTTP_SHRUNK,   HTTP_404,
        HTTP_WHOLE,   HTTP_NO_TOTAL, HTTP_500,
    };
    struct http_server *s = start();
    struct hr_encoded to = {0};

    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++) {
            hr_source got = quick(NULL);
            int read = 0;

            s->fault = NULL;
            CHECK(!hr_source_add(got, at(s, shards[i])), "%s", hr_last_error());
            s->which = faults[k];
            s->fault = always;
            atomic_store(&s->requests, 0);
            for (uint64_t j = 0; j < got->num; j += 13)
                read += !hr_source_read(got, j, 0, &to);
            CHECK(!read && strstr(hr_last_error(), shards[i]), "%d: %d, %s",
                  (int)faults[k], read, hr_last_error());
            if (faults[k] <= HTTP_SHRUNK && faults[k] >= HTTP_CHANGED)
                CHECK(strstr(hr_last_error(), "changed while it was open"),
                      "%s", hr_last_error());
            // Only what may pass is asked for again.
            CHECK(atomic_load(&s->requests) ==
                      (faults[k] == HTTP_500 ? 6 : 1) * (N + 12) / 13,
                  "fault %d: %d requests", (int)faults[k],
                  atomic_load(&s->requests));
            hr_source_close(&got);
        }
    hr_encoded_finish(&to);
    http_server_stop(s);
}

// ---- Time ------------------------------------------------------------------

static void check_late(struct http_server *s, enum http_fault fault,
                       int deadline_ms)
{
    hr_source got = hr_source_create();
    int64_t begun = hr__now(), took;
    enum hr_status status;

    s->fault = always;
    s->which = fault;
    hr_source_set_http(got, hr_http_params(.deadline_ms = deadline_ms));
    status = hr_source_add(got, at(s, "/d/x.tar"));
    took = (hr__now() - begun) / TEST_MS;
    CHECK(status == HR_ETIMEDOUT && strstr(hr_last_error(), "/d/x.tar: "),
          "fault %d: %d, %s", (int)fault, status, hr_last_error());
    CHECK(took >= deadline_ms / 4 && took < deadline_ms + 1500, "%d ms",
          (int)took);
    hr_source_close(&got);
}

static enum http_fault first_stalls(struct http_server *s, int n,
                                    const char *path)
{
    (void)s, (void)path;
    return n ? HTTP_GOOD : HTTP_STALL;
}

static void deadlines(void)
{
    struct http_server *s = start();
    hr_source got = hr_source_create();

    check_late(s, HTTP_STALL, 900);
    check_late(s, HTTP_SLOW, 900);
    check_late(s, HTTP_500, 900);
    // A try that stands still leaves time for another.
    s->fault = first_stalls;
    atomic_store(&s->requests, 0);
    hr_source_set_http(got, hr_http_params(.deadline_ms = 20000));
    CHECK(!hr_source_add(got, at(s, "/d/x.rec")) && got->num == N, "%s",
          hr_last_error());
    hr_source_close(&got);
    http_server_stop(s);
}

// Of each wait at least the half, by a draw of which all depends.
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
    CHECK(hr_source_add(got, at(s, "/d/x.tar")) == want, "%s", hr_last_error());
    hr_source_close(&got);
    return (hr__now() - begun) / TEST_MS;
}

// 40 + 80 + 160 ms, of each at least the half.
static void backoff(void)
{
    struct http_server *s = start();
    int64_t ms;

    check_draws();
    s->fault = always;
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

// ---- Where headers go ------------------------------------------------------

static enum http_fault lead(struct http_server *s, int n, const char *path)
{
    (void)s, (void)n;
    return !strncmp(path, "/r/", 3) ? HTTP_REDIRECT : HTTP_GOOD;
}

static void redirects(void)
{
    static const char *const bad[] = {
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "gopher://127.0.0.1/",
        "http://a:b@127.0.0.1/d/x.tar",
        "",
        "/r/again",
    };
    struct http_server *s = start(), *other = start();
    hr_source got;
    char url[512];

    s->fault = other->fault = lead;
    s->redirect = "/d/x.tar";
    got = quick("X-Key: secret");
    CHECK(!hr_source_add(got, at(s, "/r/x.tar")) && got->num == N, "%s",
          hr_last_error());
    CHECK(atomic_load(&s->keyed) == atomic_load(&s->requests), "%d of %d",
          atomic_load(&s->keyed), atomic_load(&s->requests));
    // There and back again: it stays without.
    snprintf(url, sizeof(url), "%s/r/back", other->url);
    s->redirect = url;
    other->redirect = at(s, "/d/x.rec");
    atomic_store(&s->requests, 0);
    atomic_store(&s->keyed, 0);
    CHECK(!hr_source_add(got, at(s, "/r/x.rec")) && got->num == 2 * N, "%s",
          hr_last_error());
    CHECK(atomic_load(&other->requests) && !atomic_load(&other->keyed) &&
              2 * atomic_load(&s->keyed) == atomic_load(&s->requests),
          "%d, %d of %d", atomic_load(&other->keyed), atomic_load(&s->keyed),
          atomic_load(&s->requests));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        s->redirect = bad[i];
        atomic_store(&s->requests, 0);
        CHECK(hr_source_add(got, at(s, "/r/y.tar")) == HR_EIO &&
                  (strstr(hr_last_error(), "it leads ") ||
                   strstr(hr_last_error(), "too often")),
              "%s: %s", bad[i], hr_last_error());
        CHECK(atomic_load(&s->requests) <= 6, "%d", atomic_load(&s->requests));
    }
    hr_source_close(&got);
    http_server_stop(s);
    http_server_stop(other);
}

// ---- Lists and pictures ----------------------------------------------------

static void put_pictures(struct http_server *s, int n)
{
    static char paths[8][64];
    char path[4200];

    for (int i = 0; i < n; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/d/%%20%d/a%d.jpg", i % 2, i);
        hr_source_path(set.folder, (uint64_t)i, path, sizeof(path));
        http_server_put_file(s, paths[i], path);
    }
}

static void check_listed(hr_source got, uint64_t i, const char *name,
                         const char *label, int of)
{
    struct hr_encoded a = {0}, b = {0};
    char text[4200];

    CHECK(!strchr(hr_source_path(got, i, text, sizeof(text)), '?'), "%s", text);
    CHECK(!strcmp(hr_source_name(got, i, text, sizeof(text)), name), "%s",
          text);
    CHECK(!strcmp(hr_source_label(got, i), label), "%s",
          hr_source_label(got, i));
    CHECK(!hr_source_read(got, i, 0, &a) &&
              !hr_source_read(set.folder, (uint64_t)of, 0, &b) &&
              a.size == b.size && !memcmp(a.data, b.data, a.size),
          "%s: %s", text, hr_last_error());
    hr_encoded_finish(&a);
    hr_encoded_finish(&b);
}

static enum http_fault chunked_pictures(struct http_server *s, int n,
                                        const char *path)
{
    (void)n;
    return strstr(path, ".jpg") ? s->which : HTTP_GOOD;
}

static void lists(void)
{
    struct http_server *s = start(), *other = start();
    hr_source got = quick("X-Key: secret"), file = quick(NULL);
    struct hr_encoded to = {0};
    char text[2048], name[4200];
    struct bytes b = {.data = (uint8_t *)text};

    put_pictures(s, 3);
    put_pictures(other, 3);
    snprintf(text, sizeof(text),
             " 0/a0.jpg\tcat\n/d/%%201/a1.jpg?x=/../../y\n%s/d/%%200/a2.jpg\n"
             "/etc/passwd\n../../etc/passwd\nhttp://u:p@h/x.jpg\nhttp:///x\n",
             other->url);
    b.size = strlen(text);
    http_server_put(s, "/d/l.txt", text, b.size);
    s->fault = chunked_pictures;
    CHECK(!hr_source_add_list(got, at(s, "/d/l.txt"), false) && got->num == 5 &&
              got->num_faults == 2,
          "%d, %d: %s", (int)got->num, (int)got->num_faults, hr_last_error());
    for (s->which = HTTP_GOOD; s->which <= HTTP_CHUNKED;
         s->which += HTTP_CHUNKED) {
        atomic_store(&other->keyed, 0);
        check_listed(got, 0, " 0/a0.jpg", "cat", 0);
        check_listed(got, 1, "a1.jpg", "", 1);
        check_listed(got, 2, "a2.jpg", "", 2);
        CHECK(!atomic_load(&other->keyed), "the other host got the header");
    }
    CHECK(hr_source_read(got, 3, 0, &to) == HR_EIO &&
              strstr(hr_last_error(), "status 404"),
          "a list of the web names a file: %s", hr_last_error());
    CHECK(hr_source_read(got, 4, 0, &to) == HR_EIO &&
              !strstr(hr_source_name(got, 4, name, sizeof(name)), ".."),
          "%s", name);
    // A list on disk may name URLs, a URL may name a picture.
    snprintf(text, sizeof(text), "%s/d/%%200/a0.jpg\tdog\n", s->url);
    b.size = strlen(text);
    CHECK(!hr_source_add_list(file, test_file(&b, ".txt"), false) &&
              !hr_source_add(file, at(s, "/d/%201/a1.jpg")) && file->num == 2,
          "%s", hr_last_error());
    check_listed(file, 0, "a0.jpg", "dog", 0);
    check_listed(file, 1, "a1.jpg", "%201", 1);
    CHECK(hr_source_read(file, 0, 100, &to) == HR_ELIMIT, "%s",
          hr_last_error());
    CHECK(hr_source_add(file, s->url) == HR_EINVAL, "%s", hr_last_error());
    hr_encoded_finish(&to);
    hr_source_close(&got);
    hr_source_close(&file);
    http_server_stop(s);
    http_server_stop(other);
}

// A list as long as some windows, and cut now and then.
static void long_list(void)
{
    struct http_server *s = start();
    hr_source got = quick(NULL);
    size_t size = 0;
    char *text = malloc(64 * 30000);

    for (int i = 0; i < 30000; i++)
        size += (size_t)sprintf(text + size, "n%05d/some-file-%d.jpg\tn%05d\n",
                                i % 700, i, i % 700);
    http_server_put(s, "/d/long.txt", text, size);
    CHECK(!hr_source_add_list(got, at(s, "/d/long.txt"), false) &&
              atomic_load(&s->requests) <= 3,
          "%d requests: %s", atomic_load(&s->requests), hr_last_error());
    hr_source_close(&got);
    got = quick(NULL);
    s->fault = each_third;
    s->which = HTTP_CUT;
    CHECK(!hr_source_add_list(got, at(s, "/d/long.txt"), false) &&
              got->num == 30000,
          "%d: %s", (int)got->num, hr_last_error());
    CHECK(!strcmp(hr_source_label(got, 29999), "n00599"), "%s",
          hr_source_label(got, 29999));
    s->which = HTTP_CHANGED;
    CHECK(hr_source_add_list(got, at(s, "/d/long.txt"), false) == HR_EIO &&
              strstr(hr_last_error(), "changed while") && got->num == 30000,
          "%d: %s", (int)got->num, hr_last_error());
    free(text);
    hr_source_close(&got);
    http_server_stop(s);
}

// Files that are larger than a window, with what is passed over.
static hr_source large_folder(const size_t *sizes, int n)
{
    const char *dir = test_folder();
    uint64_t x = test_seed | 1;
    char path[4200];

    for (int i = 0; i < n; i++) {
        size_t size = sizes[i % 10];
        uint8_t *data = malloc(size);

        for (size_t k = 0; k < size; k++)
            data[k] = (uint8_t)((x = x * 6364136223846793005u + 1) >> 56);
        snprintf(path, sizeof(path), "%s/%03d.jpg", dir, i);
        test_write(path, data, size);
        free(data);
    }
    return hr_source_open(dir);
}

static enum http_fault second_fails(struct http_server *s, int n,
                                    const char *path)
{
    (void)s, (void)path;
    return n ? HTTP_404 : HTTP_GOOD;
}

static void windows(void)
{
    struct http_server *s = start();
    static const size_t sizes[] = {60000, 200000, 5000000, 10,  300000,
                                   70000, 1,      900000,  512, 65536};
    hr_source folder = large_folder(sizes, 10);
    const char *const files[] = {shard_tar(folder), shard_rec(folder)};
    const char *const names[] = {"/l.tar", "/l.rec"};

    for (int i = 0; i < 2; i++) {
        hr_source want = hr_source_open(files[i]), got = quick(NULL);

        http_server_put_file(s, names[i], files[i]);
        s->fault = NULL;
        atomic_store(&s->requests, 0);
        CHECK(!hr_source_add(got, at(s, names[i])) && got->num == 10, "%s",
              hr_last_error());
        CHECK(atomic_load(&s->requests) < 12, "%d requests",
              atomic_load(&s->requests));
        s->fault = each_third;
        s->which = HTTP_CUT;
        CHECK(!hr_source_add(got, at(s, names[i])) && got->num == 20, "%s",
              hr_last_error());
        hr_source_close(&got);
        got = quick(NULL);
        CHECK(!hr_source_add(got, at(s, names[i])) && !got->num_faults &&
                  !differing(got, want),
              "%s: %s", names[i], hr_last_error());
        // What is not to be had is no damage of the file.
        s->fault = second_fails;
        atomic_store(&s->requests, 0);
        CHECK(hr_source_add(got, at(s, names[i])) == HR_EIO &&
                  strstr(hr_last_error(), "status 404") && got->num == 10 &&
                  !got->num_faults,
              "%s: %s", names[i], hr_last_error());
        hr_source_close(&got);
        hr_source_close(&want);
    }
    hr_source_close(&folder);
    http_server_stop(s);
}

// ---- With a loader ---------------------------------------------------------

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

static hr_loader open_loader(hr_source s, enum hr_on_error on_error,
                             bool shuffle)
{
    hr_loader loader = hr_loader_create(
        hr_loader_params(.source = s, .ops = data_ops, .num_ops = DATA_OPS,
                         .batch = 8, .shuffle = shuffle, .seed = test_seed,
                         .epochs = 10, .on_error = on_error));

    CHECK(loader, "%s", hr_last_error());
    return loader;
}

static void deliver(struct http_server *s, int shard, bool shuffle)
{
    hr_source want = local(shard), got = quick(NULL);
    struct data_seen a = {0}, b = {0};
    hr_loader loader;

    s->fault = one_percent;
    CHECK(!hr_source_add(got, at(s, shards[shard])), "%s", hr_last_error());
    atomic_store(&s->requests, 0);
    loader = open_loader(got, HR_ON_ERROR_FAIL, shuffle);
    CHECK(!data_drain(&a, loader, 0), "%s", hr_last_error());
    hr_loader_destroy(&loader);
    // Each sample is asked for, unless one request brings its neighbours, too.
    CHECK(shuffle ? atomic_load(&s->requests) > 9 * N
                  : atomic_load(&s->requests) < 5 * N,
          "%s: %d requests", shards[shard], atomic_load(&s->requests));
    loader = open_loader(want, HR_ON_ERROR_FAIL, shuffle);
    CHECK(!data_drain(&b, loader, 0), "%s", hr_last_error());
    hr_loader_destroy(&loader);
    CHECK(a.num == 10 * N && data_seen_same(&a, 0, &b), "%d samples",
          (int)a.num);
    data_seen_finish(&a);
    data_seen_finish(&b);
    hr_source_close(&got);
    hr_source_close(&want);
}

static void delivered(void)
{
    struct http_server *s = start();

    s->seed = test_seed;
    for (int i = 0; i < 6; i++)
        deliver(s, i / 2, i % 2);
    http_server_stop(s);
}

// One thread, in order: a few requests. Two sources side by side, and one that
// fails in between: the same bytes.
static void neighbours(void)
{
    struct http_server *s = start();
    hr_source want = local(0), got = quick(NULL);
    struct hr_encoded a = {0}, b = {0};

    CHECK(!hr_source_add(got, at(s, "/d/x.tar")) &&
              !hr_source_add(got, at(s, "/d/x.rec")),
          "%s", hr_last_error());
    atomic_store(&s->requests, 0);
    for (int turn = 0; turn < 3; turn++)
        for (uint64_t i = 0; i < N; i++) {
            if (turn == 1 && !i) {
                s->which = HTTP_404;
                s->fault = always;
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
            CHECK(turn || i < N - 1 || atomic_load(&s->requests) <= 5,
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
    struct http_server *s = start();
    hr_source folder = large_folder(sizes, 120);
    const char *tar = shard_tar(folder);
    pthread_t threads[8];

    http_server_put_file(s, "/c.tar", tar);
    crowd = (struct crowd){.want = hr_source_open(tar), .got = quick(NULL)};
    CHECK(!hr_source_add(crowd.got, at(s, "/c.tar")) && crowd.got->num == 120,
          "%s", hr_last_error());
    for (int turn = 0; turn < test_loops(10); turn++) {
        atomic_store(&crowd.next, 0);
        s->fault = turn % 2 ? each_third : NULL;
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

// What does not come is named, and the rest is there.
static void named(void)
{
    struct http_server *s = start();
    hr_source got = quick(NULL);
    hr_loader loader;
    hr_loaded step;
    int bad = 0, good = 0;

    CHECK(!hr_source_add(got, at(s, "/d/x.tar")), "%s", hr_last_error());
    s->fault = each_third;
    s->which = HTTP_404;
    loader = open_loader(got, HR_ON_ERROR_ZERO, true);
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
static void ended(void)
{
    struct http_server *s = start();
    hr_source got = hr_source_create();
    hr_loader loader;
    int64_t begun;

    CHECK(!hr_source_add(got, at(s, "/d/x.tar")), "%s", hr_last_error());
    s->fault = always;
    for (int i = 0; i < 2; i++) {
        s->which = i ? HTTP_503 : HTTP_STALL;
        atomic_store(&s->requests, 0);
        loader = open_loader(got, HR_ON_ERROR_FAIL, true);
        CHECK(test_reaches(&s->requests, 8), "nobody asked");
        begun = hr__now();
        hr_loader_destroy(&loader);
        CHECK(hr__now() - begun < 3000 * TEST_MS, "%d ms",
              (int)((hr__now() - begun) / TEST_MS));
    }
    hr_source_close(&got);
    http_server_stop(s);
}

// ---- nginx -----------------------------------------------------------------

// The data once more, under the names that the server of the test has.
static const char *served(void)
{
    const char *dir = test_folder();
    const char *const from[] = {set.tar, set.rec, set.pack, set.list};
    const char *const to[] = {"x.tar", "x.rec", "x.hrp", "list.txt"};
    char path[4300];

    snprintf(path, sizeof(path), "%s/d", dir);
    mkdir(path, 0755);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/d/%s", dir, to[i]);
        if (symlink(from[i], path))
            abort();
    }
    return dir;
}

static hr_source trusting(const char *certificate)
{
    hr_source s = hr_source_create();

    CHECK(s && !hr_source_set_http(s, hr_http_params(.retries = -1,
                                                     .ca_file = certificate)),
          "%s", hr_last_error());
    return s;
}

static void nginx(void)
{
    struct nginx n;
    char why[256], url[256];
    hr_source got;

    make_set();
    if (!nginx_start(&n, served(), why)) {
        test_not_run(why);
        return;
    }
    check_forms(quick, n.http);
    if (*n.late)
        check_forms(quick, n.late);
    else
        test_not_run("late answers: nginx has no echo module here");
    if (!*n.https) {
        test_not_run("https: openssl made no certificate");
    } else {
        check_forms_of(trusting, n.certificate, n.https);
        got = trusting(NULL);
        snprintf(url, sizeof(url), "%s/d/x.tar", n.https);
        CHECK(hr_source_add(got, url) == HR_EIO &&
                  strstr(hr_last_error(), "certificate"),
              "%s", hr_last_error());
        hr_source_close(&got);
        got = trusting(n.certificate);
        snprintf(url, sizeof(url), "%s/down/x.tar", n.https);
        CHECK(hr_source_add(got, url) == HR_EIO &&
                  strstr(hr_last_error(), "out of https"),
              "%s", hr_last_error());
        hr_source_close(&got);
    }
    nginx_stop(&n);
    got = quick(NULL);
    snprintf(url, sizeof(url), "%s/d/x.tar", n.http);
    CHECK(hr_source_add(got, url) == HR_EIO &&
              strstr(hr_last_error(), "6 tries"),
          "%s", hr_last_error());
    hr_source_close(&got);
}

// Photos, where the tests have some; else pictures of their size.
static const char *photo_tar(void)
{
    const char *photos = HR_SOURCE_DIR "/../shared/corpus/photos/"
                                       "imagenet-sample";
    const char *dir = test_folder(), *tar;
    hr_source source = hr_source_open(photos);
    uint64_t seed = test_seed;

    for (int i = 0; !source && i < 200; i++) {
        char path[4300];
        struct bytes b = test_jpeg(500, 375, &seed);

        snprintf(path, sizeof(path), "%s/%d.jpg", dir, i);
        test_write(path, b.data, b.size);
        free(b.data);
    }
    if (!source && !(source = hr_source_open(dir)))
        abort();
    tar = shard_tar(source);
    hr_source_close(&source);
    return tar;
}

// Samples of a second; processor time is added to *cpu.
static double rate(hr_source s, int epochs, bool shuffle, double *cpu)
{
    static const struct hr_op ops[] = {
        HR_OP_DECODE(0), HR_OP_RANDOM_RESIZED_CROP(.w = 224, .h = 224),
        HR_OP_RANDOM_FLIP(.horizontal = .5),
        HR_OP_NORMALIZE(.mean = {.485f, .456f, .406f},
                        .std = {.229f, .224f, .225f})};
    int64_t begun = hr__now(), used = test_clock(CLOCK_PROCESS_CPUTIME_ID);
    hr_loader loader = hr_loader_create(
        hr_loader_params(.source = s, .ops = ops, .num_ops = 4,
                         .shuffle = shuffle, .seed = test_seed,
                         .epochs = epochs));
    hr_loaded step;
    int n = 0;

    while (loader && !hr_loader_next(loader, HR_FOREVER, &step) && step) {
        n += step->n - step->failed;
        hr_loaded_release(&step);
    }
    hr_loader_destroy(&loader);
    *cpu += (double)(test_clock(CLOCK_PROCESS_CPUTIME_ID) - used) / 1e9;
    CHECK(n == epochs * (int)s->num, "%d: %s", n, hr_last_error());
    return n * 1e9 / (double)(hr__now() - begun);
}

static double clock_of(pid_t pid)
{
    clockid_t clock;

    return clock_getcpuclockid(pid, &clock) ? 0
                                            : (double)test_clock(clock) / 1e9;
}

static void compare_rates(const struct nginx *n, hr_source files, hr_source web,
                          bool shuffle)
{
    int rounds = getenv("HEADRACE_TEST_LONG") ? 9 : 1;
    int epochs = rounds > 1 ? 4 : 1;
    double ratios[9], best[2] = {0}, cpu[2] = {0}, server = clock_of(n->pid);

    for (int i = 0; i < rounds; i++) {
        double a = rate(files, epochs, shuffle, &cpu[0]);
        double b = rate(web, epochs, shuffle, &cpu[1]);

        best[0] = a > best[0] ? a : best[0];
        best[1] = b > best[1] ? b : best[1];
        ratios[i] = b / a;
        for (int k = i; k && ratios[k] < ratios[k - 1]; k--) {
            double t = ratios[k];

            ratios[k] = ratios[k - 1];
            ratios[k - 1] = t;
        }
    }
    printf("%s: %.0f of %.0f img/s (best); ratio %.3f (%.3f to %.3f); "
           "processor time %.2f of %.2f s, nginx %.2f s\n",
           shuffle ? "shuffled" : "in order", best[1], best[0],
           ratios[rounds / 2], ratios[0], ratios[rounds - 1], cpu[1], cpu[0],
           clock_of(n->pid) - server);
    CHECK(TEST_SANITIZED || ratios[rounds - 1] > .3, "reads one by one?");
}

// Each answer 20 ms late, against local files, by turns.
static void late(void)
{
    struct nginx n;
    char why[256] = "late answers: nginx has no echo module here", url[256];
    const char *tar = photo_tar(), *slash = strrchr(tar, '/');
    char folder[4200];
    hr_source files, web = hr_source_create();

    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - tar), tar);
    if (!nginx_start(&n, folder, why) || !*n.late) {
        test_not_run(why);
    } else {
        snprintf(url, sizeof(url), "%s%s", n.late, slash);
        files = hr_source_open(tar);
        CHECK(files && !hr_source_add(web, url) && web->num == files->num, "%s",
              hr_last_error());
        compare_rates(&n, files, web, true);
        compare_rates(&n, files, web, false);
        hr_source_close(&files);
    }
    hr_source_close(&web);
    nginx_stop(&n);
}

// ---- Odds and ends ---------------------------------------------------------

static void limits(void)
{
    struct http_server *s = start();
    hr_source got = hr_source_create();
    static const char *const bad[] = {"no header", NULL};
    static const char *const split[] = {"A: b\r\nHost: c", NULL};

    CHECK(hr_source_set_http(got, hr_http_params(.connections = 257)) &&
              hr_source_set_http(got, hr_http_params(.retries = -2)) &&
              hr_source_set_http(got, hr_http_params(.headers = bad)) &&
              hr_source_set_http(got, hr_http_params(.headers = split)) &&
              hr_source_set_http(got, NULL) &&
              hr_source_set_http(NULL, hr_http_params(0)),
          "nothing of that can be set");
    CHECK(!hr_source_set_http(got, hr_http_params(.max_bytes = 4000)), "%s",
          hr_last_error());
    CHECK(hr_source_set_http(got, hr_http_params(0)) == HR_EINVAL, "twice");
    CHECK(hr_source_add(got, at(s, "/d/x.tar")) == HR_ELIMIT &&
              strstr(hr_last_error(), "larger than the limit"),
          "%s", hr_last_error());
    CHECK(hr_source_add(got, "http://u:secret@127.0.0.1/x.tar") == HR_EINVAL,
          "%s", hr_last_error());
    CHECK(hr_source_add(got, "https:///x.tar") == HR_EINVAL, "%s",
          hr_last_error());
    http_server_put(s, "/empty.tar", "", 0);
    http_server_put(s, "/empty.rec", "", 0);
    http_server_put(s, "/empty.hrp", "", 0);
    http_server_put(s, "/text.hrp", "something else", 14);
    CHECK(!hr_source_add(got, at(s, "/empty.rec")) && !got->num, "%s",
          hr_last_error());
    CHECK(hr_source_add(got, at(s, "/empty.hrp")) == HR_EFORMAT, "%s",
          hr_last_error());
    CHECK(hr_source_add(got, at(s, "/text.hrp")) == HR_EFORMAT, "%s",
          hr_last_error());
    hr_source_close(&got);
    http_server_stop(s);
}

// Of a damaged pack file: what a local one says; of a picture that was kept as
// it was, its checksum.
static void damaged(void)
{
    struct http_server *s = start();
    struct http_object *pack = &s->objects[2];
    hr_source got = quick(NULL);

    for (size_t i = 0; i < 64; i += 7) {
        http_server_flip(s, pack, (ssize_t)i);
        CHECK(hr_source_add(got, at(s, "/d/x.hrp")), "byte %d", (int)i);
        http_server_flip(s, pack, (ssize_t)i);
    }
    for (size_t i = 1; i < 3000; i += 211) {
        http_server_flip(s, pack, (ssize_t)(pack->size - i));
        CHECK(hr_source_add(got, at(s, "/d/x.hrp")) == HR_ECORRUPT, "%s",
              hr_last_error());
        http_server_flip(s, pack, (ssize_t)(pack->size - i));
    }
    http_server_resize(s, pack, pack->size - 64);
    CHECK(hr_source_add(got, at(s, "/d/x.hrp")) == HR_ETRUNCATED, "%s",
          hr_last_error());
    http_server_resize(s, pack, pack->size + 64);
    CHECK(!hr_source_add(got, at(s, "/d/x.hrp")) && got->num == N, "%s",
          hr_last_error());
    hr_source_close(&got);
    http_server_stop(s);
}

static void sums(void)
{
    static const char picture[] = "not a picture, but kept as it is";
    char path[4200];
    struct http_server *s = start();
    struct http_object *pack;
    struct hr_encoded to = {0};
    hr_source got = quick(NULL);
    hr_pack_writer w;

    snprintf(path, sizeof(path), "%s/kept.hrp", test_folder());
    w = hr_pack_writer_open(path);
    CHECK(w &&
              !hr_pack_writer_add(
                  w, &(struct hr_pack_entry){.name = "a",
                                             .label = "7",
                                             .data = picture,
                                             .size = sizeof(picture)}) &&
              !hr_pack_writer_finish(w),
          "%s", hr_last_error());
    hr_pack_writer_close(&w);
    http_server_put_file(s, "/k.hrp", path);
    pack = &s->objects[s->num_objects - 1];
    CHECK(!hr_source_add(got, at(s, "/k.hrp")), "%s", hr_last_error());
    CHECK(!hr_source_class(got, 0), "a packed label is a name, not %d",
          (int)hr_source_class(got, 0));
    CHECK(!hr_source_read(got, 0, 0, &to) && to.size == sizeof(picture) &&
              !memcmp(to.data, picture, to.size),
          "%s", hr_last_error());
    http_server_flip(s, pack,
                     (uint8_t *)memmem(pack->data, pack->size, picture,
                                       sizeof(picture)) -
                         pack->data);
    CHECK(hr_source_read(got, 0, 0, &to) == HR_ECORRUPT &&
              strstr(hr_last_error(), "checksum"),
          "%s", hr_last_error());
    hr_encoded_finish(&to);
    hr_source_close(&got);
    http_server_stop(s);
}

static void forked(void)
{
    struct http_server *s = start();
    hr_source got = quick(NULL);
    int status = 0;
    pid_t child;

    CHECK(!hr_source_add(got, at(s, "/d/x.tar")), "%s", hr_last_error());
    if (!(child = fork())) {
        struct hr_encoded to = {0};

        _exit(hr_source_read(got, 0, 0, &to) == HR_EFORK ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%d", status);
    hr_source_close(&got);
    http_server_stop(s);
}

static void no_memory(void)
{
    struct http_server *s = start();
    bool done = false;
    int nth;

    for (nth = 1; nth < 200 && !done; nth++) {
        struct hr_encoded to = {0};
        hr_source got;

        hr__test_fail_alloc(nth, false);
        got = hr_source_create();
        done = got && !hr_source_add(got, at(s, shards[nth % 3])) &&
               !hr_source_read(got, 3, 0, &to);
        hr__test_fail_alloc(0, false);
        CHECK(done || hr_last_status() == HR_ENOMEM, "%d: %s", nth,
              hr_last_error());
        hr_encoded_finish(&to);
        hr_source_close(&got);
    }
    CHECK(done && nth > 10, "%d", nth);
    http_server_stop(s);
}

static const struct test_case cases[] = {
    TEST_CASE(forms),     TEST_CASE(passing),   TEST_CASE(lasting),
    TEST_CASE(later),     TEST_CASE(deadlines), TEST_CASE(backoff),
    TEST_CASE(redirects), TEST_CASE(lists),     TEST_CASE(long_list),
    TEST_CASE(windows),   TEST_CASE(delivered), TEST_CASE(neighbours),
    TEST_CASE(crowds),    TEST_CASE(named),     TEST_CASE(ended),
    TEST_CASE(nginx),     TEST_CASE(late),      TEST_CASE(limits),
    TEST_CASE(damaged),   TEST_CASE(sums),      TEST_CASE(forked),
    TEST_CASE(no_memory),
};

int main(int argc, char **argv)
{
    // A proxy of the user's is not for the loopback.
    setenv("no_proxy", "127.0.0.1,localhost", 1);
    hr_source probe = hr_source_create();
    int result;

    if (probe && hr_source_set_http(probe, hr_http_params(0))) {
        test_not_run(hr_last_error());
        return TEST_NOT_RUN;
    }
    hr_source_close(&probe);
    result = test_main("source_http", cases, sizeof(cases) / sizeof(*cases),
                       argc, argv);
    hr_source_close(&set.folder);
    return result;
}
