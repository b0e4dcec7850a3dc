// SPDX-License-Identifier: Apache-2.0
// Files that a function of the program opens, hr_set_opener().
// tests/python/test_records.py has Parquet and Arrow files.
#include "loader/source/source.h"

#include <endian.h>

#include "loader_data.h"
#include "shard_data.h"
#include "web_data.h"

enum { N = 12 };

static struct opened {
    struct data_calls data;
    int open, closed, opens;  // files now, and so far
    const char *path, *image, *label;
    enum hr_status status;
    const char *why;
    bool numbers, no_labels, no_read, ranges;
    uint64_t begins[N + 1];
} it;

static const char *const classes[] = {"cat", "dog", "emu"};

static const char *label_of(void *ctx, uint64_t i)
{
    static const char *const numbers[] = {"7", "3", ""};

    CHECK(ctx == &it.data, "another context");
    return it.numbers ? numbers[i % 3] : classes[i % 2 ? 0 : 2];
}

static void close_it(void *ctx)
{
    CHECK(ctx == &it.data, "another context");
    it.open--;
    it.closed++;
}

// Sample WRONG has another length, and LOST no place.
enum { WRONG = 3, LOST = 5 };

static void range_of(void *ctx, uint64_t i, uint64_t *offset, uint64_t *size)
{
    CHECK(ctx == &it.data, "another context");
    *offset = it.begins[i];
    *size = i == LOST ? 0 : it.begins[i + 1] - it.begins[i];
}

static enum hr_status open_it(void *ctx, const char *path, const char *image,
                              const char *label, struct hr_opened *to,
                              char message[256])
{
    it.path = path;
    it.image = image;
    it.label = label;
    CHECK(ctx == &it, "another context");
    snprintf(message, 256, "%s", it.why ? it.why : "");
    if (it.status)
        return it.status;
    it.open++;
    it.opens++;
    *to = (struct hr_opened){.calls = it.data.calls, .close = close_it};
    to->label_of = it.no_labels ? NULL : label_of;
    if (!it.numbers && !it.no_labels) {
        to->classes = classes;
        to->num_classes = 3;
    }
    if (it.no_read)
        to->calls.read = NULL;
    if (it.ranges)
        to->range_of = range_of;
    return HR_OK;
}

static const struct hr_opener opener = {.ctx = &it, .open = open_it};

static void begin(void)
{
    it = (struct opened){0};
    data_calls_init(&it.data, N, test_seed);
    hr_set_opener(&opener);
}

static void end(void)
{
    hr_set_opener(NULL);
    CHECK(!it.open && it.closed == it.opens, "%d open, %d of %d closed",
          it.open, it.closed, it.opens);
    CHECK(it.data.lent == it.data.done, "%d lent, %d given back", it.data.lent,
          it.data.done);
    data_calls_finish(&it.data, N);
}

// A file called like this that begins like that.
static const char *file(const char *ending, const char *begin_of_it)
{
    struct shard m = {0};
    const char *path;

    shard_append(&m, begin_of_it, strlen(begin_of_it) + 1);
    shard_pad(&m, 64);
    path = shard_write(&m, ending);
    shard_finish(&m);
    return path;
}

static void expect_all(hr_source s, size_t from, const char *what)
{
    auto_encoded to = {0};

    for (size_t i = 0; i < N; i++) {
        const struct bytes *want = &it.data.files[i];

        CHECK(!hr_source_read(s, from + i, 0, &to) && to.size == want->size &&
                  !memcmp(to.data, want->data, to.size),
              "%s, sample %d: %s", what, (int)i, hr_last_error());
    }
}

// ---- What is opened --------------------------------------------------------

TEST_CASE(by_name_and_content)
{
    const char *const paths[] = {
        file(".parquet", "x"), file(".ARROW", "x"),
        file(".feather", "x"), file("", "PAR1"),
        file("", "ARROW1"),    file("", "12345678{\"header_size\":1"),
        file(".dat", "PAR1")};
    const char *other = file(".dat", "PAR2");
    hr_source s;

    begin();
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        s = hr_source_open(paths[i]);
        CHECK(s && s->num == N && it.path && !strcmp(it.path, paths[i]),
              "%s: %s", paths[i], hr_last_error());
        expect_all(s, 0, paths[i]);
        hr_source_close(&s);
    }
    s = hr_source_open(other);
    CHECK(s && s->num == 1 && it.opens == 7, "%s", other);
    hr_source_close(&s);
    end();
}

