// SPDX-License-Identifier: Apache-2.0
// Sources by HTTP: the same samples as of local files, in all their forms;
// lists and pictures; headers go to no other host; damaged files and large
// ones.
#include <sys/wait.h>

#include "hal/base/base.h"
#include "loader/source/source.h"
#include "loader_data.h"
#include "shard_data.h"
#include "web_data.h"

enum { N = WEB_N };

TEST_CASE(forms)
{
    struct http_server *s = web_start();

    web_check_forms(web_quick, NULL, s->url);
    CHECK(atomic_load(&s->connections) <= 6, "%d connections for %d requests",
          atomic_load(&s->connections), atomic_load(&s->requests));
    http_server_stop(s);
}

// Many threads read the file once it is indexed; its window is freed.
TEST_CASE(cifar)
{
    struct http_server *s = web_start();
    uint8_t *data = malloc(N * 3073);
    struct bytes b = {data, N * 3073};
    hr_source got = web_quick(NULL), want = hr_source_create();

    for (size_t i = 0; i < b.size; i++)
        data[i] = i % 3073 ? (uint8_t)(i * 7 ^ i >> 8)
                           : (uint8_t)(i / 3073 % 10);
    http_server_put(s, "/d/x.bin", data, b.size);
    CHECK(!hr_source_add_cifar(want, test_file(&b, ".bin"), HR_CIFAR10) &&
              !hr_source_add_cifar(got, web_at(s, "/d/x.bin"), HR_CIFAR10) &&
              got->num == N,
          "%s", hr_last_error());
    CHECK(!hr__source_of(got)->shards[0].web->window, "the window stays");
    CHECK(!web_differing(got, want), "%s", hr_last_error());
    free(data);
    hr_source_close(&got);
    hr_source_close(&want);
    http_server_stop(s);
}

// ---- Where headers go ------------------------------------------------------

static enum http_fault lead(struct http_server *s, int n, const char *path)
{
    (void)s, (void)n;
    return !strncmp(path, "/r/", 3) ? HTTP_REDIRECT : HTTP_GOOD;
}

TEST_CASE(redirects)
{
    static const char *const bad[] = {
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "gopher://127.0.0.1/",
        "http://a:b@127.0.0.1/d/x.tar",
        "",
        "/r/again",
    };
    struct http_server *s = web_start(), *other = web_start();
    hr_source got;
    char url[512];

    s->fault = other->fault = lead;
    s->redirect = "/d/x.tar";
    got = web_quick("X-Key: secret");
    CHECK(!hr_source_add(got, web_at(s, "/r/x.tar")) && got->num == N, "%s",
          hr_last_error());
    CHECK(atomic_load(&s->keyed) == atomic_load(&s->requests), "%d of %d",
          atomic_load(&s->keyed), atomic_load(&s->requests));
    // There and back again: it stays without.
    snprintf(url, sizeof(url), "%s/r/back", other->url);
    s->redirect = url;
    other->redirect = web_at(s, "/d/x.rec");
    atomic_store(&s->requests, 0);
    atomic_store(&s->keyed, 0);
    CHECK(!hr_source_add(got, web_at(s, "/r/x.rec")) && got->num == 2 * N, "%s",
          hr_last_error());
    CHECK(atomic_load(&other->requests) && !atomic_load(&other->keyed) &&
              2 * atomic_load(&s->keyed) == atomic_load(&s->requests),
          "%d, %d of %d", atomic_load(&other->keyed), atomic_load(&s->keyed),
          atomic_load(&s->requests));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        s->redirect = bad[i];
        atomic_store(&s->requests, 0);
        CHECK(hr_source_add(got, web_at(s, "/r/y.tar")) == HR_EIO &&
                  (strstr(hr_last_error(), "it leads ") ||
                   strstr(hr_last_error(), "too often")),
              "%s: %s", bad[i], hr_last_error());
        CHECK(atomic_load(&s->requests) <= 6, "%d", atomic_load(&s->requests));
    }
    hr_source_close(&got);
    http_server_stop(s);
    http_server_stop(other);
}

// Asks first once and then elsewhere, until that does not answer well.
static atomic_int asked_first;
static atomic_bool is_over;

static enum http_fault lead_to_a(struct http_server *s, int n, const char *path)
{
    (void)s, (void)n;
    if (!strncmp(path, "/r/", 3)) {
        atomic_fetch_add(&asked_first, 1);
        return HTTP_REDIRECT;
    }
    return atomic_load(&is_over) && !strncmp(path, "/a/", 3) ? HTTP_404
                                                             : HTTP_GOOD;
}