TEST_CASE(urls)
{
    char name[64];
    hr_source s;

    begin();
    s = hr_source_open("gs://bucket/a.parquet?secret=1");
    CHECK(s && s->num == N &&
              !strcmp(hr_source_path(s, 3, name, sizeof(name)),
                      "gs://bucket/a.parquet/00000003"),
          "%s", hr_last_error());
    hr_source_close(&s);
    s = hr_source_open("https://host/b.arrow?secret=1");
    CHECK(s && s->num == N &&
              !strcmp(hr_source_path(s, 0, name, sizeof(name)),
                      "https://host/b.arrow/00000000"),
          "%s", hr_last_error());
    hr_source_close(&s);
    CHECK(!hr_source_open("gs://bucket/a.tar") &&
              hr_last_status() == HR_EUNSUPPORTED,
          "%s", hr_last_error());
    end();
}

TEST_CASE(labels)
{
    const char *path = file(".parquet", "x");
    const char *const *list;
    hr_source s;
    size_t n;

    begin();
    s = hr_source_create();
    CHECK(!hr_source_set_fields(s, "scan", NULL) && !hr_source_add(s, path),
          "%s", hr_last_error());
    CHECK(it.image && !strcmp(it.image, "scan") && !it.label, "fields");
    list = hr_source_classes(s, &n);
    CHECK(n == 3 && !strcmp(list[1], "dog"), "%d classes", (int)n);
    CHECK(hr_source_class(s, 0) == 2 && hr_source_class(s, 1) == 0, "names");
    hr_source_close(&s);
    it.numbers = true;
    s = hr_source_open(path);
    CHECK(hr_source_class(s, 0) == 7 && hr_source_class(s, 1) == 3 &&
              hr_source_class(s, 2) == -1,
          "numbers");
    hr_source_close(&s);
    it.no_labels = true;
    s = hr_source_open(path);
    CHECK(hr_source_class(s, 0) == -1 && !*hr_source_item(s, 0).label, "none");
    hr_source_close(&s);
    end();
}

// Ranges of the file are read by the library, which closes what was opened.
TEST_CASE(ranges)
{
    struct shard m = {0};
    auto_encoded to = {0};
    const char *path;
    hr_source s;

    begin();
    it.ranges = true;
    for (int i = 0; i < N; i++) {
        const struct bytes *want = &it.data.files[i];
        uint64_t length = htole64(want->size + (i == WRONG));

        it.begins[i] = m.size;
        shard_append(&m, &length, sizeof(length));
        shard_append(&m, want->data, want->size);
    }
    it.begins[N] = m.size;
    path = shard_write(&m, ".mindrecord");
    s = hr_source_open(path);
    CHECK(s && s->num == N && !it.open, "%s", hr_last_error());
    for (size_t i = 0; s && i < N; i++) {
        const struct bytes *want = &it.data.files[i];
        enum hr_status status = hr_source_read(s, i, 0, &to);

        if (i == WRONG || i == LOST)
            CHECK(status == HR_ECORRUPT &&
                      strstr(hr_last_error(), i == LOST ? "was lost" : "long"),
                  "sample %d: %d %s", (int)i, status, hr_last_error());
        else
            CHECK(!status && to.size == want->size &&
                      !memcmp(to.data, want->data, to.size),
                  "sample %d: %s", (int)i, hr_last_error());
    }
    CHECK(hr_source_class(s, 0) == 2 && hr_source_class(s, 1) == 0, "names");
    hr_source_close(&s);
    shard_finish(&m);
    end();
}