// Reads each fifth, backwards: none is near the one before.
static int read_some(hr_source got, hr_source want)
{
    auto_encoded a = {0}, b = {0};
    int bad = 0;

    for (uint64_t i = N; i >= 5; i -= 5)
        bad += hr_source_read(got, i - 5, 0, &a) ||
               hr_source_read(want, i - 5, 0, &b) || a.size != b.size ||
               memcmp(a.data, b.data, a.size);
    return bad;
}

TEST_CASE(redirects_kept)
{
    struct http_server *s = web_start(), *other = web_start();
    hr_source got = web_quick("X-Key: secret"), want = web_local(0);
    char url[512];

    http_server_put_file(s, "/a/x.tar", web_set.tar);
    atomic_store(&is_over, false);
    atomic_store(&asked_first, 0);
    s->fault = lead_to_a;
    s->redirect = "/a/x.tar";
    CHECK(!hr_source_add(got, web_at(s, "/r/x.tar")) && !read_some(got, want),
          "%s", hr_last_error());
    CHECK(atomic_load(&asked_first) == 1 &&
              atomic_load(&s->keyed) == atomic_load(&s->requests),
          "%d times", atomic_load(&asked_first));
    // The redirect expires: the origin names a new place, on another host.
    snprintf(url, sizeof(url), "%s/d/x.tar", other->url);
    s->redirect = url;
    atomic_store(&is_over, true);
    CHECK(!read_some(got, want) && atomic_load(&asked_first) == 2, "%d: %s",
          atomic_load(&asked_first), hr_last_error());
    CHECK(!atomic_load(&other->keyed) && atomic_load(&other->requests) == 8,
          "%d requests, the header went with %d", atomic_load(&other->requests),
          atomic_load(&other->keyed));
    // The other host is gone.
    http_server_stop(other);
    s->redirect = "/d/x.tar";
    CHECK(!read_some(got, want) && atomic_load(&asked_first) == 3, "%d: %s",
          atomic_load(&asked_first), hr_last_error());
    // The clock says that it is time.
    hr__source_of(got)->shards[0].web->place.until = hr__now();
    CHECK(!read_some(got, want) && atomic_load(&asked_first) == 4, "%d: %s",
          atomic_load(&asked_first), hr_last_error());
    hr_source_close(&got);
    hr_source_close(&want);
    http_server_stop(s);
}

// ---- Lists and pictures ----------------------------------------------------

static void put_pictures(struct http_server *s, int n)
{
    static char paths[8][64];
    char path[4200];

    for (int i = 0; i < n; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/d/%%20%d/a%d.jpg", i % 2, i);
        hr_source_path(web_set.folder, (uint64_t)i, path, sizeof(path));
        http_server_put_file(s, paths[i], path);
    }
}

static void check_listed(hr_source got, uint64_t i, const char *name,
                         const char *label, int of)
{
    auto_encoded a = {0}, b = {0};
    char text[4200];

    CHECK(!strchr(hr_source_path(got, i, text, sizeof(text)), '?'), "%s", text);
    CHECK(!strcmp(hr_source_name(got, i, text, sizeof(text)), name), "%s",
          text);
    CHECK(!strcmp(hr_source_item(got, i).label, label), "%s",
          hr_source_item(got, i).label);
    CHECK(!hr_source_read(got, i, 0, &a) &&
              !hr_source_read(web_set.folder, (uint64_t)of, 0, &b) &&
              a.size == b.size && !memcmp(a.data, b.data, a.size),
          "%s: %s", text, hr_last_error());
}

static enum http_fault chunked_pictures(struct http_server *s, int n,
                                        const char *path)
{
    (void)n;
    return strstr(path, ".jpg") ? s->which : HTTP_GOOD;
}