// Beside others, some of which are opened by several threads.
TEST_CASE(beside_others)
{
    const char *folder = data_folder(8, test_seed);
    const char *paths[] = {file(".parquet", "x"), folder, file(".arrow", "x"),
                           file(".feather", "x")};
    auto_source s = hr_source_create();
    char name[4096];

    begin();
    CHECK(!hr_source_add_all(s, paths, 4) && s->num == 3 * N + 8, "%s",
          hr_last_error());
    expect_all(s, 0, "first");
    expect_all(s, N + 8, "second");
    expect_all(s, 2 * N + 8, "third");
    CHECK(strstr(hr_source_name(s, N + 9, name, sizeof(name)),
                 ".arrow/00000001"),
          "%s", name);
    hr_source_close(&s);
    end();
}

// ---- What fails ------------------------------------------------------------

TEST_CASE(without_an_opener)
{
    const char *path = file(".parquet", "x");

    CHECK(!hr_source_open(path) && hr_last_status() == HR_EUNSUPPORTED &&
              strstr(hr_last_error(), "python3 -m headrace"),
          "%s", hr_last_error());
    CHECK(!hr_source_open("https://host/a.parquet?secret=1") &&
              hr_last_status() == HR_EUNSUPPORTED &&
              !strstr(hr_last_error(), "secret"),
          "%s", hr_last_error());
    CHECK(!hr_source_open("gs://host/a.parquet") &&
              hr_last_status() == HR_EUNSUPPORTED,
          "%s", hr_last_error());
}

TEST_CASE(refused)
{
    const char *path = file(".parquet", "x");

    begin();
    it.status = HR_EINVAL;
    it.why = "no column";
    CHECK(!hr_source_open(path) && hr_last_status() == HR_EINVAL &&
              !strcmp(hr_last_error(), "no column"),
          "%s", hr_last_error());
    it.status = (enum hr_status)5;  // it is the program's
    it.why = NULL;
    CHECK(!hr_source_open(path) && hr_last_status() == HR_EIO, "%s",
          hr_last_error());
    it.status = HR_OK;
    it.no_read = true;
    CHECK(!hr_source_open(path) && hr_last_status() == HR_EINVAL && !it.open,
          "%s", hr_last_error());
    end();
}

// The others come.
TEST_CASE(samples_that_fail)
{
    static const uint8_t bad[] = {0, 1, 0};
    const char *path = file(".parquet", "x");
    auto_encoded to = {0};
    hr_source s;

    begin();
    it.data.bad = bad;
    it.data.num_bad = 3;
    s = hr_source_open(path);
    CHECK(hr_source_read(s, 1, 0, &to) && strstr(hr_last_error(), path) &&
              strstr(hr_last_error(), "sample 1: read"),
          "%s", hr_last_error());
    CHECK(!hr_source_read(s, 2, 0, &to), "%s", hr_last_error());
    CHECK(hr_source_read(s, 2, 10, &to) == HR_ELIMIT &&
              strstr(hr_last_error(), path),
          "%s", hr_last_error());
    it.data.path = "/none/cat.jpg";
    CHECK(hr_source_read(s, 2, 0, &to) == HR_EIO &&
              strstr(hr_last_error(), "cat.jpg"),
          "%s", hr_last_error());
    hr_source_close(&s);
    end();
}

TEST_CASE(stopped)
{
    auto_source source = hr_source_create();
    struct hr__source *s = hr__source_of(source);

    begin();
    atomic_store(&s->stopped, true);
    CHECK(!hr__container_opened.add(s, "a.parquet") &&
              hr_last_status() == HR_ECANCELED,
          "%s", hr_last_error());
    hr_source_close(&source);
    end();
}

TEST_CASE(no_memory)
{
    const char *const paths[] = {file(".parquet", "x"), file(".arrow", "x")};
    enum hr_status status = HR_ENOMEM;

    begin();
    for (int nth = 1; status && nth < 1000; nth++) {
        auto_source s = hr_source_create();

        hr__test_fail_alloc(nth, false);
        status = hr_source_add_all(s, paths, 2);
        hr__test_fail_alloc(0, false);
        CHECK(!status || (status == HR_ENOMEM && !s->num), "%d: %s", nth,
              hr_last_error());
    }
    CHECK(!status, "it never succeeds");
    end();
}

TEST_MAIN(data_main)