TEST_CASE(lists)
{
    struct http_server *s = web_start(), *other = web_start();
    hr_source got = web_quick("X-Key: secret"), file = web_quick(NULL);
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
    CHECK(!hr_source_add_list(got, web_at(s, "/d/l.txt"), false) &&
              got->num == 5 && got->num_faults == 2,
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
              !hr_source_add(file, web_at(s, "/d/%201/a1.jpg")) &&
              file->num == 2,
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
TEST_CASE(long_list)
{
    struct http_server *s = web_start();
    hr_source got = web_quick(NULL);
    size_t size = 0;
    char *text = malloc(64 * 30000);

    for (int i = 0; i < 30000; i++)
        size += (size_t)sprintf(text + size, "n%05d/some-file-%d.jpg\tn%05d\n",
                                i % 700, i, i % 700);
    http_server_put(s, "/d/long.txt", text, size);
    CHECK(!hr_source_add_list(got, web_at(s, "/d/long.txt"), false) &&
              atomic_load(&s->requests) <= 3,
          "%d requests: %s", atomic_load(&s->requests), hr_last_error());
    hr_source_close(&got);
    got = web_quick(NULL);
    s->fault = web_each_third;
    s->which = HTTP_CUT;
    CHECK(!hr_source_add_list(got, web_at(s, "/d/long.txt"), false) &&
              got->num == 30000,
          "%d: %s", (int)got->num, hr_last_error());
    CHECK(!strcmp(hr_source_item(got, 29999).label, "n00599"), "%s",
          hr_source_item(got, 29999).label);
    s->which = HTTP_CHANGED;
    atomic_store(&s->requests, 0);
    CHECK(hr_source_add_list(got, web_at(s, "/d/long.txt"), false) == HR_EIO &&
              strstr(hr_last_error(), "changed while") && got->num == 30000,
          "%d: %s", (int)got->num, hr_last_error());
    free(text);
    hr_source_close(&got);
    http_server_stop(s);
}

static enum http_fault second_fails(struct http_server *s, int n,
                                    const char *path)
{
    (void)s, (void)path;
    return n ? HTTP_404 : HTTP_GOOD;
}

TEST_CASE(windows)
{
    struct http_server *s = web_start();
    static const size_t sizes[] = {60000, 200000, 5000000, 10,  300000,
                                   70000, 1,      900000,  512, 65536};
    hr_source folder = web_large_folder(sizes, 10);
    const char *const files[] = {shard_tar(folder), shard_rec(folder)};
    const char *const names[] = {"/l.tar", "/l.rec"};

    for (int i = 0; i < 2; i++) {
        auto_source want = hr_source_open(files[i]), got = web_quick(NULL);

        http_server_put_file(s, names[i], files[i]);
        s->fault = NULL;
        atomic_store(&s->requests, 0);
        CHECK(!hr_source_add(got, web_at(s, names[i])) && got->num == 10, "%s",
              hr_last_error());
        CHECK(atomic_load(&s->requests) < 12, "%d requests",
              atomic_load(&s->requests));
        s->fault = web_each_third;
        s->which = HTTP_CUT;
        CHECK(!hr_source_add(got, web_at(s, names[i])) && got->num == 20, "%s",
              hr_last_error());
        hr_source_close(&got);
        got = web_quick(NULL);
        CHECK(!hr_source_add(got, web_at(s, names[i])) && !got->num_faults &&
                  !web_differing(got, want),
              "%s: %s", names[i], hr_last_error());
        // An object that cannot be had is no damage of the file.
        s->fault = second_fails;
        atomic_store(&s->requests, 0);
        CHECK(hr_source_add(got, web_at(s, names[i])) == HR_EIO &&
                  strstr(hr_last_error(), "status 404") && got->num == 10 &&
                  !got->num_faults,
              "%s: %s", names[i], hr_last_error());
    }
    hr_source_close(&folder);
    http_server_stop(s);
}

// ---- Odds and ends ---------------------------------------------------------

TEST_CASE(limits)
{
    struct http_server *s = web_start();
    hr_source got = hr_source_create();
    static const char *const agents[] = {"me\r\nX-Evil: 1", "me\nX", "\r"};
    static const char *const bad[] = {"no header", NULL};
    static const char *const split[] = {"A: b\r\nHost: c", NULL};

    CHECK(hr_source_set_http(got, hr_http_params(.connections = 257)) &&
              hr_source_set_http(got, hr_http_params(.retries = -2)) &&
              hr_source_set_http(got, hr_http_params(.headers = bad)) &&
              hr_source_set_http(got, hr_http_params(.headers = split)) &&
              hr_source_set_http(got, NULL) &&
              hr_source_set_http(NULL, hr_http_params(0)),
          "nothing of that can be set");
    for (int i = 0; i < 3; i++)
        CHECK(hr_source_set_http(got, hr_http_params(.user_agent = agents[i])),
              "agent %d", i);
    CHECK(!hr_source_set_http(got, hr_http_params(.max_bytes = 4000)), "%s",
          hr_last_error());
    CHECK(hr_source_set_http(got, hr_http_params(0)) == HR_EINVAL, "twice");
    CHECK(hr_source_add(got, web_at(s, "/d/x.tar")) == HR_ELIMIT &&
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
    CHECK(!hr_source_add(got, web_at(s, "/empty.rec")) && !got->num, "%s",
          hr_last_error());
    CHECK(hr_source_add(got, web_at(s, "/empty.hrp")) == HR_EFORMAT, "%s",
          hr_last_error());
    CHECK(hr_source_add(got, web_at(s, "/text.hrp")) == HR_EFORMAT, "%s",
          hr_last_error());
    hr_source_close(&got);
    http_server_stop(s);
}

// A damaged pack file gives the same errors as a local one; a picture kept as
// it was fails its checksum.
TEST_CASE(damaged)
{
    struct http_server *s = web_start();
    struct http_object *pack = &s->objects[2];
    hr_source got = web_quick(NULL);

    for (size_t i = 0; i < 64; i += 7) {
        http_server_flip(s, pack, (ssize_t)i);
        CHECK(hr_source_add(got, web_at(s, "/d/x.hrp")), "byte %d", (int)i);
        http_server_flip(s, pack, (ssize_t)i);
    }
    for (size_t i = 1; i < 3000; i += 211) {
        http_server_flip(s, pack, (ssize_t)(pack->size - i));
        CHECK(hr_source_add(got, web_at(s, "/d/x.hrp")) == HR_ECORRUPT, "%s",
              hr_last_error());
        http_server_flip(s, pack, (ssize_t)(pack->size - i));
    }
    http_server_resize(s, pack, pack->size - 64);
    CHECK(hr_source_add(got, web_at(s, "/d/x.hrp")) == HR_ETRUNCATED, "%s",
          hr_last_error());
    http_server_resize(s, pack, pack->size + 64);
    CHECK(!hr_source_add(got, web_at(s, "/d/x.hrp")) && got->num == N, "%s",
          hr_last_error());
    hr_source_close(&got);
    http_server_stop(s);
}

TEST_CASE(sums)
{
    static const char picture[] = "not a picture, but kept as it is";
    char path[4200];
    struct http_server *s = web_start();
    struct http_object *pack;
    struct hr_encoded to = {0};
    hr_source got = web_quick(NULL);
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
    CHECK(!hr_source_add(got, web_at(s, "/k.hrp")), "%s", hr_last_error());
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

// A status line is one that looks like one, and stands where one may stand.
TEST_CASE(status_lines)
{
    static const struct {
        const char *lines[6];
        int status;
        bool has_length;
    } answers[] = {
        {{"HTTP/1.1 206 Partial Content", "Content-Length: 3", ""}, 206, true},
        {{"HTTP/1.1 206 X", "Content-Length: 3", "HTTP/1.1: 200 OK", ""},
         206,
         true},
        {{"HTTP/1.1 206 X", "Content-Length: 3", "HTTP/1.1 200 OK", ""},
         206,
         true},
        {{"HTTP/1.1 206 X", "Content-Length: 3", "HTTP/x 200 OK", ""},
         206,
         true},
        {{"HTTP/1.1 100 Continue", "", "HTTP/1.1 200 OK", ""}, 200, false},
        {{"HTTP/1.1 103 X", "", "HTTP/1.1 103 X", "", "HTTP/1.0 404 No", ""},
         404,
         false},
        {{"HTTP/1.1 103 X", "", "HTTP/1.1: 404 No", "HTTP/1.1 200 X", ""},
         200,
         false},
        // (The lines of a trailer.)
        {{"HTTP/1.1 200 X", "Content-Length: 3", "", "HTTP/1.1 206 X", ""},
         200,
         true},
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        struct hr__http_answer a = {.status = 0};

        for (int k = 0; k < 6 && answers[i].lines[k]; k++)
            hr__http_answer_line(&a, answers[i].lines[k],
                                 strlen(answers[i].lines[k]));
        CHECK(a.status == answers[i].status && !a.bad && a.ended &&
                  a.has_length == answers[i].has_length,
              "answer %d: %d, %s", (int)i, a.status, a.bad ? a.bad : "");
    }
}

TEST_CASE(forked)
{
    struct http_server *s = web_start();
    hr_source got = web_quick(NULL);
    int status = 0;
    pid_t child;

    CHECK(!hr_source_add(got, web_at(s, "/d/x.tar")), "%s", hr_last_error());
    if (!(child = fork())) {
        struct hr_encoded to = {0};

        _exit(hr_source_read(got, 0, 0, &to) == HR_EFORK ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%d", status);
    hr_source_close(&got);
    http_server_stop(s);
}

TEST_CASE(no_memory)
{
    struct http_server *s = web_start();
    bool done = false;
    int nth;

    for (nth = 1; nth < 200 && !done; nth++) {
        auto_encoded to = {0};
        auto_source got = NULL;

        hr__test_fail_alloc(nth, false);
        got = hr_source_create();
        done = got && !hr_source_add(got, web_at(s, web_shards[nth % 3])) &&
               !hr_source_read(got, 3, 0, &to);
        hr__test_fail_alloc(0, false);
        CHECK(done || hr_last_status() == HR_ENOMEM, "%d: %s", nth,
              hr_last_error());
    }
    CHECK(done && nth > 10, "%d", nth);
    http_server_stop(s);
}

TEST_MAIN(web_main)
